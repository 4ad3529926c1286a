// From cells to rows and their lists: which row a point belongs to, how many points a row was hit by, and which
// points it keeps.
//
// With a small cap each point writes itself into its cell's part of the list, at the place that it took when it was
// inserted; a few threads a row then bring the first points to the front, in input order. They hold as many as there
// are threads, sorted, and merge what follows into them; points come nearly in order, so what follows is mostly too
// late. Rows of many points are left to a whole block. With a large cap or none the whole list is sorted, in shared
// memory if it fits; a longer one is made anew by going through all points.
//
// For the block filter, which goes through all lists point by point, all points are sorted by row; the sort is
// stable, so each row's points stay in input order.
#include <cub/block/block_scan.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/run.cuh"

enum { BLOCK = 256 };

// --- assign ---

struct assign_params {
  struct cuda_clouds clouds;
  const uint2 *places;  // [num_points]
  const struct cuda_slot *table;
  const uint32_t *cell_hits;  // [num_points]
  uint32_t max_rows;
  uint32_t row_capacity;
  uint32_t *rows;     // [num_points]
  uint32_t *numbers;  // [num_points], or NULL
  struct cuda_lists lists;
  bool fill_lists;
  struct cuda_tally *tally;
};

// The row of a cell, or row_capacity.
static __device__ uint32_t row_of(const struct assign_params &p, uint32_t point, uint32_t cell_number) {
  if (p.clouds.count == 1) {
    return cell_number < p.max_rows ? cell_number : p.row_capacity;
  }
  int32_t cloud = cuda_cloud_of_point(p.clouds, point);
  uint32_t number = cell_number - p.clouds.first_cell[cloud];
  return number < p.max_rows ? p.clouds.first_row[cloud] + number : p.row_capacity;
}

static __device__ uint32_t warp_sum(uint32_t value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(~0u, value, offset);
  }
  return value;
}

// The fates of a cell's points; asked for once a cell.
struct fates {
  uint32_t kept, over_cap, dropped;
};

static __device__ void close_cell(const struct assign_params &p, uint32_t row, uint32_t hits, uint32_t begin,
                                  struct fates *fates) {
  if (row == p.row_capacity) {
    fates->dropped = hits;
    return;
  }
  fates->kept = min(hits, p.lists.cap);
  fates->over_cap = hits - fates->kept;
  if (p.clouds.count > 1) {  // with a single cloud row and cell number are the same, and so are the arrays
    p.lists.hits[row] = hits;
    if (p.fill_lists) {
      p.lists.begins[row] = begin;
    }
  }
}

static __device__ void assign(const struct assign_params &p, uint32_t point, struct fates *fates) {
  uint2 place = p.places[point];
  uint32_t row = p.row_capacity;
  if (place.x != CUDA_NO_SLOT) {
    uint4 slot = *(const uint4 *)&p.table[place.x];
    uint32_t number = slot.x & CUDA_INDEX_MASK;
    row = row_of(p, point, number);
    if (p.fill_lists) {
      p.lists.points[slot.w + place.y] = point;
    }
    if (place.y == 0) {
      close_cell(p, row, p.cell_hits[number], slot.w, fates);
    }
  }
  p.rows[point] = row;
  if (p.numbers != NULL) {
    p.numbers[point] = point;
  }
}

static __global__ void __launch_bounds__(BLOCK) assign_kernel(const __grid_constant__ struct assign_params p) {
  __shared__ uint32_t sums[3];
  cuda_wait();
  if (threadIdx.x < 3) {
    sums[threadIdx.x] = 0;
  }
  __syncthreads();
  uint32_t point = blockIdx.x * BLOCK + threadIdx.x;
  struct fates fates = {0, 0, 0};
  if (point < p.clouds.num_points) {
    assign(p, point, &fates);
  }
  __syncwarp();
  uint32_t kept = warp_sum(fates.kept), over_cap = warp_sum(fates.over_cap), dropped = warp_sum(fates.dropped);
  if (threadIdx.x % 32 == 0) {
    atomicAdd(&sums[0], kept);
    atomicAdd(&sums[1], over_cap);
    atomicAdd(&sums[2], dropped);
  }
  __syncthreads();
  if (threadIdx.x < 3 && sums[threadIdx.x] != 0) {
    uint32_t *totals[3] = {&p.tally->kept, &p.tally->over_voxel_cap, &p.tally->over_max_voxels};
    atomicAdd(totals[threadIdx.x], sums[threadIdx.x]);
  }
}

