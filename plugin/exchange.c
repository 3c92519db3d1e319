#include "netloom.h"

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The pause between attempts to connect while the agent's backlog is full, which poll() cannot wait for. */
enum { BACKLOG_PAUSE_MS = 2 };

static char received[4 + REPLY_MAX];

bool is_socket_path(const char *path)
{
    return path[0] == '/' && strlen(path) < sizeof((struct sockaddr_un *)NULL)->sun_path;
}

static struct reply unreachable(int error)
{
    return (struct reply){.outcome = UNREACHABLE, .error = error};
}

static struct reply silent(void)
{
    return (struct reply){.outcome = SILENT};
}

static struct reply broken(const char *flaw)
{
    return (struct reply){.outcome = BROKEN, .flaw = flaw};
}

/* Returns 0 or an errno; EAGAIN if the agent's backlog was full until the deadline. */
static int connect_to(int fd, const char *path, uint64_t deadline)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);

    while (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno == EAGAIN && monotonic_now() < deadline)
            pause_ms(BACKLOG_PAUSE_MS);
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

/* Sends a frame up to `end`, and with its first byte the namespace, if there is one. Returns 0 or an
 * errno; EAGAIN after the deadline. */
static int send_frame(int fd, const struct frame *frame, size_t end, int netns, uint64_t deadline)
{
    size_t sent = 0;

    while (sent < end) {
        struct iovec parts[FRAME_PARTS];
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof netns)] = {0};
        struct msghdr message = {.msg_iov = parts};
        message.msg_iovlen = (size_t)slice_frame(frame, sent, end, parts);
        if (sent == 0 && netns >= 0) {
            message.msg_control = control;
            message.msg_controllen = sizeof control;
            struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
            rights->cmsg_level = SOL_SOCKET;
            rights->cmsg_type = SCM_RIGHTS;
            rights->cmsg_len = CMSG_LEN(sizeof netns);
            memcpy(CMSG_DATA(rights), &netns, sizeof netns);
        }
        ssize_t count = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (count >= 0)
            sent += (size_t)count;
        else if (errno == EAGAIN && !wait_until_ready(fd, POLLOUT, deadline))
            return EAGAIN;
        else if (errno != EAGAIN && errno != EINTR)
            return errno;
    }
    return 0;
}

static struct reply receive_reply(int fd, uint64_t deadline)
{
    uint32_t length = 0;
    size_t size = 0, wanted = sizeof length;

    while (size < wanted) {
        if (!wait_until_ready(fd, POLLIN, deadline))
            return silent();
        ssize_t count = recv(fd, received + size, sizeof received - size, 0);
        if (count < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (count <= 0)
            return broken("closed the connection before it had answered");
        size += (size_t)count;
        if (wanted == sizeof length && size >= sizeof length) {
            memcpy(&length, received, sizeof length);
            length = be32toh(length);
            if (length < 1 || length > REPLY_MAX)
                return broken("gave an answer that is not of this protocol");
            wanted += length;
        }
    }
    return (struct reply){
        .outcome = ANSWERED,
        .status = (unsigned char)received[sizeof length],
        .output = received + sizeof length + 1,
        .output_size = length - 1,
    };
}

static struct reply exchange(int fd, const char *path, const struct frame *frame, int netns,
                             uint64_t deadline)
{
    int error = connect_to(fd, path, deadline);
    if (error != 0)
        return error == EAGAIN ? silent() : unreachable(error);
    die_if_wanted(CONNECTED);
    uid_t user = listening_user(fd);
    if (!is_trusted_user(user))
        return (struct reply){.outcome = IMPOSTOR, .user = user};

    if (is_wanted(HALF_SENT)) {
        send_frame(fd, frame, frame->size / 2, netns, deadline);
        die_if_wanted(HALF_SENT);
    }
    error = send_frame(fd, frame, frame->size, netns, deadline);
    if (error == EAGAIN)
        return silent();
    /* An agent that closes early has sent its reason in the reply. */
    if (error != 0 && error != EPIPE && error != ECONNRESET)
        return unreachable(error);
    die_if_wanted(SENT);
    return receive_reply(fd, deadline);
}

struct reply ask_agent(const char *socket_path, const struct frame *frame, int netns, uint64_t deadline)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return unreachable(errno);
    struct reply reply = exchange(fd, socket_path, frame, netns, deadline);
    close(fd);
    return reply;
}
