"""Why something is as it is: from the log of operations, the journal, the kernel, and what runtimes load."""
