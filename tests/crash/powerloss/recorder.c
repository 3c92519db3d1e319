/* Writes down, in their order, all changes that a process makes to files of one directory, and every
 * time that it makes one of them durable. To be preloaded (LD_PRELOAD).
 *
 *   POWERLOSS_DIRECTORY   the directory, as the kernel names it
 *   POWERLOSS_RECORD      where the records go; the format is that of `disk.py` */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE = 1, TRUNCATE, SYNC, UNLINK };

struct record {
    uint32_t kind, name_size;
    uint64_t offset, size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *directory;
static size_t directory_size;
static int log_fd = -1;

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("POWERLOSS_RECORD");
    directory = getenv("POWERLOSS_DIRECTORY");
    if (path == NULL || directory == NULL)
        return;
    directory_size = strlen(directory);
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The path within the directory ("" for itself), or NULL if it is elsewhere. */
static const char *within(const char *path)
{
    if (log_fd < 0 || strncmp(path, directory, directory_size) != 0)
        return NULL;
    if (path[directory_size] == '/')
        return path + directory_size + 1;
    return path[directory_size] == '\0' ? "" : NULL;
}

static const char *of_descriptor(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = log_fd < 0 ? -1 : readlink(link, path, PATH_MAX - 1);
    if (size < 0)
        return NULL;
    path[size] = '\0';
    return within(path);
}

static void record(enum kind kind, const char *name, uint64_t offset, const void *data, uint64_t size)
{
    struct record head = {kind, (uint32_t)strlen(name), offset, size};
    struct iovec parts[] = {
        {&head, sizeof head}, {(void *)name, head.name_size}, {(void *)data, data == NULL ? 0 : size}};
    if (syscall(SYS_writev, log_fd, parts, 3) < 0)
        abort();
}

/* Does `call`, whose outcome is a number of bytes or zero, and writes it down if it succeeded. */
#define RECORDED(type, call, kind, offset, data, size)         \
    char path[PATH_MAX];                                       \
    const char *name = of_descriptor(fd, path);                \
    if (name == NULL)                                          \
        return call;                                           \
    pthread_mutex_lock(&lock);                                 \
    type outcome = call;                                       \
    if (outcome >= 0)                                          \
        record(kind, name, (uint64_t)(offset), data, (size));  \
    pthread_mutex_unlock(&lock);                               \
    return outcome;

ssize_t write(int fd, const void *data, size_t size)
{
    off_t at = log_fd < 0 ? 0 : lseek(fd, 0, SEEK_CUR);
    RECORDED(ssize_t, NEXT(write)(fd, data, size), WRITE, at, data, (uint64_t)outcome)
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    RECORDED(ssize_t, NEXT(pwrite)(fd, data, size, at), WRITE, at, data, (uint64_t)outcome)
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
    RECORDED(ssize_t, NEXT(pwrite64)(fd, data, size, at), WRITE, at, data, (uint64_t)outcome)
}

int ftruncate(int fd, off_t size)
{
    RECORDED(int, NEXT(ftruncate)(fd, size), TRUNCATE, size, NULL, 0)
}

int ftruncate64(int fd, off64_t size)
{
    RECORDED(int, NEXT(ftruncate64)(fd, size), TRUNCATE, size, NULL, 0)
}

int fsync(int fd)
{
    RECORDED(int, NEXT(fsync)(fd), SYNC, 0, NULL, 0)
}

int fdatasync(int fd)
{
    RECORDED(int, NEXT(fdatasync)(fd), SYNC, 0, NULL, 0)
}

int unlink(const char *path)
{
    const char *name = within(path);
    if (name == NULL)
        return NEXT(unlink)(path);
    pthread_mutex_lock(&lock);
    int outcome = NEXT(unlink)(path);
    if (outcome == 0)
        record(UNLINK, name, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return outcome;
}
