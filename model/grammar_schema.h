/* grammar_schema.h - the inside of the JSON Schema front end. For grammar_schema*.c only.
 *
 * A value is described by a list of elements that all hold: places of the document, each as it is or
 * negated. Such a list is resolved into shapes, of which one holds: a shape has no choice left in it
 * and is written as a piece of grammar. Everything made on the way lives until the end of compiling.
 */
#ifndef MODEL_GRAMMAR_SCHEMA_H
#define MODEL_GRAMMAR_SCHEMA_H

#include "model/document.h"
#include "model/grammar.h"
#include "model/grammar_build.h"

enum {
    SCHEMA_NULL = 1,
    SCHEMA_FALSE = 2,
    SCHEMA_TRUE = 4,
    SCHEMA_INTEGER = 8,   /* written without point and exponent */
    SCHEMA_FRACTION = 16, /* a number that is no integer */
    SCHEMA_WHOLE = 32,    /* an integer written as 1.0 or 1e+16 */
    SCHEMA_STRING = 64,
    SCHEMA_ARRAY = 128,
    SCHEMA_OBJECT = 256,
    SCHEMA_NUMBER = SCHEMA_INTEGER | SCHEMA_FRACTION | SCHEMA_WHOLE,
    SCHEMA_ANY = 511
};

enum {
    SCHEMA_SHAPES_MAX = 512,  /* that one list of elements is resolved into */
    SCHEMA_STEPS_MAX = 2000,  /* elements that hold for one value */
    SCHEMA_WORK_MAX = 100000, /* elements looked at */
    SCHEMA_DEPTH_MAX = 200,   /* lists under way at once */
    SCHEMA_EMPTY_DEPTH = 4,   /* how deep emptiness of a required value is looked into */
    SCHEMA_ITEMS_MAX = 8192,  /* states of one array or object that counts */
    SCHEMA_UNIQUE_MAX = 8,    /* values of which an array has each once */
    SCHEMA_PATTERNS_MAX = 6,  /* patterns that may divide the other keys of an object */
    SCHEMA_NONE = 0x7fffffff  /* no bound */
};

/* node << 1 | negated */
typedef uint32_t element_t;

typedef struct element_list {
    element_t element;
    const struct element_list *next;
} element_list_t;

/* A name with what its value must be, or a bare name. */
typedef struct name_list {
    uint32_t name; /* a string of the document */
    element_t element;
    const struct name_list *next;
} name_list_t;

/* A bound of a number. */
typedef struct {
    uint32_t node; /* 0: none */
    bool exclusive;
} bound_t;

typedef struct bound_list {
    bound_t bound;
    bool upper;
    const struct bound_list *next;
} bound_list_t;

/* A keyword that leaves a choice, to be made later. */
typedef struct choice_list {
    uint32_t node; /* the schema that has it */
    uint32_t value;
    uint32_t key; /* of a dependency */
    unsigned char kind;
    const struct choice_list *next;
} choice_list_t;

typedef struct {
    uint32_t types;
    const element_list_t *enums; /* arrays of constants, or constants: any of them fits */
    uint32_t constants;          /* the first node with enum or const; SCHEMA_NONE */
    uint32_t string_term;        /* of a string's body, */
    uint32_t format;             /* which has this format too: its number + 1, or 0 */
    uint32_t length_min, length_max;
    const bound_list_t *bounds;
    const element_list_t *multiples;        /* nodes of numbers; negated: not these */
    const element_list_t *not_constants;    /* arrays of constants, or constants */
    const element_list_t *objects, *arrays; /* schemas with keywords for them */
    const name_list_t *required, *forbidden, *properties;
    const element_list_t *names; /* propertyNames */
    uint32_t properties_min, properties_max, items_min, items_max;
    const element_list_t *contains;
    bool unique;
    uint32_t unique_node;
    const choice_list_t *choices;
} shape_t;

typedef struct {
    shape_t *shapes;
    uint32_t count, room;
} shapes_t;

/* A list that was resolved, and the rule for it once one is needed. */
typedef struct resolved {
    element_t *elements;
    uint32_t count;
    shapes_t shapes;
    uint32_t rule; /* SCHEMA_NONE: not yet */
    bool written;
    struct resolved *next_in_place, *next_to_write;
} resolved_t;

enum { SCHEMA_PLACES = 4096, SCHEMA_IDS_MAX = 4096 };

typedef struct {
    const char *text; /* of the source */
    uint32_t node;    /* the schema with this $id or $anchor */
    uint32_t value;
} schema_id_t;

typedef struct {
    build_t build;
    document_t document;
    grammar_refusal_t *refusal;
    bool any_space;
    unsigned draft; /* 4, 6, 7, 2019, 2020 */
    uint32_t depth, empty_depth;
    uint64_t work;
    resolved_t *places[SCHEMA_PLACES];
    resolved_t *first_to_write, *last_to_write;
    schema_id_t *ids;
    uint32_t id_count;
    void **blocks; /* memory given out */
    uint32_t block_count, block_room;
    char *memory;
    size_t memory_left;
    uint32_t any_character, space; /* terms that are used often; 0: not made yet */
    struct pattern_cache *patterns;
} schema_t;

