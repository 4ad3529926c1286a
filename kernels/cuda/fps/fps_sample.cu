// The kernel that takes sample after sample. Each cloud has a cluster of a few blocks; without clusters, one block.
//
// A step applies a new sample to all buckets (fps_buckets.cuh). Then each warp sends its farthest row to all warps,
// through the shared memory of each block of the cluster. So all warps know the next sample, and usually a few more.
// The farthest remaining row is the next sample under two conditions. First, no sample of this exchange is nearer to it
// than the earlier samples are. Second, the warps whose rows were taken have no other row as far; each warp sends a
// bound for this.
//
// A step takes as long as its chain of dependent operations. So its code avoids branches, and ties have a path of their
// own.
//
// The order of rows does not change the samples: numbers decide between equal distances. (Pruning of buckets: Han et
// al., QuickFPS, 2023.)
#include "kernels/cuda/fps/fps.cuh"

#include "kernels/cuda/fps/cluster.cuh"
#include "kernels/cuda/fps/fps_buckets.cuh"

enum {
  MAX_CLUSTER = 4,
  SENDERS = 32,      // maximum warps of a cluster: one lane per warp
  STOP_TURNS = 128,  // exchanges between two checks of the host's stop command; a check costs more than an exchange
};
#define STOP_KEY UINT32_MAX  // above all other keys

// The messages between warps. Two sets alternate: when an exchange is over, all warps have read the previous messages.
struct exchange {
  uint2 keys[2][SENDERS];  // key and bound
  float4 rows[2][SENDERS];
  uint64_t barriers[2];
};

// ---- the farthest of all --------------------------------------------------------------------------------------------

static __device__ void put(uint32_t address, uint32_t row_address, const struct candidate &mine) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(mine.key), "r"(mine.bound) : "memory");
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(row_address), "f"(mine.row.x), "f"(mine.row.y),
               "f"(mine.row.z), "f"(mine.row.w)
               : "memory");
}

static __device__ struct candidate get(uint32_t address, uint32_t row_address) {
  struct candidate told;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(told.key), "=r"(told.bound) : "r"(address) : "memory");
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(told.row.x), "=f"(told.row.y), "=f"(told.row.z), "=f"(told.row.w)
               : "r"(row_address)
               : "memory");
  return told;
}

// Called by all warps of the cluster. Sends the warp's farthest row to all. A lane receives the row of one warp.
static __device__ struct candidate exchange_rows(struct station *here, const struct candidate &mine) {
  uint32_t parity = here->turn % 2, phase = here->turn / 2 % 2, lane = threadIdx.x % 32;
  uint32_t entry = here->rank * here->warps + here->warp, count = here->size * here->warps;
  uint32_t keys = here->exchange + (uint32_t)(offsetof(struct exchange, keys) + parity * SENDERS * sizeof(uint2));
  uint32_t rows = here->exchange + (uint32_t)(offsetof(struct exchange, rows) + parity * SENDERS * sizeof(float4));
  uint32_t key_entry = keys + entry * (uint32_t)sizeof(uint2), row_entry = rows + entry * (uint32_t)sizeof(float4);
  here->turn++;
  if (here->size == 1) {
    if (lane == 0) put(key_entry, row_entry, mine);
    __syncthreads();
  } else {
    uint32_t barrier = here->exchange + (uint32_t)(offsetof(struct exchange, barriers) + parity * sizeof(uint64_t));
    if (threadIdx.x == 0) barrier_expect(barrier, count * (uint32_t)(sizeof(uint2) + sizeof(float4)));
    if (lane < here->size) {
      uint32_t remote_barrier = address_in(barrier, lane);
      send_row(address_in(row_entry, lane), remote_barrier, mine.row);
      send_words(address_in(key_entry, lane), remote_barrier, mine.key, mine.bound);
    }
    barrier_wait(barrier, phase);
  }
  struct candidate told = {NO_KEY, NO_KEY, make_float4(0.0f, 0.0f, 0.0f, 0.0f)};
  if (lane < count) told = get(keys + lane * (uint32_t)sizeof(uint2), rows + lane * (uint32_t)sizeof(float4));
  return told;
}

// The rows of an exchange, one per lane.
struct told {
  struct candidate row;
  uint32_t key;       // key of this lane's row; NO_KEY once the row is taken
  uint32_t affected;  // lanes whose rows are nearer to a sample of this exchange than to all earlier samples
  uint32_t floor;     // no other row of the warps whose rows are taken has a larger key
};

