/* netloom, the CNI plugin: passes the runtime's request to the node's agent and prints its answer.
 *
 * The agent validates environment and configuration. The plugin itself answers VERSION, prints a CNI
 * error when no agent runs, and makes DEL succeed even then. It always ends before its deadline. */
#include "netloom.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum code {
    INVALID_ENVIRONMENT = 4,
    IO_FAILURE = 5,
    DECODING_FAILURE = 6,
    TRY_AGAIN_LATER = 11,
    NOT_AVAILABLE = 50,
};

static const char about[] =
    "netloom: the CNI plugin that hands its requests to the agent of the node\n"
    "CNI protocol versions supported: 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0\n";

static const char versions[] =
    "{\"cniVersion\":\"" CURRENT_VERSION "\",\"supportedVersions\":"
    "[\"0.1.0\",\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n";

/* The next step when no agent runs. */
#define START_IT "start it with `netloom up` or `netloom agent`; `netloom status` tells more"

static const char *const passed_on[] = {
    "CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS",   "CNI_IFNAME", "CNI_ARGS",
    "CNI_PATH",    "CNI_NETNS_OVERRIDE", "TRACEPARENT", "TRACESTATE",
};

/* The time limit of a run, its error code without an answer, and whether it can be queued. */
static const struct verb {
    const char *name;
    uint64_t milliseconds;
    enum code without_answer;
    bool queued;
} verbs[] = {
    {"ADD", 30000, TRY_AGAIN_LATER, false},
    {"CHECK", 10000, TRY_AGAIN_LATER, false},
    {"DEL", 1500, TRY_AGAIN_LATER, true},
    {"GC", 60000, TRY_AGAIN_LATER, false},
    {"STATUS", 5000, NOT_AVAILABLE, false},
    {NULL, 5000, TRY_AGAIN_LATER, false}, /* the agent refuses unknown verbs */
};

static char body[BODY_MAX], head[HEAD_MAX];
static size_t body_size;
/* Where another user could place a false agent; set for an UNTRUSTED reply. */
static struct weakness weakness;

struct run {
    const struct verb *verb;
    uint64_t started_boottime;
    uint64_t deadline;
    char limit[16]; /* the time limit, as text */
    const char *socket;
};

/* The parts of a sentence, for fail(). */
#define SENTENCE(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

/* Prints an answer and returns the exit status: 1 if the answer cannot be written. */
static int print(const struct run *run, int status, const char *output, size_t size)
{
    return write_out(1, output, size, run->deadline) ? status : 1;
}

static int fail(const struct run *run, enum code code, const char *const sentence[], const char *next_step)
{
    static char space[16384];
    char version[VERSION_ROOM], joined[1024] = "", advised[512] = "";
    struct text error = TEXT_IN(space), message = {.at = joined, .room = sizeof joined - 1};
    struct text advice = {.at = advised, .room = sizeof advised - 1};

    for (; *sentence != NULL; sentence++)
        add(&message, *sentence);
    joined[message.length] = '\0';
    add(&advice, next_step);
    add(&advice, "; more: netloom explain ");
    add_number(&advice, code);
    advised[advice.length] = '\0';
    find_version(body, body_size, version);

    add(&error, "{\"cniVersion\":");
    add_json(&error, version);
    add(&error, ",\"code\":");
    add_number(&error, code);
    add(&error, ",\"msg\":");
    add_json(&error, joined);
    add(&error, ",\"details\":");
    add_json(&error, advised);
    add(&error, "}\n");
    return print(run, 1, error.at, error.length);
}

static bool settle_deadline(struct run *run, uint64_t started)
{
    const char *wish = variable("NETLOOM_DEADLINE");
    uint64_t milliseconds = run->verb->milliseconds, wished;
    bool understood = *wish == '\0' || parse_seconds(wish, &wished);

    /* DEL must have time left to write its intent: its limit can only be made shorter. */
    if (*wish != '\0' && understood && (!run->verb->queued || wished < milliseconds))
        milliseconds = wished;
    run->deadline = started + milliseconds * NS_OF_MS;
    struct text limit = {.at = run->limit, .room = sizeof run->limit - 1};
    add_seconds(&limit, milliseconds);
    return understood || run->verb->queued;
}

