"""Who reaches whom: with a command that a runtime runs in a container, or from a namespace.

The kernel has one table of IPv6 neighbours for all namespaces of a machine, and for five seconds after
many links were made it may be full (`gc_thresh3`). So an address is tried for longer than that.
"""

from __future__ import annotations

from functools import partial

from netloom.cni.plugin import inside

from .commands import CommandFailed, eventually, output

PATIENCE = 10
_TRIES = """
try() {
    left=14
    until ping -c 1 -W 1 "$1"; do left=$((left - 1)); [ $left -gt 0 ]; sleep 0.5; done
}
"""


def pings(*addresses: str) -> tuple[str, ...]:
    """The command that fails unless all addresses answer."""
    return ("sh", "-ec", _TRIES + "\n".join(f"try {address}" for address in addresses))


def visits(port: int, *addresses: str) -> tuple[str, ...]:
    """The command that says, line by line, what is heard at a port of each address."""
    return ("sh", "-ec", "\n".join(f"nc -w 5 {address} {port}; echo" for address in addresses))


def ping(netns: str, *addresses: str, source: str = "") -> None:
    """Fails unless all addresses answer."""
    for address in addresses:
        assert eventually(partial(answers, netns, address, source), within=PATIENCE), address


def answers(netns: str, address: str, source: str = "", *, within: float = 5) -> bool:
    """Whether an address answers the first time that it is asked."""
    options = ["-I", source] if source else []
    with inside(netns):
        try:
            output(["ping", "-n", "-q", "-c", "1", "-W", str(within), *options, address])
        except CommandFailed:
            return False
    return True
