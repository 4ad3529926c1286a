// gpu-sparse-bench: how long sparse convolution takes on a GPU.
//
//   gpu-sparse-bench second|centerpoint SCAN [ROUNDS]
//
// Everything is in the device's memory: weights, rows, map. Prints the rows of each level, and the median and the least
// time of a run, from the call until the map is there. The map must have the CPU's bytes in every run; otherwise the
// exit status is 1. Exit code 77 without a device.
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/sparse/sparse.h"
#include "kernels/cuda/sparse/sparse.h"
#include "tests/measure/bench/backbones.h"
#include "tests/measure/bench/timing.h"

enum { MOST_ROUNDS = 10000, WARM_UP = 5 };

struct gpu {
  struct vx_device *device;
  struct vx_lane *lane;
  struct vx_sparse backbone;   // its weights are in the device's memory
  struct vx_sparse_rows rows;  // in the device's memory
  float *map, *found, *expected;
  size_t map_bytes;
};

// A copy in the device's memory; NULL if there is no memory. The program's end frees it.
static const void *on_device(const void *from, size_t bytes) {
  void *to = NULL;
  bool ok =
      cudaMalloc(&to, bytes + 16) == cudaSuccess && cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice) == cudaSuccess;
  return ok ? to : NULL;
}

static bool move(const struct backbone_bench *bench, struct gpu *gpu) {
  gpu->backbone = bench->backbone;
  gpu->rows = bench->rows;
  bool ok = true;
  for (int32_t i = 0; i < gpu->backbone.num_layers; i++) {
    struct vx_sparse_layer *layer = &gpu->backbone.layers[i];
    size_t weights = (size_t)(vx_sparse_offsets(layer) * layer->inputs) * (size_t)layer->width;
    layer->weight = on_device(layer->weight, weights * sizeof(float));
    layer->bias = on_device(layer->bias, (size_t)layer->width * sizeof(float));
    ok = ok && layer->weight && layer->bias;
  }
  size_t rows = (size_t)gpu->rows.num_rows;
  gpu->rows.coords = on_device(gpu->rows.coords, rows * 4 * sizeof(int32_t));
  gpu->rows.features = on_device(gpu->rows.features, rows * (size_t)gpu->backbone.layers[0].inputs * sizeof(float));
  gpu->map_bytes = (size_t)vx_sparse_map_values(&bench->plan, 1) * sizeof(float);
  gpu->found = malloc(gpu->map_bytes);
  gpu->expected = malloc(gpu->map_bytes);
  return ok && gpu->rows.coords && gpu->rows.features && gpu->found && gpu->expected &&
         cudaMalloc((void **)&gpu->map, gpu->map_bytes) == cudaSuccess;
}

static bool run_on_cpu(const struct backbone_bench *bench, const struct gpu *gpu, struct error *error) {
  struct vx_sparse_result result = {.map = gpu->expected};
  struct vx_stop stop = {0};
  const struct vx_job job = {.stop = &stop};
  bool ok = cpu_sparse(bench->lane, &job, &bench->backbone, &bench->rows, cpu_convolve_here(), &result, error) == VX_OK;
  if (ok) backbone_print_rows(bench, result.level_rows);
  return ok;
}

static bool run_on_gpu(const struct gpu *gpu, double *us, struct error *error) {
  struct vx_sparse_result result = {.map = gpu->map};
  double began = timing_now_us();
  if (cuda_sparse(gpu->lane, &gpu->backbone, &gpu->rows, &result, error) != VX_OK ||
      cuda_sparse_wait(gpu->lane, error) != VX_OK)
    return false;
  *us = timing_now_us() - began;
  if (cudaMemcpy(gpu->found, gpu->map, gpu->map_bytes, cudaMemcpyDeviceToHost) == cudaSuccess &&
      memcmp(gpu->found, gpu->expected, gpu->map_bytes) == 0)
    return true;
  return error_set(error, "the bytes differ from the CPU's");
}

static bool measure(const struct gpu *gpu, int rounds, struct error *error) {
  static double us[MOST_ROUNDS];
  double unread;
  for (int round = -WARM_UP; round < rounds; round++)
    if (!run_on_gpu(gpu, round < 0 ? &unread : &us[round], error)) return false;
  double median = timing_median(us, rounds);
  printf("median %.0f us, least %.0f us\n", median, us[0]);
  return true;
}

int main(int argc, char **argv) {
  static struct backbone_bench bench;
  static struct gpu gpu;
  struct error error = {.text = "no memory of the device"};
  int rounds = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 200;
  if (argc < 3 || argc > 4 || rounds < 1 || rounds > MOST_ROUNDS) {
    fprintf(stderr, "usage: gpu-sparse-bench second|centerpoint SCAN [ROUNDS]   (raw float32; 200 rounds)\n");
    return 2;
  }
  if (vx_cuda_backend.open(0, &gpu.device, &error) != VX_OK) {
    fprintf(stderr, "gpu-sparse-bench: %s\n", error.text);
    return 77;
  }
  bool ok = backbone_open(&bench, argv[1], argv[2]) &&
            vx_cuda_backend.lane_open(gpu.device, VX_LANE_QUICK, &gpu.lane, &error) == VX_OK && move(&bench, &gpu) &&
            run_on_cpu(&bench, &gpu, &error) && measure(&gpu, rounds, &error);
  if (!ok) fprintf(stderr, "gpu-sparse-bench: %s\n", error.text);
  if (gpu.lane) vx_cuda_backend.lane_close(gpu.lane);
  vx_cuda_backend.close(gpu.device);
  backbone_close(&bench);
  free(gpu.found);
  free(gpu.expected);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