static void compose_head(struct text *text, const struct run *run, const struct netns *netns)
{
    const char *separator = "";

    add(text, "{\"protocol\":");
    add_number(text, PROTOCOL);
    add(text, ",\"environment\":{");
    for (size_t each = 0; each < sizeof passed_on / sizeof *passed_on; each++) {
        const char *value = getenv(passed_on[each]);
        if (value == NULL)
            continue;
        add(text, separator);
        add_json(text, passed_on[each]);
        add(text, ":");
        add_json(text, value);
        separator = ",";
    }
    add(text, "},\"sent\":");
    add_number(text, run->started_boottime);
    add(text, netns->own ? ",\"own_netns\":true" : ",\"own_netns\":false");
    if (netns->error != NULL) {
        add(text, ",\"netns_error\":");
        add_json(text, netns->error);
    }
    add(text, "}");
}

static const char *const weak_words[] = {
    [WEAK_OWNER] = " is owned by another user",
    [WEAK_MODE] = " is writable by other users",
    [WEAK_SHARED] = " is shared by all users",
    [WEAK_LINK] = " is a symbolic link of another user, or leads too far",
};

/* The command that corrects the directory's permissions; `netloom status` names it, too. */
static const char *trust_advice(char space[], size_t room)
{
    static const char *const before[] = {
        [WEAK_OWNER] = "look at what is in it, then `chown root: ",
        [WEAK_MODE] = "`chmod go-w ",
        [WEAK_SHARED] = "give the agent a --socket in a directory of its own, and the plugin the same as "
                        "NETLOOM_SOCKET: `ls -ld ",
        [WEAK_LINK] = "replace the link by a directory of root's: `ls -l ",
    };
    struct text text = {.at = space, .room = room - 1};

    add(&text, before[weakness.kind]);
    add(&text, weakness.place);
    add(&text, "`");
    space[text.length] = '\0';
    return space;
}

static int fail_without_answer(const struct run *run, const struct reply *reply)
{
    enum code code = run->verb->without_answer;
    const char *why = strerror(reply->error);
    bool forbidden = reply->error == EACCES || reply->error == EPERM;
    char number[16], advice[384];
    struct text user = {.at = number, .room = sizeof number - 1};

    switch (reply->outcome) {
    case UNTRUSTED:
        return fail(run, code,
                    SENTENCE("the netloom agent at ", run->socket,
                             " was not asked, since another user could answer: ", weakness.place,
                             weak_words[weakness.kind]),
                    trust_advice(advice, sizeof advice));
    case IMPOSTOR:
        add_number(&user, reply->user);
        number[user.length] = '\0';
        return fail(run, code,
                    SENTENCE("the process that listens at ", run->socket, " is of UID ", number,
                             ", not of root: it is not the netloom agent, and was not asked"),
                    "end that process, remove its socket, and " START_IT);
    case UNREACHABLE:
        return fail(run, code, SENTENCE("the netloom agent cannot be reached at ", run->socket, ": ", why),
                    forbidden ? "the agent answers root only: run this as root" : START_IT);
    case SILENT:
        return fail(run, code,
                    SENTENCE("the netloom agent at ", run->socket, " did not answer within ", run->limit),
                    "`netloom status` shows whether it is busy or stuck");
    default:
        return fail(run, code, SENTENCE("the netloom agent at ", run->socket, " ", reply->flaw),
                    "see its log; after an upgrade, restart it with `netloom down` and `netloom up`");
    }
}

/* Queues a DEL that the agent did not take; the agent runs it at its next start. */
static int leave_intent(const struct run *run, const struct frame *frame, const struct reply *reply)
{
    char advice[384];
    const char *container = variable("CNI_CONTAINERID"), *ifname = variable("CNI_IFNAME");
    char directory[INTENT_DIRECTORY_ROOM];

    if (*container == '\0' || *ifname == '\0')
        return fail(run, INVALID_ENVIRONMENT,
                    SENTENCE("required env variables [", *container == '\0' ? "CNI_CONTAINERID" : "",
                             *container == '\0' && *ifname == '\0' ? "," : "",
                             *ifname == '\0' ? "CNI_IFNAME" : "", "] missing"),
                    "they say what to delete");
    intent_directory(run->socket, directory);
    /* If another user can change the path above the socket's directory, nothing in it can be trusted. */
    if (reply->outcome == UNTRUSTED && !weakness.is_own)
        return fail(run, IO_FAILURE,
                    SENTENCE("the DEL cannot be queued in ", directory,
                             ", since another user could change its path: ", weakness.place,
                             weak_words[weakness.kind]),
                    trust_advice(advice, sizeof advice));
    switch (queue_intent(directory, container, ifname, frame)) {
    case QUEUED:
        return 0;
    case QUEUE_FULL:
        return fail(run, TRY_AGAIN_LATER,
                    SENTENCE("the netloom agent does not answer, and too many DELs wait in ", directory),
                    START_IT);
    default:
        return fail(run, IO_FAILURE,
                    SENTENCE("the netloom agent does not answer, and the DEL cannot be queued in ", directory,
                             ": ", strerror(errno)),
                    START_IT);
    }
}

