"""The interface of every kernel object, and the namespaces in which plans put objects."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct

from ..errors import ABSENT, Conflict, Difference, InvalidPlan, Refused
from ..namespace import Namespace
from ..netlink.connection import NetlinkConnection
from ..netlink.message import CREATE, EXCLUSIVE

Where: TypeAlias = Literal["host", "attachment"]
# A link: the namespace it is in, and its name there.
LinkName: TypeAlias = tuple[Where, str]


class LinkDeletion(Struct, frozen=True):
    """A link to delete. The runner of the plan deletes it, alone or with others as one group."""

    namespace: Namespace
    index: int
    label: str


# Rolls back one `apply` exactly, to the state before it.
Undo: TypeAlias = Callable[[], LinkDeletion | None]


class Scope:
    """The namespaces that a plan's objects live in."""

    def __init__(self, host: Namespace, attachment: Namespace | None = None) -> None:
        if attachment is not None and attachment.identity == host.identity:
            raise InvalidPlan(f"{attachment.name} is the host's own namespace, which cannot be attached")
        self.host = host
        self.attachment = attachment

    def at(self, where: Where) -> Namespace:
        if where == "host":
            return self.host
        if self.attachment is None:
            raise InvalidPlan("the plan has objects in the attachment's namespace, but none was given")
        return self.attachment

    def has(self, where: Where) -> bool:
        return where == "host" or self.attachment is not None


class Object(
    Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True, omit_defaults=True
):
    """One thing in the kernel: a frozen value with three operations.

    `apply` creates it and returns its rollback, or None if it existed exactly so. An existing but different
    object is a `Conflict` and is not changed. A failed `apply` leaves nothing behind. `check` returns what is
    missing or different. `remove` deletes it; a missing object is success.
    """

    on: Where = "host"

    feature: ClassVar[str] = ""

    @property
    def label(self) -> str:
        """The name for people, with its place: `address 10.0.0.2/32 on eth0 (attachment)`."""
        return self.title if self.on == "host" else f"{self.title} ({self.on})"

    @property
    def title(self) -> str:
        raise NotImplementedError

    def apply(self, scope: Scope) -> Undo | None:
        raise NotImplementedError

    def check(self, scope: Scope) -> list[Difference]:
        raise NotImplementedError

    def remove(self, scope: Scope) -> LinkDeletion | None:
        raise NotImplementedError

    def settle(self, scope: Scope) -> None:
        """Finishes what has to wait until all objects of its plan exist."""

    def places(self) -> Iterable[Where]:
        """The namespaces that `apply` and `check` need."""
        return (self.on,)

    def makes(self) -> Iterable[LinkName]:
        """The links that are created and deleted with it."""
        return ()

    def rests_on(self) -> Iterable[LinkName]:
        """The links whose deletion deletes it."""
        return ()

    # What most objects do with rtnetlink. A request is built once its namespace's connection is known,
    # because it names links by their indexes there.

    def _create(
        self,
        scope: Scope,
        kind: int,
        request: Callable[[NetlinkConnection], bytes],
        flags: int = CREATE | EXCLUSIVE,
    ) -> Undo | None:
        connection = scope.at(self.on).route
        try:
            connection.change(kind, flags, request(connection))
        except Refused as refused:
            if refused.errno == errno.EEXIST and flags & EXCLUSIVE:
                return self._keep_or_explain(scope, refused)
            raise refused.during(f"cannot add {self.label}") from None
        return lambda: self.remove(scope)

    def _keep_or_explain(self, scope: Scope, refused: Refused) -> Undo | None:
        try:
            return self._keep(scope)
        except Conflict as conflict:
            if any(difference.what == "different" for difference in conflict.differences):
                raise
            # Ours does not exist, so the kernel refused for another reason.
            raise refused.during(f"cannot add {self.label}") from None

    def _keep(self, scope: Scope) -> Undo | None:
        """Something is already in its place: success if it is as planned."""
        differences = self.check(scope)
        if differences:
            raise Conflict(differences)
        return None

    def _is_there(self, scope: Scope) -> bool:
        """Says whether the object exists as planned; anything else in its place is a `Conflict`."""
        differences = self.check(scope)
        if differences and differences[0].what == "different":
            raise Conflict(differences)
        return not differences

    def _delete(self, scope: Scope, kind: int, request: Callable[[NetlinkConnection], bytes]) -> None:
        connection = scope.at(self.on).route
        try:
            connection.change(kind, 0, request(connection))
        except Refused as refused:
            if refused.errno not in ABSENT:
                raise refused.during(f"cannot remove {self.label}") from None
