"""The agent's socket: whatever comes in by it, the agent goes on and holds nothing that is not its own."""

from __future__ import annotations

import array
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from netloom.api.protocol import LENGTH, REQUEST_MAX, Head, encode

from ..fixtures.node import NETLOOM, PLUGIN, Node, Outcome, eventually, received

pytestmark = pytest.mark.kernel


@pytest.fixture
def unharmed(shared: Node) -> Iterator[Node]:
    """A node whose agent must not hold more descriptors, and must serve, when the test ends."""
    first = shared.container()
    shared.add(first)
    shared.delete(first)
    shared.plugin("STATUS")
    # SQLite keeps one of a connection that it closed, until no other has a lock.
    before = shared.descriptors() + 1
    yield shared
    assert shared.agent is not None
    assert shared.agent.poll() is None
    assert eventually(lambda: shared.descriptors() <= before)
    shared.add(shared.container())
    assert shared.audit() == []


def request(node: Node, verb: str, container: str, config: bytes | None = None, **variables: str) -> bytes:
    """The bytes of a request."""
    environment = node.cni_environment(verb, container, **variables)
    head = Head(protocol=1, environment=environment, sent=time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    return encode(head, node.config() if config is None else config)


@pytest.fixture
def spare() -> Iterator[list[int]]:
    """Descriptors to send."""
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(300)]
    yield opened
    for descriptor in opened:
        os.close(descriptor)


def unread(connection: socket.socket) -> int:
    """Bytes that the other side has not read yet."""
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.TIOCOUTQ, count)
    return count[0]


# Descriptors.


def test_a5_adds_and_dels_good_and_bad_leave_no_descriptor(unharmed: Node) -> None:
    containers = [unharmed.container() for _ in range(10)]
    for _ in range(5):
        for container in containers:
            assert unharmed.ask("ADD", container).status == 0
            assert unharmed.ask("ADD", container, unharmed.config(mtu=1)).status == 1
            assert unharmed.ask("ADD", container, CNI_NETNS="/dev/null").status == 1
        for container in containers:
            assert unharmed.ask("DEL", container).status == 0


@pytest.mark.parametrize("count", [2, 5, 8, 9, 253])
def test_more_than_one_descriptor_is_refused_and_all_are_closed(
    unharmed: Node, spare: list[int], count: int
) -> None:
    """More than eight are cut off by the kernel (MSG_CTRUNC); 253 is the most that it carries."""
    done = unharmed.call(request(unharmed, "DEL", "nobody"), spare[:count])
    assert done.code == 999
    assert "descriptor" in done.document["msg"]


def test_descriptors_that_come_one_by_one_are_refused(unharmed: Node, spare: list[int]) -> None:
    frame = request(unharmed, "DEL", "nobody")
    with unharmed.connect() as connection:
        socket.send_fds(connection, [frame[:10]], spare[:1])
        assert eventually(lambda: unread(connection) == 0)
        socket.send_fds(connection, [frame[10:20]], spare[1:2])
        assert received(connection).code == 999


def test_del_needs_no_descriptor(unharmed: Node) -> None:
    container = unharmed.container()
    unharmed.add(container)
    assert unharmed.ask("DEL", container, netns=False).status == 0


def test_descriptors_without_a_request_are_closed(unharmed: Node, spare: list[int]) -> None:
    for _ in range(20):
        with unharmed.connect() as connection:
            socket.send_fds(connection, [b"\0"], spare[:1])


# Frames.


def test_a6_a_large_request_in_many_writes_is_one_request(unharmed: Node) -> None:
    container = unharmed.container()
    frame = request(unharmed, "ADD", container, unharmed.config(comment="x" * 10_000))
    netns = os.open(f"/run/netns/{container}", os.O_RDONLY)
    with unharmed.connect() as connection:
        socket.send_fds(connection, [frame[:1]], [netns])
        os.close(netns)
        for start in range(1, len(frame), 1000):
            connection.sendall(frame[start : start + 1000])
            time.sleep(0.001)
        assert received(connection).status == 0


