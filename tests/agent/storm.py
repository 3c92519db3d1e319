"""A storm: somebody changes the node's nftables without a pause, so that lists of them are interrupted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .stage import Node

# Rules of a chain of ours, so that a list of our table's takes long enough to be changed meanwhile.
_RULES = 4_000
_CHAIN = "leave-storm"

_STORM = """
import sys
from netloom.kernel import Namespace
from netloom.kernel.netlink.nft_elements import DELETE_ELEMENT, NEW_ELEMENT, Item, change_elements

with Namespace.own() as host:
    items = [Item(("inet", "storm", "numbers"), (7).to_bytes(4, "big"))]
    print("blows", flush=True)
    while True:
        change_elements(host.netfilter, NEW_ELEMENT, items)
        change_elements(host.netfilter, DELETE_ELEMENT, items)
"""


@contextmanager
def storm(node: Node) -> Iterator[subprocess.Popen[bytes]]:
    """Blows in the node's namespace until its process is ended, or the block."""
    chain = f"add chain inet netloom {_CHAIN}\n"
    rules = "".join(f"add rule inet netloom {_CHAIN} ip saddr 192.0.2.1 accept\n" for _ in range(_RULES))
    others = "add table inet storm\nadd set inet storm numbers { type mark; }\n"
    subprocess.run(node.command("nft", "-f", "-"), input=(chain + rules + others).encode(), check=True)
    # Whatever else the machine has to do: one that does not get its turn lets a list through.
    command = node.command("nice", "--adjustment=-10", sys.executable, "-c", _STORM)
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"blows\n"
        yield process
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()
        node.inside("nft", "delete", "table", "inet", "storm", check=False)
        node.inside("nft", "flush", "chain", "inet", "netloom", _CHAIN, check=False)
        node.inside("nft", "delete", "chain", "inet", "netloom", _CHAIN, check=False)
