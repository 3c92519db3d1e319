"""Questions to nftables about a table, a chain, a set, or elements; and elements that come and go.

Tables and rules go through libnftables, which knows the language. It answers a question about one element,
or about a table, by loading all elements there are (240 ms at 50,000), and starts again whenever
somebody changes a table meanwhile. The kernel itself answers in 0.03 ms, and takes elements in 0.05
where the library needs 0.2.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct as Record

from ..errors import Malformed, Refused
from .attributes import Attributes, each, nested, text
from .attributes import raw as attribute
from .connection import Connection
from .message import ACK, CREATE, EXCLUSIVE
from .nft_rules import spelled
from .nft_types import Form, forms_named, forms_of, pack, show

_SUBSYSTEM = 10 << 8
_GET_TABLE, _GET_CHAIN, _GET_RULE = _SUBSYSTEM | 1, _SUBSYSTEM | 4, _SUBSYSTEM | 7
_GET_SET, _GET_ELEMENT, _GET_OBJECT, _GET_FLOWTABLE = (
    _SUBSYSTEM | 10, _SUBSYSTEM | 13, _SUBSYSTEM | 19, _SUBSYSTEM | 23,
)  # fmt: skip
NEW_GENERATION = _SUBSYSTEM | 15
_GENERATION_ID, _GENERATION_PROCESS, _GENERATION_PROGRAM = 1, 2, 3
NEW_ELEMENT, DELETE_ELEMENT = _SUBSYSTEM | 12, _SUBSYSTEM | 14
_DELETE_CHAIN, _DELETE_SET = _SUBSYSTEM | 5, _SUBSYSTEM | 11
_BEGIN, _END = 0x10, 0x11
_BATCH = bytes([0, 0, 0, 10])  # of the subsystem nftables
FAMILIES = {"inet": 1, "ip": 2, "arp": 3, "netdev": 5, "bridge": 7, "ip6": 10}

_TABLE_NAME, _TABLE_USERDATA = 1, 6
_SET_TABLE, _SET_NAME, _SET_FLAGS, _SET_KEY_TYPE, _SET_KEY_LENGTH, _SET_DATA_TYPE, _SET_DATA_LENGTH = range(
    1, 8
)
_LIST_TABLE, _LIST_SET, _LIST_ELEMENTS = 1, 2, 3
_ITEM = 1
_ELEMENT_KEY, _ELEMENT_DATA, _ELEMENT_EXPIRATION, _ELEMENT_EXPRESSION = 1, 2, 5, 7
_EXPRESSION_DATA, _COUNTER_BYTES, _COUNTER_PACKETS = 2, 1, 2
_VALUE, _VERDICT = 1, 2
_VERDICT_CODE, _VERDICT_CHAIN = 1, 2
_INTERVAL = 0x4
_VERDICT_TYPE = 0xFFFFFF00
_COMMENT = 0
_VERDICTS = {0: "drop", 1: "accept", -1: "continue", -3: "jump", -4: "goto", -5: "return"}


class Set(Record, frozen=True):
    """What a set's keys are made of, and its values, if it is a map. None: a type that we do not know."""

    key: tuple[Form, ...] | None
    value: tuple[Form, ...] | None
    verdicts: bool
    interval: bool
    is_map: bool


class Chain(Record, frozen=True):
    """A chain and the set of its name: what is equal for equals, and how often somebody refers to it.

    `hook` is None if there is no such chain but only a set, and `members` if there is no such set.
    """

    hook: tuple[bytes | None, ...] | None
    rules: tuple[object, ...]
    members: tuple[bytes | None, ...] | None
    use: int = 0

    @property
    def is_led_to(self) -> bool:
        """The kernel counts a chain's own rules, and every rule and element that leads to it."""
        return self.use > len(self.rules)

    @property
    def content(self) -> tuple[object, ...]:
        return self.hook, self.rules, self.members


