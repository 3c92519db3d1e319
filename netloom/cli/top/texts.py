"""What the live view says in words: of the agent, of pools, of the event that is chosen."""

from __future__ import annotations

import time

from rich.console import Console
from rich.text import Text

from ..event import Event, details_of, pod_of, took
from ..moments import shown
from ..pools import PoolShown, counted, used
from ..views import age
from .reading import Reading

_MORE = "… enter: all"
_BAR = 10
_NEARLY = 90.0


def head(it: Reading, is_paused: bool) -> Text:
    """Two lines of at most 80 characters, as a rule; and one for each trouble."""
    attached = ", ".join(f"{count} {state}" for state, count in it.attachments.items() if count) or "none"
    if it.agent is None:
        first = Text(f"no agent: {it.why}", style="bold red")
    else:
        since = age(time.time() - it.agent.started)
        first = Text(f"netloom {it.agent.version}, process {it.agent.process}, for {since}", style="bold")
    first.append(f"   {shown(it.time)[11:]}", style="not bold")
    if is_paused:
        first.append("   PAUSED", style="bold reverse")
    waiting = "" if it.agent is None else f"   at the kernel {it.agent.under_way}"
    second = f"attachments {attached}   DELs queued {it.intents}   repairs {it.repairs}{waiting}"
    troubles = [*(it.agent.troubles if it.agent else ()), *([it.why] if it.agent and it.why else ())]
    return Text("\n").join([first, Text(second), *(Text(trouble, style="bold red") for trouble in troubles)])


def pool(it: PoolShown) -> Text:
    filled = round(_BAR * it.percent / 100)
    style = "red" if not it.free else "yellow" if it.percent >= _NEARLY else "green"
    line = Text("█" * filled, style=style)
    line.append("░" * (_BAR - filled), style="none")
    line.append(f" {used(it):>4}  {it.cidr}  ", style="none")
    line.append(f"{counted(it.held)} held, {it.resting} resting, {counted(it.free)} free  ", style="none")
    return line.append(f"({', '.join(it.networks)})", style="dim")


def fitted(what: Text, console: Console, width: int, height: int) -> Text:
    """As much of it as there is room for; where that is not all, its end says what shows the rest."""
    lines = what.wrap(console, width)
    if len(lines) <= height:
        return what
    last = lines[height - 1]
    last.truncate(max(width - len(_MORE), 0), pad=True)
    return Text("\n").join([*lines[: height - 1], last.append(_MORE, style="bold reverse")])


def details(it: Event) -> Text:
    """Of one that failed, why comes first: a small screen has two lines for all of it."""
    key = "/".join(filter(None, (it.network, it.container_id, it.ifname)))
    lines = [" ".join(filter(None, (it.verb, key)))]
    if it.failed:
        lines += [f"code {it.code}: {it.error}", f"more: netloom explain {it.code}"]
    if it.details:
        lines.append(details_of(it))
    if it.addresses:
        lines.append(f"addresses {', '.join(it.addresses)}")
    if it.phases:
        lines.append("  ".join(f"{phase} {took(time)}" for phase, time in it.phases.items()))
    where = (f"pod {pod_of(it)}" if pod_of(it) else "", f"namespace {it.netns}" if it.netns else "")
    when = f"{shown(it.started, precise=True)}{f', by {it.caller}' if it.caller else ''}"
    return Text("\n".join([*lines, *filter(None, ["  ".join(filter(None, where))]), when]))