enum vx_status cuda_assign(const struct cuda_run *run, struct vx_error *error) {
  struct assign_params p = {};
  p.clouds = run->clouds;
  p.places = run->places;
  p.table = run->table;
  p.cell_hits = run->cell_hits;
  p.max_rows = (uint32_t)run->params->max_voxels;
  p.row_capacity = run->row_capacity;
  p.rows = run->rows;
  p.numbers = run->numbers;
  p.lists = run->lists;
  p.fill_lists = run->lists_wanted && !run->sorted_lists;
  p.tally = run->tally;
  return cuda_launch("assign_kernel", assign_kernel, cuda_blocks(run->num_points, BLOCK), BLOCK, 0, run, p, error);
}

// --- lists cell by cell ---

struct lists_params {
  struct cuda_lists lists;
  const uint32_t *rows;  // [num_points]
  uint32_t num_points;
  uint32_t *big;  // [row_capacity]: rows whose sum is a tree, or NULL
  struct cuda_tally *tally;
};

enum {
  LONG_LIST = 128,     // lists longer than this are left to a whole block
  SHARED_LIST = 4096,  // longest list that a block sorts in shared memory
  WARP_LIST = 256,     // longest list that a warp does
  SCAN_ITEMS = 8,      // points of one thread where all points are gone through
};

static __device__ void note_big(uint32_t *big, struct cuda_tally *tally, uint32_t row, uint32_t hits) {
  if (big != NULL && hits > CUDA_SUM_GROUP) {
    big[atomicAdd(&tally->num_big, 1)] = row;
  }
}

// Sorts one value of each of `width` neighbouring threads.
template <int width> static __device__ uint32_t sort_values(uint32_t mask, uint32_t value) {
  uint32_t lane = threadIdx.x % width;
#pragma unroll
  for (int k = 2; k <= width; k *= 2) {
#pragma unroll
    for (int j = k / 2; j > 0; j /= 2) {
      uint32_t other = __shfl_xor_sync(mask, value, j, width);
      bool lower = ((lane & k) == 0) == ((lane & j) == 0);
      value = lower ? min(value, other) : max(value, other);
    }
  }
  return value;
}

// The `width` lowest of two sorted sequences, sorted.
template <int width> static __device__ uint32_t merge_values(uint32_t mask, uint32_t value, uint32_t other) {
  uint32_t lane = threadIdx.x % width;
  value = min(value, __shfl_sync(mask, other, width - 1 - lane, width));
#pragma unroll
  for (int j = width / 2; j > 0; j /= 2) {
    uint32_t partner = __shfl_xor_sync(mask, value, j, width);
    value = (lane & j) == 0 ? min(value, partner) : max(value, partner);
  }
  return value;
}

// The lowest of list[begin], list[begin + 1], ... in chunks of `width`, a chunk every `step`, sorted.
template <int width>
static __device__ uint32_t lowest_of(uint32_t mask, const uint32_t *list, uint32_t count, uint32_t begin,
                                     uint32_t step) {
  uint32_t lane = threadIdx.x % width, lowest = CUDA_NO_POINT;
  uint32_t next = begin + lane < count ? list[begin + lane] : CUDA_NO_POINT;
  for (uint64_t at = begin; at < count; at += step) {
    uint32_t value = next;
    next = at + step + lane < count ? list[at + step + lane] : CUDA_NO_POINT;
    uint32_t bound = __shfl_sync(mask, lowest, width - 1, width);
    if (__any_sync(mask, value < bound)) {
      lowest = merge_values<width>(mask, lowest, sort_values<width>(mask, value));
    }
  }
  return lowest;
}

// One row as a block: each warp finds the lowest of its part, the first warp the lowest of those sorted sequences.
static __device__ void order_long_list(const struct lists_params &p, uint32_t row, uint32_t *shared) {
  uint32_t *list = p.lists.points + p.lists.begins[row], count = p.lists.hits[row];
  uint32_t lowest = lowest_of<32>(~0u, list, count, threadIdx.x / 32 * 32, BLOCK);
  __syncthreads();
  shared[threadIdx.x] = lowest;
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int warp = 1; warp < BLOCK / 32; warp++) {
      lowest = merge_values<32>(~0u, lowest, shared[32 * warp + threadIdx.x]);
    }
    list[threadIdx.x] = lowest;
  }
}

