// Runs a kernel on the CPU: its blocks one after the other, the threads of a block in turns, each with a stack of its
// own. One thread of the host launches at a time.
//
// Blocks, and the threads between two barriers, come in an order that a generator chooses, which starts from
// VOXELD_EMULATED_SEED. So code that relies on an order gives other bits with other seeds. A kernel whose blocks wait
// for blocks with later tickets never ends here. A barrier that some threads never reach, a mask that names a lane
// that has ended, and a launch without blocks end the program with a word.
#ifndef VOXELD_FIBRES_H
#define VOXELD_FIBRES_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include <functional>

enum { EMULATED_WARP = 32, EMULATED_THREADS = 1024, EMULATED_SHARED_BYTES = 227 << 10 };

// Of the thread that runs.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// The block's dynamic shared memory.
extern unsigned char emulated_shared[EMULATED_SHARED_BYTES];

// Nanoseconds, as the device counts them.
uint64_t emulated_now();

void emulated_launch(const char *kernel, dim3 blocks, dim3 threads, size_t shared_bytes,
                     const std::function<void()> &thread);
// Returns once all threads of the block that have not ended are here.
void emulated_barrier();
// Leaves `bits` with the warp. Returns once all lanes of the mask are here; `row` then has what each left, until the
// lane calls emulated_part.
const uint64_t *emulated_meet(uint32_t mask, uint64_t bits);
void emulated_part(uint32_t mask);
[[noreturn]] void emulated_die(const char *text);

#endif
