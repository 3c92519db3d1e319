"""`netloom bundle`: all that helps is in it, nothing that is secret, and no more than was asked for."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import stat
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ..fixtures.cli import NETLOOM, Cli, Outcome
from ..fixtures.machine import Machine
from ..fixtures.node import PLUGIN

pytestmark = pytest.mark.kernel

_PATIENCE = 120

KEY = "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd28="
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJuZXRsb29tIn0.dGhpcyBpcyBubyBzaWduYXR1cmU"


class Archive(NamedTuple):
    outcome: Outcome
    path: Path

    @property
    def members(self) -> Mapping[str, bytes]:
        with tarfile.open(self.path) as archive:
            found = {}
            for member in archive.getmembers():
                file = archive.extractfile(member)
                assert file is not None
                found[member.name.removeprefix("netloom-bundle/")] = file.read()
        return found

    @property
    def parts(self) -> dict[str, dict[str, Any]]:
        listed = json.loads(self.members["MANIFEST.json"])["parts"]
        return {part["name"]: part for part in listed}

    def document(self, name: str) -> Any:
        return json.loads(self.members[name])

    def rows(self, name: str) -> list[Any]:
        return [json.loads(line) for line in self.members[name].splitlines()]

    @property
    def errors(self) -> dict[str, str]:
        return {name: part["error"] for name, part in self.parts.items() if part["error"]}

    def has(self, *words: str) -> list[str]:
        """Which of these are in it, anywhere."""
        whole = b"\n".join([name.encode() + b"\n" + content for name, content in self.members.items()])
        return [word for word in words if word.encode() in whole or word in self.outcome.stdout]


def bundled(machine: Machine, *words: str, prefix: tuple[str, ...] = (), **env: str) -> Archive:
    path = machine.cli.directory / "report.tar.gz"
    done = subprocess.run(
        [*machine.node.command(), *prefix, NETLOOM, "bundle", str(path), "--force",
         "--json", "--cache-dir", str(machine.cli.cache), *words],
        env={**machine.cli.env, **env},
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr
    return Archive(Outcome(done.returncode, done.stdout, done.stderr), path)


@pytest.fixture
def attached(machine: Machine) -> Machine:
    """A node with a container on it, of a pod that has a name."""
    args = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=till-7;IgnoreUnknown=1"
    machine.attach(machine.node.container(), CNI_ARGS=args)
    return machine


# What is in it.


def test_all_that_helps_is_in_it(attached: Machine) -> None:
    archive = bundled(attached)

    if archive.errors.keys() == {"metrics.txt"}:  # the agent had too much else to do
        archive = bundled(attached)
    assert archive.errors == {}
    assert all(part["size"] == len(archive.members[name]) for name, part in archive.parts.items())
    assert archive.document("versions.json")["kernel"] == os.uname().release
    assert archive.document("versions.json")["libnftables"].count("libnftables.so") == 1
    (listed,) = archive.document("node/ls.json")
    assert listed["workload"]["pod"] == "till-7"
    assert archive.document("node/status.json")["agent"]["process"] == attached.agent
    assert "features" in archive.document("node/doctor.json")
    assert {"node/pools.json", "node/ports.json", "node/journal-verify.json"} <= set(archive.members)
    network = archive.document("networks/10-netloom.conflist")
    assert network["plugins"][0]["pools"][0]["cidr"] == "10.78.0.0/16"
    assert archive.document("journal/summary.json")["attachments"] == {"committed": 1}
    (row,) = archive.rows("journal/attachments.jsonl")
    assert row["pod"] == "till-7"
    assert {it["type"] for it in row["plan"]["objects"]} >= {"veth", "nft-element", "route"}
    # Of an element of the firewall, the key is no secret.
    assert all(it["key"] for it in row["plan"]["objects"] if it["type"] == "nft-element")
    assert {it["ip"] for it in archive.rows("journal/addresses.jsonl")} == set(listed["addresses"])
    assert "ADD" in {it["verb"] for it in archive.rows("journal/operations.jsonl")}
    assert listed["hostLink"] in {it["name"] for it in archive.rows("kernel/links.jsonl")}
    assert "192.0.2.1" in {it["address"] for it in archive.rows("kernel/addresses.jsonl")}
    assert listed["addresses"][0] in {it["destination"] for it in archive.rows("kernel/routes.jsonl")}
    assert archive.rows("kernel/rules.jsonl")
    assert listed["mac"] in {it["mac"] for it in archive.rows("kernel/neighbours.jsonl")}
    assert listed["hostLink"].encode() in archive.members["kernel/nft-netloom.txt"]
    assert archive.document("kernel/sysctl.json")["net.ipv4.ip_forward"] == "1"
    assert archive.members["log/agent.log"]
    assert b"netloom_" in archive.members["metrics.txt"]


def test_it_is_for_its_owner_alone_and_names_what_is_in_it(attached: Machine) -> None:
    archive = bundled(attached)

    said = archive.outcome.document
    assert said["path"] == str(archive.path)
    assert said["size"] == archive.path.stat().st_size
    assert {part["name"] for part in said["manifest"]["parts"]} == set(archive.parts)
    assert stat.S_IMODE(archive.path.stat().st_mode) == 0o600


def test_a_person_sees_what_is_in_it_and_where(machine: Machine) -> None:
    path = str(machine.cli.directory / "shown.tar.gz")

    outcome = machine.on_a_terminal("bundle", path)

    assert outcome.status == 0
    assert outcome.stdout.startswith("NAME ")
    assert "node/status.json" in outcome.stdout
    assert f"written: {path}" in outcome.stdout


def test_rules_of_others_are_named_and_not_shown(machine: Machine) -> None:
    chain = "type filter hook forward priority 3; ip saddr 198.51.100.7 drop;"
    machine.node.inside("nft", f"table inet theirs {{ chain gate {{ {chain} }}; }}")

    archive = bundled(machine)

    (chain,) = archive.document("kernel/nft-others.json")["chains"]
    assert (chain["table"], chain["name"], chain["hook"], chain["priority"]) == (
        "theirs",
        "gate",
        "forward",
        3,
    )
    assert archive.has("198.51.100.7") == []


# What is not in it.


def test_no_secret_is_in_any_byte_of_it(attached: Machine) -> None:
    """Wherever it stands: under a telling name, and anywhere else where the same value turns up."""
    secrets = [
        "conf-s3cret-1", "conf-s3cret-2", "conf-s3cret-3", "args-s3cret-4", "args-s3cret-5", "cni-s3cret-6",
        "log-s3cret-7", "journal-s3cret-8", "broken-s3cret-9", "strange-s3cret-10", "log-s3cret-11", KEY,
        TOKEN,
    ]  # fmt: skip
    attached.cli.network(
        "vault",
        {
            "type": "vault",
            "apiToken": secrets[0],
            "nested": [{"privateKey": secrets[1]}, {"credentials": {"user": secrets[2]}}],
            "args": {"cni": {"password": secrets[3], "ips": ["10.1.2.3"]}, "other": {"plain": secrets[4]}},
        },
    )
    (attached.cli.networks / "99-broken.conflist").write_text(
        f'{{"name": "broken", "plugins": [{{"password": "{secrets[8]}", "type": "x"'
    )
    (attached.cli.networks / "kubeconfig").write_text(f"users:\n- token: {secrets[9]}\n")
    container = attached.node.container()
    attached.attach(container, CNI_ARGS=f"FLAVOUR={secrets[5]};IgnoreUnknown=1;K8S_POD_NAME=till-8")
    with open(attached.node.state_dir / "agent.log", "a") as log:
        log.write(f"WARNING somebody said {secrets[5]} and {secrets[0]}, token={secrets[6]}\n")
        log.write(f"private key {KEY} of wg0, Authorization: Bearer {TOKEN}\n")
        log.write(f"CNI_ARGS=K8S_POD_NAME=till-8;OTHER={secrets[10]} came\n")
        log.write("-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n")
    attached.end_agent()
    with sqlite3.connect(attached.journal) as journal:
        journal.execute(
            "UPDATE operation SET error = ?", (f'said {{"clientSecret": "{secrets[7]}"}}, and {secrets[1]}',)
        )
    journal.close()

    archive = bundled(attached)

    assert archive.has(*secrets, "MIIEowIBAAKCAQEA") == []
    # What is no secret is still there.
    assert set(archive.has("till-8", "10.1.2.3", "vault", "somebody said")) == {
        "till-8", "10.1.2.3", "vault", "somebody said",
    }  # fmt: skip
    assert "<removed>" in archive.members["networks/01.conflist"].decode()
    assert {"name": "kubeconfig"}.items() <= archive.document("networks/listing.json")[-1].items()


def test_of_a_node_without_secrets_nothing_is_removed(attached: Machine) -> None:
    assert attached.cni("add", "nowhere").status != 0

    archive = bundled(attached)

    assert archive.has("<removed>") == []


def test_no_form_of_a_secret_that_is_common_is_in_it(attached: Machine) -> None:
    """Also of one that somebody else's program has logged, and in a file that is cut."""
    secrets = [f"S3cret.{number:02}.Here" for number in range(18)]
    left = iter(secrets)
    plugin = {
        "type": "theirs",
        "mtu": 1432,
        "env": [{"name": "DB_PASSWORD", "value": next(left)}, f"API_KEY={next(left)}"],
        "command": ["x", "--password", next(left), f"--token={next(left)}"],
        "args": ["--token", next(left)],
        "run": f"x --token={next(left)}",
        "urls": [
            f"redis://:{next(left)}@h",
            f"https://{next(left)}@github.com/x",
            f"http://u:p@{next(left)}@h/",
        ],
        "headers": [f"Authorization: Token {next(left)}"],
        "opts": f"user=x,password=a,{next(left)}",
        **{
            name: next(left)
            for name in ("accesskey", "encryptionkey", "privkey", "userpass", "sshpass", "passcode", "pin")
        },
    }
    assert next(left, None) is None
    tokens = ["ghp_A1b2C3d4E5f6G7h8I9j0K1l2", "AKIAIOSFODNN7EXAMPLE", "xoxb-271828-abc", KEY, TOKEN]
    attached.cli.network("theirs", {**plugin, "notes": tokens})
    (attached.cli.networks / "98-cut.conflist").write_text(json.dumps({"name": "cut", **plugin})[:-1])
    with open(attached.node.state_dir / "agent.log", "a") as log:
        log.writelines(f"it said {secret}\n" for secret in (*secrets, *tokens))

    archive = bundled(attached)

    assert archive.has(*secrets, *tokens) == []
    network = archive.document("networks/01.conflist")
    assert (network["name"], network["plugins"][0]["type"], network["plugins"][0]["mtu"]) == (
        "theirs",
        "theirs",
        1432,
    )


