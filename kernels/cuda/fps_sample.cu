// The kernel that takes sample after sample: a cluster of blocks a cloud (one block where there are no clusters).
//
// Each warp owns buckets, neighbours belonging to different warps and blocks. Each lane holds, in registers, the boxes of
// `rounds` of its warp's buckets and of each the row that is farthest from all samples. A step: every lane holds its boxes
// against the new sample. By float32's monotonic rounding the distance to a box, computed as those of points are, is at
// most that of any point in it; where it is not below the bucket's largest distance, nothing in the bucket changes. The
// other buckets are gone through by their warp. Then the farthest row of all is found: in the warp, in the block through
// shared memory, in the cluster by messages from each block to all. So every warp knows the next sample, and one step has
// one barrier in the block and one exchange in the cluster.
//
// Every order of rows gives the same samples: equal distances are decided by the rows' numbers. (The idea of pruning
// buckets: Han et al., QuickFPS, 2023.)
#include <stdlib.h>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/fps.cuh"

enum {
  BLOCK = 512,
  WARPS = BLOCK / 32,
  MAX_CLUSTER = 16,
  MAX_ROUNDS = 8,
  STOP_STEPS = 256,  // the host is asked so often whether to stop: each time costs more than a step
};
#define NO_KEY 0u            // of nothing
#define STOP_KEY UINT32_MAX  // above all others

// A row that may be the next sample. Keys are ordered as squared distances are: the float's bits, and one.
struct candidate {
  uint32_t key, number;
  float x, y, z;
};

struct sample_params {
  const struct cuda_fps_cloud *clouds;
  const struct cuda_fps_box *boxes;
  const uint32_t *candidates;  // [num_clouds]
  const float *rows;
  uint32_t columns, num_clouds;
  float4 *places;                 // [num_rows]: x, y, z, squared distance to the samples
  const uint32_t *numbers;        // [num_rows]: of the row in its cloud
  uint32_t bucket;                // rows, a multiple of 32
  int32_t *indices;               // [num_samples]
  float *distances;               // [num_samples]
  const volatile uint32_t *stop;  // host: the sequence number of a job that is to stop
  uint32_t sequence;
};

// What the blocks of a cluster, or the warps of a block, tell each other. Two of each take turns: when one exchange is
// over, all have read what came in the one before it.
struct exchange {
  uint4 from_blocks[2][MAX_CLUSTER];  // key, number, x, y
  float z_from_blocks[2][MAX_CLUSTER];
  struct candidate from_warps[2][WARPS];
  uint64_t barriers[2];
};

// Of the cloud in hand, for one thread.
struct place_of_warp {
  uint32_t rank, size, warp;  // in the cluster; in the block
  uint32_t num_rows;          // candidates of the cloud
  float4 *places;
  const uint32_t *numbers;
  uint32_t turn;  // of the exchanges
};

template <int rounds> struct buckets {
  float low[rounds][3], high[rounds][3];
  struct candidate farthest[rounds];
};

static __device__ uint32_t warp_min(uint32_t value) { return ~cuda_warp_max(~value); }

static __device__ bool is_farther(const struct candidate &a, const struct candidate &b) {
  return a.key > b.key || (a.key == b.key && a.number < b.number);
}

// The lane whose candidate is the farthest of the warp's.
static __device__ int farthest_lane(const struct candidate &mine) {
  uint32_t key = cuda_warp_max(mine.key), lanes = __ballot_sync(~0u, mine.key == key);
  if ((lanes & (lanes - 1)) != 0) {
    uint32_t number = warp_min(mine.key == key ? mine.number : UINT32_MAX);
    lanes = __ballot_sync(~0u, mine.key == key && mine.number == number);
  }
  return __ffs(lanes) - 1;
}

static __device__ struct candidate shuffled(const struct candidate &mine, int lane) {
  return {__shfl_sync(~0u, mine.key, lane), __shfl_sync(~0u, mine.number, lane), __shfl_sync(~0u, mine.x, lane),
          __shfl_sync(~0u, mine.y, lane), __shfl_sync(~0u, mine.z, lane)};
}

