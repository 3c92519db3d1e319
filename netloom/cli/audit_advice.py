"""What to do about findings of the audit, by their kind; and what the agent does about them by itself."""

from __future__ import annotations

_DEFECT = (
    "this is a defect of netloom: please report it; `netloom cni del` and `netloom cni add` bring the "
    "attachment to rights"
)
_BY_ITSELF = "a running agent sees to it within a minute; `netloom up` starts one"

_ADVICE = {
    "table": _BY_ITSELF,
    "unfinished": _BY_ITSELF,
    "namespace": _BY_ITSELF,
    "plan": "detach it with its container, or with `netloom cni del`; `netloom ls --wide` has its names",
    "kernel": "the finding ends with the kernel's own words; ask `netloom doctor` once more",
    "link": "make sure that no container uses it, then `ip link del {name}`",
    "element": "it goes with the agent's next start (`netloom down`, `netloom up`), unless its link is there",
}
_MISSING = ": missing"
_CHANGED = (
    "somebody has changed it, and the agent leaves it so: change it back, or `netloom cni del` and "
    "`netloom cni add`"
)


def advice_on(what: str, text: str) -> str:
    if what == "drift":
        return _BY_ITSELF if text.endswith(_MISSING) else _CHANGED
    # link loom59a72c43055 belongs to no attachment
    name = text.split()[1] if what == "link" else ""
    return _ADVICE.get(what, _DEFECT).format(name=name)
