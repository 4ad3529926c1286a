// Ascending order: of rows by their cells' keys, and of all points by their cells if a list is too long for lists.cu.
//
// The rows of a grid that is not too large are ordered by marks, one bit a cell, that assign.cu or filter.cu has set
// (marks.cuh): a row's place is the number of marks before its own. Otherwise cub sorts the rows; for that the host
// must know their number.
#include "kernels/cuda/voxelize/order.cuh"

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/voxelize/marks.cuh"

enum { BLOCK = 256 };

// --- rows by marks ---

struct order_params {
  struct cuda_clouds clouds;
  const struct cuda_record *records;
  struct cuda_marks marks;
  uint32_t *before;  // [num_groups]: marks before each group
  uint32_t num_groups;
  uint64_t *tiles;
  bool filtered;            // output_rows says which rows are left
  uint32_t *output_rows;    // [row_capacity]
  uint32_t *rows_in_order;  // [row_capacity]
  struct cuda_tally *tally;
};

enum { PARTS = CUDA_MARK_WORDS / 4 };  // of 16 bytes, in a group

static __device__ uint32_t marks_in(uint4 part) {
  return __popc(part.x) + __popc(part.y) + __popc(part.z) + __popc(part.w);
}

// As a block: counts the marks of a tile's groups. Neighbouring threads read neighbouring parts.
static __device__ void count_tile(const struct order_params &p, uint32_t tile, uint32_t counts[CUDA_TILE]) {
  const uint4 *parts = (const uint4 *)p.marks.words + (uint64_t)tile * CUDA_TILE * PARTS;
  uint64_t here = (p.num_groups - (uint64_t)tile * CUDA_TILE) * PARTS;
#pragma unroll
  for (int i = 0; i < CUDA_TILE * PARTS / SCAN_BLOCK; i++) {
    uint32_t part = i * SCAN_BLOCK + threadIdx.x, sum = part < here ? marks_in(parts[part]) : 0;
#pragma unroll
    for (int offset = PARTS / 2; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(~0u, sum, offset);
    }
    if (part % PARTS == 0) {
      counts[part / PARTS] = sum;
    }
  }
  __syncthreads();
}

static __global__ void __launch_bounds__(SCAN_BLOCK) count_marks_kernel(const __grid_constant__ struct order_params p) {
  __shared__ struct scan_shared shared;
  __shared__ uint32_t counts[CUDA_TILE];
  // The tally was clean before the kernel ahead of this one began.
  uint32_t tile = scan_next_tile(&p.tally->order_ticket, &shared);
  cuda_wait();
  count_tile(p, tile, counts);
  uint32_t begin = threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    items[k] = counts[begin + k];
  }
  (void)scan_items(p.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (items[k] != 0) {
      p.before[(uint64_t)tile * CUDA_TILE + begin + k] = (uint32_t)before[k];
    }
  }
}

// The number of marks before that of a cell.
static __device__ uint32_t place_of(const struct order_params &p, uint64_t key) {
  uint64_t word = key / 32, group = word / CUDA_MARK_WORDS;
  uint32_t place = p.before[group], within = (uint32_t)(word % CUDA_MARK_WORDS), rest = (1u << key % 32) - 1;
  const uint4 *parts = (const uint4 *)p.marks.words + group * PARTS;
#pragma unroll
  for (uint32_t i = 0; i < PARTS; i++) {
    if (4 * i <= within) {
      const uint4 part = parts[i];
      const uint32_t words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
      for (uint32_t k = 0; k < 4; k++) {
        place += __popc(4 * i + k < within ? words[k] : 4 * i + k == within ? words[k] & rest : 0);
      }
    }
  }
  return place;
}

static __global__ void __launch_bounds__(BLOCK) place_rows_kernel(const __grid_constant__ struct order_params p) {
  cuda_wait();
  uint32_t num_rows = p.tally->num_rows, step = gridDim.x * BLOCK;
  for (uint64_t row = blockIdx.x * BLOCK + threadIdx.x; row < num_rows; row += step) {
    if (!p.filtered || p.output_rows[row] != CUDA_NO_ROW) {
      int32_t cloud = cuda_cloud_of_row(p.clouds, (uint32_t)row);
      struct cuda_record record = cuda_record_of_row(p.clouds, p.records, cloud, (uint32_t)row);
      uint32_t place = place_of(p, cuda_key_of_slot(p.marks, record.slot));
      p.output_rows[row] = place;
      p.rows_in_order[place] = (uint32_t)row;
    }
  }
}

enum vx_status cuda_order_rows(const struct cuda_run *run, struct error *error) {
  struct order_params p = {};
  p.clouds = run->clouds;
  p.records = run->records;
  p.marks = cuda_marks_of(run);
  p.before = run->marks_before;
  p.num_groups = (uint32_t)cuda_mark_groups(run->num_cells);
  p.tiles = run->control->order_tiles;
  p.filtered = run->params->block_filter.enabled;
  p.output_rows = run->output_rows;
  p.rows_in_order = run->rows_in_order;
  p.tally = run->tally;
  CUDA_TRY(cuda_launch("count_marks_kernel", count_marks_kernel, cuda_blocks(p.num_groups, CUDA_TILE), SCAN_BLOCK, 0,
                       run, p, error));
  return cuda_launch("place_rows_kernel", place_rows_kernel, cuda_looping_blocks(run, run->row_capacity, BLOCK, 8),
                     BLOCK, 0, run, p, error);
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

enum vx_status cuda_sort_rows(const struct cuda_run *run, struct error *error) {
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
enum vx_status cuda_sort_lists(const struct cuda_run *run, struct error *error) {
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
