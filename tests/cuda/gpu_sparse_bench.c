// gpu-sparse-bench: times of sparse convolution on a GPU.
//
//   gpu-sparse-bench second|centerpoint SCAN [ROUNDS [float32|float16]]
//
// Weights, rows and map are in the device's memory. Prints the rows of each level. Then, for the scan alone and for a
// batch of four copies, prints the median and the least time of a run, from the call until the map is there, and the
// device memory that the runs took. One thread. Exit code 77 without a device, 1 if a map is wrong:
// - With float32, each cloud of each run must have the CPU's bytes.
// - With float16, each cloud of each run must have the same bytes. A value may differ from the CPU's value by 2e-3 of
//   the CPU's largest value.
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/sparse/sparse.h"
#include "kernels/cuda/sparse/sparse.h"
#include "tests/measure/bench/backbones.h"
#include "tests/measure/bench/timing.h"

enum { MOST_ROUNDS = 10000, WARM_UP = 5, BATCH = 4 };
static const float MOST_ERROR = 2e-3f;

struct gpu {
  struct vx_device *device;
  struct vx_lane *lane;
  struct vx_sparse backbone;   // its weights are in the device's memory
  struct vx_sparse_rows rows;  // of BATCH clouds, in the device's memory
  int32_t cloud_rows;
  float *map, *found, *expected;  // map, found: of BATCH clouds; expected: of one
  size_t map_bytes;               // of one cloud
};

// A copy in the device's memory, which is never freed; NULL if there is no memory.
static const void *on_device(const void *from, size_t bytes) {
  void *to = NULL;
  bool ok =
      cudaMalloc(&to, bytes + 16) == cudaSuccess && cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice) == cudaSuccess;
  return ok ? to : NULL;
}

static bool move_weights(struct vx_sparse *backbone) {
  bool ok = true;
  for (int32_t i = 0; i < backbone->num_layers; i++) {
    struct vx_sparse_layer *layer = &backbone->layers[i];
    size_t weights = (size_t)(vx_sparse_offsets(layer) * layer->inputs) * (size_t)layer->width;
    layer->weight = on_device(layer->weight, weights * sizeof(float));
    layer->bias = on_device(layer->bias, (size_t)layer->width * sizeof(float));
    ok = ok && layer->weight && layer->bias;
  }
  return ok;
}

// Repeats the scan's rows for each cloud.
static bool move_rows(const struct vx_sparse_rows *from, size_t inputs, struct vx_sparse_rows *to) {
  size_t rows = (size_t)from->num_rows;
  int32_t *coords = malloc(BATCH * rows * 4 * sizeof *coords);
  float *features = malloc(BATCH * rows * inputs * sizeof *features);
  for (size_t i = 0; coords && features && i < BATCH; i++) {
    memcpy(coords + i * rows * 4, from->coords, rows * 4 * sizeof *coords);
    memcpy(features + i * rows * inputs, from->features, rows * inputs * sizeof *features);
    for (size_t row = 0; row < rows; row++) coords[(i * rows + row) * 4] = (int32_t)i;
  }
  *to = *from;
  to->coords = coords ? on_device(coords, BATCH * rows * 4 * sizeof *coords) : NULL;
  to->features = features ? on_device(features, BATCH * rows * inputs * sizeof *features) : NULL;
  free(coords);
  free(features);
  return to->coords && to->features;
}

static bool move(const struct backbone_bench *bench, struct gpu *gpu) {
  gpu->backbone = bench->backbone;
  gpu->cloud_rows = bench->rows.num_rows;
  gpu->map_bytes = (size_t)vx_sparse_map_values(&bench->plan, 1) * sizeof(float);
  gpu->found = malloc(BATCH * gpu->map_bytes);
  gpu->expected = malloc(gpu->map_bytes);
  return move_weights(&gpu->backbone) && move_rows(&bench->rows, (size_t)gpu->backbone.layers[0].inputs, &gpu->rows) &&
         gpu->found && gpu->expected && cudaMalloc((void **)&gpu->map, BATCH * gpu->map_bytes) == cudaSuccess;
}

static bool run_on_cpu(const struct backbone_bench *bench, const struct gpu *gpu, struct error *error) {
  struct vx_sparse_result result = {.map = gpu->expected};
  struct vx_stop stop = {0};
  const struct vx_job job = {.stop = &stop};
  bool ok = cpu_sparse(bench->lane, &job, &bench->backbone, &bench->rows, cpu_convolve_here(), &result, error) == VX_OK;
  if (ok) backbone_print_rows(bench, result.level_rows);
  return ok;
}

