"""How much there is in a journal."""

from __future__ import annotations

import sqlite3
from typing import Annotated

from msgspec import Meta, Struct


class Counts(Struct, frozen=True):
    """Rows of a journal."""

    attachments: Annotated[int, Meta(description="attachments, finished or not")]
    addresses: Annotated[int, Meta(description="addresses that are held, or rest")]
    operations: Annotated[int, Meta(description="operations and events")]

    def sentence(self) -> str:
        return ", ".join(
            (
                f"{self.attachments} attachment{'' if self.attachments == 1 else 's'}",
                f"{self.addresses} address{'' if self.addresses == 1 else 'es'}",
                f"{self.operations} operation{'' if self.operations == 1 else 's'}",
            )
        )


def counts_of(connection: sqlite3.Connection) -> Counts:
    counted = (
        connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
        for table in ("attachment", "address", "operation")
    )
    return Counts(*counted)
