"""The commands, one module each: `arguments` declares the options, `run` does the work."""
