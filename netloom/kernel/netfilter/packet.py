"""A model packet as the rules of one hook see it."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, TypeAlias

from msgspec import Struct

from .field import Field, joined

Hook: TypeAlias = Literal["ingress", "prerouting", "input", "forward", "output", "postrouting", "egress"]
# What a packet is to the table families: IPv4, IPv6 or ARP.
Layer: TypeAlias = Literal[4, 6, "arp"]
# The kernel's numbers (enum nf_inet_hooks, without ingress).
HOOKS: tuple[Hook, ...] = ("prerouting", "input", "forward", "output", "postrouting")

ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58

# The ICMPv6 types that resolve neighbours. Their hop limit is 255 (RFC 4861, 7.1), and the kernel does not
# track their connections.
NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT = 135, 136
_HOP_LIMIT = b"\xff"

# Bits of a connection's state: NF_CT_STATE_BIT, used by nft and the match `conntrack`.
INVALID, ESTABLISHED, RELATED, NEW, UNTRACKED = 1, 2, 4, 8, 0x40
# IPS_SRC_NAT and IPS_DST_NAT.
SNAT, DNAT = 0x10, 0x20
# The known status bits of a connection: whether it was expected, was answered, and is translated.
_STATUS = 0x1 | 0x2 | SNAT | DNAT
_SEEN_REPLY = 0x2

# Types of an address: RTN_UNICAST, RTN_LOCAL and RTN_MULTICAST.
UNICAST, LOCAL, MULTICAST = 1, 2, 5
# PACKET_HOST, PACKET_BROADCAST and PACKET_MULTICAST.
_TO_HOST, _TO_ALL, _TO_MANY = 0, 1, 2

ARP_REQUEST, ARP_REPLY = 1, 2
# ARPHRD_ETHER.
ETHERNET = 1

# Hardware and protocol types, and the sizes of their addresses.
_ARP_OF_ETHERNET = bytes([0, ETHERNET, 8, 0, 6, 4])

_SYN, _ACK = 0x02, 0x10
_OPEN16 = Field.open(2)


class PacketLink(Struct, frozen=True):
    """`kind` is the hardware type (ARPHRD_*): for containers' links and most others, Ethernet."""

    name: str
    index: int
    kind: int = ETHERNET


class Packet(Struct, frozen=True, kw_only=True, dict=True):
    """`state` is the state of its connection; `INVALID` also where connections are not tracked yet.

    `ports` are source and destination; `icmp` is the type of an ICMP packet. `nat` are status bits of its
    connection. With `arp`, it is an ARP packet with this operation and these addresses.
    """

    family: Literal[4, 6]
    hook: Hook
    iif: PacketLink | None
    oif: PacketLink | None
    source: Field
    destination: Field
    source_type: int = UNICAST
    destination_type: int = UNICAST
    protocol: int = TCP
    ports: tuple[Field, Field] = (_OPEN16, _OPEN16)
    icmp: int | None = None
    arp: int | None = None
    state: int = NEW
    is_tracked: bool = True
    is_reply: bool = False
    nat: int = 0

    @property
    def is_discovery(self) -> bool:
        return self.protocol == ICMPV6 and self.icmp in (NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT)

    @property
    def has_connection(self) -> bool:
        return self.is_tracked and self.state != UNTRACKED

    @property
    def hop_limit(self) -> Field:
        return Field.of(_HOP_LIMIT) if self.is_discovery else Field.open(1)

    @property
    def kind(self) -> int | None:
        """The packet type (PACKET_*) as the receiving link set it; None if no link received it."""
        if self.iif is None:
            return None
        if self.arp == ARP_REQUEST:
            return _TO_ALL
        return _TO_MANY if self.destination_type == MULTICAST else _TO_HOST

    @cached_property
    def link_header(self) -> Field:
        """The Ethernet header, without its addresses."""
        return joined(Field.open(12), self.ethertype)

    @property
    def layer(self) -> Layer:
        return self.family if self.arp is None else "arp"

    @property
    def ethertype(self) -> Field:
        if self.arp is not None:
            return Field.of(b"\x08\x06")
        return Field.of(b"\x08\x00" if self.family == 4 else b"\x86\xdd")

    @cached_property
    def network_header(self) -> Field:
        if self.arp is not None:
            return joined(
                Field.of(_ARP_OF_ETHERNET), Field.of(self.arp.to_bytes(2, "big")),
                Field.open(6), self.source, Field.open(6), self.destination,
            )  # fmt: skip
        if self.family == 4:
            fragment = Field(2, 0, 0x3FFF)
            return joined(
                Field(1, 0x45, 0xFF), Field.open(1), Field.open(4), fragment, Field.open(1),
                Field.of(bytes([self.protocol])), Field.open(2), self.source, self.destination,
            )  # fmt: skip
        return joined(
            Field(4, 0x60000000, 0xF0000000), Field.open(2), Field.of(bytes([self.protocol])),
            self.hop_limit, self.source, self.destination,
        )  # fmt: skip

    @cached_property
    def transport_header(self) -> Field:
        if self.icmp is not None:
            return joined(Field.of(bytes([self.icmp, 0])), Field.open(6))
        ports = joined(*self.ports)
        if self.protocol == TCP:
            return joined(ports, Field.open(9), self.tcp_flags, Field.open(6))
        return joined(ports, Field.open(4))

    @property
    def tcp_flags(self) -> Field:
        if self.state == ESTABLISHED:
            return Field(1, _ACK, _ACK)
        return Field.of(bytes([_SYN]))

    @property
    def status(self) -> Field:
        replied = _SEEN_REPLY if self.state == ESTABLISHED else 0
        known = _STATUS & ~SNAT if self.nat & SNAT else _STATUS
        return Field(4, self.nat & DNAT | replied, known)


class Marks:
    """The marks that rules set on a packet and its connection for later rules."""

    def __init__(self, packet_state: int = NEW) -> None:
        self.packet = Field.number(0)
        # On a connection in progress, rules may have set them before.
        self.connection = Field.number(0) if packet_state == NEW else Field.open(4, clear=False)
        self.is_untracked = False

    def set_packet(self, value: Field, *, sure: bool) -> None:
        self.packet = value if sure else Field.open(4, clear=False)

    def set_connection(self, value: Field, *, sure: bool) -> None:
        self.connection = value if sure else Field.open(4, clear=False)
