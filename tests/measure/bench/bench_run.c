// For the benchmarks: loads scans, and runs, times and compares backends; see bench_run.h.
#include "tests/measure/bench/bench_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/measure/bench/timing.h"
#include "tests/support/jobs.h"

// ---- Scans ---------------------------------------------------------------------------------------------------------

static bool complain(const char *what, const char *why) {
  fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
  return false;
}

static bool read_all(FILE *file, const char *path, size_t row_bytes, struct bench_scan *scan) {
  struct stat status;
  if (fstat(fileno(file), &status) != 0) return complain(path, strerror(errno));
  scan->bytes = (size_t)status.st_size;
  if (scan->bytes % row_bytes != 0) {
    char why[96];
    snprintf(why, sizeof why, "%zu bytes are not a whole number of rows of %zu bytes", scan->bytes, row_bytes);
    return complain(path, why);
  }
  if (scan->bytes / row_bytes > INT32_MAX) return complain(path, "more than 2147483647 points");
  scan->rows = (int32_t)(scan->bytes / row_bytes);
  scan->points = malloc(scan->bytes + 1);
  if (!scan->points) return complain(path, "out of memory");
  if (fread(scan->points, 1, scan->bytes, file) == scan->bytes) return true;
  return complain(path, ferror(file) ? strerror(errno) : "it grew shorter while it was read");
}

bool bench_load(const char *path, size_t row_bytes, struct bench_scan *scan) {
  const char *slash = strrchr(path, '/');
  memset(scan, 0, sizeof *scan);
  snprintf(scan->name, sizeof scan->name, "%s", slash ? slash + 1 : path);
  FILE *file = fopen(path, "rb");
  if (!file) return complain(path, strerror(errno));
  bool ok = read_all(file, path, row_bytes, scan);
  fclose(file);
  if (!ok) bench_unload(scan);
  return ok;
}

void bench_unload(struct bench_scan *scan) {
  free(scan->points);
  scan->points = NULL;
}

// ---- Time ----------------------------------------------------------------------------------------------------------

double bench_now_ms(void) { return timing_now_us() / 1e3; }

struct bench_timing bench_timing_of(double *ms, int count) {
  double median = timing_median(ms, count);
  return (struct bench_timing){median, ms[0], ms, count};
}

// ---- Backends ------------------------------------------------------------------------------------------------------

bool bench_open(const struct vx_backend *table, struct bench_backend *backend) {
  struct error error = {0};
  memset(backend, 0, sizeof *backend);
  backend->table = table;
  if (table->open(0, &backend->device, &error) != VX_OK) return complain(table->name, error.text);
  if (table->lane_open(backend->device, VX_LANE_QUICK, &backend->lane, &error) != VX_OK) {
    table->close(backend->device);
    return complain(table->name, error.text);
  }
  table->describe(backend->device, &backend->description);
  return true;
}

void bench_close(struct bench_backend *backend) {
  const struct vx_backend *table = backend->table;
  table->lane_close(backend->lane);
  if (backend->in) table->host_release(backend->device, backend->in, backend->in_bytes);
  if (backend->out) table->host_release(backend->device, backend->out, backend->out_bytes);
  table->close(backend->device);
  memset(backend, 0, sizeof *backend);
}

static bool grow(struct bench_backend *backend, void **memory, size_t *bytes, size_t wanted) {
  if (*memory && *bytes >= wanted) return true;
  if (*memory) backend->table->host_release(backend->device, *memory, *bytes);
  *bytes = wanted + wanted / 4 + VX_TENSOR_ALIGNMENT;
  *memory = backend->table->host_alloc(backend->device, *bytes);
  return *memory != NULL;
}

static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct bench_backend *backend = ctx;
  backend->layout = *layout;
  if (!grow(backend, &backend->out, &backend->out_bytes, layout->bytes))
    return vx_fail(error, VX_OUT_OF_MEMORY, "no host memory for %zu bytes of output", layout->bytes);
  *block = backend->out;
  return VX_OK;
}

static const struct vx_caller caller = {.output = give_output};

// One run on the input of take_in.
static bool run_once(struct bench_backend *backend, const struct vx_job *asked, const struct bench_scan *scan,
                     struct vx_job *job) {
  int32_t voxels = 0;
  struct error error = {0};
  *job = job_over(asked, backend->in, 1, &scan->rows);
  job->caller = &caller;
  job->ctx = backend;
  job->row_counts = &voxels;
  struct vx_chain_report report;
  job->report = job->chain ? &report : NULL;
  bool ok = backend->table->run(backend->lane, job, &error) == VX_OK || complain(backend->table->name, error.text);
  job->row_counts = NULL;  // pointed to a local variable; job->counts has the same numbers
  job->report = NULL;
  return ok;
}

