"""From what was found to what is in the archive: secrets go, names change if asked for, and it all fits."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from . import names
from .archive import Entry, fitted
from .gather import Gathered
from .journal import names_of as names_in_journal
from .known_secrets import learn_secrets
from .manifest import NAME, Manifest, Part
from .member import Asked, Member, Trouble, lines_of
from .pseudonyms import Pseudonyms
from .secrets import Secrets

# For the list of contents, and the archive's own frame.
_FRAME = 4096


class Cleaner:
    """What may be shown of a text or a document.

    It has to know all that must not be shown before it shows anything: what arrives while sources are asked
    is in some of what they give. So `learn` is called before they are asked and after.
    """

    def __init__(self, *, anonymous: bool) -> None:
        self._secrets = Secrets()
        self._pseudonyms = Pseudonyms() if anonymous else None

    def learn(self, asked: Asked, gathered: Sequence[Gathered] = ()) -> None:
        learn_secrets(asked, self._secrets)
        for it in gathered:
            self._learn_secrets_of(it)
        if self._pseudonyms is None:
            return
        for name in names.of_host():
            self._pseudonyms.learn(*name)
        for column, value in names_in_journal(asked):
            for name in names.of_field(column, value):
                self._pseudonyms.learn(*name)
        for it in gathered:
            with suppress(RecursionError):
                for name in names.in_gathered(it):
                    self._pseudonyms.learn(*name)

    def _learn_secrets_of(self, it: Gathered) -> None:
        found = it.found
        if isinstance(found, Trouble) or found.is_ours:
            return
        with suppress(RecursionError):
            self._secrets.learn_from(found.document)
        self._secrets.learn_from_text(found.text or "")

    def text(self, text: str, *, is_ours: bool = True) -> str:
        text = self._secrets.text(text, is_ours=is_ours)
        return text if self._pseudonyms is None else self._pseudonyms.text(text)

    def document(self, value: object, *, is_ours: bool) -> object:
        value = self._secrets.document(value, is_ours=is_ours)
        return value if self._pseudonyms is None else self._pseudonyms.document(value)


def entries(gathered: Sequence[Gathered], cleaner: Cleaner) -> list[Entry]:
    made: dict[str, Entry] = {}
    for it in gathered:
        entry = _entry(it, cleaner)
        # Two files may have one name when theirs are replaced; and a source may fail behind what it gave.
        name = entry.part.name
        number = 2
        while name in made:
            name = f"{entry.part.name}.{number}"
            number += 1
        made[name] = entry._replace(part=replace(entry.part, name=name))
    return list(made.values())


def _entry(it: Gathered, cleaner: Cleaner) -> Entry:
    found = it.found
    part = Part(
        name=cleaner.text(found.name),
        about=found.about,
        error=cleaner.text(found.error),
        milliseconds=round(it.milliseconds, 1),
    )
    if isinstance(found, Trouble):
        return Entry(part, None, False)
    try:
        content = _content(found, cleaner)
    except RecursionError:
        return Entry(replace(part, error="it is nested too deep to be cleaned of secrets"), None, False)
    return Entry(replace(part, size=len(content), cut=found.cut), content, found.newest_last)


def _content(found: Member, cleaner: Cleaner) -> bytes:
    if found.text is not None:
        return cleaner.text(found.text, is_ours=found.is_ours).encode(errors="backslashreplace")
    if found.rows is not None:
        rows = cleaner.document(found.rows, is_ours=found.is_ours)
        assert isinstance(rows, list)
        return lines_of(rows).encode()
    document = cleaner.document(found.document, is_ours=found.is_ours)
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def members(
    listed: Sequence[Entry], manifest: Manifest, max_size: int
) -> tuple[Manifest, list[tuple[str, bytes]]]:
    """With the list of contents, which comes first."""
    listed = fitted(listed, max_size - _FRAME - 100 * len(listed))
    whole = replace(manifest, parts=tuple(entry.part for entry in listed))
    head = msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"
    content = [(entry.part.name, entry.content) for entry in listed if entry.content is not None]
    return whole, [(NAME, head), *content]
