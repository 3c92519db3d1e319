from __future__ import annotations

import subprocess

import pytest

from netloom.kernel import Namespace, Plan, Scope, apply, check, remove

from ..lanes import ROOT

pytestmark = pytest.mark.kernel


def test_the_example_of_a_plan_makes_an_attachment_that_answers() -> None:
    plan = Plan.decode((ROOT / "docs/examples/attachment.json").read_bytes())
    with Namespace.new() as host, Namespace.new() as web:
        scope = Scope(host, web)
        apply(plan, scope)
        assert check(plan, scope) == []
        with host.entered():
            for address in ("10.7.0.2", "fd07::2"):
                subprocess.run(["ping", "-c", "1", "-W", "10", address], check=True, capture_output=True)
        remove(plan, scope)
        assert {difference.what for difference in check(plan, scope)} == {"missing"}
