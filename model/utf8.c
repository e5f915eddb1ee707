/* utf8.c - UTF-8 by the table of well-formed sequences (Unicode 3.9, table 3-7). */
#include "model/utf8.h"

#include "runtime/base/check.h"

/* Bytes that a lead byte announces, and the range its second byte must lie in; 0 for a byte that
 * leads nothing. */
static unsigned lead_bytes(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    if (lead < 0xe0)
        return 2;
    if (lead < 0xf0) {
        if (lead == 0xe0)
            *low = 0xa0; /* no overlong forms */
        if (lead == 0xed)
            *high = 0x9f; /* no surrogates */
        return 3;
    }
    if (lead == 0xf0)
        *low = 0x90;
    if (lead == 0xf4)
        *high = 0x8f; /* nothing above U+10FFFF */
    return 4;
}

utf8_step_t utf8_step(const char *text, size_t length)
{
    ASSERT(length > 0);
    unsigned char lead = (unsigned char)text[0];
    unsigned char low, high;
    unsigned want = lead_bytes(lead, &low, &high);
    if (want == 0)
        return (utf8_step_t){UTF8_BROKEN, 1, 0};
    uint32_t code = want == 1 ? lead : lead & (0x7fu >> want);
    for (unsigned i = 1; i < want; i++) {
        if (i == length)
            return (utf8_step_t){UTF8_CUT, i, 0};
        unsigned char next = (unsigned char)text[i];
        if (next < low || next > high)
            return (utf8_step_t){UTF8_BROKEN, i, 0};
        code = code << 6 | (next & 0x3fu);
        low = 0x80;
        high = 0xbf;
    }
    return (utf8_step_t){UTF8_WHOLE, want, code};
}

unsigned utf8_write(uint32_t code, char *out)
{
    ASSERT(code < 0x110000 && (code < 0xd800 || code > 0xdfff));
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    unsigned bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (unsigned i = bytes - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    out[0] = (char)((0xf00u >> bytes & 0xff) | code);
    return bytes;
}

bool utf8_check(const char *text, size_t length, size_t *broken_at)
{
    for (size_t at = 0; at < length;) {
        if ((unsigned char)text[at] < 0x80) {
            at++;
            continue;
        }
        utf8_step_t step = utf8_step(text + at, length - at);
        if (step.kind != UTF8_WHOLE) {
            *broken_at = at;
            return false;
        }
        at += step.bytes;
    }
    return true;
}
