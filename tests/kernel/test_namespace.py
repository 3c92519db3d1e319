from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from struct import pack
from typing import TypeVar

import pytest

from netloom.kernel import InvalidNamespace, InvalidPlan, KernelError, Namespace, Scope
from netloom.kernel.netlink import link

pytestmark = pytest.mark.kernel

T = TypeVar("T")

HERE = "/proc/thread-self/ns/net"


def here() -> tuple[int, int]:
    """The network namespace that this thread is in."""
    status = os.stat(HERE)
    return status.st_dev, status.st_ino


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def names_of_links(namespace: Namespace) -> set[str]:
    listed = namespace.route.dump(link.GET, link.everything())
    return {link.decode(payload).name for payload in listed}


def make_bridge(path: str, name: str) -> None:
    subprocess.run(["ip", "-n", Path(path).name, "link", "add", name, "type", "bridge"], check=True)


def test_a_path_to_a_network_namespace_is_opened(netns: str) -> None:
    make_bridge(netns, "br7")
    with Namespace.open(netns) as namespace:
        assert names_of_links(namespace) == {"lo", "br7"}


def test_a_link_to_a_network_namespace_is_opened(netns: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(netns)
    with Namespace.open(str(tmp_path / "link")) as namespace, Namespace.open(netns) as other:
        assert namespace.identity == other.identity


def test_a_process_leads_to_its_network_namespace() -> None:
    with Namespace.open(f"/proc/{os.getpid()}/ns/net") as namespace:
        assert namespace.identity == here()


def make_file(path: Path) -> None:
    path.write_text("")


def make_directory(path: Path) -> None:
    path.mkdir()


def make_dangling_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


def make_nothing(path: Path) -> None:
    del path


OTHERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a regular file": (make_file, "is a regular file, not a network namespace"),
    "a directory": (make_directory, "a directory, not a network namespace"),
    "a FIFO": (os.mkfifo, "a FIFO, not a network namespace"),
    "a dangling link": (make_dangling_link, "a dangling symbolic link"),
    "a loop of links": (make_loop, "symbolic links"),
    "a socket": (make_socket, "cannot open network namespace"),
    "nothing": (make_nothing, "No such file or directory"),
}


@pytest.mark.parametrize(("make", "words"), OTHERS.values(), ids=OTHERS)
def test_what_is_no_namespace_is_refused_by_what_it_is(
    tmp_path: Path, make: Callable[[Path], None], words: str
) -> None:
    path = tmp_path / "ns"
    make(path)
    with pytest.raises(InvalidNamespace, match=words) as caught:
        Namespace.open(str(path))
    assert str(path) in str(caught.value)


def test_a_fifo_that_nobody_writes_to_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    started = time.monotonic()
    with pytest.raises(InvalidNamespace):
        Namespace.open(str(tmp_path / "fifo"))
    assert time.monotonic() - started < 10


def test_a_device_is_refused() -> None:
    with pytest.raises(InvalidNamespace, match="/dev/null is a device"):
        Namespace.open("/dev/null")


def test_a_file_in_place_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidNamespace, match="Not a directory"):
        Namespace.open(str(tmp_path / "file" / "ns"))


@pytest.mark.parametrize("path", ["a\0b", "\0", "\udc80\0"])
def test_a_path_with_a_nul_is_refused(path: str) -> None:
    with pytest.raises(InvalidNamespace, match="not a path") as caught:
        Namespace.open(path)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("path", ["", "x" * 300, "/" + "y/" * 3000, "/\ud800"])
def test_a_path_that_can_lead_nowhere_is_refused(path: str) -> None:
    with pytest.raises(InvalidNamespace):
        Namespace.open(path)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("mnt", "a mount namespace"),
        ("uts", "a UTS namespace"),
        ("ipc", "an IPC namespace"),
        ("pid", "a PID namespace"),
        ("user", "a user namespace"),
        ("cgroup", "a cgroup namespace"),
    ],
)
def test_a_namespace_of_another_kind_is_refused_by_its_kind(kind: str, words: str) -> None:
    with pytest.raises(InvalidNamespace, match=f"{words}, not a network namespace"):
        Namespace.open(f"/proc/self/ns/{kind}")


def test_what_is_left_of_an_unmounted_namespace_is_refused(netns: str) -> None:
    subprocess.run(["umount", netns], check=True)
    with pytest.raises(InvalidNamespace, match="was it unmounted"):
        Namespace.open(netns)


def test_a_refused_path_costs_no_descriptor(tmp_path: Path) -> None:
    before = descriptors()
    for path in ("/proc/self/ns/mnt", "/dev/null", str(tmp_path), "/dev/zero", "/proc/self/stat"):
        with pytest.raises(InvalidNamespace):
            Namespace.open(path)
    assert descriptors() == before


def test_the_hosts_own_namespace_is_no_attachments() -> None:
    with (
        Namespace.own() as host,
        Namespace.open(HERE) as same,
        pytest.raises(InvalidPlan, match="the host's own"),
    ):
        Scope(host, same)


def test_closing_twice_is_closing() -> None:
    before = descriptors()
    namespace = Namespace.new()
    assert namespace.route.index("lo") == 1
    namespace.close()
    taken = os.open("/dev/null", os.O_RDONLY)  # a second close must not hit whoever has the number now
    namespace.close()
    os.fstat(taken)
    os.close(taken)
    assert descriptors() == before


@pytest.mark.parametrize(
    "use",
    [
        lambda namespace: namespace.fileno(),
        lambda namespace: namespace.entered().__enter__(),
        lambda namespace: namespace.connect(),
        lambda namespace: namespace.route,
        lambda namespace: namespace.netfilter,
        lambda namespace: namespace.nft,
    ],
    ids=["fileno", "entered", "connect", "route", "netfilter", "nft"],
)
def test_a_closed_namespace_says_so(use: Callable[[Namespace], object]) -> None:
    namespace = Namespace.new("pod seven")
    namespace.close()
    with pytest.raises(InvalidNamespace, match="pod seven is closed"):
        use(namespace)


