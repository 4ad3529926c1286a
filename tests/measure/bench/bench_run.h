// What voxel-bench, fps-bench and gpu-fps-bench share: scans in memory, a backend that runs in the process, timings,
// and the comparison of a backend's rows with the plain voxelizer's.
//
// One thread. Every struct belongs to its caller. A function that fails prints the reason on standard error and returns
// false.
#ifndef VOXELD_TESTS_BENCH_RUN_H
#define VOXELD_TESTS_BENCH_RUN_H

#include "kernels/backends.h"
#include "tests/measure/bench/plain_voxelizer.h"

struct bench_scan {
  char name[64];  // the file's name, without its folder
  void *points;
  size_t bytes;
  int32_t rows;
};

struct bench_timing {
  double median_ms, min_ms;
  const double *ms;  // all; valid until the measuring function is called again
  int count;
};

struct bench_result {
  struct bench_timing wall;         // of the whole call
  struct bench_timing processor;    // of the whole call
  double stage_ms[VX_STAGE_COUNT];  // medians of the times that the backend reports
  int64_t voxels, dropped;
};

// An open backend: one device, one lane, and the memory of its jobs, which grows in the warm-up runs.
struct bench_backend {
  const struct vx_backend *table;
  struct vx_device *device;
  struct vx_lane *lane;
  struct vx_description description;
  void *in, *out;
  size_t in_bytes, out_bytes;
  struct vx_layout layout;  // of `out` in the last run
};

enum { BENCH_MAX_REPEAT = 10000 };

double bench_now_ms(void);
// Computes the figures of `count` runs. Sorts `ms`.
struct bench_timing bench_timing_of(double *ms, int count);

VX_WARN_UNUSED bool bench_load(const char *path, size_t row_bytes, struct bench_scan *scan);
void bench_unload(struct bench_scan *scan);

VX_WARN_UNUSED bool bench_open(const struct vx_backend *table,
                               struct bench_backend *backend);  // false also if there is no device
void bench_close(struct bench_backend *backend);

// Voxelizes the scan `warm_up` times unmeasured, then `repeat` times (1..BENCH_MAX_REPEAT).
VX_WARN_UNUSED bool bench_backend_run(struct bench_backend *backend, const struct vx_job *asked,
                                      const struct bench_scan *scan, int warm_up, int repeat,
                                      struct bench_result *result);
VX_WARN_UNUSED bool bench_plain_run(struct plain_voxelizer *plain, const struct bench_scan *scan, int warm_up,
                                    int repeat, struct bench_result *result);

// Runs the plain voxelizer's job on the backend, in the grid's order and with float32 features. Returns whether the
// result agrees with the plain voxelizer's last run, on the same scan: the same numbers of voxels kept and dropped and,
// if none was dropped, the same rows, bit for bit. Without a cap, the means are not compared.
VX_WARN_UNUSED bool bench_agree(struct bench_backend *backend, const struct plain_voxelizer *plain,
                                const struct bench_scan *scan);

#endif