class Element(Record, frozen=True):
    value: tuple[str, ...] | None = None
    verdict: str | None = None


_NO_DATA = Element()


class Generation(Record, frozen=True):
    """The rules after a transaction, and whose it was: a thread, numbered as in the first PID namespace."""

    number: int
    process: int
    program: str


def decode_generation(payload: bytes) -> Generation:
    found = Attributes(payload[4:])
    return Generation(
        number=_big(found, _GENERATION_ID),
        process=_big(found, _GENERATION_PROCESS),
        program=found.text(_GENERATION_PROGRAM) or "",
    )


def _header(family: str) -> bytes:
    return bytes([FAMILIES[family], 0, 0, 0])


def read_table(connection: Connection, family: str, name: str) -> str | None:
    """The comment of a table, empty if it has none; None if there is no such table."""
    answer = _answer(connection, _GET_TABLE, _header(family) + text(_TABLE_NAME, name))
    if answer is None:
        return None
    return _comment(Attributes(answer[4:]).raw(_TABLE_USERDATA) or b"")


def _comment(data: bytes) -> str:
    """Not netlink attributes: a byte for the kind, a byte for the length."""
    while len(data) >= 2:
        kind, length = data[0], data[1]
        if kind == _COMMENT:
            return data[2 : 2 + length].rstrip(b"\0").decode("utf-8", "replace")
        data = data[2 + length :]
    return ""


def read_set(connection: Connection, family: str, table: str, name: str) -> Set | None:
    found = _set(connection, family, table, name)
    if found is None:
        return None
    data_type = _big(found, _SET_DATA_TYPE)
    return Set(
        key=forms_of(_big(found, _SET_KEY_TYPE)),
        value=None if data_type in (0, _VERDICT_TYPE) else forms_of(data_type),
        verdicts=data_type == _VERDICT_TYPE,
        interval=bool(_big(found, _SET_FLAGS) & _INTERVAL),
        is_map=data_type != 0,
    )


def plain_set(types: str) -> Set | None:
    """A set of such keys as nft spells their types, `ifname . ipv4_addr`; None if we do not know one."""
    forms = forms_named(types)
    if forms is None:
        return None
    return Set(key=forms, value=None, verdicts=False, interval=False, is_map=False)


def _set(connection: Connection, family: str, table: str, name: str) -> Attributes | None:
    answer = _answer(connection, _GET_SET, _header(family) + text(_SET_TABLE, table) + text(_SET_NAME, name))
    return None if answer is None else Attributes(answer[4:])


# Of what a table is made of: the question, the attribute of its name, and those that make it what it is.
# Handles, counters and how often something is used are left out.
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
_EXPRESSION_NAME = 1
_COUNTING = frozenset({"counter", "quota", "last"})
_ANONYMOUS = 0x1
_ELEMENT_PARTS = (1, 2, 3, 10)  # key, value, flags, end of the key


def read_structure(
    connection: Connection, family: str, table: str, beside: tuple[str, ...] = ()
) -> dict[str, object] | None:
    """A table without the elements of its named sets: by part, what is equal for equals.

    Chains and sets whose names begin with one of `beside` are left out, and so are the sets without a name
    that rules of such chains have.
    """
    answer = _answer(connection, _GET_TABLE, _header(family) + text(_TABLE_NAME, table))
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
            nameless = what == "set" and bool(_big(found, _SET_FLAGS) & _ANONYMOUS)
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


def read_plain_chains(connection: Connection, family: str, table: str) -> frozenset[str]:
    """The names of the chains of a table that others may lead to: the kernel calls the rest itself."""
    found = _dumped(connection, _GET_CHAIN, family, table)
    return frozenset(one.text(_CHAIN_NAME) or "" for one in found if _CHAIN_HOOK not in one)


