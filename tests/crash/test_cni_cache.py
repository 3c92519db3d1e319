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
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from netloom.cni import Endpoint, Runtime, parse_network

from ..doubles import LITERAL, cache_files, recording_plugin, shell_plugin

pytestmark = pytest.mark.crash

NETWORK = parse_network(b'{"cniVersion":"1.1.0","name":"net","plugins":[{"type":"plugin"}]}')
WEB = Endpoint("web-1", "/run/netns/nowhere")

# Runs a verb; or, without one, each that it reads, in a fork of its own, and writes how that ended.
CHILD = """
import os, signal, sys
from netloom.cni import Endpoint, Runtime, cache, files, lock, parse_network

plugins, directory = sys.argv[1:3]
network = parse_network({source!r})
watched = {{module.__file__ for module in (cache, files, lock)}}
left = 0

def step(frame, event, _):
    global left
    if frame.f_code.co_filename not in watched:
        return None
    if event == "line":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return step

def run(verb, limit):
    global left
    left = int(limit)
    runtime = Runtime([plugins], cache_dir=directory)
    sys.settrace(step)
    getattr(runtime, verb)(network, Endpoint("web-1", "/x"))
    os._exit(0)

if sys.argv[3:]:
    run(*sys.argv[3:])
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(*line.split())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    return recording_plugin(tmp_path / "plugins")


DieAt = Callable[[int, str], bool]


@pytest.fixture
def die_at(plugins: Path, cache: Path) -> Iterator[DieAt]:
    """Runs a verb in a child that dies at a step; whether it did."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD.format(source=NETWORK.source), plugins, cache],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as children:
        assert children.stdin is not None
        assert children.stdout is not None
        requests, answers = children.stdin, children.stdout

        def died(step: int, verb: str) -> bool:
            print(verb, step, file=requests, flush=True)
            status = int(answers.readline())
            assert status in (0, -signal.SIGKILL)
            return status != 0

        yield died


@pytest.mark.parametrize("replacing", [False, True], ids=["new entry", "over an older entry"])
def test_add_killed_anywhere_leaves_a_whole_entry_or_none(
    die_at: DieAt, plugins: Path, cache: Path, tmp_path: Path, replacing: bool
) -> None:
    runtime = Runtime([str(plugins)], cache_dir=str(cache))
    steps = 0
    for step in itertools.count(1):
        if replacing:
            runtime.add(NETWORK, WEB)
        died = die_at(step, "add")
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


def test_del_killed_anywhere_can_be_repeated(die_at: DieAt, plugins: Path, cache: Path) -> None:
    runtime = Runtime([str(plugins)], cache_dir=str(cache))
    steps = 0
    for step in itertools.count(1):
        runtime.add(NETWORK, WEB)
        died = die_at(step, "delete")
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
