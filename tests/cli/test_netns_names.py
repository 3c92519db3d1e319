"""A namespace may be named as `ip netns` does, and what cnitool takes for a path stays one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ..fixtures.cli import Cli


def asked(cli: Cli) -> list[tuple[str, str]]:
    return [(call.verb, call.env["CNI_NETNS"]) for call in cli.calls]


@pytest.mark.kernel
def test_a_name_of_ip_netns_is_the_same_attachment_as_its_path(cli: Cli, netns: str) -> None:
    network, name = cli.recorded_network(), os.path.basename(netns)

    assert cli.cni("add", network, name).status == 0
    assert cli.cni("check", network, name).status == 0
    assert [it["netns"] for it in cli.cni("attachments", "--json").document] == [netns]
    outcome = cli.cni("del", network, name)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert cli.cni("attachments", "--json").document == []
    assert asked(cli) == [("ADD", netns), ("CHECK", netns), ("DEL", netns)]


@pytest.mark.kernel
def test_a_file_that_lies_around_is_not_taken_for_the_namespace_of_its_name(cli: Cli, netns: str) -> None:
    (cli.directory / os.path.basename(netns)).touch()

    assert cli.cni("add", cli.recorded_network(), os.path.basename(netns)).status == 0

    assert asked(cli) == [("ADD", netns)]


@pytest.mark.kernel
def test_a_word_that_leads_to_a_namespace_from_here_is_a_path(cli: Cli, netns: str) -> None:
    beside = cli.directory / "mine"
    beside.symlink_to(netns)

    assert cli.cni("add", cli.recorded_network(), "mine").status == 0

    assert asked(cli) == [("ADD", str(beside))]


@pytest.mark.kernel
def test_a_namespace_that_is_gone_is_deleted_by_its_name(cli: Cli, netns: str) -> None:
    network, name = cli.recorded_network(), os.path.basename(netns)
    cli.cni("add", network, netns)
    subprocess.run(["ip", "netns", "del", name], check=True)

    outcome = cli.cni("del", network, name)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert cli.cni("attachments", "--json").document == []


@pytest.mark.unit
@pytest.mark.parametrize("netns", ["no-such-name", "/run/netns/no-such-name", "./no-such-name"])
def test_del_of_what_nobody_knows_succeeds_and_says_that_it_did_nothing(cli: Cli, netns: str) -> None:
    outcome = cli.cni("del", cli.recorded_network(), netns)

    assert (outcome.status, cli.verbs) == (0, ["DEL"])
    assert outcome.stderr.startswith("warning: namespace ")
    assert "`netloom ls --wide`" in outcome.stderr


@pytest.mark.unit
def test_a_word_that_nobody_knows_is_a_path_as_cnitool_has_it(cli: Cli, tmp_path: Path) -> None:
    cli.cni("add", cli.recorded_network(), "no-such-name", cwd=tmp_path)

    assert asked(cli) == [("ADD", str(tmp_path / "no-such-name"))]
