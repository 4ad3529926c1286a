// See fibres.h.
#include "fibres.h"
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;
alignas(1024) unsigned char emulated_shared[EMULATED_SHARED_BYTES];

enum state { READY, AT_BARRIER, IN_WARP, ENDED };

// An exchange of values between lanes of a warp.
struct meeting {
  uint64_t row[EMULATED_WARP];  // the bits of each lane
  uint32_t readers;             // lanes that have not read the row yet
};

struct fibre {
  void *stack_pointer;
  unsigned char *stack;  // NULL before the first turn
  enum state state;
  uint32_t mask;            // the lanes that the thread waits for
  struct meeting *meeting;  // the meeting whose row the thread has not read yet; or NULL
  unsigned place;           // in the order of the block's threads
  bool waited;              // emulated_wait was called
};

struct warp {
  uint32_t in_warp, ended;                 // masks of the lanes in the states IN_WARP and ENDED
  uint64_t row[EMULATED_WARP];             // the bits of each lane for its next meeting
  struct meeting meetings[EMULATED_WARP];  // a lane reads one meeting at a time, so one is always free
};

static const size_t STACK_BYTES = 320 << 10;
// The stacks begin at different offsets in their mappings, so that their first bytes use different sets of the cache.
static const size_t PLACES = 192, PLACE_BYTES = 320;

static struct fibre fibres[EMULATED_THREADS];
static struct warp warps[EMULATED_THREADS / EMULATED_WARP];
static uint64_t ready[EMULATED_THREADS / 64];  // bit i: the thread at place i of the order can take a turn
static std::vector<unsigned char *> stacks;    // free stacks, the last used at the end
static void *scheduler;                        // its stack pointer
// Of the block: the number of threads, the running thread, the threads that have not ended, the threads at the barrier.
static unsigned threads, running, alive, waiting;
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

static void set_ready(unsigned thread) {
  struct fibre *fibre = &fibres[thread];
  fibre->state = READY;
  if (thread != running) ready[fibre->place / 64] |= UINT64_C(1) << fibre->place % 64;
}

static void free_barrier() {
  if (alive == 0 || waiting < alive) return;
  for (unsigned i = 0; i < threads; i++)
    if (fibres[i].state == AT_BARRIER) set_ready(i);
  waiting = 0;
}

void emulated_barrier() {
  fibres[running].state = AT_BARRIER;
  waiting++;
  free_barrier();
  if (fibres[running].state != READY) leave();
}

// Frees the lanes of the mask if all of them wait for exactly this mask.
static void free_warp(unsigned first, uint32_t mask) {
  struct warp *warp = &warps[first / EMULATED_WARP];
  uint32_t lanes = threads - first < EMULATED_WARP ? mask & ((1u << (threads - first)) - 1) : mask;
  if ((lanes & warp->ended) != 0) emulated_die("a mask names a lane that has ended");
  if ((lanes & ~warp->in_warp) != 0) return;
  for (uint32_t left = lanes; left != 0; left &= left - 1)
    if (fibres[first + (unsigned)__builtin_ctz(left)].mask != mask) return;
  warp->in_warp &= ~lanes;
  struct meeting *meeting = warp->meetings;
  while (meeting->readers != 0) meeting++;
  memcpy(meeting->row, warp->row, sizeof meeting->row);
  meeting->readers = lanes;
  for (uint32_t left = lanes; left != 0; left &= left - 1) {
    unsigned thread = first + (unsigned)__builtin_ctz(left);
    fibres[thread].meeting = meeting;
    set_ready(thread);
  }
}

static void wait_for_lanes(uint32_t mask) {
  unsigned lane = running % EMULATED_WARP;
  if ((mask >> lane & 1) == 0) emulated_die("a lane is not in its own mask");
  fibres[running].state = IN_WARP;
  fibres[running].mask = mask;
  warps[running / EMULATED_WARP].in_warp |= 1u << lane;
  free_warp(running - lane, mask);
  if (fibres[running].state != READY) leave();
}

const uint64_t *emulated_meet(uint32_t mask, uint64_t bits) {
  warps[running / EMULATED_WARP].row[running % EMULATED_WARP] = bits;
  wait_for_lanes(mask);
  return fibres[running].meeting->row;
}

void emulated_part(uint32_t mask) {
  struct fibre *own = &fibres[running];
  if (own->meeting == NULL) wait_for_lanes(mask);
  own->meeting->readers &= ~(1u << running % EMULATED_WARP);
  own->meeting = NULL;
}

static void run_thread() {
  (*kernel_thread)();
  fibres[running].state = ENDED;
  warps[running / EMULATED_WARP].ended |= 1u << running % EMULATED_WARP;
  stacks.push_back(fibres[running].stack);  // begin() can use it once this thread has left
  alive--;
  free_barrier();
  leave();
  abort();
}

// The top of a new stack.
static unsigned char *new_stack() {
  static size_t made;
  void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) emulated_die("no memory for a stack");
  return (unsigned char *)stack + STACK_BYTES - 64 - made++ % PLACES * PLACE_BYTES;
}

