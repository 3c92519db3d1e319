"""Networks' configuration files. Of other files beside them, which may be anybody's, the names only."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import msgspec

from ...cni.files import read_document
from ...cni.load import LISTS, SINGLE_PLUGINS
from .member import Asked, Found, Member, Trouble
from .secrets import Secrets

_LARGEST = 1 << 20
_ABOUT = "a network's configuration, without what looks like a secret"


def networks(asked: Asked) -> Iterator[Found]:
    try:
        names = sorted(os.listdir(asked.conf_dir))
    except OSError as cause:
        yield Trouble("networks/", "networks' configuration files", f"{asked.conf_dir}: {cause.strerror}")
        return
    yield Member(
        name="networks/listing.json",
        about="all files in the directory of networks",
        document=[_listed(asked.conf_dir, name) for name in names],
    )
    for name in names:
        if name.endswith(LISTS + SINGLE_PLUGINS):
            yield _read(os.path.join(asked.conf_dir, name), f"networks/{name}")


def learn(asked: Asked, secrets: Secrets) -> None:
    """What is secret in them, so that it is known wherever else it stands."""
    try:
        names = os.listdir(asked.conf_dir)
    except OSError:
        return
    for name in names:
        if not name.endswith(LISTS + SINGLE_PLUGINS):
            continue
        try:
            source = read_document(os.path.join(asked.conf_dir, name), limit=_LARGEST)
        except (OSError, ValueError):
            continue
        try:
            secrets.learn_from(msgspec.json.decode(source))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            secrets.learn_from_text(source.decode(errors="replace"))


def _listed(directory: str, name: str) -> dict[str, object]:
    try:
        status = os.stat(os.path.join(directory, name), follow_symlinks=False)
    except OSError as cause:
        return {"name": name, "error": cause.strerror}
    return {
        "name": name,
        "size": status.st_size,
        "mode": stat.filemode(status.st_mode),
        "owner": status.st_uid,
        "changed": status.st_mtime,
    }


def _read(path: str, name: str) -> Found:
    try:
        source = read_document(path, limit=_LARGEST)
    except (OSError, ValueError) as cause:
        return Trouble(name, _ABOUT, f"{path}: {getattr(cause, 'strerror', None) or cause}")
    try:
        return Member(name=name, about=_ABOUT, document=msgspec.json.decode(source), is_ours=False)
    except (msgspec.MsgspecError, ValueError, RecursionError) as cause:
        text = source.decode(errors="replace")
        return Member(name=name, about=_ABOUT, text=text, error=f"it is no JSON: {cause}", is_ours=False)
