"""The reference of plans names every object and every field, and no others."""

from __future__ import annotations

import re
from typing import get_args

import msgspec
import pytest

from netloom.kernel import Plan
from netloom.kernel.features import FEATURES
from netloom.kernel.objects import AnyObject, LinkObject

from ..lanes import ROOT

pytestmark = pytest.mark.unit

REFERENCE = (ROOT / "docs/reference/plan.md").read_text()
OBJECTS = {kind.__struct_config__.tag: kind for kind in get_args(AnyObject)}
COMMON = {"on", "name", "mac", "mtu", "txqlen"}


def documented() -> dict[str, set[str]]:
    """Of each type, the fields that its row of a table names."""
    found: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| (.*?) \|", REFERENCE, re.MULTILINE):
        fields = set(re.findall(r"`([a-z_0-9]+)`", re.sub(r"\([^)]*\)", "", row[1])))
        for name in re.findall(r"`([a-z-]+)`", row[0]):
            if name in OBJECTS:
                found[name] = fields
    return found


def test_every_object_is_there() -> None:
    assert set(documented()) == set(OBJECTS)


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_every_field_is_there(name: str) -> None:
    kind = OBJECTS[name]
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    common = COMMON if issubclass(kind, LinkObject) else {"on"}
    assert documented()[name] == fields - common


def test_the_example_is_a_plan() -> None:
    plan = Plan.decode((ROOT / "docs/examples/attachment.json").read_bytes())
    assert Plan.decode(plan.encode()) == plan


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_a_feature_that_an_object_may_lack_is_one_that_doctor_lists(name: str) -> None:
    kind = OBJECTS[name]
    feature = kind.feature or (kind.kind if issubclass(kind, LinkObject) else "")
    assert not feature or feature in FEATURES
