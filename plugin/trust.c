/* Who could be at the other end. The plugin asks an agent only if root and the user of this process are the
 * only ones who can have created its socket, and if the listening process belongs to one of them. A user who
 * can write to a directory can put another socket, or a link, into it. So the plugin checks each directory of
 * the path, as netloom/api/paths.py does for the agent. */
#include "netloom.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LINKS_MAX = 40,       /* as many as the kernel follows */
    OVERFLOW_UID = 65534, /* stands for users outside this user namespace, such as the host's root */
    BY_OTHERS = 022,
};

bool is_trusted_user(uid_t user)
{
    return user == 0 || user == geteuid();
}

uid_t listening_user(int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t size = sizeof peer;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    return peer.uid;
}

/* Says whether this is not the initial user namespace, which has all users: "0 0 4294967295". */
static bool is_in_user_namespace(void)
{
    char map[256], words[sizeof map];
    size_t length = 0;
    int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, map, sizeof map - 1);

    if (fd >= 0)
        close(fd);
    for (ssize_t place = 0; place < size; place++)
        if (map[place] != ' ' && map[place] != '\n')
            words[length++] = map[place];
    return size > 0 && !(length == 12 && memcmp(words, "004294967295", 12) == 0);
}

static bool may_own(uid_t owner, bool is_last)
{
    return is_trusted_user(owner) || (!is_last && owner == OVERFLOW_UID && is_in_user_namespace());
}

/* In a sticky directory, other users cannot replace what belongs to root. */
static bool is_open_to_others(const struct stat *directory, bool sticky_is_enough)
{
    bool is_sticky = (directory->st_mode & S_ISVTX) != 0;
    return (directory->st_mode & BY_OTHERS) != 0 && !(sticky_is_enough && is_sticky);
}

static enum weakness_kind mode_of(const struct stat *directory)
{
    return (directory->st_mode & S_ISVTX) != 0 ? WEAK_SHARED : WEAK_MODE;
}

static bool is_weak(struct weakness *found, size_t length, enum weakness_kind kind, bool is_own)
{
    strcpy(found->place + length, length == 0 ? "/" : "");
    found->kind = kind;
    found->is_own = is_own;
    return true;
}

bool find_weakness(const char *directory, struct weakness *found)
{
    /* Without links in the path, these pages are never touched: each would cost as much as two calls. */
    static char rest[PATH_MAX], target[PATH_MAX];
    const char *left = directory;
    struct stat above, here;
    size_t length = 0; /* of found->place */
    int links = 0;

    if (lstat("/", &above) < 0)
        return false;
    while (*(left += strspn(left, "/")) != '\0') {
        size_t size = strcspn(left, "/"), before = length;
        if (size == 1 && *left == '.') {
            left++;
            continue;
        }
        if (length + 1 + size >= sizeof found->place)
            return is_weak(found, before, WEAK_LINK, false);
        found->place[length] = '/';
        memcpy(found->place + length + 1, left, size);
        length += 1 + size;
        found->place[length] = '\0';
        left += size;
        bool is_last = left[strspn(left, "/")] == '\0';

        if (lstat(found->place, &here) < 0) /* its creator will own it */
            return is_open_to_others(&above, true) && is_weak(found, before, mode_of(&above), false);
        if (is_open_to_others(&above, may_own(here.st_uid, false)))
            return is_weak(found, before, mode_of(&above), false);
        if (S_ISLNK(here.st_mode)) {
            ssize_t count = readlink(found->place, target, sizeof target - 1);
            if (!may_own(here.st_uid, false) || ++links > LINKS_MAX || count < 0 ||
                (size_t)count + strlen(left) >= sizeof target)
                return is_weak(found, length, WEAK_LINK, false);
            strcpy(target + count, left);
            left = strcpy(rest, target);
            length = *left == '/' ? 0 : before;
            if (length == 0 && lstat("/", &above) < 0)
                return false;
            continue;
        }
        if (!may_own(here.st_uid, is_last))
            return is_weak(found, length, WEAK_OWNER, is_last);
        above = here;
    }
    return is_open_to_others(&above, false) &&
           is_weak(found, length, mode_of(&above), true);
}
