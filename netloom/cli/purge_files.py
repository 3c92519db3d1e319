"""Files that `netloom up` has installed: the network's, the plugin wherever it is, units and drop-ins.

Ours is what the receipt has, as we wrote it. Where the receipt is lost or lacks the plugin, that is what
stands to the letter as this version would write it, in the places where runtimes look.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from ..cni import CNIError
from ..cni.load import LISTS, config_files
from ..ops.node.install import (
    PLUGIN,
    NotBuilt,
    Receipt,
    digest,
    is_plugin,
    keep_receipt,
    read,
    receipt,
    receipt_path,
    shipped_plugin,
    take_away,
)
from ..ops.node.kept_networks import copies
from ..ops.node.networks import FILE
from . import own_units
from .cni.target import plugin_dirs
from .conflist import is_as_written
from .doctor.runtimes import all_plugin_dirs
from .purged import Kept, Purged
from .receipts import require_receipt

_OF_ANOTHER_VERSION = (
    "it is a plugin of netloom that installed.json does not tell of, and not the one of this version; "
    "remove it if nobody needs it"
)


class Files:
    """As they were when the purge began."""

    def __init__(self, state_dir: str, conf_dir: str, done: Purged) -> None:
        self._state_dir = state_dir
        self._done = done
        self._known = receipt(state_dir)
        self._stayed: list[str] = []
        self._restored = {(it.path, it.content.encode()) for it in copies(state_dir) if it.is_restored}
        damage = require_receipt(state_dir)
        if damage is not None:
            self._find_units()
            done.warnings.append(
                f"{damage}, so which files are netloom's is not known: what is as this version writes it "
                "went from where runtimes look; look for the plugin, netloom, wherever else it was installed"
            )
        if os.path.isdir(state_dir):
            self._find_unknown(conf_dir)

    @property
    def plugins(self) -> list[str]:
        return [path for path in self._known.everything if os.path.basename(path) == PLUGIN]

    def remove_networks(self) -> None:
        """First, so that no runtime begins to use what is about to go."""
        self._remove(of_networks=True)

    def remove_others(self) -> None:
        self._remove(of_networks=False)

    def remember(self) -> bool:
        """Writes down what stayed, so that the next purge names it again. False: there is nothing."""
        left = self._known.leaving([path for path in self._stayed if not path.endswith(".conflist")])
        if left.left:
            try:
                keep_receipt(self._state_dir, left)
            except OSError as cause:  # the one that is there tells of them, too
                self._done.failed.append(Kept(receipt_path(self._state_dir), cause.strerror or str(cause)))
        return bool(left.left)

    def _find_unknown(self, conf_dir: str) -> None:
        for path, content in _conflists(conf_dir):
            if self._is_network_of_ours(path, content):
                self._known = self._known.adding(path, content)
        if not self.plugins:
            for path, content in _found_plugins():
                self._known = self._found(path, content)

    def _is_network_of_ours(self, path: str, content: bytes) -> bool:
        """Also one that was renamed since. One that is known by its path is judged by that."""
        known = self._known.everything
        if (path, content) in self._restored:
            return True
        if path in known:
            return False
        is_the_usual = os.path.basename(path) == FILE and is_as_written(content)
        return is_the_usual or digest(content) in known.values()

    def _find_units(self) -> None:
        for path, content in own_units.left(self._state_dir).items():
            self._known = self._known.adding(path, content)

    def _found(self, path: str, content: bytes) -> Receipt:
        try:
            if content == shipped_plugin():
                return self._known.adding(path, content)
        except NotBuilt:
            pass
        self._done.kept.append(Kept(path, _OF_ANOTHER_VERSION))
        return self._known

    def _remove(self, *, of_networks: bool) -> None:
        for path in self._known.everything:
            if path.endswith(".conflist") != of_networks or not os.path.lexists(path):
                continue
            try:
                why = take_away(path, self._known)
            except OSError as cause:
                self._done.failed.append(Kept(path, cause.strerror or str(cause)))
                continue
            if why is None:
                self._done.removed.append(path)
                continue
            self._stayed.append(path)
            if not of_networks:
                why += f"; {receipt_path(self._state_dir)} remembers it"
            self._done.kept.append(Kept(path, why))


def _conflists(conf_dir: str) -> Iterator[tuple[str, bytes]]:
    try:
        paths = config_files(conf_dir, LISTS)
    except CNIError:
        return  # as `Networks` tells
    for path in paths:
        content = _content(path)
        if content is not None:
            yield path, content


def _found_plugins() -> Iterator[tuple[str, bytes]]:
    directories = map(os.path.abspath, (*plugin_dirs(), *all_plugin_dirs()))
    for path in dict.fromkeys(os.path.join(it, PLUGIN) for it in directories):
        content = _content(path)
        if content is not None and is_plugin(content):
            yield path, content


def _content(path: str) -> bytes | None:
    try:
        return read(path)
    except OSError:
        return None
