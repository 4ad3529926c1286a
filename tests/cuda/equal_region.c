// See equal.h: jobs over pinned shared memory that its owner rewrites or resizes.
//
// The memory is mapped twice: for the owner, and for the device. Undisturbed jobs give the CPU's bytes. Disturbed jobs
// end normally, with one fate per point, and write nothing beyond the output.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/equal.h"

enum { POINTS = 6000, COLUMNS = 4, ROOM = 8 << 20, GUARD = 4096, RUNS = 20 };
#define POINT_BYTES ((size_t)POINTS * COLUMNS * sizeof(float))

// The points, then the output, followed by a guard.
struct region {
  int file;
  size_t bytes, output;
  char *owned, *pinned;
  atomic_bool over;
};

static void fail(const char *what) {
  printf("UNEQUAL region: %s\n", what);
  atomic_fetch_add(&jobs_run, 1);  // counts as a job that is not equal
}

static bool open_region(struct region *region, const struct side *gpu) {
  char key[64];
  struct error error = {0};
  snprintf(key, sizeof key, "/voxeld-equal-%d", (int)getpid());
  region->output = (POINT_BYTES / GUARD + 1) * GUARD;
  region->bytes = region->output + ROOM + GUARD;
  region->file = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (region->file < 0 || shm_unlink(key) != 0 || ftruncate(region->file, (off_t)region->bytes) != 0) return false;
  region->owned = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->file, 0);
  region->pinned = mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->file, 0);
  if (region->owned == MAP_FAILED || region->pinned == MAP_FAILED) return false;
  enum vx_status status = gpu->backend->host_pin(gpu->device, region->pinned, region->bytes, &error);
  if (status != VX_OK) printf("region: %s\n", error.text);
  return status == VX_OK;
}

static void close_region(struct region *region, const struct side *gpu) {
  if (!gpu->backend->host_unpin(gpu->device, region->pinned)) fail("unpinning");
  munmap(region->pinned, region->bytes);
  munmap(region->owned, region->bytes);
  close(region->file);
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

struct output {
  struct region *region;
  struct vx_layout layout;
};

static enum vx_status give_region(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct output *output = ctx;
  output->layout = *layout;
  if (layout->bytes > ROOM) return vx_refuse(error, "%zu bytes are too many", layout->bytes);
  *block = output->region->pinned + output->region->output;
  return VX_OK;
}

static const struct vx_caller caller = {.output = give_region};

static bool run(struct side *gpu, struct region *region, const struct vx_job *asked, const struct scan *scan,
                struct output *output) {
  struct error error = {0};
  *output = (struct output){.region = region};
  side_set_job(gpu, asked, scan);
  gpu->job.inputs[VX_POINTS].data = region->pinned;
  gpu->job.caller = &caller;
  gpu->job.ctx = output;
  gpu->job.pinned = true;
  enum vx_status status = gpu->backend->run(gpu->lane, &gpu->job, &error);
  if (status != VX_OK) printf("region: %s\n", error.text);
  return status == VX_OK;
}

static bool each_has_one_fate(const struct vx_counts *counts) {
  return counts->received == POINTS && counts->kept + counts->not_finite + counts->out_of_range +
                                               counts->over_voxel_cap + counts->over_max_voxels +
                                               counts->block_filtered ==
                                           POINTS;
}

static void check_undisturbed(struct side sides[2], struct region *region, const struct vx_job *asked,
                              const struct scan *scan) {
  struct error error = {0};
  struct output output;
  memcpy(region->owned, scan->points, POINT_BYTES);
  bool good = side_run(&sides[0], asked, scan, &error) == VX_OK && run(&sides[1], region, asked, scan, &output);
  for (int t = 0; good && t < VX_TENSOR_COUNT; t++) {
    if (!(output.layout.tensors & BIT(t))) continue;
    const char *right = (const char *)sides[0].output + sides[0].layout.offset[t];
    good = memcmp(region->owned + region->output + output.layout.offset[t], right, output.layout.shape[t].bytes) == 0;
  }
  if (!good) {
    fail("a job over pinned memory differs from the CPU");
    return;
  }
  atomic_fetch_add(&jobs_run, 1);
  atomic_fetch_add(&jobs_equal, 1);
}

// ---- owners ---------------------------------------------------------------------------------------------------------

static void *rewrite(void *argument) {
  struct region *region = argument;
  struct random random = {11};
  while (!atomic_load(&region->over)) {
    uint32_t *words = (uint32_t *)region->owned;
    for (size_t i = 0; i < POINT_BYTES / sizeof *words; i++) words[i] = (uint32_t)random_bits(&random);
    for (size_t i = 0; i < POINT_BYTES / sizeof *words; i++) ((float *)words)[i] = 20 * random_unit(&random);
  }
  return NULL;
}

// Resizes the file, and writes with pwrite: a write through the owner's mapping could fault.
static void *resize(void *argument) {
  struct region *region = argument;
  char bytes[GUARD];
  memset(bytes, 0x41, sizeof bytes);
  while (!atomic_load(&region->over)) {
    bool good = ftruncate(region->file, 0) == 0 && ftruncate(region->file, (off_t)region->bytes) == 0 &&
                pwrite(region->file, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes;
    if (!good) fail("resizing the memory");
  }
  return NULL;
}

static void check_disturbed(struct side sides[2], struct region *region, const struct vx_job *asked,
                            const struct scan *scan, void *(*owner)(void *)) {
  struct output output;
  pthread_t thread;
  atomic_store(&region->over, false);
  if (pthread_create(&thread, NULL, owner, region) != 0) {
    fail("no thread");
    return;
  }
  for (int i = 0; i < RUNS; i++) {
    bool good = run(&sides[1], region, asked, scan, &output) && each_has_one_fate(&sides[1].job.counts);
    atomic_fetch_add(&jobs_run, 1);
    atomic_fetch_add(&jobs_equal, good);
    if (!good) printf("UNEQUAL region: a job whose points change, run %d\n", i);
  }
  atomic_store(&region->over, true);
  pthread_join(thread, NULL);
}

static bool guard_is_zero(const struct region *region) {
  const char *guard = region->owned + region->bytes - GUARD;
  for (int i = 0; i < GUARD; i++)
    if (guard[i] != 0) return false;
  return true;
}

void test_regions(struct side sides[2], uint64_t seed) {
  static struct scan scan;
  struct region region = {.over = false};
  struct random random = {seed};
  if (sides[1].backend->host_pin == NULL || !open_region(&region, &sides[1])) {
    fail("memory is not pinned");
    return;
  }
  fill_scan(&random, &scan, POINTS, "region");
  struct vx_job jobs[] = {pillars(0.5f, 5), pillars(2, 32)};
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    check_undisturbed(sides, &region, &jobs[i], &scan);
    check_disturbed(sides, &region, &jobs[i], &scan, rewrite);
    check_undisturbed(sides, &region, &jobs[i], &scan);
  }
  if (!guard_is_zero(&region)) fail("a job wrote beyond its output");
  check_disturbed(sides, &region, &jobs[0], &scan, resize);  // from now on the pinned pages are not the file's
  close_region(&region, &sides[1]);
  free(scan.points);
}
