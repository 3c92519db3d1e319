"""Finds a plugin's executable, runs it, and decodes its answer."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from . import versions, wire
from .errors import (
    CNIError,
    DeadlineExceeded,
    DecodingFailure,
    IOFailure,
    PluginDied,
    PluginFailed,
    PluginNotFound,
    from_code,
)
from .io import IO
from .names import shortened, validate_plugin_type
from .process import Output
from .request import Endpoint, environment
from .result import AnyResult, result_from_wire

# A plugin that is being replaced cannot be run for a moment ("text file busy").
BUSY_RETRIES = 5
BUSY_PAUSE = 1.0


class PluginInfo(Struct, frozen=True):
    """The versions that a plugin reports."""

    cni_version: str
    supported_versions: tuple[str, ...]


class _ErrorObject(Struct, frozen=True):
    code: Annotated[int, Meta(ge=0)] | None = None
    msg: str | None = None
    details: str | None = None


class _VersionObject(Struct, frozen=True, rename="camel"):
    cni_version: str | None = None
    supported_versions: tuple[str, ...] | None = None


def find_plugin(plugin: str, plugin_dirs: Sequence[str]) -> str:
    """Returns the first regular file of that name. Links are followed; the executable bit is not checked."""
    validate_plugin_type(plugin)
    if not plugin_dirs:
        raise PluginNotFound("no paths provided").at(plugin=plugin)
    for directory in plugin_dirs:
        path = os.path.join(directory or ".", plugin)
        try:
            if stat.S_ISREG(os.stat(path).st_mode):
                return path
        except (OSError, ValueError):
            continue
    searched = " ".join(plugin_dirs)
    raise PluginNotFound(f'failed to find plugin "{shortened(plugin)}" in path [{searched}]').at(
        plugin=plugin
    )


class Invoker(Struct, frozen=True):
    """Runs plugins from some directories; `io` decides how it waits."""

    io: IO
    plugin_dirs: tuple[str, ...]
    stderr: Callable[[bytes], object]

    async def execute(self, plugin: str, stdin: bytes, env: Mapping[str, str], deadline: float) -> bytes:
        """Runs a plugin and returns its output; raises its error."""
        try:
            output = await self._run(find_plugin(plugin, self.plugin_dirs), stdin, env, deadline)
            if output.status != 0:
                raise failure(output)
        except CNIError as error:
            raise error.at(plugin=plugin) from error.__cause__
        if output.stderr:
            self.stderr(output.stderr)
        return output.stdout

    async def execute_for_result(
        self, plugin: str, stdin: bytes, env: Mapping[str, str], version: str, deadline: float
    ) -> AnyResult:
        stdout = await self.execute(plugin, stdin, env, deadline)
        try:
            return decode_answer(stdout, version)
        except CNIError as error:
            raise error.at(plugin=plugin) from None

    async def probe(self, plugin: str, deadline: float) -> PluginInfo:
        """Asks a plugin for its versions. Old plugins require parameters that VERSION has no use for."""
        env = environment("VERSION", ("dummy",), Endpoint(container_id="", netns="dummy", ifname="dummy"))
        try:
            stdout = await self.execute(plugin, wire.encode({"cniVersion": versions.CURRENT}), env, deadline)
        except CNIError as error:
            if error.msg == "unknown CNI_COMMAND: VERSION":
                return PluginInfo(versions.CURRENT, ("0.1.0",))
            raise
        try:
            return decode_version_info(stdout)
        except CNIError as error:
            raise error.at(plugin=plugin) from None

    async def _run(self, path: str, stdin: bytes, env: Mapping[str, str], deadline: float) -> Output:
        for attempt in range(BUSY_RETRIES + 1):
            if attempt:
                await self.io.sleep(BUSY_PAUSE, deadline)
            if time.monotonic() >= deadline:
                name = os.path.basename(path)
                raise DeadlineExceeded(f"the time limit of the operation passed before {name} was run")
            try:
                return await self.io.run(path, stdin, env, deadline)
            except OSError as cause:
                if cause.errno != errno.ETXTBSY:
                    raise IOFailure(f"cannot run plugin {path}: {cause.strerror}") from cause
        raise IOFailure(f"cannot run plugin {path}: it was being written during {BUSY_RETRIES + 1} attempts")


def failure(output: Output) -> CNIError:
    """Returns the error of a plugin whose exit status was not 0."""
    stderr = output.stderr.decode(errors="replace")
    error: CNIError
    if not output.stdout.strip():
        said = f": {_quoted(stderr)}" if stderr else " with no error message"
        error = PluginDied(f"netplugin failed{said}: {output.ending}", output.ending)
    else:
        error = _stated_error(output)
    error.stderr = stderr
    return error


def _stated_error(output: Output) -> CNIError:
    said = _quoted(output.stdout.decode(errors="replace"))
    what = f"netplugin failed but error parsing its diagnostic message {said}"
    try:
        stated: _ErrorObject = wire.decode_as(output.stdout, _ErrorObject | None, what) or _ErrorObject()
    except DecodingFailure as error:
        return DecodingFailure(error.msg, output.ending)
    if not stated.msg and not stated.code:
        return PluginFailed(f"netplugin failed with no error message: {output.ending}", stated.details or "")
    return from_code(stated.code or 0, stated.msg or "", stated.details or "")


def decode_answer(stdout: bytes, version: str) -> AnyResult:
    """Decodes a plugin's result. A result without a version has the configuration's; `null` is no result."""
    what = "failed to decode the plugin's result"
    raw = wire.decode(stdout, what)
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise DecodingFailure(f"{what}: expected an object, got {wire.json_type(raw)}")
    stated = raw.get("cniVersion")
    if not isinstance(stated, str) or not stated:
        raw = {**raw, "cniVersion": version or versions.UNDECLARED}
    return result_from_wire(raw, what)


def decode_version_info(stdout: bytes) -> PluginInfo:
    what = "decoding version info"
    info: _VersionObject = wire.decode_as(stdout, _VersionObject, what)
    if not info.cni_version:
        raise DecodingFailure(f"{what}: missing field cniVersion")
    if info.supported_versions:
        return PluginInfo(info.cni_version, info.supported_versions)
    if info.cni_version == "0.2.0":
        # The first version with this verb had no list.
        return PluginInfo(info.cni_version, ("0.1.0", "0.2.0"))
    raise DecodingFailure(f"{what}: missing field supportedVersions")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{shortened(escaped, 2000)}"'
