"""An error as JSON: what standard error gets with --json, by whoever it is of.

They are types, so that they have a schema, as all that commands print has. That of an error of the kernel is
in `kernel_failure`: commands that have nothing to do with the kernel do not pay for its module.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Code: TypeAlias = Annotated[str, Meta(description="a word, of which `netloom explain` tells")]
Sentence: TypeAlias = Annotated[str, Meta(description="what failed, in a sentence")]
Next: TypeAlias = Annotated[str, Meta(description="what to do about it")]
Notes: TypeAlias = Annotated[
    tuple[str, ...], Meta(description="what is worth knowing besides, such as a clean-up that failed, too")
]
See: TypeAlias = Annotated[str, Meta(description="the command that tells more; empty: none does")]
Warnings: TypeAlias = Annotated[tuple[str, ...], Meta(description="what would have been said before it")]


class OfCommand(Struct, frozen=True, kw_only=True):
    """A command could not do what it is for, or was called in a way that cannot work (`usage`)."""

    code: Code
    error: Sentence
    said: Annotated[
        tuple[str, ...], Meta(description="lines of whoever knows more, such as a log's last")
    ] = ()
    next: Next
    see: See = ""
    warnings: Warnings = ()


class Attachment(Struct, frozen=True, rename={"container_id": "containerID", "ifname": "ifName"}):
    """By what a plugin knows it."""

    network: Annotated[str, Meta(description="the network's name")]
    container_id: Annotated[str, Meta(description="the container's ID, as the plugins were told")]
    ifname: Annotated[str, Meta(description="the interface in it")]


class OfPlugin(Struct, frozen=True, kw_only=True):
    """An error of CNI: of a plugin, or of the runtime's side that calls it."""

    code: Annotated[int, Meta(description="CNI's number; from 100 on, each plugin's own")]
    error: Sentence
    msg: Annotated[str, Meta(description="the plugin's own sentence")]
    details: Annotated[str, Meta(description="what it has added to that")]
    notes: Notes = ()
    plugin: Annotated[str | None, Meta(description="its type; null: it is of no plugin")]
    attachment: Annotated[Attachment | None, Meta(description="whose; null: of none in particular")]
    stderr: Annotated[str, Meta(description="what the plugin has printed there")]
    next: Next
    see: See = ""
    warnings: Warnings = ()
