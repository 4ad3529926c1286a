// A serialization as its kernels see it, and its first kernel, which finds the rows' cells.
#ifndef VOXELD_CUDA_SERIAL_CELLS_CUH
#define VOXELD_CUDA_SERIAL_CELLS_CUH

#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/steps/steps.cuh"

enum { AXES = 3 };

struct serial {
  struct vx_serial_lattice lattice;
  int32_t *row_of;             // [num_points], memory of the chain: a point's row; of a dropped point ~ of the next row
  uint32_t *least, *most;      // [clouds, 3]: ~ of the least cell, and the largest cell; 0 when a job begins
  uint32_t *rows;              // [1]: the number of rows, which are the points that the chain kept
  int32_t *cells;              // [rows, 3]: of each row
  uint16_t *cloud_of;          // [rows]; NULL for one cloud
  uint32_t *order, *inverse;   // [orders, rows]
  unsigned long long *counts;  // [VX_MAX_POOLS]: rows of each stage; 0 when a job begins
  // Of a stage of pooling:
  uint64_t *cluster;      // [rows]: the new row of each row
  uint32_t *sorted_rows;  // [rows]: in the order of the new rows
  uint32_t *members;      // [orders, new rows]: an old row of each new row, in the order of the curve
  uint64_t *tiles;        // [orders, tiles]: states of the scans, then their ticket
  int32_t orders[VX_CURVES], num_orders;
  int32_t depth;  // 0: computed
  bool fixed;
  int cloud_bits;
};

// Where the grid of a cloud begins on an axis. `at`: the index in `least`, cloud * 3 + axis.
static __device__ uint32_t least_of(const struct serial &s, uint32_t at) { return s.fixed ? 0 : ~__ldcg(&s.least[at]); }

// The complement (~) of the least cell, and the largest cell, of some rows along each axis. All are 0 without rows.
struct bounds {
  uint32_t least[AXES], most[AXES];
};

static __device__ void widen(struct bounds *bounds, const int32_t cell[AXES]) {
  for (int axis = 0; axis < AXES; axis++) {
    bounds->least[axis] = max(bounds->least[axis], ~(uint32_t)cell[axis]);
    bounds->most[axis] = max(bounds->most[axis], (uint32_t)cell[axis]);
  }
}

// Called by a whole warp. Each thread that has bounds adds them to the bounds of its cloud. The threads usually have
// the same cloud. `least`, `most`: of all clouds.
static __device__ void note_bounds(uint32_t *least, uint32_t *most, uint32_t cloud, const struct bounds &bounds) {
  bool here = bounds.least[0] != 0;
  uint32_t all = __ballot_sync(~0u, here);
  if (all == 0) return;
  uint32_t one = __shfl_sync(~0u, cloud, __ffs(all) - 1);
  bool together = __ballot_sync(~0u, here && cloud != one) == 0;
  for (int axis = 0; axis < AXES; axis++) {
    uint32_t low = bounds.least[axis], high = bounds.most[axis];
    if (together) low = cuda_warp_max(low), high = cuda_warp_max(high);
    if (!(together ? threadIdx.x % 32 == 0 : here)) continue;
    uint32_t at = (together ? one : cloud) * AXES + (uint32_t)axis;
    atomicMax(least + at, low);
    atomicMax(most + at, high);
  }
}

// Drops the row if it has no cell. Returns whether the row is left.
static __device__ bool take_cell(const struct cuda_chain_rows &r, const struct serial &s, uint64_t row,
                                 int32_t cell[AXES]) {
  const float *point = r.points + row * r.columns;
  if (row >= r.clouds.num_points || !cuda_is_left(point[0])) return false;
  bool inside = vx_serial_cell(&s.lattice, point, cell);
  if (!inside) cuda_drop(r, (uint32_t)row, VX_FATE_OUT_OF_LATTICE);
  return inside;
}

static __device__ void store_cell(const struct serial &s, uint32_t row, uint32_t cloud, const int32_t cell[AXES]) {
  for (int axis = 0; axis < AXES; axis++) s.cells[(uint64_t)row * AXES + axis] = cell[axis];
  if (s.cloud_of) s.cloud_of[row] = (uint16_t)cloud;
}

// For a lone cloud, blocks note their bounds in shared memory first.
static __global__ void __launch_bounds__(SCAN_BLOCK)
    cells_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_chain_rows r,
                 const __grid_constant__ struct cuda_scan scan, const __grid_constant__ struct serial s) {
  __shared__ struct scan_shared shared;
  __shared__ uint32_t least[AXES], most[AXES];
  uint32_t tile = scan_next_tile(scan.ticket, &shared);  // clean since the chain's first kernel began
  if (threadIdx.x < AXES) least[threadIdx.x] = most[threadIdx.x] = 0;
  cuda_begin_step();
  cuda_wait();
  if (blockIdx.x == 0 && threadIdx.x == 0)
    v.counters->moments[CUDA_BEGUN] = v.counters->moments[CUDA_ARRIVED] = cuda_now();
  uint32_t begin = tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
  int32_t cells[SCAN_ITEMS][AXES];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) items[k] = take_cell(r, s, (uint64_t)begin + k, cells[k]);
  uint64_t total = scan_items(scan.tiles, tile, items, before, &shared);
  bool alone = r.clouds.count == 1;
  struct bounds bounds = {};
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    uint32_t row = (uint32_t)before[k], cloud = 0;
    if ((uint64_t)begin + k < r.clouds.num_points) {
      s.row_of[begin + k] = items[k] != 0 ? (int32_t)row : ~(int32_t)row;
      cloud = (uint32_t)cuda_cloud_of_point(r.clouds, begin + k);
      if (!alone) cuda_note_clouds(r, begin + k, row);
    }
    if (items[k] != 0) store_cell(s, row, cloud, cells[k]), widen(&bounds, cells[k]);
    if (!alone) note_bounds(s.least, s.most, cloud, bounds), bounds = {};
  }
  if (alone) note_bounds(least, most, 0, bounds);
  if (tile == scan.num_tiles - 1 && threadIdx.x == 0) *s.rows = (uint32_t)total;
  __syncthreads();
  cuda_add_fates(r, r.number, cuda_own_fates());
  if (alone && threadIdx.x < AXES && least[threadIdx.x] != 0) {
    atomicMax(&s.least[threadIdx.x], least[threadIdx.x]);
    atomicMax(&s.most[threadIdx.x], most[threadIdx.x]);
  }
}

#endif
