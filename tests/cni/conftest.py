from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from netloom.cni import Endpoint, Runtime
from netloom.cni.aio import AsyncRuntime

from ..doubles import Doubles, install_noop
from ..lanes import PEERS


@pytest.fixture
def doubles(tmp_path: Path) -> Doubles:
    return Doubles(tmp_path)


@pytest.fixture(scope="session")
def python_noop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_noop(tmp_path_factory.mktemp("noop"))


@pytest.fixture
def web() -> Endpoint:
    return Endpoint("web-1", "/run/netns/nowhere")


class FromPlainCode:
    """The asyncio runtime with verbs that can be called like those of the plain one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._runtime = AsyncRuntime(*args, **kwargs)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return asyncio.run(getattr(self._runtime, verb)(*args, **kwargs))

        return call


# The rules of the runtime hold whoever calls it and whoever wrote the plugin.
@pytest.fixture(
    params=[
        pytest.param(("plain", "our noop"), marks=pytest.mark.unit),
        pytest.param(("plain", "Go's noop"), marks=pytest.mark.interop),
        pytest.param(("asyncio", "Go's noop"), marks=pytest.mark.interop),
    ],
    ids=lambda param: f"{param[0]} with {param[1]}",
)
def runtime(request: pytest.FixtureRequest, cache: Path, python_noop: Path) -> Runtime:
    face, plugin = request.param
    directory = python_noop if plugin == "our noop" else PEERS / "bin"
    make = Runtime if face == "plain" else cast("type[Runtime]", FromPlainCode)
    return make([str(directory)], cache_dir=str(cache), timeout=30)
