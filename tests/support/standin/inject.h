// Faults on request, only for test builds. The environment variable VOXELD_INJECT has the path of a file that says
// which checked CUDA call fails, and how:
//
//   CLASS@N     the Nth checked call from now on fails, once
//   CLASS@N+    that call and every later one
//   CLASS@N%    every Nth call
//
// CLASS is refused, memory, lost or dead. dead is like lost, but on a GPU a kernel really faults. Each call looks for
// the file, which is removed once it is read. Calls are counted over all threads. Any thread.
#ifndef VOXELD_INJECT_H
#define VOXELD_INJECT_H

#include <stdbool.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// The status that the next checked call must return; VX_OK: its own.
enum vx_status inject_next(void);
// Whether a loss must be a real one.
bool inject_is_real(void);
enum inject_repeat { INJECT_ONCE, INJECT_FROM_THERE, INJECT_EVERY };
// For programs that go through all calls: sets what the file would set, and restarts the count. Call 0: no fault.
void inject_set(enum vx_status status, int64_t call, enum inject_repeat repeat);
int64_t inject_calls(void);  // counted since then

#ifdef __cplusplus
}
#endif
#endif