template <int width>
static __global__ void __launch_bounds__(BLOCK) order_lists_kernel(const __grid_constant__ struct lists_params p) {
  __shared__ uint32_t values[BLOCK], long_rows[BLOCK / width], num_long;
  cuda_wait();
  uint32_t num_rows = p.tally->num_rows, blocks = (num_rows + BLOCK / width - 1) / (BLOCK / width);
  if (blockIdx.x >= blocks) {
    return;
  }
  if (threadIdx.x == 0) {
    num_long = 0;
  }
  __syncthreads();
  // Neighbouring rows are alike. Those of a whole warp each go to different blocks, so that the long ones do not wait
  // for each other; shorter ones stay together, so that the threads of a warp have as much to do.
  uint32_t row = width == 32 ? blockIdx.x + threadIdx.x / width * blocks : (blockIdx.x * BLOCK + threadIdx.x) / width;
  uint32_t lane = threadIdx.x % width;
  uint32_t mask = width == 32 ? ~0u : ((1u << (width % 32)) - 1) << (threadIdx.x % 32 / width * width);
  uint32_t count = row < num_rows ? p.lists.hits[row] : 0;
  if (count > LONG_LIST) {
    if (lane == 0) {
      long_rows[atomicAdd(&num_long, 1)] = row;
    }
  } else if (count > 1) {
    uint32_t *list = p.lists.points + p.lists.begins[row];
    uint32_t lowest = lowest_of<width>(mask, list, count, 0, width);
    if (lane < count) {
      list[lane] = lowest;
    }
  }
  __syncthreads();
  for (uint32_t i = 0; i < num_long; i++) {
    order_long_list(p, long_rows[i], values);
  }
}

// --- whole lists ---

