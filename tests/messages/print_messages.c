/* Prints what is made from messages/schema.h and kept in the repository: docs/messages.md, or with
 * the argument `golden` tests/messages/golden.txt, one random body per message as bytes and as
 * text. After a change of the schema that is meant, print both anew; the difference shows what
 * changed on the wire. */
#include <stdlib.h>
#include <string.h>

#include "messages/message.h"
#include "runtime/codec.h"

static void print_golden(void)
{
    static uint8_t memory[1 << 20], bytes[1 << 16];
    arena_t arena;

    arena_init(&arena, memory, sizeof(memory));
    for (uint16_t id = 0; id < message_table.count; id++) {
        const message_row_t *row = &message_table.rows[id];
        const void *body;
        random_t random;
        size_t used = 0;

        if (!row->name)
            continue;
        random_init(&random, 1000 + id);
        arena_reset(&arena);
        body = codec_random(row, &random, 3, &arena);
        if (!body || message_encode(id, body, bytes, sizeof(bytes), &used) != STATUS_OK)
            abort();
        printf("%u ", id);
        for (size_t i = 0; i < used; i++)
            printf("%02x", bytes[i]);
        putchar('\n');
        codec_print(row, body, true, stdout);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "golden") == 0)
        print_golden();
    else
        message_print_docs(stdout);
    return fflush(stdout) == 0 ? 0 : 1;
}
