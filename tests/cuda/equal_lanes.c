// See equal.h: what a lane keeps from job to job, and several lanes at the same time.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

struct vx_job pillars(float size, int32_t cap) {
  return (struct vx_job){.op = VX_VOXELIZE,
                         .params.voxelize = {.range_min = {-20, -20, -2},
                                             .range_max = {20, 20, 2},
                                             .voxel_size = {size, size, 4},
                                             .max_points_per_voxel = cap,
                                             .max_voxels = VX_MAX_VOXELS},
                         .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
                         .tensors =
                             MEAN | BIT(VX_POINT_VOXEL_IDS) | (cap > 0 ? BIT(VX_PILLAR_FEATURES) | BIT(VX_VOXELS) : 0)};
}

struct vx_job giant_job(void) {
  struct vx_job giant = pillars(0.02f, 64);
  giant.params.voxelize.max_voxels = 250000;
  return giant;
}

void fill_scan(struct random *random, struct scan *scan, int64_t num_points, const char *name) {
  float *points = malloc((size_t)(num_points * 4 + 1) * sizeof *points);
  for (int64_t i = 0; i < num_points * 4; i++) points[i] = (random_unit(random) - 0.5f) * (i % 4 == 2 ? 4 : 41);
  memset(scan, 0, sizeof *scan);
  scan->points = points;
  scan->num_points = num_points;
  scan->num_clouds = 1;
  scan->counts[0] = (int32_t)num_points;
  snprintf(scan->name, sizeof scan->name, "%s", name);
}

// Runs many different jobs and compares a few: what jobs leave on a lane must not add up.
static void test_many_jobs(struct random *random) {
  enum { JOBS = 20000, COMPARED = 200 };
  struct vx_job hashed = pillars(0.001f, 3), direct = pillars(0.5f, 3);
  struct error error;
  struct scan scan;
  struct side sides[2];  // new, so that the outputs, which side_run poisons for each job, are small
  side_open(&sides[0], &vx_cpu_backend);
  side_open(&sides[1], vx_backend_find("cuda"));
  for (int i = 0; i < JOBS; i++) {
    fill_scan(random, &scan, i % 39, "many jobs");
    const struct vx_job *asked = i % 3 == 0 ? &direct : &hashed;
    if (i % (JOBS / COMPARED) == 0) {
      compare(sides, asked, &scan, "many jobs");
    } else if (side_run(&sides[1], asked, &scan, &error) != VX_OK) {
      printf("UNEQUAL many jobs: %s\n", error.text);
      atomic_fetch_add(&jobs_run, 1);
    }
    free(scan.points);
  }
  side_close(&sides[0]);
  side_close(&sides[1]);
}

// A job ends between its kernels if it gets no memory for its output. Afterwards the lane must work as if new.
static void test_refused_output(struct side sides[2], struct random *random) {
  for (int i = 0; i < 12; i++) {
    struct vx_job asked = pillars(i % 2 == 0 ? 0.3f : 0.005f, i % 3 == 0 ? 0 : 5);
    struct scan scan;
    fill_scan(random, &scan, 1000 << i % 6, "refused output");
    for (int k = 0; k < 2; k++) sides[k].refuse_output = true;
    compare(sides, &asked, &scan, "refused output");
    for (int k = 0; k < 2; k++) sides[k].refuse_output = false;
    compare(sides, &asked, &scan, "after a refusal");
    free(scan.points);
  }
}

// All points lie in a few cells, so lists and sums are far too long for a block of threads.
static void test_crowded_cells(struct side sides[2], struct random *random) {
  static const int32_t caps[] = {0, 5, 32, 33, 1024};
  for (int i = 0; i < 10; i++) {
    struct vx_job asked = pillars(i < 5 ? 4.0f : 41.0f, caps[i % 5]);
    asked.params.voxelize.order = i % 2 == 0 ? VX_ORDER_KEY : VX_ORDER_FIRST;
    asked.params.voxelize.block_filter = (struct vx_block_filter){i % 4 == 3, 2, 3, 0.5f, 100.0f};
    struct scan scan;
    fill_scan(random, &scan, 300000, "crowded cells");
    compare(sides, &asked, &scan, "crowded cells");
    free(scan.points);
  }
}

static void test_giant_job(struct side sides[2], struct random *random) {
  struct vx_job giant = giant_job(), small = pillars(0.2f, 8);
  struct scan scan;
  fill_scan(random, &scan, 400000, "giant job");
  compare(sides, &giant, &scan, "giant job");
  free(scan.points);
  fill_scan(random, &scan, 4000, "after it");
  compare(sides, &small, &scan, "after a giant job");
  free(scan.points);
}

struct worker {
  pthread_t thread;
  uint64_t seed;
};

static void *run_worker(void *ctx) {
  const struct worker *worker = ctx;
  struct side sides[2];
  struct random random = {worker->seed};
  side_open(&sides[0], &vx_cpu_backend);
  side_open(&sides[1], vx_backend_find("cuda"));
  for (int i = 0; i < 40; i++) {
    struct vx_job asked;
    struct scan scan = {.name = ""};
    random_job(&random, 60000, &asked, &scan);
    snprintf(scan.name, sizeof scan.name, "%d", i);
    compare(sides, &asked, &scan, "side by side");
    free(scan.points);
  }
  side_close(&sides[0]);
  side_close(&sides[1]);
  return NULL;
}

static void test_side_by_side(uint64_t seed) {
  enum { WORKERS = 8 };
  struct worker workers[WORKERS];
  for (int i = 0; i < WORKERS; i++) {
    workers[i].seed = seed * 1000 + (uint64_t)i;
    if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) {
      perror("pthread_create");
      exit(2);
    }
  }
  for (int i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
}

void test_lanes(uint64_t seed) {
  struct side sides[2];
  struct random random = {seed};
  side_open(&sides[0], &vx_cpu_backend);
  side_open(&sides[1], vx_backend_find("cuda"));
  test_refused_output(sides, &random);
  test_crowded_cells(sides, &random);
  test_giant_job(sides, &random);
  test_many_jobs(&random);
  side_close(&sides[0]);
  side_close(&sides[1]);
  test_side_by_side(seed);
  test_growth(seed);
}
