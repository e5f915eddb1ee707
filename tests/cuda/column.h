/* column.h - the operators on a CUDA device, as one column of the table of tests/kernels.
 *
 * On whatever libcuda.so.1 the loader finds: the fake one or a device's. Each operator is submitted to
 * one stream and waited for. An operator without a CUDA form is named, and is its reference.
 * Without a driver the test is skipped, with the driver's line.
 */
#ifndef TESTS_CUDA_COLUMN_H
#define TESTS_CUDA_COLUMN_H

#include "kernels/operators.h"

const operators_t *column_operators(void);
/* Host memory that operators may follow pointers into. */
void column_pin(void *memory, size_t bytes);
void column_unpin(void *memory);

#endif
