#!/usr/bin/env python3
"""lowports: lets a container's users bind low ports. Stands behind the plugin that made the interface."""

from netloom.cni.plugin import CNIError, Plugin, Request, inside

SYSCTL = "/proc/sys/net/ipv4/ip_unprivileged_port_start"
plugin = Plugin("lowports")


@plugin.add
def add(request: Request) -> None:  # without a result of its own: the one before is passed on
    with inside(request.netns), open(SYSCTL, "w") as sysctl:
        sysctl.write(str(request.config.get("from", 80)))


@plugin.check
def check(request: Request) -> None:
    with inside(request.netns), open(SYSCTL) as sysctl:
        if int(sysctl.read()) != request.config.get("from", 80):
            raise CNIError("another program changed which ports are low", code=100)


if __name__ == "__main__":
    plugin.main()
