"""Another version of netloom, installed beside this one: what is upgraded to, and downgraded to."""

from __future__ import annotations

import compileall
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

import netloom

_PACKAGE = Path(netloom.__file__).parent


class Installation:
    """A copy of the package with another version number; with one more migration, and another nft table."""

    def __init__(
        self, directory: Path, version: str, *, migration: str = "", readable_by: int = 0, table: str = ""
    ) -> None:
        self.directory = directory
        self.version = version
        package = directory / "netloom"
        shutil.copytree(_PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        _edit(package / "__init__.py", r'__version__ = "[^"]*"', f'__version__ = "{version}"')
        if migration:
            added = f"    Migration({migration!r}, {readable_by}),\n)\nVERSION ="
            _edit(package / "journal" / "schema.py", r"\)\nVERSION =", added)
        if table:
            end = f"\nTABLE = replace(TABLE, body=TABLE.body + {table!r})\n"
            path = package / "networks" / "table.py"
            path.write_text(f"{path.read_text()}\nfrom msgspec.structs import replace\n{end}")
        # What is installed has its bytecode, too; and starts as fast as this one.
        compileall.compile_dir(package, quiet=2)

    def environment(self, **variables: str) -> dict[str, str]:
        """For commands whose first words are `command`."""
        return {**os.environ, "PYTHONPATH": str(self.directory), **variables}

    def interpreter(self) -> Path:
        """One of its own, which finds this version and no other, as in a virtual environment."""
        place = self.directory / "venv"
        if not place.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
            (packages,) = place.glob("lib/python*/site-packages")
            (packages / "netloom.pth").write_text(
                f"{self.directory}\n{Path(msgspec.__file__).parent.parent}\n"
            )
        return place / "bin" / "python"

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-P", "-m", "netloom.cli.main"]


def _edit(path: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, lambda _: replacement, path.read_text())
    assert count == 1, f"{path} has no {pattern}"
    path.write_text(text)
