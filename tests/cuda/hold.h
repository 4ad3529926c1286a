// Keeps a GPU busy, so that kernels launched meanwhile begin one right after the other. One thread calls it.
#ifndef VOXELD_TESTS_CUDA_HOLD_H
#define VOXELD_TESTS_CUDA_HOLD_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// Fills all multiprocessors of the current device for so long from now, in a stream of its own. False: a call failed.
bool hold_gpu(int us);

#ifdef __cplusplus
}
#endif
#endif
