// Ascending order: of rows by their cells' keys; and of all points by their cells, if the list of one cell's points is
// too long for a block to sort in shared memory (CUDA_SHARED_LIST).
//
// In grids of up to CUDA_MARKED_CELLS, a row's place is the number of marks before the mark of its cell (voxelize.cuh).
// In larger grids cub sorts the rows; the host must know their number first.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/radix_sort.cuh"
#include "kernels/cuda/base/scan.cuh"

enum { BLOCK = 256 };

// ---- rows by marks --------------------------------------------------------------------------------------------------

enum { PARTS = CUDA_MARK_WORDS / 4 };  // of 16 bytes, in a group of marks

static __device__ uint32_t marks_in(uint4 part) {
  return __popc(part.x) + __popc(part.y) + __popc(part.z) + __popc(part.w);
}

// Called by a whole block. Counts the marks of a tile's groups.
static __device__ void count_tile(const struct voxel_view &v, uint32_t tile, uint32_t counts[CUDA_TILE]) {
  const uint4 *parts = (const uint4 *)v.marks + (uint64_t)tile * CUDA_TILE * PARTS;
  uint64_t here = (cuda_mark_groups(v.num_cells) - (uint64_t)tile * CUDA_TILE) * PARTS;
#pragma unroll
  for (int i = 0; i < CUDA_TILE * PARTS / SCAN_BLOCK; i++) {
    uint32_t part = i * SCAN_BLOCK + threadIdx.x, sum = part < here ? marks_in(parts[part]) : 0;
#pragma unroll
    for (int offset = PARTS / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (part % PARTS == 0) counts[part / PARTS] = sum;
  }
  __syncthreads();
}

static __global__ void __launch_bounds__(SCAN_BLOCK) count_marks_kernel(const __grid_constant__ struct voxel_view v) {
  __shared__ struct scan_shared shared;
  __shared__ uint32_t counts[CUDA_TILE];
  // The counters were clean before the previous kernel began.
  uint32_t tile = scan_next_tile(&v.counters->order_ticket, &shared);
  cuda_wait();
  count_tile(v, tile, counts);
  uint32_t begin = threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) items[k] = counts[begin + k];
  (void)scan_items(v.control->order_tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    if (items[k] != 0) v.marks_before[(uint64_t)tile * CUDA_TILE + begin + k] = (uint32_t)before[k];
}

// The number of marks before a cell's mark.
static __device__ uint32_t place_of(const struct voxel_view &v, uint64_t key) {
  uint64_t word = key / 32, group = word / CUDA_MARK_WORDS;
  uint32_t place = v.marks_before[group], within = (uint32_t)(word % CUDA_MARK_WORDS), rest = (1u << key % 32) - 1;
  const uint4 *parts = (const uint4 *)v.marks + group * PARTS;
#pragma unroll
  for (uint32_t i = 0; i < PARTS; i++) {
    if (4 * i <= within) {
      const uint4 part = parts[i];
      const uint32_t words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
      for (uint32_t k = 0; k < 4; k++)
        place += __popc(4 * i + k < within ? words[k] : 4 * i + k == within ? words[k] & rest : 0);
    }
  }
  return place;
}

static __global__ void __launch_bounds__(BLOCK) place_rows_kernel(const __grid_constant__ struct voxel_view v) {
  cuda_wait();
  uint32_t num_rows = v.counters->num_rows, step = gridDim.x * BLOCK;
  for (uint64_t row = blockIdx.x * BLOCK + threadIdx.x; row < num_rows; row += step) {
    if (!v.filtered || v.output_rows[row] != CUDA_NO_ROW) {
      uint32_t place = place_of(v, cuda_key_of_slot(v, cuda_record_of(v, (uint32_t)row).slot));
      v.output_rows[row] = place;
      v.rows_in_order[place] = (uint32_t)row;
    }
  }
}

enum vx_status cuda_order_rows(const struct cuda_run *run, struct error *error) {
  unsigned tiles = cuda_blocks(cuda_mark_groups(run->num_cells), CUDA_TILE);
  CUDA_TRY(cuda_launch("count_marks_kernel", count_marks_kernel, tiles, SCAN_BLOCK, 0, run, error, *run));
  return cuda_launch("place_rows_kernel", place_rows_kernel, cuda_looping_blocks(run, run->row_capacity, BLOCK, 8),
                     BLOCK, 0, run, error, *run);
}

// ---- rows by key ----------------------------------------------------------------------------------------------------

// Each array: [num_rows].
struct row_sort {
  uint32_t num_rows;
  uint64_t *keys, *sorted_keys;
  uint32_t *rows;
};

static __global__ void __launch_bounds__(BLOCK)
    row_keys_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct row_sort sort) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < sort.num_rows) {
    uint32_t row = v.filtered ? v.rows_in_order[i] : i;
    sort.keys[i] = v.table.keys[cuda_record_of(v, row).slot];
    sort.rows[i] = row;
  }
}