def test_a_secret_of_a_queued_del_is_not_in_it(attached: Machine) -> None:
    container = attached.node.container()
    attached.attach(container)
    attached.end_agent()
    gone = attached.cni("del", container, CNI_ARGS="FLAVOUR=queued-s3cret;IgnoreUnknown=1")
    assert gone.status == 0
    with open(attached.node.state_dir / "agent.log", "a") as log:
        log.write("WARNING queued-s3cret was seen\n")

    archive = bundled(attached)

    assert archive.has("queued-s3cret") == []


def test_anonymous_names_are_the_same_for_the_same(attached: Machine) -> None:
    attached.cli.network(
        "backoffice", {"type": "netloom", "pools": [{"cidr": "10.99.0.0/24"}]}, version="1.0.0"
    )
    (listed,) = attached.listed()
    known = [*listed["addresses"], listed["mac"], "till-7", "shop", "backoffice", "192.0.2.1", "10.99.0.0"]
    known += [listed["containerID"], os.path.basename(listed["netns"])]
    plain = bundled(attached)
    assert plain.has(*listed["addresses"], listed["mac"], "till-7", "backoffice")

    archive = bundled(attached, "--anonymous")

    assert archive.has(*known) == []
    assert archive.document("MANIFEST.json")["host"] == "node"
    (row,) = archive.rows("journal/attachments.jsonl")
    (other,) = archive.document("node/ls.json")
    assert row["pod"] == other["workload"]["pod"] != ""
    assert row["pod"].startswith("pod-")
    assert set(other["addresses"]) == {it["ip"] for it in archive.rows("journal/addresses.jsonl")}
    assert other["addresses"][0] in archive.members["kernel/nft-netloom.txt"].decode()
    # What every machine has tells nothing, and helps.
    assert set(archive.has("127.0.0.1", "169.254.1.1", "fe80::1")) == {"127.0.0.1", "169.254.1.1", "fe80::1"}
    again = bundled(attached, "--anonymous")
    assert again.rows("journal/attachments.jsonl")[0]["pod"] != row["pod"], "somebody could try all names"


