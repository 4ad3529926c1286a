// From points to cells: brings the points from the host's memory, stores them as float32, and puts each into the table
// of cells.
//
// A slot of the table counts the cell's points and keeps the first of them by atomicMin. A point's rank is the count
// that it finds; ranks are in no particular order.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/cylinder.cuh"
#include "kernels/cuda/base/deskew.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/moving.cuh"
#include "kernels/cuda/base/table.cuh"
#include "kernels/half.h"

enum { BLOCK = BRING_BLOCK };

// The number of the cell, in the order of clouds, x, y and z.
static __device__ uint64_t key_of(const struct voxel_view &v, uint32_t point, const int32_t cell[3]) {
  uint64_t cloud = v.clouds.count == 1 ? 0 : cuda_cloud_of_point(v.clouds, point);
  return ((cloud * v.nx + cell[0]) * v.ny + cell[1]) * v.nz + cell[2];
}

// Called by a whole warp. Adds the number of threads with a true `is`.
static __device__ void count_up(uint32_t *count, bool is) {
  uint32_t threads = __popc(__ballot_sync(~0u, is));
  if (threadIdx.x % 32 == 0 && threads != 0) atomicAdd(count, threads);
}

// Waits before it lets number_kernel start: the previous job must first have cleared number_ticket.
//
// `arrive`: brings a chunk, as `bring` does (bring.cuh). `note(here)`: called by whole blocks when a chunk has arrived.
// `here`: the thread has a point.
template <typename arrivals, typename notes>
static __device__ void insert(const struct voxel_view &v, const arrivals &arrive, const notes &note) {
  __shared__ uint32_t outside, strange;
  if (threadIdx.x == 0) outside = strange = 0;
  __syncthreads();
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, v.clouds.num_points - first);
    struct location at = arrive(first, count);
    bool here = threadIdx.x < count;
    note(here);
    int32_t cell[3];
    bool inside = vx_cell_of_point(&v.map, at.x, at.y, at.z, cell) && here;
    bool finite = vx_are_finite(at.x, at.y, at.z);
    uint32_t point = (uint32_t)first + threadIdx.x, all_inside = __ballot_sync(~0u, inside);
    count_up(&outside, here && !inside && finite);
    count_up(&strange, here && !finite);
    if (first + (uint64_t)gridDim.x * BLOCK >= v.clouds.num_points) {
      cuda_let_next();  // all of this block's points have arrived; the rest is short
      if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
    }
    if (inside) {
      uint64_t key = key_of(v, point, cell);
      uint32_t peers = __match_any_sync(all_inside, (unsigned long long)key);
      cuda_place(v.cells, v.slots, v.ranks, all_inside, peers, point, [&] { return cuda_slot_of(v.table, key); });
    } else if (here) {
      v.slots[point] = CUDA_NO_SLOT;
    }
    __syncwarp();
  }
  __syncthreads();
  if (threadIdx.x == 0 && outside != 0) atomicAdd(&v.counters->out_of_range, outside);
  if (threadIdx.x == 0 && strange != 0) atomicAdd(&v.counters->not_finite, strange);
}

static __global__ void __launch_bounds__(BLOCK) insert_kernel(const __grid_constant__ struct voxel_view v) {
  insert(
      v, [&](uint64_t first, uint32_t count) { return bring(v, first, count); }, [](bool) {});
}

// De-skews the points, if `deskew` has times. Then applies the job's transform, if it has one.
static __global__ void __launch_bounds__(BLOCK)
    insert_moved_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_deskew deskew,
                        const __grid_constant__ struct cuda_moving moving, bool transforms) {
  __shared__ uint32_t fates[CUDA_MOVED_FATES];
  enum vx_fate fate = VX_FATE_KEPT;
  if (threadIdx.x < CUDA_MOVED_FATES) fates[threadIdx.x] = 0;
  cuda_begin_deskew(deskew);
  insert(
      v,
      [&](uint64_t first, uint32_t count) {
        return bring(v, first, count, deskew.times, [&](uint64_t row, float t, struct location *at) {
          if (deskew.times) (void)cuda_deskew_row(deskew, t, true, at);
          if (!transforms) return true;
          fate = vx_are_finite(at->x, at->y, at->z) ? cuda_move_at(v.clouds, moving, (uint32_t)row, at)
                                                    : VX_FATE_NOT_FINITE;
          if (fate != VX_FATE_KEPT) at->x = vx_bits_float(VX_FLOAT_NAN);
          return true;
        });
      },
      [&](bool here) {
        if (!transforms || !here || fate == VX_FATE_KEPT) return;
        atomicAdd(&fates[fate == VX_FATE_NOT_FINITE    ? 0
                         : fate == VX_FATE_OUT_OF_CROP ? 1
                         : fate == VX_FATE_CUT_OUT     ? 2
                                                       : 3],
                  1);
      });
  if (threadIdx.x < CUDA_MOVED_FATES && fates[threadIdx.x] != 0)
    atomicAdd(&v.counters->moved_fates[threadIdx.x], fates[threadIdx.x]);
}

