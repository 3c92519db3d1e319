"""What `netloom down --purge` does with what it shares with others: the cache's lock, and directories."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from netloom.cni.lock import LOCK_FILE

from ..fixtures.cli import HangingPlugin, Outcome
from ..fixtures.machine import Machine

pytestmark = pytest.mark.kernel

_IN_DELETE_SELF, _IN_CLOEXEC = 0x400, 0o2000000
# Watches a directory, under a name that is no text and would steer a terminal.
_STRANGE = f"""
import ctypes, os, sys
libc = ctypes.CDLL(None)
assert libc.prctl(15, b"\\xff\\xfebad\\x1b[31m", 0, 0, 0) == 0
assert libc.inotify_add_watch(libc.inotify_init1(0), os.fsencode(sys.argv[1]), {_IN_DELETE_SELF}) >= 0
print(flush=True)
sys.stdin.read()
"""
_libc = ctypes.CDLL(None, use_errno=True)


def purged(machine: Machine) -> Any:
    outcome = machine.run("down", "--json", "--purge", "--yes", "--cache-dir", str(machine.cli.cache))
    assert (outcome.status, outcome.stderr) == (0, "")
    return outcome.document


def brought_up(machine: Machine) -> tuple[Path, Path]:
    """`netloom up` in directories that it has to make: those of plugins and of networks, both two deep."""
    plugins, networks = machine.cli.directory / "opt" / "bin", machine.cli.directory / "etc" / "net.d"
    outcome = up(machine, plugins, networks)
    assert (outcome.status, plugins.is_dir(), networks.is_dir()) == (0, True, True)
    return plugins, networks


def up(machine: Machine, plugins: Path, networks: Path) -> Outcome:
    return machine.run("up", "--plugin-dir", str(plugins), "--conf-dir", str(networks))


@contextmanager
def watched(path: Path) -> Iterator[None]:
    """Somebody wants to know when it goes, as containerd does."""
    watch = _libc.inotify_init1(_IN_CLOEXEC)
    assert _libc.inotify_add_watch(watch, bytes(path), _IN_DELETE_SELF) >= 0
    try:
        yield
    finally:
        os.close(watch)


def test_directories_that_up_has_made_go_with_what_was_in_them(bare: Machine) -> None:
    before = sorted(os.listdir(bare.cli.directory))
    brought_up(bare)
    assert purged(bare)["kept"] == []
    assert sorted(it for it in os.listdir(bare.cli.directory) if it != "run") == before


def test_directories_that_were_there_before_stay(bare: Machine) -> None:
    plugins, networks = (bare.cli.directory / "opt" / "bin"), (bare.cli.directory / "etc" / "net.d")
    (bare.cli.directory / "opt").mkdir()
    networks.mkdir(parents=True)
    assert up(bare, plugins, networks).status == 0
    removed = purged(bare)["removed"]
    assert str(plugins) in removed
    assert not plugins.exists()
    assert (os.listdir(plugins.parent), os.listdir(networks)) == ([], [])


def test_directories_that_a_second_up_found_go_all_the_same(bare: Machine) -> None:
    plugins, networks = brought_up(bare)
    (plugins / "netloom").unlink()
    assert up(bare, plugins, networks).status == 0
    purged(bare)
    assert not plugins.parent.exists()
    assert not networks.parent.exists()


def test_a_directory_in_which_there_is_something_else_stays(bare: Machine) -> None:
    plugins, networks = brought_up(bare)
    (plugins / "bridge").touch()
    document = purged(bare)
    assert os.listdir(plugins) == ["bridge"]
    assert not networks.parent.exists()
    assert not any(it in document["removed"] for it in (str(plugins), str(plugins.parent)))


def test_a_directory_that_somebody_watches_stays_and_is_named_with_who_watches(bare: Machine) -> None:
    plugins, networks = brought_up(bare)
    with watched(networks):
        document = purged(bare)
    assert (networks.is_dir(), plugins.exists()) == (True, False)
    [kept] = document["kept"]
    assert kept["what"] == str(networks)
    assert f"(process {os.getpid()})" in kept["why"]


def test_whoever_watches_is_named_also_if_the_name_is_no_text(bare: Machine) -> None:
    plugins, networks = brought_up(bare)
    watching = subprocess.Popen(
        [sys.executable, "-c", _STRANGE, str(networks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == b"\n"
        [kept] = purged(bare)["kept"]
        watching.communicate(timeout=20)
    assert (networks.is_dir(), plugins.exists()) == (True, False)
    assert f"(process {watching.pid})" in kept["why"]
    assert kept["why"].isprintable()


def test_the_lock_of_the_cache_goes_with_directories_that_are_empty(machine: Machine) -> None:
    container = machine.node.container()
    machine.attach(container)
    assert machine.cni("del", container).status == 0
    assert (machine.cli.cache / LOCK_FILE).exists()
    document = purged(machine)
    assert document["kept"] == []
    assert not machine.cli.cache.exists()


def test_the_lock_goes_and_the_cache_of_other_runtimes_stays(machine: Machine) -> None:
    machine.attach(machine.node.container())
    other = machine.cli.cache / "results" / "other-container-eth0"
    other.write_text(json.dumps({"kind": "cniCacheV1"}))
    purged(machine)
    assert sorted(machine.cli.cache.rglob("*")) == [other.parent, other]


def test_the_lock_stays_while_a_runtime_is_at_work_and_is_named(machine: Machine) -> None:
    hanging = HangingPlugin(machine.cli)
    machine.cli.network("slow", hanging.name)
    words = ("cni", "add", "slow", "/run/netns/none", "--cache-dir", str(machine.cli.cache))
    runtime = machine.cli.start(*words, prefix=machine.node.command())
    try:
        hanging.wait_until_it_hangs()
        kept = {it["what"]: it["why"] for it in purged(machine)["kept"]}
        lock = machine.cli.cache / LOCK_FILE
        assert list(kept) == [str(lock)]
        assert lock.exists()
    finally:
        hanging.close()
        runtime.terminate()
        assert runtime.wait(20) is not None
        for stream in (runtime.stdout, runtime.stderr):
            assert stream is not None
            stream.close()


def test_a_cache_that_nobody_has_used_is_left_as_it_is(machine: Machine) -> None:
    results = machine.cli.cache / "results"
    results.mkdir(parents=True)
    purged(machine)
    assert results.is_dir()
