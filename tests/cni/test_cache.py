"""The cache: whole entries or none, whoever writes at once, whatever the disk does."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import ChainMap
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from netloom.cni import (
    AttachmentBusy,
    Endpoint,
    InvalidEnvironment,
    IOFailure,
    Runtime,
    ValidAttachment,
    parse_network,
)
from netloom.cni.aio import AsyncRuntime
from netloom.cni.files import Replacement

from ..doubles import LITERAL, cache_files, recording_plugin, shell_plugin

NETWORK = parse_network(b'{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"plugin"}]}')
WEB = Endpoint("web-1", "/run/netns/nowhere")
ENTRY = "net-web-1-eth0"


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    return recording_plugin(tmp_path / "plugins")


@pytest.fixture
def runtime(plugins: Path, cache: Path) -> Runtime:
    return Runtime([str(plugins)], cache_dir=str(cache), timeout=20)


def calls(plugins: Path) -> list[str]:
    path = plugins.parent / "calls"
    return path.read_text().split() if path.exists() else []


@pytest.mark.unit
def test_an_entry_has_the_fields_the_order_and_the_modes_of_libcni(runtime: Runtime, cache: Path) -> None:
    endpoint = Endpoint(
        "web-1", "/run/netns/x", args=(("IgnoreUnknown", "1"),), capability_args={"mac": "0a:<>&"}
    )
    runtime.add(NETWORK, endpoint)
    path = cache / "results" / ENTRY
    assert path.read_text() == (
        '{"kind":"cniCacheV1","containerId":"web-1","config":'
        '"eyJjbmlWZXJzaW9uIjoiMS4xLjAiLCJuYW1lIjoibmV0IiwicGx1Z2lucyI6W3sidHlwZSI6InBsdWdpbiJ9XX0=",'
        '"ifName":"eth0","networkName":"net","netns":"/run/netns/x","cniArgs":[["IgnoreUnknown","1"]],'
        '"capabilityArgs":{"mac":"0a:\\u003c\\u003e\\u0026"},'
        '"result":{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.3/24"}]}}'
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((cache / "results").stat().st_mode) == 0o700


@pytest.mark.unit
def test_an_add_replaces_an_older_entry_and_leaves_no_spare_file(runtime: Runtime, cache: Path) -> None:
    runtime.add(NETWORK, WEB)
    (cache / "results" / ENTRY).write_bytes(b"")
    (cache / "results" / f".{ENTRY}").write_bytes(b"lost by somebody's crash")
    runtime.add(NETWORK, WEB)
    assert cache_files(cache) == [ENTRY]
    assert runtime.cached_result(NETWORK, WEB) is not None


@pytest.mark.unit
def test_attachments_whose_names_run_together_keep_out_of_each_others_entry(
    runtime: Runtime, plugins: Path, cache: Path
) -> None:
    one = parse_network(NETWORK.source.replace(b'"net"', b'"a-b"'))
    other = parse_network(NETWORK.source.replace(b'"net"', b'"a"'))
    runtime.add(one, Endpoint("c", "/x"))
    stranger = Endpoint("b-c", "/y")
    assert cache_files(cache) == ["a-b-c-eth0"]
    assert runtime.cached_result(other, stranger) is None
    assert runtime.cached_config(other, stranger) is None
    with pytest.raises(InvalidEnvironment, match="belongs to another attachment; to a-b/c/eth0"):
        runtime.add(other, stranger)
    runtime.delete(other, stranger)
    assert calls(plugins) == ["ADD", "DEL"]
    assert runtime.cached_result(one, Endpoint("c", "/x")) is not None


@pytest.mark.unit
def test_a_directory_in_the_place_of_an_entry_fails_add_and_leaves_no_spare_file(
    runtime: Runtime, cache: Path
) -> None:
    (cache / "results" / ENTRY).mkdir(parents=True)
    with pytest.raises(IOFailure, match="failed to set network"):
        runtime.add(NETWORK, WEB)
    assert cache_files(cache) == [ENTRY]


@pytest.mark.unit
def test_capability_arguments_may_be_any_mapping(runtime: Runtime) -> None:
    arguments = MappingProxyType({"portMappings": ChainMap({"a": 1})})
    runtime.add(NETWORK, Endpoint("web-1", "/x", capability_args=arguments))
    cached = runtime.cached_config(NETWORK, WEB)
    assert cached is not None
    assert cached.capability_args == {"portMappings": {"a": 1}}


@pytest.mark.unit
def test_a_link_in_the_place_of_an_entry_is_replaced_not_followed(
    runtime: Runtime, cache: Path, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (cache / "results").mkdir(parents=True)
    (cache / "results" / ENTRY).symlink_to(victim)
    runtime.add(NETWORK, WEB)
    assert victim.read_text() == "precious"
    assert not (cache / "results" / ENTRY).is_symlink()


@pytest.mark.unit
def test_a_file_system_without_unnamed_files_gets_whole_entries_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "O_TMPFILE", os.O_DIRECTORY)  # the kernel answers EISDIR, as such file systems do
    for content in (b"first", b"second"):
        replacement = Replacement(str(tmp_path), "entry")
        replacement.reserve(4096)
        assert (tmp_path / ".entry").exists()
        replacement.commit(content)
        replacement.close()
        assert os.listdir(tmp_path) == ["entry"]
        assert (tmp_path / "entry").read_bytes() == content
    abandoned = Replacement(str(tmp_path), "abandoned")
    abandoned.reserve(4096)
    abandoned.close()
    assert os.listdir(tmp_path) == ["entry"]


@pytest.mark.unit
def test_a_cache_directory_may_be_a_link(plugins: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    runtime = Runtime([str(plugins)], cache_dir=str(tmp_path / "link"))
    runtime.add(NETWORK, WEB)
    assert cache_files(tmp_path / "real") == [ENTRY]
    runtime.delete(NETWORK, WEB)
    assert cache_files(tmp_path / "real") == []


@pytest.mark.unit
@pytest.mark.parametrize("obstacle", ["dangling link", "file", "file in the place of results"])
def test_an_unusable_cache_fails_add_before_any_plugin_runs_and_never_del(
    plugins: Path, tmp_path: Path, obstacle: str
) -> None:
    cache = tmp_path / "cache"
    if obstacle == "dangling link":
        cache.symlink_to("absent/deeper")
    elif obstacle == "file":
        cache.write_text("")
    else:
        cache.mkdir()
        (cache / "results").write_text("")
    runtime = Runtime([str(plugins)], cache_dir=str(cache))
    with pytest.raises(IOFailure, match=f"cannot write to the cache {cache}: ") as caught:
        runtime.add(NETWORK, WEB)
    assert caught.value.code == 5
    assert calls(plugins) == []
    runtime.delete(NETWORK, WEB)
    runtime.check(NETWORK, WEB)
    assert calls(plugins)[:2] == ["DEL", "CHECK"]


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A small file system of the test's own."""
    point = tmp_path / "mounted"
    point.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(point)], check=True)
    yield point
    subprocess.run(["umount", str(point)], check=True)


