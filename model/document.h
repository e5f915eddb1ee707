/* document.h - a JSON text as a flat list of nodes that point into it; hostile input welcome.
 *
 * Nothing is converted: a number keeps its digits and a string its escapes until someone asks, so
 * big integers and the form of floats survive. Strict RFC 8259, bounded in depth, in nodes and in
 * bytes. Where an object has one key twice the last value counts, at the place of the first, as in
 * Python. The text must outlive the document.
 */
#ifndef MODEL_DOCUMENT_H
#define MODEL_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/text_buffer.h"

typedef enum {
    DOCUMENT_NULL,
    DOCUMENT_FALSE,
    DOCUMENT_TRUE,
    DOCUMENT_NUMBER,
    DOCUMENT_STRING,
    DOCUMENT_ARRAY,
    DOCUMENT_OBJECT
} document_kind_t;

/* In an object each key is followed by its value. */
typedef struct {
    uint32_t start, end; /* bytes of the text, quotes and brackets included */
    uint32_t next;       /* the first node behind this one and everything in it */
    uint32_t value;      /* of a key that is there twice: where the value that counts is, else 0 */
    unsigned char kind;
    bool hidden; /* a later twin of a key */
} document_node_t;

typedef struct {
    const char *text;
    document_node_t *nodes; /* nodes[0] is the whole */
    uint32_t node_count;
    uint32_t node_room;
    bool twins; /* some object has a key twice */
} document_t;

enum { DOCUMENT_NONE = 0 }; /* no node: the root is nobody's member */

typedef enum {
    DOCUMENT_STRICT,
    DOCUMENT_PYTHON /* takes NaN, Infinity and -Infinity too, as json.loads does */
} document_dialect_t;

/* INVALID with offset and reason. `length` up to DOCUMENT_BYTES_MAX. Call fini in any case. */
MUST_USE status_t document_parse(document_t *document, document_dialect_t dialect, const char *text,
                                 size_t length);
void document_fini(document_t *document);

document_kind_t document_kind(const document_t *document, uint32_t node);
/* The value of a member of an object, DOCUMENT_NONE if there is none or `object` is no object. */
uint32_t document_member(const document_t *document, uint32_t object, const char *key);
/* Walks an array's items or an object's keys: start with child DOCUMENT_NONE, ends with it. */
uint32_t document_next(const document_t *document, uint32_t parent, uint32_t child);
/* The value that counts for a key. */
uint32_t document_value(const document_t *document, uint32_t key);
/* A key of an object that is there again, DOCUMENT_NONE if there is none. */
uint32_t document_twin(const document_t *document, uint32_t object);
/* True for a string that is exactly `text`. */
bool document_equals(const document_t *document, uint32_t node, const char *text);
/* Characters of a string: *at from node start + 1 up to node end - 1. Half a surrogate pair is
 * U+FFFD. */
uint32_t document_character(const document_t *document, size_t *at);

/* Puts the characters of a string. */
void document_put_string(const document_t *document, uint32_t node, text_buffer_t *out);
/* Puts a value as Python's json.dumps(json.loads(...), ensure_ascii=False) writes it. */
void document_put_python(const document_t *document, uint32_t node, text_buffer_t *out);

#endif
