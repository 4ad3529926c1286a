// See equal.h: points that come ahead of their job.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

static size_t points_bytes(const struct vx_job *job) {
  const struct vx_input *points = &job->inputs[VX_POINTS];
  return (size_t)points->dims[0] * (size_t)points->dims[1] * vx_dtype_size(points->dtype);
}

static void bring(struct side *side, const void *points, size_t bytes, size_t from, size_t to) {
  struct vx_error error;
  if (side->backend->bring(side->lane, points, bytes, from, to, &error) == VX_OK) return;
  fprintf(stderr, "bring: %s\n", error.text);
  exit(1);
}

// Up to three parts of any length, together up to the whole.
void ahead_bring(struct side *side) {
  bool may = side->job.op == VX_VOXELIZE || side->job.op == VX_TRANSFORM;
  size_t bytes = may ? points_bytes(&side->job) : 0, from = 0;
  if (bytes == 0 || side->backend->bring == NULL || random_one_in(&side->random, 3)) return;
  for (int parts = 1 + random_below(&side->random, 3); parts > 0 && from < bytes; parts--) {
    size_t left = bytes - from;
    size_t part = random_one_in(&side->random, 4) ? left : 1 + (size_t)(random_bits(&side->random) % left);
    bring(side, side->job.inputs[VX_POINTS].data, bytes, from, from + part);
    from += part;
  }
  side->job.brought = from;
}

// --- what is read --------------------------------------------------------------------------------------------------

enum { POINTS = 5000, COLUMNS = 4, BYTES = POINTS * COLUMNS * sizeof(float) };

static void expect(const struct side *side, int64_t not_finite, const char *what) {
  atomic_fetch_add(&jobs_run, 1);
  if (side->job.counts.not_finite == not_finite)
    atomic_fetch_add(&jobs_equal, 1);
  else
    printf("UNEQUAL ahead, %s: %lld points are not finite, %lld should be\n", what,
           (long long)side->job.counts.not_finite, (long long)not_finite);
}

static void run(struct side *side, size_t brought, int64_t not_finite, const char *what) {
  struct vx_error error;
  side->job.brought = brought;
  if (side->backend->run(side->lane, &side->job, &error) == VX_OK) {
    expect(side, not_finite, what);
  } else {
    fprintf(stderr, "ahead, %s: %s\n", what, error.text);
    exit(1);
  }
}

// The device gets points that are no numbers where the host has zeros. So the counts show which of both a job reads.
void test_ahead(struct side *side) {
  struct vx_job asked = pillars(0.5f, 5);
  static struct scan scan = {.num_clouds = 1, .columns = COLUMNS, .counts = {POINTS}, .num_points = POINTS};
  unsigned char *memory = side->backend->host_alloc(side->device, 2 * BYTES);
  if (memory == NULL) return;
  memset(memory, 0, BYTES);
  memset(memory + BYTES, 0xFF, BYTES);
  scan.points = memory;
  side_set_job(side, &asked, &scan);
  side->placing = false;
  side->backend->settle(side->lane);
  bring(side, memory + BYTES, BYTES, 0, BYTES);
  run(side, BYTES, POINTS, "all");
  run(side, 0, 0, "of another job");
  run(side, 1024 * COLUMNS * sizeof(float), 1024, "the first");
  bring(side, memory + BYTES, BYTES, 0, BYTES / 2);
  run(side, 0, 0, "before it");
  bring(side, memory, BYTES, BYTES / 2, BYTES);
  side->backend->settle(side->lane);
  run(side, BYTES, POINTS / 2, "in parts");
  struct vx_error error;
  atomic_fetch_add(&jobs_run, 1);
  atomic_fetch_add(&jobs_equal, side->backend->bring(side->lane, memory, BYTES, 16, BYTES, &error) == VX_REFUSED);
  side->backend->host_free(side->device, memory, 2 * BYTES);
}
