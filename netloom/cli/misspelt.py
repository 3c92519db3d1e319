"""Words that are nearly those that a command knows. Needed only when something is wrong already."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

# Less than this is alike by chance: --once and --socket.
_ALIKE = 0.7


def meant(unknown: Iterable[str], known: Iterable[str], command: str) -> str:
    """What to do next, if one of the words is nearly one that is known; else nothing.

    >>> meant(["--jsno"], ["--json", "--pool"], "netloom up")
    'did you mean --json? `netloom up --help` shows how it is called'
    """
    # Dashes, which all options have, make none of them more alike.
    candidates = {it.lstrip("-"): it for it in known}
    found = (get_close_matches(word.lstrip("-"), candidates, n=1, cutoff=_ALIKE) for word in unknown)
    close = list(dict.fromkeys(candidates[it] for matches in found for it in matches))
    if not close:
        return ""
    return f"did you mean {' and '.join(close)}? `{command} --help` shows how it is called"
