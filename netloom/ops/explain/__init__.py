"""Explains a name: from the log of operations, the journal, the kernel, and the files that runtimes load."""
