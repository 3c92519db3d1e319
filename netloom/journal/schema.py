"""The journal's tables, and how an older file becomes a newer one.

A migration is the step from the version before it. A file of an unknown version is not changed, unless the
file says that this version can work with it: the newer version that wrote it decides that.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from . import backup
from .errors import Damaged, NewerSchema

APPLICATION_ID = 0x6E6C6F6D  # "nlom"

_FIRST = """
CREATE TABLE attachment (
    id INTEGER PRIMARY KEY,
    network TEXT NOT NULL,
    container_id TEXT NOT NULL,
    ifname TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'committed', 'deleting')),
    netns TEXT NOT NULL,
    netns_device INTEGER NOT NULL,
    netns_inode INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    pod TEXT NOT NULL,
    uid TEXT NOT NULL,
    config_hash TEXT NOT NULL,
    host_link TEXT NOT NULL UNIQUE,
    plan BLOB NOT NULL,
    result BLOB NOT NULL,
    boot_id TEXT NOT NULL,
    created REAL NOT NULL,
    created_at REAL NOT NULL,
    UNIQUE (network, container_id, ifname)
) STRICT;

CREATE INDEX attachment_by_netns ON attachment (netns_device, netns_inode);
CREATE INDEX attachment_unfinished ON attachment (state) WHERE state != 'committed';

