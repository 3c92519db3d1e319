"""What `netloom up` needs before anything is changed: a plugin to install, a library, places to write."""

from __future__ import annotations

import argparse
import os

from ..cni.files import make_directories
from ..kernel import Namespace
from ..ops.node.install import NotBuilt, shipped_plugin
from ..ops.node.ownership import CODE as ANOTHER
from ..ops.node.ownership import adopt, another_at, identity_of
from .agent_process import Place
from .failure import CommandFailed, UsageError
from .journal import journal_path
from .place import nameable


def require_nameable(conf_dir: str) -> None:
    """What is written is written down, too."""
    try:
        nameable(conf_dir)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--conf-dir: {error}", "give a directory whose path is UTF-8") from None


def require_library() -> None:
    """Raises `LibraryMissing`, which names the package. An agent would say so in its log, and end."""
    with Namespace.own() as host:
        _ = host.nft


def require_trusted(place: Place) -> None:
    """The directories of state and socket: where others could change one, nothing is written to it."""
    from ..api import trusted_path

    try:
        trusted_path.require_trusted("the state directory", place.state_dir)
        trusted_path.require_trusted("the directory of the socket", os.path.dirname(place.socket))
    except trusted_path.UntrustedPath as error:
        raise CommandFailed(
            f"{error}; nothing was done", error.weakness.remedy, code="path-untrusted"
        ) from None


def require_own_node(state_dir: str, *, adopts: bool) -> list[str]:
    """Two agents on one host would each take the other's links and rules for leftovers.

    Warnings, if the node was another agent's and is adopted.
    """
    with Namespace.own() as host:
        another = another_at(host, state_dir, identity_of(journal_path(state_dir)))
        if another is None:
            return []
        if not adopts or another.process is not None:
            raise CommandFailed(
                f"{another.text()}; nothing was changed", another.advice(state_dir), code=ANOTHER
            )
        adopt(host)
    return [
        f"adopted this host from the agent with its state in {another.state_dir}: its containers keep their "
        "networks, and their links are not in this journal (orphaned); `netloom status` lists them"
    ]


def make_state_dir(path: str) -> None:
    try:
        make_directories(path, 0o700)
    except OSError as cause:
        raise CommandFailed(
            f"cannot make {path}: {cause.strerror}", "give another --state-dir", code="file-unwritable"
        ) from None


def require_plugin() -> bytes:
    try:
        return shipped_plugin()
    except NotBuilt as error:
        raise CommandFailed(
            str(error),
            "build it, with a C compiler: `make setup` in a checkout, or `pip install .`",
            code="plugin-not-built",
        ) from None
