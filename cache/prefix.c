/* Node i of the index is page i of the pool, so a node needs no allocation and a page number finds
 * its node. Two lists run through the nodes: idle pages (no references) and pages with a border,
 * each from the most to the least recently used.
 *
 * Who holds a page holds all pages before it, and gives them back from the end to the start. So in
 * the idle list a page is older than its parent, and the oldest idle page has no children.
 */
#include "cache/prefix.h"

#include <stdalign.h>
#include <string.h>

static prefix_node_t *nodes_of(prefix_t *prefix)
{
    return (prefix_node_t *)(void *)((unsigned char *)prefix + prefix->nodes_at);
}

static const prefix_node_t *node_at(const prefix_t *prefix, uint32_t page)
{
    const unsigned char *block = (const unsigned char *)prefix;

    ASSERT(page < prefix->pages_max);
    return (const prefix_node_t *)(const void *)(block + prefix->nodes_at) + page;
}

static prefix_node_t *node_of(prefix_t *prefix, uint32_t page)
{
    ASSERT(page < prefix->pages_max);
    return nodes_of(prefix) + page;
}

static uint32_t *buckets_of(prefix_t *prefix)
{
    return (uint32_t *)(void *)((unsigned char *)prefix + prefix->buckets_at);
}

static uint32_t bucket_at(const prefix_t *prefix, uint64_t key)
{
    const unsigned char *block = (const unsigned char *)prefix;

    return (
        (const uint32_t *)(const void *)(block + prefix->buckets_at))[key & (prefix->buckets - 1)];
}

static const uint32_t *tokens_at(const prefix_t *prefix, uint32_t page)
{
    const unsigned char *block = (const unsigned char *)prefix;

    return (const uint32_t *)(const void *)(block + prefix->tokens_at) + (size_t)page * PAGE_TOKENS;
}

/* Lists. `offset` says which of a node's links is meant. */

#define BY_USE offsetof(prefix_node_t, by_use)
#define BORDERED offsetof(prefix_node_t, bordered)

static prefix_link_t *link_of(prefix_t *prefix, uint32_t page, size_t offset)
{
    return (prefix_link_t *)(void *)((unsigned char *)node_of(prefix, page) + offset);
}

static void list_push(prefix_t *prefix, prefix_list_t *list, uint32_t page, size_t offset)
{
    *link_of(prefix, page, offset) = (prefix_link_t){.newer = UNITS_NONE, .older = list->newest};
    if (list->newest != UNITS_NONE)
        link_of(prefix, list->newest, offset)->newer = page;
    else
        list->oldest = page;
    list->newest = page;
}

static void list_remove(prefix_t *prefix, prefix_list_t *list, uint32_t page, size_t offset)
{
    prefix_link_t *link = link_of(prefix, page, offset);

    if (link->newer != UNITS_NONE)
        link_of(prefix, link->newer, offset)->older = link->older;
    else
        list->newest = link->older;
    if (link->older != UNITS_NONE)
        link_of(prefix, link->older, offset)->newer = link->newer;
    else
        list->oldest = link->newer;
    *link = (prefix_link_t){UNITS_NONE, UNITS_NONE};
}

static void touch_border(prefix_t *prefix, uint32_t page)
{
    list_remove(prefix, &prefix->bordered, page, BORDERED);
    list_push(prefix, &prefix->bordered, page, BORDERED);
}

/* Life. */

static uint32_t bucket_count(uint32_t pages)
{
    uint32_t buckets = 16;

    while (buckets < pages && buckets < 1u << 31)
        buckets *= 2;
    return buckets;
}

size_t prefix_bytes(uint32_t pages)
{
    return sizeof(prefix_t) + pages * (sizeof(prefix_node_t) + PAGE_TOKENS * sizeof(uint32_t)) +
           bucket_count(pages) * sizeof(uint32_t);
}

prefix_t *prefix_init(void *memory, size_t bytes, uint32_t pages)
{
    prefix_t *prefix = memory;

    ASSERT((uintptr_t)memory % alignof(prefix_t) == 0);
    ASSERT(bytes >= prefix_bytes(pages));
    *prefix = (prefix_t){
        .bytes = prefix_bytes(pages),
        .pages_max = pages,
        .buckets = bucket_count(pages),
        .nodes_at = sizeof(prefix_t),
    };
    prefix->buckets_at = prefix->nodes_at + pages * sizeof(prefix_node_t);
    prefix->tokens_at = prefix->buckets_at + prefix->buckets * sizeof(uint32_t);
    prefix_clear(prefix);
    return prefix;
}

