"""The plugin side: in which order a request is judged, with which codes, and what is printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from netloom.cni import InvalidEnvironment, LegacyResult, Result
from netloom.cni.args import load_args, parse_args
from netloom.cni.plugin import IP, Plugin, Request
from netloom.cni.versions import ALL, starting_from

from ..doubles import install_noop, python_plugin

CONFIG = {"cniVersion": "1.1.0", "name": "net", "type": "p"}
ENV = {
    "CNI_CONTAINERID": "c1",
    "CNI_NETNS": "/run/netns/nowhere",
    "CNI_IFNAME": "eth0",
    "CNI_PATH": "/nowhere",
}

# Answers ADD with what its config says, notes each call in a file, and chats on stdout.
SOURCE = """
import os, sys
from netloom.cni.plugin import CNIError, IP, Plugin, Result

plugin = Plugin("p", about="CNI p plugin v1", supported={supported!r})

def note(request):
    print("chatter on stdout")
    os.system("echo chatter of a helper")
    with open({calls!r}, "a") as calls:
        calls.write(request.command + "\\n")
    if request.config.get("raise") == "ours":
        raise CNIError("no more bridges", "try the ferry", code=105)
    if request.config.get("raise") == "other":
        raise ZeroDivisionError("oops")
    return Result(ips=(IP("10.1.2.3/24", interface=None),)) if request.command == "ADD" else None

for verb in (plugin.add, plugin.check, plugin.delete, plugin.gc, plugin.status):
    verb(note)
plugin.main()
"""


class Answer:
    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.status = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> tuple[int, str]:
        assert self.status == 1
        return self.json["code"], self.json["msg"]


class Driven:
    """A plugin's executable, called as a runtime would."""

    def __init__(self, path: Path, calls: Path) -> None:
        self.path = path
        self._calls = calls

    def __call__(self, command: str | None, config: object = CONFIG, **env: str | None) -> Answer:
        stdin = config if isinstance(config, bytes) else json.dumps(config).encode()
        environ = {**ENV, "CNI_COMMAND": command, **env}
        merged = {**os.environ, **{key: value for key, value in environ.items() if value is not None}}
        return Answer(subprocess.run([self.path], input=stdin, env=merged, capture_output=True, check=False))

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().split() if self._calls.exists() else []


def make(directory: Path, supported: tuple[str, ...] = ALL) -> Driven:
    calls = directory / "calls"
    source = SOURCE.format(supported=supported, calls=str(calls))
    return Driven(python_plugin(directory / "p", source), calls)


@pytest.fixture
def plugin(tmp_path: Path) -> Driven:
    return make(tmp_path)


@pytest.mark.unit
def test_s1_without_a_command_it_says_what_it_is(plugin: Driven) -> None:
    answer = plugin(None, b"")
    assert (answer.status, answer.stdout) == (0, b"")
    assert answer.stderr == f"CNI p plugin v1\nCNI protocol versions supported: {', '.join(ALL)}\n"


@pytest.mark.unit
def test_s2_missing_variables_are_named_together(plugin: Driven) -> None:
    answer = plugin("ADD", CNI_NETNS=None, CNI_IFNAME="")
    assert answer.error == (4, "required env variables [CNI_NETNS,CNI_IFNAME] missing")
    assert answer.json["cniVersion"] == "1.1.0"
    assert plugin.calls == []


@pytest.mark.unit
@pytest.mark.parametrize(
    ("command", "missing", "verdict"),
    [
        ("ADD", "CNI_CONTAINERID", "[CNI_CONTAINERID]"),
        ("CHECK", "CNI_PATH", "[CNI_PATH]"),
        ("CHECK", "CNI_NETNS", "[CNI_NETNS]"),
        ("DEL", "CNI_IFNAME", "[CNI_IFNAME]"),
        ("GC", "CNI_PATH", "[CNI_PATH]"),
        ("STATUS", "CNI_PATH", "[CNI_PATH]"),
        ("DEL", "CNI_NETNS", None),
        ("GC", "CNI_CONTAINERID", None),
        ("STATUS", "CNI_IFNAME", None),
        ("VERSION", "CNI_PATH", None),
    ],
)
def test_each_verb_needs_its_own_variables(
    plugin: Driven, command: str, missing: str, verdict: str | None
) -> None:
    answer = plugin(command, **{missing: None})
    if verdict is None:
        assert answer.status == 0
    else:
        assert answer.error == (4, f"required env variables {verdict} missing")


