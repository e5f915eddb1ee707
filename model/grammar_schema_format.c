/* grammar_schema_format.c - formats of strings that are held to exactly; all others only annotate. */
#include <string.h>

#include "model/grammar_schema.h"

#define YEAR "[0-9]{4}"
#define LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|"                                \
    "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?"
#define ZONE "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 BYTE "(?:\\." BYTE "){3}"
#define HEX "[0-9A-Fa-f]"
#define H16 HEX "{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32 "|(?:(?:" H16 ":){0,2}" H16             \
    ")?::(?:" H16 ":){2}" LS32 "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16       \
    ":){0,4}" H16 ")?::" LS32 "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16   \
    ")?::)"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%" HEX HEX ")"
#define QUERY "(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%" HEX HEX ")*"
#define AUTHORITY                                                                                  \
    "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%" HEX HEX ")*@)?(?:\\[" IPV6                               \
    "\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|%" HEX HEX ")*)(?::[0-9]*)?"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]*:(?://" AUTHORITY "(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR          \
    "*)*)?|" PCHAR "+(?:/" PCHAR "*)*)?(?:\\?" QUERY ")?(?:#" QUERY ")?"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION_DATE "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME ZONE "$"},
    {"date-time", "^" DATE "T" TIME ZONE "$"},
    {"duration", "^P(?:" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME "|[0-9]+W)$"},
    {"email", "^" ATOM "(?:\\." ATOM ")*@(?:" LABEL "(?:\\." LABEL ")*|\\[" IPV4 "\\])$"},
    {"hostname", "^" LABEL "(?:\\." LABEL ")*$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^" URI "$"},
    {"uuid", "^" HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}$"},
};

_Static_assert(COUNT_OF(formats) == FORMAT_COUNT, "each has a standard automaton");

uint32_t schema_find_format(const char *name)
{
    uint32_t format = 0;

    while (format < FORMAT_COUNT && strcmp(formats[format].name, name) != 0)
        format++;
    return format;
}

uint32_t schema_format_term(schema_t *s, uint32_t format)
{
    const char *pattern = formats[format].pattern;
    uint32_t term = REGEX_NOTHING;

    build_fail(&s->build, pattern_parse(&s->build.regexes, PATTERN_JSON, true, pattern,
                                        strlen(pattern), "", &term));
    return term;
}

uint32_t schema_format(schema_t *s, const char *name)
{
    uint32_t format = schema_find_format(name);

    return format == FORMAT_COUNT ? REGEX_ANY : schema_format_term(s, format);
}
