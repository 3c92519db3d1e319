"""The Container Network Interface (CNI 1.1.0) as a library.

The runtime side loads network configurations and runs plugins:

    from netloom.cni import Endpoint, Runtime, load_network

    runtime = Runtime(["/opt/cni/bin"])
    network = load_network("/etc/cni/net.d", "mynet")
    result = runtime.add(network, Endpoint("web-1", "/run/netns/web-1"))

`netloom.cni.aio` is the same for asyncio; `netloom.cni.plugin` is for writing plugins. The library depends
only on msgspec and imports nothing else of netloom.
"""

from typing import TYPE_CHECKING

from .lazy import lazily

if TYPE_CHECKING:
    from .cache import DEFAULT_CACHE_DIR, CachedAttachment
    from .config import NetworkConfig, PluginConfig, network_from_plugin, parse_network, parse_plugin
    from .errors import (
        AttachmentBusy,
        AttachmentKey,
        CheckNotSupported,
        CNIError,
        DeadlineExceeded,
        DecodingFailure,
        Failures,
        IncompatibleVersion,
        InternalError,
        InvalidConfig,
        InvalidEnvironment,
        InvalidNetns,
        IOFailure,
        LimitedConnectivity,
        NetworkNotFound,
        NoConfigsFound,
        NotAvailable,
        PluginDied,
        PluginFailed,
        PluginNotFound,
        TryAgainLater,
        UnknownContainer,
        UnsupportedField,
    )
    from .exec import PluginInfo
    from .load import (
        Catalogue,
        LoadedNetwork,
        Problem,
        load_network,
        load_network_file,
        load_networks,
        load_plugin_file,
    )
    from .operations import ValidAttachment
    from .request import Endpoint, TraceContext, trace_context
    from .result import (
        DNS,
        IP,
        AnyResult,
        Interface,
        LegacyIP,
        LegacyResult,
        Result,
        Route,
        decode_result,
    )
    from .runtime import Runtime

__all__ = [
    "DEFAULT_CACHE_DIR",
    "DNS",
    "IP",
    "AnyResult",
    "AttachmentBusy",
    "AttachmentKey",
    "CNIError",
    "CachedAttachment",
    "Catalogue",
    "CheckNotSupported",
    "DeadlineExceeded",
    "DecodingFailure",
    "Endpoint",
    "Failures",
    "IOFailure",
    "IncompatibleVersion",
    "Interface",
    "InternalError",
    "InvalidConfig",
    "InvalidEnvironment",
    "InvalidNetns",
    "LegacyIP",
    "LegacyResult",
    "LimitedConnectivity",
    "LoadedNetwork",
    "NetworkConfig",
    "NetworkNotFound",
    "NoConfigsFound",
    "NotAvailable",
    "PluginConfig",
    "PluginDied",
    "PluginFailed",
    "PluginInfo",
    "PluginNotFound",
    "Problem",
    "Result",
    "Route",
    "Runtime",
    "TraceContext",
    "TryAgainLater",
    "UnknownContainer",
    "UnsupportedField",
    "ValidAttachment",
    "decode_result",
    "load_network",
    "load_network_file",
    "load_networks",
    "load_plugin_file",
    "network_from_plugin",
    "parse_network",
    "parse_plugin",
    "trace_context",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazily(
        __name__,
        {
            "cache": ("DEFAULT_CACHE_DIR", "CachedAttachment"),
            "config": (
                "NetworkConfig", "PluginConfig", "network_from_plugin", "parse_network", "parse_plugin",
            ),
            "errors": (
                "AttachmentBusy", "AttachmentKey", "CheckNotSupported", "CNIError", "DeadlineExceeded",
                "DecodingFailure", "Failures", "IncompatibleVersion", "InternalError", "InvalidConfig",
                "InvalidEnvironment", "InvalidNetns", "IOFailure", "LimitedConnectivity", "NetworkNotFound",
                "NoConfigsFound", "NotAvailable", "PluginDied", "PluginFailed", "PluginNotFound",
                "TryAgainLater", "UnknownContainer", "UnsupportedField",
            ),
            "exec": ("PluginInfo",),
            "load": (
                "Catalogue", "LoadedNetwork", "Problem", "load_network", "load_network_file", "load_networks",
                "load_plugin_file",
            ),
            "operations": ("ValidAttachment",),
            "request": ("Endpoint", "TraceContext", "trace_context"),
            "result": (
                "DNS", "IP", "AnyResult", "Interface", "LegacyIP", "LegacyResult", "Result", "Route",
                "decode_result",
            ),
            "runtime": ("Runtime",),
        },
    )  # fmt: skip