def read_chain(connection: Connection, family: str, table: str, name: str) -> Chain | None:
    """A chain with its rules and the set of its name, however many others there are.

    These are three questions, and somebody may change it in between: what differs is to be asked again.
    """
    place = _header(family) + text(_PART_TABLE, table)
    members = _set(connection, family, table, name)
    shown = None if members is None else tuple(members.raw(part) for part in _SET_PARTS)
    answer = _answer(connection, _GET_CHAIN, place + text(_CHAIN_NAME, name))
    if answer is None:
        return None if shown is None else Chain(hook=None, rules=(), members=shown)
    found = Attributes(answer[4:])
    return Chain(
        hook=tuple(found.raw(part) for part in _CHAIN_PARTS),
        rules=read_rules(connection, family, table, name),
        members=shown,
        use=_big(found, _CHAIN_USE),
    )


def read_rules(connection: Connection, family: str, table: str, chain: str) -> tuple[object, ...]:
    """A chain's rules; none if there is no such chain."""
    return tuple(map(_rule, _rules(connection, family, table, chain)))


def read_spelled_rules(connection: Connection, family: str, table: str, chain: str) -> tuple[str, ...] | None:
    """A chain's rules in nft's language; None if there are none, or one is of a form that we do not know."""
    listed = _rules(connection, family, table, chain)
    found = [spelled(one.raw(_RULE_EXPRESSIONS) or b"") for one in listed]
    rules = tuple(rule for rule in found if rule is not None)
    return rules if rules and len(rules) == len(found) else None


def read_comments(connection: Connection, family: str, table: str, chain: str) -> list[str]:
    """Of a chain's rules, in their order, as far as they have some."""
    found = (_comment(one.raw(_RULE_USERDATA) or b"") for one in _rules(connection, family, table, chain))
    return [it for it in found if it]


def _rules(connection: Connection, family: str, table: str, chain: str) -> list[Attributes]:
    question = _header(family) + text(_PART_TABLE, table) + text(_RULE_CHAIN, chain)
    try:
        listed = [Attributes(rule[4:]) for rule in connection.dump(_GET_RULE, question)]
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return []
        raise
    # Not every kernel takes the chain for more than a hint.
    return [one for one in listed if (one.text(_PART_TABLE), one.text(_RULE_CHAIN)) == (table, chain)]


def delete_chain(connection: Connection, family: str, table: str, name: str, *, members: bool) -> None:
    """A chain with its rules and, with `members`, the set of its name, at once."""
    place = _header(family) + text(_PART_TABLE, table)
    requests = [(_DELETE_CHAIN, 0, place + text(_CHAIN_NAME, name))]
    if members:
        requests.append((_DELETE_SET, 0, place + text(_SET_NAME, name)))
    _transact(connection, requests)


def _dumped(connection: Connection, kind: int, family: str, table: str) -> list[Attributes]:
    listed = connection.dump(kind, _header(family) + text(_PART_TABLE, table))
    found = [Attributes(payload[4:]) for payload in listed]
    # Not every kernel takes the table for more than a hint.
    return [one for one in found if one.text(_PART_TABLE) == table]


def _rule(found: Attributes) -> object:
    return _expressions(found.raw(_RULE_EXPRESSIONS) or b""), found.raw(_RULE_USERDATA)


@lru_cache(maxsize=1024)
def _expressions(data: bytes) -> tuple[object, ...]:
    """Without what counts. Those of a chain that every attachment asks for are read once."""
    found = [expression for _, expression in each(data)]
    names = [Attributes(expression).text(_EXPRESSION_NAME) for expression in found]
    return tuple(
        name if name in _COUNTING else expression for name, expression in zip(names, found, strict=True)
    )


def _elements(connection: Connection, family: str, table: str, name: str) -> object:
    question = _list(family, table, name)
    found = [
        tuple(Attributes(element).raw(part) for part in _ELEMENT_PARTS)
        for payload in connection.dump(_GET_ELEMENT, question)
        for _, element in each(Attributes(payload[4:]).raw(_LIST_ELEMENTS) or b"")
    ]
    return tuple(sorted(found, key=repr))


