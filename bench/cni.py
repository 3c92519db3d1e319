"""The CNI library and its command: how much they add to the unavoidable cost.

A side that attaches detaches outside the measured time.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from netloom.cni import AnyResult, Endpoint, NetworkConfig, decode_result, parse_network
from netloom.cni.aio import AsyncRuntime, EventLoop
from netloom.cni.exec import Invoker
from netloom.cni.io import IO, Blocking, drive
from netloom.cni.request import configuration, environment
from netloom.cni.runtime import DEFAULT_TIMEOUT, deadline, to_own_stderr

from . import spawn, static_plugin
from .measure import Bar, Comparison, Item, Unmeasurable, milliseconds
from .place import BUILD, CHECKOUT, Place

_NETNS = "/run/netns/bench"  # only a name: the static plugin opens nothing
_AT_ONCE = 8
_SLEEP_MS = 5


def comparisons(place: Place) -> Generator[Item, None, None]:
    plugin = static_plugin.built(BUILD)
    yield _exec(plugin)
    with asyncio.Runner() as runner:
        yield _exec_async(plugin, runner)
        yield _lists_at_once(plugin, runner, place.state / "cache")
    yield _cli_add(plugin, place)
    yield from _startup()


def _network(name: str, **keys: Any) -> NetworkConfig:
    """A list of one, with the keys of an ordinary bridge network."""
    plugin = {
        "type": static_plugin.NAME,
        "bridge": "br0",
        "isGateway": True,
        "ipMasq": True,
        "mtu": 1500,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "fd00:1::/64"}]]},
        **keys,
    }
    return parse_network(json.dumps({"cniVersion": "1.1.0", "name": name, "plugins": [plugin]}).encode())


class _Request:
    """One ADD of a list's first plugin, as `Operations` runs it for each plugin, without cache and lock."""

    def __init__(self, plugin: Path, io: IO) -> None:
        self._network = _network("bench")
        self._endpoint = Endpoint("bench-1", _NETNS)
        self._invoker = Invoker(io, (str(plugin.parent),), to_own_stderr)

    def stdin(self) -> bytes:
        network = self._network
        return configuration(
            network.plugins[0],
            name=network.name,
            cni_version=network.cni_version,
            prev_result=None,
            capability_args=self._endpoint.capability_args,
        )

    def env(self) -> dict[str, str]:
        return environment("ADD", self._invoker.plugin_dirs, self._endpoint)

    async def execute(self) -> AnyResult:
        return await self._invoker.execute_for_result(
            self._network.plugins[0].type,
            self.stdin(),
            self.env(),
            self._network.cni_version,
            deadline(DEFAULT_TIMEOUT),
        )


_BARE = (
    "peer: bare os.posix_spawn of the same static plugin with the same stdin and environment, both prepared"
)


def _exec(plugin: Path) -> Comparison:
    request = _Request(plugin, Blocking())
    stdin, env = request.stdin(), request.env()
    if drive(request.execute()) != decode_result(spawn.exchange(str(plugin), stdin, env)):
        raise RuntimeError("netloom and the bare exchange received different results from the static plugin")
    return Comparison(
        name="cni.exec",
        what=f"ours: find the plugin, build its stdin and environment, run it, decode its result; {_BARE}",
        ours=lambda: milliseconds(lambda: drive(request.execute())),
        peer=lambda: milliseconds(lambda: spawn.exchange(str(plugin), stdin, env)),
        rounds=2000,
        warmup=100,
        bar=Bar("ours / peer", 1.6),
    )


def _exec_async(plugin: Path, runner: asyncio.Runner) -> Comparison:
    request = _Request(plugin, EventLoop())
    stdin, env = request.stdin(), request.env()

    async def timed() -> float:
        start = time.perf_counter()
        await request.execute()
        return (time.perf_counter() - start) * 1000

    return Comparison(
        name="cni.exec.async",
        what=f"ours: as cni.exec, on a running event loop; {_BARE}",
        ours=lambda: runner.run(timed()),
        peer=lambda: milliseconds(lambda: spawn.exchange(str(plugin), stdin, env)),
        rounds=1000,
        warmup=50,
    )