/* Memory until the end; never NULL after the first failure either, but then it is the same. */
void *schema_take(schema_t *s, size_t bytes);
/* Refuses: keeps the first reason, with pointer and keyword. */
void schema_refuse(schema_t *s, status_t status, uint32_t node, const char *keyword,
                   const char *format, ...) PRINTF_LIKE(5, 6);
bool schema_failed(const schema_t *s);

const element_list_t *schema_push(schema_t *s, const element_list_t *list, element_t element);
/* Any value of this kind? */
uint32_t schema_member(const schema_t *s, uint32_t node, const char *key);
/* A whole number of at least 0 that a keyword has; refused otherwise. */
uint32_t schema_count(schema_t *s, uint32_t node, const char *keyword, uint32_t value);
/* The schema that a $ref names; SCHEMA_NONE and refused if there is none. */
uint32_t schema_reference(schema_t *s, uint32_t node, uint32_t value);
void schema_find_ids(schema_t *s);

/* Where the shapes of a list go; only_first: a few are enough, is there any? */
typedef struct {
    shapes_t *out;
    bool only_first;
} resolving_t;

static inline void at_least(uint32_t *value, uint32_t bound)
{
    *value = bound > *value ? bound : *value;
}

static inline void at_most(uint32_t *value, uint32_t bound)
{
    *value = bound < *value ? bound : *value;
}

/* Adds all shapes of `shape` in which the pending elements hold too. */
void schema_expand(schema_t *s, resolving_t *r, shape_t shape, const element_list_t *pending);
/* The same for a shape in which the schema at `node` does not hold. */
void schema_negate(schema_t *s, resolving_t *r, const shape_t *shape, uint32_t node);
void schema_require(schema_t *s, shape_t *shape, uint32_t name);
void schema_forbid(schema_t *s, shape_t *shape, uint32_t name);
void schema_add_bound(schema_t *s, shape_t *shape, uint32_t node, bool exclusive, bool upper);
const name_list_t *schema_push_name(schema_t *s, const name_list_t *list, uint32_t name,
                                    element_t element);
/* All schemas of an array, negated or not; the first comes first. */
const element_list_t *schema_push_all(schema_t *s, const element_list_t *list, uint32_t array,
                                      bool negated);
/* All types that `type` names; `integer` without 1.0, which only some drafts count as one. */
uint32_t schema_named_types(schema_t *s, uint32_t node, uint32_t value);
/* Is there a value, and is it true? */
bool schema_is_true(const schema_t *s, uint32_t node);

/* The shapes of elements that all hold. The list is put in order, twins dropped. */
resolved_t *schema_resolve(schema_t *s, element_t *elements, uint32_t count);
/* True if no value fits for sure; false if one does, or it is not known. */
bool schema_is_empty(schema_t *s, element_t *elements, uint32_t count);
/* Elements for the value of a key, a string of the document, in a shape; their number. */
uint32_t schema_property(schema_t *s, const shape_t *shape, uint32_t name, element_t *elements,
                         uint32_t room);

/* Writes values between two states. */
void schema_write(schema_t *s, element_t *elements, uint32_t count, uint32_t from, uint32_t to);
void schema_write_object(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to);
void schema_write_array(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to);
void schema_write_number(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to);
void schema_write_string(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to);
void schema_write_constant(schema_t *s, uint32_t node, uint32_t from, uint32_t to);
/* A text or term with free space in front, if space is free. */
uint32_t schema_space(schema_t *s, uint32_t from);
/* The term of strings, without quotes, that a shape with SCHEMA_STRING allows. */
uint32_t schema_string_body(schema_t *s, const shape_t *shape);
/* The term of numbers of these types that the shape allows. */
uint32_t schema_number_term(schema_t *s, const shape_t *shape, uint32_t type);
/* The number of a format, or FORMAT_COUNT if it only annotates; its term, in JSON form. */
uint32_t schema_find_format(const char *name);
uint32_t schema_format_term(schema_t *s, uint32_t format);
/* The term of a format by name; REGEX_ANY if it only annotates. */
uint32_t schema_format(schema_t *s, const char *name);

/* Does a constant of the document satisfy an element? */
bool schema_validates(schema_t *s, uint32_t value, element_t element);
bool schema_equal(const schema_t *s, uint32_t a, uint32_t b);
double schema_double(const schema_t *s, uint32_t node);
/* A number written without point and exponent, or one that is whole. */
uint32_t schema_number_type(const schema_t *s, uint32_t node);
/* The characters of a string as UTF-8, and their number. */
const char *schema_string(schema_t *s, uint32_t node, size_t *length);
/* The same as it stands in a JSON string that Python wrote. */
const char *schema_escaped(schema_t *s, uint32_t node, size_t *length);
bool schema_same_string(schema_t *s, uint32_t a, uint32_t b);
/* The term of a pattern of the document, in JSON form; plain: for names that are tested. */
uint32_t schema_pattern(schema_t *s, uint32_t owner, uint32_t value, const char *keyword);
void schema_forget_patterns(schema_t *s);
/* Does a name match a pattern? */
bool schema_matches(schema_t *s, uint32_t owner, uint32_t pattern, uint32_t name);

#endif