// --- buckets ---

static __device__ float square_distance(float dx, float dy, float dz) { return dx * dx + dy * dy + dz * dz; }

static __device__ float beyond(float low, float high, float at) { return fmaxf(fmaxf(low - at, at - high), 0.0f); }

static __device__ uint32_t bucket_of(const struct place_of_warp &here, uint32_t slot) {
  return (slot * WARPS + here.warp) * here.size + here.rank;
}

// As a warp: goes through a bucket; its farthest row after the new sample.
static __device__ struct candidate update(const struct sample_params &p, const struct place_of_warp &here,
                                          uint32_t slot, const struct candidate &sample) {
  struct candidate farthest = {NO_KEY, UINT32_MAX, 0.0f, 0.0f, 0.0f};
  uint64_t first = (uint64_t)bucket_of(here, slot) * p.bucket;
  for (uint32_t i = threadIdx.x % 32; i < p.bucket && first + i < here.num_rows; i += 32) {
    float4 row = here.places[first + i];
    uint32_t number = here.numbers[first + i];
    float distance = square_distance(row.x - sample.x, row.y - sample.y, row.z - sample.z);
    if (distance < row.w) {
      here.places[first + i].w = row.w = distance;
    }
    struct candidate mine = {__float_as_uint(row.w) + 1, number, row.x, row.y, row.z};
    if (is_farther(mine, farthest)) {
      farthest = mine;
    }
  }
  return shuffled(farthest, farthest_lane(farthest));
}

// As a warp: the box of a bucket, and its first row, all being infinitely far from no samples.
template <int rounds>
static __device__ void measure(const struct sample_params &p, const struct place_of_warp &here, int round, int lane,
                               struct buckets<rounds> *buckets) {
  float low[3] = {INFINITY, INFINITY, INFINITY}, high[3] = {-INFINITY, -INFINITY, -INFINITY};
  struct candidate first_row = {NO_KEY, UINT32_MAX, 0.0f, 0.0f, 0.0f};
  uint64_t first = (uint64_t)bucket_of(here, round * 32 + lane) * p.bucket;
  for (uint32_t i = threadIdx.x % 32; i < p.bucket && first + i < here.num_rows; i += 32) {
    float4 row = here.places[first + i];
    const float at[3] = {row.x, row.y, row.z};
    for (int axis = 0; axis < 3; axis++) {
      low[axis] = fminf(low[axis], at[axis]);
      high[axis] = fmaxf(high[axis], at[axis]);
    }
    struct candidate mine = {__float_as_uint(row.w) + 1, here.numbers[first + i], row.x, row.y, row.z};
    if (is_farther(mine, first_row)) {
      first_row = mine;
    }
  }
  for (int axis = 0; axis < 3; axis++) {
    for (int offset = 16; offset > 0; offset /= 2) {
      low[axis] = fminf(low[axis], __shfl_xor_sync(~0u, low[axis], offset));
      high[axis] = fmaxf(high[axis], __shfl_xor_sync(~0u, high[axis], offset));
    }
  }
  first_row = shuffled(first_row, farthest_lane(first_row));
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    if (r == round && threadIdx.x % 32 == lane) {
      buckets->farthest[r] = first_row;
      for (int axis = 0; axis < 3; axis++) {
        buckets->low[r][axis] = low[axis];
        buckets->high[r][axis] = high[axis];
      }
    }
  }
}

