#include "netloom.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

const char *const failpoint_names[FAILPOINTS] = {
    [AT_START] = "plugin.start",
    [STDIN_READ] = "plugin.stdin-read",
    [NETNS_OPENED] = "plugin.netns-opened",
    [CONNECTED] = "plugin.connected",
    [HALF_SENT] = "plugin.half-sent",
    [SENT] = "plugin.sent",
    [REPLIED] = "plugin.replied",
    [INTENT_WRITTEN] = "plugin.intent-written",
    [INTENT_RENAMED] = "plugin.intent-renamed",
};

bool is_wanted(enum failpoint failpoint)
{
    const char *wanted = getenv("NETLOOM_FAILPOINT");
    return wanted != NULL && strcmp(wanted, failpoint_names[failpoint]) == 0;
}

void die_if_wanted(enum failpoint failpoint)
{
    if (is_wanted(failpoint))
        raise(SIGKILL);
}
