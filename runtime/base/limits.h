/* limits.h - every limit of the engine, in one place, with the relations between them.
 *
 * A limit says what it counts in its name. What happens at it (refuse, wait, shed) is in
 * docs/limits.md; a table or queue without a limit here does not exist.
 */
#ifndef RUNTIME_BASE_LIMITS_H
#define RUNTIME_BASE_LIMITS_H

enum {
    /* deployment */
    HOSTS_MAX = 64,
    ACTORS_MAX = 512,          /* all actors of a deployment, ranks included */
    ACTOR_NAME_BYTES_MAX = 48, /* "decode/0/rank/3", with the final NUL */
    INSTANCES_MAX = 64,        /* instances of one kind: prefill groups, decode groups, ... */
    RANKS_MAX = 64,            /* ranks of one group */
    DEVICES_MAX = 64,          /* devices of one host */
    DEPLOYMENT_NAME_BYTES_MAX = 32, /* with the final NUL; it stands in the paths of sockets */
    NAME_BYTES_MAX = 64,       /* a deployment, host or served model, with the final NUL */
    CORS_BYTES_MAX = 256,      /* origins whose pages may ask, with spaces between */
    ADDRESS_BYTES_MAX = 64,    /* a host's or listener's address, with the final NUL */
    PATH_BYTES_MAX = 1024,     /* a file path, with the final NUL */
    TOPOLOGY_BYTES_MAX = 1 << 18, /* a topology file */
    TOPOLOGY_NODES_MAX = 8192,    /* its keys, scalars, lists and maps */
    TOPOLOGY_DEPTH_MAX = 8,       /* nesting of its lists and maps */
    TOPOLOGY_ERRORS_MAX = 20,     /* errors reported of one file; the rest is counted */
    TOPOLOGY_TEXT_BYTES_MAX = 256, /* one error's text, with the final NUL */

    /* requests */
    PROMPT_TOKENS_MAX = 1 << 20,
    OUTPUT_TOKENS_MAX = 1 << 20,
    STOP_STRINGS_MAX = 16,
    STOP_BYTES_MAX = 256,
    LOGPROBS_MAX = 20,
    LOGIT_BIAS_MAX = 300,

    /* groups */
    SLOTS_MAX = 1024,        /* running requests of one group */
    STEP_ITEMS_MAX = 4096,   /* items of one STEP */
    STEP_TOKENS_MAX = 65536, /* token rows of one STEP */
    STEPS_AHEAD_MAX = 2,     /* depth of the step log: steps in flight that run something */
    STEPS_IN_FLIGHT_MAX = 4, /* and with those that only close slots */
    PAGE_TOKENS = 256,       /* token positions of a page */

    /* messages */
    MESSAGES_MAX = 128,             /* ids of a message table, retired ones included */
    MESSAGE_BYTES_MAX = 9 << 20,    /* one encoded body: a SUBMIT of full prompt and full answer */
    MESSAGE_ARENA_BYTES = 24 << 20, /* structs and numbers of one decoded body */
    FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + (1 << 16), /* one frame: a batch, or one large message */
    FRAME_BATCH_BYTES = 1 << 16,     /* a frame with this much takes no further message */
    FRAME_BATCH_MESSAGES = 1024,     /* as little as one message each */
    STREAM_CREDIT_MESSAGES = 4096,   /* unacknowledged REQUESTs of one sender at one receiver */
    STREAM_CREDIT_BYTES = 1 << 20,   /* of them; passed by at most one message */
    STREAM_OUT_BYTES_MAX = 64 << 20, /* all that one stream keeps unacknowledged */
    MAILBOX_BYTES_MAX = 256 << 20,   /* all that waits for dispatch at one actor */
    OBSERVERS_MAX = 16,              /* observers of one actor at once */
    OBSERVER_OUT_BYTES_MAX = 8 << 20, /* of answers that one observer has not acknowledged */
    PEER_FRAMES_MAX = 4096,          /* frames to one actor that it has not read */
    OBSERVER_FRAMES_MAX = 64,        /* frames that one observer has not read */
    CONNECTION_FRAMES_MAX = 64,      /* frames of one connection that an actor has not read */
    ENDPOINT_BYTES_MAX = 128,        /* of a ZeroMQ endpoint, with the final NUL */
    TOKENS_ITEM_MAX = 4096,   /* tokens of one attempt in one TOKENS; the rest follows */
    TOKENS_ITEMS_MAX = 4096,  /* attempts in one TOKENS */
    KV_UNITS_MAX = 512,       /* units in one KV_READY or PULL */
    BORDERS_PER_RUN_MAX = 16, /* borders that one RUN keeps */
    CLOSED_MAX = 8192,        /* units that one step closes */
    POOL_NAME_BYTES_MAX = 96,
    REASON_BYTES_MAX = 256,
    STATE_NAME_BYTES_MAX = 32,

