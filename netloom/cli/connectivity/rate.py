"""How fast bytes of a TCP connection arrive, and whether that is what a limit says."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress

from msgspec import Struct

from .ends import End
from .failed import Failed, Skipped
from .report import Family
from .stream import Listener, connected

MISSED = "limit-missed"
# A burst comes first, at any speed; a slow sender takes longer to find its pace.
_WARM_UP = 0.4
_PACE = 5_000_000
_LONGEST_WARM_UP = 4.0
_MEASURED = 1.0
_TRIES = 3
# Headers count for the limit and not for us; a machine that has much to do may be slower than any limit.
_LEAST, _MOST = 0.7, 1.15
_PIECE = bytes(1 << 16)


class Limit(Struct, frozen=True):
    """Bits a second, and bits that may come at once."""

    rate: int
    burst: int = 0


def shown_rate(rate: float) -> str:
    """
    >>> shown_rate(50_000_000), shown_rate(1_250_000_000), shown_rate(64_000)
    ('50 Mbit/s', '1.25 Gbit/s', '64 kbit/s')
    """
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if rate >= size:
            return f"{rate / size:.3g} {unit}"
    return f"{rate:.0f} bit/s"


def measure(
    sender: End, receiver: End, family: Family, limit: Limit, patience: float, deadline: float
) -> tuple[float, str]:
    """Milliseconds that it took, and the rate. Raises `Failed` if that is not about the limit's."""
    begun = time.monotonic()
    warm_up = max(_WARM_UP + _PACE / limit.rate, _WARM_UP + 1.2 * limit.burst / limit.rate)
    if warm_up > _LONGEST_WARM_UP:
        raise Skipped(
            f"a limit of {shown_rate(limit.rate)} with bursts of {limit.burst} bits takes too long to measure"
        )
    measured: list[float] = []
    while len(measured) < _TRIES and (not measured or time.monotonic() + warm_up + _MEASURED < deadline):
        measured.append(_rate(sender, receiver, family, warm_up, patience))
        if _LEAST <= measured[-1] / limit.rate <= _MOST:
            return (
                time.monotonic() - begun
            ) * 1000, f"{shown_rate(measured[-1])} of {shown_rate(limit.rate)}"
    best = min(measured, key=lambda it: abs(it - limit.rate))
    how = "faster" if best > limit.rate else "slower"
    raise Failed(
        f"{shown_rate(best)}, which is {how} than the limit of {shown_rate(limit.rate)}", code=MISSED
    )


def _rate(sender: End, receiver: End, family: Family, warm_up: float, patience: float) -> float:
    address = receiver.addresses[family]
    with Listener.of(receiver, family) as listener:
        sending, receiving, _ = connected(
            sender.namespace, family, (address, listener.port), listener, patience
        )
    with sending, receiving:
        thread = threading.Thread(target=_send, args=(sending,), daemon=True)
        thread.start()
        try:
            _received(receiving, warm_up)
            return _received(receiving, _MEASURED)
        finally:
            for end in (receiving, sending):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            thread.join(patience)


def _send(sending: socket.socket) -> None:
    # It ends when the other side has hung up.
    with suppress(OSError):
        while True:
            sending.send(_PIECE)


def _received(receiving: socket.socket, seconds: float) -> float:
    """Bits a second, from now on."""
    begun, total = time.monotonic(), 0
    try:
        while (passed := time.monotonic() - begun) < seconds:
            chunk = receiving.recv(1 << 20)
            if not chunk:
                raise Failed("the connection ended")
            total += len(chunk)
    except TimeoutError:
        raise Failed("the connection stands still") from None
    except OSError as cause:
        raise Failed(f"the connection broke: {cause.strerror}") from None
    return total * 8 / passed
