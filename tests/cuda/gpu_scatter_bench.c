// gpu-scatter-bench: writing rows of features to a dense map on a GPU, with targets and floors: one table.
//
//   gpu-scatter-bench [--repeat N]
//
// Medians of N runs (200) after a warm-up. `device` is the time from the first kernel to the finished map, with rows
// and map on the device. `floor` is the time that the device's memory needs for the rows and the map. The other columns
// are for whole requests: `in`, `scatter` and `out` by the device's clock, `whole` by the host's clock, and `CPU`, one
// run on the CPU. The cells are random. The table says whether GPU and CPU wrote the same bytes. One thread. Exit code
// 77 without a GPU. Asserts no time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "kernels/backends.h"
#include "kernels/ops.h"
#include "tests/cuda/bench_side.h"
#include "tests/measure/bench/samples.h"
#include "tests/measure/bench/timing.h"

enum { MAX_REPEAT = 5000, WARM_UP = 30, COORDS = 4 };
static const double device_bytes_per_us = 4.25e6;  // a device copy on an H200, counting reads and writes

static const struct work {
  const char *name;
  int32_t rows, channels, clouds, size[3];
  enum vx_dtype dtype;
  double target_us;  // 0: none
} works[] = {
    {"KITTI pillars", 6000, 64, 1, {432, 496, 1}, VX_FLOAT32, 25},
    {"KITTI pillars, f16", 6000, 64, 1, {432, 496, 1}, VX_FLOAT16, 0},
    {"4 of KITTI, f16", 24000, 64, 4, {432, 496, 1}, VX_FLOAT16, 0},
    {"nuScenes pillars", 30000, 64, 1, {512, 512, 1}, VX_FLOAT32, 0},
    {"SECOND, deep", 20000, 128, 1, {176, 200, 2}, VX_FLOAT32, 0},
};

// Features, then coordinates, in one block.
struct rows {
  size_t bytes, feature_bytes;
  unsigned char *pinned, *resident;
};

static const struct vx_caller caller = {.output = side_give_output};

static uint32_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static bool make_rows(const struct side *side, const struct work *work, struct rows *rows) {
  uint64_t state = 1;
  rows->feature_bytes = (size_t)work->rows * (size_t)work->channels * vx_dtype_size(work->dtype);
  rows->bytes = rows->feature_bytes + (size_t)work->rows * COORDS * sizeof(int32_t);
  rows->pinned = side->backend->host_alloc(side->device, rows->bytes);
  if (!rows->pinned || cudaMalloc((void **)&rows->resident, rows->bytes) != cudaSuccess) return false;
  for (size_t i = 0; i < rows->feature_bytes; i++) rows->pinned[i] = (unsigned char)next_random(&state);
  int32_t *coords = (int32_t *)(void *)(rows->pinned + rows->feature_bytes);
  for (int32_t row = 0; row < work->rows; row++, coords += COORDS) {
    coords[0] = row * work->clouds / work->rows;
    for (int axis = 0; axis < 3; axis++) coords[3 - axis] = (int32_t)(next_random(&state) % (uint32_t)work->size[axis]);
  }
  return cudaMemcpy(rows->resident, rows->pinned, rows->bytes, cudaMemcpyHostToDevice) == cudaSuccess;
}

struct times {
  double in_us, scatter_us, out_us, device_us, whole_us;
};

