"""Reads tables, chains and rules of nftables from the kernel, and deletes chains.

libnftables, which knows nft's language, writes tables and rules. To answer a query about a table, it loads
all elements (240 ms for 50,000), and starts again whenever a program changes a table meanwhile. The kernel
itself answers in 0.03 ms.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct as Record

from ..errors import Malformed, Refused
from ..values import shown_ip
from .connection import NetlinkConnection
from .message import ACK, Attributes, each, nested, text

SUBSYSTEM = 10 << 8
_GET_TABLE, _GET_CHAIN, _GET_RULE = SUBSYSTEM | 1, SUBSYSTEM | 4, SUBSYSTEM | 7
_GET_SET, GET_ELEMENT, _GET_OBJECT, _GET_FLOWTABLE = (
    SUBSYSTEM | 10, SUBSYSTEM | 13, SUBSYSTEM | 19, SUBSYSTEM | 23,
)  # fmt: skip
NEW_GENERATION = SUBSYSTEM | 15
_GENERATION_ID, _GENERATION_PROCESS, _GENERATION_PROGRAM = 1, 2, 3
_DELETE_CHAIN, _DELETE_SET = SUBSYSTEM | 5, SUBSYSTEM | 11
_BEGIN, _END = 0x10, 0x11
_BATCH = bytes([0, 0, 0, 10])  # of the subsystem nftables
FAMILIES = {"inet": 1, "ip": 2, "arp": 3, "netdev": 5, "bridge": 7, "ip6": 10}

_TABLE_NAME, _TABLE_USERDATA = 1, 6
_SET_TABLE, _SET_NAME, _SET_FLAGS = 1, 2, 3
_LIST_TABLE, _LIST_SET, LIST_ELEMENTS = 1, 2, 3
_COMMENT = 0


class Chain(Record, frozen=True):
    """A chain and the set of its name, in a form that is equal for equal chains, and how often it is referred
    to.

    `hook` is None if only the set exists, and `members` is None if only the chain exists.
    """

    hook: tuple[bytes | None, ...] | None
    rules: tuple[object, ...]
    members: tuple[bytes | None, ...] | None
    use: int = 0

    @property
    def is_led_to(self) -> bool:
        """The kernel's count includes the chain's own rules, and every rule and element that leads to it."""
        return self.use > len(self.rules)

    @property
    def content(self) -> tuple[object, ...]:
        return self.hook, self.rules, self.members


class Generation(Record, frozen=True):
    """The rules after a transaction, and the thread that made it, numbered as in the first PID namespace."""

    number: int
    process: int
    program: str


def decode_generation(payload: bytes) -> Generation:
    found = Attributes(payload[4:])
    return Generation(
        number=big(found, _GENERATION_ID),
        process=big(found, _GENERATION_PROCESS),
        program=found.text(_GENERATION_PROGRAM) or "",
    )


def _header(family: str) -> bytes:
    return bytes([FAMILIES[family], 0, 0, 0])


def read_table(connection: NetlinkConnection, family: str, name: str) -> str | None:
    """Returns the comment of a table, empty without one; None if there is no such table."""
    answer = answer_to(connection, _GET_TABLE, _header(family) + text(_TABLE_NAME, name))
    if answer is None:
        return None
    return _comment(Attributes(answer[4:]).raw(_TABLE_USERDATA) or b"")


def _comment(data: bytes) -> str:
    """Reads a comment, which is not in netlink attributes: a type byte, a length byte."""
    while len(data) >= 2:
        kind, length = data[0], data[1]
        if kind == _COMMENT:
            return data[2 : 2 + length].rstrip(b"\0").decode("utf-8", "replace")
        data = data[2 + length :]
    return ""


def set_attributes(connection: NetlinkConnection, family: str, table: str, name: str) -> Attributes | None:
    answer = answer_to(
        connection, _GET_SET, _header(family) + text(_SET_TABLE, table) + text(_SET_NAME, name)
    )
    return None if answer is None else Attributes(answer[4:])


# For each part of a table: the query, the attribute of its name, and those that define it. Handles, counters
# and use counts are left out.
_CHAIN_NAME, _CHAIN_HOOK, _CHAIN_USE = 3, 4, 6
_CHAIN_PARTS = (_CHAIN_HOOK, 5, 7, 10)
_SET_PARTS = (3, 4, 5, 6, 7, 11, 12)
_PARTS = (
    ("chain", _GET_CHAIN, _CHAIN_NAME, _CHAIN_PARTS),
    ("set", _GET_SET, _SET_NAME, _SET_PARTS),
    ("object", _GET_OBJECT, 2, (3,)),
    ("flowtable", _GET_FLOWTABLE, 2, (3, 7)),
)
_TABLE_FLAGS, _PART_TABLE = 2, 1
_RULE_CHAIN, _RULE_EXPRESSIONS, _RULE_USERDATA = 2, 4, 7
_EXPRESSION_NAME, _EXPRESSION_DATA = 1, 2
_COUNTING = frozenset({"counter", "quota", "last"})
_ANONYMOUS = 0x1
_ELEMENT_PARTS = (1, 2, 3, 10)  # key, value, flags, end of the key


def read_structure(
    connection: NetlinkConnection, family: str, table: str, beside: tuple[str, ...] = ()
) -> dict[str, object] | None:
    """Returns a table without the elements of its named sets: by part, a value that is equal for equal parts.

    Leaves out chains and sets whose names begin with one of `beside`, and the unnamed sets in rules of such
    chains.
    """
    answer = answer_to(connection, _GET_TABLE, _header(family) + text(_TABLE_NAME, table))
    if answer is None:
        return None
    rules: dict[str, list[object]] = {}
    apart = b""
    for found in _dumped(connection, _GET_RULE, family, table):
        chain = found.text(_RULE_CHAIN) or ""
        if chain.startswith(beside):
            apart += found.raw(_RULE_EXPRESSIONS) or b""
        else:
            rules.setdefault(chain, []).append(_rule(found))
    parts: dict[str, object] = {"flags": Attributes(answer[4:]).raw(_TABLE_FLAGS)}
    for what, kind, name_attribute, telling in _PARTS:
        for found in _dumped(connection, kind, family, table):
            name = found.text(name_attribute) or ""
            nameless = what == "set" and bool(big(found, _SET_FLAGS) & _ANONYMOUS)
            if nameless and b"%s\0" % name.encode() in apart:
                continue
            if what in ("chain", "set") and name.startswith(beside):
                continue
            parts[f"{what} {name}"] = (
                _elements(connection, family, table, name)
                if nameless
                else tuple(found.raw(attribute) for attribute in telling)
            )
    for chain, listed in rules.items():
        parts[f"chain {chain}"] = (parts.get(f"chain {chain}"), tuple(listed))
    return parts


def read_plain_chains(connection: NetlinkConnection, family: str, table: str) -> frozenset[str]:
    """Returns the names of a table's chains that rules can lead to: the kernel itself calls the others."""
    found = _dumped(connection, _GET_CHAIN, family, table)
    return frozenset(one.text(_CHAIN_NAME) or "" for one in found if _CHAIN_HOOK not in one)


