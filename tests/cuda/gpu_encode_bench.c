// gpu-encode-bench: a table of times on a GPU, from a scan's points to encoded pillars and their dense map.
//
//   gpu-encode-bench [--repeat N] DIRECTORY
//
// Medians of N runs (200) after a warm-up, over scans of DIRECTORY (raw float32 files, see ../shared/data), with the
// points on the device. `voxelize`, `encoder` and `scatter` are the job's stages. The encoder has two floors: `sums` is
// the time for all its products and sums, as separate operations, on the whole device. `memory` is the time to read the
// points and to write the features once. `ratio` is the encoder's time divided by the larger floor. `CPU` is the
// encoder's time in a single run on the CPU. Says whether GPU and CPU wrote the same bytes. One thread. Exit code 77
// without a GPU. Asserts no time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "kernels/backends.h"
#include "kernels/ops.h"
#include "tests/cuda/bench_side.h"
#include "tests/measure/bench/samples.h"
#include "tests/measure/bench/timing.h"

enum { MAX_REPEAT = 5000, WARM_UP = 30, LANES = 128 };  // LANES: operations of a multiprocessor per cycle
static const double device_bytes_per_us = 4.25e6;       // a device copy on an H200, counting reads and writes

static const struct grid {
  float min[3], max[3], size[3];
} kitti = {{0, -39.68f, -3}, {69.12f, 39.68f, 1}, {0.16f, 0.16f, 4}},
  around = {{-69.12f, -39.68f, -3}, {69.12f, 39.68f, 1}, {0.16f, 0.16f, 4}},
  nuscenes = {{-51.2f, -51.2f, -5}, {51.2f, 51.2f, 3}, {0.2f, 0.2f, 8}};

static const struct work {
  const char *name, *scan;
  const struct grid *grid;
  enum vx_dtype dtype;
  int32_t columns, cap, layers, widths[VX_MAX_ENCODER_LAYERS];
} works[] = {
    {"KITTI", "kitti_raw_00", &kitti, VX_FLOAT32, 4, 32, 1, {64}},
    {"KITTI, f16", "kitti_raw_00", &kitti, VX_FLOAT16, 4, 32, 1, {64}},
    {"KITTI, all around", "kitti_raw_00", &around, VX_FLOAT32, 4, 32, 1, {64}},
    {"nuScenes, 10 sweeps", "nuscenes_10sweeps", &nuscenes, VX_FLOAT32, 5, 20, 1, {64}},
    {"the same, 2 layers", "nuscenes_10sweeps", &nuscenes, VX_FLOAT32, 5, 20, 2, {32, 64}},
};

struct scan {
  size_t bytes;
  int32_t rows;
  float *points, *resident;
};

static const struct vx_caller caller = {.output = side_give_output};

static bool read_scan(const char *directory, const struct work *work, struct scan *scan) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.bin", directory, work->scan);
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  size_t row_bytes = (size_t)work->columns * sizeof(float);
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  scan->rows = size < 0 ? 0 : (int32_t)((size_t)size / row_bytes);
  scan->bytes = (size_t)scan->rows * row_bytes;
  scan->points = aligned_alloc(VX_TENSOR_ALIGNMENT, scan->bytes / VX_TENSOR_ALIGNMENT * VX_TENSOR_ALIGNMENT + 64);
  bool good = scan->rows > 0 && scan->points && fread(scan->points, 1, scan->bytes, file) == scan->bytes &&
              cudaMalloc((void **)&scan->resident, scan->bytes) == cudaSuccess &&
              cudaMemcpy(scan->resident, scan->points, scan->bytes, cudaMemcpyHostToDevice) == cudaSuccess;
  fclose(file);
  return good;
}

// Random weights, since the time does not depend on them. A layer's weight and bias share a block of memory.
static bool make_encoder(const struct work *work, struct vx_encoder *encoder) {
  uint64_t state = 1;
  int32_t inputs = work->columns + VX_PILLAR_EXTRA;
  encoder->num_layers = work->layers;
  for (int32_t i = 0; i < work->layers; i++, inputs = 2 * work->widths[i - 1]) {
    size_t weights = (size_t)inputs * (size_t)work->widths[i], all = weights + (size_t)work->widths[i];
    float *weight = malloc(all * sizeof *weight);
    if (!weight) return false;
    for (size_t k = 0; k < all; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      weight[k] = (float)(state >> 40) / 8388608.0f - 1;
    }
    encoder->layers[i] = (struct vx_encoder_layer){weight, weight + weights, inputs, work->widths[i]};
  }
  return true;
}

static struct vx_job job_of(const struct work *work, const struct vx_encoder *encoder, const struct scan *scan,
                            const void *points) {
  struct vx_job job = {.op = VX_VOXELIZE,
                       .params.voxelize = {.max_points_per_voxel = work->cap,
                                           .max_voxels = 40000,
                                           .feature_dtype = work->dtype,
                                           .encoder = *encoder},
                       .inputs = {vx_points_of(VX_FLOAT32, scan->rows, work->columns, points)},
                       .tensors = VX_ENCODED_TENSORS | VX_TENSOR_BIT(VX_BEV_FEATURES),
                       .num_clouds = 1,
                       .point_counts = &scan->rows,
                       .caller = &caller};
  memcpy(job.params.voxelize.range_min, work->grid->min, sizeof work->grid->min);
  memcpy(job.params.voxelize.range_max, work->grid->max, sizeof work->grid->max);
  memcpy(job.params.voxelize.voxel_size, work->grid->size, sizeof work->grid->size);
  return job;
}