static __global__ void __launch_bounds__(BLOCK)
    number_rows_kernel(const __grid_constant__ struct voxel_view v, uint32_t num_rows) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < num_rows) v.output_rows[v.rows_in_order[i]] = i;
}

static int bits_of(uint64_t value) {
  int bits = 0;
  for (; value != 0; value >>= 1) bits++;
  return bits;
}

static enum vx_status sort_rows(const struct cuda_run *run, const struct row_sort &sort, void *cub, size_t *bytes,
                                struct error *error) {
  int bits = max(bits_of(run->num_cells - 1), 1);
  struct cuda_pairs<uint64_t> pairs = {
    sort.keys, sort.sorted_keys, sort.rows, run->rows_in_order, sort.num_rows, 0, bits
  };
  return cuda_sort_pairs(run, pairs, cub, bytes, error);
}

enum vx_status cuda_sort_rows(const struct cuda_run *run, struct error *error) {
  struct row_sort sort = {};
  sort.num_rows = run->sizes.num_output_rows;
  if (sort.num_rows == 0) return VX_OK;
  size_t bytes = 0;
  CUDA_TRY(sort_rows(run, sort, NULL, &bytes, error));
  unsigned char *cub = NULL;
  for (int pass = 0; pass < 2; pass++) {  // the first pass measures, the second takes the memory
    struct cuda_arena arena = {pass == 0 ? NULL : run->lane->sorting.memory, 0};
    take(&arena, &sort.keys, sort.num_rows);
    take(&arena, &sort.sorted_keys, sort.num_rows);
    take(&arena, &sort.rows, sort.num_rows);
    take(&arena, &cub, bytes);
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->sorting, arena.used, error));
  }
  row_keys_kernel<<<cuda_blocks(sort.num_rows, BLOCK), BLOCK, 0, run->stream>>>(*run, sort);
  CUDA_TRY(cuda_launched("row_keys_kernel", error));
  CUDA_TRY(sort_rows(run, sort, cub, &bytes, error));
  number_rows_kernel<<<cuda_blocks(sort.num_rows, BLOCK), BLOCK, 0, run->stream>>>(*run, sort.num_rows);
  return cuda_launched("number_rows_kernel", error);
}

// ---- points by cell -------------------------------------------------------------------------------------------------

// Each array: [num_points].
struct point_sort {
  uint32_t *begins, *sorted_begins;  // where the lists of the points' cells begin
  uint32_t *points;
};

static __global__ void __launch_bounds__(BLOCK)
    point_keys_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct point_sort sort) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < v.clouds.num_points) {
    sort.begins[i] = v.slots[i] == CUDA_NO_SLOT ? v.clouds.num_points : v.cells[v.slots[i]].hits;
    sort.points[i] = i;
  }
}

static enum vx_status sort_points(const struct cuda_run *run, const struct point_sort &sort, void *cub, size_t *bytes,
                                  struct error *error) {
  uint32_t count = run->clouds.num_points;
  struct cuda_pairs<uint32_t> pairs = {
    sort.begins, sort.sorted_begins, sort.points, run->lists, count, 0, bits_of(count)
  };
  return cuda_sort_pairs(run, pairs, cub, bytes, error);
}

// The sort is stable: each cell's points stay in input order.
enum vx_status cuda_sort_lists(const struct cuda_run *run, struct error *error) {
  struct point_sort sort = {};
  uint32_t num_points = run->clouds.num_points;
  size_t bytes = 0;
  CUDA_TRY(sort_points(run, sort, NULL, &bytes, error));
  unsigned char *cub = NULL;
  for (int pass = 0; pass < 2; pass++) {
    struct cuda_arena arena = {pass == 0 ? NULL : run->lane->sorting.memory, 0};
    take(&arena, &sort.begins, num_points);
    take(&arena, &sort.sorted_begins, num_points);
    take(&arena, &sort.points, num_points);
    take(&arena, &cub, bytes);
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->sorting, arena.used, error));
  }
  point_keys_kernel<<<cuda_blocks(num_points, BLOCK), BLOCK, 0, run->stream>>>(*run, sort);
  CUDA_TRY(cuda_launched("point_keys_kernel", error));
  return sort_points(run, sort, cub, &bytes, error);
}
