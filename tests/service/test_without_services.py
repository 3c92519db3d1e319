"""Packages for tests, on a machine that systemd has booted: their services stay as they were."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from ..lanes import ROOT
from .booted import Booted, why_not_booted

# What debhelper lets every package with a service do when it is configured, in its own words.
CONFIGURE = """
set -e
deb-systemd-helper unmask 'containerd.service' >/dev/null || true
if deb-systemd-helper --quiet was-enabled 'containerd.service'; then
    deb-systemd-helper enable 'containerd.service' >/dev/null || true
else
    deb-systemd-helper update-state 'containerd.service' >/dev/null || true
fi
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
    deb-systemd-invoke "$1" 'containerd.service' >/dev/null || true
fi
"""
UNIT = "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"
WITHOUT_SERVICES = str(ROOT / "tools" / "without-services")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(why_not_booted() is not None, reason=str(why_not_booted())),
    pytest.mark.skipif(shutil.which("deb-systemd-helper") is None, reason="needs Debian"),
]


@pytest.fixture
def machine() -> Iterator[Booted]:
    """The package is unpacked there, and not configured yet; nobody forbids it to start its service."""
    with Booted() as made:
        made.run("rm", "-f", "/usr/sbin/policy-rc.d")
        made.run("tee", "/etc/systemd/system/containerd.service", stdin=UNIT)
        made.run("systemctl", "daemon-reload")
        yield made


def configure(machine: Booted, *prefix: str, action: str = "start") -> None:
    dpkg = {"DPKG_MAINTSCRIPT_PACKAGE": "containerd"}  # as it would be called by
    done = machine.run(*prefix, "sh", "-s", action, env=dpkg, stdin=CONFIGURE)
    assert done.status == 0, done.stderr


def state(machine: Booted) -> tuple[str, str]:
    said = (
        machine.run("systemctl", "is-enabled", "containerd"),
        machine.run("systemctl", "is-active", "containerd"),
    )
    return said[0].stdout.strip(), said[1].stdout.strip()


def test_a_package_starts_its_service_and_so_does_every_boot(machine: Booted) -> None:
    configure(machine)
    assert state(machine) == ("enabled", "active")


def test_without_services_it_starts_none_now_nor_at_boot_nor_with_the_next_version(machine: Booted) -> None:
    before = machine.run("ls", "/usr/lib/systemd/system-preset").stdout
    configure(machine, WITHOUT_SERVICES)
    assert state(machine) == ("disabled", "inactive")
    assert machine.run("ls", "/usr/lib/systemd/system-preset").stdout == before
    configure(machine, action="restart")  # as an upgrade does, by whomever
    assert state(machine) == ("disabled", "inactive")


def test_how_the_command_ends_is_how_it_ends(machine: Booted) -> None:
    assert machine.run(WITHOUT_SERVICES, "sh", "-c", "exit 7").status == 7
