// From cells to numbers. A scan over the points adds, for the first point of each cell, 1 cell and the number of its
// points. So the scan gives each cell its number by first appearance, and where its list begins.
//
// The number replaces the first point in the cell's slot. It is at most the index of the first point, so no later point
// of the cell finds its own index there and takes itself for the first.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/scan.cuh"

// If this point is the first of a cloud, sets first_cell of that cloud and of the empty clouds just before it.
static __device__ void note_clouds(const struct voxel_view &v, uint32_t point, uint32_t cells_before) {
  int32_t cloud = cuda_cloud_of_point(v.clouds, point);
  for (; cloud >= 0 && v.clouds.first_point[cloud] == point; cloud--) v.clouds.first_cell[cloud] = cells_before;
}

static __device__ void note_totals(const struct voxel_view &v, uint64_t total) {
  uint32_t cells = (uint32_t)(total >> 32);
  v.counters->num_cells = cells;
  v.counters->num_inside = (uint32_t)total;
  v.counters->num_rows = min(cells, v.clouds.max_rows);  // of one cloud; for several, close_clouds_kernel sets it again
  v.counters->num_output_rows = v.counters->num_rows;
}

static __device__ void load_slots(const struct voxel_view &v, uint32_t begin, uint32_t slots[SCAN_ITEMS]) {
  if ((uint64_t)begin + SCAN_ITEMS <= v.clouds.num_points) {
    uint4 all = *(const uint4 *)(v.slots + begin);
    slots[0] = all.x, slots[1] = all.y, slots[2] = all.z, slots[3] = all.w;
    return;
  }
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    slots[k] = (uint64_t)begin + k < v.clouds.num_points ? v.slots[begin + k] : CUDA_NO_SLOT;
}

static __global__ void __launch_bounds__(SCAN_BLOCK) number_kernel(const __grid_constant__ struct voxel_view v) {
  __shared__ struct scan_shared shared;
  // The counters were clean before the previous kernel began.
  uint32_t tile = scan_next_tile(&v.counters->number_ticket, &shared);
  cuda_wait_in_turn();  // in turn, since assign reads slots and ranks before its own wait
  uint32_t begin = tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS, slots[SCAN_ITEMS];
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
  load_slots(v, begin, slots);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    uint2 cell = slots[k] == CUDA_NO_SLOT ? make_uint2(CUDA_NO_POINT, 0) : *(const uint2 *)&v.cells[slots[k]];
    items[k] = cell.x == begin + k ? UINT64_C(1) << 32 | (cell.y + 1) : 0;
  }
  uint64_t total = scan_items(v.control->tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    uint32_t number = (uint32_t)(before[k] >> 32), list = (uint32_t)before[k];
    if (items[k] != 0) {
      *(uint2 *)&v.cells[slots[k]] = make_uint2(number, list);
      *(uint4 *)&v.records[number] = make_uint4(begin + k, (uint32_t)items[k], list, slots[k]);
    }
    if (v.clouds.count > 1 && (uint64_t)begin + k < v.clouds.num_points) note_clouds(v, begin + k, number);
  }
  if (tile == v.num_tiles - 1 && threadIdx.x == 0) note_totals(v, total);
}

// One block.
static __global__ void __launch_bounds__(VX_MAX_CLOUDS)
    close_clouds_kernel(const __grid_constant__ struct voxel_view v) {
  cuda_wait();
  int32_t cloud = (int32_t)threadIdx.x;
  bool here = cloud < v.clouds.count;
  uint32_t rows = here ? min(cuda_first_cell_of(v, cloud + 1) - cuda_first_cell_of(v, cloud), v.clouds.max_rows) : 0;
  uint32_t sum, before = cuda_block_before(rows, &sum);
  if (here) {
    v.clouds.first_row[cloud] = before;
    v.control->cloud_rows[cloud] = rows;
  }
  if (cloud == 0) {
    v.counters->num_rows = sum;
    v.counters->num_output_rows = sum;
  }
}

enum vx_status cuda_number(const struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_launch("number_kernel", number_kernel, run->num_tiles, SCAN_BLOCK, 0, run, error, *run));
  return run->clouds.count == 1
             ? VX_OK
             : cuda_launch("close_clouds_kernel", close_clouds_kernel, 1, VX_MAX_CLOUDS, 0, run, error, *run);
}
