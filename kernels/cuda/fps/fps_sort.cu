// Sorts the rows of each cloud along a curve (curve.cuh) through the box of its candidates. The order affects how much
// is pruned, never what is chosen.
#include "kernels/cuda/fps/fps.cuh"

#include "kernels/cuda/base/bring.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/radix_sort.cuh"
#include "kernels/half.h"

enum { BLOCK = BRING_BLOCK };

// An integer with the same order as the floats.
static __device__ int32_t ordered(float value) {
  int32_t bits = __float_as_int(value);
  return bits >= 0 ? bits : bits ^ 0x7FFFFFFF;
}

static __device__ float unordered(int32_t bits) { return __int_as_float(bits >= 0 ? bits : bits ^ 0x7FFFFFFF); }

static __device__ bool is_finite(const struct location &at) { return vx_are_finite(at.x, at.y, at.z); }

// ---- beginning ------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    fps_begin_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_fps fps) {
  cuda_wait();
  for (uint32_t i = threadIdx.x; i < (uint32_t)v.clouds.count; i += BLOCK) {
    fps.clouds[i] = v.commands->fps_clouds[i];
    fps.boxes[i] = {{INT32_MAX, INT32_MAX, INT32_MAX}, {INT32_MIN, INT32_MIN, INT32_MIN}, CUDA_NO_POINT, CUDA_NO_POINT};
    v.control->cloud_rows[i] = 0;
  }
  if (threadIdx.x == 0 && v.counters->moments[CUDA_BEGUN] == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

static __device__ uint32_t cloud_of(const struct cuda_fps_cloud *clouds, uint32_t num_clouds, uint32_t row) {
  uint32_t low = 0, high = num_clouds;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (clouds[middle].first_row <= row)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// What a thread has seen of the rows of one cloud.
struct sight {
  uint32_t cloud, count;
  int32_t low[3], high[3];
  uint32_t first, first_from_start;
};

static __device__ struct sight nothing_of(uint32_t cloud) {
  return {cloud, 0, {INT32_MAX, INT32_MAX, INT32_MAX}, {INT32_MIN, INT32_MIN, INT32_MIN}, CUDA_NO_POINT, CUDA_NO_POINT};
}

static __device__ int32_t warp_max(int32_t value) {
  return (int32_t)(cuda_warp_max((uint32_t)value ^ 0x80000000u) ^ 0x80000000u);
}

// Called by a whole warp, whose threads have seen rows of the same cloud. Adds these to the cloud's box.
static __device__ void report_sight(const struct cuda_view &v, const struct cuda_fps &fps, const struct sight &seen) {
  uint32_t count = cuda_warp_add(seen.count);
  if (count == 0) return;
  struct cuda_fps_box *box = &fps.boxes[seen.cloud];
  uint32_t first = ~cuda_warp_max(~seen.first), from_start = ~cuda_warp_max(~seen.first_from_start);
  bool leader = threadIdx.x % 32 == 0;
  if (leader) {
    atomicAdd(&v.control->cloud_rows[seen.cloud], count);
    atomicMin(&box->first, first);
    atomicMin(&box->first_from_start, from_start);
  }
  for (int axis = 0; axis < 3; axis++) {
    int32_t low = ~warp_max(~seen.low[axis]), high = warp_max(seen.high[axis]);
    if (leader) {
      atomicMin(&box->low[axis], low);
      atomicMax(&box->high[axis], high);
    }
  }
}

// The number that `start` is compared with: the row's number in its cloud or, after a chain, among those rows of the
// cloud that the chain kept.
static __device__ uint32_t rank_of(const struct cuda_fps &fps, uint32_t row, uint32_t first_row) {
  if (!fps.row_of) return row - first_row;
  int32_t before = fps.row_of[first_row];
  return (uint32_t)(fps.row_of[row] - (before < 0 ? ~before : before));
}

static __device__ void look_at(struct sight *seen, const struct location &at, uint32_t number, bool from_start) {
  const float coordinates[3] = {at.x, at.y, at.z};
  seen->count++;
  seen->first = min(seen->first, number);
  seen->first_from_start = from_start ? min(seen->first_from_start, number) : seen->first_from_start;
  for (int axis = 0; axis < 3; axis++) {
    int32_t value = ordered(coordinates[axis]);
    seen->low[axis] = min(seen->low[axis], value);
    seen->high[axis] = max(seen->high[axis], value);
  }
}

static __global__ void __launch_bounds__(BLOCK)
    fps_box_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_fps fps) {
  cuda_wait();
  struct sight seen = nothing_of(0);
  uint32_t kept = 0, strange = 0;
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < fps.num_rows; first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, fps.num_rows - first);
    struct location at = bring(fps, first, count);
    bool here = threadIdx.x < count, finite = here && is_finite(at);
    uint32_t row = (uint32_t)first + (here ? threadIdx.x : 0);
    uint32_t cloud = v.clouds.count == 1 ? 0 : cloud_of(fps.clouds, (uint32_t)v.clouds.count, row);
    // Usually all rows of a warp belong to one cloud. If not, one cloud after the other.
    for (uint32_t left = __ballot_sync(~0u, finite); left != 0;) {
      uint32_t one = __shfl_sync(~0u, cloud, __ffs(left) - 1);
      if (one != seen.cloud) {
        report_sight(v, fps, seen);
        seen = nothing_of(one);
      }
      bool mine = finite && cloud == one;
      uint32_t first_row = fps.clouds[cloud].first_row;
      if (mine) look_at(&seen, at, row - first_row, rank_of(fps, row, first_row) >= fps.start);
      left &= ~__ballot_sync(~0u, mine);
    }
    kept += finite;
    strange += here && !finite;
  }
  report_sight(v, fps, seen);
  kept = cuda_warp_add(kept);
  strange = cuda_warp_add(strange);
  if (fps.of_points && threadIdx.x % 32 == 0) {
    atomicAdd(&v.counters->kept, kept);
    atomicAdd(&v.counters->not_finite, strange);
    atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
  }
}

