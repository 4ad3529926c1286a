// Checks that the shared arithmetic gives the same bits on the CPU and on a GPU, for every input or for many.
//
//   cuda-exhaustive [--cpu]
//
// Prints a line per function, with its inputs and the found and expected hashes of all results, and a summary line.
// Exits with 1 if a hash differs or if sigmoid falls anywhere, with 77 without a device. With --cpu it uses no GPU. It
// takes some minutes of processor time, on all cores.
#include "tests/cuda/exhaustive.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { CHUNK = 1 << 20, MOST_THREADS = 256 };

// The inputs of one function. All threads take chunks of them.
struct work {
  enum exhaustive which;
  uint64_t count;
  atomic_uint_fast64_t next, hash, falls;
};

static void *take_chunks(void *ctx) {
  struct work *work = ctx;
  struct exhaustive_sum sum = {0};
  uint64_t begin = 0;
  while ((begin = atomic_fetch_add(&work->next, CHUNK)) < work->count)
    for (uint64_t number = begin; number < begin + CHUNK && number < work->count; number++)
      exhaustive_add(work->which, number, &sum);
  atomic_fetch_add(&work->hash, sum.hash);
  atomic_fetch_add(&work->falls, sum.falls);
  return NULL;
}

// This thread works too, so no other thread is needed.
static struct exhaustive_sum sum_on_cpu(enum exhaustive which, uint64_t count) {
  pthread_t threads[MOST_THREADS];
  struct work work = {.which = which, .count = count};
  long cores = sysconf(_SC_NPROCESSORS_ONLN), started = 0;
  while (started + 1 < cores && started < MOST_THREADS &&
         pthread_create(&threads[started], NULL, take_chunks, &work) == 0)
    started++;
  take_chunks(&work);
  while (started > 0) pthread_join(threads[--started], NULL);
  return (struct exhaustive_sum){atomic_load(&work.hash), atomic_load(&work.falls)};
}

static bool compare(enum exhaustive which, bool cpu_alone) {
  const struct exhaustive_row *row = &exhaustive_rows[which];
  struct exhaustive_sum on_cpu = sum_on_cpu(which, row->count), on_gpu = on_cpu;
  if (!cpu_alone && !exhaustive_on_gpu(which, row->count, &on_gpu)) return false;
  bool good = on_cpu.hash == row->hash && on_gpu.hash == row->hash && on_cpu.falls + on_gpu.falls == 0;
  printf("%-8s %" PRIu64 " %s: cpu %016" PRIx64, row->name, row->count, row->inputs, on_cpu.hash);
  if (!cpu_alone) printf(", gpu %016" PRIx64, on_gpu.hash);
  printf(", expected %016" PRIx64 ", falls %" PRIu64 "%s\n", row->hash, on_cpu.falls + on_gpu.falls,
         good ? "" : ": WRONG");
  fflush(stdout);
  return good;
}

int main(int argc, char **argv) {
  bool cpu_alone = argc == 2 && strcmp(argv[1], "--cpu") == 0;
  int equal = 0;
  if (argc > 1 && !cpu_alone) {
    fprintf(stderr, "usage: cuda-exhaustive [--cpu]\n");
    return 2;
  }
  if (!cpu_alone && !exhaustive_has_gpu()) return 77;
  for (int which = 0; which < EXHAUSTIVES; which++) equal += compare((enum exhaustive)which, cpu_alone);
  printf("exhaustive: %d of %d functions give the expected hash for all inputs%s\n", equal, EXHAUSTIVES,
         cpu_alone ? " on the CPU" : " on the CPU and on the GPU");
  return equal != EXHAUSTIVES;
}