def read_element(
    connection: Connection, family: str, table: str, name: str, of: Set, key: Sequence[str]
) -> Element | None:
    """The element that a set has under a key; None if it has none, or if the set is gone."""
    question = _list(family, table, name, _key(pack(of.key or (), key)))
    answer = _answer(connection, _GET_ELEMENT, question)
    if answer is None:
        return None
    listed = Attributes(answer[4:]).raw(_LIST_ELEMENTS) or b""
    for _, element in each(listed):
        data = Attributes(element).nested(_ELEMENT_DATA)
        return _NO_DATA if data is None else _decoded(data, of)
    return None


def are_there(connection: Connection, items: Sequence[Item]) -> bool:
    """Whether all elements are there just so, by one question for many: it costs a third of one for each."""
    for batch in _batches(items, longest=_ANSWERS):
        wanted = {item.key: item.data for item in batch}
        question = _list(*batch[0].place, *map(_key, wanted))
        try:
            answers = connection.ask_for_several(_GET_ELEMENT, question)
        except Refused as refused:
            if refused.errno == errno.ENOENT:
                return False
            raise
        for answer in answers:
            for _, element in each(Attributes(answer[4:]).raw(_LIST_ELEMENTS) or b""):
                parts = Attributes(element)
                key = Attributes(parts.raw(_ELEMENT_KEY) or b"").raw(_VALUE) or b""
                if wanted.get(key) == (parts.raw(_ELEMENT_DATA) or b""):
                    del wanted[key]
        if wanted:
            return False
    return True


def read_elements(
    connection: Connection, family: str, table: str, name: str
) -> dict[tuple[str, ...], Element] | None:
    """All elements of a set, by key; None if there is no such set, or if we do not know its types.

    For one of them, ask for it: this is for comparing many.
    """
    of = read_set(connection, family, table, name)
    if of is None or of.key is None or of.interval or (of.is_map and of.value is None and not of.verdicts):
        return None
    question = _list(family, table, name)
    found: dict[tuple[str, ...], Element] = {}
    try:
        listed = connection.dump(_GET_ELEMENT, question)
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return None
        raise
    for payload in listed:
        for _, element in each(Attributes(payload[4:]).raw(_LIST_ELEMENTS) or b""):
            parts = Attributes(element)
            key, data = parts.nested(_ELEMENT_KEY), parts.nested(_ELEMENT_DATA)
            if key is not None:
                found[show(of.key, key.raw(_VALUE) or b"")] = _NO_DATA if data is None else _decoded(data, of)
    return found


class Counted(Record, frozen=True):
    """How many packets have met an element, and in how many milliseconds it goes, if none does before."""

    packets: int
    bytes: int
    expires: int


def read_counted(
    connection: Connection, family: str, table: str, name: str
) -> dict[tuple[str, ...], Counted] | None:
    """The elements of a set that count, by key; None if there is no such set, or of types unknown to us."""
    of = read_set(connection, family, table, name)
    if of is None or of.key is None or of.interval:
        return None
    found: dict[tuple[str, ...], Counted] = {}
    try:
        listed = connection.dump(_GET_ELEMENT, _list(family, table, name))
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return None
        raise
    for payload in listed:
        for _, element in each(Attributes(payload[4:]).raw(_LIST_ELEMENTS) or b""):
            parts = Attributes(element)
            key, expression = parts.nested(_ELEMENT_KEY), parts.nested(_ELEMENT_EXPRESSION)
            if key is None or expression is None or expression.text(_EXPRESSION_NAME) != "counter":
                continue
            counter = expression.nested(_EXPRESSION_DATA) or Attributes(b"")
            found[show(of.key, key.raw(_VALUE) or b"")] = Counted(
                packets=_long(counter, _COUNTER_PACKETS),
                bytes=_long(counter, _COUNTER_BYTES),
                expires=_long(parts, _ELEMENT_EXPIRATION),
            )
    return found


