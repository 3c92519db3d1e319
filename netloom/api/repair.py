"""The RPC `repair`: which attachments shall be made as planned again, and what was done about each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

# What an attachment is named by: network, container, interface.
Key = tuple[str, str, str]

AT_A_TIME = 50


class Wish(Struct, frozen=True):
    """Which attachments; and whether a link may be made anew, which costs its container the connections."""

    keys: Sequence[Key] = ()
    recreate: bool = False


class Repaired(Struct, frozen=True, kw_only=True, rename={"put_back": "putBack", "set_right": "setRight"}):
    """What was done about one attachment."""

    attachment: Annotated[str, Meta(description="as network/container/interface")]
    put_back: Annotated[list[str], Meta(description="objects that were missing, and are there again")]
    set_right: Annotated[list[str], Meta(description="objects that were changed, and are as planned again")]
    recreated: Annotated[bool, Meta(description="whether its link was made anew")]
    left: Annotated[list[str], Meta(description="what is still not as planned, each in words")]
    error: Annotated[str, Meta(description="why nothing could be done; empty if it could")]

    @property
    def changed(self) -> bool:
        return bool(self.put_back or self.set_right or self.recreated)


class Answer(Struct, frozen=True):
    """`table` is whether the node's nft table had to be laid down anew."""

    table: bool
    repaired: list[Repaired]
