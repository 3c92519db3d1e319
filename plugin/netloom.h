/* The interfaces between the files of the plugin, a section for each file.
 *
 * One run of the plugin handles one request: it reads, asks, prints and ends. It allocates nothing;
 * large buffers are in static memory, of which only the used pages cost anything. */
#ifndef NETLOOM_H
#define NETLOOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The protocol's limits, see docs/reference/protocol.md. */
enum {
    PROTOCOL = 1,
    HEAD_MAX = 1 << 20,
    BODY_MAX = 16 << 20,
    REPLY_MAX = BODY_MAX + 1,
};

/* text.c: builds strings. What does not fit is left out, and `cut` is set. */
struct text {
    char *at;
    size_t length, room;
    bool cut;
};

#define TEXT_IN(array) {.at = (array), .room = sizeof(array)}

void add(struct text *text, const char *string);
void add_number(struct text *text, uint64_t number);
void add_seconds(struct text *text, uint64_t milliseconds);
/* Quoted and escaped; invalid UTF-8 becomes U+FFFD, as with Python's errors="replace". */
void add_json(struct text *text, const char *string);

/* clock.c: an instant is in nanoseconds of CLOCK_MONOTONIC. */
#define NS_OF_MS UINT64_C(1000000)

uint64_t monotonic_now(void);
uint64_t boottime_now(void);
void pause_ms(unsigned milliseconds);
/* Seconds as a decimal number such as 2 or 0.25; false if it is invalid, zero, or absurdly large. */
bool parse_seconds(const char *string, uint64_t *milliseconds);
/* False after the deadline. A descriptor that cannot be polled counts as ready: using it reports why. */
bool wait_until_ready(int fd, short events, uint64_t deadline);

/* streams.c: the standard descriptors. */
enum input { INPUT_WHOLE, INPUT_TOO_LARGE, INPUT_ENDLESS, INPUT_UNREADABLE };

void occupy_standard_descriptors(void);
/* Reads all of stdin, at most `room` bytes. After INPUT_UNREADABLE, errno is set. */
enum input read_stdin(char *into, size_t room, size_t *size, uint64_t deadline);
/* Writes all of it; false if the reader has closed the pipe or does not read. */
bool write_out(int fd, const char *bytes, size_t size, uint64_t deadline);

/* version.c: the string at the key "cniVersion" of a configuration, or else CURRENT_VERSION. */
#define CURRENT_VERSION "1.1.0"
enum { VERSION_ROOM = 64 };

void find_version(const char *config, size_t size, char version[VERSION_ROOM]);

/* netns.c */
struct netns {
    int fd;             /* -1: no namespace to pass on */
    bool own;           /* it is the namespace that this process is in */
    const char *error;  /* why it could not be opened as a network namespace, or NULL */
};

struct netns open_netns(const char *path);

/* frame.c: the request on the wire: two lengths, head, body. */
enum { FRAME_PARTS = 3 };

struct frame {
    unsigned char lengths[8];
    struct iovec parts[FRAME_PARTS];
    size_t size;
};

void make_frame(struct frame *frame, const struct text *head, char *body, size_t body_size);
/* The bytes [from, to) of a frame; returns how many parts they have. */
int slice_frame(const struct frame *frame, size_t from, size_t to, struct iovec parts[FRAME_PARTS]);

/* trust.c: who could answer in the agent's place. */
enum { WEAKNESS_ROOM = 1024 };

enum weakness_kind { WEAK_OWNER, WEAK_MODE, WEAK_SHARED, WEAK_LINK };

struct weakness {
    char place[WEAKNESS_ROOM]; /* what another user owns or can write to */
    enum weakness_kind kind;
    bool is_own; /* the directory itself, not one above it */
};

bool is_trusted_user(uid_t user);
/* The user of the process that listens at the other end of a socket. */
uid_t listening_user(int fd);
/* Says whether another user could change what the path of a directory leads to, and where. */
bool find_weakness(const char *directory, struct weakness *found);

/* exchange.c: one request to the agent, one reply. */
enum outcome { ANSWERED, UNREACHABLE, SILENT, BROKEN, UNTRUSTED, IMPOSTOR };

struct reply {
    enum outcome outcome;
    int error;             /* of UNREACHABLE, an errno */
    uid_t user;            /* of IMPOSTOR, the listening user */
    const char *flaw;      /* of BROKEN, a sentence's end */
    unsigned char status;  /* of ANSWERED */
    const char *output;
    size_t output_size;
};

bool is_socket_path(const char *path);
struct reply ask_agent(const char *socket_path, const struct frame *frame, int netns, uint64_t deadline);

/* intent.c: queues a DEL that the agent executes at its next start. */
enum { INTENTS_MAX = 4096, INTENT_DIRECTORY_ROOM = 128 };

enum queued { QUEUED, QUEUE_FULL, QUEUE_FAILED };

void intent_directory(const char *socket_path, char directory[INTENT_DIRECTORY_ROOM]);
/* After QUEUE_FAILED, errno is set. */
enum queued queue_intent(const char *directory, const char *container, const char *ifname,
                         const struct frame *frame);

/* failpoint.c: steps at which a test can kill the plugin. */
enum failpoint {
    AT_START,
    STDIN_READ,
    NETNS_OPENED,
    CONNECTED,
    HALF_SENT,
    SENT,
    REPLIED,
    INTENT_WRITTEN,
    INTENT_RENAMED,
    FAILPOINTS,
};

extern const char *const failpoint_names[FAILPOINTS];

bool is_wanted(enum failpoint failpoint);
void die_if_wanted(enum failpoint failpoint);

#endif