// Stores a point's cylindrical row. Returns rho, phi and z. If rho is not finite, returns NaN in its place, so that the
// point gets no cell.
static __device__ struct location to_cylinder(const struct voxel_view &v, const struct cuda_points &arriving,
                                              uint64_t row, const struct location &at) {
  float x = vx_are_finite(at.x, at.y, at.z) ? at.x : vx_bits_float(VX_FLOAT_NAN);
  float rho = vx_cylinder_rho(x, at.y), phi = cuda_phi(x, at.y);
  float *to = v.points + row * v.columns;
  if (is_usual(arriving)) {
    const float point[] = {at.x, at.y, at.z, at.w};
    float2 parts[3];
    vx_cylinder_row(rho, phi, point, 4, (float *)parts);
#pragma unroll
    for (int i = 0; i < 3; i++) ((float2 *)to)[i] = parts[i];
  } else {
    vx_cylinder_row(rho, phi, arriving.points + row * arriving.columns, (int32_t)arriving.columns, to);
  }
  return {vx_are_finite(rho, rho, rho) ? rho : vx_bits_float(VX_FLOAT_NAN), phi, at.z};
}

// De-skews the points, if `deskew` has times. Then makes them cylindrical.
static __global__ void __launch_bounds__(BLOCK)
    insert_cylinder_kernel(const __grid_constant__ struct voxel_view v,
                           const __grid_constant__ struct cuda_points arriving,
                           const __grid_constant__ struct cuda_deskew deskew) {
  __shared__ uint32_t dropped;
  bool finite = true;
  if (threadIdx.x == 0) dropped = 0;
  cuda_begin_deskew(deskew);
  insert(
      v,
      [&](uint64_t first, uint32_t count) {
        struct location at =
            bring(arriving, first, count, deskew.times, [&](uint64_t, float t, struct location *moved) {
              return deskew.times && cuda_deskew_row(deskew, t, true, moved);
            });
        finite = vx_are_finite(at.x, at.y, at.z);
        return threadIdx.x < count ? to_cylinder(v, arriving, first + threadIdx.x, at) : at;
      },
      [&](bool here) { count_up(&dropped, here && !finite); });
  if (threadIdx.x == 0 && dropped != 0) atomicAdd(&v.counters->moved_fates[0], dropped);
}

enum vx_status cuda_insert(const struct cuda_run *run, struct error *error) {
  unsigned blocks = cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 4);
  bool deskews = cuda_deskews(run), is_cylinder = run->arriving.columns > 0,
       transforms = cuda_is_folded(run->job) && !is_cylinder;
  if (!deskews && !transforms && !is_cylinder)
    return cuda_launch("insert_kernel", insert_kernel, blocks, BLOCK, 0, run, error, *run);
  struct cuda_deskew deskew = {};
  struct cuda_moving moving = {};
  if (deskews) CUDA_TRY(cuda_plan_deskew(run, &run->counters->deskew, &deskew, error));
  if (is_cylinder) {
    struct cuda_points arriving = {run->source, run->arriving.points, run->arriving.columns, run->dtype};
    return cuda_launch("insert_cylinder_kernel", insert_cylinder_kernel, blocks, BLOCK, 0, run, error, *run, arriving,
                       deskew);
  }
  if (transforms) CUDA_TRY(cuda_plan_moving(NULL, &run->job->chain->steps[0].params.transform, &moving, error));
  return cuda_launch("insert_moved_kernel", insert_moved_kernel, blocks, BLOCK, 0, run, error, *run, deskew, moving,
                     transforms);
}
