"""Check network configurations: their syntax, that their plugins exist and support their CNI version, and
that netloom's plugin accepts their keys.

Without NETWORK, the command checks every file in NETCONFPATH. The exit status is 3 if it finds an error.

examples:
  netloom cni validate
  netloom cni validate mynet --json
"""

from __future__ import annotations

import argparse
from typing import Annotated

from msgspec import Meta, Struct

from ....api.text import printable
from ....cni import CNIError, Failures, LoadedNetwork, NetworkConfig, Problem, Runtime, load_networks
from ...arguments import add_json
from ...exit_status import CONFIGURATION
from ...failure import headline
from ...terminal.output import say
from ...terminal.tables import print_json, table
from . import target


class Validated(Struct, frozen=True, rename="camel"):
    """A configuration file and the errors of its network."""

    path: Annotated[str, Meta(description="the file")]
    network: Annotated[str | None, Meta(description="the network's name; null: the file cannot be read")]
    cni_version: Annotated[str | None, Meta(description="its CNI version; null: the file cannot be read")]
    plugins: Annotated[list[str], Meta(description="types of its plugins, in order")]
    capabilities: Annotated[list[str], Meta(description="capabilities that it declares")]
    errors: Annotated[list[str], Meta(description="its errors; empty if it is valid")]
    warnings: Annotated[list[str], Meta(description="unknown keys that resemble a key of netloom")]


OUTPUT = list[Validated]


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", nargs="?", help="network to check (default: all)")
    target.add_timeout(parser, 10, "time limit for each network")
    target.add_unused_cache_dir(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    catalogue = load_networks(target.config_dir())
    everything = args.network is None
    if not everything or not (catalogue.networks or catalogue.problems):
        catalogue.find(args.network or "")
    runtime = target.runtime(args)
    findings = [
        _checked(runtime, loaded)
        for loaded in catalogue.networks
        if everything or loaded.network.name == args.network
    ]
    if everything:
        findings += [_unreadable(problem) for problem in catalogue.problems]
    else:
        target.warn_of_problems(args, catalogue)
    if not args.json:
        _print(findings)
    else:
        print_json(findings)
    return CONFIGURATION if any(it.errors for it in findings) else 0


def _checked(runtime: Runtime, loaded: LoadedNetwork) -> Validated:
    capabilities: list[str] = []
    errors: list[str] = []
    try:
        capabilities = runtime.validate(loaded.network)
    except Failures as several:
        errors = [headline(error) for error in several.errors]
    except CNIError as error:
        errors = [headline(error)]
    refusals, warnings = _judged(loaded.network)
    # Both validate the network's name.
    errors += [f"plugin netloom: {text}" for text in refusals if text not in errors]
    return Validated(
        path=loaded.path,
        network=loaded.network.name,
        cni_version=loaded.network.cni_version,
        plugins=[plugin.type for plugin in loaded.network.plugins],
        capabilities=list(capabilities),
        errors=errors,
        warnings=warnings,
    )


def _judged(network: NetworkConfig) -> tuple[list[str], list[str]]:
    """Returns errors and warnings of netloom's plugin, without running it, since its agent may not run."""
    if all(plugin.type != "netloom" for plugin in network.plugins):
        return [], []
    from ....networks.config import Misspelled
    from ....ops.node.networks import misspellings, refusals

    errors = refusals(network)
    named = {error.key for error in errors if isinstance(error, Misspelled)}
    warnings = [text for key, text in misspellings(network).items() if key not in named]
    return [headline(error) for error in errors], warnings


def _unreadable(problem: Problem) -> Validated:
    return Validated(
        path=problem.path,
        network=None,
        cni_version=None,
        plugins=[],
        capabilities=[],
        errors=[str(problem.error)],
        warnings=[],
    )


def _print(findings: list[Validated]) -> None:
    rows = [
        [
            it.network or "-",
            it.cni_version or "-",
            "wrong" if it.errors else "fine",
            ",".join(it.plugins) or "-",
            it.path,
        ]
        for it in findings
    ]
    say(*table(rows, ["NETWORK", "VERSION", "STATE", "PLUGINS", "FILE"]))
    for it in findings:
        for text in [*it.errors, *(f"warning: {text}" for text in it.warnings)]:
            say("", printable(f"{it.path}: {text}"))
