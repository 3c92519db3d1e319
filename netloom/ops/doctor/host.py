"""Checks of the host: its kernel, clock and disk, and the sysctls that netloom needs."""

from __future__ import annotations

import errno
import glob
import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import pairwise

from ...api.findings import Finding
from ...api.text import age
from ...cni.files import read_document
from ...journal import boottime
from ...kernel import KernelError, Namespace, Route, Veth
from ...kernel.errors import Refused
from ...kernel.features import Availability, probe
from ...kernel.netlink import link, route
from ...kernel.uplink import Uplink
from ...kernel.values import packed_network
from ..findings.kernel import forwarding_off, mtu_mismatch
from ..findings.node import disk_full
from ..journals.reading import journal_path
from ..node.host import FAR_AWAY, FILTERED, way
from ..node.namespaces import boot_id
from .checks import Context

# A few thousand more operations fill less free space than this.
_LITTLE = 32 << 20
_FEW = 100
# SQLite checkpoints the WAL every few hundred changes; one of this size was not checkpointed for long.
_LARGE_WAL = 64 << 20


def check_disk(context: Context) -> Iterator[Finding]:
    place = context.place
    for directory in dict.fromkeys((place.state_dir, os.path.dirname(place.socket))):
        try:
            space = os.statvfs(directory)
        except OSError:
            continue
        free = space.f_bavail * space.f_frsize
        is_full = any(it.code == "disk-full" and it.subject == directory for it in context.report.findings)
        if space.f_files and space.f_favail == 0:
            yield disk_full(directory, of_inodes=True)
        elif free == 0 and not is_full:
            yield disk_full(directory)
        elif (free < _LITTLE and not is_full) or 0 < space.f_favail < _FEW:
            yield Finding(
                code="disk-nearly-full",
                severity="warning",
                subject=directory,
                text=f"the disk of {directory} has {free >> 10} KiB left, and room for {space.f_favail} "
                "more files",
                next="free space on that disk: once it is full, nothing can be attached",
            )
    yield from _of_journal(journal_path(place.state_dir))


def _of_journal(path: str) -> Iterator[Finding]:
    try:
        size = os.stat(f"{path}-wal").st_size
    except OSError:
        return
    if size > _LARGE_WAL:
        yield Finding(
            code="journal-large",
            severity="warning",
            subject=f"{path}-wal",
            text=f"the journal's WAL has grown to {size >> 20} MiB: no checkpoint has shortened it",
            next="end the process that keeps the journal open for reading (`fuser` names it), or restart the "
            "agent",
        )


# NTP adjusts clocks by less than this.
_JUMP = 60.0


def check_clock(context: Context) -> Iterator[Finding]:
    if context.ledger is None:
        return
    now = time.time()
    boot = boot_id()
    seen = [
        (row.created, row.created_at - row.created, row.created_at)
        for row in context.attachments
        if row.boot_id == boot
    ]
    seen = [*sorted(seen), (boottime(), now - boottime(), now)]
    for (_, before, written), (_, after, _) in pairwise(seen):
        if abs(after - before) > _JUMP:
            yield _jumped(after - before, f"after {_shown(written)} of the clock before the change")
    latest = context.ledger.operations(1)
    if latest and latest[0].started > now + _JUMP:
        yield _jumped(
            now - latest[0].started,
            f"the journal's last entry is of {_shown(latest[0].started)}, which is in the future",
        )


def _jumped(seconds: float, when: str) -> Finding:
    direction = "forward" if seconds > 0 else "back"
    return Finding(
        code="clock-jumped",
        severity="warning",
        subject="clock",
        text=f"the clock was set {direction} by {age(abs(seconds))}: {when}",
        next="let NTP set the clock (`timedatectl set-ntp true`); times before the change in `netloom "
        "explain` are wrong by that much",
    )