@pytest.mark.unit
@pytest.mark.parametrize(
    ("variable", "value", "code", "message"),
    [
        ("CNI_CONTAINERID", "some-%%container-id", 4, "invalid characters in containerID"),
        ("CNI_CONTAINERID", "../../etc", 4, "invalid characters in containerID"),
        ("CNI_IFNAME", "sixteen-letters!", 4, "interface name is too long"),
        ("CNI_IFNAME", "..", 4, "interface name is . or .."),
        ("CNI_IFNAME", "a:b", 4, "interface name contains / or : or whitespace characters"),
    ],
)
def test_a_bad_variable_is_refused_before_the_config_is_looked_at(
    plugin: Driven, variable: str, value: str, code: int, message: str
) -> None:
    assert plugin("ADD", b"{", **{variable: value}).error == (code, message)
    assert plugin.calls == []


@pytest.mark.unit
def test_s3_version_is_told_with_a_closed_stdin(plugin: Driven) -> None:
    done = subprocess.run(
        f"CNI_COMMAND=VERSION {plugin.path} <&-", shell=True, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == {"cniVersion": "1.1.0", "supportedVersions": list(ALL)}


@pytest.mark.unit
def test_s4_an_unknown_command_is_code_4_after_the_config(plugin: Driven) -> None:
    assert plugin("NOPE").error == (4, "unknown CNI_COMMAND: NOPE")
    assert plugin("NOPE", b"{").error[0] == 6


@pytest.mark.unit
@pytest.mark.parametrize(
    ("stdin", "code", "message"),
    [
        (b"{", 6, "error unmarshall network config: "),
        (b"", 6, "error unmarshall network config: unexpected end of JSON input"),
        (b"{}", 7, "missing network name"),
        (b'{"name":"","cniVersion":"1.1.0"}', 7, "missing network name"),
        (b'{"name":"a/b","cniVersion":"1.1.0"}', 7, "invalid characters found in network name"),
        (b'{"name":7}', 6, "error unmarshall network config: name is a number"),
        (b'{"name":"n","cniVersion":1}', 6, "error unmarshall network config: cniVersion is a number"),
        (b'{"name":"\xff"}', 6, "error unmarshall network config: not UTF-8"),
        (b"[" * 100_000, 6, "error unmarshall network config: nested too deeply"),
        (b" " * (100 << 20), 6, "the network config on stdin is larger than 16 MiB"),
        (b'{"name":"n","cniVersion":"1.x"}', 1, "incompatible CNI versions"),
    ],
    ids=lambda value: value[:20] if isinstance(value, bytes) else None,
)
def test_s5_a_bad_config_has_its_code_and_one_sentence(
    plugin: Driven, stdin: bytes, code: int, message: str
) -> None:
    answer = plugin("ADD", stdin)
    assert answer.error[0] == code
    assert answer.error[1].startswith(message)
    assert len(answer.stdout) < 2000
    assert plugin.calls == []


@pytest.mark.unit
def test_s6_a_config_of_a_version_that_the_plugin_lacks_is_refused(tmp_path: Path) -> None:
    plugin = make(tmp_path, supported=("0.3.1", "0.4.0", "1.0.0", "1.1.0"))
    answer = plugin("ADD", CONFIG | {"cniVersion": "0.2.0"})
    assert answer.error == (1, "incompatible CNI versions")
    assert answer.json["details"] == ('config is "0.2.0", plugin supports ["0.3.1" "0.4.0" "1.0.0" "1.1.0"]')
    assert answer.json["cniVersion"] == "0.2.0"
    undeclared = {key: value for key, value in CONFIG.items() if key != "cniVersion"}
    assert plugin("ADD", undeclared).json["details"].startswith('config is "0.1.0"')
    assert plugin.calls == []


@pytest.mark.unit
@pytest.mark.parametrize(
    ("command", "version", "sentence"),
    [
        ("GC", "1.0.0", "config version does not allow GC"),
        ("STATUS", "1.0.0", "config version does not allow STATUS"),
        ("CHECK", "0.3.1", "config version does not allow CHECK"),
        ("CHECK", "1.2.0", "plugin version does not allow CHECK"),
        ("GC", "1.2.0", "plugin version does not allow GC"),
        ("STATUS", "1.2.0", "plugin version does not allow STATUS"),
    ],
)
def test_s7_verbs_exist_from_a_version_on(plugin: Driven, command: str, version: str, sentence: str) -> None:
    assert plugin(command, CONFIG | {"cniVersion": version}).error == (1, sentence)
    assert plugin.calls == []


@pytest.mark.unit
@pytest.mark.parametrize("command", ["ADD", "DEL"])
def test_s8_the_plugins_own_namespace_is_refused_before_anything_happens(
    plugin: Driven, command: str
) -> None:
    answer = plugin(command, CNI_NETNS="/proc/self/ns/net")
    assert answer.error == (8, "plugin's netns and netns from CNI_NETNS should not be the same")
    assert plugin.calls == []
    for allowed in ("1", "true", "TRUE"):
        assert plugin(command, CNI_NETNS="/proc/self/ns/net", CNI_NETNS_OVERRIDE=allowed).status == 0
    assert plugin.calls == [command] * 3


@pytest.mark.unit
@pytest.mark.parametrize("version", ALL)
def test_s11_a_result_is_printed_in_the_configs_version(plugin: Driven, version: str) -> None:
    answer = plugin("ADD", CONFIG | {"cniVersion": version})
    assert answer.status == 0
    expected: dict[str, object] = {"cniVersion": version, "ips": [{"address": "10.1.2.3/24"}]}
    if version in ("0.1.0", "0.2.0"):
        expected = {"cniVersion": version, "ip4": {"ip": "10.1.2.3/24"}, "dns": {}}
    elif version < "1":
        expected |= {"ips": [{"version": "4", "address": "10.1.2.3/24"}], "dns": {}}
    assert answer.json == expected
    assert not answer.stdout.endswith(b"\n")


@pytest.mark.unit
@pytest.mark.parametrize("command", ["CHECK", "DEL", "GC", "STATUS"])
def test_other_verbs_print_nothing_on_success(plugin: Driven, command: str) -> None:
    answer = plugin(command)
    assert (answer.status, answer.stdout) == (0, b"")
    assert plugin.calls == [command]


@pytest.mark.unit
def test_what_a_callback_prints_cannot_spoil_the_answer(plugin: Driven) -> None:
    answer = plugin("ADD")
    assert answer.json["ips"]
    assert "chatter on stdout" in answer.stderr
    assert "chatter of a helper" in answer.stderr


@pytest.mark.unit
def test_an_error_is_printed_on_stdout_as_the_specification_has_it(plugin: Driven) -> None:
    answer = plugin("ADD", CONFIG | {"raise": "ours"})
    assert answer.status == 1
    assert answer.json == {
        "cniVersion": "1.1.0",
        "code": 105,
        "msg": "no more bridges",
        "details": "try the ferry",
    }


@pytest.mark.unit
def test_an_exception_that_is_no_cni_error_is_code_999_with_a_traceback_on_stderr(plugin: Driven) -> None:
    answer = plugin("ADD", CONFIG | {"raise": "other"})
    assert answer.error == (999, "ZeroDivisionError: oops")
    assert "Traceback" in answer.stderr


@pytest.mark.unit
@pytest.mark.parametrize("variable", ["CNI_CONTAINERID", "CNI_COMMAND", "CNI_NETNS"])
def test_bytes_that_are_no_text_get_an_answer_too(plugin: Driven, variable: str) -> None:
    answer = plugin("ADD", **{variable: os.fsdecode(b"\xff")})
    assert answer.status == (0 if variable == "CNI_NETNS" else 1)
    assert answer.json


@pytest.mark.unit
@pytest.mark.parametrize(
    "statement", ["sys.exit(0)", "raise KeyboardInterrupt", "raise CNIError(ValueError('x'))"]
)
def test_however_a_callback_ends_there_is_an_answer(tmp_path: Path, statement: str) -> None:
    source = f"""
import sys
from netloom.cni.plugin import CNIError, Plugin
plugin = Plugin("p")
@plugin.add
def add(request):
    {statement}
plugin.main()
"""
    ended = Driven(python_plugin(tmp_path / "p", source), tmp_path / "calls")("ADD")
    assert ended.status == 1
    assert ended.json["msg"]


@pytest.mark.unit
def test_without_a_stderr_the_answer_is_still_clean(plugin: Driven) -> None:
    env = {**os.environ, **ENV, "CNI_COMMAND": "ADD"}
    done = subprocess.run(
        f"{plugin.path} 2>&-", shell=True, env=env, input=json.dumps(CONFIG).encode(), stdout=subprocess.PIPE
    )
    assert json.loads(done.stdout)["ips"]


@pytest.mark.unit
def test_a_verb_without_a_function_succeeds_silently(tmp_path: Path) -> None:
    path = python_plugin(
        tmp_path / "p", "from netloom.cni.plugin import Plugin\nPlugin('p', about='p').main()\n"
    )
    silent = Driven(path, tmp_path / "calls")
    for command in ("ADD", "CHECK", "DEL", "GC", "STATUS"):
        answer = silent(command)
        assert (answer.status, answer.stdout) == (0, b"")


@pytest.mark.unit
@pytest.mark.parametrize("module", ["netloom.cni", "netloom.cni.plugin"])
def test_importing_the_library_pulls_in_no_event_loop(module: str) -> None:
    slow = ("asyncio", "subprocess", "socket")
    code = f"import sys, {module}; print([it for it in {slow} if it in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def answer(plugin: Plugin, command: str, config: dict[str, Any], **env: str) -> tuple[int, Any]:
    status, output = plugin.answer(
        {**ENV, "CNI_COMMAND": command, **env}, lambda: json.dumps(config).encode()
    )
    return status, json.loads(output) if output else None


@pytest.mark.unit
@pytest.mark.parametrize("version", ALL)
def test_an_add_without_a_result_passes_the_previous_one_on(version: str) -> None:
    plugin = Plugin("p")
    plugin.add(lambda _: None)
    previous = Result(ips=(IP("10.1.2.3/24"),)).as_version(version)
    config = CONFIG | {"cniVersion": version, "prevResult": json.loads(previous.encode())}
    status, output = answer(plugin, "ADD", config)
    assert (status, output) == (0, json.loads(previous.encode()))
    status, output = answer(plugin, "ADD", CONFIG | {"cniVersion": version})
    assert status == 0
    assert output["cniVersion"] == version


@pytest.mark.unit
def test_a_previous_result_without_a_version_has_the_configs() -> None:
    seen: list[object] = []
    plugin = Plugin("p")
    plugin.check(lambda request: seen.append(request.prev_result))
    old = {"ip4": {"ip": "10.1.2.3/24"}}
    assert answer(plugin, "CHECK", CONFIG | {"cniVersion": "0.4.0", "prevResult": {"ips": []}})[0] == 0
    assert answer(plugin, "CHECK", CONFIG | {"prevResult": {"cniVersion": "0.2.0", **old}})[0] == 0
    assert seen[0] == Result(cni_version="0.4.0")
    assert isinstance(seen[1], LegacyResult)


@pytest.mark.unit
@pytest.mark.parametrize("garbage", [7, [], {"cniVersion": "9.9"}, {"ips": [{"address": "x"}]}])
def test_a_previous_result_that_cannot_be_read_fails_all_but_del(garbage: object) -> None:
    plugin = Plugin("p")
    plugin.check(lambda request: request.prev_result and None)
    plugin.delete(lambda request: request.prev_result)
    assert answer(plugin, "CHECK", CONFIG | {"prevResult": garbage})[0] == 1
    assert answer(plugin, "DEL", CONFIG | {"prevResult": garbage})[0] == 0


@pytest.mark.unit
def test_gc_is_told_what_is_valid_under_either_name() -> None:
    seen: list[object] = []
    plugin = Plugin("p")
    plugin.gc(lambda request: seen.append(request.valid_attachments))
    entry = {"containerID": "c", "ifname": "eth0"}
    told: tuple[dict[str, Any], ...] = (
        {"cni.dev/valid-attachments": [entry]},
        {"cni.dev/attachments": [entry]},
        {"cni.dev/valid-attachments": None},
        {"cni.dev/valid-attachments": []},
        {},
    )
    for keys in told:
        assert answer(plugin, "GC", CONFIG | keys)[0] == 0
    first, second, null, empty, absent = seen
    assert first == second != ()
    assert (null, empty, absent) == ((), (), None)
    for nonsense in ([7], False, "", 0):
        status, output = answer(plugin, "GC", CONFIG | {"cni.dev/attachments": nonsense})
        assert (status, output["code"]) == (1, 7)


class PodArgs(Struct):
    K8S_POD_NAME: str = ""
    PORT: int = 0
    FAST: bool = False


@pytest.mark.unit
def test_args_are_read_into_a_struct() -> None:
    assert load_args("", PodArgs) == PodArgs()
    assert load_args("K8S_POD_NAME=web;PORT=80;FAST=TRUE", PodArgs) == PodArgs("web", 80, True)
    assert load_args("IgnoreUnknown=1;X=1;PORT=80", PodArgs) == PodArgs(PORT=80)
    assert load_args("IgnoreUnknown=true;X=1", PodArgs) == PodArgs()


@pytest.mark.unit
def test_a_request_gives_args_and_config_as_structs() -> None:
    seen: list[object] = []
    plugin = Plugin("p", supported=starting_from("0.4.0"))
    plugin.check(lambda request: seen.append((request.args_as(PodArgs), request.config_as(PodArgs))))
    assert answer(plugin, "CHECK", CONFIG | {"PORT": 1}, CNI_ARGS="PORT=80")[0] == 0
    assert seen == [(PodArgs(PORT=80), PodArgs(PORT=1))]
    status, output = answer(plugin, "CHECK", CONFIG | {"PORT": "many"})
    assert (status, output["code"]) == (1, 7)
    assert answer(plugin, "ADD", CONFIG | {"cniVersion": "0.3.1"})[1]["code"] == 1


@pytest.mark.unit
def test_of_duplicate_keys_on_stdin_the_last_one_counts() -> None:
    seen: list[str] = []
    plugin = Plugin("p")
    plugin.check(lambda request: seen.append(request.network))
    source = b'{"cniVersion":"1.1.0","name":"first","name":"last"}'
    assert plugin.answer({**ENV, "CNI_COMMAND": "CHECK"}, lambda: source) == (0, b"")
    assert seen == ["last"]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("X=1", r'ARGS: unknown args \["X=1"\]'),
        ("X=1;Y=2;IgnoreUnknown=false", r'unknown args \["X=1" "Y=2"\]'),
        ("X", 'ARGS: invalid pair "X"'),
        ("X=1=2", 'invalid pair "X=1=2"'),
        ("X=1;", 'invalid pair ""'),
        ("IgnoreUnknown=maybe", "IgnoreUnknown"),
        ("PORT=many", "PORT"),
    ],
)
def test_args_that_cannot_be_read_are_code_4(text: str, sentence: str) -> None:
    with pytest.raises(InvalidEnvironment, match=sentence):
        load_args(text, PodArgs)


