"""What a manager says by the environment, also if it is nonsense."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from netloom.agent.systemd import BadVariable, Manager

pytestmark = pytest.mark.unit

OWN = str(os.getpid())

# A process to which descriptors 3 and 4 were handed, as $$ is its number.
_HANDED = 'export LISTEN_PID=$$; exec "$@" 3</dev/null 4</dev/null'
_TOLD = """
import json, os
from netloom.agent.systemd import BadVariable, Manager
try:
    found = Manager.of_environment(os.environ)
    said = ""
except BadVariable as error:
    found, said = Manager(), str(error)
print(json.dumps([found.passed, found.watchdog, found.runs_us, said, "LISTEN_FDS" in os.environ]))
"""


def handed(**variables: str) -> Any:
    words = ["bash", "-c", _HANDED, "bash", sys.executable, "-c", _TOLD]
    return json.loads(subprocess.run(words, env={**os.environ, **variables}, stdout=-1, check=True).stdout)


def test_without_a_manager_there_is_nothing() -> None:
    found = Manager.of_environment({"PATH": "/bin"})
    assert (found.watchdog, found.passed, found.runs_us) == (None, (), False)
    found.notify("READY=1")


def test_variables_are_taken_out_for_no_other_process_is_meant() -> None:
    environment = {
        "NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "5", "WATCHDOG_PID": OWN, "LISTEN_PID": OWN,
        "LISTEN_FDS": "0", "LISTEN_FDNAMES": "a:b", "FDSTORE": "4", "HOME": "/root",
    }  # fmt: skip
    found = Manager.of_environment(environment)
    assert environment == {"HOME": "/root"}
    assert (found.watchdog, found.passed, found.runs_us) == (5e-6, (), True)


@pytest.mark.parametrize(
    "environment",
    [
        {"WATCHDOG_USEC": ""},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": str(2**64 - 1)},
        {"WATCHDOG_USEC": "x", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"},
        {"LISTEN_FDS": "2"},
        {"LISTEN_FDS": "2", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "", "LISTEN_PID": OWN},
        {"LISTEN_FDS": "x", "LISTEN_PID": "1"},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "@"},
        {"NOTIFY_SOCKET": "vsock:2:1234"},
    ],
)
def test_what_is_not_for_us_is_nothing(environment: dict[str, str]) -> None:
    found = Manager.of_environment(environment)
    assert (found.watchdog, found.passed, found.runs_us) == (None, (), False)


@pytest.mark.parametrize("value", ["x", "-5", "1.5", "\u0665", " 5", "9" * 21, "9" * 400, "9" * 5000])
@pytest.mark.parametrize("name", ["WATCHDOG_USEC", "LISTEN_FDS"])
def test_what_is_no_number_is_an_error_that_names_the_variable(name: str, value: str) -> None:
    with pytest.raises(BadVariable, match=f"^{name} is ") as raised:
        Manager.of_environment({name: value, "LISTEN_PID": OWN})
    assert (raised.value.name, len(str(raised.value)) < 200) == (name, True)


@pytest.mark.parametrize("names", ["a:b", "a", "", "a:b:c"])
def test_descriptors_have_the_names_that_are_given(names: str) -> None:
    passed, _, _, said, stays = handed(LISTEN_FDS="2", LISTEN_FDNAMES=names)
    assert [number for number, _ in passed] == [3, 4]
    assert [name for _, name in passed] == [*names.split(":"), ""][:2]
    assert (said, stays) == ("", False)


@pytest.mark.parametrize("count", ["3", "99999999999", "9" * 20])
def test_descriptors_that_are_not_there_are_an_error(count: str) -> None:
    said = handed(LISTEN_FDS=count)[3]
    assert said == f"LISTEN_FDS is {count}, but descriptor 5 is not open"
