/* ring_cpu.h - see ring.h: copies of bytes, for which the reference is as good as any. */
#ifndef KERNELS_RING_RING_CPU_H
#define KERNELS_RING_RING_CPU_H

#include "kernels/ring/ring.h"

static void ring_keep_cpu(const ring_keep_t *p)
{
    ring_keep_ref(p);
}

#endif
