#include "netloom.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#define NS_OF_S UINT64_C(1000000000)

/* A deadline of a day or more is surely a mistake. */
enum { SECONDS_MAX = 86400 };

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * NS_OF_S + (uint64_t)time.tv_nsec;
}

uint64_t monotonic_now(void)
{
    return now(CLOCK_MONOTONIC);
}

uint64_t boottime_now(void)
{
    return now(CLOCK_BOOTTIME);
}

void pause_ms(unsigned milliseconds)
{
    struct timespec time = {.tv_nsec = (long)(milliseconds * NS_OF_MS)};
    nanosleep(&time, NULL);
}

bool parse_seconds(const char *string, uint64_t *milliseconds)
{
    uint64_t whole = 0, fraction = 0, weight = 100;
    bool digits = false;

    for (; *string >= '0' && *string <= '9'; string++, digits = true) {
        whole = whole * 10 + (uint64_t)(*string - '0');
        if (whole > SECONDS_MAX)
            return false;
    }
    if (*string == '.')
        for (string++; *string >= '0' && *string <= '9'; string++, digits = true) {
            fraction += weight * (uint64_t)(*string - '0');
            weight /= 10;
        }
    *milliseconds = whole * 1000 + fraction;
    return digits && *string == '\0' && *milliseconds > 0;
}

bool wait_until_ready(int fd, short events, uint64_t deadline)
{
    for (;;) {
        uint64_t instant = monotonic_now();
        uint64_t left = deadline > instant ? deadline - instant : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / NS_OF_S), .tv_nsec = (long)(left % NS_OF_S)};
        struct pollfd waited = {.fd = fd, .events = events};
        int ready = ppoll(&waited, 1, &timeout, NULL);
        if (ready >= 0)
            return ready > 0;
        if (errno != EINTR)
            return true;
    }
}
