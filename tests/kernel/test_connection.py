from __future__ import annotations

import errno
import gc
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from netloom.kernel.errors import KernelError, OutcomeUnknown, Refused
from netloom.kernel.namespace import Namespace
from netloom.kernel.netlink import address, connection, link, nftables, route
from netloom.kernel.netlink.connection import ROUTE, NetlinkConnection
from netloom.kernel.netlink.message import ACK, CREATE, EXCLUSIVE, text

pytestmark = pytest.mark.kernel

MAKE = CREATE | EXCLUSIVE
IPV4_ADDRESSES = 5  # the kernel's multicast group for them
TINY = 1 << 12
MANY = 2000


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    with Namespace.new() as made:
        with made.entered():
            subprocess.run(
                ["ip", "-batch", "-"],
                input="link add v0 type veth peer name v1\nlink set v0 up\nlink set v1 up\n",
                text=True,
                check=True,
            )
        yield made


@pytest.fixture
def index(namespace: Namespace) -> int:
    return namespace.route.index("v0")


@pytest.fixture
def many_routes(namespace: Namespace, index: int) -> None:
    """More of them than one datagram holds."""
    for number in range(MANY):
        packed = (0x0A800000 + number).to_bytes(4, "big")
        payload = route.build(
            socket.AF_INET, packed, 32, hops=[route.RouteHop(index, None)], scope=route.LINK_SCOPE
        )
        namespace.route.change(route.NEW, MAKE, payload)


def new_address(index: int, number: int) -> bytes:
    return address.build(index, socket.AF_INET, bytes([10, 7, number >> 8, number & 255]), 32)


def addresses(connection: NetlinkConnection, index: int) -> set[str]:
    listed = connection.dump(address.GET, address.of_link(index, socket.AF_INET))
    return {address.decode(payload).address for payload in listed}


def fill(namespace: Namespace, index: int) -> None:
    """Makes more notifications about addresses than a tiny buffer holds."""
    for number in range(100):
        namespace.route.change(address.NEW, MAKE, new_address(index, 1000 + number))


def listed_routes(connection: NetlinkConnection) -> int:
    return len(connection.dump(route.GET, route.of_table(socket.AF_INET, route.MAIN)))


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Repeats work on another thread while the block runs."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class GivenUp(Exception):
    pass


def give_up_after(seconds: float, work: Callable[[], object]) -> None:
    """Repeats work until it is interrupted, wherever it is by then, as by Ctrl-C."""

    def give_up(*_: object) -> None:
        raise GivenUp

    before = signal.signal(signal.SIGALRM, give_up)
    gc.disable()  # an exception in a finaliser, where it may strike, would be ignored
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            work()
    except GivenUp:
        return
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_the_kernels_own_explanation_is_in_the_error(namespace: Namespace, index: int) -> None:
    with pytest.raises(Refused, match="mtu less than device minimum") as caught:
        namespace.route.change(link.NEW, 0, link.change(index, link.properties(mtu=1)))
    assert (caught.value.errno, caught.value.explanation) == (errno.EINVAL, "mtu less than device minimum")


def test_a_refused_question_has_the_kernels_explanation(namespace: Namespace) -> None:
    with pytest.raises(Refused) as caught:
        namespace.route.dump(route.GET, route.of_table(socket.AF_INET, 4711))
    assert (caught.value.errno, caught.value.explanation) == (errno.ENOENT, "ipv4: FIB table does not exist")


def test_the_attribute_that_the_kernel_misses_is_in_the_error(namespace: Namespace) -> None:
    request = link.create("vxlan", link.properties(name="x0"))
    with pytest.raises(Refused) as caught:
        namespace.route.change(link.NEW, MAKE, request)
    assert "Required attributes not provided" in caught.value.explanation


def test_an_error_without_an_explanation_is_the_bare_reason(namespace: Namespace) -> None:
    with pytest.raises(Refused) as caught:
        namespace.route.ask(link.GET, link.get_by_name("nobody"))
    assert str(caught.value) == "No such device"


@pytest.fixture
def staying(namespace: Namespace) -> set[str]:
    """More links than one datagram holds."""
    for number in range(150):
        peer = link.veth_peer(link.properties(name=f"q{number}"), None)
        namespace.route.change(link.NEW, MAKE, link.create("veth", link.properties(name=f"p{number}"), peer))
    return {"lo", "v0", "v1"} | {f"{letter}{number}" for letter in "pq" for number in range(150)}


@pytest.fixture
def coming_and_going(namespace: Namespace) -> Iterator[None]:
    """A link that is made and removed all the time."""
    with namespace.connect() as other:

        def come_and_go() -> None:
            other.change(link.NEW, MAKE, link.create("bridge", link.properties(name="x0")))
            other.change(link.DELETE, 0, link.by_name("x0"))

        with meanwhile(come_and_go):
            yield


def names_of_links(connection: NetlinkConnection) -> list[str]:
    return [link.decode(payload).name for payload in connection.dump(link.GET, link.everything())]


