"""What fields mean, of types whose modules do not say it themselves: they are more than a command's output.

By the type and the field's name in JSON. A `Meta(description=…)` in the type goes before.
"""

from __future__ import annotations

from collections.abc import Mapping

DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "netloom.api.findings.Finding": {
        "code": "what it is, for programs: [a page](../errors.md#findings) for each",
        "text": "what is wrong, for people",
        "next": "what to do about it",
        "subject": "what it is about: an attachment, a path, a link, a network; or empty",
        "severity": "`error`: something does not work; `warning`: something may not",
        "fix": "what `netloom doctor --fix` would do; empty if that is for a person to decide",
    },
    "netloom.kernel.features.Availability": {
        "feature": "something that the kernel may be able to do",
        "present": "whether it can, here",
        "essential": "whether every node needs it",
        "needed_for": "what it is for",
        "reason": "how it was found to be missing; empty if it is there",
        "remedy": "what to do if it is needed",
    },
    "netloom.ops.connectivity.report.ProbeResult": {
        "what": "what was tried",
        "family": "family of addresses",
        "from": "who called",
        "to": "who was called",
        "result": "how it went",
        "milliseconds": "how long it took",
        "detail": "what was seen",
        "code": "of a failure: its [code](../errors.md)",
        "subject": "of a failure: what the code is about, as `netloom doctor` names it, such as a chain",
        "cause": "of a failure: what is behind it, as far as can be told",
        "next": "of a failure: what to do",
    },
    "netloom.ops.connectivity.report.Container": {
        "name": "what the rows call it",
        "containerID": "its ID, as the plugins were told",
        "netns": "path of its namespace",
        "ifName": "its interface",
        "addresses": "its addresses",
        "mtu": "the interface's MTU",
        "hostLink": "the host's end; empty if the result names no link of the host",
    },
    "netloom.ops.connectivity.report.Left": {
        "what": "what could not be removed",
        "why": "why not",
        "next": "how to remove it",
    },
    "netloom.ops.connectivity.report.Connectivity": {
        "network": "the network that was tried",
        "containers": "the two throw-away containers",
        "checks": "everything that was tried, in order",
        "passed": "how many of them passed",
        "failed": "how many failed",
        "skipped": "how many could not be tried here",
        "in_time": "whether all of it was tried before the time ran out",
        "removal": "commands that remove what `--keep` has left",
        "left": "what is there unasked, since it could not be removed",
        "warnings": "what is worth knowing besides",
    },
    "netloom.ops.bundle.archive.Bundle": {
        "path": "the file",
        "size": "its size in bytes",
        "manifest": "what is in it: its `MANIFEST.json`",
    },
    "netloom.ops.bundle.archive.Manifest": {
        "netloom": "version of the netloom that made it",
        "made": "when it was made, in seconds since 1970",
        "host": "the machine's name",
        "anonymous": "whether names and addresses were replaced",
        "in_time": "whether no source was given up for want of time",
        "parts": "all members, also those that could not be had",
    },
    "netloom.ops.bundle.archive.Part": {
        "name": "its path in the archive",
        "about": "what it is",
        "size": "bytes in the archive; 0: there is none",
        "cut": "what is missing of it, if anything",
        "error": "why there is none, or what more there should be",
        "milliseconds": "how long it took to get",
    },
}