void prefix_clear(prefix_t *prefix)
{
    prefix->count = 0;
    prefix->idle = (prefix_list_t){UNITS_NONE, UNITS_NONE};
    prefix->bordered = (prefix_list_t){UNITS_NONE, UNITS_NONE};
    memset(nodes_of(prefix), 0, prefix->pages_max * sizeof(prefix_node_t));
    for (uint32_t i = 0; i < prefix->buckets; i++)
        buckets_of(prefix)[i] = UNITS_NONE;
}

/* Look-up. */

/* The page with these tokens below `parent`, or UNITS_NONE. */
static uint32_t find(const prefix_t *prefix, uint64_t key, uint32_t parent, const uint32_t *tokens,
                     uint64_t salt)
{
    for (uint32_t page = bucket_at(prefix, key); page != UNITS_NONE;
         page = node_at(prefix, page)->bucket_next) {
        const prefix_node_t *node = node_at(prefix, page);

        if (node->key == key && node->parent == parent && node->salt == salt &&
            memcmp(tokens_at(prefix, page), tokens, PAGE_TOKENS * sizeof(tokens[0])) == 0)
            return page;
    }
    return UNITS_NONE;
}

prefix_match_t prefix_match(const prefix_t *prefix, const uint32_t *tokens, uint32_t count,
                            uint64_t salt, page_t *pages, uint32_t pages_max)
{
    prefix_match_t match = {.page_count = 0, .border = {UNITS_NONE}};
    const uint32_t whole = count > 0 ? (count - 1) / PAGE_TOKENS : 0;
    const uint32_t limit = whole < pages_max ? whole : pages_max;
    uint64_t key = PAGE_KEY_ROOT;
    uint32_t page = UNITS_NONE;

    for (uint32_t i = 0; i < limit; i++) {
        const uint32_t *page_tokens = tokens + (size_t)i * PAGE_TOKENS;

        key = page_key(key, page_tokens, salt);
        page = find(prefix, key, page, page_tokens, salt);
        if (page == UNITS_NONE)
            break;
        pages[i] = page_at(page);
        if (node_at(prefix, page)->border != UNITS_NONE)
            match = (prefix_match_t){i + 1, border_at(node_at(prefix, page)->border)};
    }
    return match;
}

/* References. */

static bool border_in_use(const pool_t *pool, const prefix_node_t *node)
{
    return node->border != UNITS_NONE &&
           pool_item(pool, unit_border(border_at(node->border)))->references > 0;
}

void prefix_hold(prefix_t *prefix, pool_t *pool, page_t page)
{
    prefix_node_t *node = node_of(prefix, page.value);

    ASSERT(node->used);
    if (node->parent != UNITS_NONE)
        ASSERT(!node_at(prefix, node->parent)->idle);
    if (node->idle)
        list_remove(prefix, &prefix->idle, page.value, BY_USE);
    node->idle = false;
    pool_share(pool, unit_page(page));
}

prefix_match_t prefix_acquire(prefix_t *prefix, pool_t *pool, const uint32_t *tokens,
                              uint32_t count, uint64_t salt, page_t *pages, uint32_t pages_max)
{
    const prefix_match_t match = prefix_match(prefix, tokens, count, salt, pages, pages_max);

    for (uint32_t i = 0; i < match.page_count; i++)
        prefix_hold(prefix, pool, pages[i]);
    if (match.page_count > 0) {
        pool_share(pool, unit_border(match.border));
        touch_border(prefix, pages[match.page_count - 1].value);
    }
    return match;
}

void prefix_release(prefix_t *prefix, pool_t *pool, const page_t *pages, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        prefix_node_t *node = node_of(prefix, pages[i].value);

        ASSERT(node->used);
        if (pool_unshare(pool, unit_page(pages[i])) > 0)
            continue;
        ASSERT(!border_in_use(pool, node));
        node->idle = true;
        list_push(prefix, &prefix->idle, pages[i].value, BY_USE);
    }
}

/* Changes. */

