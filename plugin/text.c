#include "netloom.h"

#include <string.h>

static void add_bytes(struct text *text, const char *bytes, size_t size)
{
    size_t room = text->room - text->length;
    if (size > room) {
        text->cut = true;
        size = room;
    }
    memcpy(text->at + text->length, bytes, size);
    text->length += size;
}

void add(struct text *text, const char *string)
{
    add_bytes(text, string, strlen(string));
}

void add_number(struct text *text, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    add_bytes(text, digits + first, sizeof digits - first);
}

void add_seconds(struct text *text, uint64_t milliseconds)
{
    add_number(text, milliseconds / 1000);
    unsigned rest = (unsigned)(milliseconds % 1000);
    const char *separator = ".";
    for (unsigned digit = 100; rest > 0; digit /= 10) {
        add(text, separator);
        add_number(text, rest / digit);
        rest %= digit;
        separator = "";
    }
    add(text, " s");
}

/* Returns the length of the character at `at`. If it is invalid: as many bytes as one U+FFFD replaces,
 * the longest start of a character, or else a single byte (Unicode 15, section 3.9, table 3-7). */
static size_t character(const unsigned char *at, bool *valid)
{
    unsigned char lead = at[0], low = 0x80, high = 0xbf;
    size_t length = lead < 0x80   ? 1
                    : lead < 0xc2 ? 0
                    : lead < 0xe0 ? 2
                    : lead < 0xf0 ? 3
                    : lead < 0xf5 ? 4
                                  : 0;

    switch (lead) { /* no overlong forms, no surrogates, nothing beyond U+10FFFF */
    case 0xe0: low = 0xa0; break;
    case 0xed: high = 0x9f; break;
    case 0xf0: low = 0x90; break;
    case 0xf4: high = 0x8f; break;
    }
    *valid = length > 0;
    for (size_t next = 1; next < length; next++) {
        if (at[next] < low || at[next] > high) {
            *valid = false;
            return next;
        }
        low = 0x80;
        high = 0xbf;
    }
    return *valid ? length : 1;
}

void add_json(struct text *text, const char *string)
{
    static const char hex[] = "0123456789abcdef";

    add(text, "\"");
    while (*string != '\0') {
        bool valid;
        size_t length = character((const unsigned char *)string, &valid);
        if (!valid) {
            add(text, "\\ufffd");
        } else if (*string == '"' || *string == '\\') {
            add_bytes(text, (char[]){'\\', *string}, 2);
        } else if ((unsigned char)*string < 0x20) {
            add_bytes(text, (char[]){'\\', 'u', '0', '0', hex[*string >> 4], hex[*string & 15]}, 6);
        } else {
            add_bytes(text, string, length);
        }
        string += length;
    }
    add(text, "\"");
}
