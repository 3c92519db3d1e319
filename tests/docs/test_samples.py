"""Samples of output in the documentation have the words that commands print on a real node."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fixtures.machine import Machine, plain_etc
from ..fixtures.node import eventually
from ..lanes import ROOT
from .samples import Sample, name_of, samples, shape, shapes

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
# Commands whose samples are held against what they print.
COVERED = frozenset({
    "up", "down", "status", "ls", "gc", "pools", "check", "inspect", "explain", "events", "ports", "doctor",
    "connectivity", "plan show", "journal verify", "journal backup", "journal restore", "journal export",
    "journal import", "cni add", "tail",
})  # fmt: skip
# These fold long lines to the width of a terminal: a line of a sample may be a part of one.
FOLDED = frozenset({"explain", "inspect"})
# Of these, a sample that leaves nothing out has all lines of one real run, in their order.
WHOLE = frozenset({
    "gc", "check", "pools", "journal verify", "journal backup", "journal restore", "journal export",
    "journal import", "ports",
})  # fmt: skip
# Lines that take another version, systemd, containerd, or a plugin of others: by words of their shapes.
ELSEWHERE = (
    "calls waited", "handing over to version", "cannot take over", "said:", "fix the error that it reports",
    "agent-not-replaced", "plugin replaced", "unit installed", "PROCESS attached it, and needs the result",
    "interface cni0", "interface veth94241a15", "interface eth0 mac MAC PATH",
    "table inet strangers, chain keepers", "nft insert rule inet strangers", "no answer within LENGTH",
    "more: netloom explain foreign-drop",
)  # fmt: skip
POD = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME={}"
# As Docker leaves it.
DOCKER = (
    "add table ip filter; add chain ip filter DOCKER-USER; add chain ip filter FORWARD { type filter hook "
    "forward priority 0; policy drop; }; add rule ip filter FORWARD jump DOCKER-USER"
)
PORTS = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]


class Printed:
    """What commands have printed, as shapes, by the name of the command."""

    def __init__(self) -> None:
        self.lines: dict[str, set[str]] = defaultdict(set)
        self.runs: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        self.joined: dict[str, str] = defaultdict(str)

    def add(self, name: str, text: str) -> None:
        found = shapes(text.splitlines())
        self.lines[name].update(found)
        self.runs[name].add(found)
        self.joined[name] += f" {' '.join(found)} "

    def has(self, name: str, line: str) -> bool:
        wanted = shape(line)
        return wanted in self.lines[name] or (name in FOLDED and f" {wanted} " in self.joined[name])


class Life:
    """A node's, from `up` to a purge, with what an operator does and sees meanwhile."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.printed = Printed()

    def show(self, *words: str, env: dict[str, str] | None = None) -> str:
        machine = self.machine
        cache = ("--cache-dir", str(machine.cli.cache)) if words[0] in ("cni", "gc", "down") else ()
        if words[0] == "up":
            words = (*words, "--plugin-dir", str(machine.cli.plugins))
        outcome = machine.run(*words, *cache, env=env)
        self.printed.add(name_of(list(words)), outcome.stdout + outcome.stderr)
        return outcome.stdout

    def attach(
        self, container: str, *words: str, args: str = "", network: str = "netloom", **asked: object
    ) -> None:
        cache = ("--cache-dir", str(self.machine.cli.cache))
        words = ("cni", "add", network, f"/run/netns/{container}", *cache, *words)
        env = {"CAP_ARGS": json.dumps(asked), "CNI_ARGS": args}
        self.machine.cli.env |= env
        try:
            outcome = self.machine.on_a_terminal(*words)
        finally:
            for name in env:
                del self.machine.cli.env[name]
        self.printed.add("cni add", outcome.stdout + outcome.stderr)

    def detach(self, container: str, args: str = "") -> None:
        words = (
            "cni",
            "del",
            "netloom",
            f"/run/netns/{container}",
            "--cache-dir",
            str(self.machine.cli.cache),
        )
        assert self.machine.run(*words, env={"CNI_ARGS": args}).status == 0

    def run(self) -> Printed:
        for part in (
            self.begin, self.use, self.find, self.mend, self.lose_file, self.die, self.copy,
            self.lose_journal, self.end, self.exhaust, self.end,
        ):  # fmt: skip
            part()
        return self.printed

    def begin(self) -> None:
        self.show("up")
        self.show("up", "--systemd")
        self.show("status")
        self.show("up")

    def use(self) -> None:
        node = self.machine.node
        self.web, self.api, self.left, self.job = (node.container() for _ in range(4))
        self.show("plan", "show", "netloom", "--netns", self.web)
        self.attach(self.web)
        self.show("ls")
        self.show("pools")
        self.attach(self.api, args=POD.format("api-0"), portMappings=PORTS)
        self.show("ports")
        self.attach(self.left, args=POD.format("api-4"))
        self.attach(self.web, "-i", "net1")
        self.attach(self.job, "--container-id", "job-17", "-i", "net1")
        for words in (("ls",), ("ls", "--wide"), ("pools",), ("status",), ("check",)):
            self.show(*words)
        self.show("inspect", "shop/api-0")

    def find(self) -> None:
        """What people ask for when something does not work."""
        node = self.machine.node
        self.attach(node.container(), network="mynett")
        self.attach(node.container("shop"), ips=["10.78.0.3"])
        self.machine.told("events")
        for name in ("shop/api-0", "11", "shop/billing-0", "10.78.0.1", "10.78.0.3", "shop"):
            self.show("explain", name)
        self.attach(node.container(), args="K8S_POD_NAME=shop")
        self.show("explain", "shop")
        node.remove_container(self.left)
        node.container("next")  # in its place: the others are numbered
        self.show("gc", "--dry-run")
        self.show("gc")
        self.show("gc")

    def mend(self) -> None:
        machine, inside = self.machine, self.machine.node.in_container
        inside(self.web, "ip", "link", "set", "eth0", "mtu", "1400")
        self.show("check")
        self.show("check", "--repair")
        inside(self.api, "ip", "link", "set", "eth0", "mtu", "1400")
        inside(self.api, "ip", "address", "add", "10.99.0.1/32", "dev", "eth0")
        self.show("check", "shop/api-0")
        self.show("check", "shop/api-0", "--repair")
        inside(self.api, "ip", "address", "del", "10.99.0.1/32", "dev", "eth0")
        for name in ("mine", "bridge"):
            first = machine.cli.networks / f"05-{name}.conflist"
            first.write_text(
                json.dumps({"cniVersion": "1.0.0", "name": name, "plugins": [{"type": "bridge"}]})
            )
            for words in (("up",), ("status",), ("explain", "shop/billing-0")):
                self.show(*words)
            first.unlink()
        containerd = Path("/etc/containerd/config.toml")
        containerd.parent.mkdir()
        containerd.write_text(
            'version = 2\n[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "/usr/lib/cni"\n'
            f'conf_dir = "{machine.cli.networks}"\n'
        )
        self.show("up")
        containerd.unlink()
        machine.plugin.unlink()
        machine.node.inside("nft", DOCKER)
        self.show("doctor")
        machine.node.inside("nft", "delete table ip filter")
        self.show("up")

    def lose_file(self) -> None:
        conflist = self.machine.conflist
        conflist.unlink()
        self.show("status")
        self.show("up")
        self.show("up", "--keep-network")
        conflist.unlink()
        assert eventually(conflist.exists)
        assert eventually(lambda: "RESTORE" in self.show("events", "--verb", "RESTORE"))
        self.show("up", "--no-keep-network")

    def die(self) -> None:
        node = self.machine.node
        self.machine.end_agent()
        self.show("status")
        self.attach(node.container())
        self.detach(self.web)
        self.show("ls")
        self.show("up")
        self.show("down")
        self.show("up", "--state-dir", str(node.directory / "other"))
        node.inside("ip", "route", "del", "10.78.0.2")
        self.show("doctor")
        self.show("up")
        log = node.state_dir / "agent.log"
        assert eventually(lambda: "put back missing objects" in log.read_text())
        self.printed.add("tail", log.read_text())
        self.show("doctor")
        process = self.machine.agent
        assert process is not None
        os.kill(process, signal.SIGSTOP)
        self.show("status")
        os.kill(process, signal.SIGCONT)
        self.block()

    def block(self) -> None:
        """The directory of the socket, while the agent runs."""
        directory = self.machine.node.socket.parent
        directory.rename(directory.with_name("away"))
        directory.touch()
        try:
            assert eventually(lambda: "socket-unreachable" in self.show("status"))
        finally:
            directory.unlink()
        assert eventually(self.machine.node.socket.exists)

    def copy(self) -> None:
        """Of the journal."""
        directory = self.machine.node.directory
        copy, text = str(directory / "copy.db"), str(directory / "journal.json")
        self.show("connectivity", "netloom")
        self.show("connectivity", "netloom", "--keep", "--skip", "spoofing", "--skip", "port")
        self.show("journal", "verify")
        self.show("journal", "backup", copy)
        self.show("journal", "verify", copy)
        self.show("journal", "export", text)
        self.show("down")
        self.show("journal", "import", text)
        self.show("journal", "import", "--force", text)
        self.show("journal", "restore", "--force", copy)
        self.show("up")

    def lose_journal(self) -> None:
        machine = self.machine
        moved = machine.journal.rename(machine.node.directory / "moved.db")
        self.show("down")
        self.show("up")
        self.show("status")
        machine.run("down")
        machine.run("journal", "restore", "--force", str(moved))
        machine.run("up")

    def exhaust(self) -> None:
        machine = self.machine
        self.show("up", "--pool", "10.79.0.0/29")
        containers = [machine.node.container() for _ in range(7)]
        for number, container in enumerate(containers):
            self.attach(container, args=POD.format(f"api-{number + 10}"))
        machine.told("events")
        self.show("explain", "shop/api-16")
        self.show("inspect", "shop/api-11")
        self.show("status")
        self.show("pools")
        held = time.time()
        self.detach(containers[0], args=POD.format("api-10"))
        self.show("pools")
        machine.told("events")
        self.show("events")
        self.show("explain", "10.79.0.1", "--at", f"@{held:.3f}")

    def end(self) -> None:
        self.machine.told("events")
        self.show("events", "--since", "1h")
        asked = self.machine.asked("y\n", "down", "--purge", "--cache-dir", str(self.machine.cli.cache))
        self.printed.add("down", f"{asked.stdout}{asked.stderr}\ny\n")
        self.show("down", "--purge", "--yes")


