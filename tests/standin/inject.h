// Faults on request, for test builds alone: the environment says which checked CUDA call fails, and how.
//
//   VOXELD_INJECT=CLASS@N     the Nth checked call of the process's jobs fails, once
//   VOXELD_INJECT=CLASS@N+    it and every one after it
//
// CLASS is refused, memory or lost. Calls are counted over all threads, from the first job on. Any thread.
#ifndef VOXELD_INJECT_H
#define VOXELD_INJECT_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// What the next checked call of a job shall come to; VX_OK: whatever it comes to by itself.
enum vx_status inject_next(void);
// For programs that go through all calls: sets what the environment would, and starts to count anew.
void inject_set(enum vx_status status, int64_t call, bool and_later);
int64_t inject_calls(void);  // counted since then

#ifdef __cplusplus
}
#endif
#endif
