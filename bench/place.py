"""Where a run happens: what areas may use, and what is not available."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

CHECKOUT = Path(__file__).resolve().parent.parent
BUILD = CHECKOUT / "build"


class Place(Struct, frozen=True):
    """`state` is an empty directory on a real disk, deleted after the run.

    `obstacle` says why this run is not in private namespaces; it is empty if it is.
    """

    state: Path
    obstacle: str
