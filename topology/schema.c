/* schema.c - the table of keys. Its order is that of the canonical form and of the documentation.
 *
 * `hosts` stands before everything that names a host: the parser follows this order.
 */
#include "topology/schema.h"

#include "runtime/base/check.h"

#define AT(type, field) .offset = offsetof(type, field), .width = sizeof(((type *)0)->field)
#define ENTRIES(field, counter, limit)                                                             \
    .offset = offsetof(topology_t, field), .width = sizeof(((topology_t *)0)->field[0]),           \
    .count = offsetof(topology_t, counter), .max = (limit)
#define SECTION(rows) .keys = (rows), .key_count = COUNT_OF(rows)

static const char *const device_words[] = {"cpu", "cuda", NULL};
static const char *const cache_words[] = {"fp8", "bf16", "float32", NULL};
/* The last one is not kept: validation puts the form that goes with the cache form in its place. */
static const char *const index_words[] = {"fp4", "fp8", "bf16", "float32", "auto", NULL};

static const char *const off_on_words[] = {"off", "on", NULL};
static const char *const token_words[] = {"withheld", "kept", NULL};

static const schema_key_t host_keys[] = {
    {.name = "name",
     .type = SCHEMA_NAME,
     AT(topology_host_t, name),
     .standard = "local",
     .meaning = "what other keys call it"},
    {.name = "address",
     .type = SCHEMA_ADDRESS,
     AT(topology_host_t, address),
     .standard = "127.0.0.1",
     .meaning = "where other hosts reach it"},
    {.name = "devices",
     .type = SCHEMA_NUMBER,
     AT(topology_host_t, devices),
     .min = 1,
     .max = DEVICES_MAX,
     .zero = "auto",
     .standard = "auto",
     .meaning = "devices for ranks, numbered from 0; auto: as many as its ranks need"},
    {.name = "device_memory",
     .type = SCHEMA_BYTES,
     AT(topology_host_t, device_bytes),
     .min = 1 << 20,
     .max = 1ull << 42,
     .zero = "auto",
     .standard = "auto",
     .meaning = "memory of each device; auto: 256MiB with cpu, with cuda it must be stated"},
    {.name = "memory",
     .type = SCHEMA_BYTES,
     AT(topology_host_t, memory_bytes),
     .min = 1 << 20,
     .max = 1ull << 50,
     .zero = "unknown",
     .standard = "unknown",
     .meaning = "memory of the host; with cpu its ranks must fit into it"},
};
static const schema_section_t host_section = {
    .name = "hosts", .meaning = "Machines. Each has one supervisor.", SECTION(host_keys)};

static const schema_key_t cache_keys[] = {
    {.name = "form",
     .type = SCHEMA_CHOICE,
     AT(topology_t, cache_form),
     .choices = cache_words,
     .standard = "fp8",
     .meaning = "how cached rows are stored"},
    {.name = "index",
     .type = SCHEMA_CHOICE,
     AT(topology_t, index_form),
     .choices = index_words,
     .standard = "auto",
     .meaning = "how index keys are stored: fp4 or fp8 with form fp8, else as form; auto: fp4 with "
                "form fp8"},
    {.name = "border_every",
     .type = SCHEMA_NUMBER,
     AT(topology_t, border_every),
     .min = 1,
     .max = 4096,
     .standard = "16",
     .meaning = "pages of 256 tokens between two places inside a prompt where a cached prefix may "
                "end"},
};
static const schema_section_t cache_section = {
    .name = "cache", .meaning = "The KV cache.", SECTION(cache_keys)};

