// See equal.h: a lane that grows while another lane samples, and a lane on a GPU without free memory. Needs memory
// pools.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/cuda/equal.h"

enum { SAMPLED = 2000000, MANY = 400000, SOME = 100000 };
#define SPARE ((size_t)256 << 20)

static void count(bool good, const char *what, const char *why) {
  atomic_fetch_add(&jobs_run, 1);
  atomic_fetch_add(&jobs_equal, good);
  if (!good) printf("UNEQUAL growth: %s: %s\n", what, why);
}

// Replaces the lane by a new one, which is small. The side keeps its host memory.
static void renew_lane(struct side *side) {
  struct error error = {0};
  side->backend->lane_close(side->lane);
  if (side->backend->lane_open(side->device, VX_LANE_QUICK, &side->lane, &error) != VX_OK) {
    fprintf(stderr, "%s\n", error.text);
    exit(2);
  }
}

// ---- beside a sampling ----------------------------------------------------------------------------------------------

struct sampler {
  pthread_t thread;
  struct side side;
  struct scan scan;
  struct error error;
  enum vx_status status;
  atomic_bool done;
};

static void *sample(void *ctx) {
  struct sampler *sampler = ctx;
  const struct vx_job asked = {.op = VX_FPS,
                               .params.fps.sampling = {.enabled = true, .max_work = INT64_MAX},
                               .inputs = {vx_points_of(VX_FLOAT32, 0, 4, NULL)},
                               .tensors = VX_SAMPLED_TENSORS};
  sampler->status = side_run(&sampler->side, &asked, &sampler->scan, &sampler->error);
  atomic_store(&sampler->done, true);
  return NULL;
}

// Starts a thread that samples all points, which takes far longer than the jobs on the other lane. Returns when the
// backend has asked whether the job is stopped, which it does after it has enqueued all kernels.
static void begin_sampling(struct sampler *sampler, struct random *random) {
  const struct timespec pause = {0, 1000000};
  side_open(&sampler->side, vx_backend_find("cuda"));
  fill_scan(random, &sampler->scan, SAMPLED, "sampling");
  sampler->scan.samples[0] = SAMPLED;
  if (pthread_create(&sampler->thread, NULL, sample, sampler) != 0) {
    perror("pthread_create");
    exit(2);
  }
  while (!atomic_load(&sampler->side.asked) && !atomic_load(&sampler->done)) nanosleep(&pause, NULL);
}

static void end_sampling(struct sampler *sampler) {
  atomic_store(&sampler->side.stop, true);
  pthread_join(sampler->thread, NULL);
  count(sampler->status == VX_STOPPED, "the sampling was not stopped", sampler->error.text);
  side_close(&sampler->side);
  free(sampler->scan.points);
}

// Whether the pool keeps less than SPARE unused bytes.
static bool nothing_kept(void) {
  cudaMemPool_t pool;
  uint64_t reserved = 0, used = 0;
  return cudaDeviceGetDefaultMemPool(&pool, 0) == cudaSuccess &&
         cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved) == cudaSuccess &&
         cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used) == cudaSuccess && reserved - used < SPARE;
}

static void grow_beside(struct side *side, const struct sampler *sampler, const struct vx_job *asked,
                        const struct scan *scan) {
  struct error error = {0};
  count(side_run(side, asked, scan, &error) == VX_OK, scan->name, error.text);
  count(!atomic_load(&sampler->done), scan->name, "waited for another lane's sampling");
}

// Beside a sampling, `large` replaces a block by a larger one, and `giant` takes more than a lane keeps. Before that,
// `giant` runs alone, on a lane that is then replaced.
static void test_beside_sampling(struct side sides[2], struct random *random) {
  static struct sampler sampler;
  static struct scan some, many;
  struct error error = {0};
  struct vx_job large = pillars(0.02f, 5), giant = giant_job();
  fill_scan(random, &some, SOME, "a lane that grows");
  fill_scan(random, &many, MANY, "a lane that grows, and gives back");
  count(side_run(&sides[1], &giant, &many, &error) == VX_OK, "alone", error.text);
  renew_lane(&sides[1]);
  begin_sampling(&sampler, random);
  grow_beside(&sides[1], &sampler, &large, &some);
  grow_beside(&sides[1], &sampler, &giant, &many);
  count(nothing_kept(), many.name, "the pool keeps what was given back");
  end_sampling(&sampler);
  compare(sides, &large, &some, "after growth beside a sampling");
  free(some.points);
  free(many.points);
}

// ---- without memory -------------------------------------------------------------------------------------------------

// Takes all but a little of the GPU's memory. Returns NULL if it cannot.
static void *take_memory(void) {
  size_t unused = 0, total;
  void *memory = NULL;
  if (cudaMemGetInfo(&unused, &total) != cudaSuccess) return NULL;
  while (unused > 2 * SPARE && cudaMalloc(&memory, unused - SPARE) != cudaSuccess) {
    (void)cudaGetLastError();
    unused -= SPARE / 4;
  }
  return memory;
}

// An integrated GPU's memory is the machine's, so a test must not take all of it.
static void test_out_of_memory(struct side sides[2], struct random *random) {
  static struct scan some, many;
  struct vx_description description;
  struct error error = {0};
  struct vx_job large = pillars(0.02f, 5), giant = giant_job();
  sides[1].backend->describe(sides[1].device, &description);
  if (description.integrated) return;
  fill_scan(random, &some, SOME, "after a lack of memory");
  fill_scan(random, &many, MANY, "a lack of memory");
  renew_lane(&sides[1]);
  void *memory = take_memory();
  enum vx_status status = side_run(&sides[1], &giant, &many, &error);
  (void)cudaFree(memory);
  count(memory != NULL && status == VX_OUT_OF_MEMORY, many.name, error.text);
  compare(sides, &large, &some, "growth");
  compare(sides, &giant, &many, "growth");
  free(some.points);
  free(many.points);
}

void test_growth(uint64_t seed) {
  struct side sides[2];
  struct random random = {seed + 2};
  int pools = 0;
  side_open(&sides[0], &vx_cpu_backend);
  side_open(&sides[1], vx_backend_find("cuda"));
  if (cudaDeviceGetAttribute(&pools, cudaDevAttrMemoryPoolsSupported, 0) == cudaSuccess && pools != 0) {
    test_beside_sampling(sides, &random);
    test_out_of_memory(sides, &random);
  } else {
    printf("this GPU has no memory pools: growth is not tested\n");
  }
  side_close(&sides[0]);
  side_close(&sides[1]);
}
