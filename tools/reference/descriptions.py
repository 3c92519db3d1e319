"""Descriptions of fields of types that the output of several commands uses.

Keys are the type and the field's name in JSON. A `Meta(description=…)` in the type takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "netloom.api.findings.Finding": {
        "code": "the finding's code, for programs: each has [a page](../errors.md#findings)",
        "text": "the problem, as a sentence",
        "next": "the next step, as a sentence or command",
        "subject": "the subject: an attachment, a path, a link or a network; empty if there is none",
        "severity": "`error`: something does not work; `warning`: something may fail",
        "fix": "what `netloom doctor --fix` would do; empty if a person has to decide",
    },
    "netloom.kernel.features.Availability": {
        "feature": "a feature of the kernel",
        "present": "whether this kernel has it",
        "essential": "whether every node needs it",
        "needed_for": "what netloom uses it for",
        "reason": "the error of the probe; empty if the feature is available",
        "remedy": "the next step, if the feature is needed",
    },
    "netloom.ops.connectivity.report.ProbeResult": {
        "what": "the probe",
        "family": "address family",
        "from": "the source",
        "to": "the destination",
        "result": "the outcome",
        "milliseconds": "how long it took",
        "detail": "what the probe observed",
        "code": "for a failure: its [code](../errors.md)",
        "subject": "for a failure: the subject of the code, as `netloom doctor` names it, such as a chain",
        "cause": "for a failure: the likely cause, if known",
        "next": "for a failure: the next step",
    },
    "netloom.ops.connectivity.report.Container": {
        "name": "its name in `from` and `to`",
        "containerID": "its container ID",
        "netns": "the path of its network namespace",
        "ifName": "its interface",
        "addresses": "its addresses",
        "mtu": "the interface's MTU",
        "hostLink": "name of the host's end; empty if the result names no link of the host",
    },
    "netloom.ops.connectivity.report.Left": {
        "what": "what could not be removed",
        "why": "why not",
        "next": "how to remove it",
    },
    "netloom.ops.connectivity.report.Connectivity": {
        "network": "the tested network",
        "containers": "the two temporary containers",
        "checks": "all probes, in order",
        "passed": "how many passed",
        "failed": "how many failed",
        "skipped": "how many could not run here",
        "in_time": "whether all probes ran before the time limit",
        "removal": "commands that remove what `--keep` kept",
        "left": "what should have been removed, but could not be",
        "warnings": "warnings, as sentences",
    },
    "netloom.ops.bundle.archive.Bundle": {
        "path": "path of the archive",
        "size": "its size in bytes",
        "manifest": "its `MANIFEST.json`, which lists its contents",
    },
    "netloom.ops.bundle.archive.Manifest": {
        "netloom": "version of netloom that created it",
        "made": "when it was created, in seconds since 1970",
        "host": "the machine's name",
        "anonymous": "whether names and addresses were replaced",
        "in_time": "whether every source was collected before the time limit",
        "parts": "all members, including those that could not be collected",
    },
    "netloom.ops.bundle.archive.Part": {
        "name": "its path in the archive",
        "about": "what it is",
        "size": "its size in the archive, in bytes; 0 if it is not in the archive",
        "cut": "what is missing from it, if anything",
        "error": "why it is missing or incomplete",
        "milliseconds": "how long it took to collect",
    },
}
