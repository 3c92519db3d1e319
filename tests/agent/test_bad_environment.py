"""Environments that no runtime should set: each has its code, and none changes anything."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..fixtures.node import PLUGIN, Node, Outcome

pytestmark = pytest.mark.kernel


@pytest.fixture
def untouched(lasting: Node) -> Iterator[Node]:
    """A node that must have nothing, and the links that it had, when the test ends."""
    before = lasting.inside("ip", "-o", "link").split("\n")
    yield lasting
    assert lasting.inside("ip", "-o", "link").split("\n") == before
    assert lasting.ledger().places() == []
    assert list(lasting.ledger().held()) == []
    assert lasting.audit() == []


@pytest.mark.parametrize("verb", ["ADD", "CHECK", "DEL"])
@pytest.mark.parametrize(
    "container",
    ["a/b", "..", "../../etc", "-a", "a b", "ä", "a\nb", "a%%b", "/" * 4096],
    ids=["slash", "dots", "path", "dash", "space", "umlaut", "newline", "percent", "4k"],
)
def test_a_bad_container_id_is_code_4(untouched: Node, verb: str, container: str) -> None:
    done = untouched.plugin(verb, untouched.container(), CNI_CONTAINERID=container)
    assert done.code == 4
    assert "invalid characters in containerID" in done.document["msg"]
    assert len(done.output) < 2000


def test_a_container_id_that_is_not_utf_8_is_code_4(untouched: Node) -> None:
    done = untouched.plugin("ADD", untouched.container(), CNI_CONTAINERID=os.fsdecode(b"c\xff1"))
    assert done.code == 4


def test_a_container_id_of_four_kilobytes_is_a_container(running: Node) -> None:
    long, container = "c" * 4096, running.container()
    path = f"/run/netns/{container}"
    running.add(long, CNI_NETNS=path)
    assert running.audit() == []
    running.delete(long, CNI_NETNS=path)
    assert running.ledger().places() == []


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_a_missing_container_id_is_code_4(untouched: Node, verb: str) -> None:
    done = untouched.plugin(verb, untouched.container(), CNI_CONTAINERID="")
    assert done.code == 4
    assert "[CNI_CONTAINERID] missing" in done.document["msg"]


@pytest.mark.parametrize("ifname", ["i" * 16, ".", "..", "a:b", "a b", "a/b", "a\tb", "ä" * 8, "lo"])
def test_a_bad_name_of_an_interface_is_code_4(untouched: Node, ifname: str) -> None:
    assert untouched.plugin("ADD", untouched.container(), ifname=ifname).code == 4


def test_a_name_of_fifteen_bytes_is_an_interface(running: Node) -> None:
    container = running.container()
    running.add(container, ifname="i" * 15)
    assert running.audit() == []


@pytest.mark.parametrize(
    "args",
    ["IP", "IP=10.9.0.5=6", "=;;", "IP=10.9.0.5;", ";", "IgnoreUnknown=perhaps", "COLOUR=red"],
    ids=["no value", "two values", "nothing", "empty pair", "only a separator", "no boolean", "unknown"],
)
def test_bad_arguments_are_code_4(untouched: Node, args: str) -> None:
    done = untouched.plugin("ADD", untouched.container(), CNI_ARGS=args)
    assert done.code == 4
    assert "ARGS" in done.document["msg"]


def test_unknown_arguments_pass_if_they_are_to_be_ignored(running: Node) -> None:
    args = "IgnoreUnknown=1;COLOUR=red;K8S_POD_NAMESPACE=web;K8S_POD_NAME=shop-0;K8S_POD_UID=u1"
    running.add(running.container(), CNI_ARGS=args)
    (row,) = running.ledger().attachments()
    assert (row.namespace, row.pod, row.uid) == ("web", "shop-0", "u1")


@pytest.mark.parametrize("size", [100_000, 125_000])
def test_arguments_of_the_kernels_limit_are_read(untouched: Node, size: int) -> None:
    """One variable of the environment may have 128 KiB."""
    done = untouched.plugin("ADD", untouched.container(), CNI_ARGS="COLOUR=" + "r" * size)
    assert done.code == 4
    assert len(done.output) < 2000


def test_a_megabyte_of_arguments_that_another_client_sends_is_code_4(untouched: Node) -> None:
    done = untouched.ask("ADD", untouched.container(), CNI_ARGS="COLOUR=" + "r" * 1_000_000)
    assert done.code == 4
    assert len(done.output) < 2000


def test_a_variable_that_is_there_twice_is_read_once(running: Node) -> None:
    """The second is for nobody: the plugin and the agent see the same."""
    container = running.container()
    environment = {**running.cni_environment("ADD", container), "NETLOOM_SOCKET": str(running.socket)}
    pairs = [f"{name}={value}".encode() for name, value in environment.items()] + [b"CNI_IFNAME=eth9"]
    script = (
        "import ctypes, sys; libc = ctypes.CDLL(None); "
        "pairs = [part.encode() for part in sys.argv[2:]]; "
        "array = lambda items: (ctypes.c_char_p * (len(items) + 1))(*items, None); "
        "libc.execve(sys.argv[1].encode(), array([b'netloom']), array(pairs))"
    )
    words = ["python3", "-c", script, str(PLUGIN), *map(os.fsdecode, pairs)]
    done = subprocess.run(running.command(*words), input=running.config(), capture_output=True, timeout=30)
    assert done.returncode == 0
    assert [row.ifname for row in running.ledger().attachments()] == ["eth0"]


# CNI_NETNS.


def add_at(node: Node, path: str | os.PathLike[str]) -> Outcome:
    return node.plugin("ADD", node.container(), CNI_NETNS=os.fspath(path))


def test_a_regular_file_is_no_namespace(untouched: Node) -> None:
    file = untouched.directory / "file"
    file.write_text("")
    done = add_at(untouched, file)
    assert done.code == 8
    assert str(file) in done.document["msg"]


def test_a_directory_is_no_namespace(untouched: Node) -> None:
    assert add_at(untouched, untouched.directory).code == 8


def test_a_fifo_is_no_namespace_and_nobody_waits_at_it(untouched: Node) -> None:
    fifo = untouched.directory / "fifo"
    os.mkfifo(fifo)
    assert add_at(untouched, fifo).code == 8


def test_a_namespace_of_another_kind_is_no_network_namespace(untouched: Node) -> None:
    assert add_at(untouched, "/proc/self/ns/mnt").code == 8


def test_a_link_that_leads_nowhere_is_no_namespace(untouched: Node) -> None:
    link = untouched.directory / "link"
    link.symlink_to("/nowhere")
    assert add_at(untouched, link).code == 8


def test_a_namespace_that_was_deleted_is_no_namespace(untouched: Node) -> None:
    container = untouched.container()
    untouched.remove_container(container)
    assert untouched.plugin("ADD", container).code == 8


def test_a_name_whose_mount_is_gone_is_no_namespace(untouched: Node) -> None:
    """What is left of a named namespace after its unmount is an empty file."""
    path = Path("/run/netns/unmounted")
    path.touch()
    try:
        assert add_at(untouched, path).code == 8
    finally:
        path.unlink()


def test_the_hosts_namespace_is_refused_also_if_the_plugin_runs_elsewhere(untouched: Node) -> None:
    """A runtime may live in a namespace of its own: the host's is then not the plugin's."""
    host = f"/proc/{os.getpid()}/fd/{untouched.namespace.fileno()}"
    assert untouched.ask("ADD", untouched.container(), CNI_NETNS=host).code == 8


def test_a_descriptor_that_is_no_namespace_is_refused(untouched: Node) -> None:
    """The agent does not trust that somebody has looked before it."""
    assert untouched.ask("ADD", untouched.container(), CNI_NETNS="/dev/null").code == 8


def test_del_with_a_descriptor_that_is_no_namespace_succeeds(running: Node) -> None:
    container = running.container()
    running.add(container)
    assert running.ask("DEL", container, CNI_NETNS="/dev/null").status == 0
    assert running.links() == []
    assert running.audit() == []


def test_add_without_a_descriptor_is_refused(untouched: Node) -> None:
    assert untouched.ask("ADD", untouched.container(), netns=False).code == 8


def test_check_in_another_containers_namespace_tells_that_nothing_is_there(running: Node) -> None:
    container, other = running.container(), running.container()
    result = running.add(container).document
    running.add(other)
    config = running.config(prevResult=result)
    assert running.plugin("CHECK", container, config, CNI_NETNS=f"/run/netns/{other}").status == 1
    assert running.plugin("CHECK", container, config).status == 0


def test_del_with_another_containers_namespace_takes_its_own_only(running: Node) -> None:
    container, other = running.container(), running.container()
    running.add(container)
    running.add(other)
    running.delete(container, CNI_NETNS=f"/run/netns/{other}")
    assert len(running.links()) == 1
    assert "eth0" in running.in_container(other, "ip", "link").stdout
    assert "eth0" not in running.in_container(container, "ip", "link").stdout
    assert running.audit() == []


def test_add_into_another_containers_namespace_does_not_touch_what_is_there(running: Node) -> None:
    container, other = running.container(), running.container()
    running.add(container)
    done = running.plugin("ADD", other, CNI_NETNS=f"/run/netns/{container}")
    assert done.code == 102
    assert len(running.ledger().places()) == 1
    assert running.audit() == []