// If the device's map is close to the CPU's, it becomes the expected map.
static bool expect_close(const struct gpu *gpu, struct error *error) {
  float largest = 0, most = 0;
  for (size_t i = 0; i < gpu->map_bytes / sizeof(float); i++) {
    largest = fmaxf(largest, fabsf(gpu->expected[i]));
    most = fmaxf(most, fabsf(gpu->found[i] - gpu->expected[i]));
    if (!(fabsf(gpu->found[i]) < INFINITY)) most = INFINITY;
  }
  printf("largest error %.2g of the largest value\n", (double)(most / largest));
  if (!(most <= MOST_ERROR * largest)) return error_set(error, "the map is too far from the CPU's");
  memcpy(gpu->expected, gpu->found, gpu->map_bytes);
  return true;
}

static bool run_on_gpu(const struct gpu *gpu, double *us, struct error *error) {
  struct vx_sparse_result result = {.map = gpu->map};
  size_t clouds = (size_t)gpu->rows.num_clouds;
  double began = timing_now_us();
  if (cuda_sparse(gpu->lane, &gpu->backbone, &gpu->rows, &result, error) != VX_OK ||
      cuda_sparse_wait(gpu->lane, error) != VX_OK)
    return false;
  *us = timing_now_us() - began;
  return cudaMemcpy(gpu->found, gpu->map, clouds * gpu->map_bytes, cudaMemcpyDeviceToHost) == cudaSuccess ||
         error_set(error, "the map cannot be copied");
}

static bool check(const struct gpu *gpu, struct error *error) {
  for (int32_t i = 0; i < gpu->rows.num_clouds; i++)
    if (memcmp((const char *)gpu->found + (size_t)i * gpu->map_bytes, gpu->expected, gpu->map_bytes) != 0)
      return error_set(error, "the bytes differ in cloud %d", (int)i);
  return true;
}

static size_t memory_used(void) {
  size_t left = 0, all = 0;
  return cudaMemGetInfo(&left, &all) == cudaSuccess ? all - left : 0;
}

static bool measure(struct gpu *gpu, int32_t clouds, int rounds, struct error *error) {
  static double us[MOST_ROUNDS];
  double unread;
  size_t used = memory_used();
  gpu->rows.num_clouds = clouds;
  gpu->rows.num_rows = clouds * gpu->cloud_rows;
  for (int round = -WARM_UP; round < rounds; round++) {
    if (!run_on_gpu(gpu, round < 0 ? &unread : &us[round], error)) return false;
    if (gpu->rows.half && clouds == 1 && round == -WARM_UP && !expect_close(gpu, error)) return false;
    if (!check(gpu, error)) return false;
  }
  double median = timing_median(us, rounds), each = clouds;
  printf("%d: median %.0f us, least %.0f us; %.0f us a cloud; %zu MB more, and %zu MB of maps\n", (int)clouds, median,
         us[0], median / each, (memory_used() - used) / 1000000, (size_t)clouds * gpu->map_bytes / 1000000);
  return true;
}

int main(int argc, char **argv) {
  static struct backbone_bench bench;
  static struct gpu gpu;
  struct error error = {.text = "no backbone, or no memory"};
  int rounds = argc >= 4 ? (int)strtol(argv[3], NULL, 10) : 200;
  bool half = argc == 5 && strcmp(argv[4], "float16") == 0;
  if (argc < 3 || argc > 5 || rounds < 1 || rounds > MOST_ROUNDS ||
      (argc == 5 && !half && strcmp(argv[4], "float32") != 0)) {
    fprintf(stderr, "usage: gpu-sparse-bench second|centerpoint SCAN [ROUNDS [float32|float16]]   (200 float32)\n");
    return 2;
  }
  if (vx_cuda_backend.open(0, &gpu.device, &error) != VX_OK) {
    fprintf(stderr, "gpu-sparse-bench: %s\n", error.text);
    return 77;
  }
  bool ok = backbone_open(&bench, argv[1], argv[2]) &&
            vx_cuda_backend.lane_open(gpu.device, VX_LANE_QUICK, &gpu.lane, &error) == VX_OK && move(&bench, &gpu) &&
            run_on_cpu(&bench, &gpu, &error);
  gpu.rows.half = half;
  ok = ok && measure(&gpu, 1, rounds, &error) && measure(&gpu, BATCH, rounds, &error);
  if (!ok) fprintf(stderr, "gpu-sparse-bench: %s\n", error.text);
  if (gpu.lane) vx_cuda_backend.lane_close(gpu.lane);
  vx_cuda_backend.close(gpu.device);
  backbone_close(&bench);
  free(gpu.found);
  free(gpu.expected);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
