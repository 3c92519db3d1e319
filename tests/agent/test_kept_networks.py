"""Copies of networks' files: which are kept, whatever form a file has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netloom.ops.node.install import Receipt
from netloom.ops.node.networks import Copy, NetworkFiles, is_sound, renewed

pytestmark = pytest.mark.unit

PLUGIN = {"cniVersion": "1.0.0", "name": "net", "type": "netloom", "pools": [{"cidr": "10.9.0.0/16"}]}
LIST = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "netloom", "pools": PLUGIN["pools"]}]}
OF_OTHERS = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}]}


@pytest.mark.parametrize(("name", "content"), [("10-net.conf", PLUGIN), ("10-net.conflist", LIST)])
def test_a_network_with_attachments_is_kept_as_its_file_has_it(
    name: str, content: object, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(json.dumps(content))
    found = NetworkFiles(str(tmp_path)).found()
    assert renewed((), found, Receipt(), {"net"}) == (Copy("net", str(path), path.read_text()),)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("10-net.conflist", json.dumps(PLUGIN)),
        ("10-net.conf", json.dumps(LIST)),
        ("10-net.conflist", json.dumps(OF_OTHERS)),
        ("10-net.conflist", json.dumps({**LIST, "name": "other"})),
        ("10-net.conf", ""),
        ("10-net.conflist", "[]"),
    ],
)
def test_what_a_runtime_could_not_use_is_no_copy(name: str, content: str) -> None:
    assert not is_sound(Copy("net", f"/etc/cni/net.d/{name}", content))
