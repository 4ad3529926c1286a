// Faults on request, for test builds. The environment variable VOXELD_INJECT has the path of a file that says which
// checked CUDA call fails, and how:
//
//   CLASS@N     the Nth checked call from now on, once
//   CLASS@N+    that call and every later one
//   CLASS@N%    every Nth call
//
// CLASS is refused, memory, lost or dead. dead is like lost, but on a GPU a kernel really faults. Each call looks for
// the file, and removes it when it is read. Calls are counted over all threads. Any thread.
#ifndef VOXELD_INJECT_H
#define VOXELD_INJECT_H

#include <stdbool.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

// The status that the next checked call must return; VX_OK: no fault.
enum vx_status inject_next(void);
// Whether a lost device must be really lost (CLASS dead).
bool inject_is_real(void);
enum inject_repeat { INJECT_ONCE, INJECT_FROM_THERE, INJECT_EVERY };
// Sets what the file would set, and restarts the count. Call 0: no fault.
void inject_set(enum vx_status status, int64_t call, enum inject_repeat repeat);
int64_t inject_calls(void);  // since the count restarted

#ifdef __cplusplus
}
#endif
#endif