def read_chain(connection: NetlinkConnection, family: str, table: str, name: str) -> Chain | None:
    """Reads a chain with its rules and the set of its name, independent of how many others there are.

    These are three queries, and a program may change it in between: repeat them if something differs.
    """
    place = _header(family) + text(_PART_TABLE, table)
    members = set_attributes(connection, family, table, name)
    shown = None if members is None else tuple(members.raw(part) for part in _SET_PARTS)
    answer = answer_to(connection, _GET_CHAIN, place + text(_CHAIN_NAME, name))
    if answer is None:
        return None if shown is None else Chain(hook=None, rules=(), members=shown)
    found = Attributes(answer[4:])
    return Chain(
        hook=tuple(found.raw(part) for part in _CHAIN_PARTS),
        rules=read_rules(connection, family, table, name),
        members=shown,
        use=big(found, _CHAIN_USE),
    )


def read_rules(connection: NetlinkConnection, family: str, table: str, chain: str) -> tuple[object, ...]:
    """Returns a chain's rules; empty if there is no such chain."""
    return tuple(map(_rule, _rules(connection, family, table, chain)))


def read_spelled_rules(
    connection: NetlinkConnection, family: str, table: str, chain: str
) -> tuple[str, ...] | None:
    """Returns a chain's rules in nft's language; None without rules, or if the form of one is unknown."""
    listed = _rules(connection, family, table, chain)
    found = [spelled(one.raw(_RULE_EXPRESSIONS) or b"") for one in listed]
    rules = tuple(rule for rule in found if rule is not None)
    return rules if rules and len(rules) == len(found) else None