// If the rows are on the device, reports the time of the kernels; else the time of the whole call.
static bool time_side(struct side *side, const struct work *work, const unsigned char *data, size_t feature_bytes,
                      bool resident, int repeat, struct times *times) {
  enum { IN, SCATTER, OUT, DEVICE, WHOLE, COLUMNS };
  static double us[COLUMNS][MAX_REPEAT];
  static int32_t row_counts[VX_MAX_CLOUDS];
  struct error error = {0};
  for (int i = -WARM_UP; i < repeat; i++) {
    struct vx_job job = {.op = VX_SCATTER,
                         .inputs = {{work->dtype, 2, {work->rows, work->channels}, data},
                                    {VX_INT32, 2, {work->rows, COORDS}, data + feature_bytes}},
                         .tensors = VX_SCATTER_TENSORS,
                         .num_clouds = work->clouds,
                         .caller = &caller,
                         .ctx = side,
                         .row_counts = row_counts};
    memcpy(job.params.scatter.grid_size, work->size, sizeof work->size);
    double begin = timing_now_us();
    if (side->backend->run(side->lane, &job, &error) != VX_OK) {
      fprintf(stderr, "gpu-scatter-bench: %s: %s\n", work->name, error.text);
      return false;
    }
    if (i < 0) continue;
    us[WHOLE][i] = timing_now_us() - begin;
    us[IN][i] = (double)job.stage_ns[VX_STAGE_COPY_IN] / 1e3;
    us[SCATTER][i] = (double)job.stage_ns[VX_STAGE_SCATTER] / 1e3;
    us[OUT][i] = (double)job.stage_ns[VX_STAGE_COPY_OUT] / 1e3;
    us[DEVICE][i] = us[IN][i] + us[SCATTER][i];
  }
  *times =
      (struct times){timing_median(us[IN], repeat), timing_median(us[SCATTER], repeat), timing_median(us[OUT], repeat),
                     timing_median(us[DEVICE], repeat), timing_median(us[WHOLE], repeat)};
  struct samples_limit target = {resident ? work->target_us : 0, "target"};
  samples_note(us[resident ? DEVICE : WHOLE], repeat, "us", target, "scatter of %s, %s %s", work->name,
               side->backend->name, resident ? "device" : "whole");
  return true;
}

static bool bench(struct side sides[2], const struct work *work, int repeat) {
  struct rows rows = {.bytes = 0};
  struct times resident, times, cpu;
  bool good = make_rows(&sides[0], work, &rows) &&
              time_side(&sides[0], work, rows.resident, rows.feature_bytes, true, repeat, &resident) &&
              time_side(&sides[0], work, rows.pinned, rows.feature_bytes, false, repeat, &times) &&
              time_side(&sides[1], work, rows.pinned, rows.feature_bytes, false, 1, &cpu);
  char target[16] = "";
  if (work->target_us > 0) snprintf(target, sizeof target, "%.0f", work->target_us);
  if (good)
    printf("%-20s %6d %5d | %6.1f %6s %5.1f | %6.1f %7.1f %7.1f %7.1f | %8.1f | %s\n", work->name, work->rows,
           work->channels, resident.device_us, target, (double)(rows.bytes + sides[0].bytes) / device_bytes_per_us,
           times.in_us, times.scatter_us, times.out_us, times.whole_us, cpu.whole_us,
           memcmp(sides[0].output, sides[1].output, sides[0].bytes) ? "DIFFER" : "equal");
  sides[0].backend->host_release(sides[0].device, rows.pinned, rows.bytes);
  (void)cudaFree(rows.resident);
  return good;
}

int main(int argc, char **argv) {
  long repeat = argc > 2 && strcmp(argv[1], "--repeat") == 0 ? strtol(argv[2], NULL, 10) : 200;
  struct side sides[2];
  if (repeat < 1 || repeat > MAX_REPEAT) {
    fprintf(stderr, "gpu-scatter-bench: --repeat takes 1 to %d\n", MAX_REPEAT);
    return 2;
  }
  if (!side_open(&sides[0], "gpu-scatter-bench", vx_backend_find("cuda"), VX_LANE_QUICK)) return 77;
  if (!side_open(&sides[1], "gpu-scatter-bench", &vx_cpu_backend, VX_LANE_QUICK)) return 1;
  printf("medians of %ld, us\n%-20s %6s %5s | %6s %6s %5s | %6s %7s %7s %7s | %8s |\n", repeat, "work", "rows", "C",
         "device", "target", "floor", "in", "scatter", "out", "whole", "CPU");
  bool good = true;
  for (size_t i = 0; i < sizeof works / sizeof *works; i++) good = bench(sides, &works[i], (int)repeat) && good;
  side_close(&sides[0]);
  side_close(&sides[1]);
  return good ? 0 : 1;
}
