"""A network's file that something deletes: the node says that it is missing, and restores what it had."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from netloom.ops.node.namespaces import last_sign

from ..fixtures.machine import Machine
from ..fixtures.node import eventually
from ..fixtures.pages import ask

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("own_etc")]

CODE = "network-file-missing"
OPTIONS = ("--network", "shop", "--pool", "10.20.0.0/24", "--pool", "fd20::/64", "--no-masquerade")
OTHER = '{"cniVersion":"1.0.0","name":"b","plugins":[{"type":"bridge"}]}'


@pytest.fixture
def shop(bare: Machine) -> Machine:
    """A node whose network has none of the defaults."""
    bare.node.inside("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    bare.brought_up(*OPTIONS)
    return bare


def findings(machine: Machine, *words: str) -> list[Any]:
    """Those of `status` about the file; its exit status fits the worst of all."""
    outcome = machine.run("status", "--json", *words)
    found = outcome.document["findings"]
    assert outcome.status == int(any(it["severity"] == "error" for it in found))
    return [it for it in found if it["code"] == CODE]


def document(path: Path) -> Any:
    return json.loads(path.read_text())


def edited(machine: Machine, **keys: object) -> str:
    """The file with keys that `up` does not write, once the agent has a copy of it."""
    content = document(machine.conflist)
    content["plugins"][0] |= keys
    text = json.dumps(content)
    machine.conflist.write_text(text)
    store = machine.node.state_dir / "networks.json"
    assert eventually(lambda: text in [it["content"] for it in document(store)["networks"]])
    return text


def await_ticks(machine: Machine) -> None:
    """Until the agent has done all that it does at a tick: each begins with a sign of life."""
    for _ in range(2):
        before = last_sign(str(machine.node.socket))

        def is_later(seen: float | None = before) -> bool:
            return last_sign(str(machine.node.socket)) != seen

        assert eventually(is_later)


class TestFound:
    def test_a_missing_file_is_an_error_everywhere_and_up_restores_it(self, shop: Machine) -> None:
        assert findings(shop) == []
        before = shop.conflist.read_text()
        shop.conflist.unlink()
        (found,) = findings(shop)
        assert (found["severity"], found["subject"]) == ("error", str(shop.conflist))
        assert "`netloom up`" in found["next"]
        held = shop.run("pools", "--json")
        assert (held.status, [it["code"] for it in held.document["findings"]]) == (1, [CODE])
        assert "netloom up" in shop.run("pools").stdout
        diagnosis = shop.run("doctor", "--json", "--only", "node").document
        assert CODE in [it["code"] for it in diagnosis["findings"]]
        ready = ask(shop.node, "/readyz?network=shop")
        assert (ready.status, [it["code"] for it in json.loads(ready.body)["findings"]]) == (503, [CODE])
        assert b'netloom_network_ready{network="shop"} 0' in ask(shop.node, "/metrics").body
        done = shop.brought_up()["network"]
        assert (done["change"], done["pools"], done["ipMasq"]) == (
            "restored", ["10.20.0.0/24", "fd20::/64"], False,
        )  # fmt: skip
        assert shop.conflist.read_text() == before
        assert findings(shop) == []

    def test_a_file_that_holds_another_network_is_an_error_too(self, shop: Machine) -> None:
        shop.conflist.write_text(OTHER)
        (found,) = findings(shop)
        assert found["severity"] == "error"
        assert shop.up().status == 3
        assert shop.conflist.read_text() == OTHER
        assert shop.brought_up("--force")["network"]["name"] == "shop"
        assert findings(shop) == []

    def test_it_is_found_without_an_agent_and_not_after_a_purge(self, shop: Machine) -> None:
        shop.run("down")
        shop.conflist.unlink()
        assert len(findings(shop)) == 1
        assert shop.run("down", "--purge", "--yes").status == 0
        assert findings(shop) == []
        assert not shop.node.state_dir.exists()

    def test_a_network_by_hand_matters_while_containers_are_attached_to_it(self, machine: Machine) -> None:
        text = machine.conflist.read_text().replace('"netloom",', '"mine",', 1)
        theirs = machine.cli.networks / "20-mine.conflist"
        theirs.write_text(text.replace("10.78.0.0/16", "10.79.0.0/16").replace("fd78::", "fd79::"))
        container = machine.node.container()
        words = ("mine", f"/run/netns/{container}", "--cache-dir", str(machine.cli.cache))
        assert machine.run("cni", "add", *words).status == 0
        store = machine.node.state_dir / "networks.json"
        assert eventually(lambda: "mine" in [it["name"] for it in document(store)["networks"]])
        content = theirs.read_text()
        theirs.unlink()
        (found,) = findings(machine)
        assert (found["severity"], found["subject"]) == ("warning", str(theirs))
        assert machine.run("status", "--json").document["outside"] == []
        held = machine.run("pools", "--json")
        assert (held.status, held.document["outside"]) == (0, [])
        assert [it["code"] for it in held.document["findings"]] == [CODE]
        (restored,) = machine.brought_up()["restored"]
        assert (restored["change"], restored["path"]) == ("restored", str(theirs))
        assert theirs.read_text() == content
        assert machine.run("cni", "del", *words).status == 0
        known = document(machine.node.state_dir / "installed.json")["files"]
        assert str(theirs) not in known
        theirs.unlink()
        assert findings(machine) == []

    def test_another_network_becomes_the_nodes_when_that_is_asked_for(self, shop: Machine) -> None:
        theirs = shop.conflist.rename(shop.conflist.with_name("20-mine.conflist"))
        theirs.write_text(theirs.read_text().replace('"shop"', '"mine"'))
        assert len(findings(shop)) == 1
        shop.brought_up("--network", "mine")
        assert findings(shop) == []
        theirs.unlink()
        assert [it["subject"] for it in findings(shop)] == [str(theirs)]


class TestRestored:
    def test_what_somebody_changed_by_hand_is_restored_to_the_letter(self, shop: Machine) -> None:
        text = edited(shop, cooldown=7, mtu=1400)
        shop.conflist.unlink()
        assert shop.brought_up()["network"]["change"] == "restored"
        assert shop.conflist.read_text() == text

    def test_it_stays_theirs_once_it_is_restored(self, shop: Machine) -> None:
        text = edited(shop, cooldown=7, capabilities={"ips": True})
        shop.conflist.unlink()
        shop.brought_up()
        assert shop.brought_up()["network"]["change"] == "kept"
        assert shop.up("--mtu", "1300").status == 3
        assert shop.conflist.read_text() == text
        done = shop.run("down", "--purge", "--yes", "--json").document
        assert str(shop.conflist) in [it["what"] for it in done["kept"]]
        assert shop.conflist.read_text() == text

    def test_what_up_wrote_itself_stays_its_own(self, shop: Machine) -> None:
        shutil.rmtree(shop.cli.networks)
        shop.brought_up()
        assert shop.brought_up("--mtu", "1300")["network"]["change"] == "replaced"
        assert shop.run("down", "--purge", "--yes").status == 0
        assert not shop.conflist.exists()

    def test_another_name_is_said(self, shop: Machine) -> None:
        shop.conflist.unlink()
        done = shop.brought_up("--network", "other")["network"]
        assert (done["change"], done["name"]) == ("renamed", "other")

    def test_options_win_over_it_and_the_rest_stays(self, shop: Machine) -> None:
        edited(shop, cooldown=7)
        shop.conflist.unlink()
        done = shop.brought_up("--mtu", "1300")["network"]
        assert (done["change"], done["mtu"], done["name"]) == ("restored", 1300, "shop")
        plugin = document(shop.conflist)["plugins"][0]
        assert (plugin["cooldown"], plugin["ipMasq"]) == (7, False)

    def test_a_renamed_file_is_restored_where_it_was(self, shop: Machine) -> None:
        renamed = shop.conflist.rename(shop.conflist.with_name("05-mine.conflist"))
        store = shop.node.state_dir / "networks.json"
        assert eventually(lambda: str(renamed) in [it["path"] for it in document(store)["networks"]])
        content = renamed.read_text()
        renamed.unlink()
        assert shop.brought_up()["network"]["path"] == str(renamed)
        assert renamed.read_text() == content

    def test_a_broken_file_is_replaced_by_the_last_one_that_worked(self, shop: Machine) -> None:
        before = shop.conflist.read_text()
        shop.conflist.write_text("{")
        assert shop.run("status").status == 1
        assert shop.brought_up("--force")["network"]["change"] == "restored"
        assert shop.conflist.read_text() == before


class TestKept:
    def test_the_agent_restores_it_by_itself_and_says_so(self, shop: Machine) -> None:
        assert shop.brought_up("--keep-network")["network"]["keep"] is True
        before = shop.conflist.read_text()
        shutil.rmtree(shop.cli.networks)
        assert eventually(shop.conflist.exists)
        assert shop.conflist.read_text() == before
        assert shop.conflist.stat().st_mode & 0o777 == 0o644
        assert eventually(lambda: shop.node.counted("restored") == 1)
        (event,) = shop.told("events", "--verb", "RESTORE", "--json").stdout.splitlines()
        assert json.loads(event)["network"] == "shop"
        assert findings(shop) == []

    def test_it_lasts_until_it_is_switched_off(self, shop: Machine) -> None:
        shop.brought_up("--keep-network")
        shop.run("down")
        assert shop.brought_up()["network"]["keep"] is True
        shop.conflist.unlink()
        assert eventually(shop.conflist.exists)
        assert shop.brought_up("--no-keep-network")["network"]["keep"] is False
        shop.conflist.unlink()
        await_ticks(shop)
        assert not shop.conflist.exists()

    def test_a_file_in_its_place_is_never_replaced(self, shop: Machine) -> None:
        shop.brought_up("--keep-network")
        shop.conflist.write_text(OTHER)
        await_ticks(shop)
        assert shop.node.counted("restored") == 0
        assert shop.conflist.read_text() == OTHER

    def test_what_cannot_be_written_stays_an_error_until_it_can_be(self, shop: Machine) -> None:
        shop.brought_up("--keep-network")
        shutil.rmtree(shop.cli.networks)
        shop.cli.networks.write_text("a file where the directory was")
        await_ticks(shop)
        assert shop.run("status").status == 1
        shop.cli.networks.unlink()
        assert eventually(shop.conflist.exists)

    def test_a_purge_removes_what_the_agent_restored(self, shop: Machine) -> None:
        edited(shop, cooldown=7)
        shop.brought_up("--keep-network")
        shop.conflist.unlink()
        assert eventually(shop.conflist.exists)
        done = shop.run("down", "--purge", "--yes", "--json").document
        assert str(shop.conflist) in done["removed"]
        assert not shop.conflist.exists()
        assert not shop.node.state_dir.exists()


class TestCutOff:
    # The plugin is written first, and with it the first two steps.
    @pytest.mark.parametrize("step", ["install.intended:kill:2", "install.written:kill:2"])
    @pytest.mark.parametrize("is_first", [True, False], ids=["first", "changing"])
    def test_a_purge_knows_the_file_of_an_up_that_was_killed(
        self, bare: Machine, step: str, is_first: bool
    ) -> None:
        if not is_first:
            bare.brought_up()
        cut = bare.up("--pool", "10.20.0.0/24", env={"NETLOOM_FAILPOINT": step})
        assert cut.status == -9
        done = bare.run("down", "--purge", "--yes", "--json").document
        assert (done["kept"], bare.conflist.exists()) == ([], False)


def test_a_new_name_under_attachments_is_warned_of(machine: Machine) -> None:
    machine.attach(machine.node.container())
    outcome = machine.up("--network", "other", "--force", "--json")
    (warning,) = outcome.document["warnings"]
    assert "1 attachment" in warning
    assert "netloom up --network netloom --force" in warning
