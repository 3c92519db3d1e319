#include "netloom.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <unistd.h>

/* A runtime may start us with a standard descriptor closed. The next file opened would take its place,
 * and what is printed, by us or by the C library, would go to the agent or into an intent. A descriptor
 * of O_PATH occupies the number, and still gives EBADF when it is read or written. */
void occupy_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/", O_PATH);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

enum input read_stdin(char *into, size_t room, size_t *size, uint64_t deadline)
{
    char beyond;

    *size = 0;
    for (;;) {
        if (!wait_until_ready(0, POLLIN, deadline))
            return INPUT_ENDLESS;
        bool full = *size == room;
        ssize_t got = read(0, full ? &beyond : into + *size, full ? 1 : room - *size);
        if (got == 0)
            return INPUT_WHOLE;
        if (got > 0 && full)
            return INPUT_TOO_LARGE;
        if (got > 0)
            *size += (size_t)got;
        else if (errno != EINTR && errno != EAGAIN)
            return INPUT_UNREADABLE;
    }
}

bool write_out(int fd, const char *bytes, size_t size, uint64_t deadline)
{
    while (size > 0) {
        if (!wait_until_ready(fd, POLLOUT, deadline))
            return false;
        /* The descriptor is shared with the parent process, so it must stay blocking. A pipe that is
         * ready takes PIPE_BUF bytes without blocking, and not always more. */
        ssize_t written = write(fd, bytes, size < PIPE_BUF ? size : PIPE_BUF);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (errno != EINTR && errno != EAGAIN) {
            return false;
        }
    }
    return true;
}
