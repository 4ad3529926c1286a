// Counts of calls to the emulated device, by kinds that differ in what a call costs on a GPU. For C and C++.
#ifndef EMULATED_CALLS_H
#define EMULATED_CALLS_H

#ifdef __cplusplus
extern "C" {
#endif

struct emulated_calls {
  int launches;     // of kernels
  int copies;       // and settings of memory
  int waits;        // synchronizations, and questions whether a stream is done
  int lookups;      // of pointers
  int allocations;  // of either memory
  int devices;      // choices of a device
};
extern struct emulated_calls emulated_calls;

#ifdef __cplusplus
}
#endif

#endif
