"""Firewalls that people have on their machines, each started in the namespace of a node."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from ..fixtures.node import Node, eventually

# A bus on which everybody may do everything, and that starts nobody.
_BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow own="*"/>
    <allow send_destination="*" eavesdrop="true"/>
    <allow receive_sender="*" eavesdrop="true"/>
    <allow user="*"/>
  </policy>
</busconfig>
"""


class Firewall(Protocol):
    """`subjects` are the chains that stop something, as `doctor` names them, by whom they keep from whom."""

    subjects: Mapping[str, frozenset[str]]

    def start(self, node: Node) -> None: ...

    def run(self, node: Node, command: str) -> None:
        """A command that somebody copies to a shell on the host."""

    def stop(self, node: Node) -> None: ...


def _families(chain: str, backend: str = "") -> frozenset[str]:
    if backend:
        return frozenset({f"iptables-{backend} {chain}", f"ip6tables-{backend} {chain}"})
    return frozenset({f"ip {chain}", f"ip6 {chain}"})


class Plain:
    """Rules of one program, without anything that manages them."""

    subjects: Mapping[str, frozenset[str]]

    def __init__(self, subjects: Mapping[str, frozenset[str]], start: str, stop: str) -> None:
        self.subjects = subjects
        self._start, self._stop = start, stop

    def start(self, node: Node) -> None:
        self.run(node, f"sh -ec {shlex.quote(self._start)}")

    def run(self, node: Node, command: str) -> None:
        done = subprocess.run(node.command(*shlex.split(command)), capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"

    def stop(self, node: Node) -> None:
        self.run(node, f"sh -ec {shlex.quote(self._stop)}")


def plain_nft() -> Plain:
    """Its chain of input accepts no neighbour discovery, and so keeps IPv6 from the outside, too."""
    return Plain(
        {"host": frozenset({"inet walls input"}),
         "outside": frozenset({"inet walls input", "inet walls forward"}),
         "port": frozenset({"inet walls forward"})},
        "nft 'table inet walls {\n"
        "chain input { type filter hook input priority 0; policy drop; ct state established accept; }\n"
        "chain forward { type filter hook forward priority 0; policy drop; ct state established accept; }\n"
        "chain output { type filter hook output priority 0; policy accept; tcp dport 25 drop; }\n}'",
        "nft delete table inet walls",
    )  # fmt: skip


def plain_iptables(backend: str) -> Plain:
    """As `plain_nft`, in tables of either kind."""
    said = "" if backend == "nft" else backend
    rules = "".join(
        f"{program}-{backend} -A {chain} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; "
        f"{program}-{backend} -P {chain} DROP; "
        for program in ("iptables", "ip6tables")
        for chain in ("INPUT", "FORWARD")
    )
    undo = "".join(
        f"{program}-{backend} -P {chain} ACCEPT; {program}-{backend} -F; "
        for program in ("iptables", "ip6tables")
        for chain in ("INPUT", "FORWARD")
    )
    forward, hosts = _families("filter FORWARD", said), _families("filter INPUT", said)
    outside = forward | {it for it in hosts if it.startswith("ip6")}
    return Plain({"host": hosts, "outside": outside, "port": forward}, rules, undo)


def docker_like() -> Plain:
    """As Docker lays them down: the policy, its own chains, and that of its users."""
    rules = "".join(
        f"{program} -P FORWARD DROP; {program} -N DOCKER-USER; {program} -N DOCKER; "
        f"{program} -A DOCKER-USER -j RETURN; {program} -A FORWARD -j DOCKER-USER; "
        f"{program} -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; "
        f"{program} -A FORWARD -o docker0 -j DOCKER; {program} -A FORWARD -i docker0 ! -o docker0 -j ACCEPT; "
        for program in ("iptables", "ip6tables")
    )
    undo = "".join(
        f"{program} -P FORWARD ACCEPT; {program} -F; {program} -X; " for program in ("iptables", "ip6tables")
    )
    forward = _families("filter FORWARD")
    return Plain({"host": frozenset(), "outside": forward, "port": forward}, rules, undo)


class Ufw(Plain):
    """ufw itself, with a copy of its settings."""

    def __init__(self) -> None:
        forward = _families("filter FORWARD")
        super().__init__(
            {"host": _families("filter INPUT"), "outside": forward, "port": forward},
            "ufw --force enable",
            "ufw --force reset",
        )

    def stop(self, node: Node) -> None:
        super().stop(node)
        for program in ("iptables", "ip6tables"):
            for it in ("-P INPUT ACCEPT", "-P FORWARD ACCEPT", "-P OUTPUT ACCEPT", "-F", "-X"):
                self.run(node, f"{program} {it}")


class Firewalld(Plain):
    """firewalld itself, on a bus of its own."""

    def __init__(self) -> None:
        super().__init__(
            {"host": frozenset({"inet firewalld filter_INPUT"}),
             "outside": frozenset({"inet firewalld filter_FORWARD"}), "port": frozenset()},
            "", "",
        )  # fmt: skip
        self._running = ExitStack()
        self._environment: dict[str, str] = {}

    def start(self, node: Node) -> None:
        directory = Path(self._running.enter_context(tempfile.TemporaryDirectory(prefix="bus-", dir="/run")))
        config, socket = directory / "bus.conf", directory / "bus"
        config.write_text(_BUS.format(socket=socket))
        self._environment = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={socket}"}
        self._begin(node, "dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile")
        assert eventually(socket.exists)
        self._begin(node, "firewalld", "--nofork", "--nopid")
        assert eventually(lambda: self._is_running(node))

    def _begin(self, node: Node, *words: str) -> None:
        process = subprocess.Popen(
            node.command(*words),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._running.callback(_end, process)

    def _is_running(self, node: Node) -> bool:
        asked = subprocess.run(
            node.command("firewall-cmd", "--state"), env=self._environment, capture_output=True
        )
        return asked.returncode == 0

    def run(self, node: Node, command: str) -> None:
        done = subprocess.run(
            node.command(*shlex.split(command)), env=self._environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"

    def stop(self, node: Node) -> None:
        self._running.close()
        node.inside("nft", "delete table inet firewalld", check=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


@contextmanager
def own_settings() -> Iterator[None]:
    """Whatever these programs write down is gone afterwards. ufw leaves settings of the kernel alone."""
    with tempfile.TemporaryDirectory(prefix="etc-", dir="/run") as directory, ExitStack() as mounted:
        for number, place in enumerate(("/etc", "/var/log")):
            upper, work = Path(directory, f"upper{number}"), Path(directory, f"work{number}")
            upper.mkdir()
            work.mkdir()
            layers = f"lowerdir={place},upperdir={upper},workdir={work}"
            subprocess.run(["mount", "-t", "overlay", "own", "-o", layers, place], check=True)
            mounted.callback(subprocess.run, ["umount", "--lazy", place], check=True)
        settings = Path("/etc/default/ufw")
        kept = [it for it in settings.read_text().splitlines() if not it.startswith("IPT_SYSCTL")]
        settings.write_text("\n".join([*kept, ""]))
        yield
