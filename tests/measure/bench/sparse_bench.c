// sparse-bench: how long sparse convolution takes on the CPU, by every way that runs here.
//
//   sparse-bench [--plain] second|centerpoint SCAN [ROUNDS]
//
// backbones.h has the backbones and the rows. Prints the rows of each level, and for each way the median and the least
// time on the wall clock, with one thread and with two. --plain adds the slow way `plain`. The exit status is 1 if runs
// write different bytes.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/sparse/sparse.h"
#include "tests/measure/bench/backbones.h"
#include "tests/measure/bench/timing.h"

enum { MOST_ROUNDS = 1000 };

// ---- two threads ----------------------------------------------------------------------------------------------------

static struct vx_lane *helpers_lane;

struct loop {
  const struct vx_tasks *tasks;
  atomic_int next;
};

static enum vx_status do_tasks(struct loop *loop, const struct vx_worker *worker, struct error *error) {
  enum vx_status status = VX_OK;
  for (int32_t task; status == VX_OK && (task = atomic_fetch_add(&loop->next, 1)) < loop->tasks->count;)
    status = loop->tasks->run(loop->tasks->ctx, worker, task, error);
  return status;
}

// Nothing stops the helper, so none of its tasks fails.
static void *help(void *ctx) {
  struct error error;
  struct vx_stop stop = {0};
  (void)do_tasks(ctx, &(const struct vx_worker){helpers_lane, &stop}, &error);
  return NULL;
}

// Makes a thread for each loop, which costs some 20 us.
static enum vx_status share_tasks(void *ctx, const struct vx_worker *own, const struct vx_tasks *tasks,
                                  struct error *error) {
  pthread_t thread;
  struct loop loop = {.tasks = tasks};
  (void)ctx;
  bool helped = pthread_create(&thread, NULL, help, &loop) == 0;
  enum vx_status status = do_tasks(&loop, own, error);
  if (helped) pthread_join(thread, NULL);
  return status;
}

// ---- measuring ------------------------------------------------------------------------------------------------------

static float *first_map;  // of the first run

static bool measure(struct backbone_bench *bench, const struct cpu_convolve_way *way, int threads, int rounds,
                    float *map) {
  static double ms[MOST_ROUNDS];
  static const struct vx_caller shared = {.parallel_for = share_tasks};
  struct vx_sparse_result result = {.map = map};
  struct error error;
  struct vx_stop stop = {0};
  const struct vx_job job = {.stop = &stop, .caller = threads > 1 ? &shared : NULL};
  for (int round = -1; round < rounds; round++) {
    double began = timing_now_us();
    enum vx_status status =
        cpu_sparse(bench->lane, &job, &bench->backbone, &bench->rows, way->convolve, &result, &error);
    if (status != VX_OK) {
      fprintf(stderr, "sparse-bench: %s\n", error.text);
      return false;
    }
    if (round >= 0) ms[round] = (timing_now_us() - began) / 1e3;
  }
  size_t bytes = (size_t)vx_sparse_map_values(&bench->plan, 1) * sizeof *map;
  if (!first_map) {
    first_map = malloc(bytes);
    if (!first_map) return false;
    memcpy(first_map, map, bytes);
    backbone_print_rows(bench, result.level_rows);
    printf("%-10s%10s%12s%12s\n", "way", "threads", "median ms", "least ms");
  }
  double median = timing_median(ms, rounds);
  printf("%-10s%10d%12.1f%12.1f\n", way->name, threads, median, ms[0]);
  if (memcmp(map, first_map, bytes) == 0) return true;
  fprintf(stderr, "sparse-bench: %s: the bytes differ\n", way->name);
  return false;
}

static bool run(struct backbone_bench *bench, bool plain, int rounds) {
  float *map = malloc((size_t)vx_sparse_map_values(&bench->plan, 1) * sizeof *map);
  bool ok = map != NULL;
  for (int w = 0; ok && w < cpu_num_convolve_ways; w++) {
    bool is_last = w == cpu_num_convolve_ways - 1;
    for (int threads = 1; ok && threads <= 2 && cpu_convolve_ways[w].runs() && (plain || !is_last); threads++)
      ok = measure(bench, &cpu_convolve_ways[w], threads, rounds, map);
  }
  free(map);
  free(first_map);
  return ok;
}

int main(int argc, char **argv) {
  bool plain = argc > 1 && strcmp(argv[1], "--plain") == 0;
  static struct backbone_bench bench;
  argc -= plain;
  argv += plain;
  int rounds = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 10;
  if (argc < 3 || argc > 4 || rounds < 1 || rounds > MOST_ROUNDS) {
    fprintf(stderr, "usage: sparse-bench [--plain] second|centerpoint SCAN [ROUNDS]   (raw float32; 10 rounds)\n");
    return 2;
  }
  struct error error = {.text = ""};
  bool ok = backbone_open(&bench, argv[1], argv[2]) &&
            vx_cpu_backend.lane_open(bench.device, VX_LANE_QUICK, &helpers_lane, &error) == VX_OK &&
            run(&bench, plain, rounds);
  if (helpers_lane) vx_cpu_backend.lane_close(helpers_lane);
  backbone_close(&bench);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
