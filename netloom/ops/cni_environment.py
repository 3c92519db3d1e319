"""Input as cnitool's users give it: a namespace, by its path or by its name, and CNI_PATH.

A container that is known only by its namespace has the name that cnitool gives it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from .errors import UsageError

# Where runtimes and distributions install plugins; cnitool has no default.
DEFAULT_PLUGIN_DIRS = "/opt/cni/bin:/usr/lib/cni"


def plugin_dirs() -> list[str]:
    return (os.environ.get("CNI_PATH") or DEFAULT_PLUGIN_DIRS).split(os.pathsep)


def container_id(netns: str) -> str:
    """cnitool's name for a container that is known only by its namespace."""
    from hashlib import sha512

    return f"cnitool-{sha512(os.fsencode(netns)).digest()[:10].hex()}"


# Where `ip netns` keeps namespaces; on current systems, /var/run is a link to /run.
DIRECTORIES = ("/run/netns", "/var/run/netns")
_OWN = "/proc/self/ns/net"


def is_unknown(_path: str) -> bool:
    return False


def path_of(text: str, is_known: Callable[[str], bool] = is_unknown) -> str:
    """The path of the namespace that `text` names.

    A word with a slash is a path, and so is one that leads to a namespace from the current directory. Any
    other word is a name: of a namespace that exists, else of a deleted one whose path `is_known`. Any word
    that is left is a path, as for cnitool.
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
    """Compares file systems, since all namespaces are on the same one: other files may have that name."""
    try:
        return os.stat(path).st_dev == os.stat(_OWN).st_dev
    except (OSError, ValueError):
        return False