def read_comments(connection: NetlinkConnection, family: str, table: str, chain: str) -> list[str]:
    """Returns the comments of a chain's rules, in their order."""
    found = (_comment(one.raw(_RULE_USERDATA) or b"") for one in _rules(connection, family, table, chain))
    return [it for it in found if it]


def _rules(connection: NetlinkConnection, family: str, table: str, chain: str) -> list[Attributes]:
    question = _header(family) + text(_PART_TABLE, table) + text(_RULE_CHAIN, chain)
    try:
        listed = [Attributes(rule[4:]) for rule in connection.dump(_GET_RULE, question)]
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return []
        raise
    # Some kernels take the chain only as a hint.
    return [one for one in listed if (one.text(_PART_TABLE), one.text(_RULE_CHAIN)) == (table, chain)]


def delete_chain(connection: NetlinkConnection, family: str, table: str, name: str, *, members: bool) -> None:
    """Deletes a chain with its rules and, with `members`, the set of its name, in one transaction."""
    place = _header(family) + text(_PART_TABLE, table)
    requests = [(_DELETE_CHAIN, 0, place + text(_CHAIN_NAME, name))]
    if members:
        requests.append((_DELETE_SET, 0, place + text(_SET_NAME, name)))
    transact(connection, requests)


def _dumped(connection: NetlinkConnection, kind: int, family: str, table: str) -> list[Attributes]:
    listed = connection.dump(kind, _header(family) + text(_PART_TABLE, table))
    found = [Attributes(payload[4:]) for payload in listed]
    # Some kernels take the table only as a hint.
    return [one for one in found if one.text(_PART_TABLE) == table]


def _rule(found: Attributes) -> object:
    return _expressions(found.raw(_RULE_EXPRESSIONS) or b""), found.raw(_RULE_USERDATA)


@lru_cache(maxsize=1024)
def _expressions(data: bytes) -> tuple[object, ...]:
    """Returns a rule without its counters. Rules of a chain that every attachment needs are read once."""
    found = [expression for _, expression in each(data)]
    names = [Attributes(expression).text(_EXPRESSION_NAME) for expression in found]
    return tuple(
        name if name in _COUNTING else expression for name, expression in zip(names, found, strict=True)
    )


def _elements(connection: NetlinkConnection, family: str, table: str, name: str) -> object:
    question = element_list(family, table, name)
    found = [
        tuple(Attributes(element).raw(part) for part in _ELEMENT_PARTS)
        for payload in connection.dump(GET_ELEMENT, question)
        for _, element in each(Attributes(payload[4:]).raw(LIST_ELEMENTS) or b"")
    ]
    return tuple(sorted(found, key=repr))


def element_list(family: str, table: str, name: str, *elements: bytes) -> bytes:
    head = _header(family) + text(_LIST_TABLE, table) + text(_LIST_SET, name)
    return head + nested(LIST_ELEMENTS, *elements) if elements else head