def test_a_namespace_that_nobody_holds_closes_itself() -> None:
    before = descriptors()
    namespace = Namespace.new()
    assert namespace.route.index("lo") == 1
    del namespace
    assert descriptors() == before


def test_a_descriptor_is_copied_and_the_callers_own_stays_open(netns: str) -> None:
    fd = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Namespace.of_descriptor(fd, "given") as namespace:
            assert namespace.fileno() != fd
            assert not os.get_inheritable(namespace.fileno())
            assert names_of_links(namespace) == {"lo"}
        os.fstat(fd)
    finally:
        os.close(fd)


def test_a_descriptor_of_something_else_is_refused(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(InvalidNamespace, match="given is a directory"):
            Namespace.of_descriptor(fd, "given")
    finally:
        os.close(fd)


@pytest.mark.parametrize("fd", [-1, 999_999])
def test_a_descriptor_that_is_not_open_is_refused(fd: int) -> None:
    with pytest.raises(InvalidNamespace, match="given") as caught:
        Namespace.of_descriptor(fd, "given")
    assert caught.value.errno == errno.EBADF


def test_the_block_runs_inside_and_the_thread_comes_back() -> None:
    before = here()
    with Namespace.new() as namespace:
        with namespace.entered():
            assert here() == namespace.identity != before
        assert here() == before


def test_the_thread_comes_back_after_an_exception() -> None:
    before = here()
    with Namespace.new() as namespace:
        with pytest.raises(LookupError), namespace.entered():
            raise LookupError
        assert here() == before


def test_only_the_calling_thread_moves() -> None:
    before = here()
    inside, seen = threading.Event(), threading.Event()
    found: list[tuple[int, int]] = []

    def look() -> None:
        inside.wait(10)
        found.append(here())
        seen.set()

    thread = threading.Thread(target=look)
    thread.start()  # a thread that starts inside would be born there
    with Namespace.new() as namespace, namespace.entered():
        inside.set()
        assert seen.wait(10)
    thread.join()
    assert found == [before]


def test_namespaces_can_be_entered_inside_each_other() -> None:
    before = here()
    with Namespace.new() as outer, Namespace.new() as inner:
        with outer.entered():
            with inner.entered():
                assert here() == inner.identity
            assert here() == outer.identity
        assert here() == before


def test_a_connection_stays_in_its_namespace(netns: str) -> None:
    with Namespace.open(netns) as namespace:
        connection = namespace.route
        make_bridge(netns, "br7")
        assert connection.index("br7") > 1
        with Namespace.own() as own, pytest.raises(KernelError, match="No such device"):
            own.route.index("br7")


def test_an_event_loops_thread_is_not_moved(netns: str) -> None:
    before = here()

    async def on_the_loop() -> None:
        with Namespace.open(netns) as namespace:
            for use in (
                lambda: namespace.entered().__enter__(),
                lambda: namespace.route,
                lambda: namespace.nft,
                Namespace.new,
            ):
                with pytest.raises(RuntimeError, match="event loop"):
                    use()
                assert here() == before

    asyncio.run(on_the_loop())
    assert here() == before


def test_a_thread_beside_an_event_loop_may_enter(netns: str) -> None:
    async def on_the_loop() -> set[str]:
        before = here()
        with Namespace.open(netns) as namespace:
            found = await asyncio.to_thread(names_of_links, namespace)
        assert here() == before
        return found

    assert asyncio.run(on_the_loop()) == {"lo"}


def test_sockets_are_opened_inside_without_a_child_process(netns: str) -> None:
    def work() -> set[str]:
        with pytest.raises(PermissionError):
            os.fork()
        with Namespace.open(netns) as namespace:
            assert namespace.nft.run("list tables") == ""
            return names_of_links(namespace)

    assert in_a_thread_that_cannot_fork(work) == {"lo"}


def in_a_thread_that_cannot_fork(work: Callable[[], T]) -> T:
    """The kernel refuses this thread, and only this one, every system call that makes a process."""
    found: list[T] = []
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            forbid_children()
            found.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return found[0]


def forbid_children() -> None:
    calls = {"x86_64": (56, 57, 58, 435), "aarch64": (220, 435)}[os.uname().machine]
    load_number, equals, returns = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    steps = [pack("=HBBI", load_number, 0, 0, 0)]
    steps += [pack("=HBBI", equals, len(calls) - number, 0, call) for number, call in enumerate(calls)]
    steps += [pack("=HBBI", returns, 0, 0, allow), pack("=HBBI", returns, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(steps))
    program = ctypes.create_string_buffer(pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    set_seccomp, filter_mode = 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(set_seccomp, filter_mode, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def test_a_thousand_opens_leak_no_descriptor(netns: str) -> None:
    with Namespace.open(netns) as namespace:
        namespace.route.index("lo")
        assert namespace.nft.run("list tables") == ""
    before = descriptors()
    for _ in range(1000):
        with Namespace.open(netns) as namespace:
            namespace.route.index("lo")
            namespace.netfilter.fileno()
            assert namespace.nft.run("list tables") == ""
    assert descriptors() == before


def test_a_new_namespace_has_nothing_but_a_loopback_that_is_down() -> None:
    with Namespace.new() as namespace:
        payload = namespace.route.ask(link.GET, link.get_by_name("lo"))
        assert payload is not None
        assert not link.decode(payload).up
        assert names_of_links(namespace) == {"lo"}
