"""How long a property is searched for what breaks it: whole in `make test`, a quarter in `make check`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Chosen with `--hypothesis-profile`; a property without a number of its own has 100 examples otherwise.
QUICK = "quick"
_WHOLE_PROFILE = "whole"
_WHOLE = 100


def register() -> None:
    """Also loads the whole one, which whoever chose another replaces.

    Neither limits what an example may take: on a busy machine, that tells nothing of the property.
    """
    for name, number in ((_WHOLE_PROFILE, _WHOLE), (QUICK, _WHOLE // 4)):
        settings.register_profile(
            name, max_examples=number, deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
    settings.load_profile(_WHOLE_PROFILE)


def examples(whole: int) -> int:
    return whole * settings().max_examples // _WHOLE