static void begin(struct fibre *fibre) {
  if (stacks.empty()) stacks.push_back(new_stack());
  fibre->stack = stacks.back();
  stacks.pop_back();
  void **top = (void **)fibre->stack;
  *--top = NULL;
  *--top = (void *)run_thread;
  memset(top - SAVED_WORDS, 0, SAVED_WORDS * sizeof *top);
  fibre->stack_pointer = top - SAVED_WORDS;
}

// ---- kernels that may still run -------------------------------------------------------------------------------------

enum : size_t { LARGEST_COPY = 1 << 20 };  // larger memory is not copied

typedef std::map<const unsigned char *, std::vector<unsigned char>> copies;  // by the address of the memory

static std::map<unsigned char *, size_t> memory;  // bytes by address
// Copies of the memory as it was before the earliest kernel that may still run when the current kernel starts (seen),
// before the previous kernel, and before the current kernel.
static std::shared_ptr<copies> seen, before_last, before_this;
// in_turn: the current kernel waits for earlier kernels before it lets the next start. all_ended: all earlier kernels
// end before the next starts.
static bool in_turn = true, all_ended = true;

void emulated_note_memory(void *at, size_t bytes) {
  if (bytes > 0)
    memory[(unsigned char *)at] = bytes;
  else
    memory.erase((unsigned char *)at);
}

void emulated_end_all() { all_ended = true; }
void emulated_let_next() { in_turn = in_turn && fibres[running].waited; }
void emulated_wait() { fibres[running].waited = true; }

const void *emulated_seen(const void *at) {
  if (fibres[running].waited) return at;
  auto copy = seen->upper_bound((const unsigned char *)at);
  if (copy == seen->begin()) return at;
  --copy;
  size_t offset = (size_t)((const unsigned char *)at - copy->first);
  return offset < copy->second.size() ? &copy->second[offset] : at;
}

// Called before each kernel.
static void copy_memory() {
  before_last = before_this;
  before_this = std::make_shared<copies>();
  for (auto [at, bytes] : memory)
    if (bytes <= LARGEST_COPY) (*before_this)[at].assign(at, at + bytes);
  if (all_ended)
    seen = before_this;
  else if (in_turn)
    seen = before_last;
  all_ended = false;
  in_turn = true;
}

// ---- a block, a launch ----------------------------------------------------------------------------------------------

// The first place in [from, end) whose thread can take a turn; else `end`.
static unsigned next_ready(unsigned from, unsigned end) {
  while (from < end) {
    uint64_t bits = ready[from / 64] >> from % 64;
    if (bits != 0) return std::min(end, from + (unsigned)__builtin_ctzll(bits));
    from = (from / 64 + 1) * 64;
  }
  return end;
}

// Gives a turn to each ready thread with a place in [from, end). Returns false if there is none.
static bool take_turns(const std::vector<unsigned> &order, unsigned from, unsigned end) {
  bool any = false;
  for (unsigned place = from; (place = next_ready(place, end)) < end; place++) {
    any = true;
    ready[place / 64] &= ~(UINT64_C(1) << place % 64);
    running = order[place];
    threadIdx = {running, 0, 0};
    if (fibres[running].stack == NULL) begin(&fibres[running]);
    emulated_switch(&scheduler, fibres[running].stack_pointer);
  }
  return any;
}

static void run_block(size_t shared_bytes, std::vector<unsigned> &order) {
  memset(emulated_shared, 0xA5, shared_bytes);
  for (struct warp &warp : warps) warp.in_warp = warp.ended = 0;
  shuffle(order);
  running = EMULATED_THREADS;  // none
  for (unsigned place = 0; place < threads; place++) {
    fibres[order[place]].stack = NULL;
    fibres[order[place]].waited = false;
    fibres[order[place]].meeting = NULL;
    fibres[order[place]].place = place;
    set_ready(order[place]);
  }
  alive = threads;
  waiting = 0;
  while (alive > 0) {
    unsigned first = (unsigned)(next_random() % threads);
    bool late = take_turns(order, first, threads), early = take_turns(order, 0, first);
    if (!late && !early) emulated_die("some threads wait for others that never come");
  }
}

static std::vector<unsigned> numbers_below(unsigned count) {
  std::vector<unsigned> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

void emulated_launch(const char *kernel, dim3 blocks, dim3 block, size_t shared_bytes,
                     const std::function<void()> &thread) {
  emulated_calls.launches++;
  kernel_name = kernel;
  kernel_thread = &thread;
  if (blocks.x == 0 || block.x == 0 || block.x > EMULATED_THREADS || shared_bytes > EMULATED_SHARED_BYTES)
    emulated_die("a launch that no GPU takes");
  gridDim = blocks;
  blockDim = block;
  threads = block.x;
  copy_memory();
  std::vector<unsigned> block_order = numbers_below(blocks.x), order = numbers_below(threads);
  shuffle(block_order);
  for (unsigned number : block_order) {
    blockIdx = {number, 0, 0};
    run_block(shared_bytes, order);
  }
}
