/* plan.h - what `lockstep plan` shows, as text and as JSON. */
#ifndef CLI_PLAN_H
#define CLI_PLAN_H

#include <stdio.h>

#include "cli/deployment.h"

enum { PLAN_LENGTHS_MAX = 8 };

/* Context lengths whose capacity is shown: round ones up to the longest, then the longest. */
uint32_t plan_lengths(const deployment_t *deployment, uint32_t lengths[PLAN_LENGTHS_MAX]);
/* "64 sessions at 32 K, limited by decode pages" */
void plan_print_capacity(const deployment_t *deployment, uint32_t tokens, FILE *out);
void plan_print(const deployment_t *deployment, FILE *out);
void plan_print_json(const deployment_t *deployment, FILE *out);

#endif
