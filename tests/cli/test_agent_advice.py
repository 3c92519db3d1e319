"""The next step of an error of our own plugin: by its code, and only if it is ours."""

from __future__ import annotations

import json
import os
import re

import pytest

from netloom.cni.errors import from_code
from netloom.ipam import Exhausted, PoolUsage, Shortage
from netloom.journal import lost
from netloom.ops.advice import agent_advice

from ..fixtures.cli import Cli
from ..lanes import ROOT

pytestmark = pytest.mark.unit

_TABLE = (ROOT / "docs" / "reference" / "network.md").read_text().partition("## Errors")[2]
CODES = sorted({2, 11, 50, *map(int, re.findall(r"^\| (\d+) \|", _TABLE, re.MULTILINE))})


def refusing(cli: Cli, plugin: str, code: int, msg: str = "no luck", details: str = "") -> str:
    answer = json.dumps({"code": code, "msg": msg, "details": details})
    return cli.network("mynet", cli.plugin(plugin, f"echo '{answer}'; exit 1"))


@pytest.mark.parametrize("code", CODES)
def test_every_code_of_ours_has_a_next_step_that_names_a_command(cli: Cli, code: int) -> None:
    outcome = cli.cni("add", refusing(cli, "netloom", code), "/run/netns/web")

    assert outcome.status == 1
    assert "`netloom " in outcome.said["next"]


def test_all_codes_that_the_reference_lists_are_looked_at() -> None:
    assert set(range(100, 105)) <= set(CODES)


@pytest.mark.parametrize("code", range(100, 105))
def test_another_plugins_codes_are_not_ours(cli: Cli, code: int) -> None:
    outcome = cli.cni("add", refusing(cli, "bridge", code), "/run/netns/web")

    assert "plugin's own" in outcome.said["next"]


def test_a_field_that_any_plugin_refuses_is_to_be_taken_out(cli: Cli) -> None:
    outcome = cli.cni("add", refusing(cli, "bridge", 2), "/run/netns/web")

    assert outcome.said["next"].startswith("remove what the message names from the configuration")


def test_what_another_attempt_may_mend_is_tried_again() -> None:
    assert "try again" in (agent_advice(from_code(11, "the agent is stopping").at(plugin="netloom")) or "")


def test_another_user_runs_it_as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    error = from_code(
        11, "the netloom agent cannot be reached", "the agent answers root only: run this as root"
    )
    assert "`sudo netloom" in (agent_advice(error.at(plugin="netloom")) or "")


@pytest.mark.parametrize(
    ("ready_in", "remedy"),
    [(None, "detach something, or give the network another pool"), (13, "the next is ready in 13 s")],
)
def test_a_shortage_of_addresses_says_what_to_do_itself(ready_in: int | None, remedy: str) -> None:
    found = Shortage(4, [PoolUsage("10.1.0.0/30", 2, 1, 1, 0)], ready_in)
    error = Exhausted(found.text, found.next).at(plugin="netloom")
    assert (str(error), agent_advice(error)) == (
        f"no IPv4 address is left: 10.1.0.0/30 has 1 held and 1 resting; {remedy}",
        "",
    )


@pytest.mark.parametrize(
    ("code", "msg", "details"),
    [
        (
            11,
            "the netloom agent cannot be reached",
            "start it with `netloom up`; `netloom status` tells more",
        ),
        (50, "the disk is full", "`netloom status` tells more"),
        (100, "IPv6 is switched off", "switch it on, or remove the pool from the network"),
        (100, "the kernel said no", "`netloom doctor` lists what this kernel can do"),
    ],
)
def test_an_error_that_has_its_remedy_is_not_followed_by_another(
    cli: Cli, code: int, msg: str, details: str
) -> None:
    answer = json.dumps({"code": code, "msg": msg, "details": details})
    cli.network("mynet", cli.plugin("netloom", f"echo '{answer}'; exit 1"))

    outcome = cli.cni("add", "mynet", "/run/netns/web")

    assert (outcome.status, list(outcome.said)) == (1, ["error", "where", "more"])


def test_of_a_journal_that_was_taken_from_the_agent_the_agent_says_it_all(cli: Cli) -> None:
    details = f"the journal was removed or replaced; {lost.advice('/x/journal.db', runs=True)}"
    outcome = cli.cni("add", refusing(cli, "netloom", 5, "not recorded", details), "/x")

    assert "`netloom journal restore FILE`" in outcome.said["error"]
    assert "next" not in outcome.said


def test_check_of_what_is_not_attached_says_to_attach_it_first(cli: Cli) -> None:
    outcome = cli.cni("check", refusing(cli, "netloom", 7, "CHECK needs prevResult"), "/run/netns/web")

    assert "`netloom cni add`" in outcome.said["next"]


def test_an_argument_that_a_plugin_does_not_know_may_be_let_pass(cli: Cli) -> None:
    outcome = cli.cni("add", refusing(cli, "bridge", 4, "ARGS: unknown args"), "/run/netns/web")

    assert "IgnoreUnknown=1" in outcome.said["next"]


_SOUND = {"type": "netloom", "pools": [{"cidr": "10.1.0.0/24"}], "capabilities": {"ips": True}}


@pytest.mark.parametrize(("plugin", "blamed"), [(_SOUND, True), (_SOUND | {"mtu": 5}, False)])
def test_a_value_from_the_environment_is_not_looked_for_in_a_sound_file(
    cli: Cli, plugin: dict[str, object], blamed: bool
) -> None:
    cli.plugin("netloom", """echo '{"code": 7, "msg": "the capability ips: 10.2.0.1 is in none"}'; exit 1""")
    cli.network("mynet", plugin)

    outcome = cli.cni("add", "mynet", "/run/netns/web", env={"CAP_ARGS": '{"ips": ["10.2.0.1"]}'})

    assert (outcome.status, "CAP_ARGS" in outcome.said["next"]) == (3, blamed)
