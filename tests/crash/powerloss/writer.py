"""Changes a journal at random, and writes down what it asks and what it is told: the child of the tests.

python -m tests.crash.powerloss.writer DIRECTORY CHANGES SEED SYNCHRONOUS
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import netloom.journal.file as durability
from netloom.journal import Answer, Attachment, Journal, Ledger, Operation

SCOPE = "main"
JOURNAL = "journal.db"
TOLD = "told"
# What an attachment goes through, by number; 0 is: it was never there.
STAGES = ("none", "pending", "committed", "deleting", "gone")
# Those that come before the kernel is changed.
NOTED = (1, 3)


def addresses(number: int) -> list[bytes]:
    return [bytes((10, 9, number >> 8, number & 255)), b"\xfd" + number.to_bytes(15, "big")]


def advance(ledger: Ledger, number: int, stage: int) -> None:
    """Brings an attachment from the stage before to this one."""
    if stage == 1:
        ledger.reserve(_attachment(number), addresses(number))
        return
    found = ledger.find(_attachment(number).key)
    assert found is not None
    if stage == 2:
        ledger.set_state(found.id, "committed")
    elif stage == 3:
        ledger.set_state(found.id, "deleting")
    else:
        ledger.forget(found.id, resting_since=1.0)


def _attachment(number: int) -> Attachment:
    return Attachment(
        network="net",
        container_id=f"c{number}",
        ifname="eth0",
        netns=f"/run/netns/c{number}",
        netns_device=4,
        netns_inode=number,
        config_hash="hash",
        host_link=f"loom{number}",
        plan=b"p" * 1500,
        result=b"r" * 500,
        boot_id="boot",
        created=1.0,
        created_at=1.0,
        mode="routed",
        address_scope=SCOPE,
    )


def main(directory: str, changes: int, seed: int, synchronous: str) -> None:
    chance = random.Random(seed)
    told = os.open(os.path.join(directory, TOLD), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    stages: dict[int, int] = {}
    durability.DURABLE = synchronous
    with Journal(os.path.join(directory, JOURNAL)) as journal:
        done = 0
        while done < changes:
            asked: list[tuple[int, int, Answer[None]]] = []
            for number in _some(chance, stages):
                stage = stages[number] = stages.get(number, 0) + 1
                os.write(told, f"asked {number} {stage}\n".encode())
                # Of what is only noted, nobody is told: it is there with the next stage.
                is_noted = stage in NOTED and chance.random() < 0.8
                write = journal.note if is_noted else journal.change
                asked.append((number, 0 if is_noted else stage, write(_change(number, stage))))
                journal.log(_operation(number, stage))
            for number, stage, answer in asked:
                answer.result()
                if stage:
                    os.write(told, f"told {number} {stage}\n".encode())
                done += 1


def _some(chance: random.Random, stages: dict[int, int]) -> list[int]:
    """Attachments that can go on, and new ones: one, or several at once."""
    going = [number for number, stage in stages.items() if stage < len(STAGES) - 1]
    first = max(stages, default=0) + 1
    fresh = range(first, first + 8)
    return chance.sample([*going, *fresh], chance.choice((1, 1, 1, 2, 5)))


def _change(number: int, stage: int) -> Callable[[Ledger], None]:
    return lambda ledger: advance(ledger, number, stage)


def _operation(number: int, stage: int) -> Operation:
    return Operation(
        verb=STAGES[stage],
        network="net",
        container_id=f"c{number}",
        ifname="eth0",
        started=1.0,
        duration=1.0,
        phases={"kernel": 1.0},
    )


if __name__ == "__main__":
    main(str(Path(sys.argv[1]).resolve()), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
