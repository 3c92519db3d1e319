"""The agent as a process, seen from outside: who it is, starting it, asking it, stopping it."""
