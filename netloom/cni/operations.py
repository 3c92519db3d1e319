"""The verbs of a runtime, written once over `IO`.

`Runtime` and `AsyncRuntime` are the public forms of this module, which has the rules. The order of steps, the
input of each plugin and what ends an operation follow Go's libcni v1.3.1. A comment marks each deliberate
difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from . import versions, wire
from .cache import Cache, CachedAttachment, PendingEntry, encode_entry
from .config import NetworkConfig, PluginConfig
from .errors import (
    AttachmentKey,
    CheckNotSupported,
    CNIError,
    DeadlineExceeded,
    Failures,
    IncompatibleVersion,
    InvalidConfig,
    InvalidEnvironment,
    IOFailure,
)
from .exec import Invoker, PluginInfo, find_plugin
from .io import IO
from .lock import Lock
from .names import validate_container_id, validate_ifname, validate_network_name
from .request import Endpoint, configuration, environment, parameters, validate_args
from .result import AnyResult

Network: TypeAlias = NetworkConfig | PluginConfig

# Time for a clean-up after a deadline has passed.
CLEANUP_TIMEOUT = 30.0


class ValidAttachment(Struct, frozen=True, rename={"container_id": "containerID"}):
    """An attachment that GC must not delete."""

    container_id: str
    ifname: str


class Operations(Struct, frozen=True):
    io: IO
    invoker: Invoker
    cache: Cache
    warn: Callable[[str], object]

    async def add(
        self, network: Network, endpoint: Endpoint, *, deadline: float, cleanup: bool = False
    ) -> AnyResult:
        """Runs every plugin in order, each with the result of the one before, and caches the last result.

        With `cleanup`, a failure sends DEL to every plugin, as the specification asks of runtimes. libcni
        leaves that to its caller, and so does this by default. A second ADD that fails does not undo an
        earlier ADD of the same attachment.
        """
        key = _validated(network, endpoint)
        self._require_plugins(network, endpoint)
        with self._lock(key, deadline, required=True) as lock:
            await lock.acquire()
            entry = self.cache.entry(key)
            try:
                known = await self._reserve(entry, network, endpoint)
                try:
                    result = await self._add_in_order(network, endpoint, deadline)
                    await self._record(entry, network, endpoint, result)
                except GeneratorExit:
                    raise  # the event loop has ended, and no plugin can be run any more
                except BaseException as error:  # an interruption is a failure, too
                    if cleanup and known:
                        error.add_note("an earlier ADD has already attached it and was not undone")
                    elif cleanup:
                        await self._undo(network, endpoint, error)
                    raise
                return result
            finally:
                entry.close()

    async def check(self, network: Network, endpoint: Endpoint, *, deadline: float) -> None:
        """Asks every plugin in order whether the attachment is as the cached result says."""
        if not versions.at_least(network.cni_version, versions.CHECK_SINCE):
            raise CheckNotSupported(
                f'configuration version "{network.cni_version}" does not support the CHECK command'
            )
        if isinstance(network, NetworkConfig) and network.disable_check:
            return
        key = _validated(network, endpoint)
        with self._lock(key, deadline) as lock:
            await lock.acquire()
            try:
                cached = await self.io.call(self.cache.result, key, network.cni_version)
            except CNIError as error:
                raise error.at(
                    attachment=key, context=f'failed to get network "{network.name}" cached result'
                ) from None
            for plugin in _plugins(network):
                try:
                    await self._send("CHECK", network, plugin, endpoint, cached, deadline)
                except CNIError as error:
                    if cached is None:
                        error.add_note("the cache has no ADD of this attachment")
                    raise

    async def delete(self, network: Network, endpoint: Endpoint, *, deadline: float) -> None:
        """Runs every plugin in reverse order; deletes the cache entry when all have succeeded.

        A broken entry, or a cache that cannot be locked or written, never prevents a DEL.
        """
        key = _validated(network, endpoint)
        with self._lock(key, deadline) as lock:
            await lock.acquire()
            await self._delete_in_order(network, endpoint, deadline)

    async def gc(
        self, network: NetworkConfig, valid: Iterable[ValidAttachment] | None, *, deadline: float
    ) -> None:
        """Sends DEL for every cached attachment that is not valid, then the GC verb.

        `None` means that the valid attachments are unknown: every cached one is deleted, and plugins get no
        list. An empty list tells plugins that no attachment is valid.
        """
        if network.disable_gc:
            return
        validate_network_name(network.name)
        keep = None if valid is None else tuple(valid)
        _require_json(keep)
        with Lock(self.io, self.cache.directory, network.name, deadline) as lock:
            await lock.acquire()
            errors = await self._delete_stale(network, keep or (), deadline)
            if _allows(network.cni_version, versions.GC_SINCE):
                errors += await self._collect(network, keep, deadline)
        if errors:
            raise Failures(errors)

    async def status(self, network: NetworkConfig, *, deadline: float) -> None:
        """Checks whether ADD would work. The first plugin that fails ends it, with its own code."""
        if not _allows(network.cni_version, versions.STATUS_SINCE):
            return
        for plugin in network.plugins:
            await self._send("STATUS", network, plugin, None, None, deadline)

    async def validate(self, network: Network, *, deadline: float) -> list[str]:
        """Returns the network's capabilities, if its name is valid and every plugin exists and speaks its
        version.
        """
        errors: list[CNIError] = []
        if isinstance(network, NetworkConfig):
            try:
                validate_network_name(network.name)
            except CNIError as error:
                errors.append(error)
        for plugin in _plugins(network):
            try:
                await self._validate_plugin(plugin.type, network.cni_version, deadline)
            except CNIError as error:
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise Failures(errors)
        return sorted(frozenset().union(*(plugin.capabilities for plugin in _plugins(network))))

    async def version(self, plugin: str, *, deadline: float) -> PluginInfo:
        return await self.invoker.probe(plugin, deadline)

    async def cached_result(self, network: Network, endpoint: Endpoint) -> AnyResult | None:
        return await self.io.call(self.cache.result, _validated(network, endpoint), network.cni_version)

    async def cached_config(self, network: Network, endpoint: Endpoint) -> CachedAttachment | None:
        return await self.io.call(self.cache.config, _validated(network, endpoint))

    async def attachments(self, container_id: str) -> list[CachedAttachment]:
        try:
            return await self.io.call(self.cache.attachments, container_id)
        except OSError as cause:
            raise IOFailure(f"cannot list {self.cache.results}: {cause.strerror}") from cause

    async def _add_in_order(self, network: Network, endpoint: Endpoint, deadline: float) -> AnyResult:
        result: AnyResult | None = None
        for plugin in _plugins(network):
            env = environment("ADD", self.invoker.plugin_dirs, endpoint)
            stdin = configuration(
                plugin,
                name=network.name,
                cni_version=network.cni_version,
                prev_result=result,
                capability_args=endpoint.capability_args,
            )
            try:
                result = await self.invoker.execute_for_result(
                    plugin.type, stdin, env, network.cni_version, deadline
                )
            except CNIError as error:
                raise _placed(error, network, plugin, endpoint, "add") from error.__cause__
        assert result is not None, "the network has no plugins"
        return result

    async def _delete_in_order(self, network: Network, endpoint: Endpoint, deadline: float) -> None:
        key = endpoint.on(network.name)
        cached: AnyResult | None = None
        if versions.at_least(network.cni_version, versions.DEL_RESULT_SINCE):
            try:
                cached = await self.io.call(self.cache.result, key, network.cni_version)
            except CNIError:
                await self._forget(key)
        for plugin in reversed(_plugins(network)):
            try:
                await self._send("DEL", network, plugin, endpoint, cached, deadline)
            except CNIError as error:
                raise _placed(error, network, plugin, endpoint, "delete") from error.__cause__
        await self._forget(key)

    async def _undo(self, network: Network, endpoint: Endpoint, error: BaseException) -> None:
        """Sends DEL to every plugin and ignores their errors: some may have nothing to undo."""
        deadline = time.monotonic() + CLEANUP_TIMEOUT
        undone = True
        for plugin in reversed(_plugins(network)):
            try:
                await self._send("DEL", network, plugin, endpoint, None, deadline)
            except CNIError as second:
                undone = False
                where = _placed(second, network, plugin, endpoint, "delete")
                error.add_note(f"the clean-up after it failed as well: {where}")
            except BaseException as second:
                second.add_note("the clean-up was interrupted, so something may remain: send DEL")
                raise
        # Its entry may already be on the disk. If something remains, GC needs the entry.
        if undone:
            await self._forget(endpoint.on(network.name))

    def _require_plugins(self, network: Network, endpoint: Endpoint) -> None:
        """Checks that every plugin exists, before the first one does something that must be undone."""
        if not _plugins(network):
            raise InvalidConfig("no plugins in list").at(attachment=endpoint.on(network.name))
        for plugin in _plugins(network):
            try:
                find_plugin(plugin.type, self.invoker.plugin_dirs)
            except CNIError as error:
                raise _placed(error, network, plugin, endpoint, "add") from None

    async def _reserve(self, entry: PendingEntry, network: Network, endpoint: Endpoint) -> bool:
        """Reserves a place in the cache; returns whether an earlier ADD has one."""
        size = len(network.source) * 4 // 3 + len(wire.encode(endpoint))
        try:
            await self.io.call(entry.reserve, size)
        except OSError as cause:
            raise _cache_failure(self.cache, cause).at(attachment=entry.key) from cause
        return entry.known

    async def _record(
        self, entry: PendingEntry, network: Network, endpoint: Endpoint, result: AnyResult
    ) -> None:
        try:
            await self.io.call(entry.commit, encode_entry(network.name, endpoint, network.source, result))
        except OSError as cause:
            where = f'failed to set network "{network.name}" cached result'
            raise _cache_failure(self.cache, cause).at(attachment=entry.key, context=where) from cause

    async def _delete_stale(
        self, network: NetworkConfig, keep: Sequence[ValidAttachment], deadline: float
    ) -> list[CNIError]:
        errors: list[CNIError] = []
        try:
            cached = await self.attachments("")
        except CNIError as error:
            return [error]
        wanted = {(it.container_id, it.ifname) for it in keep}
        for attachment in cached:
            if attachment.network != network.name or (attachment.container_id, attachment.ifname) in wanted:
                continue
            try:
                # The arguments are passed on as they were cached, even if an ADD would refuse them.
                _validated_names(network, attachment.endpoint)
                await self._delete_in_order(network, attachment.endpoint, deadline)
            except CNIError as error:
                where = f"failed to delete stale attachment {attachment.container_id} {attachment.ifname}"
                errors.append(error.at(context=where))
                if isinstance(error, DeadlineExceeded):
                    break
        return errors

    async def _collect(
        self, network: NetworkConfig, keep: Sequence[ValidAttachment] | None, deadline: float
    ) -> list[CNIError]:
        errors: list[CNIError] = []
        # The second key is a name that the specification once had by mistake.
        keys = {} if keep is None else {"cni.dev/valid-attachments": keep, "cni.dev/attachments": keep}
        for plugin in network.plugins:
            try:
                await self._send("GC", network, plugin, None, None, deadline, extra=keys)
            except CNIError as error:
                errors.append(error.at(context=f"failed to GC plugin {plugin.type}"))
                if isinstance(error, DeadlineExceeded):
                    break
        return errors

    async def _send(
        self,
        verb: str,
        network: Network,
        plugin: PluginConfig,
        endpoint: Endpoint | None,
        cached: AnyResult | None,
        deadline: float,
        extra: dict[str, Sequence[ValidAttachment]] | None = None,
    ) -> None:
        """Runs a verb that only succeeds or fails. Without an endpoint, it is about the network."""
        try:
            env = environment(verb, self.invoker.plugin_dirs, endpoint)
            stdin = configuration(
                plugin,
                name=network.name,
                cni_version=network.cni_version,
                prev_result=cached,
                capability_args=endpoint.capability_args if endpoint else None,
                extra=extra,
            )
            await self.invoker.execute(plugin.type, stdin, env, deadline)
        except CNIError as error:
            attachment = endpoint.on(network.name) if endpoint else None
            raise error.at(plugin=plugin.type, attachment=attachment) from error.__cause__

    async def _validate_plugin(self, plugin: str, version: str, deadline: float) -> None:
        info = await self.invoker.probe(plugin, deadline)
        version = version or versions.UNDECLARED
        if version not in info.supported_versions:
            supported = f"it supports {', '.join(info.supported_versions)}"
            raise IncompatibleVersion(
                f'plugin {plugin} does not support config version "{version}"', supported
            ).at(plugin=plugin)

    async def _forget(self, key: AttachmentKey) -> None:
        try:
            await self.io.call(self.cache.remove, key)
        except OSError as cause:
            self.warn(f"cannot remove the cache entry of {key}: {cause.strerror}")

    def _lock(self, key: AttachmentKey, deadline: float, *, required: bool = False) -> Lock:
        return Lock(self.io, self.cache.directory, key.network, deadline, attachment=key, required=required)


def _plugins(network: Network) -> tuple[PluginConfig, ...]:
    return network.plugins if isinstance(network, NetworkConfig) else (network,)


def _validated(network: Network, endpoint: Endpoint) -> AttachmentKey:
    """Returns the attachment's key. libcni checks only ADD's; what ADD refuses has nothing to undo."""
    key = _validated_names(network, endpoint)
    try:
        validate_args(endpoint.args)
        parameters("", (), endpoint)
        _require_json(endpoint)
    except CNIError as error:
        raise error.at(attachment=key) from None
    return key


def _validated_names(network: Network, endpoint: Endpoint) -> AttachmentKey:
    """Checks names that may become part of a path."""
    key = endpoint.on(network.name)
    try:
        validate_container_id(endpoint.container_id)
        validate_network_name(network.name)
        validate_ifname(endpoint.ifname)
    except CNIError as error:
        raise error.at(attachment=key) from None
    return key


def _require_json(values: object) -> None:
    """Checks that what goes into requests and the cache fits into JSON, before a plugin runs."""
    try:
        wire.encode(wire.with_go_numbers(wire.to_builtins(values)))
    except (TypeError, ValueError, RecursionError) as cause:
        raise InvalidEnvironment(
            "cannot encode the arguments of the attachment as JSON", str(cause)
        ) from None


def _allows(version: str, since: str) -> bool:
    """Like libcni, a version that cannot be parsed allows no newer verb."""
    try:
        return versions.at_least(version, since)
    except CNIError:
        return False


def _placed(
    error: CNIError, network: Network, plugin: PluginConfig, endpoint: Endpoint, verb: str
) -> CNIError:
    # The prefix is libcni's, which uses it for lists only.
    context = f"plugin {plugin.description} failed ({verb})" if isinstance(network, NetworkConfig) else ""
    return error.at(plugin=plugin.type, attachment=endpoint.on(network.name), context=context)


def _cache_failure(cache: Cache, cause: OSError) -> CNIError:
    return IOFailure(f"cannot write to the cache {cache.directory}: {cause.strerror}")
