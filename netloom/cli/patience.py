"""A second look, and a third: what an agent is just doing looks like a defect, and is over by then.

Containers that come and go may have the same names each time. So what is found twice counts only if it was
found of the same thing: an attachment by when it was made, a link by its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..journal import Attachment
from ..kernel import Namespace
from ..kernel.objects.link import link_names

# Seconds before each further look. By the second, nearly all is over; seldom, an agent is doing it again.
MOMENTS = (0.3, 0.5)

Marks = Mapping[str, float]


def marks(rows: Iterable[Attachment], host: Namespace) -> Marks:
    """By what findings are about: what nothing has that comes later under the same name."""
    links = {it.name: it.index for it in link_names(host).values()}
    return {**links, **{str(row.key): row.created for row in rows}}


def is_same(subject: str, one: Marks, other: Marks) -> bool:
    """Also of what has no mark, such as a pool or an element of the table."""
    return one.get(subject) == other.get(subject)
