"""A private place for measurements, so that nothing of the machine is touched.

The run gets its own network and mount namespace. /run is an empty tmpfs. Over /var/lib, where Go's cnitool
keeps its cache at a fixed path, a directory of the real disk is mounted: on tmpfs a durable write would cost
nothing. The mount covers /var/lib and not only /var/lib/cni, because that may not exist, and creating it
would touch the machine.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18

_RUN = Path("/run")
_VAR_LIB = Path("/var/lib")


def obstacle(checkout: Path) -> str:
    """Returns why there can be no private place here, or empty."""
    if os.geteuid() != 0:
        return "needs root, for private mount and network namespaces"
    for needed in (checkout.resolve(), Path(sys.base_prefix).resolve()):
        for covered in (_RUN, _VAR_LIB):
            if needed.is_relative_to(covered):
                return f"{needed} is needed, but would be hidden by a private {covered}"
    return ""


def enter(state: Path) -> None:
    """Moves this process, before it has threads, into namespaces of its own. `state` is on a real disk."""
    libc = ctypes.CDLL(None, use_errno=True)

    def require(result: int, what: str) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}")

    var_lib = state / "var-lib"
    var_lib.mkdir()
    require(libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET), "unshare")
    require(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "make mounts private")
    require(libc.mount(b"tmpfs", bytes(_RUN), b"tmpfs", 0, None), f"mount {_RUN}")
    require(libc.mount(bytes(var_lib), bytes(_VAR_LIB), None, _MS_BIND, None), f"mount {_VAR_LIB}")
