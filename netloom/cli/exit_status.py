"""Exit statuses. Scripts rely on them; docs/reference/exit-status.md lists them."""

FAILED = 1
USAGE = 2
CONFIGURATION = 3
DEADLINE = 124
SIGNALLED = 128  # plus the signal's number
