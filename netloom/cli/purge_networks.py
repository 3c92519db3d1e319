"""Files of networks that name our plugin: those that a purge leaves, since somebody wrote or changed them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ..cni import CNIError
from ..ops.node.networks import found_in
from .purged import Kept, Purged

_NOT_OURS = "it is not as `netloom up` has written it, so somebody may need it"


class Networks:
    """As they were when the purge began."""

    def __init__(self, conf_dir: str, done: Purged) -> None:
        try:
            networks, problems = found_in(conf_dir)
        except CNIError as error:
            networks, problems = [], []
            done.warnings.append(f"files of networks were left alone: {error}")
        self._paths = {it.path: f"network {it.name}" for it in networks}
        # That name our plugin, and cannot be read.
        self._paths |= {it.path: "its network" for it in problems}

    def kept_beside(self, kept: Iterable[Kept]) -> list[Kept]:
        """Those that are still there and that nobody has told of."""
        told = {it.what for it in kept}
        return [Kept(path, _NOT_OURS) for path in self._left() if path not in told]

    def warnings(self) -> list[str]:
        """Of a machine from which the plugin is gone."""
        return [
            f"{path} was kept, and the plugin that it names is gone: runtimes that use {self._paths[path]} "
            "can attach and delete nothing; remove the file, or install the plugin again with `netloom up`"
            for path in self._left()
        ]

    def _left(self) -> Iterator[str]:
        return filter(os.path.lexists, self._paths)
