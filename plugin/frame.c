#include "netloom.h"

#include <endian.h>
#include <string.h>

void make_frame(struct frame *frame, const struct text *head, char *body, size_t body_size)
{
    uint32_t head_length = htobe32((uint32_t)head->length);
    uint32_t length = htobe32((uint32_t)(sizeof head_length + head->length + body_size));

    memcpy(frame->lengths, &length, 4);
    memcpy(frame->lengths + 4, &head_length, 4);
    frame->parts[0] = (struct iovec){frame->lengths, sizeof frame->lengths};
    frame->parts[1] = (struct iovec){head->at, head->length};
    frame->parts[2] = (struct iovec){body, body_size};
    frame->size = sizeof frame->lengths + head->length + body_size;
}

int slice_frame(const struct frame *frame, size_t from, size_t to, struct iovec parts[FRAME_PARTS])
{
    size_t start = 0;
    int count = 0;

    for (int part = 0; part < FRAME_PARTS; part++) {
        size_t end = start + frame->parts[part].iov_len;
        size_t first = from > start ? from : start, last = to < end ? to : end;
        char *base = frame->parts[part].iov_base;
        if (first < last)
            parts[count++] = (struct iovec){base + (first - start), last - first};
        start = end;
    }
    return count;
}
