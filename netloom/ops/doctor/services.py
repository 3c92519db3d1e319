"""Checks for programs that interfere: services that manage links and routes, and firewalls; and the search
for processes, such as those that hold a namespace.
"""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from ...api.findings import Finding
from ...api.text import for_shell, printable_line
from ...kernel.netfilter.legacy import tables
from ...networks.names import PREFIX, QUEUE_PREFIX
from ..firewall.flows import around, flows_of
from ..firewall.openings import findings_of
from ..inspect.attachment_state import refusals, refused_at
from .checks import Context
from .host import lines

# Where systemd looks for settings, the highest precedence first; and the settings that containers need.
_SYSTEMD = ("/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd")
_WANTED = ("ManageForeignRoutes", "ManageForeignRoutingPolicyRules")
NETWORKD_DROP_IN = "/etc/systemd/networkd.conf.d/90-netloom.conf"
NETWORKD_CONTENT = "[Network]\n" + "".join(f"{it}=no\n" for it in _WANTED)

_NM = ("/usr/lib/NetworkManager", "/run/NetworkManager", "/etc/NetworkManager")
NM_DROP_IN = "/etc/NetworkManager/conf.d/90-netloom.conf"
_LINKS = tuple(f"interface-name:{prefix}*" for prefix in (PREFIX, QUEUE_PREFIX))
NM_CONTENT = f"[keyfile]\nunmanaged-devices+={';'.join(_LINKS)}\n"

# An example of a link's name.
_ONE = f"{PREFIX}0123456789a"
_NO = frozenset({"no", "false", "0", "off", "n", "f"})
_YES = frozenset({"yes", "true", "1", "on", "y", "t"})


def check_services(context: Context) -> Iterator[Finding]:
    del context
    if runs_here("systemd-networkd"):
        yield from _networkd()
    if runs_here("NetworkManager"):
        yield from _network_manager()


def _networkd() -> Iterator[Finding]:
    said = dict(_settings(_systemd_files("networkd.conf"), "Network"))
    lacking = [it for it in _WANTED if said.get(it, "").lower() not in _NO]
    if lacking:
        yield Finding(
            code="networkd-interferes",
            severity="warning",
            subject="systemd-networkd",
            text="systemd-networkd runs, and may delete routes and rules that other programs made: "
            f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not set to no",
            next=f"write {NETWORKD_DROP_IN} with `[Network]` and "
            f"{', '.join(f'`{it}=no`' for it in _WANTED)}, and restart systemd-networkd",
            fix=f"write {NETWORKD_DROP_IN}; it takes effect when systemd-networkd restarts",
        )
    file = _file_for_our_links()
    if file:
        yield Finding(
            code="networkd-interferes",
            severity="warning",
            subject=file,
            text=f"systemd-networkd configures links of containers, since {file} matches their names",
            next=f"exclude names that begin with {PREFIX} from its `[Match]`, and run `networkctl reload`",
        )


def _systemd_files(name: str) -> list[str]:
    """Returns the main file, then drop-ins by name, each from the directory of highest precedence."""
    main = next((path for it in _SYSTEMD if os.path.exists(path := f"{it}/{name}")), None)
    drop_ins = {
        os.path.basename(path): path
        for directory in reversed(_SYSTEMD)
        for path in glob.glob(f"{directory}/{name}.d/*.conf")
    }
    return [*([main] if main else []), *(drop_ins[it] for it in sorted(drop_ins))]


def _file_for_our_links() -> str:
    """Returns the first .network file that matches netloom's links; empty if it leaves them unmanaged."""
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
    """Judges by the link's name: a section with other conditions, which may not hold, does not count."""
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
        text=f"NetworkManager runs, and its configuration does not exclude links named {PREFIX}*",
        next=f"write {NM_DROP_IN} with `[keyfile]` and `unmanaged-devices+={';'.join(_LINKS)}`, and run "
        "`systemctl reload NetworkManager`",
        fix=f"write {NM_DROP_IN}; it takes effect after `systemctl reload NetworkManager`",
    )


def _unmanaged(files: Iterable[str]) -> Iterator[str]:
    """Returns lists of unmanaged devices, from both kinds of sections that can have them."""
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
    """Returns the settings of one section; of several values of a key, the last counts."""
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


def check_firewall(context: Context) -> Iterator[Finding]:
    yield from legacy_findings()
    networks = [it.network for it in context.networks if it.network is not None]
    pools = [(pool.cidr, it.isolation == "containers") for it in networks for pool in it.pools]
    if pools:
        has_ports = context.ledger is not None and any(context.ledger.count_ports())
        yield from findings_of(context.host, flows_of(around(context.host, pools, has_ports=has_ports)))


LEGACY = "legacy-iptables"


def legacy_findings() -> Iterator[Finding]:
    """Ignores tables without rules: a single `iptables-legacy -L` creates them."""
    active = [it for it in tables() if it.rules != 0]
    for family, program in (("ip", "iptables-legacy"), ("ip6", "ip6tables-legacy")):
        names = [it.name for it in active if it.family == family]
        if names:
            yield Finding(
                code=LEGACY,
                severity="warning",
                subject=program,
                text=f"{program} rules are active and also apply to containers: "
                f"{'table' if len(names) == 1 else 'tables'} {', '.join(names)}",
                next=f"`{program}-save` shows them; accept links named {PREFIX}* there, or move the rules "
                "to nftables",
            )