// As a warp: the new sample's effect on all of its buckets. Whether there was any.
template <int rounds>
static __device__ bool apply(const struct sample_params &p, const struct place_of_warp &here,
                             const struct candidate &sample, struct buckets<rounds> *buckets) {
  uint32_t any = 0;
#pragma unroll
  for (int r = 0; r < rounds; r++) {
    const float *low = buckets->low[r], *high = buckets->high[r];
    float distance = square_distance(beyond(low[0], high[0], sample.x), beyond(low[1], high[1], sample.y),
                                     beyond(low[2], high[2], sample.z));
    // Of an empty bucket the key is 0 and this no number.
    uint32_t near = __ballot_sync(~0u, distance < __uint_as_float(buckets->farthest[r].key - 1));
    any |= near;
    for (; near != 0; near &= near - 1) {
      int lane = __ffs(near) - 1;
      struct candidate farthest = update(p, here, r * 32 + lane, sample);
      if (threadIdx.x % 32 == lane) {
        buckets->farthest[r] = farthest;
      }
    }
  }
  return any != 0;
}

template <int rounds> static __device__ struct candidate farthest_of(const struct buckets<rounds> &buckets) {
  struct candidate farthest = buckets.farthest[0];
#pragma unroll
  for (int r = 1; r < rounds; r++) {
    if (is_farther(buckets.farthest[r], farthest)) {
      farthest = buckets.farthest[r];
    }
  }
  return shuffled(farthest, farthest_lane(farthest));
}

// --- the farthest of all ---

static __device__ struct candidate farthest_of_block(struct exchange *exchange, uint32_t parity) {
  uint32_t lane = threadIdx.x % 32;
  struct candidate mine = {NO_KEY, UINT32_MAX, 0.0f, 0.0f, 0.0f};
  if (lane < WARPS) {
    mine = exchange->from_warps[parity][lane];
  }
  return shuffled(mine, farthest_lane(mine));
}

static __device__ void tell_blocks(struct exchange *exchange, uint32_t parity, const struct place_of_warp &here,
                                   const struct candidate &farthest) {
  uint32_t lane = threadIdx.x % 32;
  uint64_t *barrier = &exchange->barriers[parity];
  if (lane == 0) {
    barrier_expect(barrier, here.size * (sizeof(uint4) + sizeof(float)));
  }
  if (lane < here.size) {
    uint32_t remote = address_in(barrier, lane);
    send_words(address_in(&exchange->from_blocks[parity][here.rank], lane), remote, farthest.key, farthest.number,
               __float_as_uint(farthest.x), __float_as_uint(farthest.y));
    send_word(address_in(&exchange->z_from_blocks[parity][here.rank], lane), remote, __float_as_uint(farthest.z));
  }
}

static __device__ struct candidate farthest_of_cluster(struct exchange *exchange, uint32_t parity,
                                                       const struct place_of_warp &here) {
  uint32_t lane = threadIdx.x % 32;
  struct candidate mine = {NO_KEY, UINT32_MAX, 0.0f, 0.0f, 0.0f};
  barrier_wait(&exchange->barriers[parity], here.turn / 2 % 2);
  if (lane < here.size) {
    uint4 words = exchange->from_blocks[parity][lane];
    mine = {words.x, words.y, __uint_as_float(words.z), __uint_as_float(words.w),
            exchange->z_from_blocks[parity][lane]};
  }
  return shuffled(mine, farthest_lane(mine));
}

// As all warps of the cluster: from each one's farthest row to the farthest of all.
static __device__ struct candidate next_sample(struct exchange *exchange, struct place_of_warp *here,
                                               const struct candidate &farthest) {
  uint32_t parity = here->turn % 2;
  if (threadIdx.x % 32 == 0) {
    exchange->from_warps[parity][here->warp] = farthest;
  }
  __syncthreads();
  struct candidate next;
  if (here->size == 1) {
    next = farthest_of_block(exchange, parity);
  } else {
    if (here->warp == 0) {
      tell_blocks(exchange, parity, *here, farthest_of_block(exchange, parity));
    }
    next = farthest_of_cluster(exchange, parity, *here);
  }
  here->turn++;
  return next;
}

// --- a cloud ---

