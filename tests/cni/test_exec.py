"""Running plugins: where they are found, how they may end, and what is left of them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netloom.cni import (
    CNIError,
    DeadlineExceeded,
    DecodingFailure,
    Endpoint,
    Failures,
    InvalidConfig,
    InvalidEnvironment,
    IOFailure,
    PluginFailed,
    PluginNotFound,
    Runtime,
    parse_network,
)
from netloom.cni.aio import AsyncRuntime
from netloom.cni.exec import BUSY_PAUSE, decode_answer, decode_version_info, failure, find_plugin
from netloom.cni.process import STDERR_MAX, Output

from ..doubles import cache_files, executable, python_plugin, shell_plugin
from .conftest import FromPlainCode

pytestmark = pytest.mark.unit

NETWORK = parse_network(b'{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"plugin"}]}')
WEB = Endpoint("web-1", "/run/netns/nowhere")


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    directory = tmp_path / "plugins"
    directory.mkdir()
    return directory


@pytest.fixture(params=[Runtime, FromPlainCode], ids=["plain", "asyncio"])
def runtime(request: pytest.FixtureRequest, plugins: Path, cache: Path) -> Runtime:
    made: Runtime = request.param([str(plugins)], cache_dir=str(cache), timeout=20)
    return made


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def alive(pid: int) -> bool:
    try:
        # A zombie that init has not yet reaped is dead for our purposes.
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def kept_too_long(call: Callable[[float], object], note: Path, limit: float) -> CNIError:
    """The error of a call whose time was up after its plugin had written the note: where the machine is too
    busy for that within the limit, with more time."""
    for seconds in (limit, 5):
        began = time.monotonic()
        with pytest.raises(CNIError) as caught:
            call(seconds)
        assert time.monotonic() - began < 15
        if note.exists() and note.read_text():
            break
    return caught.value


def test_the_first_directory_that_has_the_plugin_wins(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shell_plugin(tmp_path / name / "plugin", "")
    (tmp_path / "a" / "link").symlink_to("../b/plugin")
    (tmp_path / "a" / "directory").mkdir()
    path = [str(tmp_path / "absent"), str(tmp_path / "a"), str(tmp_path / "b")]
    assert find_plugin("plugin", path) == str(tmp_path / "a" / "plugin")
    assert find_plugin("link", path) == str(tmp_path / "a" / "link")
    with pytest.raises(PluginNotFound, match=r'failed to find plugin "directory" in path \['):
        find_plugin("directory", path)


def test_no_directories_is_an_error_of_its_own() -> None:
    with pytest.raises(PluginNotFound, match="no paths provided"):
        find_plugin("plugin", [])


@pytest.mark.parametrize("name", ["../plugin", "/bin/sh", "a/b", "..", ".", "a\0b", "/" * 5000])
def test_a_plugins_type_never_leads_out_of_the_plugin_directories(
    runtime: Runtime, plugins: Path, cache: Path, name: str
) -> None:
    shell_plugin(plugins.parent / "plugin", f"touch {plugins}/escaped")
    document = {"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": name}]}
    with pytest.raises(InvalidConfig, match="invalid plugin name") as caught:
        runtime.add(parse_network(json.dumps(document).encode()), WEB)
    assert len(str(caught.value)) < 700
    assert not (plugins / "escaped").exists()
    assert cache_files(cache) == []


def test_a_plugin_without_a_name_is_not_looked_for() -> None:
    with pytest.raises(InvalidConfig, match="no plugin name provided"):
        find_plugin("", ["/bin"])


@pytest.mark.parametrize(
    ("body", "kind", "code", "sentence"),
    [
        pytest.param("", DecodingFailure, 6, "unexpected end of JSON input", id="nothing"),
        pytest.param(
            'echo "{"', DecodingFailure, 6, "failed to decode the plugin's result", id="half a JSON"
        ),
        pytest.param("echo '[]'", DecodingFailure, 6, "expected an object, got an array", id="a list"),
        pytest.param('printf \'{"x":"\\377"}\'', DecodingFailure, 6, "not UTF-8", id="not UTF-8"),
        pytest.param(
            'echo \'{"ips":[{"address":"300.0.0.1/24"}]}\'',
            DecodingFailure,
            6,
            "invalid CIDR",
            id="bad address",
        ),
        pytest.param(
            "yes '{\"a\":1}' | head -c 52428800", DecodingFailure, 6, "printed more than 16 MiB", id="50 MB"
        ),
        pytest.param("exit 3", PluginFailed, 0, "with no error message: exit status 3", id="silent failure"),
        pytest.param(
            "echo oops >&2; exit 1",
            PluginFailed,
            0,
            r'netplugin failed: "oops\\n": exit status 1',
            id="only stderr",
        ),
        pytest.param("kill -9 $$", PluginFailed, 0, "signal: killed", id="killed"),
        pytest.param(
            "echo 'no json'; exit 1",
            DecodingFailure,
            6,
            "error parsing its diagnostic message",
            id="plain text",
        ),
        pytest.param(
            "echo null; exit 1", PluginFailed, 0, "no error message: exit status 1", id="null and failure"
        ),
        pytest.param(
            'echo \'{"code":7,"msg":"m","details":"d"}\'; exit 1', InvalidConfig, 7, "m; d", id="error object"
        ),
        pytest.param('echo \'{"code":110,"msg":"mine"}\'; exit 1', PluginFailed, 110, "mine", id="own code"),
    ],
)
def test_r25_however_a_plugin_fails_it_is_a_typed_error(
    runtime: Runtime, plugins: Path, cache: Path, body: str, kind: type[CNIError], code: int, sentence: str
) -> None:
    shell_plugin(plugins / "plugin", body)
    with pytest.raises(kind, match=sentence) as caught:
        runtime.add(NETWORK, WEB)
    assert caught.value.code == code
    assert caught.value.plugin == "plugin"
    assert len(str(caught.value)) < 3000
    assert cache_files(cache) == []


def test_stderr_of_a_plugin_is_passed_on_and_of_a_failed_one_kept(plugins: Path, cache: Path) -> None:
    heard: list[bytes] = []
    runtime = Runtime([str(plugins)], cache_dir=str(cache), stderr=heard.append)
    shell_plugin(plugins / "plugin", "echo careful >&2; echo '{}'")
    runtime.add(NETWORK, WEB)
    assert heard == [b"careful\n"]
    shell_plugin(plugins / "plugin", 'echo broken >&2; echo \'{"code":100,"msg":"no"}\'; exit 1')
    with pytest.raises(PluginFailed, match=r"failed \(add\): no$") as caught:
        runtime.add(NETWORK, WEB)
    assert caught.value.stderr == "broken\n"


def test_a_flood_on_stderr_is_cut_and_does_not_block(plugins: Path, cache: Path) -> None:
    heard: list[bytes] = []
    runtime = Runtime([str(plugins)], cache_dir=str(cache), stderr=heard.append)
    shell_plugin(plugins / "plugin", "head -c 20000000 /dev/zero >&2; echo '{}'")
    runtime.add(NETWORK, WEB)
    assert [len(data) for data in heard] == [STDERR_MAX]


def test_r28_a_plugin_that_is_being_written_is_tried_again(
    runtime: Runtime, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netloom.cni.exec.BUSY_PAUSE", 0.5)
    path = plugins / "plugin"
    path.write_bytes(Path("/bin/true").read_bytes())
    path.chmod(0o755)
    writer = os.open(path, os.O_WRONLY)
    began = time.monotonic()
    threading.Timer(0.12, os.close, [writer]).start()
    runtime.status(NETWORK)
    assert time.monotonic() - began >= 0.12  # it could not have been run before


def test_r28_a_plugin_that_stays_busy_is_given_up_after_five_more_tries(
    runtime: Runtime, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BUSY_PAUSE == 1.0
    monkeypatch.setattr("netloom.cni.exec.BUSY_PAUSE", 0.01)
    path = plugins / "plugin"
    path.write_bytes(Path("/bin/true").read_bytes())
    path.chmod(0o755)
    with path.open("r+b"), pytest.raises(IOFailure, match="being written during 6 attempts"):
        runtime.status(NETWORK)


def test_r28_a_busy_plugin_is_not_waited_for_beyond_the_deadline(
    runtime: Runtime, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("netloom.cni.exec.BUSY_PAUSE", 30)
    path = plugins / "plugin"
    path.write_bytes(Path("/bin/true").read_bytes())
    path.chmod(0o755)
    began = time.monotonic()
    with path.open("r+b"), pytest.raises(DeadlineExceeded):
        runtime.status(NETWORK, timeout=0.2)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("verb", ["add", "check", "delete", "status", "gc", "validate"])
def test_r29_a_plugin_that_hangs_is_killed_with_all_its_helpers(
    runtime: Runtime, plugins: Path, cache: Path, tmp_path: Path, verb: str
) -> None:
    pids = tmp_path / "pids"
    shell_plugin(plugins / "plugin", f"sleep 1000 & echo $$ $! >{pids}; wait")
    call = getattr(runtime, verb)
    arguments = (NETWORK,) if verb in ("status", "gc", "validate") else (NETWORK, WEB)
    error = kept_too_long(lambda seconds: call(*arguments, timeout=seconds), pids, 0.2)
    first = error.errors[0] if isinstance(error, Failures) else error
    assert isinstance(first, DeadlineExceeded)
    assert first.code == 11
    plugin, helper = map(int, pids.read_text().split())
    assert eventually(lambda: not alive(plugin) and not alive(helper))
    assert cache_files(cache) == []


def test_a_helper_that_outlives_its_plugin_does_not_hold_up_the_answer(
    runtime: Runtime, plugins: Path, tmp_path: Path
) -> None:
    shell_plugin(plugins / "plugin", f"sleep 1000 & echo $! >{tmp_path}/pid; echo '{{}}'")
    began = time.monotonic()
    try:
        runtime.add(NETWORK, WEB)
        assert time.monotonic() - began < 15
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_cancelling_kills_the_plugin_and_frees_the_attachment(
    plugins: Path, cache: Path, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    shell_plugin(plugins / "plugin", f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 1000")

    async def scenario() -> None:
        runtime = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        task = asyncio.create_task(runtime.add(NETWORK, WEB))
        while not pid.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert eventually(lambda: not alive(int(pid.read_text())))
        shell_plugin(plugins / "plugin", "echo '{}'")
        await runtime.add(NETWORK, WEB, timeout=20)

    asyncio.run(scenario())


def test_cancelling_an_add_with_cleanup_sends_del(plugins: Path, cache: Path, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    shell_plugin(
        plugins / "plugin", f"echo $CNI_COMMAND >>{calls}; [ $CNI_COMMAND = DEL ] || exec sleep 1000"
    )

    async def scenario() -> None:
        runtime = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        task = asyncio.create_task(runtime.add(NETWORK, WEB, cleanup=True))
        while not calls.exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert calls.read_text().split() == ["ADD", "DEL"]


def test_an_operation_whose_time_is_up_starts_no_plugin(
    runtime: Runtime, plugins: Path, tmp_path: Path
) -> None:
    shell_plugin(plugins / "plugin", f"touch {tmp_path}/started; echo '{{}}'")
    for verb in (runtime.add, runtime.check, runtime.delete):
        with pytest.raises(DeadlineExceeded, match="passed before plugin was run"):
            verb(NETWORK, WEB, timeout=0)
    assert not (tmp_path / "started").exists()


def test_gc_stops_at_its_deadline(runtime: Runtime, plugins: Path, cache: Path, tmp_path: Path) -> None:
    shell_plugin(plugins / "plugin", "echo '{}'")
    for number in range(5):
        runtime.add(NETWORK, Endpoint(f"c{number}", "/x"))
    shell_plugin(plugins / "plugin", f"echo . >>{tmp_path}/started; exec sleep 1000")
    started = tmp_path / "started"
    error = kept_too_long(lambda seconds: runtime.gc(NETWORK, [], timeout=seconds), started, 0.3)
    assert isinstance(error, Failures)
    assert isinstance(error.errors[0], DeadlineExceeded)
    assert started.read_text().split() == ["."]
    assert len(cache_files(cache)) == 5


def test_cancelling_at_any_moment_leaves_no_descriptor_no_lock_and_no_process(
    plugins: Path, cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shell_plugin(plugins / "plugin", "echo '{}'")

    async def scenario() -> None:
        runtime = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        await runtime.add(NETWORK, WEB)
        before = sorted(os.listdir("/proc/self/fd"))
        for turns in range(60):
            for verb in (runtime.add, runtime.delete):
                task = asyncio.create_task(verb(NETWORK, WEB))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                if turns % 3 == 0:
                    await asyncio.sleep(0)
                    task.cancel()
                await asyncio.wait([task])
        assert sorted(os.listdir("/proc/self/fd")) == before
        await runtime.add(NETWORK, WEB, timeout=20)
        await runtime.delete(NETWORK, WEB, timeout=20)

    asyncio.run(scenario())
    assert caplog.text == ""
    assert cache_files(cache) == []


INTERRUPTED = """
import contextlib, gc, os, signal, sys
from netloom.cni import Endpoint, IOFailure, Runtime, parse_network

