"""The rules of the runtime: what each verb runs, in which order, with what, and what it keeps."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from netloom.cni import (
    CheckNotSupported,
    CNIError,
    DecodingFailure,
    Endpoint,
    Failures,
    IncompatibleVersion,
    InvalidConfig,
    InvalidEnvironment,
    LegacyResult,
    NetworkNotFound,
    NotAvailable,
    PluginFailed,
    PluginNotFound,
    Result,
    Runtime,
    TraceContext,
    UnknownContainer,
    ValidAttachment,
    load_network,
    parse_network,
    parse_plugin,
    trace_context,
)

from ..doubles import LITERAL, Doubles, cache_files, shell_plugin


def test_r1_each_plugin_of_a_list_sees_the_result_of_the_one_before(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    first = doubles.noop(ReportResult=LITERAL)
    second = doubles.noop(ReportResult="PASSTHROUGH")
    third = doubles.noop(ReportResult="INJECT-DNS")
    result = runtime.add(doubles.network(first, second, third), web)
    assert isinstance(result, Result)
    assert result.dns.nameservers == ("1.2.3.4",)
    assert [ip.address for ip in result.ips] == ["10.1.2.3/24"]
    assert "prevResult" not in first.stdin
    assert second.stdin["prevResult"] == json.loads(LITERAL)
    assert third.stdin["prevResult"] == json.loads(LITERAL)
    assert cache_files(cache) == ["net-web-1-eth0"]


def test_r2_a_plugin_that_fails_ends_an_add_without_cache_and_without_del(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    first = doubles.noop(ReportResult=LITERAL)
    second = doubles.noop(ReportError="no bridge today", ReportErrorCode=100)
    third = doubles.noop(ReportResult="PASSTHROUGH")
    with pytest.raises(PluginFailed, match=r'^plugin type="noop" failed \(add\): no bridge today$') as caught:
        runtime.add(doubles.network(first, second, third), web)
    assert (caught.value.code, caught.value.msg) == (100, "no bridge today")
    assert caught.value.plugin == "noop"
    assert caught.value.attachment == ("net", "web-1", "eth0")
    assert doubles.commands == ["ADD", "ADD"]
    assert cache_files(cache) == []


def test_a_failed_add_is_undone_by_del_of_every_plugin_when_asked(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    first = doubles.noop(ReportResult=LITERAL)
    second = doubles.noop(ReportError="no", ReportErrorCode=100)
    network = doubles.network(first, second)
    with pytest.raises(PluginFailed) as caught:
        runtime.add(network, web, cleanup=True)
    # The second one refuses DEL as well: the error says so, and is still about ADD.
    assert caught.value.msg == "no"
    assert "(delete): no" in caught.value.__notes__[0]
    assert doubles.commands == ["ADD", "ADD", "DEL", "DEL"]
    doubles.forget()
    with pytest.raises(PluginFailed):
        runtime.add(doubles.network(second, first), web, cleanup=True)
    assert doubles.commands == ["ADD", "DEL", "DEL"]
    assert cache_files(cache) == []


def test_no_plugin_runs_when_one_of_the_list_is_missing(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    entries = [doubles.entry(doubles.noop(ReportResult=LITERAL)), {"type": "absent"}]
    network = parse_network(json.dumps({"cniVersion": "1.1.0", "name": "net", "plugins": entries}).encode())
    with pytest.raises(PluginNotFound, match=r'^plugin type="absent" failed \(add\): failed to find plugin'):
        runtime.add(network, web)
    assert doubles.commands == []
    assert cache_files(cache) == []


def test_check_of_something_that_was_never_added_says_so(
    runtime: Runtime, doubles: Doubles, web: Endpoint
) -> None:
    with pytest.raises(CNIError) as caught:
        runtime.check(doubles.network(doubles.noop(ReportError="no such address")), web)
    assert caught.value.__notes__ == ["the cache has no ADD of this attachment"]


def test_numbers_are_written_as_go_writes_them(runtime: Runtime, doubles: Doubles) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    entry = json.dumps(doubles.entry(plugin, capabilities={"rate": True}))[:-1]
    source = f'{{"cniVersion":"1.1.0","name":"net","plugins":[{entry},"a":1e3,"b":1500.0,"c":1.5}}]}}'
    endpoint = Endpoint("c", "/x", capability_args={"rate": 2.0})
    runtime.add(parse_network(source.encode()), endpoint)
    assert b'"a":1000,"b":1500,"c":1.5,' in plugin.stdin_bytes
    assert b'"runtimeConfig":{"rate":2}' in plugin.stdin_bytes


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {"a": {1: object()}}, "\udcff"])
def test_arguments_that_json_cannot_hold_are_refused_before_any_plugin_runs(
    runtime: Runtime, doubles: Doubles, value: object
) -> None:
    with pytest.raises(InvalidEnvironment, match="as JSON") as caught:
        runtime.add(doubles.network(doubles.noop()), Endpoint("c", "/x", capability_args={"x": value}))
    assert caught.value.code == 4
    assert doubles.commands == []


def test_a_second_add_that_fails_does_not_undo_the_first(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    network = doubles.network(plugin)
    runtime.add(network, web)
    plugin.order(ReportError="eth0 exists", ReportErrorCode=100)
    with pytest.raises(PluginFailed) as caught:
        runtime.add(network, web, cleanup=True)
    assert "already attached" in caught.value.__notes__[0]
    assert doubles.commands == ["ADD", "ADD"]
    assert cache_files(cache) == ["net-web-1-eth0"]


def test_r3_del_goes_backwards_with_the_final_result_and_forgets(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    plugins = [
        doubles.noop(ReportResult=LITERAL),
        doubles.noop(ReportResult="PASSTHROUGH"),
        doubles.noop(ReportResult="INJECT-DNS"),
    ]
    network = doubles.network(*plugins)
    final = json.loads(runtime.add(network, web).encode())
    doubles.forget()
    runtime.delete(network, web)
    assert [stdin["debugFile"] for _, stdin in doubles.log] == [str(it.control) for it in reversed(plugins)]
    assert [stdin["prevResult"] for _, stdin in doubles.log] == [final] * 3
    assert cache_files(cache) == []
    doubles.forget()
    for plugin in plugins:
        plugin.order()
    runtime.delete(network, web)
    assert doubles.commands == ["DEL"] * 3
    assert all("prevResult" not in stdin for _, stdin in doubles.log)


def test_r4_del_of_an_old_config_carries_no_result(runtime: Runtime, doubles: Doubles, web: Endpoint) -> None:
    plugin = doubles.noop(ReportResult='{"ips":[{"version":"4","address":"10.1.2.3/24"}]}')
    network = doubles.network(plugin, version="0.3.1")
    runtime.add(network, web)
    runtime.delete(network, web)
    assert plugin.command == "DEL"
    assert "prevResult" not in plugin.stdin


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b'{"kind":"cniCacheV1"', b'{"cniVersion":"9.9"}', b"[]"]
)
def test_r5_del_succeeds_whatever_the_cache_entry_holds(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint, content: bytes
) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    network = doubles.network(plugin)
    runtime.add(network, web)
    (cache / "results" / "net-web-1-eth0").write_bytes(content)
    runtime.delete(network, web)
    assert plugin.command == "DEL"
    assert "prevResult" not in plugin.stdin
    assert cache_files(cache) == []


def test_r5_a_single_plugin_is_as_tolerant_of_a_bad_cache(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    single = parse_plugin(json.dumps(doubles.entry(plugin, name="net", cniVersion="1.1.0")).encode())
    runtime.add(single, web)
    (cache / "results" / "net-web-1-eth0").write_bytes(b"")
    runtime.delete(single, web)
    assert plugin.command == "DEL"
    assert cache_files(cache) == []


@pytest.mark.parametrize("content", [b"", b"garbage"])
def test_r6_check_says_that_the_cache_entry_is_broken(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint, content: bytes
) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    network = doubles.network(plugin)
    runtime.add(network, web)
    (cache / "results" / "net-web-1-eth0").write_bytes(content)
    with pytest.raises(DecodingFailure, match=r'^failed to get network "net" cached result: '):
        runtime.check(network, web)
    assert plugin.command == "ADD"


def test_r7_check_needs_a_config_of_0_4_0(runtime: Runtime, doubles: Doubles, web: Endpoint) -> None:
    plugin = doubles.noop()
    with pytest.raises(
        CheckNotSupported, match=r'configuration version "0\.3\.1" does not support the CHECK command'
    ):
        runtime.check(doubles.network(plugin, version="0.3.1"), web)
    assert doubles.commands == []


@pytest.mark.parametrize("flag", [True, "TRUE", "true"])
def test_r8_check_does_nothing_when_it_is_disabled(
    runtime: Runtime, doubles: Doubles, web: Endpoint, flag: object
) -> None:
    runtime.check(doubles.network(doubles.noop(), disableCheck=flag), web)
    assert doubles.commands == []


def test_check_passes_the_cached_result_in_the_order_of_the_list(
    runtime: Runtime, doubles: Doubles, web: Endpoint
) -> None:
    plugins = [doubles.noop(ReportResult=LITERAL), doubles.noop(ReportResult="PASSTHROUGH")]
    network = doubles.network(*plugins)
    runtime.add(network, web)
    doubles.forget()
    runtime.check(network, web)
    assert [(command, stdin["debugFile"]) for command, stdin in doubles.log] == [
        ("CHECK", str(plugin.control)) for plugin in plugins
    ]
    assert all(stdin["prevResult"] == json.loads(LITERAL) for _, stdin in doubles.log)


def test_check_without_a_cache_entry_asks_the_plugins_without_a_result(
    runtime: Runtime, doubles: Doubles, web: Endpoint
) -> None:
    plugin = doubles.noop()
    runtime.check(doubles.network(plugin), web)
    assert plugin.command == "CHECK"
    assert "prevResult" not in plugin.stdin


@pytest.mark.parametrize("verb", ["add", "check", "delete"])
@pytest.mark.parametrize("container_id", ["some-%%container-id", "a/b", "..", "a\n", "-a", "a\0b", "é"])
def test_r9_a_bad_container_id_is_refused_before_any_plugin_runs(
    runtime: Runtime, doubles: Doubles, cache: Path, verb: str, container_id: str
) -> None:
    with pytest.raises(InvalidEnvironment) as caught:
        getattr(runtime, verb)(doubles.network(doubles.noop()), Endpoint(container_id, "/run/netns/x"))
    assert (caught.value.code, caught.value.msg) == (4, "invalid characters in containerID")
    assert caught.value.details == container_id
    assert doubles.commands == []
    assert cache_files(cache) == []


def test_r9_a_missing_container_id_is_code_3(runtime: Runtime, doubles: Doubles) -> None:
    with pytest.raises(UnknownContainer, match="missing containerID"):
        runtime.add(doubles.network(doubles.noop()), Endpoint("", "/run/netns/x"))


def test_a_name_too_long_for_a_file_is_refused_before_any_plugin_runs(
    runtime: Runtime, doubles: Doubles
) -> None:
    with pytest.raises(InvalidEnvironment, match="too long together"):
        runtime.add(doubles.network(doubles.noop()), Endpoint("a" * 4096, "/run/netns/x"))
    assert doubles.commands == []


@pytest.mark.parametrize("name", ["invalid-%%-name", "a/b", "../up", ""])
def test_r10_a_bad_network_name_is_code_7(
    runtime: Runtime, doubles: Doubles, web: Endpoint, name: str
) -> None:
    with pytest.raises(InvalidConfig) as caught:
        runtime.add(doubles.network(doubles.noop(), name=name), web)
    assert caught.value.code == 7
    assert doubles.commands == []


@pytest.mark.parametrize(
    "ifname", ["sixteen-letters!", ".", "..", "a/b", "a:b", "a b", "", "a\0", "ééééééééé"]
)
def test_r11_a_bad_interface_name_is_code_4(runtime: Runtime, doubles: Doubles, ifname: str) -> None:
    with pytest.raises(InvalidEnvironment) as caught:
        runtime.add(doubles.network(doubles.noop()), Endpoint("c", "/run/netns/x", ifname))
    assert caught.value.code == 4
    assert doubles.commands == []


@pytest.mark.parametrize(
    ("declared", "version"),
    [
        pytest.param({"cniVersions": ["99.0.0", "1.1.0", "0.4.0"]}, "1.1.0", id="r12"),
        pytest.param({"cniVersion": "1.0.0", "cniVersions": ["0.1.0", "0.4.0"]}, "1.0.0", id="r13"),
    ],
)
def test_r12_r13_plugins_get_the_newest_version_that_both_sides_know(
    runtime: Runtime, doubles: Doubles, tmp_path: Path, web: Endpoint, declared: dict[str, Any], version: str
) -> None:
    plugin = doubles.noop(ReportResult="{}")
    document = {"name": "net", "plugins": [doubles.entry(plugin)], **declared}
    (tmp_path / "10-net.conflist").write_text(json.dumps(document))
    result = runtime.add(load_network(str(tmp_path), "net"), web)
    assert plugin.stdin["cniVersion"] == result.cni_version == version


@pytest.mark.unit
def test_r14_a_list_with_a_version_that_is_none_runs_nothing(doubles: Doubles, tmp_path: Path) -> None:
    document = {"name": "net", "plugins": [doubles.entry(doubles.noop())], "cniVersions": ["1.1.0", "1.0.f"]}
    (tmp_path / "10-net.conflist").write_text(json.dumps(document))
    with pytest.raises(NetworkNotFound, match='no net configuration with name "net"') as caught:
        load_network(str(tmp_path), "net")
    assert '"1.0.f"' in caught.value.details
    assert doubles.commands == []


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        pytest.param({}, ["a", "b"], id="r15"),
        pytest.param({"plugins": True}, ["inlined", "a", "b"], id="inlined first"),
        pytest.param({"plugins": True, "loadOnlyInlinedPlugins": True}, ["inlined"], id="r16"),
    ],
)
def test_r15_r16_plugins_of_the_networks_directory_run_in_order_unless_only_inlined_ones_are_wanted(
    runtime: Runtime, doubles: Doubles, tmp_path: Path, web: Endpoint, keys: dict[str, Any], order: list[str]
) -> None:
    def entry(mark: str) -> dict[str, Any]:
        return doubles.entry(doubles.noop(ReportResult=LITERAL), mark=mark)

    document = {"cniVersion": "1.1.0", "name": "net", **keys}
    if "plugins" in keys:
        document["plugins"] = [entry("inlined")]
    (tmp_path / "10-net.conflist").write_text(json.dumps(document))
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "20-b.conf").write_text(json.dumps(entry("b")))
    (tmp_path / "net" / "10-a.conf").write_text(json.dumps(entry("a")))
    runtime.add(load_network(str(tmp_path), "net"), web)
    assert [stdin["mark"] for _, stdin in doubles.log] == order


@pytest.mark.unit
def test_r17_only_inlined_plugins_and_none_inlined_runs_nothing(doubles: Doubles, tmp_path: Path) -> None:
    (tmp_path / "10-net.conflist").write_text('{"name":"net","loadOnlyInlinedPlugins":true}')
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "10-a.conf").write_text(json.dumps(doubles.entry(doubles.noop())))
    with pytest.raises(NetworkNotFound) as caught:
        load_network(str(tmp_path), "net")
    assert "`loadOnlyInlinedPlugins` is true, and no 'plugins' key" in caught.value.details
    assert doubles.commands == []


def test_r18_runtime_config_holds_what_the_plugin_can_and_the_runtime_has(
    runtime: Runtime, doubles: Doubles
) -> None:
    both, neither = doubles.noop(ReportResult=LITERAL), doubles.noop(ReportResult="PASSTHROUGH")
    entries = [
        doubles.entry(both, capabilities={"portMappings": True, "x": False}),
        doubles.entry(neither, capabilities={"mac": True}),
    ]
    document = {"cniVersion": "1.1.0", "name": "net", "plugins": entries}
    ports = [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]
    endpoint = Endpoint("c", "/run/netns/x", capability_args={"portMappings": ports, "x": 1, "y": 2})
    network = parse_network(json.dumps(document).encode())
    for verb in (runtime.add, runtime.check, runtime.delete):
        verb(network, endpoint)
        assert both.stdin["runtimeConfig"] == {"portMappings": ports}
        assert "runtimeConfig" not in neither.stdin


def test_unknown_keys_reach_the_plugin_untouched(runtime: Runtime, doubles: Doubles, web: Endpoint) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    odd = {
        "big": 2**80,
        "float": 1.5,
        "deep": {"a": [1, None, {"<&>": "é\u2028"}]},
        "args": {"cni": {}},
        "": 0,
    }
    document = {"cniVersion": "1.1.0", "name": "net", "plugins": [doubles.entry(plugin, **odd)]}
    runtime.add(parse_network(json.dumps(document).encode()), web)
    assert {key: plugin.stdin[key] for key in odd} == odd
    assert (plugin.stdin["name"], plugin.stdin["cniVersion"]) == ("net", "1.1.0")


def test_the_environment_has_all_six_parameters(
    runtime: Runtime, doubles: Doubles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CNI_ARGS", "INHERITED=1")
    plugin = doubles.noop(ReportResult=LITERAL)
    endpoint = Endpoint("c", "/run/netns/x", "net1", args=(("IgnoreUnknown", "1"), ("K", "V")))
    runtime.add(doubles.network(plugin), endpoint)
    assert {key: plugin.args[key] for key in ("ContainerID", "Netns", "IfName", "Args")} == {
        "ContainerID": "c",
        "Netns": "/run/netns/x",
        "IfName": "net1",
        "Args": "IgnoreUnknown=1;K=V",
    }
    assert plugin.args["Path"].endswith(("noop0", ".peers/bin"))


GC_KEYS = ("cni.dev/valid-attachments", "cni.dev/attachments")


def test_r19_gc_does_nothing_when_it_is_disabled(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    network = doubles.network(doubles.noop(ReportResult=LITERAL), disableGC="true")
    runtime.add(network, web)
    runtime.gc(network, [])
    assert doubles.commands == ["ADD"]
    assert cache_files(cache) == ["net-web-1-eth0"]


def test_r19_gc_tells_plugins_what_is_valid_and_deletes_the_rest(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    network = doubles.network(doubles.noop(ReportResult=LITERAL))
    runtime.add(network, web)
    runtime.gc(network, [ValidAttachment("web-1", "eth0")])
    assert cache_files(cache) == ["net-web-1-eth0"]
    runtime.gc(network, [])
    assert doubles.commands == ["ADD", "GC", "DEL", "GC"]
    (_, valid), (_, delete), (_, empty) = doubles.log[1:]
    assert [valid[key] for key in GC_KEYS] == [[{"containerID": "web-1", "ifname": "eth0"}]] * 2
    assert delete["prevResult"] == json.loads(LITERAL)
    assert [empty[key] for key in GC_KEYS] == [[], []]
    assert "prevResult" not in valid
    assert cache_files(cache) == []


def test_r19_gc_without_a_list_removes_everything_and_names_nothing(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    network = doubles.network(doubles.noop(ReportResult=LITERAL))
    other = doubles.network(doubles.noop(ReportResult=LITERAL), name="other")
    runtime.add(network, web)
    runtime.add(other, web)
    runtime.gc(network)
    assert doubles.commands == ["ADD", "ADD", "DEL", "GC"]
    assert not any(key in doubles.log[-1][1] for key in GC_KEYS)
    assert cache_files(cache) == ["other-web-1-eth0"]


def test_r20_gc_of_a_1_0_0_config_deletes_but_does_not_send_gc(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    network = doubles.network(doubles.noop(ReportResult=LITERAL.replace("1.1.0", "1.0.0")), version="1.0.0")
    runtime.add(network, web)
    runtime.gc(network, [])
    assert doubles.commands == ["ADD", "DEL"]
    assert cache_files(cache) == []


def test_gc_gives_args_and_capabilities_of_the_cached_add_to_del(runtime: Runtime, doubles: Doubles) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    entry = doubles.entry(plugin, capabilities={"mac": True})
    network = parse_network(json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": [entry]}).encode())
    endpoint = Endpoint("c", "/run/netns/x", args=(("IgnoreUnknown", "1"),), capability_args={"mac": "0a:00"})
    runtime.add(network, endpoint)
    runtime.gc(network, [])
    assert plugin.command == "DEL"
    assert (plugin.args["Netns"], plugin.args["Args"]) == ("/run/netns/x", "IgnoreUnknown=1")
    assert plugin.stdin["runtimeConfig"] == {"mac": "0a:00"}


@pytest.mark.unit
def test_gc_passes_on_arguments_that_an_add_of_ours_would_refuse(
    cache: Path, tmp_path: Path, web: Endpoint
) -> None:
    shell_plugin(tmp_path / "tell", f'echo "$CNI_COMMAND $CNI_ARGS" >>{tmp_path}/calls; echo "{{}}"')
    runtime = Runtime([str(tmp_path)], cache_dir=str(cache))
    network = parse_network(b'{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"tell"}]}')
    runtime.add(network, web)
    entry = cache / "results" / "net-web-1-eth0"
    entry.write_text(json.dumps(json.loads(entry.read_text()) | {"cniArgs": [["A=B", "1;2"]]}))
    runtime.gc(network, [])
    assert (tmp_path / "calls").read_text().splitlines()[1] == "DEL A=B=1;2"
    assert cache_files(cache) == []


@pytest.mark.parametrize("container_id", ["a/../../../secret", "..", ""])
def test_a_name_never_becomes_a_path_also_when_the_cache_is_only_read(
    runtime: Runtime, doubles: Doubles, container_id: str
) -> None:
    network = doubles.network(doubles.noop())
    for read in (runtime.cached_result, runtime.cached_config):
        with pytest.raises(CNIError, match="containerID"):
            read(network, Endpoint(container_id, ""))


@pytest.mark.parametrize("args", [(("K", "a;b"),), (("K", "\0"),)])
def test_bad_arguments_are_refused_at_once_and_name_the_attachment(
    runtime: Runtime, doubles: Doubles, args: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(InvalidEnvironment) as caught:
        runtime.add(doubles.network(doubles.noop()), Endpoint("c", "/x", args=args), cleanup=True)
    assert caught.value.attachment == ("net", "c", "eth0")
    assert not getattr(caught.value, "__notes__", ())
    assert doubles.commands == []


def test_gc_goes_on_after_failures_and_reports_all_of_them(
    runtime: Runtime, doubles: Doubles, web: Endpoint
) -> None:
    first, second = doubles.noop(ReportResult=LITERAL), doubles.noop(ReportResult="PASSTHROUGH")
    network = doubles.network(first, second)
    runtime.add(network, web)
    first.order(ReportError="first is ill", ReportErrorCode=101)
    second.order(ReportError="second is ill", ReportErrorCode=102)
    with pytest.raises(Failures) as caught:
        runtime.gc(network, [])
    assert [(error.code, error.msg) for error in caught.value.errors] == [
        (102, "second is ill"),
        (101, "first is ill"),
        (102, "second is ill"),
    ]
    assert str(caught.value).splitlines()[0].startswith("failed to delete stale attachment web-1 eth0: ")
    assert str(caught.value).splitlines()[1] == "failed to GC plugin noop: first is ill"


def test_r21_status_ends_at_the_first_refusal_with_its_code(runtime: Runtime, doubles: Doubles) -> None:
    ready, full, never = (
        doubles.noop(),
        doubles.noop(ReportError="pool exhausted", ReportErrorCode=50),
        doubles.noop(),
    )
    with pytest.raises(NotAvailable, match=r"^pool exhausted$") as caught:
        runtime.status(doubles.network(ready, full, never))
    assert caught.value.code == 50
    assert doubles.commands == ["STATUS", "STATUS"]
    assert never.command == ""


def test_r22_status_of_a_1_0_0_config_runs_nothing(runtime: Runtime, doubles: Doubles) -> None:
    runtime.status(doubles.network(doubles.noop(ReportError="no"), version="1.0.0"))
    assert doubles.commands == []


@pytest.mark.parametrize("answer", ["null", "{}", '{"cniVersion":""}', '{"cniVersion":7}'])
@pytest.mark.parametrize("version", ["0.2.0", "0.4.0", "1.1.0"])
def test_r23_an_answer_without_a_version_has_the_configs(
    runtime: Runtime, doubles: Doubles, web: Endpoint, answer: str, version: str
) -> None:
    result = runtime.add(doubles.network(doubles.noop(ReportResult=answer), version=version), web)
    assert result.cni_version == version


def test_r24_an_answer_in_another_version_is_kept_and_converted_on_demand(
    runtime: Runtime, doubles: Doubles, web: Endpoint
) -> None:
    network = doubles.network(doubles.noop(ReportResult='{"cniVersion":"0.2.0","ip4":{"ip":"10.1.2.3/24"}}'))
    result = runtime.add(network, web)
    assert isinstance(result, LegacyResult)
    cached = runtime.cached_result(network, web)
    assert isinstance(cached, Result)
    assert cached.cni_version == "1.1.0"
    assert cached.ips[0].address == "10.1.2.3/24"


def test_an_answer_in_an_unknown_version_is_refused(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    with pytest.raises(IncompatibleVersion, match=r'unsupported CNI result version "9\.9\.9"'):
        runtime.add(doubles.network(doubles.noop(ReportResult='{"cniVersion":"9.9.9"}')), web)
    assert cache_files(cache) == []


@pytest.mark.parametrize("verb", ["add", "check", "delete"])
def test_r25_code_message_and_plugin_of_an_error_are_kept(
    runtime: Runtime, doubles: Doubles, web: Endpoint, verb: str
) -> None:
    plugin = doubles.noop(ReportError="try later", ReportErrorCode=11)
    with pytest.raises(CNIError) as caught:
        getattr(runtime, verb)(doubles.network(plugin), web)
    assert (caught.value.code, caught.value.msg, caught.value.plugin) == (11, "try later", "noop")
    assert caught.value.attachment == ("net", "web-1", "eth0")


def test_r26_two_interfaces_of_one_container_are_two_attachments(
    runtime: Runtime, doubles: Doubles, cache: Path
) -> None:
    network = doubles.network(doubles.noop(ReportResult=LITERAL))
    for ifname in ("net1", "eth0"):
        runtime.add(network, Endpoint("web-1", "/run/netns/x", ifname))
    runtime.add(network, Endpoint("web-1-eth0", "/run/netns/y", "z"))
    assert cache_files(cache) == ["net-web-1-eth0", "net-web-1-eth0-z", "net-web-1-net1"]
    assert [(it.network, it.container_id, it.ifname, it.netns) for it in runtime.attachments("web-1")] == [
        ("net", "web-1", "eth0", "/run/netns/x"),
        ("net", "web-1", "net1", "/run/netns/x"),
    ]
    assert len(runtime.attachments()) == 3


def test_attachments_pass_over_what_is_no_entry(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    assert runtime.attachments() == []
    runtime.add(doubles.network(doubles.noop(ReportResult=LITERAL)), web)
    results = cache / "results"
    (results / "net-empty-eth0").write_bytes(b"")
    (results / "net-legacy-eth0").write_text(LITERAL)
    (results / "net-nameless-eth0").write_text('{"kind":"cniCacheV1","containerId":"nameless"}')
    (results / "net-directory-eth0").mkdir()
    os.mkfifo(results / "net-fifo-eth0")
    assert [it.container_id for it in runtime.attachments()] == ["web-1"]


def test_r27_a_bare_result_of_an_old_libcni_is_read(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    plugin = doubles.noop()
    network = doubles.network(plugin)
    (cache / "results").mkdir(parents=True)
    (cache / "results" / "net-web-1-eth0").write_text(
        '{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.1.2.3/24"}]}'
    )
    runtime.check(network, web)
    assert plugin.stdin["prevResult"] == json.loads(LITERAL)
    runtime.delete(network, web)
    assert plugin.stdin["prevResult"] == json.loads(LITERAL)
    assert cache_files(cache) == []


def test_cached_config_gives_back_what_add_was_given(runtime: Runtime, doubles: Doubles) -> None:
    network = doubles.network(doubles.noop(ReportResult=LITERAL))
    endpoint = Endpoint("c", "/run/netns/x", args=(("K", "V"),), capability_args={"mac": "0a:00"})
    assert runtime.cached_config(network, endpoint) is None
    assert runtime.cached_result(network, endpoint) is None
    runtime.add(network, endpoint)
    cached = runtime.cached_config(network, endpoint)
    assert cached is not None
    assert cached.config == network.source
    assert cached.endpoint == endpoint


def test_cached_config_refuses_a_broken_or_foreign_entry(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    network = doubles.network(doubles.noop(ReportResult=LITERAL))
    runtime.add(network, web)
    for content in (b"", b"{", LITERAL.encode()):
        (cache / "results" / "net-web-1-eth0").write_bytes(content)
        with pytest.raises(DecodingFailure, match='cached network "net" config'):
            runtime.cached_config(network, web)


def test_a_single_plugin_is_added_checked_and_deleted_like_a_list_of_one(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    plugin = doubles.noop(ReportResult=LITERAL)
    single = parse_plugin(json.dumps(doubles.entry(plugin, name="net", cniVersion="1.1.0")).encode())
    runtime.add(single, web)
    entry = json.loads((cache / "results" / "net-web-1-eth0").read_text())
    assert base64.b64decode(entry["config"]) == single.source
    runtime.check(single, web)
    assert plugin.stdin["prevResult"] == json.loads(LITERAL)
    plugin.order(ReportError="not now", ReportErrorCode=11)
    with pytest.raises(CNIError, match=r"^not now$"):
        runtime.delete(single, web)
    assert cache_files(cache) == ["net-web-1-eth0"]
    plugin.order()
    runtime.delete(single, web)
    assert cache_files(cache) == []


def test_a_del_that_fails_keeps_the_cache_entry_and_stops(
    runtime: Runtime, doubles: Doubles, cache: Path, web: Endpoint
) -> None:
    first, second = doubles.noop(ReportResult=LITERAL), doubles.noop(ReportResult="PASSTHROUGH")
    network = doubles.network(first, second)
    runtime.add(network, web)
    second.order(ReportError="busy", ReportErrorCode=11)
    doubles.forget()
    with pytest.raises(CNIError, match=r'^plugin type="noop" failed \(delete\): busy$'):
        runtime.delete(network, web)
    assert doubles.commands == ["DEL"]
    assert cache_files(cache) == ["net-web-1-eth0"]


def test_validate_gives_the_capabilities_of_all_plugins(runtime: Runtime, doubles: Doubles) -> None:
    entries = [
        doubles.entry(doubles.noop(), capabilities={"portMappings": True, "no": False}),
        doubles.entry(doubles.noop(), capabilities={"portMappings": True, "mac": True}),
    ]
    network = parse_network(json.dumps({"cniVersion": "1.1.0", "name": "net", "plugins": entries}).encode())
    assert runtime.validate(network) == ["mac", "portMappings"]
    assert runtime.validate(network.plugins[1]) == ["mac", "portMappings"]


def test_validate_names_plugins_that_are_missing_or_too_old(runtime: Runtime, doubles: Doubles) -> None:
    entries = [{"type": "absent"}, doubles.entry(doubles.noop()), {"type": "../noop"}]
    network = parse_network(json.dumps({"cniVersion": "7.0.0", "name": "net", "plugins": entries}).encode())
    with pytest.raises(Failures) as caught:
        runtime.validate(network)
    absent, old, escaping = caught.value.errors
    assert absent.msg.startswith('failed to find plugin "absent" in path [')
    assert old.msg == 'plugin noop does not support config version "7.0.0"'
    assert escaping.msg == "invalid plugin name: ../noop"


def test_version_tells_what_a_plugin_supports(runtime: Runtime) -> None:
    assert runtime.version("noop").supported_versions[:2] == ("0.-42.0", "0.1.0")


def test_trace_context_reaches_the_plugin(
    runtime: Runtime, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell_plugin(tmp_path / "tell", f'env >{tmp_path}/env; echo "{{}}"')
    make = type(runtime)
    traced = make([str(tmp_path)], cache_dir=str(cache))
    network = parse_network(b'{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"tell"}]}')
    monkeypatch.setenv("TRACEPARENT", "inherited")
    traced.status(network)
    assert "TRACEPARENT=inherited" in (tmp_path / "env").read_text()
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    token = trace_context.set(TraceContext(parent, "k=v", "user=me"))
    try:
        traced.status(network)
    finally:
        trace_context.reset(token)
    seen = (tmp_path / "env").read_text().splitlines()
    assert {f"TRACEPARENT={parent}", "TRACESTATE=k=v", "BAGGAGE=user=me"} <= set(seen)
