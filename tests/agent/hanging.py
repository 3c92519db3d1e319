"""A disk and a kernel that hang: system calls that do not return as long as a file is there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void wait_while(const char *variable)
{
    struct stat file;
    const char *path = getenv(variable);
    while (path != NULL && stat(path, &file) == 0)
        usleep(10000);
}

static int is_journal(int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return strstr(path, "journal.db") != NULL;
}

static int is_netlink(int fd)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    return getsockname(fd, (struct sockaddr *)&own, &size) == 0 && own.ss_family == AF_NETLINK;
}

#define STAND_IN(type, name, condition, variable, parameters, arguments) \
    type name parameters \
    { \
        static type(*real) parameters; \
        if (real == NULL) \
            real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
        if (condition) \
            wait_while(variable); \
        return real arguments; \
    }

STAND_IN(int, fsync, is_journal(fd), "HANGING_DISK", (int fd), (fd))
STAND_IN(int, fdatasync, is_journal(fd), "HANGING_DISK", (int fd), (fd))
STAND_IN(ssize_t, send, is_netlink(fd), "HANGING_KERNEL",
         (int fd, const void *data, size_t size, int flags), (fd, data, size, flags))
STAND_IN(ssize_t, sendto, is_netlink(fd), "HANGING_KERNEL",
         (int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length),
         (fd, data, size, flags, to, length))
STAND_IN(ssize_t, sendmsg, is_netlink(fd), "HANGING_KERNEL",
         (int fd, const struct msghdr *message, int flags), (fd, message, flags))
"""


class Ground:
    """For an agent that is started with `environment`."""

    def __init__(self, directory: Path) -> None:
        code, library = directory / "hanging.c", directory / "hanging.so"
        code.write_text(_SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, code, "-ldl"], check=True)
        self._flags = {part: directory / f"{part}-hangs" for part in ("disk", "kernel")}
        self.environment = {
            "LD_PRELOAD": str(library),
            **{f"HANGING_{part.upper()}": str(path) for part, path in self._flags.items()},
        }

    @contextmanager
    def hangs(self, part: str) -> Iterator[None]:
        self._flags[part].touch()
        try:
            yield
        finally:
            self._flags[part].unlink()
