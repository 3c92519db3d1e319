"""The lock of a cache: it may be removed while nobody is at work, and nobody notices."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from netloom.cni import AttachmentKey
from netloom.cni.io import Blocking, drive
from netloom.cni.lock import LOCK_FILE, Lock, alone
from netloom.ops.purge.files import remove_lock

pytestmark = pytest.mark.unit

KEY = AttachmentKey("net", "container", "eth0")


def lock(cache: Path, network: str = "net", attachment: AttachmentKey | None = KEY) -> Lock:
    return Lock(Blocking(), str(cache), network, time.monotonic() + 20, attachment=attachment)


@pytest.mark.parametrize("attachment", [KEY, None], ids=["an operation", "a collection"])
def test_nobody_is_alone_while_a_runtime_is_at_work(tmp_path: Path, attachment: AttachmentKey | None) -> None:
    with lock(tmp_path, attachment=attachment) as held:
        drive(held.acquire())
        with pytest.raises(BlockingIOError), alone(str(tmp_path)):
            pass
    with alone(str(tmp_path)) as path:
        assert path == str(tmp_path / LOCK_FILE)


def test_a_cache_without_a_lock_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), alone(str(tmp_path)):
        pass
    assert os.listdir(tmp_path) == []


def test_runtimes_exclude_each_other_while_lock_and_directory_are_removed_again_and_again(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    inside: list[int] = []
    together: list[int] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def work() -> None:
        try:
            for _ in range(200):
                with lock(cache) as held:
                    drive(held.acquire())
                    inside.append(1)
                    together.append(len(inside))
                    inside.pop()
                time.sleep(0.001)
        except BaseException as error:
            failed.append(error)

    def remove() -> int:
        count = 0
        while not ended.is_set():
            removed, _ = remove_lock(str(cache))
            count += str(cache) in removed
        return count

    workers = [threading.Thread(target=work) for _ in range(2)]
    removals: list[int] = []
    remover = threading.Thread(target=lambda: removals.append(remove()))
    for thread in (*workers, remover):
        thread.start()
    for thread in workers:
        thread.join()
    ended.set()
    remover.join()
    assert failed == []
    assert set(together) == {1}
    assert removals[0] > 0
