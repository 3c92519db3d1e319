"""The agent as a process, seen from outside: identifies, starts, calls and stops it."""
