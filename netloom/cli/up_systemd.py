"""`netloom up` where systemd runs the agent: units for this version, and an agent that is started by them.

The socket is the manager's, and open all the time: calls wait at it while one agent ends and the next begins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from ..ops.node.install import Put, read, receipt
from . import own_units
from .agent_process import Place, Running, answering
from .failure import CommandFailed
from .journal import explained, journal_path
from .service_manager import is_booted, require_booted, systemctl, unit_of
from .status import CONFIGURATION
from .units import SERVICE, SOCKET, paths
from .up_agent import AgentPart, Change, is_of_another, part, process_of


def is_used(state_dir: str) -> bool:
    """Whether an earlier `netloom up --systemd` has made this machine's systemd run the agent."""
    if not is_booted():
        return False
    known = receipt(state_dir).files
    return all(path in known and os.path.exists(path) for path in paths()) or own_units.are_left(state_dir)


def judge(place: Place, found: Running | None, *, force: bool) -> None:
    """Raises, before anything is changed, if systemd cannot run the agent, or somebody else decides of it."""
    require_booted()
    unit = None if found is None else unit_of(process_of(found))
    if unit not in (None, SERVICE):
        raise CommandFailed(
            f"the agent that runs belongs to {unit}, which somebody else has set up; nothing was done",
            f"`systemctl disable --now {unit}` first; or leave it so, and give --no-agent",
            code="agent-of-other-unit",
        )
    if not force:
        _require_ours(place)
    if found is not None and is_of_another(found.info):
        _require_readable(place)


def by_systemd(
    place: Place,
    found: Running | None,
    timeout: float,
    contents: Mapping[str, bytes],
    put: Callable[[str, bytes], Put],
) -> tuple[AgentPart, dict[str, Put]]:
    """What became of the agent, and of each unit. `contents` are theirs, by name."""
    unit = None if found is None else unit_of(process_of(found))
    is_old = found is not None and is_of_another(found.info)
    units = {path: put(path, contents[os.path.basename(path)]) for path in paths()}
    if set(units.values()) != {"kept"}:
        systemctl("daemon-reload")
        is_old = is_old or unit == SERVICE
        if found is None:  # one of theirs may serve all the same, at the socket that it had
            systemctl("stop", SERVICE, SOCKET)
    began = time.monotonic()
    change: Change = "started" if found is None else "kept"
    if found is not None and unit is None:
        _move(place)
        change = "replaced"
    elif is_old:
        systemctl("restart", SERVICE, said_by=SERVICE)
        change = "replaced"
    systemctl("enable", "--now", SOCKET, SERVICE, said_by=SERVICE)
    agent = answering(place, timeout, lambda: False)
    if agent is None:
        raise CommandFailed(
            f"systemd has started the agent, and it does not answer at {place.socket}",
            f"look at `systemctl status {SERVICE}` and `journalctl -u {SERVICE}`",
            code="agent-silent",
        )
    waited = (time.monotonic() - began) * 1000 if change == "replaced" else None
    return part(change, place, agent, waited), units


def _require_ours(place: Place) -> None:
    """What somebody else wrote, or has changed since, is theirs."""
    known = receipt(place.state_dir)
    for path in paths():
        try:
            there = read(path)
        except OSError as cause:
            raise CommandFailed(
                f"{path} cannot be read: {cause.strerror}; nothing was done",
                "move away what is in its place; or keep it, and give --no-agent",
                code="unit-foreign",
                status=CONFIGURATION,
            ) from None
        if there is not None and not own_units.is_ours(path, there, place.state_dir, known):
            raise CommandFailed(
                f"{path} was not written by `netloom up`, or was changed since; nothing was done",
                f"put what you need into a drop-in (`systemctl edit {os.path.basename(path)}`), and replace "
                "the file with --force; or keep it, and give --no-agent",
                code="unit-foreign",
                status=CONFIGURATION,
            )


def _require_readable(place: Place) -> None:
    from ..agent.handover.preflight import require_readable

    with explained():
        require_readable(journal_path(place.state_dir))


def _move(place: Place) -> None:
    """From an agent that belongs to nobody: calls wait at systemd's socket until the service's is there."""
    from ..agent.handover.displacement import displaced_by
    from ..agent.handover.succession import Refused
    from ..agent.settings import Settings

    settings = Settings(state_dir=place.state_dir, socket=place.socket)
    try:
        displaced_by(settings, lambda: systemctl("start", SOCKET))
    except Refused as error:
        raise CommandFailed(
            str(error), "stop it with `netloom down`, and try again", code="handover-refused"
        ) from None