def test_no_name_of_what_arrives_meanwhile_is_in_an_anonymous_one(attached: Machine, tmp_path: Path) -> None:
    """Programs that are asked attach a container each: one at the beginning, one behind the journal."""
    containers = [attached.node.container() for _ in range(2)]
    config = tmp_path / "config"
    config.write_bytes(attached.node.config("netloom"))
    programs = zip(("containerd", "journalctl"), ("early-7", "late-7"), containers, strict=True)
    for program, pod, container in programs:
        script = tmp_path / program
        args = f"K8S_POD_NAMESPACE=of-{pod};K8S_POD_NAME={pod};IgnoreUnknown=1"
        variables = attached.node.cni_environment("ADD", container, CNI_ARGS=args)
        # By the plugin itself: a program that is asked for its version has three seconds.
        command = shlex.join(["env", *map("=".join, variables.items()), str(PLUGIN)])
        script.write_text(f"#!/bin/sh\n{command} <{config} >/dev/null\necho {pod} is there\n")
        script.chmod(0o755)
    failed = attached.cni("add", "nowhere", CNI_ARGS="K8S_POD_NAMESPACE=of-last-7;K8S_POD_NAME=last-7")
    assert failed.status != 0

    archive = bundled(attached, "--anonymous", PATH=f"{tmp_path}:{attached.cli.env['PATH']}")

    listed = attached.listed()
    assert {it["workload"]["pod"] for it in listed} == {"till-7", "early-7", "late-7"}
    names = [it["containerID"] for it in listed] + [it["netns"] for it in listed] + containers
    assert archive.has("till-7", "early-7", "late-7", "last-7", "shop", *names) == []
    assert b"pod-" in archive.members["log/systemd.log"]
    assert "is there" in archive.document("versions.json")["programs"]["containerd"]


