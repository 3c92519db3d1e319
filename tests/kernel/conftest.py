from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from netloom.kernel import Namespace
from netloom.kernel.dataplane import Dataplane


@pytest.fixture
def new_namespace() -> Iterator[Callable[[], Namespace]]:
    """Makes namespaces without names; they go with the test."""
    made: list[Namespace] = []

    def make() -> Namespace:
        made.append(Namespace.new())
        return made[-1]

    yield make
    for namespace in made:
        namespace.close()


@pytest.fixture
def host(new_namespace: Callable[[], Namespace]) -> Namespace:
    """A namespace that stands for the host's."""
    return new_namespace()


@pytest.fixture
def pod(new_namespace: Callable[[], Namespace]) -> Namespace:
    return new_namespace()


@pytest.fixture
def dataplane(host: Namespace) -> Iterator[Dataplane]:
    with Dataplane(host) as running:
        yield running
