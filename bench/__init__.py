"""Measurements against real peers, in the same run on the same machine: `python -m bench`."""
