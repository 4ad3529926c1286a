// Sorts the list of each row into input order. Without a cap it also computes the rows' means, because their sums are
// trees over the whole sorted lists.
//
// A thread sorts a list of up to CUDA_TINY_LIST points in its registers, a warp a list of up to CUDA_WARP_LIST. For a
// list of up to CUDA_SHARED_LIST, the warps of a block sort parts, which are then merged in shared memory. A longer
// list is left unsorted: the host, which learns the length of the longest list, then calls cuda_sort_lists. With
// UNATTENDED, for the step `downsample`, a block lists the points of such a row again, by a search through all points.
#ifndef VOXELD_CUDA_LISTS_CUH
#define VOXELD_CUDA_LISTS_CUH

#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/voxelize/sort.cuh"
#include "kernels/half.h"

enum { LISTS_BLOCK = 256, LISTS_WARPS = LISTS_BLOCK / 32, WARP_ITEMS = CUDA_WARP_LIST / 32 };

// Which lists a kernel orders. One kernel for all kinds would take a third longer for plain lists.
enum lists {
  PLAIN,      // all points of each row
  PICKED,     // the picked points of each row (v.picked)
  UNATTENDED  // all points of each row, and nobody waits for the length of the longest list
};

// `hits` becomes the number of points that are sorted.
template <enum lists lists> static __device__ struct cuda_record record_of(const struct voxel_view &v, uint32_t row) {
  struct cuda_record record = cuda_record_of(v, row);
  if (lists == PICKED) record.hits = cuda_listed(v, record.hits);
  return record;
}

// ---- means ----------------------------------------------------------------------------------------------------------

// Sums groups of CUDA_SUM_GROUP of the `count` rows in `from`, column by column. `to`: [groups, columns].
template <int threads>
static __device__ void sum_groups(const float *from, float *to, uint32_t columns, uint32_t count) {
  uint64_t groups = (count + CUDA_SUM_GROUP - 1) / CUDA_SUM_GROUP;
  for (uint64_t item = threadIdx.x % threads; item < groups * columns; item += threads) {
    uint64_t group = item / columns, column = item % columns, begin = group * CUDA_SUM_GROUP;
    uint32_t length = (uint32_t)min((uint64_t)CUDA_SUM_GROUP, count - begin);
    to[item] = sum_column<8>(from + begin * columns, columns, NULL, length, (uint32_t)column);
  }
}

// The mean of a sorted list: sums groups of CUDA_SUM_GROUP points, then groups of these sums, and so on. The sums of a
// list with more than one group begin at row begin / (CUDA_SUM_GROUP / 4) + 1 of tree_sums, where the sums of all
// levels end before those of the next list.
template <int threads>
static __device__ void tree_mean(const struct voxel_view &v, uint32_t row, uint32_t begin, const uint32_t *list,
                                 uint32_t count) {
  uint32_t columns = v.columns, thread = threadIdx.x % threads;
  uint64_t groups = (count + CUDA_SUM_GROUP - 1) / CUDA_SUM_GROUP;
  float *mean = v.means + (uint64_t)row * columns;
  float *sums = groups == 1 ? mean : v.tree_sums + (uint64_t)(begin / (CUDA_SUM_GROUP / 4) + 1) * columns;
  for (uint64_t item = thread; item < groups * columns; item += threads) {
    uint64_t first = item / columns * CUDA_SUM_GROUP;
    uint32_t length = (uint32_t)min((uint64_t)CUDA_SUM_GROUP, count - first);
    sums[item] =
        sum_column<(CUDA_SUM_GROUP - 1) / 3>(v.points, columns, list + first, length, (uint32_t)(item % columns));
  }
  while (groups > 1) {
    sync_threads<threads>();
    float *next = sums + groups * columns;
    sum_groups<threads>(sums, next, columns, (uint32_t)groups);
    sums = next;
    groups = (groups + CUDA_SUM_GROUP - 1) / CUDA_SUM_GROUP;
  }
  sync_threads<threads>();
  for (uint32_t column = thread; column < columns; column += threads)
    mean[column] = vx_canonical(sums[column] / (float)count);
}

// A `use` (see below) that does nothing, for jobs that need only the sorted lists or the means.
struct cuda_unused {
  __device__ void operator()(uint32_t, uint32_t, uint32_t, const float *) const {}
};