static const schema_key_t limit_keys[] = {
    {.name = "context_tokens",
     .type = SCHEMA_NUMBER,
     AT(topology_t, context_tokens),
     .min = 256,
     .max = PROMPT_TOKENS_MAX,
     .standard = "32768",
     .meaning = "prompt and answer of one request together"},
    {.name = "request_timeout",
     .type = SCHEMA_DURATION,
     AT(topology_t, request_timeout_ms),
     .max = 24 * 3600 * 1000,
     .zero = "none",
     .standard = "none",
     .meaning = "how long a request may take, from its last byte to the last token of its answer; "
                "clients may ask for less"},
    {.name = "drain_timeout",
     .type = SCHEMA_DURATION,
     AT(topology_t, drain_timeout_ms),
     .max = 24 * 3600 * 1000,
     .standard = "30s",
     .meaning = "how long a group that is drained lets its requests run before they are replayed "
                "elsewhere, and `down` lets open ones end"},
    {.name = "stall_timeout",
     .type = SCHEMA_DURATION,
     AT(topology_t, stall_timeout_ms),
     .min = 1000,
     .max = 24 * 3600 * 1000,
     .standard = "60s",
     .meaning =
         "how long one step may take before its group begins anew without the requests in "
         "it. Not to be set: a rank that does not leave such a step within 10s, or a process "
         "that shows no life for 10s, is killed"},
};
static const schema_section_t limit_section = {
    .name = "limits", .meaning = "Bounds of the whole deployment.", SECTION(limit_keys)};

static const schema_key_t journal_keys[] = {
    {.name = "segment",
     .type = SCHEMA_BYTES,
     AT(topology_t, journal_bytes),
     .min = 1 << 16,
     .max = 1 << 30,
     .zero = "none",
     .standard = "none",
     .meaning = "records in one file of an actor's journal; the last two files are kept; none: no "
                "journals"},
    {.name = "tokens",
     .type = SCHEMA_CHOICE,
     AT(topology_t, journal_tokens),
     .choices = token_words,
     .standard = "withheld",
     .meaning =
         "token ids of prompts and answers; without them journals of actors that see any can "
         "be read, not run again"},
    {.name = "incidents",
     .type = SCHEMA_TEXT,
     AT(topology_t, incidents),
     .standard = "incidents",
     .meaning = "folder for what is kept of lives that ended badly: last frames and journals; a "
                "relative one lies in the directory of the run, which `down` clears"},
};
static const schema_section_t journal_section = {
    .name = "journal",
    .meaning = "What is kept of actors, for `lockstep replay` (docs/replay.md).",
    SECTION(journal_keys)};

static const schema_key_t gateway_keys[] = {
    {.name = "host",
     .type = SCHEMA_HOST,
     AT(topology_gateway_t, host),
     .derived = "the first host",
     .meaning = "where it runs"},
    {.name = "listen",
     .type = SCHEMA_LISTEN,
     AT(topology_gateway_t, listen),
     .standard = "127.0.0.1",
     .meaning = "address for clients; 0.0.0.0: all of the host"},
    {.name = "port",
     .type = SCHEMA_NUMBER,
     AT(topology_gateway_t, port),
     .min = 1,
     .max = 65535,
     .standard = "8000",
     .meaning = "port for clients"},
    {.name = "admin_listen",
     .type = SCHEMA_LISTEN,
     AT(topology_gateway_t, admin_listen),
     .standard = "127.0.0.1",
     .meaning = "address for metrics and administration"},
    {.name = "admin_port",
     .type = SCHEMA_NUMBER,
     AT(topology_gateway_t, admin_port),
     .min = 1,
     .max = 65535,
     .standard = "8001",
     .meaning = "port for metrics and administration"},
    {.name = "cors",
     .type = SCHEMA_WORDS,
     AT(topology_gateway_t, cors),
     .derived = "none",
     .meaning = "origins whose pages may ask from a browser, as [\"https://example.org\"]; "
                "[\"*\"]: all"},
    {.name = "queued_max",
     .type = SCHEMA_NUMBER,
     AT(topology_gateway_t, queued_max),
     .min = 1,
     .max = 65536,
     .standard = "256",
     .meaning = "requests that may wait for a prefill group; further ones get a 429"},
    {.name = "streams_max",
     .type = SCHEMA_NUMBER,
     AT(topology_gateway_t, streams_max),
     .min = 1,
     .max = 65536,
     .standard = "1024",
     .meaning = "requests open at once"},
};
static const schema_section_t gateway_section = {
    .name = "gateway", .meaning = "Gateways: HTTP for clients.", SECTION(gateway_keys)};

