"""A plugin that does what a control file says and writes down what it was asked.

The contract is that of the noop test plugin of containernetworking/cni: the control file's path
comes in `CNI_ARGS` (`DEBUG=path`) or in the configuration (`debugFile`); `commandLog` names a
file to which every call is appended.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

from netloom.cni.args import parse_args
from netloom.cni.errors import from_code
from netloom.cni.plugin import DNS, Plugin, Request, Result
from netloom.cni.result import AnyResult
from netloom.cni.versions import ALL

_literal: list[str] = []
_exit_with: list[int] = []


def _control_file(args: str, config: dict[str, Any]) -> str:
    return parse_args(args).get("DEBUG") or str(config.get("debugFile") or "")


def _behave(request: Request) -> AnyResult | None:
    path = _control_file(request.args, request.config)
    if not path:
        _literal.append("{}")
        print("CNI_ARGS or config empty, no debug behavior", file=sys.stderr)
        return None
    with open(path) as file:
        orders = json.load(file)
    seen = {
        "ContainerID": request.container_id,
        "Netns": request.netns,
        "IfName": request.ifname,
        "Args": request.args,
        "Path": request.path,
        "NetnsOverride": request.environ.get("CNI_NETNS_OVERRIDE", ""),
        "StdinData": base64.b64encode(request.source).decode(),
    }
    orders |= {"Command": request.command, "CmdArgs": seen}
    with open(path, "w") as file:
        json.dump(orders, file)
    _log_command(str(request.config.get("commandLog") or ""), request.command, seen)
    if stderr := orders.get("ReportStderr"):
        sys.stderr.write(stderr)
    if message := orders.get("ReportError"):
        raise from_code(orders.get("ReportErrorCode") or 999, message)
    _exit_with.append(orders.get("ExitWithCode") or 0)
    match orders.get("ReportResult") or "":
        case "PASSTHROUGH":
            return request.prev_result
        case "INJECT-DNS":
            previous = request.prev_result
            assert previous is not None
            result = previous.as_version("1.1.0")
            assert isinstance(result, Result)
            return Result(result.interfaces, result.ips, result.routes, DNS(nameservers=("1.2.3.4",)))
        case literal:
            _literal.append(literal)
            return None


def _log_command(path: str, command: str, seen: dict[str, str]) -> None:
    if not path:
        return
    with open(path, "r+") as file:
        text = file.read()
        entries = json.loads(text) if text else []
        entries.append({"Command": command, "CmdArgs": seen})
        file.seek(0)
        json.dump(entries, file)


def _supported() -> tuple[str, ...]:
    path = _control_file(os.environ.get("CNI_ARGS", ""), {})
    if path:
        with open(path) as file:
            if stated := json.load(file).get("ReportVersionSupport"):
                return tuple(stated)
    return ("0.-42.0", *ALL)


def main() -> None:
    plugin = Plugin("noop", about="CNI noop plugin", supported=_supported())
    for verb in (plugin.add, plugin.check, plugin.delete, plugin.gc, plugin.status):
        verb(_behave)
    status, output = plugin.answer(os.environ, sys.stdin.buffer.read)
    if status == 0 and _literal:
        output = _literal[0].encode()
    sys.stdout.buffer.write(output)
    sys.stdout.flush()
    sys.exit(status or (_exit_with or [0])[0])


if __name__ == "__main__":
    main()
