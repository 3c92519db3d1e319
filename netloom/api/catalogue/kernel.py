"""Errors of kernel objects, as commands meet them: `netloom plan`, `netloom doctor`, `netloom up`."""

from __future__ import annotations

from .entry import Entry


def _entry(code: str, title: str, meaning: str, remedy: str) -> Entry:
    return Entry(code, "kernel", title, meaning, remedy)


ENTRIES = (
    _entry(
        "kernel-refused",
        "the kernel said no",
        "A request to the kernel came back with an error; the message ends with the kernel's own words. What "
        "the plan had made until then was taken back.",
        "`netloom plan check` shows what is missing; `netloom doctor` lists what this kernel can do.",
    ),
    _entry(
        "kernel-conflict",
        "something else is there",
        "In the place of an object there is one that is different, or that is not netloom's. It was left "
        "untouched.",
        "Set right or remove what is in the way, if nobody else needs it; or use another name.",
    ),
    _entry(
        "kernel-lacks",
        "this kernel lacks a feature",
        "The kernel has no support for an object: it was built without it, or its module cannot be loaded.",
        "`netloom doctor` lists every feature, what needs it, and the kernel's option that brings it.",
    ),
    _entry(
        "kernel-forbids",
        "not permitted",
        "The kernel lets only root, or a process with CAP_NET_ADMIN and CAP_SYS_ADMIN, do this.",
        "Run it as root; in a container, give it both capabilities.",
    ),
    _entry(
        "plan-invalid",
        "a plan that cannot be read",
        "The file is no plan, is of a later version, or needs a namespace that was not given.",
        "Mend what the message names; docs/reference/plan.md lists every object and field.",
    ),
    _entry(
        "object-invalid",
        "a value that no object can have",
        "A field of an object has a value that the kernel could never take.",
        "Mend the value that the message names.",
    ),
    _entry(
        "namespace-invalid",
        "no network namespace",
        "The path or name leads to no network namespace, or to one that must not be used here.",
        "Give the namespace as a path, such as /run/netns/NAME, or as its name. To remove what a namespace "
        "that is gone has left on the host, leave it out.",
    ),
    _entry(
        "library-missing",
        "a shared library is not installed",
        "nftables is driven by libnftables in the same process, and it is not there.",
        "Install the package that the message names: `apt install libnftables1` on Debian.",
    ),
    _entry(
        "kernel-deadline",
        "not done in its time",
        "The kernel was busy for longer than was allowed. The message says in which state things are.",
        "Try again, or give it more time.",
    ),
)