status_t prefix_insert(prefix_t *prefix, pool_t *pool, uint32_t owner, page_t parent, page_t page,
                       const uint32_t tokens[PAGE_TOKENS], uint64_t salt, page_t *standing)
{
    const bool first = parent.value == UNITS_NONE;
    prefix_node_t *node = node_of(prefix, page.value);
    uint64_t parent_key = PAGE_KEY_ROOT, key;
    uint32_t *bucket, found;

    if (!first && !prefix_has(prefix, parent))
        return FAIL(STATUS_NOT_FOUND, "page %u cannot follow page %u, which is not in the index",
                    page.value, parent.value);
    if (!first && node_at(prefix, parent.value)->salt != salt)
        return FAIL(STATUS_MISMATCH, "page %u and page %u before it have different salts",
                    page.value, parent.value);
    if (!first) {
        ASSERT(!node_at(prefix, parent.value)->idle); /* the caller holds it */
        parent_key = node_at(prefix, parent.value)->key;
    }
    key = page_key(parent_key, tokens, salt);
    found = find(prefix, key, parent.value, tokens, salt);
    if (found != UNITS_NONE) {
        *standing = page_at(found);
        return STATUS_OK;
    }

    ASSERT(!node->used);
    pool_cache(pool, unit_page(page), owner);
    bucket = &buckets_of(prefix)[key & (prefix->buckets - 1)];
    *node = (prefix_node_t){
        .key = key,
        .salt = salt,
        .parent = parent.value,
        .ordinal = first ? 0 : node_at(prefix, parent.value)->ordinal + 1,
        .border = UNITS_NONE,
        .bucket_next = *bucket,
        .used = true,
        .by_use = {UNITS_NONE, UNITS_NONE},
        .bordered = {UNITS_NONE, UNITS_NONE},
    };
    *bucket = page.value;
    memcpy((unsigned char *)prefix + prefix->tokens_at +
               (size_t)page.value * PAGE_TOKENS * sizeof(tokens[0]),
           tokens, PAGE_TOKENS * sizeof(tokens[0]));
    if (!first)
        node_of(prefix, parent.value)->children++;
    prefix->count++;
    *standing = page;
    return STATUS_OK;
}

status_t prefix_border_add(prefix_t *prefix, pool_t *pool, uint32_t owner, page_t page,
                           border_t border)
{
    prefix_node_t *node = node_of(prefix, page.value);

    if (!node->used)
        return FAIL(STATUS_NOT_FOUND, "page %u is not in the index", page.value);
    if (node->border != UNITS_NONE)
        return FAIL(STATUS_BUSY, "page %u has border %u", page.value, node->border);
    pool_cache(pool, unit_border(border), owner);
    pool_unshare(pool, unit_border(border)); /* the index keeps it; nobody reads it yet */
    node->border = border.value;
    list_push(prefix, &prefix->bordered, page.value, BORDERED);
    return STATUS_OK;
}

static void drop_border(prefix_t *prefix, pool_t *pool, uint32_t page)
{
    prefix_node_t *node = node_of(prefix, page);

    pool_evict(pool, unit_border(border_at(node->border)));
    list_remove(prefix, &prefix->bordered, page, BORDERED);
    node->border = UNITS_NONE;
}

status_t prefix_border_drop(prefix_t *prefix, pool_t *pool, page_t page)
{
    const prefix_node_t *node = node_at(prefix, page.value);

    if (!node->used || node->border == UNITS_NONE)
        return FAIL(STATUS_NOT_FOUND, "page %u has no border", page.value);
    if (border_in_use(pool, node))
        return FAIL(STATUS_BUSY, "border %u is being restored from", node->border);
    drop_border(prefix, pool, page.value);
    return STATUS_OK;
}

static void remove_page(prefix_t *prefix, pool_t *pool, uint32_t page)
{
    prefix_node_t *node = node_of(prefix, page);
    uint32_t *from = &buckets_of(prefix)[node->key & (prefix->buckets - 1)];

    ASSERT(node->children == 0);
    if (node->border != UNITS_NONE)
        drop_border(prefix, pool, page);
    while (*from != page)
        from = &node_of(prefix, *from)->bucket_next;
    *from = node->bucket_next;
    list_remove(prefix, &prefix->idle, page, BY_USE);
    if (node->parent != UNITS_NONE)
        node_of(prefix, node->parent)->children--;
    memset(node, 0, sizeof(*node));
    prefix->count--;
    pool_evict(pool, unit_page(page_at(page)));
}

uint32_t prefix_evict_pages(prefix_t *prefix, pool_t *pool, uint32_t wanted)
{
    uint32_t freed = 0;

    while (freed < wanted && prefix->idle.oldest != UNITS_NONE) {
        remove_page(prefix, pool, prefix->idle.oldest);
        freed++;
    }
    return freed;
}

