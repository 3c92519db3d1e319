/* A CNI plugin that does almost nothing, so that a benchmark measures the way to it and back.
 *
 * Reads all of its stdin, then prints a fixed result of CNI 1.1.0, whatever the verb. With
 * "sleepMs":N in its configuration it first sleeps N milliseconds, as a plugin that works would
 * keep its caller waiting. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char result[] =
    "{\"cniVersion\":\"1.1.0\","
    "\"interfaces\":[{\"name\":\"br0\",\"mac\":\"02:00:00:00:00:01\",\"mtu\":1500},"
    "{\"name\":\"veth1\",\"mac\":\"02:00:00:00:00:02\",\"mtu\":1500},"
    "{\"name\":\"eth0\",\"mac\":\"02:00:00:00:00:03\",\"mtu\":1500,\"sandbox\":\"/run/netns/bench\"}],"
    "\"ips\":[{\"address\":\"10.1.2.3/24\",\"gateway\":\"10.1.2.1\",\"interface\":2},"
    "{\"address\":\"fd00:1::3/64\",\"gateway\":\"fd00:1::1\",\"interface\":2}],"
    "\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"::/0\"}],"
    "\"dns\":{\"nameservers\":[\"10.1.2.1\"],\"search\":[\"example.org\"]}}";

static char input[65536];

int main(void)
{
    static const char key[] = "\"sleepMs\":";
    size_t length = 0;
    ssize_t got;

    while ((got = read(0, input + length, sizeof input - 1 - length)) > 0)
        length += (size_t)got;
    if (got < 0 || length == sizeof input - 1)
        return 1; /* unreadable, or longer than any configuration of the benchmarks */

    const char *found = strstr(input, key);
    if (found != NULL) {
        long ms = strtol(found + sizeof key - 1, NULL, 10);
        struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    return write(1, result, sizeof result - 1) == (ssize_t)(sizeof result - 1) ? 0 : 1;
}