@pytest.mark.usefixtures("coming_and_going")
def test_a_dump_of_links_that_come_and_go_is_complete(namespace: Namespace, staying: set[str]) -> None:
    for _ in range(100):
        names = names_of_links(namespace.route)
        assert sorted(set(names) - {"x0"}) == sorted(staying)
        assert len(set(names)) == len(names)


@pytest.mark.usefixtures("coming_and_going", "staying")
def test_a_dump_that_never_comes_to_rest_ends_with_an_error(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one try instead of many, the first interruption is one too many."""
    monkeypatch.setattr(connection, "_DUMP_TRIES", 1)
    deadline = time.monotonic() + 20

    def dump_until_it_fails() -> None:
        while time.monotonic() < deadline:
            names_of_links(namespace.route)

    with pytest.raises(KernelError, match="interrupted 1 times") as caught:
        dump_until_it_fails()
    assert caught.value.errno == errno.EINTR


@pytest.mark.usefixtures("many_routes")
def test_a_dump_through_a_tiny_receive_buffer_is_complete(namespace: Namespace) -> None:
    with namespace.connect(ROUTE, receive_buffer=TINY) as tiny:
        assert listed_routes(tiny) == MANY


def test_a_question_is_repeated_when_notifications_overflow_the_buffer(
    namespace: Namespace, index: int
) -> None:
    with namespace.connect(ROUTE, (IPV4_ADDRESSES,), TINY) as tiny:
        fill(namespace, index)
        payload = tiny.ask(link.GET, link.get_by_name("lo"))
    assert payload is not None
    assert link.decode(payload).name == "lo"


@pytest.mark.usefixtures("many_routes")
def test_a_dump_is_repeated_when_notifications_overflow_the_buffer(namespace: Namespace, index: int) -> None:
    with namespace.connect(ROUTE, (IPV4_ADDRESSES,), TINY) as tiny:
        fill(namespace, index)
        assert listed_routes(tiny) == MANY


def test_a_change_whose_answer_is_lost_is_of_unknown_outcome(namespace: Namespace, index: int) -> None:
    with namespace.connect(ROUTE, (IPV4_ADDRESSES,), TINY) as tiny:
        fill(namespace, index)
        with pytest.raises(OutcomeUnknown, match="lost"):
            tiny.change(address.NEW, MAKE, new_address(index, 1))
    assert "10.7.0.1" in addresses(namespace.route, index)


def test_a_change_that_is_never_answered_is_of_unknown_outcome() -> None:
    """Nobody reads at the other end, and the wait is cut short: the kernel itself always answers in time."""
    user_sockets = 2  # netlink between programs
    with (
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, user_sockets) as silent,
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, user_sockets) as own,
    ):
        for end in (silent, own):
            end.bind((0, 0))
        own.connect(silent.getsockname())
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50_000))
        with pytest.raises(OutcomeUnknown, match="did not answer"):
            NetlinkConnection(own).change(link.NEW, 0, b"")


def test_the_next_change_after_a_lost_answer_is_answered_at_once(namespace: Namespace, index: int) -> None:
    with namespace.connect(ROUTE, (IPV4_ADDRESSES,), TINY) as tiny:
        fill(namespace, index)
        with pytest.raises(OutcomeUnknown):
            tiny.change(address.NEW, MAKE, new_address(index, 1))
        started = time.monotonic()
        with pytest.raises(Refused, match="exists"):
            tiny.change(address.NEW, MAKE, new_address(index, 1))
        assert time.monotonic() - started < 10


@pytest.mark.usefixtures("many_routes")
def test_a_read_buffer_that_is_too_small_grows_and_the_dump_is_complete(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_BUFFER", 64)
    with namespace.connect() as narrow:
        assert listed_routes(narrow) == MANY


def test_a_read_buffer_that_is_too_small_grows_and_the_question_is_answered(
    namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_BUFFER", 64)
    with namespace.connect() as narrow:
        payload = narrow.ask(link.GET, link.get_by_name("v0"))
    assert payload is not None
    assert link.decode(payload).name == "v0"


def test_a_change_whose_answer_is_cut_off_is_of_unknown_outcome(
    namespace: Namespace, index: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_BUFFER", 16)
    with namespace.connect() as narrow:
        with pytest.raises(OutcomeUnknown, match="truncated"):
            narrow.change(address.NEW, MAKE, new_address(index, 1))
        assert addresses(narrow, index) == {"10.7.0.1"}


def test_a_notification_is_not_taken_for_an_answer(namespace: Namespace, index: int) -> None:
    """Both connections number their requests from one, and a notification has its cause's number."""
    with namespace.connect(ROUTE, (IPV4_ADDRESSES,)) as listening, namespace.connect() as other:
        other.change(address.NEW, MAKE, new_address(index, 1))
        payload = listening.ask(link.GET, link.get_by_name("lo"))
    assert payload is not None
    assert link.decode(payload).name == "lo"


@pytest.mark.usefixtures("many_routes")
def test_a_dump_after_one_that_was_given_up_is_whole(namespace: Namespace) -> None:
    for attempt in range(40):
        give_up_after(0.0005 + attempt * 0.0001, lambda: listed_routes(namespace.route))
        assert listed_routes(namespace.route) == MANY


@pytest.mark.usefixtures("many_routes")
def test_a_question_after_a_dump_that_was_given_up_has_its_own_answer(namespace: Namespace) -> None:
    for attempt in range(40):
        give_up_after(0.0005 + attempt * 0.0001, lambda: listed_routes(namespace.route))
        payload = namespace.route.ask(link.GET, link.get_by_name("v1"))
        assert payload is not None
        assert link.decode(payload).name == "v1"


def test_a_change_after_one_that_was_given_up_has_its_own_answer(namespace: Namespace, index: int) -> None:
    """The given-up changes fail; if their answer counted for the next one, that would fail, too."""

    def fail() -> None:
        with suppress(Refused):
            namespace.route.change(address.DELETE, 0, new_address(index, 5))

    for attempt in range(100):
        give_up_after(0.0002 + attempt * 0.00001, fail)
        namespace.route.change(address.NEW, MAKE, new_address(index, attempt + 256))


@pytest.mark.parametrize(
    "use",
    [
        lambda own: own.ask(link.GET, link.get_by_name("lo")),
        lambda own: own.dump(link.GET, link.everything()),
        lambda own: own.change(link.DELETE, 0, link.by_name("lo")),
        lambda own: own.index("lo"),
        lambda own: own.notifications(),
    ],
    ids=["ask", "dump", "change", "index", "notifications"],
)
def test_a_closed_connection_says_so(
    namespace: Namespace, use: Callable[[NetlinkConnection], object]
) -> None:
    own = namespace.connect()
    own.close()
    with pytest.raises(KernelError, match="closed") as caught:
        use(own)
    assert caught.value.errno == errno.EBADF


def test_a_request_that_is_too_large_to_send_is_refused(namespace: Namespace) -> None:
    with pytest.raises(KernelError, match="too long") as caught:
        namespace.route.change(link.NEW, 0, bytes(1 << 20))
    assert caught.value.errno == errno.EMSGSIZE
    namespace.route.index("lo")


BEGIN, END, BATCH = 0x10, 0x11, bytes([0, 0, 0, 10])


def batch(kind: int, payloads: list[bytes], flags: int = 0) -> list[tuple[int, int, bytes]]:
    """A transaction of nftables, of which each request asks for an answer if the flags say so."""
    *others, last = payloads
    requests = [*((kind, flags, payload) for payload in others), (kind, flags | ACK, last)]
    return [(BEGIN, 0, BATCH), *requests, (END, 0, BATCH)]


def new_tables(number: int) -> list[bytes]:
    return [bytes([1, 0, 0, 0]) + text(1, f"t{n}") for n in range(number)]


NEW_TABLE, DELETE_TABLE = 10 << 8, 10 << 8 | 2


def test_a_transaction_of_thousands_of_requests_is_answered_once(namespace: Namespace) -> None:
    """All at once are more than the socket's buffers hold, there and back."""
    own = namespace.netfilter
    own.transact(batch(NEW_TABLE, new_tables(20_000), CREATE))
    assert nftables.read_table(own, "inet", "t19999") == ""
    own.transact(batch(DELETE_TABLE, new_tables(20_000)))
    assert nftables.read_table(own, "inet", "t0") is None


@pytest.mark.parametrize("flags", [0, ACK], ids=["asked once", "asked for each"])
def test_of_thousands_of_refusals_the_first_is_told(namespace: Namespace, flags: int) -> None:
    own = namespace.netfilter
    own.transact(batch(NEW_TABLE, new_tables(1), CREATE))
    for _ in range(2):  # what did not fit is not in the way of what follows
        with pytest.raises(Refused) as refused:
            own.transact(batch(DELETE_TABLE, new_tables(2000)[1:], flags))
        assert refused.value.errno == errno.ENOENT
        assert nftables.read_table(own, "inet", "t0") == ""


def test_a_transaction_whose_answers_are_lost_is_of_unknown_outcome(namespace: Namespace) -> None:
    own = namespace.netfilter
    with pytest.raises(OutcomeUnknown):
        own.transact(batch(NEW_TABLE, new_tables(2000), CREATE | ACK))
    assert nftables.read_table(own, "inet", "t1999") == ""


def test_a_transaction_is_refused_by_the_one_request_that_is_wrong(namespace: Namespace) -> None:
    own = namespace.netfilter
    tables = new_tables(500)
    with pytest.raises(Refused) as refused:
        own.transact(batch(NEW_TABLE, [*tables, tables[250], *new_tables(600)[500:]], CREATE | EXCLUSIVE))
    assert refused.value.errno == errno.EEXIST
    assert nftables.read_table(own, "inet", "t0") is None