uint32_t prefix_evict_borders(prefix_t *prefix, pool_t *pool, uint32_t wanted)
{
    uint32_t freed = 0;

    for (uint32_t page = prefix->bordered.oldest, newer; page != UNITS_NONE && freed < wanted;
         page = newer) {
        newer = node_at(prefix, page)->bordered.newer;
        if (border_in_use(pool, node_at(prefix, page)))
            continue;
        drop_border(prefix, pool, page);
        freed++;
    }
    return freed;
}

/* Looking. */

bool prefix_has(const prefix_t *prefix, page_t page)
{
    return page.value < prefix->pages_max && node_at(prefix, page.value)->used;
}

uint64_t prefix_key(const prefix_t *prefix, page_t page)
{
    ASSERT(prefix_has(prefix, page));
    return node_at(prefix, page.value)->key;
}

/* Length of a list; asserts its links and that a border or idleness is what puts a page into it. */
static uint32_t check_list(const prefix_t *prefix, const prefix_list_t *list, size_t offset)
{
    uint32_t length = 0, newer = UNITS_NONE, page = list->newest;

    while (page != UNITS_NONE) {
        const prefix_node_t *node = node_at(prefix, page);
        const prefix_link_t *link =
            (const prefix_link_t *)(const void *)((const unsigned char *)node + offset);

        ASSERT(node->used);
        ASSERT(offset == BY_USE ? node->idle : node->border != UNITS_NONE);
        ASSERT(link->newer == newer);
        length++;
        ASSERT(length <= prefix->count);
        newer = page;
        page = link->older;
    }
    ASSERT(list->oldest == newer);
    return length;
}

static void check_node(const prefix_t *prefix, const pool_t *pool, uint32_t page)
{
    const prefix_node_t *node = node_at(prefix, page);
    const pool_item_t *item = pool_item(pool, unit_page(page_at(page)));
    uint64_t parent_key = PAGE_KEY_ROOT;

    ASSERT(item->state == POOL_CACHED);
    ASSERT(node->idle == (item->references == 0));
    if (node->parent != UNITS_NONE) {
        const prefix_node_t *parent = node_at(prefix, node->parent);

        ASSERT(parent->used);
        ASSERT(parent->salt == node->salt);
        ASSERT(parent->ordinal + 1 == node->ordinal);
        ASSERT(parent->children > 0);
        parent_key = parent->key;
    } else {
        ASSERT(node->ordinal == 0);
    }
    ASSERT(node->key == page_key(parent_key, tokens_at(prefix, page), node->salt));
    ASSERT(find(prefix, node->key, node->parent, tokens_at(prefix, page), node->salt) == page);
    if (node->border != UNITS_NONE)
        ASSERT(pool_item(pool, unit_border(border_at(node->border)))->state == POOL_CACHED);
}

void prefix_check(const prefix_t *prefix, const pool_t *pool)
{
    uint32_t used = 0, idle = 0, bordered = 0, children = 0, with_parent = 0;

    for (uint32_t page = 0; page < prefix->pages_max; page++) {
        const prefix_node_t *node = node_at(prefix, page);

        if (!node->used)
            continue;
        check_node(prefix, pool, page);
        used++;
        idle += node->idle;
        bordered += node->border != UNITS_NONE;
        children += node->children;
        with_parent += node->parent != UNITS_NONE;
    }
    ASSERT(used == prefix->count);
    ASSERT(children == with_parent);
    ASSERT(used == pool_count(pool, UNIT_HISTORY, POOL_CACHED));
    ASSERT(bordered == pool_count(pool, UNIT_BORDER, POOL_CACHED));
    ASSERT(check_list(prefix, &prefix->idle, BY_USE) == idle);
    ASSERT(check_list(prefix, &prefix->bordered, BORDERED) == bordered);
}

void prefix_print(const prefix_t *prefix, FILE *out)
{
    fprintf(out, "%u of %u pages in the index\n", prefix->count, prefix->pages_max);
    for (uint32_t page = 0; page < prefix->pages_max; page++) {
        const prefix_node_t *node = node_at(prefix, page);

        if (node->used)
            fprintf(out, "page %u key %016llx parent %d ordinal %u children %u border %d%s\n", page,
                    (unsigned long long)node->key, (int)node->parent, node->ordinal, node->children,
                    (int)node->border, node->idle ? " idle" : "");
    }
}
