// gpu-fps-bench: farthest point sampling on a GPU and on one thread of the CPU, with targets and the times of other
// programs: one table.
//
//   gpu-fps-bench [--repeat N] [DIRECTORY]
//
// Medians of N runs (15; on the CPU N / 3 + 1) after a warm-up. `device` is by the device's clock, from the
// arrival of the points to the finished tensors. `whole` is by the host's clock, with both transfers over the bus. The
// clouds are points of kitti_raw_00 in DIRECTORY (../shared/data). The table says whether GPU and CPU chose the same
// samples. One thread. Exit code 77 without a GPU, 1 without kitti_raw_00.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/bench_side.h"
#include "tests/measure/bench/bench_run.h"
#include "tests/measure/bench/samples.h"
#include "tests/measure/bench/timing.h"
#include "tests/support/jobs.h"

enum { MAX_CLOUDS = 32, MAX_REPEAT = 1000, COLUMNS = 4, WARM_UP = 2 };

// OpenPCDet's (and mmcv's) kernel on an H200, and QuickFPS on one thread of an EPYC.
static const struct work {
  int32_t clouds, points, samples;              // points: 0: the whole scan
  double openpcdet_us, quickfps_us, target_us;  // 0: none
} works[] = {{1, 16384, 2048, 7100, 4600, 1600}, {4, 16384, 2048, 7230, 0, 0},        {32, 4096, 1024, 1400, 0, 650},
             {1, 0, 2048, 37400, 14500, 2500},   {1, 0, 16384, 299000, 73000, 20000}, {8, 0, 2048, 0, 0, 0},
             {32, 16384, 2048, 0, 0, 0}};

static const struct vx_caller caller = {.output = side_give_output};

static bool time_side(struct side *side, const struct work *work, const void *points, int32_t rows, int repeat,
                      double *sample_us, double *whole_us) {
  static double us[2][MAX_REPEAT];
  int32_t counts[MAX_CLOUDS], samples[MAX_CLOUDS], voxels[MAX_CLOUDS];
  struct error error = {0};
  const struct vx_job asked = {.op = VX_FPS,
                               .params.fps.sampling = {.enabled = true, .max_work = INT64_MAX},
                               .inputs = {vx_points_of(VX_FLOAT32, 0, COLUMNS, NULL)},
                               .tensors = VX_SAMPLED_TENSORS};
  for (int32_t i = 0; i < work->clouds; i++) counts[i] = rows, samples[i] = work->samples;
  for (int i = -WARM_UP; i < repeat; i++) {
    struct vx_job job = job_over(&asked, points, work->clouds, counts);
    job.sample_counts = samples;
    job.caller = &caller;
    job.ctx = side;
    job.row_counts = voxels;
    double begin = timing_now_us();
    if (side->backend->run(side->lane, &job, &error) != VX_OK) {
      fprintf(stderr, "gpu-fps-bench: %s\n", error.text);
      return false;
    }
    if (i < 0) continue;
    us[0][i] = (double)job.stage_ns[VX_STAGE_SAMPLE] / 1e3;
    us[1][i] = timing_now_us() - begin;
  }
  *sample_us = timing_median(us[0], repeat);
  *whole_us = timing_median(us[1], repeat);
  struct samples_limit target = {side->backend == &vx_cpu_backend ? 0 : work->target_us, "target"};
  for (int i = 0; i < 2; i++)
    samples_note(us[i], repeat, "us", i == 0 ? target : (struct samples_limit){0}, "fps of %d x %d -> %d, %s, %s",
                 work->clouds, rows, work->samples, side->backend->name, i == 0 ? "sampling" : "whole");
  return true;
}

static bool bench(struct side sides[2], const struct work *work, const struct bench_scan *scan, int repeat) {
  int32_t rows = work->points ? work->points : scan->rows;
  size_t row_bytes = COLUMNS * sizeof(float), bytes = (size_t)work->clouds * (size_t)rows * row_bytes;
  char *points = sides[0].backend->host_alloc(sides[0].device, bytes);
  double device_us, gpu_us, sample_us, cpu_us;
  if (!points) return false;
  for (int32_t cloud = 0; cloud < work->clouds; cloud++)
    for (int32_t i = 0; i < rows; i++) {
      int64_t from = ((int64_t)i * scan->rows / rows + cloud * 37) % scan->rows;
      memcpy(points + ((size_t)cloud * (size_t)rows + (size_t)i) * row_bytes,
             (const char *)scan->points + (size_t)from * row_bytes, row_bytes);
    }
  bool good = time_side(&sides[0], work, points, rows, repeat, &device_us, &gpu_us) &&
              time_side(&sides[1], work, points, rows, repeat / 3 + 1, &sample_us, &cpu_us);
  char name[32], target[16] = "", openpcdet[16] = "", quickfps[16] = "";
  snprintf(name, sizeof name, "%d x %d -> %d", work->clouds, rows, work->samples);
  if (work->target_us > 0) snprintf(target, sizeof target, "%.0f", work->target_us);
  if (work->openpcdet_us > 0) snprintf(openpcdet, sizeof openpcdet, "%.0f", work->openpcdet_us);
  if (work->quickfps_us > 0) snprintf(quickfps, sizeof quickfps, "%.0f", work->quickfps_us);
  if (good)
    printf("%-22s | %9.0f %7s %8.3f %9.0f | %9.0f | %9s %9s | %s\n", name, device_us, target, device_us / work->samples,
           gpu_us, cpu_us, openpcdet, quickfps,
           memcmp(sides[0].output, sides[1].output, (size_t)work->clouds * (size_t)work->samples * 4) ? "DIFFER"
                                                                                                      : "equal");
  sides[0].backend->host_release(sides[0].device, points, bytes);
  return good;
}

int main(int argc, char **argv) {
  const char *directory = "../shared/data";
  long repeat = 15;
  struct side sides[2];
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
      repeat = strtol(argv[++i], NULL, 10);
    else
      directory = argv[i];
  if (repeat < 1 || repeat > MAX_REPEAT) {
    fprintf(stderr, "gpu-fps-bench: --repeat takes 1 to %d\n", MAX_REPEAT);
    return 2;
  }
  if (!side_open(&sides[0], "gpu-fps-bench", vx_backend_find("cuda"), VX_LANE_LONG)) return 77;
  if (!side_open(&sides[1], "gpu-fps-bench", &vx_cpu_backend, VX_LANE_LONG)) return 1;
  char path[1024];
  struct bench_scan scan;
  snprintf(path, sizeof path, "%s/kitti_raw_00.bin", directory);
  if (!bench_load(path, COLUMNS * sizeof(float), &scan)) return 1;  // bench_load has printed why
  printf("medians of %ld, us\n%-22s | %9s %7s %8s %9s | %9s | %9s %9s |\n", repeat, "clouds x points", "device",
         "target", "a sample", "whole", "CPU whole", "OpenPCDet", "QuickFPS");
  bool good = true;
  for (size_t i = 0; i < sizeof works / sizeof *works; i++) good = bench(sides, &works[i], &scan, (int)repeat) && good;
  bench_unload(&scan);
  side_close(&sides[0]);
  side_close(&sides[1]);
  return good ? 0 : 1;
}