def test_names_that_only_the_log_knows_are_not_in_an_anonymous_one(attached: Machine) -> None:
    """Their operations were forgotten long ago."""
    with open(attached.node.state_dir / "agent.log", "a") as log:
        log.write("WARNING put back missing objects of acme-net/old-container/eth0: a route\n")
        log.write("INFO released [db/x7/eth0] trace=1\n")
        log.write('{"message": "x", "network": "acme-two", "container_id": "older-container"}\n')

    archive = bundled(attached, "--anonymous")

    assert archive.has("acme", "old-container", "older-container", "db/", "/x7") == []
    assert archive.has("put back missing objects") != []


# How large it is.


def test_it_is_no_larger_than_was_asked_for_and_says_what_was_cut(attached: Machine) -> None:
    log = attached.node.state_dir / "agent.log"
    lines = [f"{number} {os.urandom(40).hex()}" for number in range(30000)]
    log.write_text("\n".join(lines) + "\n")

    archive = bundled(attached, "--max-size", "100k")

    assert archive.path.stat().st_size <= 100 << 10
    part = archive.parts["log/agent.log"]
    assert "of" in part["cut"]
    kept = archive.members["log/agent.log"].decode().splitlines()
    assert kept, "something of it is there"
    assert kept[-1] == lines[-1], "the end of a log is what counts"
    assert kept[0] in lines, "it is cut between lines"
    assert archive.document("node/status.json"), "what matters most is whole"


def test_as_much_is_in_it_as_there_is_room_for(attached: Machine) -> None:
    small, large = bundled(attached, "--max-size", "32k"), bundled(attached)

    assert small.path.stat().st_size <= 32 << 10
    assert set(small.parts) == set(large.parts)


def test_of_a_long_log_the_last_megabyte_is_taken(machine: Machine) -> None:
    for name, word in (("agent.log", "newest"), ("agent.log.1", "older")):
        (machine.node.state_dir / name).write_text(f"{'x' * 99}\n" * 30000 + f"{word}\n")

    archive = bundled(machine)

    for name, word in (("log/agent.log", "newest"), ("log/agent.log.1", "older")):
        assert len(archive.members[name]) <= 1 << 20
        assert archive.members[name].decode().splitlines()[-1] == word
        assert archive.parts[name]["cut"]


def test_the_last_operations_are_taken(attached: Machine) -> None:
    for _ in range(3):
        container = attached.node.container()
        attached.attach(container)
        attached.cni("del", container)

    archive = bundled(attached, "--operations", "2")

    assert len(archive.rows("journal/operations.jsonl")) == 2
    assert archive.rows("journal/operations.jsonl")[0]["verb"] == "DEL"
    assert archive.parts["journal/operations.jsonl"]["cut"].startswith("2 of ")


# What is broken does not matter.


def test_a_machine_that_is_no_node_has_one(bare: Machine) -> None:
    archive = bundled(bare)

    assert archive.document("versions.json")
    assert archive.rows("kernel/links.jsonl")
    assert {"journal/summary.json", "log/agent.log", "metrics.txt"} <= set(archive.errors)