    /* journals */
    JOURNAL_OUTPUTS_MAX = 4096,       /* messages pushed in one record */
    JOURNAL_ANSWERS_MAX = 1 << 16,    /* questions about streams in one record */
    JOURNAL_FILE_BYTES_MAX = 1 << 30, /* a file that is read */
    INCIDENTS_MAX = 16,               /* kept of one host */

    /* model (model/config.h checks them; Flash has 43 layers of 4096 with 256 experts) */
    LAYERS_MAX = 128, /* MTP blocks not included */
    MTP_BLOCKS_MAX = 4,
    STREAMS_MAX = 8, /* hc_mult */
    SINKHORN_ROUNDS_MAX = 100,
    VOCABULARY_MAX = 1 << 20,
    HIDDEN_MAX = 1 << 15,
    HEADS_MAX = 256, /* attention and index heads */
    HEAD_DIM_MAX = 1024,
    LORA_RANK_MAX = 1 << 14, /* of queries and of output groups */
    EXPERTS_MAX = 512,
    EXPERTS_PER_TOKEN_MAX = 32,
    EXPERT_WIDTH_MAX = 1 << 15,
    INDEX_TOPK_MAX = 1 << 14,
    EOS_TOKENS_MAX = 8,

    /* files */
    CONFIG_BYTES_MAX = 1 << 20,
    CHECKPOINT_SHARDS_MAX = 1024,
    CHECKPOINT_TENSORS_MAX = 1 << 20,
    CHECKPOINT_HEADER_BYTES_MAX = 100000000, /* of one file; the format's own limit */
    CHECKPOINT_INDEX_BYTES_MAX = 1 << 28,
    TENSOR_NAME_BYTES_MAX = 256, /* with the final NUL */
    TENSOR_RANK_MAX = 8,

    /* text */
    PIECE_BYTES_MAX = 1024,             /* one piece or added token as its file writes it */
    TOKENIZER_FILE_BYTES_MAX = 1 << 26, /* a tokenizer.json */
    DOCUMENT_BYTES_MAX = 1 << 25,       /* a JSON text from outside */
    DOCUMENT_DEPTH_MAX = 128,           /* nesting of its arrays and objects */
    PROMPT_BYTES_MAX = 1 << 25,         /* a rendered prompt */
    CHAT_MESSAGES_MAX = 1 << 14,        /* messages of one request */
    CHAT_CALLS_MAX = 1024,              /* tool calls of one of them */
    CHAT_CALL_ID_BYTES_MAX = 256,       /* the id of a call */
    CHAT_BLOCK_BYTES_MAX = 1 << 16,     /* one fixed text of the chat format */
    ANSWER_NAME_BYTES_MAX = 256,        /* name of a tool or parameter in generated text */
    ANSWER_PARAMETERS_MAX = 1024,       /* of one generated call */
    ANSWER_HELD_BYTES_MAX = 1 << 18,    /* generated text that waits for a decision */
    CHAT_EFFORTS_MAX = 8,               /* efforts that have one */
};

_Static_assert(ACTORS_MAX >= 2 * RANKS_MAX, "two whole groups fit a deployment");
_Static_assert(STEP_ITEMS_MAX >= SLOTS_MAX, "every running request fits one step");
_Static_assert(STEP_TOKENS_MAX <= PROMPT_TOKENS_MAX, "a step is part of prompts");
_Static_assert(PAGE_TOKENS % 128 == 0, "a page border is self-contained (design 7)");

_Static_assert(MESSAGE_BYTES_MAX >= 4 * (PROMPT_TOKENS_MAX + OUTPUT_TOKENS_MAX) + (1 << 16),
               "a full prompt and a full answer fit one SUBMIT");

#endif
