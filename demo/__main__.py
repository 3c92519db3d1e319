"""The main job in half a minute: containers on a network, and an agent that is killed in the middle of it.

Everything happens in network and mount namespaces of its own, so that the machine's interfaces, /run and
/var/lib stay unchanged. The demo checks every statement that it prints, and fails if one is wrong.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

from bench import isolation
from bench.hosts import PLUGIN
from bench.place import BUILD, CHECKOUT
from netloom.cli.terminal.tables import table
from netloom.cni import AnyResult, CNIError, Endpoint, Result, Runtime, load_network

from .node import Agent, DemoFailed, Ping, make_container, netns, ping, remove_container, run
from .speed import beside_the_reference

POOLS = [{"cidr": "10.77.0.0/24"}, {"cidr": "fd77::/64"}]
NETWORK = {"cniVersion": "1.1.0", "name": "demo", "plugins": [{"type": "netloom", "pools": POOLS}]}

COLOURS = ("red", "green", "blue", "yellow", "white")
BURST = tuple(f"job-{number}" for number in range(1, 13))
AT_ONCE = 4
# The agent is killed in this ADD, after it created the link and before it records that.
FATAL = len(COLOURS) + 6
# Seconds without an agent, so that the running pings mean something.
OUTAGE = 2.0
ROUNDS = 30


def main() -> int:
    if os.geteuid() != 0:
        print("demo: needs root, because it makes network namespaces", file=sys.stderr)
        return 1
    obstacle = isolation.obstacle(CHECKOUT)
    if obstacle:
        print(f"demo: {obstacle}", file=sys.stderr)
        return 1
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="demo-", dir=BUILD) as directory:
        isolation.enter(Path(directory))
        run("ip", "link", "set", "lo", "up")
        try:
            Story(Path(directory)).tell()
        except (DemoFailed, CNIError) as failure:
            print(f"\ndemo: FAILED: {failure}", file=sys.stderr)
            return 1
    return 0


class Story:
    def __init__(self, directory: Path) -> None:
        configs = directory / "net.d"
        configs.mkdir()
        (configs / "10-demo.conflist").write_text(json.dumps(NETWORK))
        self.network = load_network(str(configs), "demo")
        self.runtime = Runtime([str(PLUGIN.parent)], cache_dir=str(directory / "cache"))
        self.agent = Agent(directory / "agent.log")
        self.results: dict[str, Result] = {}
        self.stack = ExitStack()

    def tell(self) -> None:
        with self.stack:
            self.stack.enter_context(closing(self.agent))
            self.attach_five()
            pings = self.ping_on()
            interrupted = self.die_in_a_burst()
            self.delete_without_an_agent()
            self.come_back(interrupted, pings)
            self.compare()
            self.leave_nothing()

    def attach_five(self) -> None:
        took = self.agent.start(f"add.applied:kill:{FATAL}")
        say(f"the agent is ready, {took * 1000:.0f} ms after its start")
        show(f"journal  {self.agent.settings.journal}", f"socket   {self.agent.settings.socket}")
        rows = []
        for name in COLOURS:
            make_container(name)
            began = time.perf_counter()
            self.add(name)
            milliseconds = (time.perf_counter() - began) * 1000
            rows.append((name, *self.addresses(name), f"{milliseconds:.1f} ms"))
        say("five containers join a network, each by one run of the plugin, as with any runtime")
        show(*table(rows, ("CONTAINER", "IPV4", "IPV6", "ADD")))
        for address in self.addresses("blue"):
            sent, received = ping("red", address)
            require(sent == received, f"red reaches blue at {address}: {received} of {sent} answered")
            show(f"red pings blue at {address}: {sent} sent, {received} received")

    def ping_on(self) -> list[Ping]:
        pings = [Ping("red", address) for address in self.addresses("blue")]
        for each in pings:
            self.stack.enter_context(closing(each))
        return pings

    def die_in_a_burst(self) -> str:
        """Returns the container that was being attached when the agent was killed."""
        for name in BURST:
            make_container(name)
        say(f"red keeps pinging blue; {len(BURST)} more containers join, {AT_ONCE} at a time")
        with ThreadPoolExecutor(AT_ONCE) as clients:
            failed = [error for error in clients.map(self.try_add, BURST) if error is not None]
        ended = self.agent.ended_by()
        require(ended == "SIGKILL", f"the agent ended by {ended}, not by SIGKILL")
        joined = [name for name in BURST if name in self.results]
        require(bool(joined and failed), "the agent was not killed in the middle of the burst")
        show(f"in the middle of it, the agent is killed: {ended}")
        show(
            f"{len(joined)} of them are attached, {len(failed)} got code {failed[-1].code}, try again later:"
        )
        show(*textwrap.wrap(str(failed[-1]), 100, initial_indent="  ", subsequent_indent="  "))
        begun = list(self.agent.ledger().attachments("pending"))
        made = set(self.agent.left_in_kernel())
        halfway = [row for row in begun if row.host_link in made]
        require(bool(halfway), "no unfinished attachment had its link")
        show(f"unfinished, according to the journal: {', '.join(row.container_id for row in begun)}")
        show(f"the link {halfway[0].host_link} of {halfway[0].container_id} already exists")
        return halfway[0].container_id

    def delete_without_an_agent(self) -> None:
        say("yellow is deleted while no agent runs")
        self.runtime.delete(self.network, endpoint("yellow"))
        del self.results["yellow"]
        queued = self.agent.queued()
        require(queued == 1, f"{queued} DELs are queued, not one")
        show(f"DEL succeeds; {queued} is queued in {self.agent.settings.intents}")
        time.sleep(OUTAGE)

    def come_back(self, interrupted: str, pings: Sequence[Ping]) -> None:
        took = self.agent.start()
        say(f"the agent is started again, and ready after {took * 1000:.0f} ms")
        ledger = self.agent.ledger()
        unfinished = list(ledger.attachments("pending", "deleting"))
        require(not unfinished, f"{len(unfinished)} attachments are still unfinished")
        require(self.agent.queued() == 0, "the queued DEL was not replayed")
        known = {place.key.container_id for place in ledger.places()}
        require("yellow" not in known, "yellow's attachment is still in the journal")
        show("the agent has undone unfinished attachments and replayed yellow's DEL")
        lost = set(self.results) - known
        require(not lost, f"lost: {', '.join(sorted(lost))}")
        show(f"nothing is lost: all {len(self.results)} attached containers have their addresses")
        again = [name for name in BURST if name not in self.results]
        require(interrupted in again, f"{interrupted} was interrupted, but its ADD reported success")
        for name in again:
            self.add(name)
        show(f"the {len(again)} that failed are added again, {interrupted} among them: all are attached")
        self.require_clean_audit()
        show(f"audit of journal, pools and kernel, {len(self.results)} attachments: no findings")
        for each in pings:
            sent, received = each.end()
            require(sent == received, f"of {sent} pings to {each.address}, {sent - received} were lost")
            show(f"red pinged blue at {each.address} throughout: {sent} sent, {sent - received} lost")

    def compare(self) -> None:
        say(f"time that a runtime waits, median of {ROUNDS}, both families, measured in this run")
        rows = [
            (verb, f"{ours:.1f} ms", f"{theirs:.1f} ms", f"{ours / theirs:.2f}")
            for verb, ours, theirs in beside_the_reference(ROUNDS)
        ]
        show(*table(rows, ("VERB", "NETLOOM", "BRIDGE 1.9.1", "RATIO")))

    def leave_nothing(self) -> None:
        say("everything is deleted")
        for name in list(self.results):
            self.runtime.check(self.network, endpoint(name))
            self.runtime.delete(self.network, endpoint(name))
        for name in (*COLOURS, *BURST):
            remove_container(name)
        self.require_clean_audit()
        ledger = self.agent.ledger()
        left = [str(place.key) for place in ledger.places()]
        left += [ip.hex() for _, ip, _ in ledger.held()]
        left += self.agent.left_in_kernel() + [str(it) for it in self.runtime.attachments()]
        require(not left, f"left behind: {', '.join(left)}")
        show("left: 0 attachments, 0 addresses held, 0 links, 0 firewall elements, 0 results in the cache")
        ended = self.agent.stop()
        require(ended == "exit status 0", f"the agent ended by {ended}, not with exit status 0")
        show("the agent is stopped: exit status 0")

    def add(self, name: str) -> None:
        self.results[name] = modern(self.runtime.add(self.network, endpoint(name)))

    def try_add(self, name: str) -> CNIError | None:
        try:
            self.add(name)
        except CNIError as error:
            return error
        return None

    def addresses(self, name: str) -> list[str]:
        return [ip.address.split("/")[0] for ip in self.results[name].ips]

    def require_clean_audit(self) -> None:
        findings = self.agent.audit(POOLS)
        require(not findings, "; ".join(finding.text for finding in findings))


def endpoint(name: str) -> Endpoint:
    return Endpoint(name, netns(name))


def modern(result: AnyResult) -> Result:
    assert isinstance(result, Result)
    return result


def require(so: bool, failure: str) -> None:
    if not so:
        raise DemoFailed(failure)


def say(text: str) -> None:
    print(f"\n== {text}", flush=True)


def show(*lines: str) -> None:
    for line in lines:
        print(f"   {line}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