/* Says whether another user could replace the agent's socket. */
static bool is_changeable(const char *socket_path)
{
    char directory[INTENT_DIRECTORY_ROOM];
    size_t length = (size_t)(strrchr(socket_path, '/') - socket_path);

    memcpy(directory, socket_path, length);
    directory[length] = '\0';
    return find_weakness(directory, &weakness);
}

static int ask(const struct run *run)
{
    struct text text = TEXT_IN(head);
    struct netns netns = open_netns(variable("CNI_NETNS"));
    struct frame frame;
    die_if_wanted(NETNS_OPENED);

    compose_head(&text, run, &netns);
    if (text.cut)
        return fail(run, INVALID_ENVIRONMENT, SENTENCE("the CNI_* variables are larger than 1 MiB"),
                    "the longest of them is probably CNI_ARGS");
    make_frame(&frame, &text, body, body_size);
    struct reply reply = {.outcome = UNTRUSTED};
    if (!is_changeable(run->socket))
        reply = ask_agent(run->socket, &frame, netns.fd, run->deadline);
    if (reply.outcome == ANSWERED) {
        die_if_wanted(REPLIED);
        return print(run, reply.status, reply.output, reply.output_size);
    }
    return run->verb->queued ? leave_intent(run, &frame, &reply) : fail_without_answer(run, &reply);
}

static int read_and_ask(const struct run *run)
{
    switch (read_stdin(body, BODY_MAX, &body_size, run->deadline)) {
    case INPUT_WHOLE:
        break;
    case INPUT_TOO_LARGE:
        return fail(run, DECODING_FAILURE, SENTENCE("the network config on stdin is larger than 16 MiB"),
                    "check what the runtime sends: no network config is this large");
    case INPUT_ENDLESS:
        return fail(run, IO_FAILURE, SENTENCE("stdin did not end within ", run->limit),
                    "the runtime must close it after the network config");
    case INPUT_UNREADABLE:
        if (!run->verb->queued)
            return fail(run, IO_FAILURE, SENTENCE("error reading from stdin: ", strerror(errno)),
                        "the runtime must write the network config to stdin");
        body_size = 0; /* the agent may know the attachment from its ADD */
    }
    die_if_wanted(STDIN_READ);
    return ask(run);
}

static int list_failpoints(const struct run *run)
{
    static char space[1024];
    struct text names = TEXT_IN(space);
    for (int each = 0; each < FAILPOINTS; each++) {
        add(&names, failpoint_names[each]);
        add(&names, "\n");
    }
    return print(run, 0, names.at, names.length);
}

int main(int argc, char **argv)
{
    uint64_t started = monotonic_now();
    const char *command = variable("CNI_COMMAND");
    struct run run = {.started_boottime = boottime_now(), .socket = variable("NETLOOM_SOCKET")};

    /* With huge pages always on, writing the first byte of a large buffer would zero 2 MiB. */
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    signal(SIGPIPE, SIG_IGN);
    occupy_standard_descriptors();
    die_if_wanted(AT_START);
    if (*run.socket == '\0')
        run.socket = "/run/netloom/agent.sock";
    for (run.verb = verbs; run.verb->name != NULL && strcmp(run.verb->name, command) != 0;)
        run.verb++;
    bool understood = settle_deadline(&run, started);

    if (argc == 2 && strcmp(argv[1], "--failpoints") == 0)
        return list_failpoints(&run);
    if (*command == '\0') {
        write_out(2, about, sizeof about - 1, run.deadline);
        return 0;
    }
    if (strcmp(command, "VERSION") == 0)
        return print(&run, 0, versions, sizeof versions - 1);
    if (!understood)
        return fail(&run, INVALID_ENVIRONMENT, SENTENCE("NETLOOM_DEADLINE is not a number of seconds"),
                    "give it a number such as 2.5, or unset it");
    if (!is_socket_path(run.socket))
        return fail(&run, INVALID_ENVIRONMENT, SENTENCE("NETLOOM_SOCKET is not the path of a socket"),
                    "it must be absolute and shorter than 108 bytes");
    return read_and_ask(&run);
}
