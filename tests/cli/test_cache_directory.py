"""Cache directories that are links, files, read-only or full.

An ADD whose result could not be kept runs no plugin at all; a DEL works without a cache.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..fixtures.cli import Cli

NETNS = "/run/netns/web"


def require_refused_add(cli: Cli, cache: Path) -> None:
    """ADD says in one sentence that, where and why the cache cannot be used, and has run no plugin."""
    outcome = cli.run("cni", "add", "mynet", NETNS, "--cache-dir", str(cache))

    assert (outcome.status, outcome.stdout, cli.verbs) == (1, "", [])
    assert outcome.said["where"].startswith("code 5, attachment mynet/")
    assert str(cache) in outcome.said["error"]
    assert "File exists" not in outcome.said["error"]
    assert outcome.said["next"]


def require_working_del(cli: Cli, cache: Path) -> None:
    outcome = cli.run("cni", "del", "mynet", NETNS, "--cache-dir", str(cache))

    assert (outcome.status, cli.verbs) == (0, ["DEL"])


@pytest.fixture
def unusable(cli: Cli, request: pytest.FixtureRequest) -> Path:
    """A path that cannot be a cache directory."""
    path = cli.directory / "not-a-cache"
    match request.param:
        case "a dangling link":
            path.symlink_to(cli.directory / "gone")
        case "a file":
            path.touch()
        case "below a file":
            path.touch()
            path = path / "cache"
    return path


each_unusable = pytest.mark.parametrize(
    "unusable", ["a dangling link", "a file", "below a file"], indirect=True
)


@pytest.mark.unit
def test_a_link_to_a_directory_is_as_good_as_the_directory(cli: Cli) -> None:
    cli.recorded_network()
    (cli.directory / "real").mkdir()
    cli.cache.symlink_to("real")

    assert [cli.cni(verb, "mynet", NETNS).status for verb in ("add", "check")] == [0, 0]
    assert len(os.listdir(cli.directory / "real" / "results")) == 1
    assert [it["netns"] for it in cli.cni("attachments", "--json").document] == [NETNS]
    assert cli.cni("del", "mynet", NETNS).status == 0
    assert os.listdir(cli.directory / "real" / "results") == []


@pytest.mark.unit
@each_unusable
def test_add_runs_no_plugin_without_a_usable_cache(cli: Cli, unusable: Path) -> None:
    cli.recorded_network()

    require_refused_add(cli, unusable)


@pytest.mark.unit
@each_unusable
def test_del_needs_no_usable_cache(cli: Cli, unusable: Path) -> None:
    cli.recorded_network()

    require_working_del(cli, unusable)


@pytest.mark.unit
def test_add_runs_no_plugin_where_it_may_not_write(cli: Cli, bound_by_permissions: tuple[str, ...]) -> None:
    cli.recorded_network()
    cli.cache.mkdir(0o500)

    outcome = cli.cni("add", "mynet", NETNS, "--json", prefix=bound_by_permissions)

    assert (outcome.status, outcome.error["code"], cli.verbs) == (1, 5, [])
    assert "Permission denied" in outcome.error["msg"]


@pytest.mark.unit
def test_del_needs_no_permission_to_write(cli: Cli, bound_by_permissions: tuple[str, ...]) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)
    for directory in (cli.cache / "results", cli.cache):
        directory.chmod(0o500)

    outcome = cli.cni("del", "mynet", NETNS, prefix=bound_by_permissions)

    assert (outcome.status, cli.verbs) == (0, ["ADD", "DEL"])
    assert "cannot remove" in outcome.stderr


@pytest.mark.unit
def test_a_damaged_entry_does_not_keep_an_attachment_from_being_deleted(cli: Cli) -> None:
    cli.recorded_network()
    cli.cni("add", "mynet", NETNS)
    (entry,) = (cli.cache / "results").iterdir()
    entry.write_text('{"kind":"cniCacheV1","resu')

    assert cli.cni("check", "mynet", NETNS, "--json").error["code"] == 6
    assert cli.cni("del", "mynet", NETNS).status == 0
    assert not entry.exists()


Mount = Callable[..., None]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Mounts a tmpfs, in the run's own mount namespace; it goes with the test."""
    mounted: list[Path] = []

    def tmpfs(path: Path, *options: str) -> None:
        path.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(path)], check=True)
        mounted.append(path)

    yield tmpfs
    for path in mounted:
        subprocess.run(["umount", str(path)], check=True)


def fill(directory: Path) -> None:
    with open(directory / "ballast", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


@pytest.mark.kernel
def test_add_runs_no_plugin_on_a_read_only_disk(cli: Cli, mount: Mount) -> None:
    cli.recorded_network()
    mount(cli.cache, "ro")

    require_refused_add(cli, cli.cache)


@pytest.mark.kernel
def test_add_runs_no_plugin_on_a_full_disk(cli: Cli, mount: Mount) -> None:
    cli.recorded_network()
    mount(cli.cache, "size=64k")
    fill(cli.cache)

    require_refused_add(cli, cli.cache)

    assert list(cli.cache.glob("results/*")) == []


@pytest.mark.kernel
def test_add_runs_no_plugin_on_a_disk_without_inodes(cli: Cli, mount: Mount) -> None:
    cli.recorded_network()
    mount(cli.cache, "nr_inodes=2")
    (cli.cache / "last").touch()

    require_refused_add(cli, cli.cache)


@pytest.mark.kernel
@pytest.mark.parametrize("trouble", ["read-only", "full"])
def test_del_works_on_a_disk_that_takes_nothing(cli: Cli, mount: Mount, trouble: str) -> None:
    cli.recorded_network()
    mount(cli.cache, "size=256k")
    cli.cni("add", "mynet", NETNS)
    if trouble == "full":
        fill(cli.cache)
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(cli.cache)], check=True)

    outcome = cli.cni("del", "mynet", NETNS)

    assert (outcome.status, cli.verbs) == (0, ["ADD", "DEL"])
    assert cli.calls[-1].config["prevResult"]
    left = len(os.listdir(cli.cache / "results"))
    assert left == (1 if trouble == "read-only" else 0)
    assert ("cannot remove" in outcome.stderr) == (trouble == "read-only")


@pytest.mark.kernel
def test_add_leaves_the_older_entry_whole_on_a_full_disk(cli: Cli, mount: Mount) -> None:
    cli.recorded_network()
    mount(cli.cache, "size=256k")
    cli.cni("add", "mynet", NETNS)
    (entry,) = (cli.cache / "results").iterdir()
    before = entry.read_bytes()
    fill(cli.cache)

    assert cli.cni("add", "mynet", NETNS, "--json").error["code"] == 5

    assert cli.verbs == ["ADD"]
    assert entry.read_bytes() == before
    assert os.listdir(cli.cache / "results") == [entry.name]