class Alarm(Exception): pass

def ring(*_):
    raise Alarm

runtime = Runtime([sys.argv[1]], cache_dir=sys.argv[2])
network = parse_network({source!r})
web = Endpoint("web-1", "/x")
runtime.add(network, web)
signal.signal(signal.SIGALRM, ring)
rung = 0
for number in range(200):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002 + number * 0.00004)
        runtime.add(network, web)
        runtime.delete(network, web)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except (Alarm, IOFailure):
        rung += 1
signal.setitimer(signal.ITIMER_REAL, 0)
gc.collect()
assert rung > 50, rung
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == set()
runtime.delete(network, web, timeout=20)
with contextlib.suppress(ChildProcessError):
    sys.exit(f"a child is left: {{os.waitpid(-1, os.WNOHANG)}}")
"""


def test_a_signal_handler_that_raises_anywhere_leaves_no_lock_and_no_process(
    plugins: Path, cache: Path
) -> None:
    shell_plugin(plugins / "plugin", "echo '{}'")
    # A Python without extras: what is interrupted before it is awaited warns, and nobody keeps it alive.
    code = INTERRUPTED.format(source=NETWORK.source)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, plugins, cache],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_cancellation_keeps_its_message(plugins: Path, cache: Path) -> None:
    shell_plugin(plugins / "plugin", "echo '{}'")

    async def scenario() -> None:
        runtime = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        for turns in range(30):
            task = asyncio.create_task(runtime.add(NETWORK, WEB))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel("by the scope")
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert caught.value.args == ("by the scope",)

    asyncio.run(scenario())


def test_a_limit_of_any_length_will_do(runtime: Runtime, plugins: Path) -> None:
    shell_plugin(plugins / "plugin", "echo '{}'")
    for limit in (1e9, sys.float_info.max, float("inf")):
        runtime.add(NETWORK, WEB, timeout=limit)


def test_a_plugin_that_leaves_its_process_group_is_killed_all_the_same(
    runtime: Runtime, plugins: Path, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    python_plugin(
        plugins / "plugin",
        "import os, pathlib, time\n"
        "os.setpgid(0, os.getpgid(os.getppid()))\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(1000)\n",
    )
    error = kept_too_long(lambda seconds: runtime.status(NETWORK, timeout=seconds), pid, 1)
    assert isinstance(error, DeadlineExceeded)
    assert "plugin did not answer in time and was killed" in str(error)
    assert eventually(lambda: not alive(int(pid.read_text())))


def test_a_delegate_dies_with_the_plugin_that_runs_it(
    runtime: Runtime, plugins: Path, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    shell_plugin(plugins / "delegate", f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 1000")
    python_plugin(
        plugins / "plugin",
        "from netloom.cni.plugin import Plugin\n"
        "plugin = Plugin('plugin')\n"
        "plugin.add(lambda request: request.delegate('delegate').add())\n"
        "plugin.main()\n",
    )
    error = kept_too_long(lambda seconds: runtime.add(NETWORK, WEB, timeout=seconds), pid, 1)
    assert isinstance(error, DeadlineExceeded)
    assert eventually(lambda: not alive(int(pid.read_text())))


def test_a_process_that_ignores_its_children_runs_no_plugin(
    runtime: Runtime, plugins: Path, tmp_path: Path
) -> None:
    shell_plugin(plugins / "plugin", f"touch {tmp_path}/started")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with pytest.raises(IOFailure, match="ignores SIGCHLD"):
            runtime.status(NETWORK)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert not (tmp_path / "started").exists()


def children() -> set[str]:
    """The processes that this one has started and not waited for."""
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for it in lists for pid in it.read_text().split()}


def test_a_kernel_without_pidfd_leaves_no_zombie(
    runtime: Runtime, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    shell_plugin(plugins / "plugin", "exec sleep 1000")
    monkeypatch.setattr(os, "pidfd_open", refuse)
    before = children()
    with pytest.raises(IOFailure, match="Too many open files"):
        runtime.status(NETWORK)
    assert children() == before


def test_an_executable_that_cannot_run_is_an_io_failure(runtime: Runtime, plugins: Path) -> None:
    (plugins / "plugin").write_text("#!/bin/sh\n")
    with pytest.raises(IOFailure, match=r"cannot run plugin .*: Permission denied"):
        runtime.add(NETWORK, WEB)
    executable(plugins / "plugin", "#!/absent/interpreter\n")
    with pytest.raises(IOFailure, match="No such file or directory"):
        runtime.add(NETWORK, WEB)
    executable(plugins / "plugin", "\x7fELF nonsense")
    with pytest.raises(IOFailure, match="Exec format error"):
        runtime.add(NETWORK, WEB)


def test_a_config_larger_than_a_pipe_reaches_the_plugin_whole(
    runtime: Runtime, plugins: Path, tmp_path: Path
) -> None:
    shell_plugin(plugins / "plugin", f"sleep 0.05; wc -c >{tmp_path}/size; echo '{{}}'")
    filler = {"type": "plugin", "filler": "x" * 3_000_000}
    network = parse_network(json.dumps({"cniVersion": "1.1.0", "name": "net", "plugins": [filler]}).encode())
    runtime.add(network, WEB)
    assert int((tmp_path / "size").read_text()) > 3_000_000


def test_a_plugin_that_does_not_read_its_input_is_fine(runtime: Runtime, plugins: Path) -> None:
    shell_plugin(plugins / "plugin", "exec <&-; echo '{}'")
    filler = {"type": "plugin", "filler": "x" * 3_000_000}
    network = parse_network(json.dumps({"cniVersion": "1.1.0", "name": "net", "plugins": [filler]}).encode())
    runtime.add(network, WEB)


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint("c", "/run/netns/a\0b"),
        Endpoint("c", "/run/netns/x", args=(("K", "a;b"),)),
        Endpoint("c", "/run/netns/x", args=(("a=b", "V"),)),
        Endpoint("c", "/run/netns/x", args=(("K", "\0"),)),
    ],
)
def test_values_that_an_environment_cannot_carry_are_refused(
    runtime: Runtime, plugins: Path, endpoint: Endpoint
) -> None:
    shell_plugin(plugins / "plugin", f"touch {plugins}/ran; echo '{{}}'")
    with pytest.raises(InvalidEnvironment) as caught:
        runtime.add(NETWORK, endpoint)
    assert caught.value.code == 4
    assert not (plugins / "ran").exists()


def test_no_descriptor_is_left_open_however_plugins_end(runtime: Runtime, plugins: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for body in ("echo '{}'", "exit 1", "sleep 1000", "head -c 20000000 /dev/zero"):
        shell_plugin(plugins / "plugin", body)
        for verb in (runtime.add, runtime.delete):
            try:
                verb(NETWORK, WEB, timeout=0.3)
            except CNIError:
                continue
    (plugins / "plugin").unlink()
    with pytest.raises(PluginNotFound):
        runtime.add(NETWORK, WEB)
    assert len(os.listdir("/proc/self/fd")) == before


def test_eight_lists_at_once_take_the_time_of_one(plugins: Path, cache: Path) -> None:
    shell_plugin(plugins / "plugin", "sleep 1; echo '{}'")

    async def scenario() -> None:
        runtime = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        began = time.monotonic()
        await asyncio.gather(*(runtime.add(NETWORK, Endpoint(f"c{n}", "/x")) for n in range(8)))
        assert time.monotonic() - began < 6  # one after the other, they take eight seconds

    asyncio.run(scenario())
    assert len(cache_files(cache)) == 8


VERSION_ANSWERS = [
    (b'{"cniVersion":"1.1.0","supportedVersions":["1.0.0"]}', ("1.0.0",)),
    (b'{"cniVersion":"0.2.0"}', ("0.1.0", "0.2.0")),
]


@pytest.mark.parametrize(("answer", "supported"), VERSION_ANSWERS)
def test_version_answers_of_every_age_are_read(answer: bytes, supported: tuple[str, ...]) -> None:
    assert decode_version_info(answer).supported_versions == supported


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (b"{}", "missing field cniVersion"),
        (b'{"cniVersion":"1.0.0"}', "missing field supportedVersions"),
        (b"", "decoding version info"),
        (b"[]", "decoding version info"),
    ],
)
def test_a_version_answer_that_says_nothing_is_refused(answer: bytes, sentence: str) -> None:
    with pytest.raises(DecodingFailure, match=sentence):
        decode_version_info(answer)


def test_a_plugin_older_than_the_version_verb_speaks_0_1_0(runtime: Runtime, plugins: Path) -> None:
    shell_plugin(plugins / "plugin", 'echo \'{"code":4,"msg":"unknown CNI_COMMAND: VERSION"}\'; exit 1')
    assert runtime.version("plugin").supported_versions == ("0.1.0",)


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(-64, 255).filter(bool))
@example(b'{"code":-1,"msg":"x"}', b"", 1)
@example(b'{"code":1e3}', b"", 1)
@example(b"[" * 5000, b"", 1)
def test_any_failed_output_is_a_typed_error(stdout: bytes, stderr: bytes, status: int) -> None:
    error = failure(Output(status, stdout, stderr))
    assert isinstance(error, CNIError)
    assert str(error)


@given(st.binary(max_size=200), st.sampled_from(["", "0.1.0", "0.4.0", "1.1.0", "7.0.0", "x"]))
@example(b"null", "1.1.0")
@example(b'{"cniVersion":"1.1.0","ips":[null]}', "1.1.0")
@example(b'{"cniVersion":"1.1.0","routes":[{"dst":"0.0.0.0/0","table":1e99}]}', "1.1.0")
def test_any_answer_is_a_result_or_a_typed_error(stdout: bytes, version: str) -> None:
    for decode in (lambda: decode_answer(stdout, version), lambda: decode_version_info(stdout)):
        try:
            decode()
        except CNIError as error:
            assert error.code in (1, 6)
