"""`python -m tools.reference`: writes pages and schemas, or lists those that differ from the code."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .breaking import breaks
from .files import ROOT, current, schemas


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit status 1 if something differs"
    )
    parser.add_argument(
        "--breaking", metavar="NAME", action="append", default=[], help="a schema that may break"
    )
    args = parser.parse_args()
    wanted = current(ROOT)
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
    orphans = sorted(_made(ROOT) - wanted.keys())
    broken = [] if args.check else _broken(ROOT, set(args.breaking))
    if args.check or broken:
        for path in [*stale, *orphans]:
            print(f"differs from the code: {path.relative_to(ROOT)}", file=sys.stderr)
        for sentence in broken:
            print(sentence, file=sys.stderr)
        return 1 if stale or orphans or broken else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path])
        print(f"written  {path.relative_to(ROOT)}")
    for path in orphans:
        path.unlink()
        print(f"removed  {path.relative_to(ROOT)}")
    return 0


def _made(root: Path) -> set[Path]:
    """Files in the folders that contain only generated files."""
    reference = root / "docs" / "reference"
    places = [
        *(reference / name for name in ("commands", "keys", "errors", "metrics")),
        root / "docs" / "schemas",
    ]
    return {path for place in places for path in place.glob("*.*")}


def _broken(root: Path, allowed: set[str]) -> list[str]:
    return [
        f"{path.name} would break scripts: {it}. If it has to be, say so in CHANGELOG.md, and: "
        f"--breaking {path.stem}"
        for path, schema in schemas(root).items()
        if path.exists() and path.stem not in allowed
        for it in breaks(json.loads(path.read_text()), schema)
    ]


if __name__ == "__main__":
    sys.exit(main())