def test_a_node_without_an_agent_has_one(attached: Machine) -> None:
    attached.end_agent()

    archive = bundled(attached)

    assert archive.document("node/status.json")["agent"] is None
    assert archive.document("journal/summary.json")["attachments"] == {"committed": 1}
    assert set(archive.errors) == {"metrics.txt"}


def test_a_broken_journal_hides_nothing_else(attached: Machine) -> None:
    attached.end_agent()
    attached.journal.write_bytes(b"this is no database" * 1000)
    for more in ("-wal", "-shm"):
        Path(f"{attached.journal}{more}").unlink(missing_ok=True)

    archive = bundled(attached)

    assert "journal/" in archive.errors
    assert archive.document("networks/10-netloom.conflist")
    assert archive.rows("kernel/links.jsonl")
    assert {it["name"] for it in archive.document("journal/files.json")} >= {"journal.db", "agent.log"}


def test_a_journal_of_a_later_netloom_is_extracted_all_the_same(attached: Machine) -> None:
    attached.end_agent()
    with sqlite3.connect(attached.journal) as journal:
        journal.execute("ALTER TABLE attachment ADD COLUMN flavour TEXT DEFAULT 'vanilla'")
        journal.execute("PRAGMA user_version = 900")
    journal.close()

    archive = bundled(attached)

    assert archive.document("journal/summary.json")["schema"] == 900
    assert [it["flavour"] for it in archive.rows("journal/attachments.jsonl")] == ["vanilla"]


def test_a_configuration_that_cannot_be_read_is_noted(machine: Machine) -> None:
    os.mkfifo(machine.cli.networks / "50-pipe.conflist")
    (machine.cli.networks / "60-broken.conflist").write_text("{no json")
    (machine.cli.networks / "70-nowhere.conflist").symlink_to("/nowhere")

    archive = bundled(machine)

    noted = {"networks/50-pipe.conflist", "networks/60-broken.conflist", "networks/70-nowhere.conflist"}
    assert noted <= set(archive.errors)
    assert archive.members["networks/60-broken.conflist"] == b"{no json"
    assert archive.document("networks/10-netloom.conflist")


def test_a_name_that_is_no_text_is_written_as_escapes(machine: Machine) -> None:
    directory = os.fsencode(machine.cli.networks)
    network = {"cniVersion": "1.0.0", "name": "unheard-of", "plugins": [{"type": "x"}]}
    with open(directory + b"/30-\xff.conflist", "w") as file:
        json.dump(network, file)

    archive = bundled(machine)

    assert archive.document("networks/30-\\udcff.conflist") == network
    assert "30-\\udcff.conflist" in {it["name"] for it in archive.document("networks/listing.json")}
    assert "\\udcff" in machine.on_a_terminal("bundle", str(archive.path), "--force").stdout
    assert bundled(machine, "--anonymous").has("unheard-of") == []


def test_a_configuration_that_is_nested_too_deep_hides_nothing_else(machine: Machine) -> None:
    (machine.cli.networks / "40-deep.conflist").write_text("[" * 900 + '{"token": "s3cret-deep"}' + "]" * 900)

    archive = bundled(machine)

    assert "networks/40-deep.conflist" in archive.errors
    assert archive.has("s3cret-deep") == []
    assert archive.document("networks/10-netloom.conflist")


@pytest.mark.parametrize("words", [(), ("--anonymous",)])
def test_a_fifo_in_the_journals_place_is_told_and_not_waited_for(
    attached: Machine, words: tuple[str, ...]
) -> None:
    attached.end_agent()
    attached.journal.unlink()
    os.mkfifo(attached.journal)

    archive = bundled(attached, *words)

    assert "FIFO" in archive.errors["journal/"]
    assert archive.rows("kernel/links.jsonl")
    assert "journal.db" in {it["name"] for it in archive.document("journal/files.json")}


def test_an_ordinary_user_gets_what_there_is_for_one(
    attached: Machine, bound_by_permissions: tuple[str, ...]
) -> None:
    """Without the rights of root over files, it tells which could not be read."""
    os.chmod(attached.cli.networks / "10-netloom.conflist", 0)

    archive = bundled(attached, prefix=bound_by_permissions)

    assert "Permission denied" in archive.errors["networks/10-netloom.conflist"]
    assert archive.rows("kernel/links.jsonl")


