/* What a journal costs an actor: one message in from a port, decoded, dispatched, answered to the
 * port, with a journal and without, in turns, by the work of the core. No sockets: with them its
 * share is smaller. The last row is the message that begins the next segment, against all others,
 * for a state as large as a gateway's of which 2 MiB are used.
 *
 *     build/release/bench/bench_journal [JSON]
 */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/report.h"
#include "messages/message.h"
#include "runtime/node.h"

enum {
    TURNS = 9,
    MESSAGES = 20000,
    TOKENS_MAX = 4000,
    STATE_BYTES = 38 << 20, /* of the default gateway */
    STATE_USED = 2 << 20
};

static char folder[] = "/dev/shm/bench-journal-XXXXXX";

/* ---- an actor that answers ---- */

static status_t on_request(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_client_request_t *m = envelope->body;
    const message_client_end_t end = {.client = m->client, .token_count = m->prompt.count};

    ++*(uint64_t *)self;
    outbox_push(outbox, PORT_CLIENT, MESSAGE_client_end, &end);
    return STATUS_OK;
}

static status_t init(void *self, const actor_birth_t *birth)
{
    (void)birth;
    memset(self, 1, STATE_USED);
    return STATUS_OK;
}

static uint8_t state_of(const void *self)
{
    (void)self;
    return 0;
}

static const char *const state_names[] = {"on"};
static const actor_rule_t rules[] = {{0, MESSAGE_client_request, on_request, BIT(0)}};
static const actor_type_t type = {.kind = ACTOR_GATEWAY,
                                  .state_bytes = STATE_BYTES,
                                  .init = init,
                                  .state = state_of,
                                  .table = {state_names, 1, rules, 1, NULL, 0}};
static const roster_t roster = {.count = 1,
                                .actors = {{"gateway/0", ACTOR_GATEWAY, ACTOR_NONE, 0}}};

/* ---- its driver ---- */

static uint64_t clock_us(void *context)
{
    (void)context;
    return (uint64_t)(report_seconds() * 1e6);
}

static void frame(void *context, actor_id_t peer, const uint8_t *bytes, size_t size)
{
    (void)context;
    (void)peer;
    (void)bytes;
    (void)size;
}

static void port(void *context, actor_id_t id, uint16_t message, const uint8_t *body, size_t size)
{
    (void)context;
    (void)id;
    (void)message;
    (void)body;
    (void)size;
}

static node_t *open_node(bool journal, incarnation_t life, size_t segment_bytes)
{
    const journal_place_t place = {
        .directory = folder, .segment_bytes = segment_bytes, .tokens = true};
    const actor_birth_t birth = {.id = 0, .incarnation = life};
    const node_config_t config = {
        .type = &type,
        .birth = &birth,
        .table = &message_table,
        .roster = &roster,
        .driver = {.clock_us = clock_us, .wall_ms = clock_us, .frame = frame, .port = port},
        .tick_us = 20000,
        .journal = journal ? &place : NULL};
    node_t *node = NULL;
    status_t status = node_open(&config, &node);

    ASSERT(status == STATUS_OK);
    return node;
}

static void handle(node_t *node, const uint8_t *body, size_t size)
{
    bool worked = false;
    status_t status;

    node_post(node, PORT_CLIENT, MESSAGE_client_request, body, size);
    status = node_work(node, &worked);
    ASSERT(status == STATUS_OK && worked);
}

static size_t encode(uint32_t tokens, uint8_t *body, size_t room)
{
    static uint32_t prompt[TOKENS_MAX];
    const message_client_request_t m = {.client = 1, .prompt = {prompt, tokens}};
    size_t used = 0;
    status_t status = message_encode(MESSAGE_client_request, &m, body, room, &used);

    ASSERT(status == STATUS_OK);
    return used;
}

/* ---- what is measured ---- */

/* Of this thread's own work: another process that wants the core does not count. */
static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Millions of messages a second. */
static double pace(bool journal, incarnation_t life, const uint8_t *body, size_t size)
{
    node_t *node = open_node(journal, life, JOURNAL_SEGMENT_BYTES);
    double began;

    handle(node, body, size); /* pages of tables come in */
    began = seconds();
    for (uint32_t i = 0; i < MESSAGES; i++)
        handle(node, body, size);
    began = seconds() - began;
    node_close(node);
    return MESSAGES / began * 1e-6;
}

static void row(report_t *report, const char *name, uint32_t tokens, incarnation_t *life)
{
    static uint8_t body[MESSAGE_BYTES_MAX];
    double with[TURNS], without[TURNS], ratios[TURNS];
    size_t size = encode(tokens, body, sizeof(body));

    for (uint32_t turn = 0; turn < TURNS; turn++) {
        without[turn] = pace(false, ++*life, body, size);
        with[turn] = pace(true, ++*life, body, size);
        ratios[turn] = with[turn] / without[turn];
    }
    report_row(report, name, report_median(with, TURNS), report_median(without, TURNS),
               report_median(ratios, TURNS), 0);
}

/* The slowest of so many messages that exactly one begins a segment. */
static void row_segment(report_t *report, incarnation_t *life)
{
    static uint8_t body[MESSAGE_BYTES_MAX];
    double with[TURNS], without[TURNS], ratios[TURNS];
    size_t size = encode(TOKENS_MAX, body, sizeof(body));

    for (uint32_t turn = 0; turn < TURNS; turn++) {
        node_t *node = open_node(true, ++*life, STATE_USED);
        uint32_t messages = (uint32_t)(STATE_USED / size) + 64;
        double slowest = 0, sum = 0;

        for (uint32_t i = 0; i < messages; i++) {
            double began = seconds(), took;

            handle(node, body, size);
            took = seconds() - began;
            sum += took;
            slowest = took > slowest ? took : slowest;
        }
        node_close(node);
        with[turn] = slowest * 1e3;
        without[turn] = (sum - slowest) / (messages - 1) * 1e3;
        ratios[turn] = without[turn] / with[turn];
    }
    report_row(report, "the next segment, ms", report_median(with, TURNS),
               report_median(without, TURNS), report_median(ratios, TURNS), 0);
}

static void clear(void)
{
    DIR *directory = opendir(folder);
    struct dirent *entry;

    while (directory && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
    rmdir(folder);
}

int main(int argc, char **argv)
{
    report_t report;
    incarnation_t life = 0;

    ASSERT(mkdtemp(folder) != NULL);
    report_open(&report, "an actor with a journal against one without", "M messages/s",
                argc > 1 ? argv[1] : NULL);
    row(&report, "16 token ids", 16, &life);
    row(&report, "4,000 token ids", TOKENS_MAX, &life);
    row_segment(&report, &life);
    clear();
    return report_close(&report);
}
