"""What goes wrong on nodes, made to happen: each is named with cause and remedy, and is gone after that one.

What programs read is looked at, never the words. The faults that need a kernel of their own (a module that is
missing, a clock that is set) are in tests/fullkernel.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netloom.api.catalogue import entry

from ..fixtures.faults import SmallDisk
from ..fixtures.machine import Machine
from ..fixtures.node import Node, eventually

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

KEY = re.compile(r"netloom/[^/]+/eth0")


def findings(machine: Machine, command: str, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.run(command, "--json", *words).document["findings"]
    return found


def found(machine: Machine, code: str, *, by: str = "doctor") -> dict[str, Any]:
    """The one finding of a code. Each says what to do, and has a page that tells more."""
    (finding,) = [it for it in findings(machine, by) if it["code"] == code]
    assert finding["text"]
    assert finding["next"]
    assert entry(code) is not None
    return finding


def is_gone(machine: Machine, code: str, *, by: str = "doctor") -> bool:
    return code not in {it["code"] for it in findings(machine, by)}


def will_be_gone(machine: Machine, code: str, *, by: str = "doctor") -> bool:
    return eventually(lambda: is_gone(machine, code, by=by))


def run_remedies(machine: Machine, finding: dict[str, Any]) -> None:
    """The commands that the finding has, as somebody copies them to a shell on the host."""
    for command in re.findall("`([^`]+)`", finding["next"]):
        machine.node.inside(*shlex.split(command))


@pytest.fixture
def attached(machine: Machine) -> str:
    """A container on a node that is well."""
    container = machine.node.container()
    machine.attach(container)
    return container


@pytest.mark.usefixtures("attached")
def test_a_node_that_is_well_has_nothing_to_complain_of(machine: Machine) -> None:
    machine.attach(machine.node.container())
    for command in ("status", "doctor"):
        outcome = machine.run(command, "--json")
        assert (outcome.status, outcome.document["findings"]) == (0, [])


def test_a_machine_that_is_no_node_says_so_in_status_and_doctor(bare: Machine) -> None:
    for command in ("status", "doctor"):
        assert [it["code"] for it in findings(bare, command)] == ["agent-not-running", "network-none"]


# The agent.


@pytest.mark.usefixtures("attached")
def test_an_agent_that_was_stopped(machine: Machine) -> None:
    machine.end_agent()
    for command in ("status", "doctor"):
        assert found(machine, "agent-not-running", by=command)["subject"] == str(machine.node.socket)
        assert machine.run(command).status == 1
    machine.brought_up()
    assert is_gone(machine, "agent-not-running")


def test_an_agent_whose_process_is_halted(machine: Machine) -> None:
    process = machine.agent
    assert process is not None
    os.kill(process, signal.SIGSTOP)
    try:
        finding = found(machine, "agent-halted", by="status")
        assert finding["subject"] == f"process {process}"
        run_remedies(machine, finding)
    finally:
        os.kill(process, signal.SIGCONT)
    assert is_gone(machine, "agent-halted", by="status")


def test_a_socket_that_was_removed(bare: Machine) -> None:
    bare.brought_up("--no-agent")
    process = bare.node.start("--tick", "600")  # until then, it does not look for its socket
    bare.node.socket.unlink()
    for command in ("status", "doctor"):
        assert found(bare, "socket-removed", by=command)["subject"] == f"process {process.pid}"
    bare.node.stop()
    bare.node.start()
    assert is_gone(bare, "socket-removed", by="status")


def test_a_socket_that_was_removed_is_there_again_within_a_moment(machine: Machine) -> None:
    machine.node.socket.unlink()
    assert eventually(lambda: machine.run("status").status == 0)


@pytest.mark.parametrize("level", [0, 1], ids=["socket", "directory"])
def test_something_in_the_place_of_the_socket(machine: Machine, level: int) -> None:
    """The agent is not said to be down, and listens again as soon as it can."""
    place = [machine.node.socket, machine.node.socket.parent][level]
    process = machine.agent
    assert process is not None
    os.kill(process, signal.SIGSTOP)  # it must not be faster
    os.rename(place, place.with_name("before"))
    place.touch()
    os.kill(process, signal.SIGCONT)
    for command in ("status", "doctor"):
        assert found(machine, "socket-unreachable", by=command)["subject"] == f"process {process}"
    assert machine.run("status").status == 1
    place.unlink()
    assert eventually(lambda: machine.run("status").status == 0)


def test_a_directory_that_another_user_could_change(machine: Machine) -> None:
    directory = machine.node.socket.parent
    os.chown(directory, 65534, 65534)
    for command in ("status", "doctor"):
        assert found(machine, "path-untrusted", by=command)["subject"] == str(directory)
    refused = machine.up("--json")
    assert (refused.status, refused.error["code"]) == (1, "path-untrusted")
    run_remedies(machine, found(machine, "path-untrusted", by="status"))
    assert is_gone(machine, "path-untrusted", by="status")


@pytest.mark.parametrize("weak", ["directory", "above", "link"])
def test_a_state_directory_that_another_user_could_change_is_refused(bare: Machine, weak: str) -> None:
    """By `up`, and by an agent that somebody starts without it."""
    state_dir = bare.node.directory / "others" / "state"
    state_dir.mkdir(parents=True)
    match weak:
        case "directory":
            os.chown(state_dir, 65534, 65534)
        case "above":
            state_dir.parent.chmod(0o777)
        case "link":
            (bare.node.directory / "elsewhere").mkdir()
            state_dir.rmdir()
            state_dir.symlink_to(bare.node.directory / "elsewhere")
            os.chown(state_dir, 65534, 65534, follow_symlinks=False)
    for command in ("up", "agent"):
        refused = bare.run(command, "--json", "--state-dir", str(state_dir))
        assert (refused.status, refused.error["code"]) == (1, "path-untrusted")
    assert list(state_dir.iterdir()) == []


def test_a_state_directory_of_root_that_others_can_write_to_is_closed_to_them(bare: Machine) -> None:
    bare.node.state_dir.mkdir()
    bare.node.state_dir.chmod(0o777)
    bare.brought_up()
    assert bare.node.state_dir.stat().st_mode & 0o022 == 0


def test_two_agents(machine: Machine, tmp_path: Path) -> None:
    with Node(tmp_path) as other:
        other.namespace.close()
        other.namespace = type(other.namespace).of_descriptor(machine.node.namespace.fileno(), "the host")
        # As an earlier version lays it down: what it did not say, nobody is refused for.
        machine.node.inside("nft", "delete", "chain", "inet", "netloom", "owner")
        second = other.start(through=("env",))  # a process of its own, with arguments of its own
        assert found(machine, "two-agents")["subject"] == f"process {second.pid}"
        other.stop()
    assert is_gone(machine, "two-agents")


# Where it keeps its state.


@pytest.fixture
def small_disk(bare: Machine) -> Iterator[SmallDisk]:
    """Under the state of a node that is brought up on it."""
    state = bare.node.state_dir
    state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "state", state], check=True)
    try:
        bare.brought_up()
        yield SmallDisk(state)
    finally:
        bare.end_agent()
        subprocess.run(["umount", state], check=True)


def test_a_disk_that_is_full(bare: Machine, small_disk: SmallDisk) -> None:
    small_disk.fill()
    for command in ("status", "doctor"):
        assert found(bare, "disk-full", by=command)["subject"] == str(bare.node.state_dir)
        assert bare.run(command).status == 1
    small_disk.empty()
    assert will_be_gone(bare, "disk-full")
    assert bare.run("status").status == 0


@pytest.mark.usefixtures("small_disk")
def test_a_journal_that_is_read_only(bare: Machine) -> None:
    bare.attach(bare.node.container())
    bare.run("down")
    subprocess.run(["mount", "-o", "remount,ro", bare.node.state_dir], check=True)
    for command in ("status", "doctor"):
        assert found(bare, "journal-read-only", by=command)["subject"] == str(bare.journal)
    # What it knows can still be read.
    assert bare.run("status", "--json").document["attachments"]["committed"] == 1
    run_remedies(bare, found(bare, "journal-read-only"))
    assert is_gone(bare, "journal-read-only")


# Networks and the plugin.


@pytest.mark.usefixtures("attached")
def test_a_pool_that_is_exhausted(machine: Machine) -> None:
    machine.brought_up("--pool", "10.20.0.1/32")
    machine.attach(machine.node.container())
    for command in ("status", "doctor"):
        assert found(machine, "pool-exhausted", by=command)["subject"] == "netloom"
        assert machine.run(command).status == 1
    machine.brought_up("--pool", "10.20.0.0/24")
    assert is_gone(machine, "pool-exhausted")


def test_another_networks_file_that_comes_first(machine: Machine) -> None:
    other = machine.cli.networks / "05-other.conflist"
    other.write_text(json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "bridge"}]}))
    finding = found(machine, "network-shadowed")
    assert finding["subject"] == str(other)
    other.rename(f"{other}.off")
    assert findings(machine, "doctor") == []


def test_another_networks_file_that_comes_later(machine: Machine) -> None:
    other = machine.cli.networks / "90-other.conflist"
    other.write_text(json.dumps({"cniVersion": "1.0.0", "name": "other", "plugins": [{"type": "bridge"}]}))
    assert found(machine, "other-cni")["subject"] == str(other)
    other.unlink()
    assert is_gone(machine, "other-cni")


def test_two_files_of_one_network(machine: Machine) -> None:
    copy = machine.cli.networks / "20-copy.conflist"
    copy.write_text(machine.conflist.read_text())
    assert found(machine, "network-twice")["subject"] == "netloom"
    copy.unlink()
    assert is_gone(machine, "network-twice")


@pytest.mark.parametrize(
    ("written", "misspelt", "code"),
    [('"pools"', '"poolz"', "network-broken"), ('"ipMasq"', '"ipMask"', "network-typo")],
)
def test_a_network_with_a_typo(machine: Machine, written: str, misspelt: str, code: str) -> None:
    sound = machine.conflist.read_text()
    assert written in sound
    machine.conflist.write_text(sound.replace(written, misspelt))
    assert found(machine, code)["subject"] == str(machine.conflist)
    machine.conflist.write_text(sound)
    assert is_gone(machine, code)


def test_a_plugin_that_is_missing(machine: Machine) -> None:
    machine.plugin.unlink()
    assert found(machine, "plugin-missing")["subject"] == str(machine.plugin)
    machine.brought_up()
    assert is_gone(machine, "plugin-missing")


def test_a_plugin_of_another_version(machine: Machine) -> None:
    with machine.plugin.open("ab") as file:
        file.write(b"another")
    assert found(machine, "plugin-differs")["subject"] == str(machine.plugin)
    machine.brought_up()
    assert is_gone(machine, "plugin-differs")


def test_a_plugin_that_cannot_be_executed(machine: Machine) -> None:
    machine.plugin.chmod(0o644)
    assert found(machine, "plugin-not-executable")["subject"] == str(machine.plugin)
    assert machine.run("doctor", "--json", "--fix").document["findings"] == []


# The kernel and its settings.


@pytest.mark.usefixtures("attached")
@pytest.mark.parametrize("name", ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"])
def test_a_host_that_does_not_forward(machine: Machine, name: str) -> None:
    machine.end_agent()
    machine.node.inside("sysctl", "-w", f"{name}=0")
    finding = found(machine, "sysctl-forwarding")
    assert finding["subject"] == name
    machine.run("doctor", "--fix")
    assert is_gone(machine, "sysctl-forwarding")


def test_a_table_of_others_that_drops(machine: Machine, attached: str) -> None:
    other = machine.attach(machine.node.container())["ips"][0]["address"].split("/")[0]
    machine.node.inside("nft", "add table inet strict")
    machine.node.inside(
        "nft", "add chain inet strict forward { type filter hook forward priority 0; policy drop; }"
    )
    assert not machine.node.ping(attached, other)
    finding = found(machine, "foreign-drop")
    assert (finding["subject"], finding["severity"]) == ("inet strict forward", "error")
    assert eventually(lambda: finding in findings(machine, "status"))
    assert machine.run("status").status == 1
    machine.end_agent()
    assert found(machine, "foreign-drop", by="status") == finding
    run_remedies(machine, finding)
    assert machine.node.ping(attached, other)
    assert is_gone(machine, "foreign-drop")


@pytest.mark.usefixtures("attached")
def test_a_table_that_was_flushed(machine: Machine) -> None:
    machine.end_agent()
    machine.node.inside("nft", "flush", "ruleset")
    subjects = {it["subject"] for it in findings(machine, "doctor") if it["code"] == "table-broken"}
    assert subjects == {"netloom"}
    machine.brought_up()
    assert will_be_gone(machine, "table-broken")


def test_a_library_that_is_missing(machine: Machine) -> None:
    """It is hidden from one command, which has a mount namespace of its own."""
    libraries = " ".join(map(str, Path("/usr/lib").rglob("libnftables.so.1*")))
    hidden = f'for it in {libraries}; do mount --bind /dev/null "$it"; done; exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", hidden, "sh")
    listed = machine.run("doctor", "--json", "--only", "features", prefix=prefix).document["findings"]
    assert {(it["code"], it["subject"]) for it in listed} == {("package-missing", "libnftables1")}
    assert all(it["next"] for it in listed)
    assert machine.run("doctor", "--json", "--only", "features").document["findings"] == []


def test_a_kernel_that_does_not_let_netloom_make_links(machine: Machine) -> None:
    prefix = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin")
    listed = machine.run("doctor", "--json", "--only", "features", prefix=prefix).document["findings"]
    assert ("feature-missing", "veth") in {(it["code"], it["subject"]) for it in listed}
    assert machine.run("doctor", "--json", "--only", "features").document["findings"] == []


@pytest.mark.usefixtures("attached")
def test_links_that_are_larger_than_the_way_out(machine: Machine) -> None:
    machine.node.inside("ip", "link", "add", "lan0", "mtu", "1400", "type", "bridge")
    machine.node.inside("ip", "link", "set", "lan0", "up")
    machine.node.inside("ip", "route", "add", "default", "dev", "lan0")
    mismatch = found(machine, "mtu-mismatch")
    assert mismatch["subject"] == "netloom"
    assert {"1400", "1500", "lan0"} <= set(re.findall(r"\w+", mismatch["text"]))
    machine.node.inside("ip", "link", "set", "lan0", "mtu", "1500")
    assert is_gone(machine, "mtu-mismatch")
    machine.brought_up("--mtu", "9000")
    assert found(machine, "mtu-mismatch")["subject"] == "netloom"
    machine.brought_up("--mtu", "0")
    assert is_gone(machine, "mtu-mismatch")


# Attachments.


@pytest.mark.usefixtures("attached")
def test_a_link_that_was_deleted_by_hand(machine: Machine) -> None:
    machine.end_agent()
    (link,) = machine.node.links()
    machine.node.inside("ip", "link", "del", link)
    missing = [it for it in findings(machine, "doctor") if it["code"] == "object-missing"]
    assert missing
    assert all(KEY.fullmatch(it["subject"]) and it["next"] for it in missing)
    machine.brought_up()
    assert will_be_gone(machine, "object-missing")


def test_an_address_that_was_added_by_hand(machine: Machine, attached: str) -> None:
    machine.node.in_container(attached, "ip", "address", "add", "10.78.9.9/32", "dev", "eth0")
    finding = found(machine, "address-foreign")
    assert KEY.fullmatch(finding["subject"])
    run_remedies(machine, finding)
    assert is_gone(machine, "address-foreign")


@pytest.mark.usefixtures("attached")
def test_an_address_that_was_added_to_the_hosts_end(machine: Machine) -> None:
    (link,) = machine.node.links()
    machine.node.inside("ip", "address", "add", "10.78.9.9/32", "dev", link)
    finding = found(machine, "address-foreign")
    assert KEY.fullmatch(finding["subject"])
    run_remedies(machine, finding)
    assert is_gone(machine, "address-foreign")


def test_what_somebody_has_changed(machine: Machine, attached: str) -> None:
    machine.node.in_container(attached, "ip", "link", "set", "eth0", "mtu", "1300")
    assert KEY.fullmatch(found(machine, "object-changed")["subject"])
    machine.node.in_container(attached, "ip", "link", "set", "eth0", "mtu", "1500")
    assert is_gone(machine, "object-changed")


def test_a_namespace_that_is_gone(machine: Machine, attached: str) -> None:
    machine.end_agent()
    machine.node.remove_container(attached)
    assert eventually(lambda: machine.node.links() == [])
    assert KEY.fullmatch(found(machine, "netns-stale")["subject"])
    machine.node.start("--grace", "0.1", "--tick", "0.1")
    assert will_be_gone(machine, "netns-stale")


def test_a_namespace_that_somebody_holds(machine: Machine, attached: str) -> None:
    holder = machine.node.popen_in(attached, "sleep", "600")
    assert eventually(lambda: os.readlink(f"/proc/{holder.pid}/exe").endswith("/sleep"))
    machine.node.remove_container(attached)
    try:
        assert KEY.fullmatch(found(machine, "netns-busy")["subject"])
        # On a busy machine, the search ends before it has seen every process.
        assert eventually(lambda: f"process {holder.pid} " in found(machine, "netns-busy")["next"])
    finally:
        holder.kill()
        holder.communicate()
    assert will_be_gone(machine, "netns-busy")


def listening_as(user: int, path: Path) -> subprocess.Popen[bytes]:
    """A process of another user at the agent's socket, for which the directory was open for a moment."""
    code = (
        "import os, socket, sys\n"
        "os.setuid(int(sys.argv[2]))\n"
        "listening = socket.socket(socket.AF_UNIX)\n"
        "if os.path.lexists(sys.argv[1]): os.unlink(sys.argv[1])\n"
        "listening.bind(sys.argv[1])\n"
        "listening.listen(8)\n"
        "print('listening', flush=True)\n"
        "sys.stdin.read()\n"
    )
    path.parent.chmod(0o777)
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path), str(user)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
    finally:
        path.parent.chmod(0o700)
    return process


