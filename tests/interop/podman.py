"""Podman with its CNI backend, run unchanged against a network that the test chooses.

Storage, state and configuration are the test's own; of the machine only the programs are used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from .commands import output
from .enclosure import Enclosure
from .rootfs import busybox_root

# Debian's podman asks for more open files and processes than a container of ours may have.
_ULIMITS = ("nofile=1024:1024", "nproc=4096:4096")
_NAMESPACES = Path("/run/netns")
# By the second, the run finds processes that were left behind.
_INHERITED = ("PATH", "NETLOOM_TEST_RUN")


class Podman:
    """Podman with the plugins of `plugin_dirs` and the networks of `conf_dir`.

    `environment` reaches the plugins, also when a container ends without anybody's command.
    """

    def __init__(
        self,
        plugin_dirs: Sequence[Path],
        conf_dir: Path,
        base: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._enclosure = Enclosure(base)
        self._namespaces_before = set(_NAMESPACES.glob("netns-*"))
        self._root = busybox_root(base / "rootfs")
        marked = {**environment, **self._enclosure.mark}
        network = {
            "network_backend": "cni",
            "network_config_dir": str(conf_dir),
            "cni_plugin_dirs": [str(directory) for directory in plugin_dirs],
        }
        (base / "containers.conf").write_text(
            _toml(
                containers={"default_ulimits": _ULIMITS, "apparmor_profile": "unconfined"},
                network=network,
                engine=self._engine(marked),
            )
        )
        (base / "storage.conf").write_text(_toml(storage=self._storage(base)))
        self._environment = dict(os.environ) | marked
        self._environment["CONTAINERS_CONF"] = str(base / "containers.conf")
        self._environment["CONTAINERS_STORAGE_CONF"] = str(base / "storage.conf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(
        self,
        name: str,
        network: str,
        command: Sequence[str],
        *,
        detach: bool = True,
        ip: str | None = None,
        ip6: str | None = None,
        mac: str | None = None,
        publish: Sequence[str] = (),
    ) -> str:
        """Runs a container; gives its id, or what the command said when it is waited for."""
        options = ["--name", name, "--network", network, "--cgroup-parent", f"/{self._enclosure.name}"]
        asked = [("--ip", ip), ("--ip6", ip6), ("--mac-address", mac)]
        for option, value in [*asked, *(("--publish", ports) for ports in publish)]:
            if value is not None:
                options += [option, value]
        if detach:
            options.append("--detach")
        return self._podman("run", *options, "--rootfs", str(self._root), *command).strip()

    def exec(self, name: str, command: Sequence[str]) -> str:
        return self._podman("exec", name, *command)

    def inspect(self, name: str) -> dict[str, Any]:
        """The network settings of a container, as podman tells them."""
        settings: dict[str, Any] = json.loads(
            self._podman("inspect", "--format", "{{json .NetworkSettings}}", name)
        )
        return settings

    def start(self, name: str) -> None:
        self._podman("start", name)

    def restart(self, name: str) -> None:
        self._podman("restart", "--time", "0", name)

    def stop(self, name: str) -> None:
        self._podman("stop", "--time", "0", name)

    def kill(self, name: str) -> None:
        self._podman("kill", name)

    def remove(self, name: str) -> None:
        self._podman("rm", "--force", "--time", "0", name)

    def connect(self, network: str, name: str) -> None:
        """Joins a container that runs to one more network."""
        self._podman("network", "connect", network, name)

    def disconnect(self, network: str, name: str) -> None:
        self._podman("network", "disconnect", network, name)

    def reload(self, name: str) -> None:
        """Detaches a container that runs, and attaches it again as it was."""
        self._podman("network", "reload", name)

    def prune(self, what: str) -> None:
        """Deletes what no container uses: `network`, or `system`, which is networks and more."""
        self._podman(what, "prune", "--force")

    def close(self) -> None:
        try:
            self._podman("rm", "--force", "--time", "0", "--all")
        finally:
            self._enclosure.end()
            for namespace in set(_NAMESPACES.glob("netns-*")) - self._namespaces_before:
                output(["ip", "netns", "delete", namespace.name])

    def _podman(self, *words: str) -> str:
        return output(["podman", *words], self._environment)

    def _engine(self, environment: Mapping[str, str]) -> dict[str, Any]:
        # Conmon starts the podman that detaches an ended container, with these variables and no others.
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {
            "runtime": "runc",
            "cgroup_manager": "cgroupfs",
            "events_logger": "none",
            "lock_type": "file",
            "tmp_dir": str(self._enclosure.short_dir / "tmp"),
            "conmon_env_vars": [f"{name}={value}" for name, value in {**inherited, **environment}.items()],
        }

    def _storage(self, base: Path) -> dict[str, Any]:
        run_root = self._enclosure.short_dir / "storage"
        return {"driver": "vfs", "graphroot": str(base / "storage"), "runroot": str(run_root)}


def _toml(**tables: dict[str, Any]) -> str:
    """TOML of tables of strings and lists of strings, which JSON writes alike."""
    return "".join(
        f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in entries.items())
        for table, entries in tables.items()
    )
