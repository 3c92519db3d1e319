"""Builds the CNI plugin into the wheel: `netloom/_plugin/netloom`, an executable without dependencies.

The wheel's tag says where it may be installed, and is derived from what was built:

- `py3-none`: nothing in it is compiled against Python.
- A static executable depends only on the kernel and the processor, so it satisfies both families of tags:
  `manylinux` (any glibc since that version) and `musllinux` (any musl). The wheel has both tags, so that pip
  installs it on Debian and on Alpine, and a package index accepts it. The versions are the oldest ones that
  exist together with Python 3.11.
- Any other executable, such as one that is linked dynamically, runs reliably only on similar machines, and
  gets the plain `linux` tag: pip installs it from a file or a directory, but no public index accepts it.
"""

from __future__ import annotations

import struct
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PLUGIN = "netloom/_plugin/netloom"
# The machine in an ELF header, by its name in tags, for the oldest versions of both families.
_MACHINES = {62: "x86_64", 183: "aarch64"}
_ELF64 = b"\x7fELF\x02"
_INTERPRETER = 3
_FAMILIES = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")


class PluginBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Also runs for an editable install, which uses the plugin in the checkout."""
        root = Path(self.root)
        done = subprocess.run(["sh", root / "plugin" / "build", root / _PLUGIN], check=False)
        if done.returncode != 0:
            raise SystemExit("netloom: the CNI plugin was not built, see above")
        build_data["tag"] = f"py3-none-{platform(root / _PLUGIN)}"
        build_data["pure_python"] = False
        build_data["artifacts"].append(f"/{_PLUGIN}")  # git ignores it, but hatch must include it


def platform(executable: Path) -> str:
    content = executable.read_bytes()
    [machine] = struct.unpack_from("<H", content, 18)
    if content.startswith(_ELF64) and machine in _MACHINES and _is_static(content):
        return ".".join(f"{family}_{_MACHINES[machine]}" for family in _FAMILIES)
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _is_static(elf: bytes) -> bool:
    """Says whether no program header requests a dynamic linker."""
    [table] = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return all(
        struct.unpack_from("<I", elf, table + number * size) != (_INTERPRETER,) for number in range(count)
    )
