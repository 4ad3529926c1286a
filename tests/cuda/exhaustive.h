// The GPU's side of cuda-exhaustive. One thread calls it.
#ifndef VOXELD_TESTS_CUDA_EXHAUSTIVE_H
#define VOXELD_TESTS_CUDA_EXHAUSTIVE_H

#include <stdbool.h>

#include "tests/support/exhaustive.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns false, with the reason on stderr, if there is no device.
bool exhaustive_has_gpu(void);
// Sums the results of the inputs 0 .. count - 1 on device 0. Returns false, with the reason on stdout, on an error.
bool exhaustive_on_gpu(enum exhaustive which, uint64_t count, struct exhaustive_sum *sum);

#ifdef __cplusplus
}
#endif
#endif
