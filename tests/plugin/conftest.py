from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ..fixtures.plugin import SUCCESS, Behaviour, FarEnd, Plugin, Reply, build

Listen = Callable[..., FarEnd]


@pytest.fixture(scope="session")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin of this source as it is shipped, compiled without a warning."""
    return build(tmp_path_factory.mktemp("plugin") / "netloom")


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin that ends itself at the first bad access or undefined operation."""
    return build(
        tmp_path_factory.mktemp("sanitized") / "netloom",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        cflags="-O1 -g",
    )


@pytest.fixture(scope="session")
def instrumentable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin with the C library beside it, where valgrind can look into its functions."""
    return build(tmp_path_factory.mktemp("instrumentable") / "netloom", "-g")


@pytest.fixture
def plugin(executable: Path, tmp_path: Path) -> Plugin:
    return Plugin(executable, tmp_path)


@pytest.fixture
def listen(plugin: Plugin) -> Iterator[Listen]:
    """Opens the far end of the plugin's wire."""
    with ExitStack() as opened:

        def open_far_end(answer: Reply | Behaviour = SUCCESS) -> FarEnd:
            return opened.enter_context(FarEnd(plugin.socket, answer))

        yield open_far_end


@pytest.fixture
def far_end(listen: Listen) -> FarEnd:
    return listen()
