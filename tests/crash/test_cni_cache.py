"""SIGKILL at every step of ADD and DEL: the cache holds a whole entry or none, and DEL still works.

The steps are the lines of the modules that touch the disk: the child kills itself before the n-th
one, and n goes up until a child lives to the end.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netloom.cni import Endpoint, Runtime, parse_network

from ..doubles import LITERAL, cache_files, recording_plugin, shell_plugin

pytestmark = pytest.mark.crash

NETWORK = parse_network(b'{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"plugin"}]}')
WEB = Endpoint("web-1", "/run/netns/nowhere")

CHILD = """
import os, signal, sys
from netloom.cni import Endpoint, Runtime, cache, files, lock, parse_network

plugins, directory, verb, limit = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
runtime = Runtime([plugins], cache_dir=directory)
network = parse_network({source!r})
left = limit
watched = {{module.__file__ for module in (cache, files, lock)}}

def step(frame, event, _):
    global left
    if frame.f_code.co_filename not in watched:
        return None
    if event == "line":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return step

sys.settrace(step)
getattr(runtime, verb)(network, Endpoint("web-1", "/x"))
os._exit(0)
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    return recording_plugin(tmp_path / "plugins")


def die_at(step: int, verb: str, plugins: Path, cache: Path) -> bool:
    """Runs a verb in a child that dies at a step; whether it did."""
    child = subprocess.run(
        [sys.executable, "-c", CHILD.format(source=NETWORK.source), plugins, cache, verb, str(step)],
        check=False,
    )
    assert child.returncode in (0, -signal.SIGKILL)
    return child.returncode != 0


@pytest.mark.parametrize("replacing", [False, True], ids=["new entry", "over an older entry"])
def test_add_killed_anywhere_leaves_a_whole_entry_or_none(
    plugins: Path, cache: Path, tmp_path: Path, replacing: bool
) -> None:
    runtime = Runtime([str(plugins)], cache_dir=str(cache))
    steps = 0
    for step in itertools.count(1):
        if replacing:
            runtime.add(NETWORK, WEB)
        died = die_at(step, "add", plugins, cache)
        names = [name for name in cache_files(cache) if not name.startswith(".")]
        assert names in ([], ["net-web-1-eth0"])
        for name in names:
            assert json.loads((cache / "results" / name).read_text())["result"] == json.loads(LITERAL)
        (tmp_path / "calls").write_text("")
        runtime.delete(NETWORK, WEB, timeout=5)
        assert (tmp_path / "calls").read_text().split() == ["DEL"]
        assert cache_files(cache) == []
        if not died:
            break
        steps = step
    assert steps >= 50


def test_del_killed_anywhere_can_be_repeated(plugins: Path, cache: Path) -> None:
    runtime = Runtime([str(plugins)], cache_dir=str(cache))
    steps = 0
    for step in itertools.count(1):
        runtime.add(NETWORK, WEB)
        died = die_at(step, "delete", plugins, cache)
        assert runtime.cached_result(NETWORK, WEB) is None or cache_files(cache) == ["net-web-1-eth0"]
        runtime.delete(NETWORK, WEB, timeout=5)
        assert cache_files(cache) == []
        if not died:
            break
        steps = step
    assert steps >= 30


def test_a_runtime_that_is_killed_while_its_plugin_runs_holds_no_lock(
    plugins: Path, cache: Path, tmp_path: Path
) -> None:
    fifo = tmp_path / "running"
    os.mkfifo(fifo)
    shell_plugin(
        plugins / "plugin", f'[ "$CNI_COMMAND" = ADD ] && {{ echo $$ >{fifo}; exec sleep 60; }}; exit 0'
    )
    code = CHILD.format(source=NETWORK.source)
    child = subprocess.Popen([sys.executable, "-c", code, plugins, cache, "add", "0"])
    plugin = int(fifo.read_text())
    child.kill()
    child.wait()
    try:
        Runtime([str(plugins)], cache_dir=str(cache)).delete(NETWORK, WEB, timeout=5)
    finally:
        os.kill(plugin, signal.SIGKILL)
