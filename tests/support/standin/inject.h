// Faults on request, for test builds alone: a file, whose path is in VOXELD_INJECT, says which checked CUDA call fails,
// and how.
//
//   CLASS@N     the Nth checked call from now on fails, once
//   CLASS@N+    it and every one after it
//   CLASS@N%    every Nth
//
// CLASS is refused, memory, lost or dead: lost, but on a GPU by a kernel that really faults there. The file is looked
// for at each call, and removed when it has been read; calls are counted over all threads. Any thread.
#ifndef VOXELD_INJECT_H
#define VOXELD_INJECT_H

#include <stdbool.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the next checked call shall come to; VX_OK: whatever it comes to by itself.
enum vx_status inject_next(void);
// Whether a loss is to be a real one.
bool inject_is_real(void);
enum inject_repeat { INJECT_ONCE, INJECT_FROM_THERE, INJECT_EVERY };
// For programs that go through all calls: sets what the file would, and starts to count anew. Call 0: no fault.
void inject_set(enum vx_status status, int64_t call, enum inject_repeat repeat);
int64_t inject_calls(void);  // counted since then

#ifdef __cplusplus
}
#endif
#endif
