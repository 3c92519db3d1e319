#include "netloom.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* From the kernel's headers, which are not installed with every C library. */
#ifndef NSFS_MAGIC
#define NSFS_MAGIC 0x6e736673
#endif
#ifndef NS_GET_NSTYPE
#define NS_GET_NSTYPE _IO(0xb7, 0x3)
#endif

static const char *what_it_is(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return "is a regular file, not a network namespace";
    case S_IFDIR: return "is a directory, not a network namespace";
    case S_IFIFO: return "is a FIFO, not a network namespace";
    case S_IFSOCK: return "is a socket, not a network namespace";
    default: return "is a device, not a network namespace";
    }
}

/* Returns why an open descriptor is not a network namespace, or NULL. */
static const char *flaw_of(int fd)
{
    struct statfs system;
    struct stat file;

    if (fstatfs(fd, &system) < 0 || fstat(fd, &file) < 0)
        return strerror(errno);
    if (system.f_type != NSFS_MAGIC)
        return what_it_is(file.st_mode);
    if (ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNET)
        return "is a namespace of another kind, not a network namespace";
    return NULL;
}

static bool is_own(int fd)
{
    struct stat given, own;
    return fstat(fd, &given) == 0 && stat("/proc/self/ns/net", &own) == 0 && given.st_dev == own.st_dev &&
           given.st_ino == own.st_ino;
}

struct netns open_netns(const char *path)
{
    struct netns netns = {.fd = -1};
    struct stat file;

    if (path == NULL || *path == '\0')
        return netns;
    /* O_NONBLOCK: otherwise, opening a FIFO waits for its writer. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        int error = errno;
        /* "No such device or address" is how open() refuses a socket. */
        netns.error = error == ENXIO && stat(path, &file) == 0 ? what_it_is(file.st_mode) : strerror(error);
        return netns;
    }
    netns.error = flaw_of(fd);
    netns.own = netns.error == NULL && is_own(fd);
    if (netns.error != NULL || netns.own)
        close(fd);
    else
        netns.fd = fd;
    return netns;
}