@pytest.fixture(scope="module")
def printed() -> Iterator[Printed]:
    """By a node with a way out, on a machine that is nothing else."""
    with (
        tempfile.TemporaryDirectory(prefix="m-", dir="/run") as directory,
        plain_etc(),
        Machine(Path(directory)) as made,
    ):
        far = made.node.container()
        made.node.inside("ip", "link", "add", "uplink", "type", "veth", "peer", "name", "far", "netns", far)
        for run, device, last in ((made.node.inside, "uplink", 1), (made.node.in_container, "far", 2)):
            words = () if last == 1 else (far,)
            run(*words, "sysctl", "-qw", f"net.ipv6.conf.{device}.accept_dad=0")
            run(*words, "ip", "link", "set", device, "up")
            run(*words, "ip", "address", "add", f"203.0.113.{last}/24", "dev", device)
            run(*words, "ip", "address", "add", f"2001:db8:9::{last}/64", "dev", device, "nodad")
            run(*words, "ip", "route", "add", "default", "via", f"203.0.113.{3 - last}")
            run(*words, "ip", "route", "add", "default", "via", f"2001:db8:9::{3 - last}")
        yield Life(made).run()


def shown_on(page: Path) -> list[Sample]:
    return [it for it in samples(page) if it.name in COVERED]


