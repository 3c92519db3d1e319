"""What tests write into journals."""

from __future__ import annotations

import zlib

from netloom.journal import Attachment, Ledger, Operation

SCOPE = "main"
BOOT = "this-boot"


def attachment(
    name: str = "web", *, ifname: str = "eth0", boot_id: str = BOOT, scope: str = SCOPE
) -> Attachment:
    return Attachment(
        network="net",
        container_id=name,
        ifname=ifname,
        netns=f"/run/netns/{name}",
        netns_device=4,
        netns_inode=zlib.crc32(name.encode()),
        config_hash="hash",
        host_link=f"loom-{name}-{ifname}",
        plan=b"plan",
        result=b"result",
        boot_id=boot_id,
        created=100.0,
        created_at=1.0,
        mode="routed",
        address_scope=scope,
    )


def ip(number: int) -> bytes:
    return bytes((10, 9, 0, number))


def reserve(ledger: Ledger, name: str, *numbers: int) -> int:
    """An attachment that holds 10.9.0.N for each number."""
    return ledger.reserve(attachment(name), [ip(number) for number in numbers])


def operation(name: str) -> Operation:
    return Operation(
        verb="ADD",
        network="net",
        container_id=name,
        ifname="eth0",
        started=1.0,
        duration=2.5,
        phases={"kernel": 1.5},
    )
