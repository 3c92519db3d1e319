"""The input of a plugin: its environment, with the W3C trace context, and the JSON on its standard input."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from msgspec import Raw, Struct

from . import wire
from .config import PluginConfig
from .errors import AttachmentKey, InvalidEnvironment
from .names import shortened
from .result import AnyResult

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


class TraceContext(Struct, frozen=True):
    """The W3C trace context that plugins get in their environment.

    A runtime that was started with `TRACEPARENT` passes it on with its environment. One that serves many
    requests sets `trace_context` for each.
    """

    traceparent: str
    tracestate: str = ""
    baggage: str = ""

    def __post_init__(self) -> None:
        if not _TRACEPARENT.fullmatch(self.traceparent):
            raise ValueError(f'invalid traceparent "{self.traceparent}"')
        for name, value in (("tracestate", self.tracestate), ("baggage", self.baggage)):
            if not (value.isascii() and (value.isprintable())):
                raise ValueError(f"invalid {name} {value!a}")

    def environment(self) -> dict[str, str]:
        fields = {"TRACEPARENT": self.traceparent, "TRACESTATE": self.tracestate, "BAGGAGE": self.baggage}
        return {name: value for name, value in fields.items() if value}


trace_context: ContextVar[TraceContext | None] = ContextVar("trace_context", default=None)


class Endpoint(Struct, frozen=True):
    """The interface to attach: its container, its namespace and its name.

    `args` reach every plugin as `CNI_ARGS`; `capability_args` reach a plugin as `runtimeConfig` if its
    configuration declares the capability.
    """

    container_id: str
    netns: str
    ifname: str = "eth0"
    args: tuple[tuple[str, str], ...] = ()
    capability_args: Mapping[str, Any] = {}

    def on(self, network: str) -> AttachmentKey:
        return AttachmentKey(network, self.container_id, self.ifname)


def validate_args(args: Sequence[tuple[str, str]]) -> None:
    """Refuses pairs that a plugin would split at other places than they were joined at."""
    for key, value in args:
        if ";" in key or ";" in value or "=" in key:
            raise InvalidEnvironment("invalid CNI_ARGS pair", shortened(f"{key}={value}"))


NOWHERE = Endpoint(container_id="", netns="", ifname="")


def environment(verb: str, plugin_dirs: Sequence[str], endpoint: Endpoint | None = None) -> dict[str, str]:
    """Returns the plugin's environment: ours, and all six parameters, even empty ones."""
    trace = trace_context.get()
    return {
        **os.environ,
        **parameters(verb, plugin_dirs, endpoint or NOWHERE),
        **(trace.environment() if trace else {}),
    }


def parameters(verb: str, plugin_dirs: Sequence[str], endpoint: Endpoint) -> dict[str, str]:
    variables = {
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": endpoint.container_id,
        "CNI_NETNS": endpoint.netns,
        "CNI_ARGS": ";".join(f"{key}={value}" for key, value in endpoint.args),
        "CNI_IFNAME": endpoint.ifname,
        "CNI_PATH": os.pathsep.join(plugin_dirs),
    }
    for name, value in variables.items():
        if "\0" in value:  # no environment can contain it
            raise InvalidEnvironment(
                f"{name} contains a NUL character", shortened(value.replace("\0", "\\0"))
            )
    return variables


def configuration(
    plugin: PluginConfig,
    *,
    name: str,
    cni_version: str,
    prev_result: AnyResult | None = None,
    capability_args: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> bytes:
    """Returns the plugin's configuration with the runtime's additions; every other key is unchanged."""
    document = {**plugin.raw, "name": name, "cniVersion": cni_version, **(extra or {})}
    if prev_result is not None:
        document["prevResult"] = Raw(prev_result.encode())
    runtime_config = {
        capability: wire.with_go_numbers(value)
        for capability, value in (capability_args or {}).items()
        if capability in plugin.capabilities
    }
    if runtime_config:
        document["runtimeConfig"] = runtime_config
    return wire.encode(document)