-- A row is held by an attachment, or rests; an address without a row is free.
CREATE TABLE address (
    scope TEXT NOT NULL,
    ip BLOB NOT NULL CHECK (length(ip) IN (4, 16)),
    attachment INTEGER REFERENCES attachment (id),
    allocated REAL NOT NULL,
    released REAL,
    PRIMARY KEY (scope, ip),
    CHECK ((attachment IS NULL) = (released IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX address_by_attachment ON address (attachment) WHERE attachment IS NOT NULL;

CREATE TABLE cursor (
    scope TEXT NOT NULL,
    pool TEXT NOT NULL,
    ip BLOB NOT NULL,
    PRIMARY KEY (scope, pool)
) STRICT, WITHOUT ROWID;

CREATE TABLE operation (
    id INTEGER PRIMARY KEY,
    verb TEXT NOT NULL,
    network TEXT NOT NULL,
    container_id TEXT NOT NULL,
    ifname TEXT NOT NULL,
    started REAL NOT NULL,
    duration REAL NOT NULL,
    phases TEXT NOT NULL,
    code INTEGER NOT NULL,
    error TEXT NOT NULL
) STRICT;

CREATE TABLE fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
"""

# The kernel reuses the inode number of a deleted namespace, but never its cookie. 0: unknown.
_COOKIE = "ALTER TABLE attachment ADD COLUMN netns_cookie INTEGER NOT NULL DEFAULT 0;"

# Host ports and their targets. A host address of zeros stands for its whole family.
_PORTS = """
CREATE TABLE port (
    protocol TEXT NOT NULL,
    host_port INTEGER NOT NULL,
    host_ip BLOB NOT NULL CHECK (length(host_ip) IN (4, 16)),
    ip BLOB NOT NULL CHECK (length(ip) = length(host_ip)),
    port INTEGER NOT NULL,
    attachment INTEGER NOT NULL REFERENCES attachment (id),
    PRIMARY KEY (protocol, host_port, host_ip)
) STRICT, WITHOUT ROWID;

CREATE INDEX port_by_attachment ON port (attachment);
"""

# The caller, what it asked for, and the result. Addresses are a JSON list.
_OPERATIONS = "".join(
    f"ALTER TABLE operation ADD COLUMN {name} TEXT NOT NULL DEFAULT '';"
    for name in ("caller", "netns", "namespace", "pod", "addresses", "trace", "details")
)

# When an attachment was created; the last heartbeat of the agent before, after an unclean shutdown; why an
# agent started or stopped. Before this step, all of it was text for people in the details.
_MOMENT = "CAST(strftime('%s', substr({0}, 1, 19)) AS REAL) + CAST('0' || substr({0}, 20, 7) AS REAL)"
_SINCE = _MOMENT.format("substr(details, 16, 27)")
_LAST = _MOMENT.format("substr(details, -27)")
_OPERATION_FACTS = (
    "ALTER TABLE operation ADD COLUMN attached REAL;"
    "ALTER TABLE operation ADD COLUMN heartbeat REAL;"
    "ALTER TABLE operation ADD COLUMN reason TEXT NOT NULL DEFAULT '';"
    f"UPDATE operation SET attached = {_SINCE}, details = substr(details, 45)"
    "  WHERE details GLOB 'attached since [0-9]*Z*';"
    "UPDATE operation SET reason = 'handover' WHERE verb = 'STOP' AND details LIKE '%; handing over to %';"
    "UPDATE operation SET reason = 'reboot' WHERE verb = 'START'"
    "  AND details GLOB '*; [1-9]* attachments of another boot released*';"
    + "".join(
        f"UPDATE operation SET heartbeat = {_LAST},"
        f"  details = substr(details, 1, instr(details, '{said}') - 1)"
        f"  WHERE verb = 'START' AND details GLOB '*{said}[0-9]*Z';"
        for said in (
            "; the previous agent did not shut down cleanly; last heartbeat ",
            "; the one before it ended without a word, and was last alive at ",
        )
    )
)

# How packets of an attachment move, and in what scope its addresses are unique. Before this step there was
# one mode and one scope. An older netloom writes neither column and means these two values; it joins both
# tables and says `scope` for the address's column, so that the column here needs another name.
_MODES = (
    "ALTER TABLE attachment ADD COLUMN mode TEXT NOT NULL DEFAULT 'routed';"
    "ALTER TABLE attachment ADD COLUMN address_scope TEXT NOT NULL DEFAULT 'main';"
    "UPDATE attachment SET address_scope = coalesce("
    "  (SELECT address.scope FROM address WHERE address.attachment = attachment.id LIMIT 1), 'main');"
)


class Migration(NamedTuple):
    """A step, and the lowest version that can still work with a file that has taken it.

    A new column with a default is safe for older versions. A table that must stay consistent with others is
    not.
    """

    script: str
    readable_by: int


MIGRATIONS: tuple[Migration, ...] = (
    Migration(_FIRST, 1),
    Migration(_COOKIE, 1),
    Migration(_PORTS, 3),
    Migration(_OPERATIONS, 3),
    Migration(_OPERATION_FACTS, 3),
    Migration(_MODES, 3),
)
VERSION = len(MIGRATIONS)

_READABLE_BY = "readable_by"


def require_known(connection: sqlite3.Connection, path: str) -> int:
    """Returns the schema version of the file, without changing it. Raises `JournalError` if unknown."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application != APPLICATION_ID:
        raise Damaged(f"{path} is an SQLite database, but not a netloom journal; it was not changed")
    if version < 0:
        raise Damaged(f"{path} has schema {version}, which no netloom writes; it was not changed")
    if version > VERSION and _readable_by(connection, version) > VERSION:
        raise NewerSchema(
            f"{path} has schema {version}, which a later netloom wrote; this one reads up to {VERSION}. "
            f"Nothing was changed: run the later version{_way_back(path)}, or use another state directory"
        )
    return int(version)


def _way_back(path: str) -> str:
    known = [it for it in backup.kept(path) if backup.schema_of(it) <= VERSION]
    return f", or restore the copy from before: `netloom journal restore {known[-1]}`" if known else ""


def _readable_by(connection: sqlite3.Connection, version: int) -> int:
    """Returns the schema that the file declares as sufficient."""
    try:
        row = connection.execute("SELECT value FROM fact WHERE name = ?", (_READABLE_BY,)).fetchone()
    except sqlite3.OperationalError:  # this file may have other tables
        row = None
    return int(row[0]) if row is not None and row[0].isdecimal() else version


def migrate(connection: sqlite3.Connection, version: int, until: int = VERSION) -> None:
    """Runs the steps, each as one transaction."""
    for number in range(version, until):
        step = MIGRATIONS[number]
        connection.executescript(
            f"BEGIN IMMEDIATE; {step.script} "
            f"INSERT OR REPLACE INTO fact (name, value) VALUES ('{_READABLE_BY}', '{step.readable_by}'); "
            f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number + 1}; COMMIT;"
        )
