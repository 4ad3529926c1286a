// Ascending order: of rows by their cells' keys, and of all points by their cells if a list is too long for lists.cu.
// If each cell has its own slot, rows are ordered by going through the slots. Otherwise cub sorts them; for that the
// host must know their number.
#include "kernels/cuda/voxelize/order.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/scan.cuh"

enum { BLOCK = 256 };

// --- rows by slot ---

struct order_params {
  struct cuda_clouds clouds;
  const struct cuda_cell *cells;  // [num_cells], each with its number
  uint64_t num_cells, cells_per_cloud;
  uint64_t *tiles;
  uint32_t row_capacity;
  bool filtered;            // output_rows says which rows are left
  uint32_t *output_rows;    // [row_capacity]
  uint32_t *rows_in_order;  // [row_capacity]
  struct cuda_tally *tally;
};

// The row of a slot; CUDA_NO_ROW if it has none or the block filter removed it.
static __device__ uint32_t row_of_slot(const struct order_params &p, uint64_t slot) {
  uint32_t number = slot < p.num_cells ? p.cells[slot].first : CUDA_NO_POINT;
  if (number == CUDA_NO_POINT) {
    return CUDA_NO_ROW;
  }
  uint32_t row = cuda_row_of_cell(p.clouds, (int32_t)(slot / p.cells_per_cloud), number, CUDA_NO_ROW);
  return row == CUDA_NO_ROW || (p.filtered && p.output_rows[row] == CUDA_NO_ROW) ? CUDA_NO_ROW : row;
}

static __global__ void __launch_bounds__(SCAN_BLOCK) order_rows_kernel(const __grid_constant__ struct order_params p) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile(&p.tally->order_ticket, &shared);
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
  uint32_t rows[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    rows[k] = row_of_slot(p, begin + k);
    items[k] = rows[k] != CUDA_NO_ROW;
  }
  (void)scan_items(p.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (rows[k] != CUDA_NO_ROW) {
      p.output_rows[rows[k]] = (uint32_t)before[k];
      p.rows_in_order[before[k]] = rows[k];
    }
  }
}

enum vx_status cuda_order_rows(const struct cuda_run *run, struct vx_error *error) {
  struct order_params p = {};
  p.clouds = run->clouds;
  p.cells = run->cells;
  p.num_cells = run->num_cells;
  p.cells_per_cloud = run->num_cells / (uint64_t)run->clouds.count;
  p.tiles = run->control->order_tiles;
  p.row_capacity = run->row_capacity;
  p.filtered = run->params->block_filter.enabled;
  p.output_rows = run->output_rows;
  p.rows_in_order = run->rows_in_order;
  p.tally = run->tally;
  return cuda_launch("order_rows_kernel", order_rows_kernel, cuda_blocks(run->num_cells, CUDA_TILE), SCAN_BLOCK, 0, run,
                     p, error);
}

// --- rows by key ---

struct row_sort_params {
  struct cuda_clouds clouds;
  const struct cuda_record *records;
  const uint64_t *slot_keys;
  const uint32_t *unordered;  // [num_rows]: row of each output row before ordering, or NULL if they are the same
  uint32_t num_rows;
  uint64_t *keys, *sorted_keys;  // [num_rows]
  uint32_t *rows, *sorted_rows;  // [num_rows]
  uint32_t *output_rows;         // [row_capacity]
};

static __global__ void __launch_bounds__(BLOCK) row_keys_kernel(const __grid_constant__ struct row_sort_params p) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < p.num_rows) {
    uint32_t row = p.unordered != NULL ? p.unordered[i] : i;
    int32_t cloud = cuda_cloud_of_row(p.clouds, row);
    p.keys[i] = p.slot_keys[cuda_record_of_row(p.clouds, p.records, cloud, row).slot];
    p.rows[i] = row;
  }
}

static __global__ void __launch_bounds__(BLOCK) number_rows_kernel(const __grid_constant__ struct row_sort_params p) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < p.num_rows) {
    p.output_rows[p.sorted_rows[i]] = i;
  }
}

static int bits_of(uint64_t value) {
  int bits = 0;
  for (; value != 0; value >>= 1) {
    bits++;
  }
  return bits;
}