class Item(NamedTuple):
    """An element as the kernel has it: of which set, its key, and what the set maps it to, or nothing."""

    place: tuple[str, str, str]  # family, table, set
    key: bytes
    data: bytes = b""

    @property
    def packed(self) -> bytes:
        return _key(self.key, nested(_ELEMENT_DATA, self.data) if self.data else b"")


_VERDICT_CODES = {word: code for code, word in _VERDICTS.items()}


def data_of(of: Set, value: Sequence[str] | None, verdict: str | None) -> bytes:
    """What a map has for a key, byte by byte as the kernel tells it: of a verdict, the nest has no flag."""
    if verdict is not None:
        word, _, chain = verdict.partition(" ")
        code = attribute(_VERDICT_CODE, (_VERDICT_CODES[word] & 0xFFFFFFFF).to_bytes(4, "big"))
        return attribute(_VERDICT, code + (text(_VERDICT_CHAIN, chain) if chain else b""))
    return b"" if value is None else attribute(_VALUE, pack(of.value or (), value))


def _key(key: bytes, data: bytes = b"") -> bytes:
    return nested(_ITEM, nested(_ELEMENT_KEY, attribute(_VALUE, key)), data)


def _list(family: str, table: str, name: str, *elements: bytes) -> bytes:
    head = _header(family) + text(_LIST_TABLE, table) + text(_LIST_SET, name)
    return head + nested(_LIST_ELEMENTS, *elements) if elements else head


# An attribute's length has 16 bits, and no element takes more than 400 bytes.
_ELEMENTS = 150
# Each answer takes the socket's buffer 768 bytes, of 208 KiB.
_ANSWERS = 64


def _batches(items: Sequence[Item], longest: int) -> Iterator[list[Item]]:
    """By set, so many at a time."""
    by_place: dict[tuple[str, str, str], list[Item]] = {}
    for item in items:
        by_place.setdefault(item.place, []).append(item)
    for some in by_place.values():
        for start in range(0, len(some), longest):
            yield some[start : start + longest]


def change_elements(connection: Connection, kind: int, items: Sequence[Item]) -> None:
    """Adds or deletes elements, all or none. What is to be added must not be there, and the reverse.

    Raises the first `Refused`.
    """
    flags = CREATE | EXCLUSIVE if kind == NEW_ELEMENT else 0
    batches = _batches(items, longest=_ELEMENTS)
    _transact(
        connection,
        [(kind, flags, _list(*batch[0].place, *(item.packed for item in batch))) for batch in batches],
    )


def _transact(connection: Connection, requests: Sequence[tuple[int, int, bytes]]) -> None:
    *others, (kind, flags, payload) = requests
    connection.transact(
        [(_BEGIN, 0, _BATCH), *others, (kind, flags | ACK, payload), (_END, 0, _BATCH)],
    )


def _decoded(data: Attributes, of: Set) -> Element:
    verdict = data.nested(_VERDICT)
    if verdict is not None:
        code = _big(verdict, _VERDICT_CODE)
        words = _VERDICTS.get(code - (1 << 32) if code >> 31 else code, str(code))
        chain = verdict.text(_VERDICT_CHAIN)
        return Element(verdict=f"{words} {chain}" if chain else words)
    return Element(value=show(of.value or (), data.raw(_VALUE) or b""))


def _big(found: Attributes, kind: int) -> int:
    data = found.raw(kind)
    if data is not None and len(data) != 4:
        raise Malformed(f"attribute {kind} has {len(data)} bytes, not 4")
    return int.from_bytes(data or b"", "big")


def _long(found: Attributes, kind: int) -> int:
    return int.from_bytes(found.raw(kind) or b"", "big")


def _answer(connection: Connection, kind: int, question: bytes) -> bytes | None:
    try:
        return connection.ask(kind, question)
    except Refused as refused:
        if refused.errno == errno.ENOENT:
            return None
        raise