def _shown(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


_LIBRARY = "libnftables"
_PACKAGE = "libnftables1"


def check_features(context: Context) -> Iterator[Finding]:
    context.features = list(probe())
    for feature in context.features:
        if feature.essential and not feature.present:
            yield _missing(feature)


def _missing(feature: Availability) -> Finding:
    if _LIBRARY in feature.reason:
        return Finding(
            code="package-missing",
            subject=_PACKAGE,
            text=f"{feature.feature}, which is needed for {feature.needed_for}, is missing: {feature.reason}",
            next=f"`apt install {_PACKAGE}` on Debian and Ubuntu, `dnf install nftables` on Fedora",
        )
    return Finding(
        code="feature-missing",
        subject=feature.feature,
        text=f"{feature.feature}, which is needed for {feature.needed_for}, is missing: {feature.reason}",
        next=feature.remedy,
    )


def check_mtu(context: Context) -> Iterator[Finding]:
    way_out = context.uplink
    if way_out is None:
        return
    configured = {it.name: it for it in context.networks if it.network is not None}
    attached: dict[str, Counter[int]] = {}
    for row in context.attachments:
        plan = context.plans.get(row.id)
        for item in () if plan is None else plan.objects:
            if isinstance(item, Veth) and item.mtu and item.mtu > way_out.mtu:
                attached.setdefault(row.network, Counter())[item.mtu] += 1
    for name in sorted({*configured, *attached}):
        found = configured.get(name)
        mtu = found.network.mtu if found and found.network else None
        links = attached.get(name, Counter())
        if (mtu or 0) > way_out.mtu or links:
            yield _mismatch(name, found.path if found else "", mtu or 0, links, way_out)


def _mismatch(name: str, path: str, mtu: int, links: Counter[int], way_out: Uplink) -> Finding:
    parts = [
        f"{count} {'container has' if count == 1 else 'containers have'} {size}"
        for size, count in sorted(links.items())
    ]
    if mtu > way_out.mtu:
        parts.append(f"network {name} asks for {mtu}")
    return mtu_mismatch(
        name, way_out.link, way_out.mtu, " and ".join(parts), path if mtu > way_out.mtu else ""
    )


# The highest precedence first; of two files with the same name, only one counts.
_DIRECTORIES = (
    "/etc/sysctl.d",
    "/run/sysctl.d",
    "/usr/local/lib/sysctl.d",
    "/usr/lib/sysctl.d",
    "/lib/sysctl.d",
)
_LAST = "/etc/sysctl.conf"
# Two names of one setting.
_SAME = {"net.ipv4.conf.all.forwarding": "net.ipv4.ip_forward"}


def path_of(name: str) -> str:
    """Returns a setting's path. In its name, as `sysctl` takes it, a slash stands for a dot."""
    return f"/proc/sys/{name.translate(str.maketrans('./', '/.'))}"


def undone_at_boot(needed: Iterable[str]) -> Iterator[Finding]:
    """Reports settings that have to be 1, and that a file sets to 0."""
    last: dict[str, tuple[str, str]] = {}
    for path in _files():
        for name, value in _assignments(path):
            for it in needed:
                if fnmatchcase(it, _SAME.get(name, name)):
                    last[it] = (value, path)
    for name, (value, path) in last.items():
        if value == "0":
            yield Finding(
                code="sysctl-at-boot",
                severity="warning",
                subject=path,
                text=f"{path} sets {name} to 0: at boot, and whenever the file is loaded again, the host "
                "does not forward until the agent sets it to 1",
                next="remove that line: no later file can override it"
                if path == _LAST
                else f"remove that line, or write `{name} = 1` into a file in /etc/sysctl.d that sorts after "
                "it",
            )


def _files() -> list[str]:
    """Returns files in the order of systemd and procps: by name, in whatever directory."""
    found = {
        os.path.basename(path): path
        for directory in reversed(_DIRECTORIES)
        for path in glob.glob(f"{directory}/*.conf")
    }
    return [*(found[name] for name in sorted(found)), *([_LAST] if os.path.exists(_LAST) else [])]


def _assignments(path: str) -> Iterator[tuple[str, str]]:
    for line in lines(path):
        if "=" in line:
            name, _, value = line.partition("=")
            yield name.strip().lstrip("-").replace("/", "."), value.strip()


_LARGEST = 1 << 20
_COMMENTS = "#;"


def lines(path: str) -> list[str]:
    """Returns lines that are neither empty nor comments; none if the file cannot be read."""
    try:
        text = read_document(path, limit=_LARGEST).decode(errors="replace")
    except OSError:
        return []
    stripped = (line.strip() for line in text.split("\n"))
    return [line for line in stripped if line and line[0] not in _COMMENTS]


_IPV4, _IPV6 = "net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"
_CONNTRACK = "/proc/sys/net/netfilter/nf_conntrack_"
# The conntrack table is nearly full when this part of it is in use.
_NEARLY = 0.9


def check_sysctls(context: Context) -> Iterator[Finding]:
    yield from _conntrack()
    if not context.is_node:
        return
    off = [name for name in _needed(context) if _read(name) == "0"]
    for name in off:
        yield forwarding_off(name)
    yield from undone_at_boot(_needed(context))
    if _IPV4 not in off:
        yield from _dropped(context)


def _needed(context: Context) -> list[str]:
    """Returns the forwarding settings of the pools' families; that of IPv4 if there are no pools."""
    families = {pool.family for pool in context.pools} or {4}
    return [name for name, family in ((_IPV4, 4), (_IPV6, 6)) if family in families]


def _read(name: str) -> str:
    try:
        with open(path_of(name)) as file:
            return file.read().strip()
    except OSError:
        return ""


def _of_link(name: str, setting: str) -> str:
    """Returns the setting's name as `sysctl` takes it: a link's name may have dots."""
    return f"net.ipv4.conf.{name.replace('.', '/')}.{setting}"


def _filtering(name: str) -> str:
    """Returns the larger of the link's own setting and that of all, which counts: 1 strict, 2 loose."""
    return max(_read(_of_link("all", "rp_filter")), _read(_of_link(name, "rp_filter")), "0")


def _dropped(context: Context) -> Iterator[Finding]:
    """Judges packets from containers on their own links, and packets to them on the uplinks."""
    host = context.host
    inside = list(_attached(context))
    if not inside:
        return
    outside = dict(_ways_out(host))
    for name, ip in inside:
        target = (
            FAR_AWAY[socket.AF_INET] if outside else next((other for _, other in inside if other != ip), None)
        )
        if target is not None:
            yield from _asked(host, name, _index(host, name), source=ip, target=target)
    for index, name in outside.items():
        yield from _asked(host, name, index, source=FAR_AWAY[socket.AF_INET], target=inside[0][1])


def _asked(
    host: Namespace, name: str, index: int | None, *, source: bytes, target: bytes
) -> Iterator[Finding]:
    if index is None:
        return  # the link is missing, which the audit reports
    try:
        way(host, target, source=source, link=index)
    except Refused as refused:
        mode = _filtering(name)
        if refused.errno in FILTERED and mode != "0":
            setting = _of_link(name, "rp_filter")
            how = "strict" if mode == "1" else "on, and the link has no address"
            yield Finding(
                code="sysctl-in-the-way",
                severity="warning",
                subject=setting,
                text=f"the kernel drops packets that arrive on {name}, since its route back uses another "
                f"link: reverse-path filtering is {how}",
                next=f"`sysctl -w {setting}=2` accepts them if any link leads back; write it into "
                "/etc/sysctl.d, too"
                if mode == "1"
                else f"`sysctl -w {setting}=0 {_of_link('all', 'rp_filter')}=0`, or give {name} an address",
            )
        elif refused.errno == errno.EHOSTUNREACH:
            yield forwarding_off(_of_link(name, "forwarding"), link=name)


def _attached(context: Context) -> Iterator[tuple[str, bytes]]:
    """Returns the host's end of each attachment with its IPv4 address: IPv6 has no such filter."""
    for row in context.attachments:
        plan = context.plans.get(row.id)
        for item in () if plan is None or row.state != "committed" else plan.objects:
            if isinstance(item, Route) and item.on == "host":
                ip = packed_network(item.destination)[0]
                if len(ip) == 4:
                    yield row.host_link, ip
                    break


def _ways_out(host: Namespace) -> Iterator[tuple[int, str]]:
    """Returns the links of default routes in all tables."""
    try:
        listed = host.route.dump(route.GET, route.of_table(socket.AF_INET, 0))
    except KernelError:
        return
    for found in map(route.decode, filter(route.is_default, listed)):
        for hop in found.hops:
            answer = host.route.ask(link.GET, link.get(hop.index)) if hop.index else None
            if answer is not None and hop.index and (one := link.decode(answer)).up:
                yield hop.index, one.name


def _index(host: Namespace, name: str) -> int | None:
    try:
        return host.route.index(name)
    except Refused:
        return None


def _conntrack() -> Iterator[Finding]:
    try:
        with open(f"{_CONNTRACK}count") as count, open(f"{_CONNTRACK}max") as limit:
            used, most = int(count.read()), int(limit.read())
    except (OSError, ValueError):
        return
    if most and used >= most * _NEARLY:
        yield Finding(
            code="conntrack-full",
            severity="error" if used >= most else "warning",
            subject="net.netfilter.nf_conntrack_max",
            text=f"the kernel tracks {used} of at most {most} connections; it drops further ones",
            next=f"`sysctl -w net.netfilter.nf_conntrack_max={most * 2}`, and find out which program opens "
            "so many",
        )