def _lists_at_once(plugin: Path, runner: asyncio.Runner, cache: Path) -> Comparison:
    runtime = AsyncRuntime([str(plugin.parent)], cache_dir=str(cache))
    networks = [_network(f"bench{number}", sleepMs=_SLEEP_MS) for number in range(_AT_ONCE)]
    endpoint = Endpoint("bench-1", _NETNS)

    async def delete_all() -> None:
        for network in networks:
            await runtime.delete(network, endpoint)

    async def at_once() -> float:
        start = time.perf_counter()
        await asyncio.gather(*(runtime.add(network, endpoint) for network in networks))
        took = time.perf_counter() - start
        await delete_all()
        return took * 1000

    async def one_at_a_time() -> float:
        start = time.perf_counter()
        for network in networks:
            await runtime.add(network, endpoint)
        took = time.perf_counter() - start
        await delete_all()
        return took * 1000

    return Comparison(
        name="cni.lists_at_once",
        what=f"ours: {_AT_ONCE} lists of one plugin added at once with AsyncRuntime, durable cache on disk, "
        f"the static plugin sleeping {_SLEEP_MS} ms (sleepMs in its configuration); "
        "peer: the same lists, one after the other, with the same AsyncRuntime",
        ours=lambda: runner.run(at_once()),
        peer=lambda: runner.run(one_at_a_time()),
        rounds=100,
    )


def _cli_add(plugin: Path, place: Place) -> Comparison | Unmeasurable:
    name = "cni.cli_add"
    what = (
        "whole process, the same list and the same /var/lib/cni on disk; "
        "ours: netloom cni add, cache entry with fsync; peer: Go's cnitool add, without"
    )
    cnitool = CHECKOUT / ".peers/bin/cnitool"
    if place.obstacle:
        return Unmeasurable(name, what, reason=place.obstacle)
    if not cnitool.exists():
        return Unmeasurable(name, what, reason=f"{cnitool} is missing: `make setup` builds it")
    config_dir = place.state / "net.d"
    config_dir.mkdir()
    (config_dir / "10-bench.conflist").write_bytes(_network("bench").source)
    env = _environment() | {"NETCONFPATH": str(config_dir), "CNI_PATH": str(plugin.parent)}
    netloom = (str(_netloom()), "cni")
    _require_same_output(netloom, (str(cnitool),), env)

    def add_and_del(*tool: str) -> float:
        took = spawn.process_milliseconds([*tool, "add", "bench", _NETNS], env)
        spawn.process_milliseconds([*tool, "del", "bench", _NETNS], env)
        return took

    return Comparison(
        name=name,
        what=what,
        ours=lambda: add_and_del(*netloom),
        peer=lambda: add_and_del(str(cnitool)),
        rounds=100,
    )


def _require_same_output(ours: tuple[str, ...], peer: tuple[str, ...], env: dict[str, str]) -> None:
    """Checks that both do the work: print the same result and keep it in the private cache until DEL."""
    printed = []
    for tool in (ours, peer):
        for verb in ("add", "del"):
            command = [*tool, verb, "bench", _NETNS]
            printed.append(subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE).stdout)
            cached = os.listdir("/var/lib/cni/results")
            if bool(cached) != (verb == "add"):
                raise RuntimeError(f"after {' '.join(command)} the cache holds {cached}")
    if printed[:2] != printed[2:]:
        raise RuntimeError(f"netloom and cnitool printed different results: {printed}")


def _startup() -> Iterator[Comparison]:
    python = str(_python())
    bare = "peer: the bare interpreter, python -c pass; whole processes"

    def startup(name: str, what: str, command: list[str], bar: Bar | None = None) -> Comparison:
        env = _environment()
        return Comparison(
            name=name,
            what=f"ours: {what}; {bare}",
            ours=lambda: spawn.process_milliseconds(command, env),
            peer=lambda: spawn.process_milliseconds([python, "-c", "pass"], env),
            rounds=100,
            bar=bar,
        )

    yield startup(
        "cni.import",
        "python -c 'import netloom.cni'",
        [python, "-c", "import netloom.cni"],
        Bar("ours - peer", 60),
    )
    yield startup(
        "cni.import_plugin",
        "python -c 'import netloom.cni.plugin'",
        [python, "-c", "import netloom.cni.plugin"],
        Bar("ours - peer", 60),
    )
    yield startup(
        "cni.import_msgspec",
        "python -c 'import msgspec', the one dependency, for reference",
        [python, "-c", "import msgspec"],
    )
    yield startup("cni.version", "netloom --version", [str(_netloom()), "--version"], Bar("ours - peer", 150))


def _python() -> Path:
    return Path(sys.executable)


def _netloom() -> Path:
    """Returns the path of the installed command, beside this process's interpreter."""
    return _python().with_name("netloom")


def _environment() -> dict[str, str]:
    """Our environment, but the warm-up may write bytecode, as users' interpreters do."""
    hidden = ("PYTHONDONTWRITEBYTECODE", "CNI_ARGS", "CAP_ARGS", "CNI_IFNAME")
    return {key: value for key, value in os.environ.items() if key not in hidden}
