"""The commands: a page each. A module has `arguments`, which declares its options, and `run`."""
