"""Show the CNI versions that a plugin supports.

examples:
  netloom cni version bridge
  CNI_PATH=/opt/cni/bin netloom cni version bridge --json
"""

from __future__ import annotations

import argparse
from typing import Annotated

from msgspec import Meta, Struct

from ....api.text import printable
from ...arguments import add_json
from ...terminal.output import say
from ...terminal.tables import print_json
from . import target


class Spoken(Struct, frozen=True, rename="camel"):
    """The answer of a plugin to VERSION."""

    cni_version: Annotated[str, Meta(description="version of the answer itself")]
    supported_versions: Annotated[list[str], Meta(description="versions that the plugin supports")]


OUTPUT = Spoken


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plugin", metavar="PLUGIN", help="type of the plugin, as in a configuration")
    target.add_timeout(parser, 10)
    target.add_unused_cache_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    info = target.runtime(args).version(args.plugin)
    if not args.json:
        say(printable(f"{args.plugin} supports {', '.join(info.supported_versions)}"))
    else:
        print_json(Spoken(info.cni_version, list(info.supported_versions)))
    return 0
