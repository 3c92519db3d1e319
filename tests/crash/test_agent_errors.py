"""An error that nobody expected, at any step: it is told, ends no agent, and leaves what a kill would."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ..fixtures.node import Outcome
from .scene import Scene, needs_root

pytestmark = [pytest.mark.crash, needs_root]

# The first commit of an agent's life is none of a verb's, and its first objects are none of an attachment's.
JOURNAL = [
    f"journal.{step}:error:{commit}" for commit in (2, 3) for step in ("begun", "written", "committed")
]
STEPS: dict[Callable[[Scene], Outcome], list[str]] = {
    Scene.add: [
        "add.judged:error", "add.reserved:error", "add.applied:error", "add.committed:error",
        "add.answered:error", "kernel.made:error:8", *JOURNAL,
    ],
    Scene.delete: [
        "del.judged:error", "del.marked:error", "del.removed:error", "del.released:error",
        "del.answered:error", "kernel.taken:error", *JOURNAL,
    ],
}  # fmt: skip


@pytest.mark.parametrize(("verb", "step"), [(verb, step) for verb, steps in STEPS.items() for step in steps])
def test_an_error_that_nobody_expected_is_told_and_leaves_nothing(
    scene: Scene, verb: Callable[[Scene], Outcome], step: str
) -> None:
    if verb is Scene.delete:
        assert scene.add().code == 0
    scene.start(step)
    answer = verb(scene)
    assert answer.code == 999
    assert "NETLOOM_FAILPOINT" in answer.document["msg"]
    scene.start()
    scene.believe_journal()
    scene.require_sound()
    scene.require_verbs_work()
