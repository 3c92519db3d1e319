"""Convert a CNI result to another version. The result is read from FILE or from standard input.

examples:
  netloom cni convert --to 0.4.0 result.json
  netloom cni add mynet /run/netns/web | netloom cni convert --to 0.2.0
"""

from __future__ import annotations

import argparse
import sys
from typing import BinaryIO

from ....cni import AnyResult, CNIError, IOFailure, decode_result
from ....cni.versions import ALL
from ....cni.wire import DOCUMENT_MAX
from ....ops.errors import Advised, UsageError
from ...arguments import add_json
from ...terminal.tables import print_result

OUTPUT = AnyResult


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        required=True,
        choices=ALL,
        metavar="VERSION",
        help=f"CNI version of the output: {', '.join(ALL)}",
    )
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="file with the result (default: standard input)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    data = _read(args.file)
    try:
        result = decode_result(data, "not a CNI result").as_version(args.to)
    except CNIError as error:
        raise Advised(error, "pass a CNI result, as `netloom cni add` prints it") from None
    print_result(result, as_json=args.json, newline=True)
    return 0


def _read(path: str) -> bytes:
    if path == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed, and no FILE is given")
        return _bounded(sys.stdin.buffer, "standard input")
    try:
        with open(path, "rb") as file:  # may be a pipe: <(…)
            return _bounded(file, path)
    except OSError as cause:
        raise IOFailure(f"cannot read {path}: {cause.strerror}") from cause


def _bounded(file: BinaryIO, name: str) -> bytes:
    data = file.read(DOCUMENT_MAX + 1)
    if len(data) > DOCUMENT_MAX:
        raise UsageError(f"{name} is larger than {DOCUMENT_MAX >> 20} MiB")
    return data
