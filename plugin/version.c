/* An error must contain the configuration's version, even when no agent can parse the configuration. This
 * code scans the top level, skips nested values, and trusts no input. */
#include "netloom.h"

#include <string.h>

struct document {
    const char *at;
    size_t size;
};

/* NUL at the end: JSON has no NUL outside of strings. */
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

/* Skips a string, from its opening quote to behind the closing one. */
static size_t skip_string(struct document document, size_t place)
{
    place++;
    while (place < document.size && document.at[place] != '"')
        place += document.at[place] == '\\' ? 2 : 1;
    return place + 1;
}

/* Skips to the comma or bracket behind a value. */
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

/* Only text in the form of a version is printed: other text of stdin may be secret. */
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
