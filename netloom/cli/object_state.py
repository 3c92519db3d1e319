"""How an object of a plan is, as programs get it. Who only shows it need not load the kernel."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

State: TypeAlias = Literal["as planned", "missing", "different", "unknown"]
# Of the namespace that was attached. `replaced`: its path leads to another one by now.
Presence: TypeAlias = Literal["there", "gone", "replaced"]


class ObjectState(Struct, frozen=True):
    """One object of a plan, and how it is."""

    object: Annotated[str, Meta(description="how people name it, and where it is")]
    type: Annotated[str, Meta(description="its type, as plans have it")]
    state: Annotated[State, Meta(description="`unknown`: the kernel could not be asked")]
    differences: Annotated[list[str], Meta(description="how it differs, each in words; or what was said")]