@pytest.mark.kernel
def test_a_full_disk_fails_add_before_any_plugin_runs_and_never_del(plugins: Path, mounted: Path) -> None:
    runtime = Runtime([str(plugins)], cache_dir=str(mounted))
    runtime.add(NETWORK, WEB)
    with pytest.raises(OSError, match="No space left"), (mounted / "filler").open("wb") as file:
        file.write(b"x" * (1 << 20))
    with pytest.raises(IOFailure, match=r"cannot write to the cache .*: No space left on device"):
        runtime.add(NETWORK, Endpoint("web-2", "/x"))
    assert calls(plugins) == ["ADD"]
    assert cache_files(mounted) == [ENTRY]
    runtime.delete(NETWORK, WEB)
    assert calls(plugins) == ["ADD", "DEL"]
    assert cache_files(mounted) == []


@pytest.mark.kernel
def test_a_read_only_disk_fails_add_before_any_plugin_runs_and_never_del(
    plugins: Path, mounted: Path
) -> None:
    said: list[str] = []
    runtime = Runtime([str(plugins)], cache_dir=str(mounted), warn=said.append)
    runtime.add(NETWORK, WEB)
    subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
    with pytest.raises(IOFailure, match="Read-only file system"):
        runtime.add(NETWORK, Endpoint("web-2", "/x"))
    assert calls(plugins) == ["ADD"]
    runtime.check(NETWORK, WEB)
    runtime.delete(NETWORK, WEB)
    assert calls(plugins) == ["ADD", "CHECK", "DEL"]
    assert said == ["cannot remove the cache entry of net/web-1/eth0: Read-only file system"]