static __device__ struct candidate first_sample(const struct sample_params &p, uint32_t cloud) {
  const struct cuda_fps_box &box = p.boxes[cloud];
  uint32_t number = box.first_from_start != CUDA_NO_POINT ? box.first_from_start : box.first;
  const float *row = p.rows + ((uint64_t)p.clouds[cloud].first_row + number) * p.columns;
  return {__float_as_uint(INFINITY) + 1, number, row[0], row[1], row[2]};
}

template <int rounds>
static __device__ void sample_cloud(const struct sample_params &p, uint32_t cloud, struct place_of_warp *here,
                                    struct exchange *exchange) {
  uint32_t num_samples = p.clouds[cloud].num_samples, at = p.clouds[cloud].first_sample;
  here->num_rows = p.candidates[cloud];
  here->places = p.places + p.clouds[cloud].first_row;
  here->numbers = p.numbers + p.clouds[cloud].first_row;
  if (num_samples == 0 || num_samples > here->num_rows) {
    return;
  }
  struct buckets<rounds> buckets;
  for (int slot = 0; slot < rounds * 32; slot++) {
    measure<rounds>(p, *here, slot / 32, slot % 32, &buckets);
  }
  struct candidate sample = first_sample(p, cloud), farthest = farthest_of<rounds>(buckets);
  bool leader = here->rank == 0 && threadIdx.x == 0;
  for (uint32_t step = 0;; step++) {
    if (leader) {
      p.indices[at + step] = (int32_t)sample.number;
      p.distances[at + step] = __uint_as_float(sample.key - 1);
    }
    if (step + 1 == num_samples) {
      return;
    }
    if (apply<rounds>(p, *here, sample, &buckets)) {
      farthest = farthest_of<rounds>(buckets);
    }
    if (leader && step % STOP_STEPS == STOP_STEPS - 1 && *p.stop == p.sequence) {
      farthest.key = STOP_KEY;
    }
    sample = next_sample(exchange, here, farthest);
    if (sample.key == STOP_KEY) {
      return;
    }
  }
}

template <int rounds>
static __global__ void __launch_bounds__(BLOCK, 1) fps_sample_kernel(const __grid_constant__ struct sample_params p) {
  __shared__ struct exchange exchange;
  struct place_of_warp here = {cluster_rank(), cluster_size(), threadIdx.x / 32, 0, NULL, NULL, 0};
  if (threadIdx.x == 0 && here.size > 1) {
    barrier_init(&exchange.barriers[0]);
    barrier_init(&exchange.barriers[1]);
  }
  cluster_sync();
  cuda_wait_alone();
  for (uint32_t cloud = blockIdx.x / here.size; cloud < p.num_clouds; cloud += gridDim.x / here.size) {
    sample_cloud<rounds>(p, cloud, &here, &exchange);
  }
  cluster_sync();  // no block ends while another may still write to it
}

// --- launch ---

typedef void (*sample_kernel)(const struct sample_params);

static const struct {
  uint32_t rounds;
  sample_kernel kernel;
} kernels[] = {
    {1, fps_sample_kernel<1>}, {2, fps_sample_kernel<2>}, {4, fps_sample_kernel<4>}, {8, fps_sample_kernel<8>}};
enum { NUM_KERNELS = sizeof kernels / sizeof kernels[0] };

struct shape {
  unsigned cluster;  // blocks
  int kernel;
  uint32_t bucket;
};

static uint64_t buckets_of(unsigned cluster, uint32_t rounds) { return (uint64_t)cluster * WARPS * 32 * rounds; }

