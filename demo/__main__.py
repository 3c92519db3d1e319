"""The main job in half a minute: two namespaces on one network, attached with the library; then a plan.

Everything happens in a network and mount namespace of its own, so that the machine's interfaces,
/run and /var/lib stay as they are. The plugins are the reference ones: bridge and host-local.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from netloom.cli.views import result_view, table
from netloom.cni import AnyResult, CNIError, Endpoint, NetworkConfig, Result, Runtime, load_network
from netloom.kernel import Namespace, Plan, Scope, check
from netloom.kernel.dataplane import Dataplane

CHECKOUT = Path(__file__).resolve().parent.parent
PLUGINS = CHECKOUT / ".peers" / "plugins"
PRIVATE = "NETLOOM_DEMO_PRIVATE"

NETWORK = {
    "cniVersion": "1.1.0",
    "name": "demo",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "demo0",
            "isGateway": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.77.0.0/24"}], [{"subnet": "fd77::/64"}]],
                "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
            },
        }
    ],
}


def main() -> int:
    if os.geteuid() != 0:
        sys.exit("demo: needs root, because it makes network namespaces")
    if PRIVATE not in os.environ:
        os.environ[PRIVATE] = "1"
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, "-m", "demo"])
    for words in ("mount -t tmpfs tmpfs /run", "ip link set lo up"):
        run(*words.split())
    with tempfile.TemporaryDirectory(prefix="netloom-demo-") as directory:
        networks(Path(directory))
    plan()
    return 0


def networks(directory: Path) -> None:
    ipam = directory / "ipam"
    configs = directory / "net.d"
    configs.mkdir()
    NETWORK["plugins"][0]["ipam"]["dataDir"] = str(ipam)  # type: ignore[index]
    (configs / "10-demo.conflist").write_text(json.dumps(NETWORK))
    runtime = Runtime([str(PLUGINS)], cache_dir=str(directory / "cache"))

    network = load_network(str(configs), "demo")
    say(f"network {network.name}: {', '.join(it.type for it in network.plugins)}, CNI {network.cni_version}")
    runtime.validate(network)
    runtime.status(network)
    show("its plugins exist, speak that version, and say that they are ready")

    endpoints = [Endpoint(f"container-{name}", f"/run/netns/{name}") for name in ("red", "blue")]
    results = [attach(runtime, network, endpoint) for endpoint in endpoints]

    say("red and blue reach each other")
    for address in addresses(results[1]):
        ping("red", address)

    say("CHECK: the plugins find all as they left it")
    for endpoint in endpoints:
        runtime.check(network, endpoint)
    rows = [[it.network, it.container_id, it.ifname, it.netns] for it in runtime.attachments()]
    show(*table(rows, ["NETWORK", "CONTAINER", "INTERFACE", "NETNS"]))

    say("somebody takes blue's address away, and CHECK says so")
    run("ip", "-n", "blue", "address", "flush", "dev", "eth0")
    try:
        runtime.check(network, endpoints[1])
        sys.exit("demo: CHECK did not notice")
    except CNIError as error:
        show(f"code {error.code}, plugin {error.plugin}, attachment {error.attachment}:", str(error))

    say("DEL for red; blue's namespace just vanishes, and GC collects what it held")
    runtime.delete(network, endpoints[0])
    run("ip", "netns", "del", "blue")
    runtime.gc(network, valid=[])
    run("ip", "netns", "del", "red")

    left = [it.name for it in (ipam / "demo").iterdir() if it.name[0].isdigit() or ":" in it.name]
    if left or runtime.attachments():
        sys.exit(f"demo: left behind: {left} {runtime.attachments()}")
    say("nothing is left: no attachment in the cache, no address reserved")


def plan() -> None:
    """An attachment without plugins: kernel objects from a file, applied by the dataplane's thread."""
    path = CHECKOUT / "docs/examples/attachment.json"
    objects = Plan.decode(path.read_bytes())
    with Namespace.own() as host, Namespace.new() as container, Dataplane() as dataplane:
        began = time.perf_counter()
        changes = dataplane.apply(objects, container).result()
        took = (time.perf_counter() - began) * 1000
        say(f"a plan, {path.name}: {len(changes)} kernel objects, made in {took:.1f} ms")
        show(*table([(change.change, change.object) for change in changes]))

        say("somebody takes a route away; the plan knows, and puts it back")
        run("ip", "route", "del", "10.7.0.2/32")
        show(*(str(difference) for difference in dataplane.check(objects, container).result()))
        changes = dataplane.apply(objects, container).result()
        show(*table([(change.change, change.object) for change in changes if change.change == "made"]))

        began = time.perf_counter()
        dataplane.remove(objects, container).result()
        say(f"all of it is gone, in {(time.perf_counter() - began) * 1000:.1f} ms")
        if any(difference.what != "missing" for difference in check(objects, Scope(host, container))):
            sys.exit("demo: the plan left something behind")


def attach(runtime: Runtime, network: NetworkConfig, endpoint: Endpoint) -> AnyResult:
    run("ip", "netns", "add", os.path.basename(endpoint.netns))
    began = time.perf_counter()
    result = runtime.add(network, endpoint, cleanup=True)
    say(f"{endpoint.container_id} is attached, in {(time.perf_counter() - began) * 1000:.0f} ms")
    show(*result_view(result).splitlines())
    return result


def addresses(result: AnyResult) -> list[str]:
    assert isinstance(result, Result)
    return [ip.address.split("/")[0] for ip in result.ips]


def ping(netns: str, address: str) -> None:
    output = run("ip", "netns", "exec", netns, "ping", "-n", "-c", "2", "-i", "0.2", "-W", "2", address)
    show(next(line for line in output.splitlines() if "packets transmitted" in line) + f"  ({address})")


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


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