@pytest.mark.unit
@pytest.mark.parametrize("failing", [1, 2], ids=["of the entry", "of its directory"])
def test_an_add_whose_fsync_fails_is_an_io_failure_that_cleanup_undoes(
    runtime: Runtime, plugins: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    runtime.delete(NETWORK, WEB)  # makes the directories
    (cache / "results").mkdir()
    count = itertools.count(1)

    def fsync(fd: int) -> None:
        del fd
        if next(count) == failing:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(IOFailure, match=r'^failed to set network "net" cached result: .*Input/output error'):
        runtime.add(NETWORK, WEB, cleanup=True)
    assert calls(plugins) == ["DEL", "ADD", "DEL"]
    assert cache_files(cache) == []


@pytest.mark.unit
def test_operations_on_one_attachment_take_turns_between_processes(
    plugins: Path, cache: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    shell_plugin(plugins / "plugin", f"echo + >>{trace}; sleep 0.05; echo - >>{trace}; echo '{LITERAL}'")
    code = f"""
from netloom.cni import Endpoint, Runtime, parse_network
runtime = Runtime([{str(plugins)!r}], cache_dir={str(cache)!r})
network = parse_network({NETWORK.source!r})
for verb in (runtime.add, runtime.check, runtime.delete):
    verb(network, Endpoint("web-1", "/x"))
"""
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]
    assert [child.wait() for child in children] == [0] * 4
    assert trace.read_text().split() == ["+", "-"] * 12


@pytest.mark.unit
def test_operations_on_one_attachment_take_turns_between_tasks_and_threads(
    plugins: Path, cache: Path, tmp_path: Path, runtime: Runtime
) -> None:
    trace = tmp_path / "trace"
    shell_plugin(plugins / "plugin", f"echo + >>{trace}; sleep 0.02; echo - >>{trace}; echo '{LITERAL}'")

    async def tasks() -> None:
        asynchronous = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        await asyncio.gather(*(asynchronous.add(NETWORK, WEB) for _ in range(5)))

    threads = [threading.Thread(target=runtime.delete, args=(NETWORK, WEB)) for _ in range(5)]
    for thread in threads:
        thread.start()
    asyncio.run(tasks())
    for thread in threads:
        thread.join()
    assert trace.read_text().split() == ["+", "-"] * 10


@pytest.mark.unit
def test_different_attachments_do_not_wait_for_each_other(plugins: Path, cache: Path) -> None:
    shell_plugin(plugins / "plugin", f"case $CNI_CONTAINERID in slow) sleep 30;; esac; echo '{LITERAL}'")

    async def scenario() -> None:
        asynchronous = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        slow = asyncio.create_task(asynchronous.add(NETWORK, Endpoint("slow", "/x")))
        while not (cache / "netloom.lock").exists():
            await asyncio.sleep(0.01)
        await asynchronous.add(NETWORK, Endpoint("quick", "/x"), timeout=5)
        slow.cancel()

    asyncio.run(scenario())
    assert cache_files(cache) == ["net-quick-eth0"]


@pytest.mark.unit
def test_an_attachment_that_stays_busy_is_an_error_at_the_deadline(
    plugins: Path, cache: Path, runtime: Runtime, tmp_path: Path
) -> None:
    shell_plugin(plugins / "plugin", f"touch {tmp_path}/running; exec sleep 30")

    async def scenario() -> None:
        holder = asyncio.create_task(AsyncRuntime([str(plugins)], cache_dir=str(cache)).add(NETWORK, WEB))
        while not (tmp_path / "running").exists():
            await asyncio.sleep(0.01)
        began = time.monotonic()
        with pytest.raises(AttachmentBusy, match="attachment net/web-1/eth0 is busy") as caught:
            await asyncio.to_thread(runtime.delete, NETWORK, WEB, timeout=0.3)
        assert caught.value.code == 11
        with pytest.raises(AttachmentBusy, match="network net is busy"):
            await asyncio.to_thread(runtime.gc, NETWORK, [], timeout=0.3)
        assert time.monotonic() - began < 5
        holder.cancel()

    asyncio.run(scenario())


@pytest.mark.unit
def test_gc_waits_for_adds_in_flight_and_keeps_what_they_made(
    plugins: Path, cache: Path, tmp_path: Path
) -> None:
    shell_plugin(
        plugins / "plugin",
        f"echo $CNI_COMMAND >>{tmp_path}/order; [ $CNI_COMMAND = ADD ] && sleep 0.3; "
        f"echo $CNI_COMMAND >>{tmp_path}/order; echo '{LITERAL}'",
    )

    async def scenario() -> None:
        asynchronous = AsyncRuntime([str(plugins)], cache_dir=str(cache))
        adding = asyncio.create_task(asynchronous.add(NETWORK, WEB))
        while not (tmp_path / "order").exists():
            await asyncio.sleep(0.01)
        await asynchronous.gc(NETWORK, [ValidAttachment("web-1", "eth0")])
        await adding

    asyncio.run(scenario())
    assert (tmp_path / "order").read_text().split() == ["ADD", "ADD", "GC", "GC"]
    assert cache_files(cache) == [ENTRY]


@pytest.mark.unit
def test_a_fork_of_the_process_does_not_keep_the_lock(
    plugins: Path, runtime: Runtime, tmp_path: Path
) -> None:
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    shell_plugin(plugins / "plugin", f"touch {tmp_path}/running; read go <{fifo}; echo '{LITERAL}'")
    adding = threading.Thread(target=runtime.add, args=(NETWORK, WEB))
    adding.start()
    while not (tmp_path / "running").exists():
        time.sleep(0.01)
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        fifo.write_text("go\n")
        adding.join()
        shell_plugin(plugins / "plugin", "exit 0")
        runtime.delete(NETWORK, WEB, timeout=20)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.unit
def test_gc_comes_by_while_adds_keep_coming(plugins: Path, runtime: Runtime) -> None:
    shell_plugin(plugins / "plugin", f"[ $CNI_COMMAND = ADD ] && sleep 0.1; echo '{LITERAL}'")
    ended = threading.Event()

    def keep_adding(name: str) -> None:
        while not ended.is_set():
            runtime.add(NETWORK, Endpoint(name, "/x"))

    threads = [threading.Thread(target=keep_adding, args=(f"c{number}",)) for number in range(4)]
    for number, thread in enumerate(threads):
        thread.start()
        time.sleep(0.02 * number)
    try:
        runtime.gc(NETWORK, [], timeout=5)
    finally:
        ended.set()
        for thread in threads:
            thread.join()


@pytest.mark.unit
def test_a_lock_file_that_somebody_removed_is_made_again(
    plugins: Path, runtime: Runtime, cache: Path
) -> None:
    runtime.add(NETWORK, WEB)
    (cache / "netloom.lock").unlink()
    runtime.delete(NETWORK, WEB)
    assert (cache / "netloom.lock").exists()
    assert calls(plugins) == ["ADD", "DEL"]


@pytest.mark.unit
def test_an_entry_under_a_wrong_name_is_nobodys_and_stands_in_nobodys_way(
    runtime: Runtime, cache: Path
) -> None:
    runtime.add(NETWORK, WEB)
    other = Endpoint("web-2", "/x")
    (cache / "results" / ENTRY).rename(cache / "results" / "net-web-2-eth0")
    assert runtime.cached_result(NETWORK, other) is None
    runtime.add(NETWORK, other)
    assert runtime.cached_result(NETWORK, other) is not None
    (cache / "results" / "net-web-2-eth0").rename(cache / "results" / ENTRY)
    runtime.delete(NETWORK, WEB)
    assert cache_files(cache) == []


@pytest.mark.unit
def test_the_lock_file_is_one_and_empty_whatever_happens(runtime: Runtime, cache: Path) -> None:
    for number in range(5):
        runtime.add(NETWORK, Endpoint(f"c{number}", "/x"))
    runtime.gc(NETWORK)
    assert sorted(os.listdir(cache)) == ["netloom.lock", "results"]
    assert (cache / "netloom.lock").stat().st_size == 0
    assert json.dumps(cache_files(cache)) == "[]"