def test_without_time_there_is_an_archive_that_says_so(machine: Machine) -> None:
    archive = bundled(machine, "--timeout", "0.01")

    assert not archive.outcome.document["manifest"]["in_time"]
    assert "no time" in archive.errors["kernel/links.jsonl"]


def test_what_hangs_is_left_behind(machine: Machine) -> None:
    """Something takes calls in the agent's place, and never answers."""
    machine.end_agent()
    machine.node.socket.unlink()
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(machine.node.socket))
        silent.listen(8)
        archive = bundled(machine, "--timeout", "60")

    assert archive.document("node/status.json")["agent"] is None
    assert archive.rows("kernel/links.jsonl")


# Its file.


def test_a_file_that_is_there_is_not_replaced_unless_that_is_asked_for(machine: Machine) -> None:
    path = machine.cli.directory / "mine.tar.gz"
    path.write_text("mine")

    outcome = machine.run("bundle", str(path), "--json")

    assert outcome.status == 1
    assert outcome.error["code"] == "bundle-exists"
    assert path.read_text() == "mine"
    assert machine.run("bundle", str(path), "--force").status == 0
    assert tarfile.is_tarfile(path)


def _made_fifo(path: Path) -> None:
    os.mkfifo(path)


def _made_device(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))


def _made_link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("theirs")
    path.symlink_to("elsewhere")


def _made_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(
    ("made", "what"),
    [
        (_made_fifo, "a FIFO"),
        (_made_device, "a device"),
        (_made_link, "a symbolic link"),
        (_made_link_to_nothing, "a symbolic link"),
    ],
)
def test_what_is_no_file_is_never_replaced(
    cli: Cli, made: Callable[[Path], None], what: str, force: tuple[str, ...]
) -> None:
    path = cli.directory / "report.tar.gz"
    made(path)
    before = os.lstat(path)

    outcome = cli.run("bundle", str(path), *force, "--json")

    assert outcome.status == 1
    assert outcome.error["code"] == "bundle-exists"
    assert what in outcome.error["error"]
    after = os.lstat(path)
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert not (cli.directory / "nothing").exists()


def test_the_journal_is_not_replaced_by_an_archive(attached: Machine) -> None:
    before = attached.journal.stat().st_ino

    outcome = attached.run("bundle", str(attached.journal), "--force")

    assert outcome.status == 2
    assert attached.journal.stat().st_ino == before


@pytest.mark.parametrize(
    "words",
    [
        ("--operations", "00000000199999999999999999999999"),
        ("--operations", "0"),
        ("--operations", "1000001"),
        ("--operations", "1e3"),
        ("--max-size", "9" * 5000),
    ],
)
def test_a_number_that_cannot_be_is_refused(cli: Cli, words: tuple[str, ...]) -> None:
    outcome = cli.run("bundle", str(cli.directory / "report.tar.gz"), *words)

    assert outcome.status == 2
    assert len(outcome.stderr) < 1000
    assert not (cli.directory / "report.tar.gz").exists()


@pytest.mark.parametrize("where", ["nowhere/report.tar.gz", "."])
def test_a_place_that_cannot_be_is_refused_at_once(machine: Machine, where: str) -> None:
    outcome = machine.run("bundle", str(machine.cli.directory / where), "--force", "--json")

    assert outcome.status == 1
    assert outcome.error["code"] == "bundle-unwritable"


def test_two_at_once_write_two(machine: Machine) -> None:
    command = [*machine.node.command(), NETLOOM, "bundle", "--json", "--cache-dir", str(machine.cli.cache)]
    processes = [
        subprocess.Popen(command, env=machine.cli.env, cwd=machine.cli.directory, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    paths = {json.loads(process.communicate(timeout=_PATIENCE)[0])["path"] for process in processes}

    assert len(paths) == 3
    assert all(tarfile.is_tarfile(path) for path in paths)
    assert all(Path(path).name.startswith(f"netloom-{os.uname().nodename}-") for path in paths)
    assert not [name for name in os.listdir(machine.cli.directory) if name.startswith(".")]


def test_nothing_is_left_of_one_that_does_not_fit_on_the_disk(cli: Cli, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(small)], check=True)
    try:
        (small / "full").write_bytes(bytes(4096))
        outcome = cli.run("bundle", str(small / "report.tar.gz"), "--json")
        assert outcome.status == 1
        assert outcome.error["code"] == "bundle-unwritable"
        assert os.listdir(small) == ["full"]
    finally:
        subprocess.run(["umount", str(small)], check=True)
