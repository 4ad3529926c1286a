// See fibres.h.
#include "fibres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <numeric>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
alignas(1024) unsigned char emulated_shared[EMULATED_SHARED_BYTES];

enum state { READY, AT_BARRIER, IN_WARP, ENDED };

struct fibre {
  void *stack_pointer;
  unsigned char *stack;
  enum state state;
  uint32_t mask;  // lanes that it waits for
};

static const size_t STACK_BYTES = 320 << 10;
// The stacks begin at different places of their pages, so that their first bytes share a processor's cache.
static const size_t PLACES = 192, PLACE_BYTES = 320;

static struct fibre fibres[EMULATED_THREADS];
static uint64_t rows[EMULATED_THREADS / EMULATED_WARP][EMULATED_WARP];
static void *scheduler;  // its stack pointer
static unsigned threads, running, alive,
    waiting;  // of the block: all threads, the running one, those that have not ended, those at the barrier
static const char *kernel_name;
static const std::function<void()> *kernel_thread;

[[noreturn]] void emulated_die(const char *text) {
  fprintf(stderr, "emulator: %s, block %u, thread %u: %s\n", kernel_name, blockIdx.x, threadIdx.x, text);
  abort();
}

// ---- the order ------------------------------------------------------------------------------------------------------

static uint64_t next_random() {
  static uint64_t state;
  if (state == 0) {
    const char *seed = getenv("VOXELD_EMULATED_SEED");
    state = (seed == NULL ? 1 : strtoull(seed, NULL, 10)) * UINT64_C(0x9E3779B97F4A7C15) | 1;
  }
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void shuffle(std::vector<unsigned> &order) {
  for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[next_random() % i]);
}

// ---- one thread -----------------------------------------------------------------------------------------------------

extern "C" void emulated_switch(void **from, void *to);
#if defined(__x86_64__)
asm(R"(
.text
.globl emulated_switch
emulated_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp
  ret
)");
enum { SAVED_WORDS = 6 };
#else
#error "the emulator switches stacks on x86-64 alone"
#endif

static void leave() { emulated_switch(&fibres[running].stack_pointer, scheduler); }

static void free_barrier() {
  for (unsigned i = 0; alive > 0 && waiting == alive && i < threads; i++)
    fibres[i].state = fibres[i].state == AT_BARRIER ? READY : fibres[i].state;
  waiting = alive > 0 && waiting == alive ? 0 : waiting;
}

void emulated_barrier() {
  fibres[running].state = AT_BARRIER;
  waiting++;
  free_barrier();
  if (fibres[running].state != READY) leave();
}

// Frees the lanes of the mask if all of them wait for exactly this mask.
static void free_warp(unsigned first, uint32_t mask) {
  for (int pass = 0; pass < 2; pass++) {
    for (unsigned lane = 0; lane < EMULATED_WARP; lane++) {
      struct fibre *fibre = &fibres[first + lane];
      if ((mask >> lane & 1) != 0 && first + lane < threads) {
        if (fibre->state == ENDED) emulated_die("a mask names a lane that has ended");
        if (pass == 0 && (fibre->state != IN_WARP || fibre->mask != mask)) return;
        fibre->state = pass == 0 ? fibre->state : READY;
      }
    }
  }
}

static void wait_for_lanes(uint32_t mask) {
  if ((mask >> running % EMULATED_WARP & 1) == 0) emulated_die("a lane is not in its own mask");
  fibres[running].state = IN_WARP;
  fibres[running].mask = mask;
  free_warp(running / EMULATED_WARP * EMULATED_WARP, mask);
  if (fibres[running].state != READY) leave();
}

const uint64_t *emulated_meet(uint32_t mask, uint64_t bits) {
  uint64_t *row = rows[running / EMULATED_WARP];
  row[running % EMULATED_WARP] = bits;
  wait_for_lanes(mask);
  return row;
}

void emulated_part(uint32_t mask) { wait_for_lanes(mask); }

static void run_thread() {
  (*kernel_thread)();
  fibres[running].state = ENDED;
  alive--;
  free_barrier();
  leave();
  abort();
}

static void prepare(struct fibre *fibre) {
  if (fibre->stack == NULL) {
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) emulated_die("no memory for a stack");
    fibre->stack = (unsigned char *)stack;
  }
  size_t place = (size_t)(fibre - fibres) % PLACES;
  void **top = (void **)(fibre->stack + STACK_BYTES - 64 - place * PLACE_BYTES);
  *--top = NULL;
  *--top = (void *)run_thread;
  memset(top - SAVED_WORDS, 0, SAVED_WORDS * sizeof *top);
  fibre->stack_pointer = top - SAVED_WORDS;
  fibre->state = READY;
}

// ---- a block, a launch ----------------------------------------------------------------------------------------------

// Lets each thread that can continue do so. Returns false if no thread can.
static bool take_turns(std::vector<unsigned> &order) {
  bool any = false;
  unsigned first = (unsigned)(next_random() % threads);
  for (unsigned i = 0; i < threads; i++) {
    unsigned thread = order[first + i < threads ? first + i : first + i - threads];
    if (fibres[thread].state == READY) {
      any = true;
      running = thread;
      threadIdx = {thread, 0, 0};
      emulated_switch(&scheduler, fibres[thread].stack_pointer);
    }
  }
  return any;
}

static void run_block(size_t shared_bytes, std::vector<unsigned> &order) {
  memset(emulated_shared, 0xA5, shared_bytes);
  std::for_each(fibres, fibres + threads, [](struct fibre &fibre) { prepare(&fibre); });
  shuffle(order);
  alive = threads;
  waiting = 0;
  while (alive > 0)
    if (!take_turns(order)) emulated_die("some threads never reach the barrier that others wait at");
}

static std::vector<unsigned> numbers_below(unsigned count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void emulated_launch(const char *kernel, dim3 blocks, dim3 block, size_t shared_bytes,
                     const std::function<void()> &thread) {
  kernel_name = kernel;
  kernel_thread = &thread;
  if (blocks.x == 0 || block.x == 0 || block.x > EMULATED_THREADS || shared_bytes > EMULATED_SHARED_BYTES)
    emulated_die("a launch that no GPU takes");
  gridDim = blocks;
  blockDim = block;
  threads = block.x;
  std::vector<unsigned> block_order = numbers_below(blocks.x), order = numbers_below(threads);
  shuffle(block_order);
  for (unsigned number : block_order) {
    blockIdx = {number, 0, 0};
    run_block(shared_bytes, order);
  }
}
