"""Ways to make a node's ground fail: a disk that is full or broken, a clock that jumps.

Libraries that are loaded before the C library stand between the agent and the kernel; what they do is
steered by files, while the agent runs.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .stage import Node

_BROKEN_DISK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* While the file $BROKEN is there, nothing can be written to files whose paths contain "journal.db"; if there
 * is something in it, all can be written, and nothing made durable. */
static int is_broken(int fd, int is_sync)
{
    char link[64], path[PATH_MAX];
    struct stat file;
    const char *flag = getenv("BROKEN");
    if (flag == NULL || stat(flag, &file) != 0 || (file.st_size > 0 && !is_sync))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, "journal.db") != NULL;
}

#define STAND_IN(type, name, is_sync, parameters, arguments) \
    type name parameters \
    { \
        static type(*real) parameters; \
        if (real == NULL) \
            real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
        if (is_broken(fd, is_sync)) { \
            errno = EIO; \
            return -1; \
        } \
        return real arguments; \
    }

STAND_IN(ssize_t, write, 0, (int fd, const void *data, size_t size), (fd, data, size))
STAND_IN(ssize_t, pwrite, 0, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
STAND_IN(ssize_t, pwrite64, 0, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
STAND_IN(int, fsync, 1, (int fd), (fd))
STAND_IN(int, fdatasync, 1, (int fd), (fd))
"""

_OTHER_TIME = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

/* The file $JUMP holds by how many seconds the time of day is wrong. */
static long jump(void)
{
    long seconds = 0;
    const char *path = getenv("JUMP");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (file != NULL) {
        if (fscanf(file, "%ld", &seconds) != 1)
            seconds = 0;
        fclose(file);
    }
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += jump();
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec read;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &read);
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (place != NULL)
        *place = now.tv_sec;
    return now.tv_sec;
}
"""


def _library(directory: Path, name: str, source: str) -> Path:
    code, library = directory / f"{name}.c", directory / f"{name}.so"
    code.write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, code, "-ldl"], check=True)
    return library


class BreakableDisk:
    """For an agent that is started with `environment`: a disk that fails while it is told to (EIO)."""

    def __init__(self, directory: Path) -> None:
        self._flag = directory / "broken"
        library = _library(directory, "disk", _BROKEN_DISK)
        self.environment = {"LD_PRELOAD": str(library), "BROKEN": str(self._flag)}

    def break_down(self) -> None:
        self._flag.touch()

    def take_without_keeping(self) -> None:
        """It can be written to, and says so only when something is to be durable."""
        self._flag.write_text("yes")

    def mend(self) -> None:
        self._flag.unlink()


class JumpingClock:
    """For an agent that is started with `environment`: a time of day that somebody sets."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "jump"
        library = _library(directory, "clock", _OTHER_TIME)
        self.environment = {"LD_PRELOAD": str(library), "JUMP": str(self._file)}
        self.jump(0)

    def jump(self, seconds: int) -> None:
        spare = self._file.with_suffix(".new")
        spare.write_text(f"{seconds}\n")
        spare.rename(self._file)


class SmallDisk:
    """A file system of its own for a node's state, which can be filled."""

    def __init__(self, mount_point: Path) -> None:
        self._at = mount_point
        self._filling = mount_point / "filling"

    def fill(self) -> None:
        with open(self._filling, "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def empty(self) -> None:
        os.truncate(self._filling, 0)


@contextmanager
def small_disk(node: Node, size: str = "2m") -> Iterator[SmallDisk]:
    """Under the node's state, as long as the agent of the test needs it."""
    node.state_dir.mkdir(mode=0o700)
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "state", str(node.state_dir)], check=True
    )
    try:
        yield SmallDisk(node.state_dir)
    finally:
        if node.agent is not None and node.agent.poll() is None:
            node.kill()
        subprocess.run(["umount", str(node.state_dir)], check=True)
