/* An error must say the configuration's version, also when there is no agent to parse the
 * configuration. This walks over its top level, skips what is nested, and believes nothing. */
#include "netloom.h"

#include <string.h>

struct document {
    const char *at;
    size_t size;
};

/* NUL at the end: it is nothing that JSON has outside of strings. */
static char peek(struct document document, size_t place)
{
    return place < document.size ? document.at[place] : '\0';
}

static size_t skip_space(struct document document, size_t place)
{
    while (peek(document, place) != '\0' && strchr(" \t\r\n", peek(document, place)))
        place++;
    return place;
}

/* From an opening quote to behind the closing one. */
static size_t skip_string(struct document document, size_t place)
{
    place++;
    while (place < document.size && document.at[place] != '"')
        place += document.at[place] == '\\' ? 2 : 1;
    return place + 1;
}

/* To the comma or bracket behind a value. */
static size_t skip_value(struct document document, size_t place)
{
    size_t depth = 0;
    while (place < document.size) {
        char c = document.at[place];
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return place;
        if (c == '{' || c == '[')
            depth++;
        if (c == '}' || c == ']')
            depth--;
        place = c == '"' ? skip_string(document, place) : place + 1;
    }
    return place;
}

/* Only what a version can look like is repeated: nothing else of stdin is ours to print. */
static bool looks_like_version(const char *at, size_t size)
{
    static const char allowed[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-";
    for (size_t place = 0; place < size; place++)
        if (at[place] == '\0' || !strchr(allowed, at[place]))
            return false;
    return size > 0 && size < VERSION_ROOM;
}

void find_version(const char *config, size_t size, char version[VERSION_ROOM])
{
    static const char key[] = "\"cniVersion\"";
    struct document document = {config, size};
    size_t place = skip_space(document, 0);

    strcpy(version, CURRENT_VERSION);
    if (peek(document, place) != '{')
        return;
    do {
        size_t name = skip_space(document, place + 1);
        if (peek(document, name) != '"')
            return;
        place = skip_string(document, name);
        bool found = place <= size && place - name == sizeof key - 1 &&
                     memcmp(config + name, key, sizeof key - 1) == 0;
        place = skip_space(document, place);
        if (peek(document, place) != ':')
            return;
        size_t value = skip_space(document, place + 1);
        place = skip_value(document, value);
        if (found && peek(document, value) == '"') {
            size_t end = skip_string(document, value);
            if (end <= size && looks_like_version(config + value + 1, end - value - 2)) {
                memcpy(version, config + value + 1, end - value - 2);
                version[end - value - 2] = '\0';
            }
        }
    } while (peek(document, place) == ',');
}
