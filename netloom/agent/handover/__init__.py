"""An upgrade without a failed call: the running agent hands its sockets and its journal to the next one."""
