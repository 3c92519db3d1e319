"""Builds the CNI plugin into the wheel: `netloom/_plugin/netloom`, an executable without dependencies."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PLUGIN = "netloom/_plugin/netloom"


class PluginBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Also for an editable install, which finds the plugin in the checkout."""
        root = Path(self.root)
        done = subprocess.run(["sh", root / "plugin" / "build", root / _PLUGIN], check=False)
        if done.returncode != 0:
            raise SystemExit("netloom: the CNI plugin was not built, see above")
        # One executable for every Python, but for one kind of machine.
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
        build_data["artifacts"].append(f"/{_PLUGIN}")  # git ignores it, hatch must not