template <int threads> static __device__ void sync_threads() {
  if (threads == 32) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

// Sorts a list in shared memory, which has room for the next power of two of its length, as a warp or as a block (a
// bitonic sort).
template <int threads> static __device__ void sort_list(uint32_t *list, uint32_t count, uint32_t *values) {
  uint32_t thread = threadIdx.x % threads, size = 2;
  while (size < count) {
    size *= 2;
  }
  for (uint32_t i = thread; i < size; i += threads) {
    values[i] = i < count ? list[i] : CUDA_NO_POINT;
  }
  for (uint32_t k = 2; k <= size; k *= 2) {
    for (uint32_t j = k / 2; j > 0; j /= 2) {
      sync_threads<threads>();
      for (uint32_t i = thread; i < size / 2; i += threads) {
        uint32_t low = 2 * i - (i & (j - 1)), high = low + j;
        uint32_t a = values[low], b = values[high];
        if ((a > b) == ((low & k) == 0)) {
          values[low] = b;
          values[high] = a;
        }
      }
    }
  }
  sync_threads<threads>();
  for (uint32_t i = thread; i < count; i += threads) {
    list[i] = values[i];
  }
  sync_threads<threads>();
}

// Makes a list anew, as a block: all points of the row, in input order.
static __device__ void collect_list(const struct lists_params &p, uint32_t row, uint32_t *list, uint32_t count) {
  typedef cub::BlockScan<uint32_t, BLOCK> scan;
  __shared__ scan::TempStorage temporary;
  uint32_t listed = 0;
  for (uint64_t begin = 0; begin < p.num_points && listed < count; begin += BLOCK * SCAN_ITEMS) {
    uint64_t first = begin + threadIdx.x * SCAN_ITEMS;
    uint32_t found = 0;
#pragma unroll
    for (int k = 0; k < SCAN_ITEMS; k++) {
      found |= (uint32_t)(first + k < p.num_points && p.rows[first + k] == row) << k;
    }
    uint32_t before, sum;
    scan(temporary).ExclusiveSum((uint32_t)__popc(found), before, sum);
    for (uint32_t at = listed + before; found != 0; found &= found - 1) {
      list[at++] = (uint32_t)first + __ffs(found) - 1;
    }
    listed += sum;
    __syncthreads();
  }
}

static __global__ void __launch_bounds__(BLOCK)
    order_whole_lists_kernel(const __grid_constant__ struct lists_params p) {
  __shared__ uint32_t values[SHARED_LIST], long_rows[BLOCK / 32], num_long;
  cuda_wait();
  uint32_t num_rows = p.tally->num_rows, blocks = (num_rows + BLOCK / 32 - 1) / (BLOCK / 32);
  if (blockIdx.x >= blocks) {
    return;
  }
  if (threadIdx.x == 0) {
    num_long = 0;
  }
  __syncthreads();
  uint32_t row = blockIdx.x + threadIdx.x / 32 * blocks, lane = threadIdx.x % 32;
  uint32_t count = row < num_rows ? p.lists.hits[row] : 0;
  if (lane == 0) {
    note_big(p.big, p.tally, row, count);
  }
  uint32_t *list = count > 1 ? p.lists.points + p.lists.begins[row] : NULL;
  if (count > WARP_LIST) {
    if (lane == 0) {
      long_rows[atomicAdd(&num_long, 1)] = row;
    }
  } else if (count > 32) {
    sort_list<32>(list, count, values + threadIdx.x / 32 * WARP_LIST);
  } else if (count > 1) {
    uint32_t lowest = lowest_of<32>(~0u, list, count, 0, 32);
    if (lane < count) {
      list[lane] = lowest;
    }
  }
  __syncthreads();
  for (uint32_t i = 0; i < num_long; i++) {
    uint32_t hits = p.lists.hits[long_rows[i]];
    list = p.lists.points + p.lists.begins[long_rows[i]];
    if (hits <= SHARED_LIST) {
      sort_list<BLOCK>(list, hits, values);
    } else {
      collect_list(p, long_rows[i], list, hits);
    }
  }
}

template <int width>
static enum vx_status launch_order_lists(const struct cuda_run *run, const struct lists_params &p,
                                         struct vx_error *error) {
  return cuda_launch("order_lists_kernel", order_lists_kernel<width>, cuda_blocks(run->row_capacity, BLOCK / width),
                     BLOCK, 0, run, p, error);
}

enum vx_status cuda_order_lists(const struct cuda_run *run, struct vx_error *error) {
  struct lists_params p = {run->lists, run->rows, run->num_points, run->big, run->tally};
  if (run->lists.cap > CUDA_SHORT_CAP) {
    return cuda_launch("order_whole_lists_kernel", order_whole_lists_kernel, cuda_blocks(run->row_capacity, BLOCK / 32),
                       BLOCK, 0, run, p, error);
  }
  if (run->lists.cap <= 8) {
    return launch_order_lists<8>(run, p, error);
  }
  if (run->lists.cap <= 16) {
    return launch_order_lists<16>(run, p, error);
  }
  return launch_order_lists<32>(run, p, error);
}

// --- sorted lists ---

struct begins_params {
  const uint32_t *sorted_rows;  // [num_points]
  uint32_t num_points, row_capacity;
  struct cuda_lists lists;
  uint32_t *big;  // [row_capacity], or NULL
  struct cuda_tally *tally;
};

static __global__ void __launch_bounds__(BLOCK) begins_kernel(struct begins_params p) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < p.num_points) {
    uint32_t row = p.sorted_rows[i];
    if (row != p.row_capacity && (i == 0 || p.sorted_rows[i - 1] != row)) {
      p.lists.begins[row] = i;
      note_big(p.big, p.tally, row, p.lists.hits[row]);
    }
  }
}

static int bits_of(uint64_t value) {
  int bits = 0;
  for (; value != 0; value >>= 1) {
    bits++;
  }
  return bits;
}

static cudaError_t sort_points(const struct cuda_run *run, void *temporary, size_t *bytes) {
  return cub::DeviceRadixSort::SortPairs(temporary, *bytes, (const uint32_t *)run->rows, run->sorted_rows,
                                         (const uint32_t *)run->numbers, run->lists.points, (int64_t)run->num_points, 0,
                                         bits_of(run->row_capacity), run->stream);
}

enum vx_status cuda_sort_lists(const struct cuda_run *run, struct vx_error *error) {
  size_t bytes = run->cub_bytes;
  CUDA_CALL(sort_points(run, run->cub, &bytes), error);
  struct begins_params p = {run->sorted_rows, run->num_points, run->row_capacity, run->lists, run->big, run->tally};
  begins_kernel<<<cuda_blocks(run->num_points, BLOCK), BLOCK, 0, run->stream>>>(p);
  return cuda_launched("begins_kernel", error);
}