// ---- keys -----------------------------------------------------------------------------------------------------------

static __device__ uint32_t place_on_curve(const struct cuda_fps_box &box, const float *row) {
  const float low[3] = {unordered(box.low[0]), unordered(box.low[1]), unordered(box.low[2])};
  const float high[3] = {unordered(box.high[0]), unordered(box.high[1]), unordered(box.high[2])};
  return cuda_place_on_curve(low, high, row);
}

static __global__ void __launch_bounds__(BLOCK)
    fps_key_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_fps fps) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (row >= fps.num_rows) return;
  const float *at = fps.points + row * fps.columns;
  uint64_t cloud = v.clouds.count == 1 ? 0 : cloud_of(fps.clouds, (uint32_t)v.clouds.count, (uint32_t)row);
  bool finite = is_finite({at[0], at[1], at[2]});
  uint64_t place = finite ? place_on_curve(fps.boxes[cloud], at) : UINT64_C(1) << FPS_FAR_BIT;
  fps.keys[row] = cloud << FPS_CLOUD_BIT | place;
  fps.ids[row] = (uint32_t)row;
}

// ---- places ---------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK) fps_place_kernel(const __grid_constant__ struct cuda_fps fps) {
  cuda_wait();
  uint64_t place = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (place < fps.num_rows) {
    const float *row = fps.points + (uint64_t)fps.sorted_ids[place] * fps.columns;
    uint32_t number = fps.sorted_ids[place] - fps.clouds[fps.sorted_keys[place] >> FPS_CLOUD_BIT].first_row;
    fps.places[place] = make_float4(row[0], row[1], row[2], __uint_as_float(number));
  }
}

// ---- all together ---------------------------------------------------------------------------------------------------

static enum vx_status sort_keys(const struct cuda_run *run, void *cub, size_t *bytes, struct error *error) {
  const struct cuda_fps *fps = &run->fps;
  // The clouds of a batch are usually small: sorting by the last bits is not worth one more pass.
  int first_bit = run->clouds.count > 1 ? FPS_FINE_BITS : 0, cloud_bits = vx_bits_for(run->clouds.count);
  struct cuda_pairs<uint64_t> pairs = {
    fps->keys, fps->sorted_keys, fps->ids, fps->sorted_ids, fps->num_rows, first_bit, FPS_CLOUD_BIT + cloud_bits
  };
  return cuda_sort_pairs(run, pairs, cub, bytes, error);
}

enum vx_status cuda_fps_measure_sort(const struct cuda_run *run, size_t *bytes, struct error *error) {
  *bytes = 0;
  return sort_keys(run, NULL, bytes, error);
}

static enum vx_status find_boxes(const struct cuda_run *run, struct error *error) {
  unsigned blocks = cuda_looping_blocks(run, run->fps.num_rows, BLOCK, 1);
  CUDA_TRY(cuda_launch("fps_begin_kernel", fps_begin_kernel, 1, BLOCK, 0, run, error, *run, run->fps));
  return cuda_launch("fps_box_kernel", fps_box_kernel, blocks, BLOCK, 0, run, error, *run, run->fps);
}

enum vx_status cuda_fps_sort(const struct cuda_run *run, struct error *error) {
  unsigned blocks = cuda_blocks(run->fps.num_rows, BLOCK);
  CUDA_TRY(find_boxes(run, error));
  CUDA_TRY(cuda_publish(run, run->sequence + 2, error));
  if (run->tensors == 0) return VX_OK;  // candidates are only counted
  CUDA_TRY(cuda_launch("fps_key_kernel", fps_key_kernel, blocks, BLOCK, 0, run, error, *run, run->fps));
  size_t bytes = run->fps_cub_bytes;
  CUDA_TRY(sort_keys(run, run->fps_cub, &bytes, error));
  return cuda_launch("fps_place_kernel", fps_place_kernel, blocks, BLOCK, 0, run, error, run->fps);
}
