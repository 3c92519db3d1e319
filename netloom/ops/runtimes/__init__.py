"""Container runtimes on this machine: where they look for plugins and networks, and their results."""