// As few blocks as hold a cloud with one round, more rounds where there are no more blocks, larger buckets at last.
static struct shape shape_for(uint64_t rows, unsigned largest_cluster) {
  struct shape shape = {1, 0, FPS_BUCKET};
  const char *tune = getenv("FPS_CLUSTER");
  if (tune != NULL && (unsigned)atoi(tune) <= largest_cluster) {
    shape.cluster = largest_cluster = (unsigned)atoi(tune);
  }
  uint64_t wanted = (rows + FPS_BUCKET - 1) / FPS_BUCKET;
  while (shape.cluster < largest_cluster && buckets_of(shape.cluster, 1) < wanted) {
    shape.cluster *= 2;
  }
  while (shape.kernel + 1 < NUM_KERNELS && buckets_of(shape.cluster, kernels[shape.kernel].rounds) < wanted) {
    shape.kernel++;
  }
  while (buckets_of(shape.cluster, kernels[shape.kernel].rounds) * shape.bucket < rows) {
    shape.bucket *= 2;
  }
  return shape;
}

static void set_cluster(cudaLaunchConfig_t *config, cudaLaunchAttribute attributes[2], const struct cuda_run *run,
                        unsigned cluster) {
  config->attrs = attributes;
  if (run->lane->device->overlap) {
    attributes[config->numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config->numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[config->numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config->numAttrs].val.clusterDim.x = cluster;
    attributes[config->numAttrs].val.clusterDim.y = attributes[config->numAttrs].val.clusterDim.z = 1;
    config->numAttrs++;
  }
}

// Only a part of the device, however many clouds there are: other lanes' kernels go on beside this one.
enum vx_status cuda_fps_sample(const struct cuda_run *run, struct vx_error *error) {
  const struct cuda_fps *fps = &run->fps;
  const struct vx_device *device = run->lane->device;
  struct shape shape = shape_for(fps->largest_cloud, device->largest_cluster);
  unsigned clusters = device->multiprocessors / 3 / shape.cluster, num_clouds = (unsigned)run->clouds.count;
  clusters = min(max(clusters, 1u), num_clouds);
  struct sample_params p = {};
  p.clouds = fps->clouds;
  p.boxes = fps->boxes;
  p.candidates = run->control->cloud_rows;
  p.rows = fps->rows;
  p.columns = run->columns;
  p.num_clouds = num_clouds;
  p.places = fps->places;
  p.numbers = fps->numbers;
  p.bucket = shape.bucket;
  p.indices = fps->indices;
  p.distances = fps->distances;
  p.stop = &run->lane->device_orders->stop;
  p.sequence = run->lane->sequence;
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(clusters * shape.cluster);
  config.blockDim = dim3(BLOCK);
  config.stream = run->stream;
  set_cluster(&config, attributes, run, shape.cluster);
  return cuda_check(cudaLaunchKernelEx(&config, kernels[shape.kernel].kernel, (const struct sample_params)p),
                    "fps_sample_kernel", error);
}

enum vx_status cuda_fps_largest_cluster(const struct vx_device *device, unsigned *size, struct vx_error *error) {
  *size = 1;
  struct cudaFuncAttributes code;
  CUDA_CALL(cudaFuncGetAttributes(&code, kernels[0].kernel), error);
  // The code that runs must know clusters, not only the device.
  if (!CUDA_CLUSTERS || device->description.compute_capability < 90 || code.ptxVersion < 90) {
    return VX_OK;
  }
  for (int i = 0; i < NUM_KERNELS; i++) {
    CUDA_CALL(cudaFuncSetAttribute(kernels[i].kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1), error);
  }
  for (unsigned cluster = 2; cluster <= MAX_CLUSTER; cluster *= 2) {
    struct cudaLaunchAttribute_st attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.gridDim = dim3(cluster);
    config.blockDim = dim3(BLOCK);
    config.attrs = &attribute;
    config.numAttrs = 1;
    int most = 0;
    cudaError_t result = cudaOccupancyMaxActiveClusters(&most, kernels[NUM_KERNELS - 1].kernel, &config);
    if (result == cudaErrorInvalidClusterSize || (result == cudaSuccess && most < 1)) {
      (void)cudaGetLastError();
      return VX_OK;
    }
    CUDA_TRY(cuda_check(result, "cudaOccupancyMaxActiveClusters", error));
    *size = cluster;
  }
  return VX_OK;
}
