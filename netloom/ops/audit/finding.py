"""What an audit finds, each with what to do about it; and what a running agent does about it by itself."""

from __future__ import annotations

from ...api.findings import Finding, Severity

_DEFECT = (
    "this is a defect of netloom: please report it, with what `netloom bundle` packs; `netloom cni del` and "
    "`netloom cni add` bring the attachment to rights"
)
_BY_ITSELF = "a running agent sees to it within a minute; `netloom up` starts one"

_ADVICE = {
    "table-broken": "a running agent lays it down anew at once; `netloom up` starts one",
    "attachment-unfinished": _BY_ITSELF,
    "netns-stale": (
        "a running agent releases it half a minute after the namespace is gone; `netloom gc` does it at once"
    ),
    "netns-busy": "`netloom doctor` names who holds it: end or restart that; its links go with it",
    "plan-unreadable": (
        "detach it with its container, or with `netloom cni del`; `netloom ls --wide` has its names"
    ),
    "kernel-silent": "the finding ends with the kernel's own words; ask once more with `netloom check`",
    "link-orphaned": (
        "a container may use it, as after a journal was lost: delete that with its runtime, and the link "
        "goes, too; if none does, `ip link del {subject}`"
    ),
    "orphan-incomplete": (
        "delete that container with its runtime and create it again; or, if you have a copy of the journal "
        "that knows it: `netloom down`, `netloom journal restore FILE`, `netloom up`"
    ),
    "element-orphaned": "it goes with the agent's next start (`netloom down`, `netloom up`)",
    "object-missing": f"{_BY_ITSELF}; `netloom check --repair` does it at once",
    "object-changed": (
        "somebody has changed it, and the agent leaves it so: change it back, or let "
        "`netloom check --repair` do it"
    ),
}

# What keeps nothing from working.
_HARMLESS = frozenset({"link-orphaned"})


def finding(code: str, text: str, subject: object) -> Finding:
    about = str(subject)
    severity: Severity = "warning" if code in _HARMLESS else "error"
    advice = _ADVICE.get(code, _DEFECT).replace("{subject}", about)
    return Finding(code=code, text=text, subject=about, next=advice, severity=severity)
