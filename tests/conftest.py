from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .fixtures.fork_server import close_server
from .fullkernel.guest import INSIDE
from .fullkernel.lane import FullKernelLane
from .isolation import Isolation
from .lanes import LANES, PEERS, LaneReport
from .workers import LongFirst, Workers, is_shared_out, is_worker


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-lane", action="store_true", help="fail if a lane that could run here did not run whole"
    )
    parser.addoption(
        "--soak", action="store_true", help="run the tests that are otherwise shorter, whole, and no others"
    )


_USUAL: dict[signal.Signals, Any] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    # A shell has what it starts in the background ignore some signals, and nohup another: so would every
    # command of every test.
    for number, usual in _USUAL.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    if INSIDE not in os.environ:
        # Not in the guest: it takes seconds to import where the processor is emulated.
        from .search import register

        register()
    for lane, (what, _) in LANES.items():
        config.addinivalue_line("markers", f"{lane}: {what}")
    config.addinivalue_line("markers", "slow: waits for seconds, or runs valgrind; not in `make check`")
    if is_shared_out(config):
        config.pluginmanager.register(Workers(config), "workers")
    if is_worker(config):
        config.pluginmanager.register(LongFirst(), "long-first")
    if not config.option.collectonly:
        config.pluginmanager.register(Isolation(config), "isolation")
        if INSIDE not in os.environ:
            config.pluginmanager.register(FullKernelLane(config), "fullkernel")
    config.pluginmanager.register(LaneReport(config.option.every_lane, config.option.soak), "lanes")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.soak:
        others = [it for it in items if "soak" not in getattr(it, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [it for it in items if it not in others]


def pytest_sessionfinish() -> None:
    close_server()


@pytest.fixture
def new_netns() -> Iterator[Callable[[], str]]:
    """Makes named network namespaces and gives their paths; they go with the test."""
    made: list[str] = []
    numbers = itertools.count()

    def make() -> str:
        name = f"t{os.getpid()}-{next(numbers)}"
        subprocess.run(["ip", "netns", "add", name], check=True)
        made.append(name)
        return f"/run/netns/{name}"

    yield make
    for name in made:
        if os.path.exists(f"/run/netns/{name}"):
            subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
def netns(new_netns: Callable[[], str]) -> str:
    return new_netns()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def cnitool() -> Path:
    return PEERS / "bin" / "cnitool"


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> bool:
    """Whether the longest tests run whole."""
    return bool(request.config.getoption("--soak"))
