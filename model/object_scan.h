/* object_scan.h - follows a JSON object byte by byte and says where it ends or that it cannot be one.
 *
 * For text that is still being generated: no look ahead, no memory but this struct. Strict RFC 8259
 * up to DOCUMENT_DEPTH_MAX; keys that are there twice are the caller's to find (document.h).
 */
#ifndef MODEL_OBJECT_SCAN_H
#define MODEL_OBJECT_SCAN_H

#include "runtime/base/limits.h"

typedef enum {
    OBJECT_SCAN_MORE, /* what was read can begin an object */
    OBJECT_SCAN_DONE, /* this byte ends it */
    OBJECT_SCAN_FAIL  /* no object begins like this */
} object_scan_result_t;

/* Zeroed at the start. */
typedef struct {
    unsigned char state;
    unsigned char count;  /* hexadecimal digits, or letters of a word, that are still to come */
    unsigned char word;   /* which word */
    unsigned char in_key; /* the string that is being read is a key */
    unsigned depth;       /* open arrays and objects */
    unsigned char objects[DOCUMENT_DEPTH_MAX]; /* by depth: 1 object, 0 array */
} object_scan_t;

object_scan_result_t object_scan_push(object_scan_t *scan, char byte);

#endif