// Copies the scan to where the backend wants its input. A server receives the scan there, so the copy is not timed.
static bool take_in(struct bench_backend *backend, const struct bench_scan *scan) {
  if (!grow(backend, &backend->in, &backend->in_bytes, scan->bytes)) return complain(scan->name, "no host memory");
  memcpy(backend->in, scan->points, scan->bytes);
  return true;
}

bool bench_backend_run(struct bench_backend *backend, const struct vx_job *asked, const struct bench_scan *scan,
                       int warm_up, int repeat, struct bench_result *result) {
  static double wall[BENCH_MAX_REPEAT], processor[BENCH_MAX_REPEAT], stage[VX_STAGE_COUNT][BENCH_MAX_REPEAT];
  struct vx_job job;
  if (!take_in(backend, scan)) return false;
  for (int i = -warm_up; i < repeat; i++) {
    double begin = bench_now_ms(), worked = timing_processor_us();
    if (!run_once(backend, asked, scan, &job)) return false;
    if (i < 0) continue;
    wall[i] = bench_now_ms() - begin;
    processor[i] = (timing_processor_us() - worked) / 1e3;
    for (int s = 0; s < VX_STAGE_COUNT; s++) stage[s][i] = (double)job.stage_ns[s] / 1e6;
  }
  result->wall = bench_timing_of(wall, repeat);
  result->processor = bench_timing_of(processor, repeat);
  for (int s = 0; s < VX_STAGE_COUNT; s++) result->stage_ms[s] = bench_timing_of(stage[s], repeat).median_ms;
  result->voxels = job.counts.voxels_kept;
  result->dropped = job.counts.voxels_dropped;
  return true;
}

bool bench_plain_run(struct plain_voxelizer *plain, const struct bench_scan *scan, int warm_up, int repeat,
                     struct bench_result *result) {
  static double wall[BENCH_MAX_REPEAT], processor[BENCH_MAX_REPEAT];
  memset(result, 0, sizeof *result);
  for (int i = -warm_up; i < repeat; i++) {
    double begin = bench_now_ms(), worked = timing_processor_us();
    if (!plain_run(plain, scan->points, scan->rows)) return complain("plain voxelizer", "out of memory");
    if (i < 0) continue;
    wall[i] = bench_now_ms() - begin;
    processor[i] = (timing_processor_us() - worked) / 1e3;
  }
  result->wall = bench_timing_of(wall, repeat);
  result->processor = bench_timing_of(processor, repeat);
  result->voxels = plain->voxels;
  result->dropped = plain->occupied - plain->voxels;
  return true;
}

// ---- Agreement -----------------------------------------------------------------------------------------------------

static bool same_tensor(const struct bench_backend *backend, const struct bench_scan *scan, enum vx_tensor tensor,
                        const void *expected) {
  if (!expected || !(backend->layout.tensors & VX_TENSOR_BIT(tensor))) return true;
  const char *got = (const char *)backend->out + backend->layout.offset[tensor];
  if (memcmp(got, expected, backend->layout.shape[tensor].bytes) == 0) return true;
  fprintf(stderr, "voxel-bench: %s: %s of backend %s differs from the plain voxelizer's\n", scan->name,
          vx_tensors[tensor].name, backend->table->name);
  return false;
}

bool bench_agree(struct bench_backend *backend, const struct plain_voxelizer *plain, const struct bench_scan *scan) {
  struct vx_job asked = plain->asked;
  struct vx_job job;
  asked.params.voxelize.order = VX_ORDER_KEY;
  asked.params.voxelize.feature_dtype = VX_FLOAT32;
  asked.params.voxelize.fill = VX_FILL_ZERO;
  if (!take_in(backend, scan) || !run_once(backend, &asked, scan, &job)) return false;
  if (job.counts.voxels_kept != plain->voxels ||
      job.counts.voxels_kept + job.counts.voxels_dropped != plain->occupied) {
    fprintf(stderr,
            "voxel-bench: %s: backend %s keeps %" PRId64 " voxels and drops %" PRId64 ", the plain voxelizer %" PRId64
            " and %" PRId64 "\n",
            scan->name, backend->table->name, job.counts.voxels_kept, job.counts.voxels_dropped, plain->voxels,
            plain->occupied - plain->voxels);
    return false;
  }
  if (plain->occupied > plain->voxels) return true;  // each keeps different voxels: see plain_voxelizer.h
  bool ok = same_tensor(backend, scan, VX_VOXEL_COORDS, plain->coords);
  ok = same_tensor(backend, scan, VX_VOXEL_NUM_POINTS, plain->num_points) && ok;
  ok = same_tensor(backend, scan, VX_VOXELS, plain->padded) && ok;
  ok = same_tensor(backend, scan, VX_PILLAR_FEATURES, plain->pillar_features) && ok;
  // Without a cap, the backends sum the points of a large voxel in another order, by definition.
  if (asked.params.voxelize.max_points_per_voxel > 0)
    ok = same_tensor(backend, scan, VX_VOXEL_FEATURES, plain->voxel_features) && ok;
  return ok;
}