// Called by a whole warp. Finds the next sample. Returns false if the next exchange must decide, but never for `first`.
static __device__ bool take_farthest(struct told *told, bool first, struct candidate *sample) {
  uint32_t key = cuda_warp_max(told->key), lanes = __ballot_sync(~0u, told->key == key), winner = highest_lane(lanes);
  if (!is_one_lane(lanes)) {
    uint32_t number = told->key == key ? number_of(told->row.row) : UINT32_MAX, lowest = warp_min(number);
    winner = highest_lane(__ballot_sync(~0u, told->key == key && number == lowest));
  }
  if (!first && (key <= told->floor || (told->affected >> winner & 1) != 0)) return false;
  const float4 &mine = told->row.row;
  sample->key = key;
  sample->row = make_float4(__shfl_sync(~0u, mine.x, winner), __shfl_sync(~0u, mine.y, winner),
                            __shfl_sync(~0u, mine.z, winner), __shfl_sync(~0u, mine.w, winner));
  told->floor = max(told->floor, __shfl_sync(~0u, told->row.bound, winner));
  float distance = square_distance(mine.x - sample->row.x, mine.y - sample->row.y, mine.z - sample->row.z);
  told->affected |= __ballot_sync(~0u, distance < distance_of_key(told->row.key));
  told->key = threadIdx.x % 32 == winner ? NO_KEY : told->key;
  return true;
}

// ---- a cloud --------------------------------------------------------------------------------------------------------

static __device__ struct candidate first_sample(const struct cuda_fps &fps, uint32_t cloud) {
  const struct cuda_fps_box &box = fps.boxes[cloud];
  uint32_t number = box.first_from_start != CUDA_NO_POINT ? box.first_from_start : box.first;
  const float *row = fps.points + ((uint64_t)fps.clouds[cloud].first_row + number) * fps.columns;
  return {key_of(INFINITY), NO_KEY, make_float4(row[0], row[1], row[2], __uint_as_float(number))};
}

static __device__ void record(const struct cuda_fps &fps, const struct station &here, uint32_t at,
                              const struct candidate &sample) {
  if (here.rank == 0 && threadIdx.x == 0) {
    fps.indices[at] = (int32_t)number_of(sample.row);
    fps.distances[at] = distance_of_key(sample.key);
  }
}

template <int rounds, bool far>
static __device__ void sample_cloud(const struct cuda_view &v, const struct cuda_fps &fps, uint32_t cloud,
                                    struct station *here) {
  uint32_t num_samples = fps.clouds[cloud].num_samples, at = fps.clouds[cloud].first_sample;
  here->num_rows = v.control->cloud_rows[cloud];
  here->places = fps.places + fps.clouds[cloud].first_row;
  here->far_distances = fps.far_distances + fps.clouds[cloud].first_row;
  here->first = (here->warp * here->size + here->rank) * fps.bucket + threadIdx.x % 32;
  here->step = here->warps * here->size * fps.bucket;
  if (num_samples == 0 || num_samples > here->num_rows) return;
  struct buckets<rounds> buckets;
  for (int slot = 0; slot < rounds * 32; slot++)
    measure_bucket<rounds, far>(fps, *here, slot / 32, slot % 32, &buckets);
  struct candidate sample = first_sample(fps, cloud), best = {};
  record(fps, *here, at, sample);
  bool changed = true;
  apply<rounds, far>(fps, *here, sample.row, &buckets);
  for (uint32_t taken = 1; taken < num_samples;) {
    if (changed) best = find_best<rounds, far>(fps, *here, buckets);
    // All lanes of the warp set the key, because each lane sends to a different block.
    if (here->rank == 0 && here->warp == 0 && here->turn % STOP_TURNS == 0 &&
        *(const volatile uint32_t *)&v.commands->stop == v.sequence)
      best.key = STOP_KEY;
    struct candidate mine = exchange_rows(here, best);
    struct told told = {mine, mine.key, 0, NO_KEY};
    changed = false;
    for (bool first = true; taken < num_samples && take_farthest(&told, first, &sample); first = false) {
      if (sample.key == STOP_KEY) return;
      record(fps, *here, at + taken++, sample);
      changed |= apply<rounds, far>(fps, *here, sample.row, &buckets);
    }
  }
}

template <int warps, int rounds, bool far>
static __global__ void __launch_bounds__(warps * 32, 1)
    fps_sample_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_fps fps) {
  __shared__ struct exchange exchange;
  struct station here = {};
  here.rank = cluster_rank();
  here.size = cluster_size();
  here.warp = threadIdx.x / 32;
  here.warps = warps;
  here.exchange = shared_address(&exchange);
  if (threadIdx.x == 0 && here.size > 1) {
    barrier_init(here.exchange + (uint32_t)offsetof(struct exchange, barriers));
    barrier_init(here.exchange + (uint32_t)(offsetof(struct exchange, barriers) + sizeof(uint64_t)));
  }
  cluster_sync();
  cuda_wait_alone();
  for (uint32_t cloud = blockIdx.x / here.size; cloud < (uint32_t)v.clouds.count; cloud += gridDim.x / here.size)
    sample_cloud<rounds, far>(v, fps, cloud, &here);
  cluster_sync();  // no block ends while another may still write to it
}

// ---- launch ---------------------------------------------------------------------------------------------------------

typedef void (*sample_kernel)(struct cuda_view, struct cuda_fps);

