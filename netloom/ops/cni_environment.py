"""What cnitool's users give: a namespace, by its path or by its name, and CNI_PATH.

A container that is known by its namespace alone has the name that cnitool gives it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .errors import UsageError

# Where runtimes and the distribution put plugins; cnitool has no default.
DEFAULT_PLUGIN_DIRS = "/opt/cni/bin:/usr/lib/cni"


def plugin_dirs() -> list[str]:
    return (os.environ.get("CNI_PATH") or DEFAULT_PLUGIN_DIRS).split(os.pathsep)


def container_id(netns: str) -> str:
    """cnitool's name for a container that is known by its namespace alone."""
    from hashlib import sha512

    return f"cnitool-{sha512(os.fsencode(netns)).digest()[:10].hex()}"


# Where `ip netns` keeps them; the first is where the second leads on every machine of today.
DIRECTORIES = ("/run/netns", "/var/run/netns")
_OWN = "/proc/self/ns/net"


def nobody_knows(_path: str) -> bool:
    return False


def path_of(text: str, is_known: Callable[[str], bool] = nobody_knows) -> str:
    """What has a slash is a path, and so is a word that leads to a namespace from here. Any other word is a
    name: of a namespace that is there, else of one that `is_known` by its path, and gone. A word that nobody
    knows is a path, as cnitool has it.
    """
    if not text:
        raise UsageError("NETNS is empty", "give the namespace's path, or its name: `ip netns` lists them")
    if "/" in text or text in (".", "..") or _is_namespace(text):
        return _absolute(text)
    named = [os.path.join(directory, text) for directory in DIRECTORIES]
    found = next(filter(_is_namespace, named), None) or next(filter(is_known, named), None)
    return found or _absolute(text)


def _absolute(text: str) -> str:
    try:
        return os.path.abspath(text)
    except OSError as cause:
        raise UsageError(
            f"NETNS is relative, and there is no current directory: {cause.strerror}",
            "give the namespace's path from the root, such as /run/netns/NAME",
        ) from None


def _is_namespace(path: str) -> bool:
    """By the file system that all namespaces are on: a file of that name may lie around."""
    try:
        return os.stat(path).st_dev == os.stat(_OWN).st_dev
    except (OSError, ValueError):
        return False
