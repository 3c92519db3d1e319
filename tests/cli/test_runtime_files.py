"""Where runtimes look, by their own files: which of them count, in which order, and what damages one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from netloom.ops.runtimes.runtimes import ContainerRuntime, runtimes

from ..fixtures.machine import Machine
from . import strange_files

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

SECTION = {1: "cri", 2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}
MAIN = "/etc/containerd/config.toml"


def cni(version: int, *lines: str, imports: str = "", declared: bool = True) -> str:
    head = f"version = {version}\n" if declared else ""
    settings = "\n".join(lines)
    return f'{head}imports = [{imports}]\n[plugins."{SECTION[version]}".cni]\n{settings}\n'


@pytest.fixture
def containerd(own_etc: Path) -> Path:
    directory = own_etc / "containerd"
    directory.mkdir()
    return directory


@pytest.fixture
def rancher() -> Iterator[Path]:
    """Where k3s and rke2 have their containerd's files, in a place of the test's own."""
    place = Path("/var/lib/rancher")
    was_there = place.exists()
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "rancher", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)
        if not was_there:
            place.rmdir()


def named(name: str) -> ContainerRuntime:
    return {it.name: it for it in runtimes()}[name]


def findings(machine: Machine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.run("doctor", "--json", "--only", "runtimes").document["findings"]
    return found


# containerd's versions.


@pytest.mark.parametrize("version", SECTION)
def test_containerds_directories_are_read_from_every_version_of_its_file(
    containerd: Path, version: int
) -> None:
    (containerd / "config.toml").write_text(cni(version, 'conf_dir = "/n"', 'bin_dir = "/b"'))
    found = named("containerd")
    assert (found.path, found.conf_dir) == (MAIN, "/n")
    assert (found.plugin_path, found.plugin_dirs) == (MAIN, ("/b",))


def test_containerd_may_have_several_directories_of_plugins(containerd: Path) -> None:
    (containerd / "config.toml").write_text(cni(3, 'bin_dirs = ["/b", "/c"]'))
    assert named("containerd").plugin_dirs == ("/b", "/c")


def test_a_table_of_another_version_is_none(containerd: Path) -> None:
    (containerd / "config.toml").write_text(cni(2, 'conf_dir = "/n"').replace("version = 2", "version = 3"))
    assert (named("containerd").path, named("containerd").conf_dir) == ("", "/etc/cni/net.d")


# Imports.


def test_an_import_counts_over_its_importer_and_is_named(machine: Machine, containerd: Path) -> None:
    (containerd / "conf.d").mkdir()
    (containerd / "config.toml").write_text(cni(3, 'conf_dir = "/n"', imports='"conf.d/*.toml"'))
    (containerd / "conf.d" / "10.toml").write_text(cni(3, 'conf_dir = "/ten"', 'bin_dir = "/b"'))
    (containerd / "conf.d" / "20.toml").write_text(cni(3, 'conf_dir = "/twenty"'))
    networks, plugins = findings(machine)
    assert "/twenty" in networks["text"]
    assert "change /etc/containerd/conf.d/20.toml" in networks["next"]
    assert "change /etc/containerd/conf.d/10.toml" in plugins["next"]


@pytest.mark.parametrize("way", ["itself", "each other", "a link"])
def test_files_that_import_each_other_come_to_an_end(containerd: Path, way: str) -> None:
    imported = {"itself": "config.toml", "each other": "b.toml", "a link": "here/config.toml"}[way]
    (containerd / "here").symlink_to(".")
    (containerd / "config.toml").write_text(cni(3, 'conf_dir = "/n"', imports=f'"{imported}"'))
    (containerd / "b.toml").write_text(cni(3, 'bin_dir = "/b"', imports='"config.toml"'))
    assert named("containerd").conf_dir == "/n"
    assert named("containerd").plugin_dirs == (("/b",) if way == "each other" else ())


ARRANGEMENTS: dict[str, dict[str, str]] = {
    "the last counts": {
        "config.toml": cni(2, 'conf_dir = "/n"', imports='"a.toml", "b.toml"'),
        "a.toml": cni(2, 'conf_dir = "/a"', 'bin_dir = "/a"'),
        "b.toml": cni(2, 'conf_dir = "/b"', 'bin_dir = "/b"'),
    },
    "imports of imports come after all of their importer's": {
        "config.toml": cni(2, imports='"a.toml", "b.toml"'),
        "a.toml": cni(2, 'conf_dir = "/a"', imports='"sub/c.toml"'),
        "b.toml": cni(2, 'conf_dir = "/b"'),
        "sub/c.toml": cni(2, 'conf_dir = "/c"', imports='"d.toml"'),
        "sub/d.toml": cni(2, 'conf_dir = "/d"'),
    },
    "one that has the table has all of it": {
        "config.toml": cni(2, 'conf_dir = "/n"', 'bin_dir = "/n"', imports='"a.toml"'),
        "a.toml": 'version = 2\n[plugins."io.containerd.grpc.v1.cri".registry]\nconfig_path = "/x"\n',
    },
    "one that has another table takes nothing away": {
        "config.toml": cni(2, 'conf_dir = "/n"', 'bin_dir = "/n"', imports='"a.toml"'),
        "a.toml": 'version = 2\n[plugins."io.containerd.internal.v1.opt"]\npath = "/x"\n',
    },
    "an asterisk matches hidden files": {
        "config.toml": cni(2, 'conf_dir = "/n"', imports='"/etc/containerd/sub/*"'),
        "sub/.a.toml": cni(2, 'conf_dir = "/a"'),
    },
    "an import has its importer's version": {
        "config.toml": cni(2, 'conf_dir = "/n"', imports='"a.toml"'),
        "a.toml": cni(2, 'conf_dir = "/a"', declared=False),
    },
    "a file without a version is of the first": {"config.toml": cni(2, 'conf_dir = "/n"', declared=False)},
    "brackets are no pattern": {
        "config.toml": cni(2, 'conf_dir = "/n"', imports='"[a].toml"'),
        "[a].toml": cni(2, 'conf_dir = "/brackets"'),
        "a.toml": cni(2, 'conf_dir = "/a"'),
    },
}


@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_imports_are_read_as_containerd_1_reads_them(containerd: Path, arrangement: str) -> None:
    program = shutil.which("containerd")
    if program is None or " 1." not in subprocess.check_output([program, "--version"], text=True):
        pytest.skip("needs containerd 1")
    for name, content in ARRANGEMENTS[arrangement].items():
        (containerd / name).parent.mkdir(exist_ok=True)
        (containerd / name).write_text(content)
    shown = subprocess.run([program, "config", "dump"], check=True, capture_output=True, text=True).stdout
    theirs = [re.findall(rf'^\s+{key} = "(.*)"$', shown, re.MULTILINE) for key in ("conf_dir", "bin_dir")]
    found = named("containerd")
    assert theirs == [[found.conf_dir], list(found.plugin_dirs) or ["/opt/cni/bin"]]


# k3s and rke2.


@pytest.mark.parametrize("owner", ["k3s", "rke2"])
def test_the_containerd_of_a_distribution_is_looked_at_beside_the_plain_one(
    machine: Machine, containerd: Path, rancher: Path, owner: str
) -> None:
    config = rancher / owner / "agent/etc/containerd/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(cni(2, 'conf_dir = "/theirs/net.d"', 'bin_dir = "/theirs/bin"'))
    (containerd / "config.toml").write_text(
        cni(2, f'conf_dir = "{machine.cli.networks}"', f'bin_dir = "{machine.cli.plugins}"')
    )
    found = findings(machine)
    assert [it["subject"] for it in found] == [f"containerd of {owner}"] * 2
    assert all(str(config) in it["text"] for it in found)
    # Whatever is written into the file itself is gone at the next start.
    assert all("config.toml.tmpl" in it["next"] for it in found)


# CRI-O and podman.


def test_crio_is_read_with_its_drop_ins(own_etc: Path) -> None:
    directory = own_etc / "crio"
    (directory / "crio.conf.d").mkdir(parents=True)
    (directory / "crio.conf").write_text('[crio.network]\nnetwork_dir = "/n"\nplugin_dirs = ["/b", "/c"]\n')
    (directory / "crio.conf.d/10.conf").write_text('[crio.network]\nnetwork_dir = "/ten"\n')
    found = named("CRI-O")
    assert (found.conf_dir, found.path) == ("/ten", "/etc/crio/crio.conf.d/10.conf")
    assert (found.plugin_dirs, found.plugin_path) == (("/b", "/c"), "/etc/crio/crio.conf")


def test_crio_that_uses_our_network_by_its_name_is_looked_at_all_the_same(
    machine: Machine, own_etc: Path
) -> None:
    (own_etc / "crio").mkdir()
    settings = '[crio.network]\nplugin_dirs = ["/b"]\ncni_default_network = '
    (own_etc / "crio/crio.conf").write_text(f'{settings}"netloom"\n')
    (finding,) = findings(machine)
    assert "looks for plugins in /b" in finding["text"]
    (own_etc / "crio/crio.conf").write_text(f'{settings}"other"\n')
    (finding,) = findings(machine)
    assert "cni_default_network" in finding["next"]


def test_podman_is_read_with_its_drop_ins(own_etc: Path) -> None:
    directory = own_etc / "containers"
    (directory / "containers.conf.d").mkdir(parents=True)
    (directory / "containers.conf").write_text(
        '[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "/n"\ncni_plugin_dirs = ["/b"]\n'
    )
    assert named("podman").conf_dir == ""
    (directory / "containers.conf.d/10.conf").write_text('[network]\nnetwork_backend = "cni"\n')
    found = named("podman")
    assert (found.conf_dir, found.plugin_dirs, found.note) == ("/n", ("/b",), "")


# Files that are none.


STRANGE: dict[str, Callable[[Path], object]] = {
    **strange_files.STRANGE,
    "a link to nowhere": lambda path: path.symlink_to("/nowhere"),
    "no text": lambda path: path.write_bytes(b'x = "\xff"\n'),
    "no TOML": lambda path: path.write_text("["),
    "nested": lambda path: path.write_text("a = " + "[" * 100_000),
    "a number without end": lambda path: path.write_text(f"a = {'9' * 5000}\n"),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_a_strange_file_is_named_and_the_others_are_read(
    machine: Machine, containerd: Path, strange: str
) -> None:
    (containerd / "config.toml").write_text(
        cni(3, 'conf_dir = "/n"', imports='"strange.toml", "/etc/containerd/last.toml"')
    )
    STRANGE[strange](containerd / "strange.toml")
    (containerd / "last.toml").write_text(cni(3, f'conf_dir = "{machine.cli.networks}"'))
    (finding,) = findings(machine)
    assert (finding["code"], finding["severity"]) == ("runtime-unreadable", "warning")
    assert finding["subject"] == str(containerd / "strange.toml")


@pytest.mark.parametrize(
    ("path", "strange"),
    [
        ("crio/crio.conf", "a FIFO"),
        ("containers/containers.conf", "no text"),
        ("containerd/config.toml", "huge"),
    ],
)
def test_a_runtime_whose_main_file_is_strange_is_named_with_it(
    machine: Machine, own_etc: Path, path: str, strange: str
) -> None:
    (own_etc / path).parent.mkdir()
    STRANGE[strange](own_etc / path)
    assert [(it["code"], it["subject"]) for it in findings(machine)] == [
        ("runtime-unreadable", str(own_etc / path))
    ]


def test_values_that_are_no_directories_say_nothing(machine: Machine, own_etc: Path) -> None:
    for path, lines in {
        "containerd/config.toml": (
            'version = 2\nimports = [1, "\\u0000*"]\ndisabled_plugins = [[1]]\n'
            '[plugins."io.containerd.grpc.v1.cri".cni]\nbin_dir = "\\u0000"\nconf_dir = 7\n'
        ),
        "crio/crio.conf": '[crio.network]\nnetwork_dir = "\\u0000"\nplugin_dirs = ["\\u0000", 1, ""]\n',
        "containers/containers.conf": "network = []\n",
    }.items():
        (own_etc / path).parent.mkdir()
        (own_etc / path).write_text(lines)
    assert findings(machine) == []
