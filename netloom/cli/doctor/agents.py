"""Agents that run beside each other. Each takes the other's links and routes for a stranger's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise

from ...api.findings import Finding
from ..place import STATE_DIR
from . import processes
from .ground import Ground

# How an agent is started: by the command, or by `netloom up`.
_COMMANDS = ("netloom", "netloom.cli.main")


def look(ground: Ground) -> Iterator[Finding]:
    running = [process for process in processes.numbers() if _is_agent(process)]
    here = os.stat("/proc/self/ns/net")
    beside = [process for process in running if _is_in(process, here)]
    if len(beside) < 2:
        return
    meant = ground.report.agent.process if ground.report.agent else ground.report.silent
    shown = "; ".join(f"process {process} with its state in {_state_dir(process)}" for process in beside)
    for process in beside:
        if process != meant:
            state_dir = _state_dir(process)
            yield Finding(
                code="two-agents",
                subject=f"process {process}",
                text=f"{len(beside)} agents run in this network namespace: {shown}",
                next=f"stop the one that is not meant: `netloom down --state-dir {state_dir}"
                f"{_socket_option(process)}`, or `kill {process}`",
            )


def _is_agent(process: int) -> bool:
    words = processes.arguments(process)
    return any(
        os.path.basename(command) in _COMMANDS and verb == "agent" for command, verb in pairwise(words)
    )


def _is_in(process: int, namespace: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(f"/proc/{process}/ns/net"), namespace)
    except OSError:
        return False


def _state_dir(process: int) -> str:
    return _option(process, "--state-dir", "NETLOOM_STATE_DIR") or STATE_DIR


def _socket_option(process: int) -> str:
    socket = _option(process, "--socket", "NETLOOM_SOCKET")
    return f" --socket {socket}" if socket else ""


def _option(process: int, option: str, variable: str) -> str:
    words = processes.arguments(process)
    for number, word in enumerate(words):
        if word == option and number + 1 < len(words):
            return words[number + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            environment = dict(
                entry.decode(errors="replace").partition("=")[::2] for entry in file.read().split(b"\0")
            )
    except OSError:
        return ""
    return environment.get(variable, "")
