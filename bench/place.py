"""Where a run happens: what areas may use and what they must do without."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

CHECKOUT = Path(__file__).resolve().parent.parent
BUILD = CHECKOUT / "build"


class Place(Struct, frozen=True):
    """`state` is an empty directory on a real disk, gone after the run.

    `obstacle` says why this run is not in private namespaces; it is empty when it is.
    """

    state: Path
    obstacle: str
