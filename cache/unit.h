/* unit.h - the units that cache bytes are counted, moved and digested in (geometry.h says what is in each). */
#ifndef CACHE_UNIT_H
#define CACHE_UNIT_H

typedef enum { UNIT_HISTORY, UNIT_BORDER, UNIT_SLOT, UNIT_COUNT } unit_kind_t;

#endif
