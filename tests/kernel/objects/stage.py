"""Two fresh namespaces, a look at what stands in them, and hands to change it."""

from __future__ import annotations

import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from netloom.kernel import AnyObject, Namespace, Plan, Scope, Sysctl, apply
from netloom.kernel.objects import Where

# The kernel would give links addresses of its own, and routes with them, some of them seconds later.
_QUIET = {"addr_gen_mode": "1", "accept_dad": "0", "accept_ra": "0", "router_solicitations": "0"}

# What stands in a namespace, a line for each thing.
Look: TypeAlias = Callable[[Namespace], list[str]]


class Stage:
    """The host's and the attachment's namespace of one test."""

    def __init__(self, host: Namespace, attachment: Namespace, look: Look) -> None:
        self.scope = Scope(host, attachment)
        self._look = look
        for namespace in (host, attachment):
            with namespace.entered():
                for key, value in _QUIET.items():
                    with open(f"/proc/sys/net/ipv6/conf/default/{key}", "w") as file:
                        file.write(value)

    def set(self, objects: Iterable[AnyObject]) -> None:
        apply(Plan(tuple(objects)), self.scope)

    def by_hand(self, commands: Iterable[str], where: Where = "host") -> None:
        with self.scope.at(where).entered():
            for command in commands:
                words = shlex.split(command)
                done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
                assert done.returncode == 0, f"{command}: {done.stderr}"

    def snapshot(self, of: AnyObject) -> list[str]:
        """All that is set in the namespaces that the object needs, a line for each thing."""
        places = sorted(set(of.places()))
        lines = [f"{where} {line}" for where in places for line in self._look(self.scope.at(where))]
        return lines + ([f"sysctl {self.read(of)}"] if isinstance(of, Sysctl) else [])

    def read(self, setting: Sysctl) -> str:
        with self.scope.at(setting.on).entered(), open(f"/proc/sys/{setting.key}") as file:
            return file.read().strip()


@contextmanager
def staged(look: Look) -> Iterator[Stage]:
    with Namespace.new("the test's host") as host, Namespace.new("the test's attachment") as attachment:
        yield Stage(host, attachment, look)


def changed(before: list[str], after: list[str]) -> list[str]:
    """What is no longer there, and what is new."""
    was, now = Counter(before), Counter(after)
    return [f"- {line}" for line in (was - now).elements()] + [f"+ {line}" for line in (now - was).elements()]
