"""What a manager says by the environment, also if it is nonsense."""

from __future__ import annotations

import os

import pytest

from netloom.agent.systemd import Manager

pytestmark = pytest.mark.unit

OWN = str(os.getpid())


def test_without_a_manager_there_is_nothing() -> None:
    found = Manager.of_environment({"PATH": "/bin"})
    assert (found.watchdog, found.passed, found.runs_us) == (None, (), False)
    found.tell("READY=1")


def test_variables_are_taken_out_for_no_other_process_is_meant() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "5", "WATCHDOG_PID": OWN, "LISTEN_PID": OWN,
        "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b", "FDSTORE": "4", "HOME": "/root",
    }  # fmt: skip
    found = Manager.of_environment(environment)
    assert environment == {"HOME": "/root"}
    assert (found.watchdog, [tuple(it) for it in found.passed]) == (5e-6, [(3, "a"), (4, "b")])
    assert found.runs_us


@pytest.mark.parametrize(
    "environment",
    [
        {"WATCHDOG_USEC": "x"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "-5"},
        {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"},
        {"LISTEN_FDS": "2"},
        {"LISTEN_FDS": "2", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "-1", "LISTEN_PID": OWN},
        {"LISTEN_FDS": "x", "LISTEN_PID": OWN},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "@"},
        {"NOTIFY_SOCKET": "vsock:2:1234"},
    ],
)
def test_what_is_not_for_us_or_nonsense_is_nothing(environment: dict[str, str]) -> None:
    found = Manager.of_environment(environment)
    assert (found.watchdog, found.passed, found.runs_us) == (None, (), False)


def test_descriptors_without_names_have_none() -> None:
    found = Manager.of_environment({"LISTEN_FDS": "2", "LISTEN_PID": OWN, "LISTEN_FDNAMES": "a"})
    assert [it.name for it in found.passed] == ["a", ""]
