"""Rules for container IDs, network names, interface names and plugin types.

The rules are those of libcni. A valid name contains no path separators, so that it may become part of a file
name.
"""

from __future__ import annotations

import re

from .errors import InvalidConfig, InvalidEnvironment, UnknownContainer

# fullmatch, not match with `$`, which would let a trailing newline through.
_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\-]*")
_IFNAME_MAX = 15
_ifname_refused = re.compile(r"[/:\0\s\x85\xa0]")


def validate_container_id(container_id: str) -> None:
    if not container_id:
        raise UnknownContainer("missing containerID")
    if not _NAME.fullmatch(container_id):
        raise InvalidEnvironment("invalid characters in containerID", shortened(container_id))


def validate_network_name(name: str) -> None:
    if not name:
        raise InvalidConfig("missing network name")
    if not _NAME.fullmatch(name):
        text = "invalid characters found in network name"
        raise InvalidConfig(text, shortened(name), discreet=text)


def validate_ifname(ifname: str) -> None:
    """Applies the kernel's own rules (`dev_valid_name`), so that a bad name fails before a plugin runs."""
    if not ifname:
        raise InvalidEnvironment("interface name is empty")
    if len(ifname.encode("utf-8", "surrogatepass")) > _IFNAME_MAX:
        raise InvalidEnvironment(
            "interface name is too long", f"interface name should be less than {_IFNAME_MAX + 1} characters"
        )
    if ifname in (".", ".."):
        raise InvalidEnvironment("interface name is . or ..")
    if _ifname_refused.search(ifname):
        raise InvalidEnvironment("interface name contains / or : or whitespace characters")


def validate_plugin_type(plugin: str) -> None:
    """Checks that a plugin's type is only a file name: CVE-2021-20206 was a type with `../`."""
    if not plugin:
        raise InvalidConfig("no plugin name provided")
    if "/" in plugin or "\0" in plugin or plugin in (".", ".."):
        raise InvalidConfig(f"invalid plugin name: {shortened(plugin)}")


def shortened(text: str, limit: int = 200) -> str:
    """Shortens a user's value for error texts, if it is long."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"