struct times {
  double voxelize_us, encoder_us, scatter_us;
  int64_t voxels, points;  // kept
};

static bool time_side(struct side *side, const struct work *work, struct vx_job job, int repeat, struct times *times) {
  enum { VOXELIZE, ENCODER, SCATTER, COLUMNS };
  static double us[COLUMNS][MAX_REPEAT];
  int32_t voxels;
  struct error error = {0};
  job.ctx = side;
  job.row_counts = &voxels;
  for (int i = repeat == 1 ? 0 : -WARM_UP; i < repeat; i++) {
    if (side->backend->run(side->lane, &job, &error) != VX_OK) {
      fprintf(stderr, "gpu-encode-bench: %s\n", error.text);
      return false;
    }
    if (i < 0) continue;
    us[VOXELIZE][i] = (double)job.stage_ns[VX_STAGE_VOXELIZE] / 1e3;
    us[ENCODER][i] = (double)job.stage_ns[VX_STAGE_ENCODER] / 1e3;
    us[SCATTER][i] = (double)job.stage_ns[VX_STAGE_SCATTER] / 1e3;
  }
  *times = (struct times){timing_median(us[VOXELIZE], repeat), timing_median(us[ENCODER], repeat),
                          timing_median(us[SCATTER], repeat), job.counts.voxels_kept, job.counts.kept};
  static const char *const stages[COLUMNS] = {"voxelize", "encoder", "scatter"};
  for (int c = 0; c < COLUMNS; c++)
    samples_note(us[c], repeat, "us", (struct samples_limit){0}, "encode of %s, %s %s", work->name, side->backend->name,
                 stages[c]);
  return true;
}

// The floor `sums`, for the kept points.
static double sums_us(const struct vx_encoder *encoder, int64_t rows) {
  int processors = 0, khz = 0;
  double operations = 0;
  for (int32_t i = 0; i < encoder->num_layers; i++)
    operations += 2.0 * (double)rows * encoder->layers[i].inputs * encoder->layers[i].width;
  bool known = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0) == cudaSuccess &&
               cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0) == cudaSuccess && processors > 0 && khz > 0;
  return known ? operations / ((double)processors * LANES * khz / 1e3) : 0;
}

static bool bench(struct side sides[2], const struct work *work, const char *directory, int repeat) {
  struct scan scan = {.rows = 0};
  struct vx_encoder encoder = {.num_layers = 0};
  struct times gpu, cpu;
  bool good = read_scan(directory, work, &scan);
  if (!good) fprintf(stderr, "gpu-encode-bench: cannot read %s/%s.bin\n", directory, work->scan);
  good = good && make_encoder(work, &encoder) &&
         time_side(&sides[0], work, job_of(work, &encoder, &scan, scan.resident), repeat, &gpu) &&
         time_side(&sides[1], work, job_of(work, &encoder, &scan, scan.points), 1, &cpu);
  if (good) {
    size_t value = vx_dtype_size(work->dtype), width = (size_t)vx_encoder_width(&encoder);
    double bytes = (double)gpu.points * work->columns * 4 + (double)gpu.voxels * (double)(width * value);
    double memory = bytes / device_bytes_per_us, sums = sums_us(&encoder, gpu.points);
    printf("%-20s %6lld %6lld | %8.1f %7.1f %7.1f | %5.1f %6.1f %5.1f | %9.1f | %s\n", work->name,
           (long long)gpu.points, (long long)gpu.voxels, gpu.voxelize_us, gpu.encoder_us, gpu.scatter_us, sums, memory,
           gpu.encoder_us / (sums > memory ? sums : memory), cpu.encoder_us,
           sides[0].bytes == sides[1].bytes && !memcmp(sides[0].output, sides[1].output, sides[0].bytes) ? "equal"
                                                                                                         : "DIFFER");
  }
  for (int32_t i = 0; i < encoder.num_layers; i++) free((void *)encoder.layers[i].weight);
  free(scan.points);
  (void)cudaFree(scan.resident);
  return good;
}

int main(int argc, char **argv) {
  bool given = argc > 2 && strcmp(argv[1], "--repeat") == 0;
  long repeat = given ? strtol(argv[2], NULL, 10) : 200;
  struct side sides[2];
  if (argc != (given ? 4 : 2) || repeat < 2 || repeat > MAX_REPEAT) {
    fprintf(stderr, "usage: gpu-encode-bench [--repeat 2..%d] DIRECTORY\n", MAX_REPEAT);
    return 2;
  }
  if (!side_open(&sides[0], "gpu-encode-bench", vx_backend_find("cuda"), VX_LANE_QUICK)) return 77;
  if (!side_open(&sides[1], "gpu-encode-bench", &vx_cpu_backend, VX_LANE_QUICK)) return 1;
  printf("medians of %ld, on the CPU one run; us\n%-20s %6s %6s | %8s %7s %7s | %5s %6s %5s | %9s |\n", repeat, "work",
         "points", "pillar", "voxelize", "encoder", "scatter", "sums", "memory", "ratio", "CPU");
  bool good = true;
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    good = bench(sides, &works[i], argv[argc - 1], (int)repeat) && good;
  side_close(&sides[0]);
  side_close(&sides[1]);
  return good ? 0 : 1;
}