def transact(connection: NetlinkConnection, requests: Sequence[tuple[int, int, bytes]]) -> None:
    *others, (kind, flags, payload) = requests
    connection.transact(
        [(_BEGIN, 0, _BATCH), *others, (kind, flags | ACK, payload), (_END, 0, _BATCH)],
    )


def big(found: Attributes, kind: int) -> int:
    data = found.raw(kind)
    if data is not None and len(data) != 4:
        raise Malformed(f"attribute {kind} has {len(data)} bytes, not 4")
    return int.from_bytes(data or b"", "big")


def answer_to(connection: NetlinkConnection, kind: int, question: bytes) -> bytes | None:
    try:
        return connection.ask(kind, question)
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return None
        raise


_VALUE, _VERDICT, _CODE = 1, 2, 1
_COMPARED = 3
_MASK = 4
_BASE, _OFFSET, _LENGTH = 2, 3, 4
_NETWORK_HEADER = 1
_RETURN = (-5 & 0xFFFFFFFF).to_bytes(4, "big")

# For the number of a family: its name, the offset of the destination in a packet, and its size.
_BY_FAMILY = {b"\x02": ("ip", 16, 4), b"\x0a": ("ip6", 24, 16)}
_BY_DESTINATION = ["meta", "cmp", "payload", "cmp", "immediate"]
_BY_MASK = ["meta", "cmp", "payload", "bitwise", "cmp", "immediate"]


def spelled(expressions: bytes) -> str | None:
    """Returns a rule in nft's language; None if it has another form than the chains of networks.

    libnftables can list any rule, but loads every element of the table for it, and its spelling depends on
    its version. Only few forms occur here: return by destination, and masquerade.

    The text may be wrong about parts that no rule of ours uses, such as an inverted comparison: the caller
    compares the text, once parsed, with the rule in the kernel.
    """
    parts = [Attributes(payload) for _, payload in each(expressions)]
    names = [part.text(_EXPRESSION_NAME) for part in parts]
    if names == ["masq"]:
        return "masquerade"
    if names not in (_BY_DESTINATION, _BY_MASK):
        return None
    data = [part.nested(_EXPRESSION_DATA) or Attributes(b"") for part in parts]
    try:
        return _by_destination(data)
    except Malformed:
        return None


def _by_destination(data: Sequence[Attributes]) -> str | None:
    _, family, payload, *masks, compared, verdict = data
    found = _BY_FAMILY.get(_value(family, _COMPARED))
    if found is None or _verdict(verdict) != _RETURN:
        return None
    word, offset, size = found
    if (_number(payload, _BASE), _number(payload, _OFFSET)) != (_NETWORK_HEADER, offset):
        return None
    length = _number(payload, _LENGTH)
    address = _value(compared, _COMPARED)
    if len(address) != length or length > size:
        return None
    prefix = 8 * length if not masks else _prefix(_value(masks[0], _MASK), length)
    if prefix is None:
        return None
    return f"{word} daddr {shown_ip(address.ljust(size, bytes(1)))}/{prefix} return"


def _prefix(mask: bytes, length: int) -> int | None:
    bits = f"{int.from_bytes(mask, 'big'):0{8 * length}b}"
    prefix = bits.count("1")
    return prefix if len(mask) == length and bits == "1" * prefix + "0" * (8 * length - prefix) else None


def _value(of: Attributes, kind: int) -> bytes:
    nest = of.nested(kind)
    return b"" if nest is None else nest.raw(_VALUE) or b""


def _verdict(of: Attributes) -> bytes:
    nest = of.nested(_EXPRESSION_DATA)
    verdict = None if nest is None else nest.nested(_VERDICT)
    return b"" if verdict is None else verdict.raw(_CODE) or b""


def _number(of: Attributes, kind: int) -> int:
    return int.from_bytes(of.raw(kind) or b"", "big")