@pytest.fixture
def open_to_others(machine: Machine) -> None:
    """What is above the socket's directory lets other users through."""
    machine.node.directory.chmod(0o755)


@pytest.mark.usefixtures("open_to_others", "attached")
def test_a_process_of_another_user_in_the_place_of_the_agent(machine: Machine) -> None:
    machine.end_agent()
    with listening_as(65534, machine.node.socket) as impostor:
        finding = found(machine, "socket-foreign", by="status")
        assert str(impostor.pid) in finding["text"]
        assert machine.run("status").status == 1
        machine.brought_up()
        assert is_gone(machine, "socket-foreign", by="status")
        machine.attach(machine.node.container())
        impostor.kill()


@pytest.mark.usefixtures("open_to_others", "attached")
def test_an_agent_takes_its_place_back_from_a_process_of_another_user(machine: Machine) -> None:
    agent = machine.agent
    assert agent is not None
    os.kill(agent, signal.SIGSTOP)
    try:
        impostor = listening_as(65534, machine.node.socket)
    finally:
        os.kill(agent, signal.SIGCONT)
    with impostor:
        assert eventually(lambda: machine.run("status").status == 0)
        assert machine.agent == agent
        machine.attach(machine.node.container())
        impostor.kill()


@pytest.mark.usefixtures("attached")
def test_what_the_kernel_does_not_let_the_agent_put_back(machine: Machine) -> None:
    (link,) = machine.node.links()
    switch = f"net.ipv6.conf.{link}.disable_ipv6"
    machine.node.inside("sysctl", "-w", f"{switch}=1")
    assert eventually(lambda: not is_gone(machine, "attachment-unrepaired", by="status"))
    assert KEY.fullmatch(found(machine, "attachment-unrepaired", by="status")["subject"])
    assert machine.run("status").status == 1
    machine.node.inside("sysctl", "-w", f"{switch}=0")
    assert will_be_gone(machine, "attachment-unrepaired", by="status")


@pytest.mark.usefixtures("attached")
def test_a_table_that_is_gone_while_no_agent_runs(machine: Machine) -> None:
    machine.end_agent()
    machine.node.inside("nft", "flush", "ruleset")
    status = machine.run("status", "--json").document
    assert {"agent-not-running", "table-broken"} <= {it["code"] for it in status["findings"]}
    machine.brought_up()
    assert findings(machine, "status") == []