@pytest.mark.kernel
@pytest.mark.parametrize("page", [it for it in PAGES if shown_on(it)], ids=lambda it: it.name)
def test_a_sample_has_the_words_that_the_command_prints(printed: Printed, page: Path) -> None:
    wrong = [
        f"{sample}\n    {line}\n    {shape(line)}"
        for sample in shown_on(page)
        for line in sample.output
        if not any(it in shape(line) or it in line for it in ELSEWHERE) and not printed.has(sample.name, line)
    ]
    assert not wrong, "\n".join(wrong)
    other = [
        f"{sample}\n    {shapes(sample.output)}\n  is none of\n    {printed.runs[sample.name]}"
        for sample in shown_on(page)
        if sample.is_whole and sample.name in WHOLE and shapes(sample.output) not in printed.runs[sample.name]
    ]
    assert not other, "\n".join(other)


@pytest.mark.unit
def test_every_command_whose_samples_are_checked_is_shown_somewhere() -> None:
    shown = {it.name for page in PAGES for it in samples(page)}
    assert COVERED - shown == set()


@pytest.mark.unit
def test_other_words_are_another_shape() -> None:
    line = "unfinished ones removed: 0, DELs replayed: 0"
    assert shape(line) == shape(line.replace("0", "17"))
    assert shape(line) != shape(f"{line} done")