// With v.means, computes the mean of a sorted list, then calls `use` for each of its points. Else stores the list.
template <int threads, typename function>
static __device__ void use_list(const struct voxel_view &v, uint32_t row, const struct cuda_record &record,
                                const uint32_t *sorted, const function &use) {
  uint32_t *list = v.lists + record.begin;
  sync_threads<threads>();
  if (!v.means && sorted != list)
    for (uint32_t i = threadIdx.x % threads; i < record.hits; i += threads) list[i] = sorted[i];
  if (v.means) tree_mean<threads>(v, row, record.begin, sorted, record.hits);
  sync_threads<threads>();
  for (uint32_t i = threadIdx.x % threads; v.means && i < record.hits; i += threads)
    use(sorted[i], sorted[0], record.hits, v.means + (uint64_t)row * v.columns);
  sync_threads<threads>();
}

// ---- sorting --------------------------------------------------------------------------------------------------------

// Called by a whole warp. Sorts up to CUDA_WARP_LIST points.
static __device__ void sort_short_list(const uint32_t *list, uint32_t count, uint32_t *sorted) {
  if (count <= 32)
    sort_in_warp<1>(list, count, sorted);
  else if (count <= 64)
    sort_in_warp<2>(list, count, sorted);
  else if (count <= 128)
    sort_in_warp<4>(list, count, sorted);
  else
    sort_in_warp<WARP_ITEMS>(list, count, sorted);
}

// Merging from[begin .. middle) and from[middle .. end): how many of the first `count` merged items come from the first
// sequence. No two items are equal.
static __device__ uint32_t split_merge(const uint32_t *from, uint32_t begin, uint32_t middle, uint32_t end,
                                       uint32_t count) {
  uint32_t low = count > end - middle ? count - (end - middle) : 0, high = min(count, middle - begin);
  while (low < high) {
    uint32_t at = (low + high) / 2;
    if (from[begin + at] < from[middle + count - 1 - at])
      low = at + 1;
    else
      high = at;
  }
  return low;
}

// Called by a whole block. Merges sorted parts of `part` items in pairs. Each thread makes `each` items of the result;
// `each` divides `part`.
static __device__ void merge_parts(const uint32_t *from, uint32_t *to, uint32_t count, uint32_t part, uint32_t each) {
  uint32_t first = threadIdx.x * each, last = min(first + each, count);
  if (first >= count) return;
  uint32_t begin = first / (2 * part) * (2 * part), middle = min(begin + part, count),
           end = min(begin + 2 * part, count);
  uint32_t a = begin + split_merge(from, begin, middle, end, first - begin), b = middle + (first - begin) - (a - begin);
#pragma unroll 1
  for (uint32_t i = first; i < last; i++) {
    bool is_a = a < middle && (b >= end || from[a] < from[b]);
    to[i] = from[is_a ? a : b];
    a += is_a;
    b += !is_a;
  }
}

// Called by a whole block. Sorts up to CUDA_SHARED_LIST points. Returns the sorted list, in one of `buffers`.
static __device__ const uint32_t *sort_long_list(const uint32_t *list, uint32_t count,
                                                 uint32_t buffers[2][CUDA_SHARED_LIST]) {
  for (uint32_t begin = threadIdx.x / 32 * CUDA_WARP_LIST; begin < count; begin += LISTS_WARPS * CUDA_WARP_LIST)
    sort_short_list(list + begin, min(count - begin, (uint32_t)CUDA_WARP_LIST), buffers[0] + begin);
  uint32_t from = 0, each = 2;
  while (each * LISTS_BLOCK < count) each *= 2;
  for (uint32_t part = CUDA_WARP_LIST; part < count; part *= 2, from ^= 1) {
    __syncthreads();
    merge_parts(buffers[from], buffers[from ^ 1], count, part, each);
  }
  return buffers[from];
}

// Called by a whole block. Searches all points for those of a row. Ends early if the job is stopped; the list then has
// points of the row in any order, some of them twice.
static __device__ const uint32_t *list_in_order(const struct voxel_view &v, const struct cuda_record &record) {
  enum { LOOK_POINTS = 1024 * LISTS_BLOCK };
  uint32_t *list = v.lists + record.begin, listed = 0, found;
  for (uint64_t first = record.first_point; listed < record.hits; first += LISTS_BLOCK, listed += found) {
    uint64_t searched = first - record.first_point;
    if (searched % LOOK_POINTS == 0 && cuda_is_stopped(v.stop, searched > 0 || blockIdx.x == 0)) break;
    uint64_t point = first + threadIdx.x;
    bool is_mine = point < v.clouds.num_points && v.slots[point] == record.slot;
    uint32_t before = cuda_block_before(is_mine, &found);
    if (is_mine) list[listed + before] = (uint32_t)point;
  }
  return list;
}

