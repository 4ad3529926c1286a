// See base.h.
#include "kernels/cpu/base/base.h"

#include <stdio.h>
#include <sys/mman.h>

// With these, ASan finds writes past the end of an array.
#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)0)
#endif

enum { LINE = 64, PAGE = 4096 };

void *cpu_arena_take(struct cpu_arena *arena, uint64_t count, size_t size) {
  size_t bytes, padded, end;
  // At least one byte after an array belongs to no array.
  if (__builtin_mul_overflow(count, size, &bytes) || __builtin_add_overflow(bytes, LINE, &padded) ||
      __builtin_add_overflow(arena->used, padded / LINE * LINE, &end))
    end = SIZE_MAX;
  void *taken = arena->memory ? arena->memory + arena->used : NULL;
  if (taken) ASAN_UNPOISON_MEMORY_REGION(taken, bytes);
  arena->used = end;
  return taken;
}

static size_t whole_pages(size_t bytes, size_t more) {
  size_t sum;
  if (__builtin_add_overflow(bytes, more, &sum) || __builtin_add_overflow(sum, PAGE - 1, &sum)) sum = SIZE_MAX;
  return sum - sum % PAGE;
}

static bool is_allowed(const struct vx_job *job, size_t bytes) {
  const struct vx_caller *caller = job->caller;
  return bytes <= VX_SCRATCH_KEPT || !caller || !caller->scratch || caller->scratch(job->ctx, bytes);
}

// Moves the pages to a larger mapping, since new pages would cost faults.
static void *grown(const struct cpu_arena *arena, size_t bytes) {
  if (!arena->memory) return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASAN_UNPOISON_MEMORY_REGION(arena->memory, arena->bytes);
  return mremap(arena->memory, arena->bytes, bytes, MREMAP_MAYMOVE);
}

enum vx_status cpu_arena_reserve(struct cpu_arena *arena, const struct cpu_arena *measured, const struct vx_job *job,
                                 struct error *error) {
  if (measured->used > arena->bytes) {
    // A quarter more than needed, so that a slightly larger scan needs no new mapping; untouched pages cost nothing. Up
    // to VX_SCRATCH_KEPT the caller's consent is not needed, so the quarter does not cross that limit.
    size_t bytes = whole_pages(measured->used, measured->used / 4);
    if (measured->used <= VX_SCRATCH_KEPT && bytes > VX_SCRATCH_KEPT) bytes = VX_SCRATCH_KEPT;
    if (!is_allowed(job, bytes)) {
      bytes = whole_pages(measured->used, 0);
      if (!is_allowed(job, bytes)) {
        cpu_arena_trim(arena, 0);
        return vx_fail(error, VX_OUT_OF_MEMORY, "%zu bytes of scratch are over the limit", bytes);
      }
    }
    void *memory = grown(arena, bytes);
    if (memory == MAP_FAILED) {
      cpu_arena_trim(arena, 0);
      return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for %zu bytes of scratch", measured->used);
    }
    *arena = (struct cpu_arena){.memory = memory, .bytes = bytes};
  }
  ASAN_POISON_MEMORY_REGION(arena->memory, arena->bytes);
  arena->used = 0;
  return VX_OK;
}

void cpu_arena_fill(struct cpu_arena *arena) { (void)madvise(arena->memory, arena->bytes, MADV_HUGEPAGE); }

void cpu_arena_trim(struct cpu_arena *arena, size_t keep) {
  if (arena->bytes > keep) {
    ASAN_UNPOISON_MEMORY_REGION(arena->memory, arena->bytes);
    munmap(arena->memory + keep, arena->bytes - keep);
    *arena = (struct cpu_arena){.memory = keep > 0 ? arena->memory : NULL, .bytes = keep};
  }
}
