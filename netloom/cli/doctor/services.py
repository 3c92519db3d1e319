"""Services that manage links and routes, and have not been told to leave netloom's alone."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ...api.findings import Finding
from ...networks.names import PREFIX, QUEUE_PREFIX
from . import processes
from .ground import Ground
from .lines import lines

# Where systemd looks for settings, what counts most first; and what each is to be told.
_SYSTEMD = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd")
_WANTED = ("ManageForeignRoutes", "ManageForeignRoutingPolicyRules")
NETWORKD_DROP_IN = "/etc/systemd/networkd.conf.d/90-netloom.conf"
NETWORKD_CONTENT = "[Network]\n" + "".join(f"{it}=no\n" for it in _WANTED)

_NM = ("/usr/lib/NetworkManager", "/run/NetworkManager", "/etc/NetworkManager")
NM_DROP_IN = "/etc/NetworkManager/conf.d/90-netloom.conf"
_LINKS = tuple(f"interface-name:{prefix}*" for prefix in (PREFIX, QUEUE_PREFIX))
NM_CONTENT = f"[keyfile]\nunmanaged-devices+={';'.join(_LINKS)}\n"

# A link of ours, as names go.
_ONE = f"{PREFIX}0123456789a"
_NO = frozenset({"no", "false", "0", "off", "n", "f"})
_YES = frozenset({"yes", "true", "1", "on", "y", "t"})


def look(ground: Ground) -> Iterator[Finding]:
    del ground
    if processes.runs_here("systemd-networkd"):
        yield from _networkd()
    if processes.runs_here("NetworkManager"):
        yield from _network_manager()


def _networkd() -> Iterator[Finding]:
    said = dict(_settings(_systemd_files("networkd.conf"), "Network"))
    lacking = [it for it in _WANTED if said.get(it, "").lower() not in _NO]
    if lacking:
        yield Finding(
            code="networkd-interferes",
            severity="warning",
            subject="systemd-networkd",
            text="systemd-networkd runs, and may remove routes and rules that it has not made: "
            f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not set to no",
            next=f"write {NETWORKD_DROP_IN} with `[Network]` and "
            f"{', '.join(f'`{it}=no`' for it in _WANTED)}, and restart systemd-networkd",
            fix=f"write {NETWORKD_DROP_IN}; it counts when systemd-networkd is started again",
        )
    file = _file_for_our_links()
    if file:
        yield Finding(
            code="networkd-interferes",
            severity="warning",
            subject=file,
            text=f"systemd-networkd configures links of containers, since {file} matches their names",
            next=f"leave names that begin with {PREFIX} out of its `[Match]`, and run `networkctl reload`",
        )


def _systemd_files(name: str) -> list[str]:
    """The first main file, and then drop-ins by name; of two of a name, the one in the better place."""
    main = next((path for it in _SYSTEMD if os.path.exists(path := f"{it}/{name}")), None)
    drop_ins = {
        os.path.basename(path): path
        for directory in reversed(_SYSTEMD)
        for path in glob.glob(f"{directory}/{name}.d/*.conf")
    }
    return [*([main] if main else []), *(drop_ins[it] for it in sorted(drop_ins))]


def _file_for_our_links() -> str:
    """The first .network file that matches a link of ours, unless it leaves it alone."""
    files = {
        os.path.basename(path): path
        for directory in reversed(_SYSTEMD)
        for path in glob.glob(f"{directory}/network/*.network")
    }
    for name in sorted(files):
        if _matches(dict(_settings([files[name]], "Match"))):
            said = dict(_settings([files[name]], "Link"))
            return "" if said.get("Unmanaged", "").lower() in _YES else files[name]
    return ""


def _matches(match: dict[str, str]) -> bool:
    """Only by its name: whatever else is asked for may be so or not."""
    if set(match) - {"Name", "Type", "Kind", "Driver"} or "Name" not in match:
        return False
    if match.get("Type", "ether") != "ether" or match.get("Kind", "veth") != "veth":
        return False
    names = match["Name"].split()
    if names and names[0].startswith("!"):
        return not any(fnmatchcase(_ONE, it.lstrip("!")) for it in names)
    return any(fnmatchcase(_ONE, it) for it in names)


def _network_manager() -> Iterator[Finding]:
    files = [
        *glob.glob("/etc/NetworkManager/NetworkManager.conf"),
        *sorted((path for it in _NM for path in glob.glob(f"{it}/conf.d/*.conf")), key=os.path.basename),
    ]
    if any(_leaves_alone(value) for value in _unmanaged(files)):
        return
    yield Finding(
        code="networkmanager-interferes",
        severity="warning",
        subject="NetworkManager",
        text=f"NetworkManager runs, and has not been told to leave links named {PREFIX}* alone",
        next=f"write {NM_DROP_IN} with `[keyfile]` and `unmanaged-devices+={';'.join(_LINKS)}`, and run "
        "`systemctl reload NetworkManager`",
        fix=f"write {NM_DROP_IN}; it counts after `systemctl reload NetworkManager`",
    )


def _unmanaged(files: Iterable[str]) -> Iterator[str]:
    """Lists of devices that it does not manage, by either of the two ways to say so."""
    for path in files:
        for key, value in _settings([path], "keyfile"):
            if key.rstrip("+") == "unmanaged-devices":
                yield value
        for section in _sections(path):
            if section.startswith("device"):
                said = dict(_settings([path], section))
                if said.get("managed", "").lower() in _NO:
                    yield said.get("match-device", "")


def _leaves_alone(devices: str) -> bool:
    for it in devices.replace(",", ";").split(";"):
        kind, _, pattern = it.strip().partition(":")
        if it.strip() == "*" or (kind == "interface-name" and fnmatchcase(_ONE, pattern.lstrip("="))):
            return True
        if (kind, pattern) in (("type", "veth"), ("driver", "veth")):
            return True
    return False


def _settings(paths: Iterable[str], wanted: str) -> Iterator[tuple[str, str]]:
    """Of one section; the later counts."""
    for path in paths:
        section = ""
        for line in lines(path):
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
            elif section == wanted and "=" in line:
                key, _, value = line.partition("=")
                yield key.strip(), value.strip()


def _sections(path: str) -> list[str]:
    return [line[1:-1] for line in lines(path) if line.startswith("[") and line.endswith("]")]
