"""Reads and writes the journal's rows. Every call is part of its caller's transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import astuple, fields

from ..cni import AttachmentKey
from .records import Attachment, AttachmentPlace, Operation, Port, State, typed

T = TypeVar("T")

_COLUMNS = tuple(field.name for field in fields(Attachment))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM attachment"
_INSERT = (
    f"INSERT INTO attachment ({', '.join(_COLUMNS[1:])}) VALUES ({', '.join('?' * (len(_COLUMNS) - 1))})"
)
_PLACE = "SELECT id, network, container_id, ifname, state, host_link, netns, netns_device, netns_inode"
_PORT = tuple(field.name for field in fields(Port))
_OF_KEY = "network = ? AND container_id = ? AND ifname = ?"

_OPERATION = tuple(field.name for field in fields(Operation))

# Eight megabytes: an hour of a busy node, months of a quiet one.
OPERATIONS_KEPT = 20000
# The most values in one query.
_AT_A_TIME = 500
# Uses only the index, one step per scope: there are few scopes, and very many addresses.
_SCOPES = (
    "WITH RECURSIVE known (scope) AS (SELECT min(scope) FROM address UNION ALL "
    "SELECT (SELECT min(scope) FROM address WHERE scope > known.scope) FROM known WHERE scope IS NOT NULL) "
    "SELECT scope FROM known WHERE scope IS NOT NULL"
)


class Ledger:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    # Attachments.

    def find(self, key: AttachmentKey) -> Attachment | None:
        row = self.connection.execute(f"{_SELECT} WHERE {_OF_KEY}", key).fetchone()
        return None if row is None else _attachment(row)

    def by_id(self, number: int) -> Attachment | None:
        row = self.connection.execute(f"{_SELECT} WHERE id = ?", (number,)).fetchone()
        return None if row is None else _attachment(row)

    def attachments(self, *states: State) -> Iterator[Attachment]:
        """Returns attachments in the order of their creation: all, or those in one of the states."""
        among = f" WHERE state IN ({', '.join('?' * len(states))})" if states else ""
        for row in self.connection.execute(f"{_SELECT}{among} ORDER BY id", states):
            yield _attachment(row)

    def of_container(self, container_id: str) -> list[Attachment]:
        rows = self.connection.execute(f"{_SELECT} WHERE container_id = ? ORDER BY id", (container_id,))
        return [_attachment(row) for row in rows]

    def ranks_in(self, device: int, inode: int) -> list[tuple[int, str, int]]:
        """Returns the ranks of a namespace's interfaces, each with the path and the cookie of its namespace.

        The kernel reuses the inode number of a deleted namespace, so the rows may belong to another one.
        """
        query = "SELECT rank, netns, netns_cookie FROM attachment WHERE netns_device = ? AND netns_inode = ?"
        return typed(self.connection.execute(query, (device, inode)).fetchall(), list[tuple[int, str, int]])

    def places(self, network: str | None = None) -> list[AttachmentPlace]:
        among, values = ("", ()) if network is None else (" WHERE network = ?", (network,))
        rows = self.connection.execute(f"{_PLACE} FROM attachment{among} ORDER BY id", values)
        return [_place(row) for row in rows]

    def place(self, host_link: str) -> AttachmentPlace | None:
        row = self.connection.execute(
            f"{_PLACE} FROM attachment WHERE host_link = ?", (host_link,)
        ).fetchone()
        return None if row is None else _place(row)

    def count(self) -> dict[State, int]:
        """Counts rows by indexes only: reading the rows would read all their plans."""
        counted: dict[State, int] = {"pending": 0, "committed": 0, "deleting": 0}
        (counted["committed"],) = self.connection.execute("SELECT count(*) FROM attachment").fetchone()
        unfinished = "SELECT state, count(*) FROM attachment WHERE state != 'committed' GROUP BY state"
        for state, count in self.connection.execute(unfinished):
            counted[state] = count
            counted["committed"] -= count
        return counted

    def numbers_after(self, number: int, limit: int) -> list[int]:
        """Returns the numbers of the next attachments after one, in the order of their creation."""
        query = "SELECT id FROM attachment WHERE id > ? ORDER BY id LIMIT ?"
        return [row[0] for row in self.connection.execute(query, (number, limit))]

    def has_link(self, host_link: str) -> bool:
        query = "SELECT 1 FROM attachment WHERE host_link = ?"
        return self.connection.execute(query, (host_link,)).fetchone() is not None

    def reserve(self, attachment: Attachment, ips: Sequence[bytes], ports: Sequence[Port] = ()) -> int:
        """Inserts a pending attachment with its addresses and ports in one transaction."""
        number = self.connection.execute(_INSERT, astuple(attachment)[1:]).lastrowid
        assert number is not None
        for ip in ips:
            # A resting address may be taken again, a held one may not, even if the caller asks for it.
            taken = self.connection.execute(
                "INSERT INTO address (scope, ip, attachment, allocated, released) VALUES (?, ?, ?, ?, NULL) "
                "ON CONFLICT (scope, ip) DO UPDATE SET attachment = excluded.attachment, "
                "allocated = excluded.allocated, released = NULL WHERE attachment IS NULL",
                (attachment.address_scope, ip, number, attachment.created),
            )
            if taken.rowcount != 1:
                raise sqlite3.IntegrityError(
                    f"address {ip.hex()} of {attachment.address_scope!r} is already held"
                )
        self.connection.executemany(
            f"INSERT INTO port ({', '.join(_PORT)}, attachment) VALUES (?, ?, ?, ?, ?, ?)",
            [(*astuple(port), number) for port in ports],
        )
        return number

    def set_state(self, number: int, state: State) -> None:
        self.connection.execute("UPDATE attachment SET state = ? WHERE id = ?", (state, number))

    def commit(self, number: int, netns_cookie: int) -> None:
        """Marks an attachment as committed, to the namespace with this cookie."""
        self.connection.execute(
            "UPDATE attachment SET state = 'committed', netns_cookie = ? WHERE id = ?", (netns_cookie, number)
        )

    def set_plan(self, number: int, plan: bytes) -> None:
        self.connection.execute("UPDATE attachment SET plan = ? WHERE id = ?", (plan, number))

    def forget(self, number: int, *, resting_since: float | None) -> None:
        """Deletes an attachment. Its addresses rest, or become free if no caller ever received them."""
        if resting_since is None:
            self.connection.execute("DELETE FROM address WHERE attachment = ?", (number,))
        else:
            self.connection.execute(
                "UPDATE address SET attachment = NULL, released = ? WHERE attachment = ?",
                (resting_since, number),
            )
        self.connection.execute("DELETE FROM port WHERE attachment = ?", (number,))
        self.connection.execute("DELETE FROM attachment WHERE id = ?", (number,))

    # Host ports.

    def port_holder(self, wanted: Port, container_id: str = "") -> Attachment | None:
        """Returns the holder of a port on the same address or on all addresses; a port on all conflicts with
        any.

        Of several holders, it returns one that is not the container itself.
        """
        row = self.connection.execute(
            "SELECT port.attachment FROM port JOIN attachment ON attachment.id = port.attachment "
            "WHERE protocol = ? AND host_port = ? AND length(host_ip) = ? "
            "AND (host_ip IN (?, zeroblob(length(host_ip))) OR ? = zeroblob(length(host_ip))) "
            "ORDER BY container_id = ? LIMIT 1",
            (
                wanted.protocol, wanted.host_port, len(wanted.host_ip), wanted.host_ip, wanted.host_ip,
                container_id,
            ),
        ).fetchone()  # fmt: skip
        return None if row is None else self.by_id(row[0])

    def ports(self) -> list[tuple[int, Port]]:
        """Returns all held ports by number, each with its attachment's number."""
        rows = self.connection.execute(
            f"SELECT attachment, {', '.join(_PORT)} FROM port ORDER BY host_port, protocol, host_ip"
        )
        return [(typed(row[0], int), typed(dict(zip(_PORT, row[1:], strict=True)), Port)) for row in rows]

    def count_ports(self) -> tuple[int, int]:
        """Counts the held ports of IPv4 and of IPv6 addresses."""
        counted = dict(
            self.connection.execute("SELECT length(host_ip), count(*) FROM port GROUP BY length(host_ip)")
        )
        return counted.get(4, 0), counted.get(16, 0)

    # Addresses.

    def addresses_of(self, number: int) -> list[tuple[str, bytes]]:
        query = "SELECT scope, ip FROM address WHERE attachment = ? ORDER BY length(ip), ip"
        return typed(self.connection.execute(query, (number,)).fetchall(), list[tuple[str, bytes]])

    def held(self) -> list[tuple[str, bytes, int]]:
        rows = self.connection.execute(
            "SELECT scope, ip, attachment FROM address WHERE attachment IS NOT NULL"
        )
        return typed(rows.fetchall(), list[tuple[str, bytes, int]])

    def resting(self) -> list[bytes]:
        rows = self.connection.execute("SELECT ip FROM address WHERE attachment IS NULL")
        return typed([ip for (ip,) in rows], list[bytes])

    def holder(self, scope: str, ip: bytes) -> int | None:
        row = self.connection.execute(
            "SELECT attachment FROM address WHERE scope = ? AND ip = ?", (scope, ip)
        ).fetchone()
        return None if row is None else typed(row, tuple[int | None])[0]

    def holders(self, scope: str, ips: Iterable[bytes]) -> dict[bytes, int]:
        """Returns which of these addresses attachments hold, with the attachments' numbers."""
        listed = list(ips)
        found: dict[bytes, int] = {}
        for start in range(0, len(listed), _AT_A_TIME):
            some = listed[start : start + _AT_A_TIME]
            marks = ", ".join("?" * len(some))
            rows = self.connection.execute(
                f"SELECT ip, attachment FROM address WHERE scope = ? AND ip IN ({marks}) "
                "AND attachment IS NOT NULL",
                (scope, *some),
            )
            found.update(typed(row, tuple[bytes, int]) for row in rows)
        return found

    def scopes(self) -> list[str]:
        """Returns the scopes in which addresses are held or rest."""
        return typed([it for (it,) in self.connection.execute(_SCOPES)], list[str])

    def count_held(self) -> tuple[int, int]:
        """Counts the held IPv4 and IPv6 addresses."""
        counted = dict(
            self.connection.execute(
                "SELECT length(ip), count(*) FROM address WHERE attachment IS NOT NULL GROUP BY length(ip)"
            )
        )
        return counted.get(4, 0), counted.get(16, 0)

    def plans(self) -> Iterator[bytes]:
        for (plan,) in self.connection.execute("SELECT plan FROM attachment"):
            yield typed(plan, bytes)

    def forget_rested(self, before: float) -> int:
        """Deletes rows of addresses whose rest ended long ago."""
        return self.connection.execute("DELETE FROM address WHERE released < ?", (before,)).rowcount

    # The boot.

    def begin_boot(self, boot_id: str, now: float) -> int:
        """Deletes what another boot held; its addresses rest from now on. Returns how many attachments were
        deleted.
        """
        others = self.connection.execute(
            "SELECT id FROM attachment WHERE boot_id != ?", (boot_id,)
        ).fetchall()
        for (number,) in others:
            self.forget(number, resting_since=now)
        if self.fact("boot_id") != boot_id:
            # Their times were counted since another boot.
            self.connection.execute("UPDATE address SET released = ? WHERE released IS NOT NULL", (now,))
            self.set_fact("boot_id", boot_id)
        return len(others)

    def fact(self, name: str) -> str | None:
        row = self.connection.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_fact(self, name: str, value: str) -> None:
        self.connection.execute("INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (name, value))

    # Operations.

    def record(self, operations: Sequence[Operation]) -> None:
        self.connection.executemany(
            f"INSERT INTO operation ({', '.join(_OPERATION[1:])}) "
            f"VALUES ({', '.join('?' * (len(_OPERATION) - 1))})",
            [_written(it) for it in operations],
        )
        self.connection.execute(
            "DELETE FROM operation WHERE id <= (SELECT max(id) FROM operation) - ?", (OPERATIONS_KEPT,)
        )

    def operations(self, limit: int = 100, *, before: float | None = None) -> list[Operation]:
        """Returns operations, the latest first; only those that began before a time, if one is given."""
        among, values = ("", ()) if before is None else ("WHERE started <= ?", (before,))
        return self._operations(f"{among} ORDER BY id DESC LIMIT ?", (*values, limit))

    def operations_after(self, number: int, limit: int = 1000) -> list[Operation]:
        """Returns operations in the order in which they were written."""
        return self._operations("WHERE id > ? ORDER BY id LIMIT ?", (number, limit))

    def operations_of_container(self, container_id: str) -> list[Operation]:
        """Returns operations, the oldest first, of every container whose ID begins like this."""
        beginning = container_id.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        return self._operations("WHERE container_id LIKE ? ESCAPE '\\' ORDER BY id", (beginning,))

    def operations_of_pod(self, pod: str, namespace: str | None = None) -> list[Operation]:
        among, values = ("", ()) if namespace is None else (" AND namespace = ?", (namespace,))
        return self._operations(f"WHERE pod = ?{among} ORDER BY id", (pod, *values))

    def operations_of_address(self, address: str) -> list[Operation]:
        """Returns the operations that allocated or released the address."""
        return self._operations("WHERE instr(addresses, ?) ORDER BY id", (f'"{address}"',))

    def operations_of_node(self, *verbs: str) -> list[Operation]:
        """Returns what happened to the node as a whole: starts and stops of agents, installed tables."""
        among = ", ".join("?" * len(verbs))
        return self._operations(f"WHERE verb IN ({among}) AND container_id = '' ORDER BY id", verbs)

    def last_operation(self) -> int:
        (number,) = self.connection.execute("SELECT max(id) FROM operation").fetchone()
        return int(number or 0)

    def _operations(self, rest: str, values: Sequence[object]) -> list[Operation]:
        query = f"SELECT {', '.join(_OPERATION)} FROM operation {rest}"
        return [_operation(row) for row in self.connection.execute(query, values)]


def _written(it: Operation) -> tuple[object, ...]:
    values = dict(zip(_OPERATION, astuple(it), strict=True))
    values["phases"] = msgspec.json.encode(it.phases).decode()
    values["addresses"] = msgspec.json.encode(it.addresses).decode() if it.addresses else ""
    return tuple(values.values())[1:]


def _operation(row: tuple[object, ...]) -> Operation:
    values: dict[str, Any] = dict(zip(_OPERATION, row, strict=True))
    values["phases"] = _decoded(values["phases"], dict[str, float]) or {}
    values["addresses"] = _decoded(values["addresses"], tuple[str, ...]) or ()
    return typed(values, Operation)


def _decoded(text: Any, kind: type[T]) -> T | None:
    """Decodes a row. A value that cannot be read is left out, so that the rest of the row stays useful."""
    try:
        return msgspec.json.decode(text, type=kind) if text else None
    except (msgspec.MsgspecError, TypeError):
        return None


def _attachment(row: tuple[object, ...]) -> Attachment:
    return typed(dict(zip(_COLUMNS, row, strict=True)), Attachment)


def _place(row: tuple[object, ...]) -> AttachmentPlace:
    number, network, container_id, ifname, *rest = row
    return typed([number, (network, container_id, ifname), *rest], AttachmentPlace)
