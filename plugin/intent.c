/* A DEL must succeed while the agent is down, or pods could not be deleted. The plugin leaves the request
 * in a directory beside the agent's socket; the agent executes it before it serves the first ADD.
 *
 * An intent is complete or missing: it is written under another name, synced and renamed. Its name is
 * derived from what is deleted, so that a DEL that is repeated a thousand times is one file. */
#include "netloom.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HASH_DIGITS = 32, NAME_ROOM = HASH_DIGITS + sizeof ".del" };

typedef unsigned __int128 hash; /* FNV-1a of 128 bits */

static hash add_to_hash(hash sum, const char *bytes, size_t size)
{
    static const hash prime = ((hash)1 << 88) + 0x13b;
    for (size_t place = 0; place < size; place++)
        sum = (sum ^ (unsigned char)bytes[place]) * prime;
    return sum;
}

static void name_intent(const char *container, const char *ifname, const struct iovec *body,
                        char name[NAME_ROOM])
{
    static const char hex[] = "0123456789abcdef";
    hash sum = ((hash)0x6c62272e07bb0142 << 64) + 0x62b821756295c58d;

    sum = add_to_hash(sum, container, strlen(container) + 1);
    sum = add_to_hash(sum, ifname, strlen(ifname) + 1);
    sum = add_to_hash(sum, body->iov_base, body->iov_len);
    for (int digit = HASH_DIGITS; digit-- > 0; sum >>= 4)
        name[digit] = hex[sum & 15];
    strcpy(name + HASH_DIGITS, ".del");
}

void intent_directory(const char *socket_path, char directory[INTENT_DIRECTORY_ROOM])
{
    size_t parent = (size_t)(strrchr(socket_path, '/') - socket_path);
    memcpy(directory, socket_path, parent);
    strcpy(directory + parent, "/intents");
}

/* Creates a directory and its parent if they are missing, and syncs each into the one above. */
static bool make_directory(const char *directory, int parents)
{
    char parent[INTENT_DIRECTORY_ROOM];
    size_t length = (size_t)(strrchr(directory, '/') - directory);

    memcpy(parent, directory, length);
    strcpy(parent + length, length == 0 ? "/" : "");
    if (parents > 0 && length > 0 && !make_directory(parent, parents - 1))
        return false;
    if (mkdir(directory, 0700) < 0)
        return errno == EEXIST;
    int above = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool synced = above >= 0 && fsync(above) == 0;
    if (above >= 0)
        close(above);
    return synced;
}

/* Returns -1 if it cannot be opened, or if other users could have written to it. */
static int open_directory(const char *directory)
{
    struct stat status;

    if (!make_directory(directory, 1))
        return -1;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 022) == 0)
        return fd;
    if (fd >= 0) {
        close(fd);
        errno = EPERM;
    }
    return -1;
}

/* Concurrent runs may exceed the limit a little: it only keeps the disk from filling up. */
static bool is_full(const char *directory)
{
    DIR *entries = opendir(directory);
    struct dirent *entry;
    int count = 0;

    if (entries == NULL)
        return false; /* writing to it reports the error */
    while (count < INTENTS_MAX && (entry = readdir(entries)) != NULL) {
        size_t length = strlen(entry->d_name);
        count += length > 4 && entry->d_name[0] != '.' && strcmp(entry->d_name + length - 4, ".del") == 0;
    }
    closedir(entries);
    return count == INTENTS_MAX;
}

static bool write_intent(int fd, const struct frame *frame)
{
    /* Without the frame's own length: the file has one. */
    for (size_t written = 4; written < frame->size;) {
        struct iovec parts[FRAME_PARTS];
        int count = slice_frame(frame, written, frame->size, parts);
        ssize_t size = writev(fd, parts, count);
        if (size >= 0)
            written += (size_t)size;
        else if (errno != EINTR)
            return false;
    }
    return fsync(fd) == 0;
}

/* O_EXCL follows no link. An existing file is from a killed run with the same process number. */
static int create(int directory, const char *name)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(directory, name, flags, 0600);
    if (fd < 0 && errno == EEXIST && unlinkat(directory, name, 0) == 0)
        fd = openat(directory, name, flags, 0600);
    return fd;
}

static bool store(int directory, const char *name, const struct frame *frame)
{
    char space[NAME_ROOM + 32];
    struct text temporary = TEXT_IN(space);
    add(&temporary, ".");
    add(&temporary, name);
    add(&temporary, ".");
    add_number(&temporary, (uint64_t)getpid());
    space[temporary.length] = '\0';

    int fd = create(directory, space);
    if (fd < 0)
        return false;
    bool done = write_intent(fd, frame);
    done = close(fd) == 0 && done;
    die_if_wanted(INTENT_WRITTEN);
    done = done && renameat(directory, space, directory, name) == 0;
    if (!done) {
        int error = errno;
        unlinkat(directory, space, 0);
        errno = error;
        return false;
    }
    die_if_wanted(INTENT_RENAMED);
    return fsync(directory) == 0;
}

enum queued queue_intent(const char *directory, const char *container, const char *ifname,
                         const struct frame *frame)
{
    char name[NAME_ROOM];
    name_intent(container, ifname, &frame->parts[2], name);

    int fd = open_directory(directory);
    if (fd < 0)
        return QUEUE_FAILED;
    if (faccessat(fd, name, F_OK, 0) < 0 && is_full(directory)) {
        close(fd);
        return QUEUE_FULL;
    }
    bool stored = store(fd, name, frame);
    int error = errno;
    close(fd);
    errno = error;
    return stored ? QUEUED : QUEUE_FAILED;
}
