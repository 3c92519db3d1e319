"""Write the whole journal as one JSON document, to standard output or to a file.

For programs, for other machines, and for the way back to an earlier version that cannot read the file
itself. What was exported, `netloom journal import` makes a journal of again, the same to the last byte of
every row. It names containers, pods and addresses; secrets of configurations are not in a journal.

examples:
  netloom journal export >journal.json
  netloom journal export --no-operations journal.json
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing

from ...cni.wire import encode_in_order
from ...journal.document import Document, document_of
from ...journal.file import as_it_is
from ...journal.spare import replacing
from ..journal import explained, journal_path
from ..output import printable_line, require_output, say, write_bytes
from ..place import absolute, add_state_dir
from .backup import require_place, unwritable

OUTPUT = Document


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?", type=absolute, help="where to (default: standard output)"
    )
    parser.add_argument("--no-operations", action="store_true", help="without the log of operations")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    add_state_dir(parser)


def run(args: argparse.Namespace) -> int:
    require_output()
    path = journal_path(args.state_dir)
    if args.file is not None:
        require_place(args.file, path, force=args.force)
    data = _lines(_exported(path, operations=not args.no_operations))
    if args.file is None:
        write_bytes(data)
        return 0
    try:
        _write(args.file, data)
    except OSError as cause:
        raise unwritable(args.file, cause) from None
    say(f"{printable_line(args.file)}: {len(data)} bytes")
    return 0


def _exported(path: str, *, operations: bool) -> Document:
    with explained():
        connection, schema = as_it_is(path)
        with closing(connection):
            connection.execute("BEGIN")
            try:
                return document_of(connection, schema, operations=operations)
            except sqlite3.DatabaseError as cause:
                from ...journal.file import explained as in_words

                raise in_words(path, cause) from None


def _lines(document: Document) -> bytes:
    """A row a line: so that two of them can be compared, and a large one be read."""
    tables = []
    for name, table in document.tables.items():
        rows = b",\n".join(encode_in_order(row) for row in table.rows)
        head = encode_in_order(name) + b':{"columns":' + encode_in_order(table.columns) + b',"rows":['
        tables.append(head + (b"\n" + rows + b"\n" if rows else b"") + b"]}")
    head = encode_in_order(
        {"format": document.format, "version": document.version, "schema": document.schema}
    )
    return head[:-1] + b',"tables":{\n' + b",\n".join(tables) + b"\n}}\n"


def _write(path: str, data: bytes) -> None:
    with replacing(path) as spare, open(spare, "wb") as file:
        file.write(data)
