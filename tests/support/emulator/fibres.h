// Runs a kernel on the CPU: its blocks one after the other, the threads of a block in turns, each with its own stack.
// One thread of the host launches at a time.
//
// The order of the blocks, and of the threads between two barriers, is random, from VOXELD_EMULATED_SEED. So code that
// depends on an order gives other bits with other seeds. A kernel whose blocks wait for blocks with later tickets does
// not end. Some errors end the program with a message: a barrier that some threads do not reach, a mask with a lane
// that has ended, a launch without blocks.
#ifndef VOXELD_FIBRES_H
#define VOXELD_FIBRES_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#include <functional>

enum { EMULATED_WARP = 32, EMULATED_THREADS = 1024, EMULATED_SHARED_BYTES = 227 << 10 };

// Of the running thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

// Dynamic shared memory.
extern unsigned char emulated_shared[EMULATED_SHARED_BYTES];

// The device's clock, in nanoseconds.
uint64_t emulated_now();

void emulated_launch(const char *kernel, dim3 blocks, dim3 threads, size_t shared_bytes,
                     const std::function<void()> &thread);
// Does the work of a stream at once, or adds it to the graph that is being captured.
void emulated_enqueue(const std::function<void()> &work);
// Returns once all threads of the block that have not ended have called it.
void emulated_barrier();
// Returns, once all lanes of the mask have called it, an array with each lane's `bits`. The array is valid until the
// caller calls emulated_part.
const uint64_t *emulated_meet(uint32_t mask, uint64_t bits);
// A lane without such an array waits until all lanes of the mask have called emulated_part (__syncwarp).
void emulated_part(uint32_t mask);

// On a GPU a kernel may start before earlier kernels have ended. So until a thread calls emulated_wait, its __ldcg, by
// emulated_seen, reads memory as it was before the first kernel that could still be running. Plain loads, and __ldcg of
// memory larger than LARGEST_COPY bytes, read what the earlier kernels wrote.
void emulated_let_next();
void emulated_wait();
const void *emulated_seen(const void *at);
// Makes the next kernel start after all earlier kernels have ended.
void emulated_end_all();
void emulated_note_memory(void *memory, size_t bytes);  // 0 bytes: the memory is freed
[[noreturn]] void emulated_die(const char *text);

#endif