static cudaError_t sort_rows(const struct cuda_run *run, const struct row_sort_params &p, void *cub, size_t *bytes) {
  return cub::DeviceRadixSort::SortPairs(cub, *bytes, (const uint64_t *)p.keys, p.sorted_keys, (const uint32_t *)p.rows,
                                         p.sorted_rows, (int64_t)p.num_rows, 0, max(bits_of(run->num_cells - 1), 1),
                                         run->stream);
}

enum vx_status cuda_sort_rows(const struct cuda_run *run, struct vx_error *error) {
  struct row_sort_params p = {};
  p.clouds = run->clouds;
  p.records = run->records;
  p.slot_keys = run->keys;
  p.unordered = run->params->block_filter.enabled ? run->rows_in_order : NULL;
  p.num_rows = run->sizes.num_output_rows;
  p.output_rows = run->output_rows;
  p.sorted_rows = run->rows_in_order;
  if (p.num_rows == 0) {
    return VX_OK;
  }
  size_t bytes = 0;
  CUDA_CALL(sort_rows(run, p, NULL, &bytes), error);
  unsigned char *cub = NULL;
  for (int pass = 0; pass < 2; pass++) {  // to measure, then to take
    struct cuda_arena arena = {pass == 0 ? NULL : run->lane->sorting.memory, 0};
    take(&arena, &p.keys, p.num_rows);
    take(&arena, &p.sorted_keys, p.num_rows);
    take(&arena, &p.rows, p.num_rows);
    take(&arena, &cub, bytes);
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->sorting, arena.used, error));
  }
  row_keys_kernel<<<cuda_blocks(p.num_rows, BLOCK), BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("row_keys_kernel", error));
  CUDA_CALL(sort_rows(run, p, cub, &bytes), error);
  number_rows_kernel<<<cuda_blocks(p.num_rows, BLOCK), BLOCK, 0, run->stream>>>(p);
  return cuda_launched("number_rows_kernel", error);
}

// --- points by cell ---

struct point_sort_params {
  const uint32_t *slots;  // [num_points]
  const struct cuda_cell *cells;
  uint32_t num_points;
  uint32_t *numbers, *sorted_numbers;  // [num_points]
  uint32_t *points;                    // [num_points]
};

static __global__ void __launch_bounds__(BLOCK) point_keys_kernel(const __grid_constant__ struct point_sort_params p) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < p.num_points) {
    p.numbers[i] = p.slots[i] == CUDA_NO_SLOT ? p.num_points : p.cells[p.slots[i]].first;
    p.points[i] = i;
  }
}

static cudaError_t sort_points(const struct cuda_run *run, const struct point_sort_params &p, void *cub,
                               size_t *bytes) {
  return cub::DeviceRadixSort::SortPairs(cub, *bytes, (const uint32_t *)p.numbers, p.sorted_numbers,
                                         (const uint32_t *)p.points, run->lists, (int64_t)p.num_points, 0,
                                         bits_of(p.num_points), run->stream);
}

// The sort is stable, so each cell's points stay in input order. Cells are listed by number anyway.
enum vx_status cuda_sort_lists(const struct cuda_run *run, struct vx_error *error) {
  struct point_sort_params p = {};
  p.slots = run->slots;
  p.cells = run->cells;
  p.num_points = run->num_points;
  size_t bytes = 0;
  CUDA_CALL(sort_points(run, p, NULL, &bytes), error);
  unsigned char *cub = NULL;
  for (int pass = 0; pass < 2; pass++) {
    struct cuda_arena arena = {pass == 0 ? NULL : run->lane->sorting.memory, 0};
    take(&arena, &p.numbers, p.num_points);
    take(&arena, &p.sorted_numbers, p.num_points);
    take(&arena, &p.points, p.num_points);
    take(&arena, &cub, bytes);
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->sorting, arena.used, error));
  }
  point_keys_kernel<<<cuda_blocks(p.num_points, BLOCK), BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("point_keys_kernel", error));
  return cuda_check(sort_points(run, p, cub, &bytes), "cub::DeviceRadixSort", error);
}