@pytest.mark.unit
@given(st.text())
def test_any_args_are_pairs_or_a_typed_error(text: str) -> None:
    try:
        pairs = parse_args(text)
    except InvalidEnvironment:
        return
    assert all("=" not in key + value for key, value in pairs.items())


@pytest.mark.unit
def test_a_delegate_gets_the_same_request_with_only_the_command_changed(tmp_path: Path) -> None:
    install_noop(tmp_path)
    control = tmp_path / "control.json"
    control.write_text(json.dumps({"ReportResult": '{"ips":[{"address":"10.1.2.3/24"}]}'}))
    seen: list[Any] = []

    def delegating(request: Request) -> None:
        delegate = request.delegate("noop")
        seen.append(delegate.add())
        for verb in (delegate.check, delegate.delete, delegate.gc, delegate.status):
            verb()
            seen.append(json.loads(control.read_text()))

    plugin = Plugin("p")
    plugin.add(delegating)
    environment = {**os.environ, **ENV, "CNI_COMMAND": "ADD", "CNI_PATH": str(tmp_path), "CNI_ARGS": "A=1"}
    config = CONFIG | {"debugFile": str(control), "ipam": {"type": "noop"}}
    assert plugin.answer(environment, lambda: json.dumps(config).encode())[0] == 0
    result, *records = seen
    assert result == Result(ips=(IP("10.1.2.3/24"),))
    assert [record["Command"] for record in records] == ["CHECK", "DEL", "GC", "STATUS"]
    assert {record["CmdArgs"]["Args"] for record in records} == {"A=1"}
    assert {record["CmdArgs"]["ContainerID"] for record in records} == {"c1"}


@pytest.mark.unit
def test_a_delegate_that_is_not_there_is_an_error_of_the_plugin() -> None:
    plugin = Plugin("p")
    plugin.add(lambda request: request.delegate("absent").add())
    status, output = answer(plugin, "ADD", CONFIG)
    assert (status, output["code"]) == (1, 7)
    assert output["msg"] == 'failed to find plugin "absent" in path [/nowhere]'
