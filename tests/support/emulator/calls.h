// Counts of calls to the emulated device, by their cost on a GPU. For C and C++.
#ifndef EMULATED_CALLS_H
#define EMULATED_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_calls {
  int launches;     // of kernels
  int copies;       // cudaMemcpyAsync and cudaMemsetAsync
  int waits;        // synchronizations, and cudaStreamQuery
  int lookups;      // cudaPointerGetAttributes
  int allocations;  // of memory of the device or the host
  int devices;      // cudaSetDevice
};
extern struct emulated_calls emulated_calls;

#ifdef __cplusplus
}
#endif

#endif
