"""Builds the CNI plugin into the wheel: `netloom/_plugin/netloom`, an executable without dependencies.

The wheel's tag says where it may be installed, and is read from what was built:

- `py3-none`: no part of it is compiled against Python.
- A static executable asks nothing of the machine but its kernel and its processor, so it keeps what both
  families of tags promise: `manylinux` (it runs beside any glibc since that version) and `musllinux` (it
  runs beside any musl). The wheel names both, so that pip takes it on Debian and on Alpine alike, and an
  index takes it, too. The versions are the oldest that a Python 3.11 is found beside.
- Anything else, as of a CC that links dynamically, runs for sure on machines like this one only, and gets
  the plain `linux` tag: pip takes it from a file or a directory, but no public index does.
"""

from __future__ import annotations

import struct
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PLUGIN = "netloom/_plugin/netloom"
# The machine that an ELF header names, by the name that tags have for it: where both families are old enough.
_MACHINES = {62: "x86_64", 183: "aarch64"}
_ELF64 = b"\x7fELF\x02"
_INTERPRETER = 3
_FAMILIES = ("manylinux_2_17", "manylinux2014", "musllinux_1_1")


class PluginBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Also for an editable install, which finds the plugin in the checkout."""
        root = Path(self.root)
        done = subprocess.run(["sh", root / "plugin" / "build", root / _PLUGIN], check=False)
        if done.returncode != 0:
            raise SystemExit("netloom: the CNI plugin was not built, see above")
        build_data["tag"] = f"py3-none-{platform(root / _PLUGIN)}"
        build_data["pure_python"] = False
        build_data["artifacts"].append(f"/{_PLUGIN}")  # git ignores it, hatch must not


def platform(executable: Path) -> str:
    content = executable.read_bytes()
    [machine] = struct.unpack_from("<H", content, 18)
    if content.startswith(_ELF64) and machine in _MACHINES and _is_static(content):
        return ".".join(f"{family}_{_MACHINES[machine]}" for family in _FAMILIES)
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _is_static(elf: bytes) -> bool:
    """Whether no program header asks for a dynamic linker."""
    [table] = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    return all(
        struct.unpack_from("<I", elf, table + number * size) != (_INTERPRETER,) for number in range(count)
    )
