"""How long a property is searched for what breaks it: whole in `make test`, a quarter in `make check`."""

from __future__ import annotations

from hypothesis import settings

# Chosen with `--hypothesis-profile`; a property without a number of its own has 100 examples otherwise.
QUICK = "quick"
_WHOLE = 100


def register() -> None:
    settings.register_profile(QUICK, max_examples=_WHOLE // 4)


def examples(whole: int) -> int:
    return whole * settings().max_examples // _WHOLE