template <enum lists lists, typename function>
static __device__ void order_long_list(const struct voxel_view &v, bool ready, uint32_t row,
                                       uint32_t buffers[2][CUDA_SHARED_LIST], const function &use) {
  struct cuda_record record = record_of<lists>(v, row);
  if (ready)
    use_list<LISTS_BLOCK>(v, row, record, v.lists + record.begin, use);
  else if (record.hits <= CUDA_SHARED_LIST)
    use_list<LISTS_BLOCK>(v, row, record, sort_long_list(v.lists + record.begin, record.hits, buffers), use);
  else if (lists == UNATTENDED)
    use_list<LISTS_BLOCK>(v, row, record, list_in_order(v, record), use);
}

// Called by a whole warp.
template <enum lists lists, typename function>
static __device__ void order_list(const struct voxel_view &v, bool ready, uint32_t row, uint32_t *sorted,
                                  const function &use) {
  struct cuda_record record = record_of<lists>(v, row);
  const uint32_t *list = v.lists + record.begin;
  if (!ready) sort_short_list(list, record.hits, sorted);
  use_list<32>(v, row, record, ready ? list : sorted, use);
}

// Sorts by exchanges of neighbours.
static __device__ void sort_tiny_list(uint32_t list[CUDA_TINY_LIST]) {
#pragma unroll
  for (int round = 0; round < CUDA_TINY_LIST; round++) {
#pragma unroll
    for (int i = round % 2; i + 1 < CUDA_TINY_LIST; i += 2) {
      uint32_t low = min(list[i], list[i + 1]);
      list[i + 1] = max(list[i], list[i + 1]);
      list[i] = low;
    }
  }
}

// Called by a thread. Ignores lists of more than CUDA_TINY_LIST points.
template <enum lists lists, typename function>
static __device__ void order_tiny_list(const struct voxel_view &v, uint32_t row, const function &use) {
  struct cuda_record record = record_of<lists>(v, row);
  uint32_t list[CUDA_TINY_LIST], hits = record.hits;
  if (hits > CUDA_TINY_LIST) return;
#pragma unroll
  for (uint32_t i = 0; i < CUDA_TINY_LIST; i++) list[i] = i < hits ? v.lists[record.begin + i] : CUDA_NO_POINT;
  sort_tiny_list(list);
  if (!v.means) {
#pragma unroll
    for (uint32_t i = 0; i < CUDA_TINY_LIST; i++)
      if (i < hits) v.lists[record.begin + i] = list[i];
    return;
  }
  for (uint32_t column = 0; column < v.columns; column++) {
    float values[CUDA_TINY_LIST];
#pragma unroll
    for (uint32_t i = 0; i < CUDA_TINY_LIST; i++)
      if (i < hits) values[i] = v.points[(uint64_t)list[i] * v.columns + column];
    float sum = values[0];
#pragma unroll
    for (uint32_t i = 1; i < CUDA_TINY_LIST; i++)
      if (i < hits) sum += values[i];
    v.means[(uint64_t)row * v.columns + column] = vx_canonical(sum / (float)hits);
  }
#pragma unroll
  for (uint32_t i = 0; i < CUDA_TINY_LIST; i++)
    if (i < hits) use(list[i], list[0], hits, v.means + (uint64_t)row * v.columns);
}

// Called by whole blocks of LISTS_BLOCK threads. `ready`: the lists are sorted already. If means are computed, calls
// `use(point, first point of the list, number of its points, mean)` for each point, and does not store the sorted list.
template <enum lists lists, typename function>
static __device__ void order_lists(const struct voxel_view &v, bool ready, const function &use) {
  __shared__ uint32_t buffers[2][CUDA_SHARED_LIST];
  cuda_wait();
  uint32_t num_rows = v.counters->num_rows, num_short = v.counters->num_short, num_long = v.counters->num_long;
  for (uint32_t i = blockIdx.x; i < num_long; i += gridDim.x) {
    order_long_list<lists>(v, ready, v.queue[v.row_capacity - 1 - i], buffers, use);
    __syncthreads();
  }
  uint32_t *sorted = buffers[0] + threadIdx.x / 32 * CUDA_WARP_LIST;
  uint64_t num_tasks = num_short + ((uint64_t)num_rows + 31) / 32;  // of warps
  for (uint64_t task = blockIdx.x + (uint64_t)(threadIdx.x / 32) * gridDim.x; task < num_tasks;
       task += (uint64_t)LISTS_WARPS * gridDim.x) {
    uint64_t row = (task - num_short) * 32 + threadIdx.x % 32;
    if (task < num_short)
      order_list<lists>(v, ready, v.queue[task], sorted, use);
    else if (row < num_rows)
      order_tiny_list<lists>(v, (uint32_t)row, use);
  }
}

static inline unsigned cuda_list_blocks(const struct cuda_run *run) {
  return cuda_looping_blocks(run, run->row_capacity, LISTS_BLOCK / CUDA_TINY_LIST, 3);
}

#endif