static const schema_key_t scheduler_keys[] = {
    {.name = "host",
     .type = SCHEMA_HOST,
     AT(topology_t, scheduler.host),
     .derived = "the first host",
     .meaning = "where it runs"},
};
static const schema_section_t scheduler_section = {
    .name = "scheduler", .meaning = "The scheduler; there is one.", SECTION(scheduler_keys)};

static const schema_key_t monitor_keys[] = {
    {.name = "host",
     .type = SCHEMA_HOST,
     AT(topology_t, monitor.host),
     .derived = "the first host",
     .meaning = "where it runs"},
};
static const schema_section_t monitor_section = {
    .name = "monitor", .meaning = "The monitor; there is one.", SECTION(monitor_keys)};

#define COUNT_KEY                                                                                  \
    {                                                                                              \
        .name = "count", .type = SCHEMA_NUMBER, .min = 1, .max = INSTANCES_MAX, .standard = "1",   \
        .meaning = "this entry stands for so many equal ones"                                      \
    }
#define GROUP_KEYS(slots_standard, slots_text, chunk_standard, chunk_text)                         \
    COUNT_KEY,                                                                                     \
        {.name = "tp",                                                                             \
         .type = SCHEMA_NUMBER,                                                                    \
         AT(topology_group_t, tp),                                                                 \
         .min = 1,                                                                                 \
         .max = RANKS_MAX,                                                                         \
         .standard = "1",                                                                          \
         .meaning = "ranks that share the model; divides its heads, groups and vocabulary"},          \
        {.name = "host",                                                                           \
         .type = SCHEMA_HOST,                                                                      \
         AT(topology_group_t, host),                                                               \
         .derived = "the first host with room",                                                    \
         .meaning = "where all its ranks run"},                                                    \
        {.name = "devices",                                                                        \
         .type = SCHEMA_DEVICES,                                                                   \
         AT(topology_group_t, devices),                                                            \
         .derived = "the lowest free ones",                                                        \
         .meaning = "a device of that host for each rank"},                                        \
        {.name = "pages",                                                                          \
         .type = SCHEMA_NUMBER,                                                                    \
         AT(topology_group_t, pages),                                                              \
         .min = 2,                                                                                 \
         .max = 1 << 24,                                                                           \
         .zero = "auto",                                                                           \
         .standard = "auto",                                                                       \
         .meaning =                                                                                \
             "cache pages of 256 tokens, one of them for tests; auto: what device_memory and "     \
             "slots allow"},                                                                       \
        {.name = "slots",                                                                          \
         .type = SCHEMA_NUMBER,                                                                    \
         AT(topology_group_t, slots),                                                              \
         .min = 1,                                                                                 \
         .max = SLOTS_MAX,                                                                         \
         .standard = slots_standard,                                                               \
         .meaning = slots_text},                                                                   \
        {.name = "borders",                                                                        \
         .type = SCHEMA_NUMBER,                                                                    \
         AT(topology_group_t, borders),                                                            \
         .min = 1,                                                                                 \
         .max = 1 << 24,                                                                           \
         .zero = "auto",                                                                           \
         .standard = "auto",                                                                       \
         .meaning = "places for ends of cached prefixes; auto: what border_every asks for"},       \
    {                                                                                              \
        .name = "chunk_tokens", .type = SCHEMA_NUMBER, AT(topology_group_t, chunk_tokens),         \
        .min = 1, .max = STEP_TOKENS_MAX, .standard = chunk_standard, .meaning = chunk_text        \
    }

