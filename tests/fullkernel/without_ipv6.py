"""What the guest of `tests.test_without_ipv6` runs: a machine becomes a node, and is asked how it is.

Started as `python -m tests.fullkernel.without_ipv6 DIRECTORY`, in a kernel that was booted with
ipv6.disable=1. The guest ends with it, and takes all of it along.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..fixtures.fork_server import close_server, run_forked
from .inside import MODULES

ANSWERS = "answers.json"

_PATIENCE = "240"
_DEADLINE = 600.0
# A host with a link, an address and a gateway that answers.
_HOST = """
mount -t tmpfs tmpfs /run
mkdir -p /run/netns
ip link set lo up
ip netns add outside
ip link add up0 type veth peer name up1 netns outside
ip address add 192.0.2.2/24 dev up0
ip link set up0 up
ip -n outside address add 192.0.2.1/24 dev up1
ip -n outside link set up1 up
ip route add default via 192.0.2.1
"""


def main(exchange: Path) -> None:
    subprocess.run(["modprobe", "--all", *MODULES], check=False, capture_output=True)
    subprocess.run(["sh", "-e", "-c", _HOST], check=True)
    place = Path("/tmp/node")
    os.environ |= {
        "NETLOOM_STATE_DIR": str(place / "state"),
        "NETLOOM_SOCKET": str(place / "run" / "agent.sock"),
        "NETCONFPATH": str(place / "net.d"),
        "CNI_PATH": str(place / "bin"),
    }
    up = ("up", "--plugin-dir", str(place / "bin"), "--timeout", _PATIENCE)
    answers = {
        "refused": _asked(*up, "--pool", "10.20.0.0/16", "--pool", "fd20::/64"),
        "up": _asked(*up),
        "connectivity": _asked("connectivity", "--timeout", _PATIENCE),
        "status": _asked("status"),
        "doctor": _asked("doctor", "--only", "sysctls", "--only", "attachments"),
    }
    close_server()
    (exchange / ANSWERS).write_text(json.dumps(answers))


def _asked(*words: str) -> dict[str, Any]:
    asked = [*words, "--json"]
    done = run_forked(asked, prefix=(), environment=os.environ, directory="/", timeout=_DEADLINE)
    assert done is not None
    return {"status": done.returncode, "said": _read(done.stdout), "error": _read(done.stderr)}


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
