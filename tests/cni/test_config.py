"""Loading: which files are read in which order, what they must hold, which version is taken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netloom.cni import (
    CNIError,
    InvalidConfig,
    IOFailure,
    NetworkNotFound,
    NoConfigsFound,
    load_network,
    load_network_file,
    load_networks,
    parse_network,
    parse_plugin,
)

pytestmark = pytest.mark.unit

PLUGIN = {"type": "noop"}


def parsed(**keys: Any) -> Any:
    return parse_network(json.dumps({"name": "net", "plugins": [PLUGIN], **keys}).encode())


def write(path: Path, document: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("keys", "version"),
    [
        pytest.param(
            {"cniVersions": ["99.0.0", "1.1.0", "0.4.0"]}, "1.1.0", id="r12 too new ones are dropped"
        ),
        pytest.param(
            {"cniVersion": "1.0.0", "cniVersions": ["0.1.0", "0.4.0"]},
            "1.0.0",
            id="r13 cniVersion takes part",
        ),
        ({"cniVersion": "1.2.3"}, "1.2.3"),
        ({"cniVersion": "1.2.3", "cniVersions": ["0.4.0"]}, "0.4.0"),
        ({"cniVersion": "1.2.3", "cniVersions": []}, "1.2.3"),
        ({"cniVersions": []}, ""),
        ({"cniVersions": ["1.0", "1"]}, "1.0"),
        ({}, ""),
    ],
)
def test_the_newest_version_that_both_sides_know_is_taken(keys: dict[str, Any], version: str) -> None:
    assert parsed(**keys).cni_version == version


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"cniVersions": ["1.1.0", "1.0.f"]}, id="r14 not a number"),
        {"cniVersions": ["1.0.0.0"]},
        {"cniVersions": [1]},
        {"cniVersions": "1.0.0"},
        {"cniVersions": None},
        {"cniVersion": 1},
        {"cniVersion": "x", "cniVersions": ["1.0.0"]},
    ],
)
def test_a_version_that_is_none_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=r"^error parsing configuration list: "):
        parsed(**keys)


@pytest.mark.parametrize(
    ("value", "meaning"), [(True, True), (False, False), ("true", True), ("TRUE", True), ("False", False)]
)
def test_booleans_may_be_strings(value: object, meaning: bool) -> None:
    network = parsed(disableCheck=value, disableGC=value, loadOnlyInlinedPlugins=value)
    assert (network.disable_check, network.disable_gc, network.load_only_inlined_plugins) == (meaning,) * 3


@pytest.mark.parametrize("key", ["disableCheck", "disableGC", "loadOnlyInlinedPlugins"])
def test_other_booleans_are_refused(key: str) -> None:
    with pytest.raises(InvalidConfig, match=f'invalid value "yes" for {key}'):
        parsed(**{key: "Yes"})
    with pytest.raises(InvalidConfig, match=f"{key} is a number, not a boolean"):
        parsed(**{key: 1})


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"plugins": [PLUGIN]}, "no name"),
        ({"name": 1, "plugins": [PLUGIN]}, "name is a number, not a string"),
        ({"name": "n", "plugins": {}}, "'plugins' is an object, not an array"),
        ({"name": "n", "plugins": []}, "no plugins in list"),
        ({"name": "n", "plugins": [{}]}, "failed to parse plugin config 0: .*missing 'type'"),
        (
            {"name": "n", "plugins": [PLUGIN, 7]},
            "failed to parse plugin config 1: expected an object, got a number",
        ),
        ({"name": "n", "plugins": [{"type": 7}]}, "Expected `str"),
        ({"name": "n", "plugins": [PLUGIN | {"capabilities": {"mac": "yes"}}]}, "Expected `bool"),
        ({"name": "n", "loadOnlyInlinedPlugins": True}, "no 'plugins' key"),
        ([], "expected an object, got an array"),
    ],
)
def test_what_a_list_lacks_is_named(document: object, sentence: str) -> None:
    with pytest.raises(InvalidConfig, match=sentence) as caught:
        parse_network(json.dumps(document).encode())
    assert caught.value.code == 7


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (b"", "unexpected end of JSON input"),
        (b"   ", "unexpected end of JSON input"),
        (b"{", "ends too early"),
        (b'{"name":"\xff"}', "not UTF-8"),
        (b'{"name":' * 100_000, "nested too deeply"),
        (b'{"x":' * 300 + b"1" + b"}" * 300, "nested too deeply"),
        (b"NaN", "malformed"),
        (b"null", "expected an object, got null"),
    ],
)
def test_bytes_that_are_no_json_object_are_refused_in_one_sentence(source: bytes, sentence: str) -> None:
    for parse in (parse_network, parse_plugin):
        with pytest.raises(InvalidConfig, match=sentence) as caught:
            parse(source)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


def test_of_duplicate_keys_the_last_one_counts() -> None:
    network = parse_network(b'{"name":"a","name":"b","plugins":[{"type":"x","type":"y"}]}')
    assert (network.name, network.plugins[0].type) == ("b", "y")


@given(st.binary() | st.text().map(str.encode))
@example(b'{"name":"n","plugins":[{"type":"t","capabilities":null}]}')
def test_any_bytes_are_a_config_or_a_typed_error(source: bytes) -> None:
    for parse in (parse_network, parse_plugin):
        try:
            parse(source)
        except CNIError as error:
            assert error.code in (6, 7)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
config_keys = st.sampled_from(
    [
        "name",
        "cniVersion",
        "cniVersions",
        "plugins",
        "disableCheck",
        "disableGC",
        "loadOnlyInlinedPlugins",
        "x",
    ]
)


@given(st.dictionaries(config_keys, json_values | st.lists(st.fixed_dictionaries({"type": json_values}))))
def test_any_document_is_a_config_or_a_typed_error(document: dict[str, Any]) -> None:
    try:
        network = parse_network(json.dumps(document).encode())
    except CNIError as error:
        assert error.code == 7
    else:
        assert network.name == document["name"]


def test_r15_plugins_of_the_networks_own_directory_come_in_order_of_their_names(tmp_path: Path) -> None:
    path = write(tmp_path / "10-net.conflist", {"cniVersion": "1.1.0", "name": "net"})
    write(tmp_path / "net" / "20-b.conf", {"type": "b"})
    write(tmp_path / "net" / "10-a.conf", {"type": "a"})
    write(tmp_path / "net" / "30-c.json", {"type": "not a .conf"})
    write(tmp_path / "net" / "deeper" / "40-d.conf", {"type": "not here"})
    assert [plugin.type for plugin in load_network_file(str(path)).plugins] == ["a", "b"]


def test_plugins_of_the_directory_come_after_the_inlined_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "10-net.conflist", {"name": "net", "plugins": [{"type": "inlined"}]})
    write(tmp_path / "net" / "10-a.conf", {"type": "a"})
    assert [plugin.type for plugin in load_network_file(str(path)).plugins] == ["inlined", "a"]


def test_r16_the_directory_is_left_out_when_only_inlined_plugins_are_wanted(tmp_path: Path) -> None:
    document = {"name": "net", "plugins": [{"type": "inlined"}], "loadOnlyInlinedPlugins": True}
    path = write(tmp_path / "10-net.conflist", document)
    write(tmp_path / "net" / "10-a.conf", {"type": "a"})
    assert [plugin.type for plugin in load_network_file(str(path)).plugins] == ["inlined"]


def test_r17_only_inlined_plugins_and_none_inlined_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "10-net.conflist", {"name": "net", "loadOnlyInlinedPlugins": True})
    with pytest.raises(InvalidConfig, match="`loadOnlyInlinedPlugins` is true, and no 'plugins' key"):
        load_network_file(str(path))


def test_a_network_without_any_plugin_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "10-net.conflist", {"name": "net"})
    with pytest.raises(InvalidConfig, match="no plugin configs found"):
        load_network_file(str(path))


@pytest.mark.parametrize("name", ["../elsewhere", ".", "a/b", "a\0b"])
def test_a_networks_name_never_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    write(tmp_path / "elsewhere" / "10-a.conf", {"type": "a"})
    path = write(tmp_path / "net.d" / "10-net.conflist", {"name": name, "plugins": [PLUGIN]})
    with pytest.raises(InvalidConfig, match="cannot name a directory"):
        load_network_file(str(path))


def test_lists_go_before_single_plugins_and_each_by_file_name(tmp_path: Path) -> None:
    write(tmp_path / "00-single.conf", {"name": "net", "type": "single"})
    write(tmp_path / "20-second.conflist", {"name": "net", "plugins": [{"type": "second"}]})
    write(tmp_path / "10-first.conflist", {"name": "net", "plugins": [{"type": "first"}]})
    assert load_network(str(tmp_path), "net").plugins[0].type == "first"
    assert [loaded.network.plugins[0].type for loaded in load_networks(str(tmp_path)).networks] == [
        "first",
        "second",
        "single",
    ]


@pytest.mark.parametrize("extension", ["conf", "json"])
def test_a_single_plugin_becomes_a_list_of_one(tmp_path: Path, extension: str) -> None:
    write(tmp_path / f"10-net.{extension}", {"name": "net", "type": "noop", "cniVersion": "0.4.0", "x": [1]})
    network = load_network(str(tmp_path), "net")
    assert (network.name, network.cni_version) == ("net", "0.4.0")
    assert network.plugins[0].raw["x"] == [1]
    assert json.loads(network.source)["plugins"] == [
        {"name": "net", "type": "noop", "cniVersion": "0.4.0", "x": [1]}
    ]


def test_a_bad_file_is_reported_and_hides_nothing(tmp_path: Path) -> None:
    write(tmp_path / "00-broken.conflist", "{")
    write(tmp_path / "01-empty.conflist", "")
    os.symlink("nowhere", tmp_path / "02-dangling.conflist")
    os.mkfifo(tmp_path / "03-fifo.conflist")
    (tmp_path / "04-directory.conflist").mkdir()
    write(tmp_path / "05-net.conflist", {"name": "other", "plugins": [PLUGIN]})
    write(tmp_path / "05-half.conflist", {"name": "half", "plugins": [PLUGIN]})
    write(tmp_path / "half" / "10-x.conf", "[]")
    write(tmp_path / "06-net.conflist", {"name": "net", "plugins": [PLUGIN]})
    reported: list[str] = []
    assert load_network(str(tmp_path), "net", report=lambda it: reported.append(str(it))).name == "net"
    assert [Path(text.split(":")[0]).name for text in reported] == [
        "00-broken.conflist",
        "01-empty.conflist",
        "02-dangling.conflist",
        "03-fifo.conflist",
        "05-half.conflist",
    ]
    assert "10-x.conf: error parsing configuration: expected an object" in reported[-1]
    with pytest.raises(NetworkNotFound, match='no net configuration with name "absent"') as caught:
        load_network(str(tmp_path), "absent")
    assert "skipped" in caught.value.details
    assert "00-broken.conflist" in caught.value.details


def test_an_empty_or_missing_directory_has_no_configs(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NoConfigsFound, match=f"no net configurations found in {directory}"):
            load_network(str(directory), "net")


def test_a_directory_that_is_a_file_is_an_io_failure(tmp_path: Path) -> None:
    with pytest.raises(IOFailure, match="cannot list"):
        load_network(str(write(tmp_path / "file", "")), "net")


def test_a_config_larger_than_16_mib_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "10-net.conflist"
    with path.open("wb") as file:
        file.truncate(100 << 20)
    with pytest.raises(IOFailure, match="larger than 16 MiB"):
        load_network_file(str(path))
