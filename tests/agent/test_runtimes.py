"""What runtimes say otherwise than the conventions do, and mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from netloom.kernel import Plan
from netloom.networks.features.options import as_named
from netloom.networks.features.ports import of_plan

from ..fixtures.node import Node

pytestmark = pytest.mark.kernel

PORT = {"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": ""}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"HostPort": 1, "ContainerPort": 2}, {"hostPort": 1, "containerPort": 2}),
        ({"HostIP": "", "hostip": "10.0.0.1"}, {"hostIP": "10.0.0.1"}),
        ({"hostPort": 1, "HostPort": 2}, {"hostPort": 1}),
        ({"HostPort": 2, "hostPort": 1}, {"hostPort": 1}),
        ({"Servers": None, "searches": ["a"]}, {"searches": ["a"]}),
        ({"portMappings": None, "ips": ["10.0.0.1", None]}, {"ips": ["10.0.0.1"]}),
        ({"Other": 1}, {"Other": 1}),
        ("text", "text"),
    ],
)
def test_names_count_whatever_their_case_and_null_is_nothing(said: Any, meant: Any) -> None:
    assert as_named(said) == meant


def test_a_container_on_two_networks_has_its_port_on_the_first(shared: Node) -> None:
    """podman asks every network of a container for all of its ports."""
    container = shared.container()
    shared.add(container, shared.config("one", runtimeConfig={"portMappings": [PORT]}))
    config = shared.config("two", runtimeConfig={"portMappings": [PORT]})
    assert shared.plugin("ADD", container, config, ifname="eth1").code == 0
    holders = {number for number, _ in shared.ledger().ports()}
    (one,) = [it for it in shared.ledger().places() if it.key.network == "one"]
    assert holders == {one.id}


def test_what_another_network_of_the_container_holds_is_no_part_of_its_plan(shared: Node) -> None:
    container = shared.container()
    shared.add(container, shared.config("one", runtimeConfig={"portMappings": [PORT]}))
    config = shared.config("two", runtimeConfig={"portMappings": [PORT, {**PORT, "hostPort": 8081}]})
    assert shared.plugin("ADD", container, config, ifname="eth1").code == 0
    (two,) = [it for it in shared.ledger().attachments() if it.network == "two"]
    assert {it.host_port for it in of_plan(Plan.decode(two.plan))} == {8081}