def test_a_reply_of_more_than_a_page_arrives_whole(running: Node) -> None:
    before = {"cniVersion": "1.1.0", "interfaces": [{"name": f"if{number}"} for number in range(2000)]}
    added = running.add(running.container(), running.config(prevResult=before))
    assert len(added.output) > 1 << 16
    assert len(added.document["interfaces"]) == 2002


@pytest.mark.parametrize(
    "frame",
    [
        LENGTH.pack(0),
        LENGTH.pack(3) + b"abc",
        LENGTH.pack(REQUEST_MAX + 1),
        LENGTH.pack(0xFFFFFFFF),
        LENGTH.pack(8) + LENGTH.pack(5) + b"{}{}",
        LENGTH.pack(6) + LENGTH.pack(2) + b"{}",
        LENGTH.pack(8) + LENGTH.pack(4) + b"\xff\xff\xff\xff",
        LENGTH.pack(4) + LENGTH.pack(0),
        LENGTH.pack(204) + LENGTH.pack(200) + b"[" * 200,
        encode(Head(protocol=2)),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=[
        "no length", "too short", "too long", "endless", "head beyond the end", "head without a protocol",
        "not utf-8", "no head", "deep", "another protocol", "http",
    ],
)  # fmt: skip
def test_what_is_no_request_is_told_so(unharmed: Node, frame: bytes) -> None:
    done = unharmed.call(frame)
    assert done.code == 999
    assert done.document["cniVersion"] == "1.1.0"


def test_what_comes_behind_a_request_is_not_read_as_another(unharmed: Node) -> None:
    container = unharmed.container()
    unharmed.add(container)
    frames = request(unharmed, "STATUS", "") + request(unharmed, "DEL", container)
    assert unharmed.call(frames).status == 0
    assert len(unharmed.links()) == 1


def test_a_question_that_nobody_knows_is_told_so(unharmed: Node) -> None:
    done = unharmed.call(encode(Head(protocol=1, question="why")))
    assert done.status == 1
    assert "why" in done.document["error"]


def test_large_requests_leave_no_memory_behind(unharmed: Node) -> None:
    config = unharmed.config(comment="x" * (15 << 20), mtu=1)
    for _ in range(3):
        assert unharmed.ask("ADD", "large", config).status == 1
    before = unharmed.memory()
    for _ in range(12):
        assert unharmed.ask("ADD", "large", config).status == 1
    assert unharmed.memory() - before < 64 << 20


# Clients.


def test_only_root_is_served(unharmed: Node) -> None:
    """Also if somebody opened the socket's way to all."""
    binary = unharmed.directory / "netloom"
    shutil.copy(PLUGIN, binary)
    unharmed.directory.chmod(0o755)
    unharmed.socket.parent.chmod(0o755)
    unharmed.socket.chmod(0o666)
    container = unharmed.container()
    someone = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    done = subprocess.run(
        unharmed.command(*someone, str(binary)),
        input=unharmed.config(),
        env=unharmed.environment(unharmed.cni_environment("ADD", container)),
        capture_output=True,
        timeout=30,
    )
    outcome = Outcome(done.returncode, done.stdout, done.stderr)
    assert outcome.status == 1
    assert "root" in outcome.document["msg"]
    assert unharmed.links() == []


def test_the_socket_is_for_root_alone(running: Node) -> None:
    assert running.socket.stat().st_mode & 0o777 == 0o600
    assert running.socket.parent.stat().st_mode & 0o777 == 0o700
    assert running.state_dir.stat().st_mode & 0o777 == 0o700
    assert (running.state_dir / "journal.db").stat().st_mode & 0o777 == 0o600


def test_a_client_that_never_finishes_is_told_after_a_while(unharmed: Node) -> None:
    frame = request(unharmed, "DEL", "nobody")
    began = time.monotonic()
    with unharmed.connect() as connection:
        connection.sendall(frame[:20])
        assert received(connection).code == 999
        assert 3 < time.monotonic() - began < 30


def test_clients_that_trickle_do_not_keep_others_waiting(unharmed: Node) -> None:
    """Those are sent away after 5 seconds."""
    frame = request(unharmed, "DEL", "nobody")

    def are_served_at_once() -> bool:
        with ExitStack() as stack:
            for number in range(100):
                stack.enter_context(unharmed.connect()).sendall(frame[: number % 50])
            began = time.monotonic()
            container = unharmed.container()
            unharmed.add(container)
            unharmed.delete(container)
            return time.monotonic() - began < 4

    assert eventually(are_served_at_once)


def test_a_client_that_does_not_take_its_answer_keeps_nobody_waiting(unharmed: Node) -> None:
    before = {"cniVersion": "1.1.0", "interfaces": [{"name": f"if{number}"} for number in range(50_000)]}
    container = unharmed.container()
    frame = request(unharmed, "ADD", container, unharmed.config(prevResult=before))
    netns = os.open(f"/run/netns/{container}", os.O_RDONLY)
    with unharmed.connect() as connection:
        sent = socket.send_fds(connection, [frame], [netns])
        os.close(netns)
        connection.sendall(frame[sent:])
        assert eventually(lambda: len(unharmed.links()) == 1)
        other = unharmed.container()
        unharmed.add(other)


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
def test_a_plugin_that_is_killed_while_it_waits_leaves_a_consistent_node(unharmed: Node, verb: str) -> None:
    for _ in range(20):
        container = unharmed.container()
        process = unharmed.begin(verb, container)
        process.kill()
        process.communicate()
    assert eventually(lambda: unharmed.info()["under_way"] == 0)
    assert eventually(lambda: unharmed.audit() == [])


@pytest.mark.parametrize("step", ["plugin.connected", "plugin.half-sent", "plugin.sent", "plugin.replied"])
def test_a_plugin_that_dies_in_the_middle_of_an_add_is_followed_by_a_good_one(
    unharmed: Node, step: str
) -> None:
    container = unharmed.container()
    assert unharmed.plugin("ADD", container, NETLOOM_FAILPOINT=step).status == -signal.SIGKILL
    unharmed.add(container)
    unharmed.delete(container)
    assert unharmed.links() == []


def test_a_client_that_is_gone_before_its_turn_gets_nothing(unharmed: Node) -> None:
    """Whoever asked has given up: what would be made for it, nobody would take away again."""
    assert unharmed.agent is not None
    unharmed.agent.send_signal(signal.SIGSTOP)
    container = unharmed.container()
    done = unharmed.plugin("ADD", container, NETLOOM_DEADLINE="0.3")
    assert done.code == 11
    unharmed.agent.send_signal(signal.SIGCONT)
    assert unharmed.plugin("STATUS").status == 0
    assert eventually(lambda: unharmed.info()["under_way"] == 0)
    assert unharmed.links() == []


def test_a_queue_that_is_full_is_code_11_for_add_and_no_hindrance_for_del(node: Node) -> None:
    node.inside("sysctl", "-w", "net.core.somaxconn=4")
    node.start()
    container = node.container()
    node.add(container)
    assert node.agent is not None
    node.agent.send_signal(signal.SIGSTOP)
    waiting = []
    with suppress(BlockingIOError):
        while True:
            waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            waiting[-1].connect(str(node.socket))
    assert node.plugin("ADD", node.container(), NETLOOM_DEADLINE="0.5").code == 11
    node.delete(container)
    node.agent.send_signal(signal.SIGCONT)
    for connection in waiting:
        connection.close()
    assert eventually(lambda: node.links() == [] and node.intents() == [])
    node.add(container)
    assert node.audit() == []


@pytest.mark.parametrize("limit", ["1024:1024", "1024:"])
def test_thousands_that_connect_and_do_not_ask_do_not_keep_an_add_waiting(node: Node, limit: str) -> None:
    """Nor do they take the descriptors that the agent works with: those below 1024, whatever its limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    node.start("--tick", "0.1", through=("prlimit", f"--nofile={limit}"))
    first, second = node.container(), node.container()
    node.add(first)
    before = node.descriptors() + 1
    idle: list[socket.socket] = []
    try:
        idle.extend(node.connect() for _ in range(3000))
        began = time.monotonic()
        node.add(second)
        assert time.monotonic() - began < 10
        assert node.descriptors() < 512
        node.delete(second)
        # What the agent does beside: it compares its table.
        time.sleep(1)
        assert node.agent is not None
        assert node.agent.poll() is None
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert eventually(lambda: node.descriptors() <= before)
    assert "Traceback" not in node.log()
    assert node.audit() == []


def test_one_that_makes_room_is_told_so_and_one_that_asks_in_time_is_not_sent_away(node: Node) -> None:
    node.start(through=("prlimit", "--nofile=256:256"))
    idle = [node.connect() for _ in range(100)]
    assert node.plugin("STATUS").status == 0
    answer = received(idle[0])
    assert (answer.status, "others wait" in answer.message) == (1, True)
    last = node.connect()
    last.sendall(request(node, "STATUS", ""))
    assert received(last).status == 0
    for connection in (*idle, last):
        connection.close()


# Restarts.


def test_an_agent_that_ends_between_request_and_reply_is_code_11(node: Node) -> None:
    node.start(environment={"NETLOOM_FAILPOINT": "add.committed"})
    container = node.container()
    assert node.plugin("ADD", container).code == 11
    node.wait()
    node.start()
    node.add(container)
    assert node.audit() == []


def test_a_stop_waits_for_what_is_under_way(node: Node) -> None:
    node.start()
    containers = [node.container() for _ in range(30)]
    with ThreadPoolExecutor(30) as pool:
        outcomes = [pool.submit(node.ask, "ADD", container) for container in containers]
        assert eventually(lambda: len(node.links()) > 0)
        assert node.stop() == 0
    answered = [it for it in outcomes if it.exception() is None]
    assert len(answered) > 0
    assert node.audit() == []


def test_a_stop_removes_its_socket(running: Node) -> None:
    assert running.stop() == 0
    assert not running.socket.exists()


def test_a_stop_leaves_the_networks_of_containers(running: Node) -> None:
    one, other = running.container(), running.container()
    running.add(one)
    address = running.add(other).addresses[0]
    running.stop()
    assert running.ping(one, address)


def test_an_agent_takes_the_place_of_a_socket_that_nobody_answers(node: Node) -> None:
    node.start()
    node.kill()
    assert node.socket.exists()
    node.start()
    assert node.plugin("STATUS").status == 0


@pytest.mark.parametrize("kind", ["symlink", "file", "directory", "dangling"])
def test_what_is_no_socket_is_left_alone(node: Node, kind: str) -> None:
    node.socket.parent.mkdir()
    target = node.directory / "target"
    match kind:
        case "symlink":
            target.write_text("precious")
            node.socket.symlink_to(target)
        case "file":
            node.socket.write_text("precious")
        case "directory":
            node.socket.mkdir()
        case "dangling":
            node.socket.symlink_to(target)
    node.start(ready=False)
    assert node.wait() == 1
    if kind in ("symlink", "file"):
        assert node.socket.read_text() == "precious"
    assert not (kind == "dangling" and target.exists())


def test_a_second_agent_on_the_socket_refuses_to_start(running: Node) -> None:
    other = str(running.directory / "other")
    done = subprocess.run(
        running.command(str(NETLOOM), "agent", "--state-dir", other),
        env=running.environment(),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    assert str(running.state_dir) in done.stderr
    assert running.plugin("STATUS").status == 0


def test_a4_without_an_agent_add_and_check_are_code_11_at_once(node: Node) -> None:
    container = node.container()
    began = time.monotonic()
    assert node.plugin("ADD", container).code == 11
    assert node.plugin("CHECK", container).code == 11
    # Less than either waits for an answer.
    assert time.monotonic() - began < 9


def test_a4_without_an_agent_status_is_code_50(node: Node) -> None:
    assert node.plugin("STATUS").code == 50


def test_a4_without_an_agent_del_succeeds_and_is_done_later(node: Node) -> None:
    container = node.container()
    node.start()
    node.add(container)
    node.kill()
    node.delete(container)
    assert len(node.intents()) == 1
    node.start()
    assert node.links() == []
    assert node.intents() == []
    assert node.audit() == []


def test_an_error_has_the_keys_of_the_specification_and_no_others(running: Node) -> None:
    document = json.loads(running.plugin("ADD", running.container(), running.config(mtu=1)).output)
    assert set(document) <= {"cniVersion", "code", "msg", "details"}
