"""Check network configurations: that they parse, that their plugins exist and speak their version, and
that netloom's own plugin takes the keys that it is given.

Without NETWORK, every file in NETCONFPATH is checked. The exit status is 3 if anything is wrong.

examples:
  netloom cni validate
  netloom cni validate mynet --json
"""

from __future__ import annotations

import argparse

from ...cni import CNIError, Failures, LoadedNetwork, NetworkConfig, Problem, Runtime, load_networks
from ..arguments import add_json
from ..failure import headline
from ..output import printable, say
from ..status import CONFIGURATION
from ..views import for_a_person, print_json, table
from . import target


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("network", metavar="NETWORK", nargs="?", help="only this network")
    target.add_timeout(parser, 10, "for each network")
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
    if for_a_person(args.json):
        _print(findings)
    else:
        print_json(findings)
    return CONFIGURATION if any(finding["errors"] for finding in findings) else 0


def _checked(runtime: Runtime, loaded: LoadedNetwork) -> dict[str, object]:
    capabilities: list[str] = []
    errors: list[str] = []
    try:
        capabilities = runtime.validate(loaded.network)
    except Failures as several:
        errors = [headline(error) for error in several.errors]
    except CNIError as error:
        errors = [headline(error)]
    refusals, warnings = _judged(loaded.network)
    # A network's name is judged by both.
    errors += [f"plugin netloom: {text}" for text in refusals if text not in errors]
    return {
        "path": loaded.path,
        "network": loaded.network.name,
        "cniVersion": loaded.network.cni_version,
        "plugins": [plugin.type for plugin in loaded.network.plugins],
        "capabilities": capabilities,
        "errors": errors,
        "warnings": warnings,
    }


def _judged(network: NetworkConfig) -> tuple[list[str], list[str]]:
    """Errors and warnings of our own plugin. It is not asked: it only carries requests, and its agent need
    not run.
    """
    if all(plugin.type != "netloom" for plugin in network.plugins):
        return [], []
    from ..networks import misspellings, refusals  # a hundred modules that other networks need not wait for

    return [headline(error) for error in refusals(network)], misspellings(network)


def _unreadable(problem: Problem) -> dict[str, object]:
    empty: dict[str, object] = {"network": None, "cniVersion": None, "plugins": [], "capabilities": []}
    return {"path": problem.path, **empty, "errors": [str(problem.error)], "warnings": []}


def _print(findings: list[dict[str, object]]) -> None:
    rows = []
    for finding in findings:
        plugins = finding["plugins"]
        assert isinstance(plugins, list)
        verdict = "wrong" if finding["errors"] else "fine"
        rows.append(
            [
                str(finding["network"] or "-"),
                str(finding["cniVersion"] or "-"),
                verdict,
                ",".join(plugins) or "-",
                str(finding["path"]),
            ]
        )
    say(*table(rows, ["NETWORK", "VERSION", "STATE", "PLUGINS", "FILE"]))
    for finding in findings:
        errors, warnings = finding["errors"], finding["warnings"]
        assert isinstance(errors, list)
        assert isinstance(warnings, list)
        for text in [*errors, *(f"warning: {it}" for it in warnings)]:
            say("", printable(f"{finding['path']}: {text}"))
