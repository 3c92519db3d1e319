"""A namespace may be named as `ip netns` does, and what cnitool takes for a path stays one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .stage import Stage


def asked(stage: Stage) -> list[tuple[str, str]]:
    return [(call.verb, call.env["CNI_NETNS"]) for call in stage.calls]


@pytest.mark.kernel
def test_a_name_of_ip_netns_is_the_same_attachment_as_its_path(stage: Stage, netns: str) -> None:
    network, name = stage.recorded_network(), os.path.basename(netns)

    assert stage.cni("add", network, name).status == 0
    assert stage.cni("check", network, name).status == 0
    assert [it["netns"] for it in stage.cni("attachments", "--json").document] == [netns]
    outcome = stage.cni("del", network, name)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert stage.cni("attachments", "--json").document == []
    assert asked(stage) == [("ADD", netns), ("CHECK", netns), ("DEL", netns)]


@pytest.mark.kernel
def test_a_file_that_lies_around_is_not_taken_for_the_namespace_of_its_name(stage: Stage, netns: str) -> None:
    (stage.directory / os.path.basename(netns)).touch()

    assert stage.cni("add", stage.recorded_network(), os.path.basename(netns)).status == 0

    assert asked(stage) == [("ADD", netns)]


@pytest.mark.kernel
def test_a_word_that_leads_to_a_namespace_from_here_is_a_path(stage: Stage, netns: str) -> None:
    beside = stage.directory / "mine"
    beside.symlink_to(netns)

    assert stage.cni("add", stage.recorded_network(), "mine").status == 0

    assert asked(stage) == [("ADD", str(beside))]


@pytest.mark.kernel
def test_a_namespace_that_is_gone_is_deleted_by_its_name(stage: Stage, netns: str) -> None:
    network, name = stage.recorded_network(), os.path.basename(netns)
    stage.cni("add", network, netns)
    subprocess.run(["ip", "netns", "del", name], check=True)

    outcome = stage.cni("del", network, name)

    assert (outcome.status, outcome.stderr) == (0, "")
    assert stage.cni("attachments", "--json").document == []


@pytest.mark.unit
@pytest.mark.parametrize("netns", ["no-such-name", "/run/netns/no-such-name", "./no-such-name"])
def test_del_of_what_nobody_knows_succeeds_and_says_that_it_did_nothing(stage: Stage, netns: str) -> None:
    outcome = stage.cni("del", stage.recorded_network(), netns)

    assert (outcome.status, stage.verbs) == (0, ["DEL"])
    assert outcome.stderr.startswith("warning: there is no namespace ")
    assert "`netloom ls --wide`" in outcome.stderr


@pytest.mark.unit
def test_a_word_that_nobody_knows_is_a_path_as_cnitool_has_it(stage: Stage, tmp_path: Path) -> None:
    stage.cni("add", stage.recorded_network(), "no-such-name", cwd=tmp_path)

    assert asked(stage) == [("ADD", str(tmp_path / "no-such-name"))]
