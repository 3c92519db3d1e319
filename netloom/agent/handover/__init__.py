"""Upgrades without a failed call: the running agent passes its sockets and its journal to its successor."""