// --- ordering of rows ---

struct order_params {
  struct vx_cell_map map;
  uint64_t cells[3];
  const float *points;
  uint32_t columns;
  struct cuda_clouds clouds;
  const uint32_t *first_points;
  const uint32_t *unordered;  // [num_rows]: row of each output row before ordering, or NULL where they are the same
  uint32_t num_rows;
  uint64_t *keys;         // [num_rows]: (cloud, x, y, z), at most VX_MAX_GRID_CELLS
  uint32_t *sorted;       // [num_rows]: rows, the payload
  uint32_t *output_rows;  // [row_capacity]
};

static __global__ void __launch_bounds__(BLOCK) order_keys_kernel(const __grid_constant__ struct order_params p) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i >= p.num_rows) {
    return;
  }
  uint32_t row = p.unordered != NULL ? p.unordered[i] : i;
  int32_t cloud = cuda_cloud_of_row(p.clouds, row), cell[3];
  const float *point = p.points + (uint64_t)cuda_first_of_row(p.clouds, p.first_points, cloud, row) * p.columns;
  vx_cell_of_point(&p.map, point[0], point[1], point[2], cell);
  p.keys[i] = (((uint64_t)cloud * p.cells[0] + cell[0]) * p.cells[1] + cell[1]) * p.cells[2] + cell[2];
  p.sorted[i] = row;
}

static __global__ void __launch_bounds__(BLOCK) order_rows_kernel(const __grid_constant__ struct order_params p) {
  uint32_t i = blockIdx.x * BLOCK + threadIdx.x;
  if (i < p.num_rows) {
    p.output_rows[p.sorted[i]] = i;
  }
}

static cudaError_t sort_rows(const struct cuda_run *run, uint32_t num_rows, void *temporary, size_t *bytes) {
  uint64_t cells = (uint64_t)run->grid.cells[0] * run->grid.cells[1] * run->grid.cells[2] * run->clouds.count;
  return cub::DeviceRadixSort::SortPairs(temporary, *bytes, (const uint64_t *)run->order_keys[0], run->order_keys[1],
                                         (const uint32_t *)run->rows_unordered, run->rows_in_order, (int64_t)num_rows,
                                         0, max(bits_of(cells - 1), 1), run->stream);
}

enum vx_status cuda_order(const struct cuda_run *run, uint32_t num_rows, struct vx_error *error) {
  struct order_params p = {};
  p.map = run->map;
  for (int axis = 0; axis < 3; axis++) {
    p.cells[axis] = (uint64_t)run->grid.cells[axis];
  }
  p.points = run->points;
  p.columns = run->columns;
  p.clouds = run->clouds;
  p.first_points = run->first_points;
  p.unordered = run->params->block_filter.enabled ? run->rows_in_order : NULL;
  p.num_rows = num_rows;
  p.keys = run->order_keys[0];
  p.sorted = run->rows_unordered;
  p.output_rows = run->output_rows;
  order_keys_kernel<<<cuda_blocks(num_rows, BLOCK), BLOCK, 0, run->stream>>>(p);
  CUDA_TRY(cuda_launched("order_keys_kernel", error));
  size_t bytes = run->cub_bytes;
  CUDA_CALL(sort_rows(run, num_rows, run->cub, &bytes), error);
  p.sorted = run->rows_in_order;
  order_rows_kernel<<<cuda_blocks(num_rows, BLOCK), BLOCK, 0, run->stream>>>(p);
  return cuda_launched("order_rows_kernel", error);
}

size_t cuda_filter_cub_bytes(const struct cuda_run *run);  // in filter.cu

enum vx_status cuda_measure_cub(const struct cuda_run *run, size_t *bytes, struct vx_error *error) {
  *bytes = 1;
  if (run->sorted_lists) {
    size_t need = 0;
    CUDA_CALL(sort_points(run, NULL, &need), error);
    *bytes = max(*bytes, need);
  }
  if (run->params->order == VX_ORDER_KEY) {
    size_t need = 0;
    CUDA_CALL(sort_rows(run, run->row_capacity, NULL, &need), error);
    *bytes = max(*bytes, need);
  }
  if (run->params->block_filter.enabled) {
    *bytes = max(*bytes, cuda_filter_cub_bytes(run));
  }
  return VX_OK;
}