static const schema_key_t prefill_keys[] = {
    GROUP_KEYS("16", "prompts in work at once", "2048", "tokens of one prefill step at most")};
static const schema_section_t prefill_section = {
    .name = "prefill", .meaning = "Groups that read prompts.", SECTION(prefill_keys)};

static const schema_key_t decode_keys[] = {
    GROUP_KEYS("64", "requests that run at once", "512",
               "tokens of one decode step at most; not below slots")};
static const schema_section_t decode_section = {
    .name = "decode", .meaning = "Groups that write answers.", SECTION(decode_keys)};

static const schema_key_t transfer_keys[] = {
    COUNT_KEY,
    {.name = "host",
     .type = SCHEMA_HOST,
     AT(topology_single_t, host),
     .derived = "the first host",
     .meaning = "where it runs"},
};
static const schema_section_t transfer_section = {
    .name = "transfer", .meaning = "Hand-overs from prefill to decode.", SECTION(transfer_keys)};

static const schema_key_t root_keys[] = {
    {.name = "lockstep",
     .type = SCHEMA_NUMBER,
     .min = 1,
     .max = 1,
     .meaning = "version of this form of file"},
    {.name = "name",
     .type = SCHEMA_NAME,
     AT(topology_t, name),
     .derived = "the file's name without its ending",
     .meaning = "what ps and down call it"},
    {.name = "model",
     .type = SCHEMA_TEXT,
     AT(topology_t, model),
     .meaning = "folder of the checkpoint, relative to this file"},
    {.name = "served_name",
     .type = SCHEMA_TEXT,
     AT(topology_t, served_name),
     .derived = "the last part of model",
     .meaning = "what clients call the model"},
    {.name = "thinking",
     .type = SCHEMA_CHOICE,
     AT(topology_t, thinking),
     .choices = off_on_words,
     .standard = "off",
     .meaning = "whether a chat that says nothing about it is answered with reasoning"},
    {.name = "device",
     .type = SCHEMA_CHOICE,
     AT(topology_t, device),
     .choices = device_words,
     .standard = "cpu",
     .meaning = "what ranks compute on"},
    {.name = "hosts",
     .type = SCHEMA_LIST,
     ENTRIES(hosts, host_count, HOSTS_MAX),
     .derived = "one, `local`",
     .section = &host_section},
    {.name = "cache", .type = SCHEMA_MAP, .section = &cache_section},
    {.name = "limits", .type = SCHEMA_MAP, .section = &limit_section},
    {.name = "journal", .type = SCHEMA_MAP, .section = &journal_section},
    {.name = "gateway",
     .type = SCHEMA_LIST,
     ENTRIES(gateways, gateway_count, INSTANCES_MAX),
     .derived = "one",
     .section = &gateway_section},
    {.name = "scheduler", .type = SCHEMA_MAP, .section = &scheduler_section},
    {.name = "monitor", .type = SCHEMA_MAP, .section = &monitor_section},
    {.name = "prefill",
     .type = SCHEMA_LIST,
     ENTRIES(prefills, prefill_count, INSTANCES_MAX),
     .section = &prefill_section},
    {.name = "decode",
     .type = SCHEMA_LIST,
     ENTRIES(decodes, decode_count, INSTANCES_MAX),
     .section = &decode_section},
    {.name = "transfer",
     .type = SCHEMA_LIST,
     ENTRIES(transfers, transfer_count, INSTANCES_MAX),
     .derived = "one",
     .section = &transfer_section},
};
const schema_section_t schema_root = {
    .name = "", .meaning = "The file itself.", SECTION(root_keys)};

const schema_section_t *const schema_sections[] = {
    &schema_root,     &host_section,    &cache_section,     &limit_section,
    &journal_section, &gateway_section, &scheduler_section, &monitor_section,
    &prefill_section, &decode_section,  &transfer_section,
};
const size_t schema_section_count = COUNT_OF(schema_sections);
