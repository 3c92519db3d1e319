"""`netloom down` where a service manager runs the agent: it is told, or it would start another at once."""

from __future__ import annotations

from . import service_manager
from .agent_process import Place, holder
from .units import SERVICE, SOCKET
from .up_systemd import is_used


def stop_service(place: Place) -> int | None:
    """The process that was stopped; None if no service has the agent."""
    process = holder(place)
    unit = None if process is None else service_manager.unit_of(process)
    ours = [SOCKET, SERVICE] if is_used(place.state_dir) else []
    units = [*ours, *([unit] if unit is not None and unit not in ours else [])]
    if not units:
        return None
    service_manager.stop(units)
    return process if unit is not None else None


def disable_service(place: Place) -> bool:
    """It is started no more at boot. Whether there was one of ours."""
    if not is_used(place.state_dir):
        return False
    service_manager.systemctl("disable", SOCKET, SERVICE)
    return True


def forget_service() -> None:
    """The files of the units are gone, and systemd hears of it."""
    service_manager.systemctl("daemon-reload")
