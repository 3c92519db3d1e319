"""What a trial's packets look like where the host's rules see them, and which rules of others stop them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...kernel import Namespace
from ...modes.table import TABLE
from ..doctor.verdicts import Chain, Packet, Ruleset
from .ends import End
from .host import way_out
from .trial import Trial

_FORWARDED = ("prerouting", "forward", "postrouting")


def stopping(ruleset: Sequence[Mapping[str, Any]], trial: Trial, host: Namespace) -> list[Chain]:
    """Chains of others that drop the question or its answer for sure, as far as reading them can tell."""
    rules = Ruleset(ruleset)
    seen = list(_seen(trial, host))
    return [
        chain
        for chain in rules.bases
        if not TABLE.is_at(chain.family, chain.table)
        and any(hook == chain.hook and chain.sees(it) and rules.drops(chain, it) for hook, it in seen)
    ]


def _seen(trial: Trial, host: Namespace) -> Iterator[tuple[str, Packet]]:
    """Hooks, and the packet there: on its way, and on its way back."""
    sender, receiver = trial.sender, trial.receiver
    if receiver is None:
        out = way_out(host, trial.family)
        there, target = out.link if out else "", trial.address
    else:
        there, target = receiver.host_link, receiver.addresses[trial.family]
    here, source = sender.host_link, sender.addresses[trial.family]
    one, other = ipaddress.ip_network(source), ipaddress.ip_network(target)
    yield from _at(sender, receiver, Packet(iif=here, oif=there, source=one, destination=other))
    back = Packet(iif=there, oif=here, source=other, destination=one, state="established")
    yield from _at(receiver, sender, back)


def _at(sender: End | None, receiver: End | None, packet: Packet) -> Iterator[tuple[str, Packet]]:
    """None is somebody outside."""
    if sender is not None and sender.is_host:
        hooks: tuple[str, ...] = ("output", "postrouting")
    elif receiver is not None and receiver.is_host:
        hooks = ("prerouting", "input")
    else:
        hooks = _FORWARDED
    for hook in hooks:
        iif = "" if hook in ("output", "postrouting") else packet.iif
        oif = "" if hook in ("prerouting", "input") else packet.oif
        yield (
            hook,
            Packet(
                iif=iif, oif=oif, source=packet.source, destination=packet.destination, state=packet.state
            ),
        )