// A job uses the first kernel that the device can run and that is meant for its largest cloud. (On an H200, several
// blocks of few warps are fastest for few rows, one block for as many rows as one round holds, and several blocks for
// more.)
//
// Kernels use a third of the multiprocessors, to leave others to other lanes. A kernel whose blocks take little of a
// multiprocessor uses all.
static const struct kernel {
  uint32_t cluster, warps, rounds;
  bool far;
  uint32_t most_rows;  // not meant for larger clouds, even if it can hold them
  uint32_t part;       // one multiprocessor in this many has a block
  sample_kernel kernel;
} kernels[] = {
    {4, 8, 1, false, 4096, 1, fps_sample_kernel<8, 1, false>},
    {1, 32, 1, false, UINT32_MAX, 3, fps_sample_kernel<32, 1, false>},
    {4, 8, 2, false, UINT32_MAX, 3, fps_sample_kernel<8, 2, false>},
    {4, 8, 4, false, UINT32_MAX, 3, fps_sample_kernel<8, 4, false>},
    {4, 8, 8, false, UINT32_MAX, 3, fps_sample_kernel<8, 8, false>},
    {4, 8, 8, true, UINT32_MAX, 3, fps_sample_kernel<8, 8, true>},
    {1, 16, 8, true, UINT32_MAX, 3, fps_sample_kernel<16, 8, true>},
};
enum { NUM_KERNELS = sizeof kernels / sizeof kernels[0] };

// Bytes of shared memory for the distances of a block's rows; SIZE_MAX if the kernel cannot hold so many rows.
static size_t near_bytes(const struct kernel *kernel, uint64_t rows) {
  uint64_t of_slot = (uint64_t)kernel->cluster * kernel->warps * FPS_BUCKET, slots = (rows + of_slot - 1) / of_slot;
  return slots > 32 * kernel->rounds ? SIZE_MAX : slots * kernel->warps * FPS_BUCKET * sizeof(float);
}

static const struct kernel *kernel_for(uint64_t rows, const struct vx_device *device) {
  const struct kernel *kernel = kernels;
  while (kernel->cluster > device->largest_cluster || rows > kernel->most_rows ||
         (!kernel->far && near_bytes(kernel, rows) > device->shared_bytes))
    kernel++;
  return kernel;
}

// Rows of a bucket. Only a `far` kernel may use more than 32.
static uint32_t bucket_for(const struct kernel *kernel, uint64_t rows) {
  uint64_t buckets = UINT64_C(32) * kernel->cluster * kernel->warps * kernel->rounds;
  uint32_t bucket = FPS_BUCKET;
  while (kernel->far && buckets * bucket < rows) bucket *= 2;
  return bucket;
}

static void set_attributes(cudaLaunchConfig_t *config, cudaLaunchAttribute attributes[2], bool overlap,
                           unsigned cluster) {
  config->attrs = attributes;
  if (overlap) {
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

enum vx_status cuda_fps_sample(struct cuda_run *run, struct error *error) {
  struct cuda_fps *fps = &run->fps;
  const struct vx_device *device = run->lane->device;
  const struct kernel *kernel = kernel_for(fps->largest_cloud, device);
  unsigned clusters = device->multiprocessors / kernel->part / kernel->cluster;
  clusters = min(max(clusters, 1u), (unsigned)run->clouds.count);
  size_t bytes = kernel->far ? 0 : near_bytes(kernel, fps->largest_cloud);
  fps->near_rows = (uint32_t)(bytes / sizeof(float));
  fps->bucket = bucket_for(kernel, fps->largest_cloud);
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(clusters * kernel->cluster);
  config.blockDim = dim3(kernel->warps * 32);
  config.dynamicSmemBytes = bytes;
  config.stream = run->stream;
  set_attributes(&config, attributes, device->overlap, kernel->cluster);
  return cuda_check(cudaLaunchKernelEx(&config, kernel->kernel, *run, *fps), "fps_sample_kernel", error);
}

enum vx_status cuda_fps_prepare_device(struct vx_device *device, struct error *error) {
  int shared_bytes;
  CUDA_CALL(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device->index), error);
  device->largest_cluster = 1;
  struct cudaFuncAttributes code;
  CUDA_CALL(cudaFuncGetAttributes(&code, kernels[0].kernel), error);
  device->shared_bytes = (size_t)shared_bytes - code.sharedSizeBytes - 1024;  // the driver takes a little shared memory
  for (int i = 0; i < NUM_KERNELS; i++) {
    CUDA_CALL(
        cudaFuncSetAttribute(kernels[i].kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)device->shared_bytes),
        error);
  }
  // Both the device and the code compiled for it must support clusters.
  if (!CUDA_CLUSTERS || device->description.compute_capability < 90 || code.ptxVersion < 90) return VX_OK;
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(MAX_CLUSTER);
  config.blockDim = dim3(SENDERS / MAX_CLUSTER * 32);
  config.dynamicSmemBytes = device->shared_bytes;
  set_attributes(&config, attributes, false, MAX_CLUSTER);
  int most = 0;
  CUDA_CALL(cudaOccupancyMaxActiveClusters(&most, kernels[0].kernel, &config), error);
  device->largest_cluster = most > 0 ? MAX_CLUSTER : 1;
  return VX_OK;
}
