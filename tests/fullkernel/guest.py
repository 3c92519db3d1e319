"""One boot of the distribution's kernel in QEMU, running one command.

The kernel of a build machine often lacks what a network needs (WireGuard, VLAN, VRF), so some tests
bring a kernel of their own. `vng` boots it on the machine's root file system, read-only; the
processor is emulated, because nested KVM cannot be relied upon. The guest has no network.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

# Set in the guest, for what must not boot another one.
INSIDE = "NETLOOM_FULLKERNEL_GUEST"
# Where the guest finds the exchange directory: below /srv, because the guest hides the machine's /tmp
# and `Isolation` hides /run.
_EXCHANGE_IN_GUEST = Path("/srv/exchange")

_VNG = Path(sys.prefix) / "bin" / "vng"
_RELEASE = re.compile(r"vmlinuz-([^-]+(?:-\d+)?-amd64)")
_PACKAGE_OF = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "file": "file",
    "modprobe": "kmod",
}
# Hardware that no test looks at; without their modules, udev settles three seconds earlier.
_UNUSED_HARDWARE = (
    "aesni_intel,ahci,button,ccp,crc32_pclmul,crc32c_intel,crct10dif_pclmul,evdev,ghash_clmulni_intel,"
    "i2c_i801,i6300esb,iTCO_wdt,kvm,kvm_amd,kvm_intel,lpc_ich,pcspkr,psmouse,qemu_fw_cfg,serio_raw,sg,"
    "sha1_ssse3,sha256_ssse3,sha512_ssse3,sr_mod"
)
# The guest never writes to a share, so it may keep what it has read: imports take half the time.
_SHARE_OPTIONS = "ro,trans=virtio,version=9p2000.L,access=any,msize=512000,cache=loose"


def newest_kernel(boot: Path = Path("/boot"), modules: Path = Path("/lib/modules")) -> Path | None:
    """The distribution's newest kernel that has its modules; real-time and cloud flavours lack some."""
    found = {}
    for image in boot.glob("vmlinuz-*"):
        named = _RELEASE.fullmatch(image.name)
        if named and (modules / named[1]).is_dir():
            numbers = re.findall(r"\d+", named[1].removesuffix("-amd64"))
            found[tuple(int(number) for number in numbers)] = image
    return found[max(found)] if found else None


def release_of(kernel: Path) -> str:
    return kernel.name.removeprefix("vmlinuz-")


def why_no_guest() -> str | None:
    """What is missing to boot a guest here, or None."""
    if INSIDE in os.environ:
        return None
    for command, package in _PACKAGE_OF.items():
        if shutil.which(command, path=_with_sbin(os.environ)) is None:
            return f"needs the package {package}"
    if newest_kernel() is None:
        return "needs the package linux-image-amd64"
    return None if _VNG.exists() else "needs virtme-ng, which `make setup` installs"


def _with_sbin(environ: Mapping[str, str]) -> str:
    return f"{environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def _outermost(directories: Iterable[Path]) -> list[Path]:
    kept: list[Path] = []
    for directory in sorted({directory.resolve() for directory in directories}):
        if not any(directory.is_relative_to(parent) for parent in kept):
            kept.append(directory)
    return kept


class Guest:
    """A guest from its boot to its end, which comes at the latest with the deadline.

    The command finds the shared directories at their own paths, read-only, and a file that it
    writes below `{exchange}` is on the machine at once, in `Guest.exchange`.
    """

    def __init__(
        self,
        command: Sequence[str],
        shared: Iterable[Path],
        deadline: float,
        kernel: Path | None = None,
        parameters: Sequence[str] = (),
    ) -> None:
        """`parameters` are the kernel's, such as ipv6.disable=1."""
        chosen = kernel or newest_kernel()
        if chosen is None:
            raise FileNotFoundError("no kernel in /boot with modules in /lib/modules")
        self.kernel = chosen
        self.deadline = deadline
        self.expired = False
        self._parameters = parameters
        # /usr, because every command of a test is started from there.
        self._shares = _outermost([Path("/usr"), *shared])
        self._command = [word.replace("{exchange}", str(_EXCHANGE_IN_GUEST)) for word in command]
        self._console = bytearray()
        self._directory = tempfile.TemporaryDirectory(prefix="netloom-guest-")
        self.exchange = Path(self._directory.name)

    def start(self) -> None:
        (self.exchange / "start").write_text(self._start_script())
        environ = {**os.environ, "PATH": f"{_VNG.parent}:{_with_sbin(os.environ)}"}
        # A group of its own, so that the end of the guest is the end of vng, its shell and QEMU.
        self._process = subprocess.Popen(
            self._vng_command(),
            cwd="/",
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._keep_console, daemon=True)
        self._reader.start()
        self._timer = threading.Timer(self.deadline, self._expire)
        self._timer.daemon = True
        self._timer.start()

    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        """The command's exit code when the guest has ended; 255 if it ended without one."""
        code = self._process.wait()
        # The console ends with the last process that holds it, which is QEMU.
        self._reader.join()
        return code

    def end(self) -> None:
        """Ends the guest, if it still runs, and removes the exchange directory."""
        self._timer.cancel()
        self._kill()
        self.wait()
        self._directory.cleanup()

    def console_tail(self, lines: int = 80) -> str:
        text = self._console.decode(errors="replace").replace("\r", "")
        return "\n".join(text.splitlines()[-lines:])

    def _start_script(self) -> str:
        mounts = [
            f"mkdir -p {shlex.quote(str(share))}\n"
            f"mount -t 9p -o {_SHARE_OPTIONS} share{number} {shlex.quote(str(share))}"
            for number, share in enumerate(self._shares)
        ]
        # The second deadline is the guest's own: it also ends when nobody is left to end it.
        lines = [
            "set -e",
            "mount -t tmpfs -o mode=1777 tmpfs /tmp",
            *mounts,
            f"export PATH={shlex.quote(_with_sbin(os.environ))} {INSIDE}=1",
            "export PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1",
            f"exec timeout -s KILL {self.deadline:.0f} {shlex.join(self._command)}",
        ]
        return "\n".join([*lines, ""])

    def _vng_command(self) -> list[str]:
        # vng hands its options to a shell, unquoted.
        quoted = [shlex.quote(option) for option in self._share_options()]
        exchange = f"{_EXCHANGE_IN_GUEST}={self.exchange}"
        return [
            str(_VNG),
            *("--run", str(self.kernel), "--disable-kvm", "--force-9p", "--name", "fullkernel"),
            *("--rwdir", shlex.quote(exchange), "--verbose", "--append", "loglevel=4"),
            *("--append", f"modprobe.blacklist={_UNUSED_HARDWARE}"),
            *(word for it in self._parameters for word in ("--append", shlex.quote(it))),
            f"--qemu-opts={' '.join(quoted)}",
            *("--exec", f"sh {_EXCHANGE_IN_GUEST}/start"),
        ]

    def _share_options(self) -> list[str]:
        options = []
        for number, share in enumerate(self._shares):
            path = str(share).replace(",", ",,")
            tag = f"mount_tag=share{number},security_model=none,readonly=on,multidevs=remap"
            options += ["-virtfs", f"local,path={path},{tag}"]
        return options

    def _keep_console(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as console:
            for line in console:
                self._console += line

    def _expire(self) -> None:
        self.expired = True
        self._kill()

    def _kill(self) -> None:
        # Without a reader the group is gone, and its number may be another's by now.
        if not self._reader.is_alive():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