def check_sources(context: Context) -> Iterator[Finding]:
    found = refused_at(context.host) or {}
    for row in context.attachments:
        yield from refusals(row, found.get(row.host_link))


_LONGEST = 120


def numbers() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)


def arguments(process: int) -> list[str]:
    """Returns its command line; empty for a kernel thread, or if the process has ended."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            return [word.decode(errors="replace") for word in file.read(4096).split(b"\0")[:-1]]
    except OSError:
        return []


def name(process: int) -> str:
    """Returns the kernel's name of the process: the first fifteen bytes of its command."""
    try:
        with open(f"/proc/{process}/comm", "rb") as file:
            return file.read().decode(errors="replace").rstrip("\n")
    except OSError:
        return ""


def shown(process: int) -> str:
    """Returns its PID and its shortened command, for people."""
    command = " ".join(arguments(process)) or name(process)
    more = "…" if len(command) > _LONGEST else ""
    return f"process {process} ({command[:_LONGEST]}{more})" if command else f"process {process}"


def runs_here(wanted: str) -> bool:
    """Whether such a process runs in this network namespace: in another, it manages other links."""
    return any(name(process) == wanted[:15] and _is_here(process) for process in numbers())


def _is_here(process: int) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{process}/ns/net"), os.stat("/proc/self/ns/net"))
    except FileNotFoundError:
        return False
    except OSError:
        return True  # unreadable for this user, so it cannot be ruled out


# The kernel's spelling of blanks, line breaks and backslashes in a path.
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class Holder(NamedTuple):
    """A process that holds a namespace. `how` and `advice` are single lines; commands in them are quoted.

    `mounted` is where the process has it mounted, if it has.
    """

    process: int
    how: str
    advice: str
    mounted: str = ""

    def __str__(self) -> str:
        return f"{_shown_holder(self.process)} {self.how}"


def holders(inodes: set[int], deadline: float) -> dict[int, list[Holder]]:
    """Returns holders by inode, which is unique among namespaces that exist."""
    found: dict[int, list[Holder]] = {inode: [] for inode in inodes}
    links = {f"net:[{inode}]": inode for inode in inodes}
    mount_namespaces: set[str] = set()
    for process in numbers():
        if time.monotonic() > deadline:
            break
        if process == os.getpid():
            continue
        for link, how in _held_by(process, links):
            found[links[link]].append(Holder(process, how, f"end or restart {_shown_holder(process)}"))
        mounts = _target(f"/proc/{process}/ns/mnt")
        if mounts and mounts not in mount_namespaces:
            mount_namespaces.add(mounts)
            for link, place in _mounted(process, links):
                advice = f"`nsenter --mount=/proc/{process}/ns/mnt umount {for_shell(place)}`"
                mounted = printable_line(place)
                how = f"has it mounted at {mounted}"
                found[links[link]].append(Holder(process, how, advice, mounted))
    return found


def _shown_holder(process: int) -> str:
    """Returns a single line: with line breaks in its command line, a process could forge findings."""
    return printable_line(shown(process))


def _held_by(process: int, links: dict[str, int]) -> Iterator[tuple[str, str]]:
    inside = {_target(f"/proc/{process}/task/{name}/ns/net") for name in _names(f"/proc/{process}/task")}
    for link in sorted(inside & links.keys()):
        yield link, "runs in it"
    for link in sorted(_opened(process, links) - inside):
        yield link, "has it open"


def _opened(process: int, links: dict[str, int]) -> set[str]:
    """Includes namespaces that were opened by a path: their link shows the path, so the inode decides."""
    found = set()
    for name in _names(f"/proc/{process}/fd"):
        target = _target(f"/proc/{process}/fd/{name}")
        if target in links:
            found.add(target)
        elif target.startswith("/"):
            found |= _number(process, name) & links.keys()
    return found


def _number(process: int, descriptor: str) -> set[str]:
    """Returns the link of a network namespace with the descriptor's inode; empty if it cannot be read."""
    try:
        # Not by stat, since the file may be on a disk that does not answer.
        with open(f"/proc/{process}/fdinfo/{descriptor}", "rb") as file:
            inode = next((line.split()[1].decode() for line in file if line.startswith(b"ino:")), "")
    except OSError:
        return set()
    return {f"net:[{inode}]"}


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _mounted(process: int, links: dict[str, int]) -> Iterator[tuple[str, str]]:
    try:
        with open(f"/proc/{process}/mountinfo", "rb") as file:
            # 36 35 0:4 net:[4026532281] /run/netns/web rw shared:7 - nsfs nsfs rw
            rows = [line.split(b" ") for line in file]  # any other blank is part of a path
    except OSError:
        return
    for row in rows:
        link = os.fsdecode(row[3]) if len(row) > 4 else ""
        if link in links:
            yield link, os.fsdecode(_ESCAPED.sub(lambda it: bytes([int(it[1], 8)]), row[4]))
