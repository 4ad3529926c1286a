// The choice of cells, if max_voxels does not keep the first cells (struct vx_choice). Each cloud with more than
// max_voxels cells has its own choice.
//
//   rank   Finds the rank of each cell, and counts the ranks by their highest digit.
//   digit  Finds one more digit of the rank of the last cell that stays. Counts the ranks that begin with the digits
//          found so far, by their next digit.
//   count  Finds the last digit. Each block counts its cells with a lower rank, and its cells with this rank.
//   place  Moves the cells to their new numbers: first those that stay, then the others, both in order of appearance.
//
// Each block has a part of one cloud's cells. The counts of the parts before it say where its cells go.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/sections.cuh"

enum { BLOCK = 256, DIGITS = 1 << CUDA_DIGIT_BITS, EACH = DIGITS / BLOCK };
static_assert(EACH == 8, "a thread reads its counts as two uint4");

// The cells of a block: numbers begin .. end - 1.
struct part {
  int32_t cloud;
  bool chosen;          // the cloud has a choice; if not, the part is empty
  uint32_t number;      // among the parts of the cloud
  uint32_t first_cell;  // of the cloud
  uint32_t begin, end;
};

static __device__ struct part part_of(const struct voxel_view &v, const struct cuda_choice &choice) {
  struct part part;
  part.cloud = (int32_t)(blockIdx.x / choice.per_cloud);
  part.number = blockIdx.x % choice.per_cloud;
  part.first_cell = cuda_first_cell_of(v, part.cloud);
  uint32_t cells = cuda_first_cell_of(v, part.cloud + 1) - part.first_cell;
  part.chosen = cells > v.clouds.max_rows;
  cells = part.chosen ? cells : 0;
  uint64_t length = ((uint64_t)cells + choice.per_cloud - 1) / choice.per_cloud;
  length = (length + BLOCK - 1) / BLOCK * BLOCK;
  part.begin = part.first_cell + (uint32_t)min(part.number * length, (uint64_t)cells);
  part.end = part.first_cell + (uint32_t)min((part.number + 1) * length, (uint64_t)cells);
  return part;
}

// ---- digits of ranks ------------------------------------------------------------------------------------------------
//
// The digits of a rank, the highest first, have 11, 11 and 10 bits.

static __device__ int bits_of(int digit) { return digit < 2 ? CUDA_DIGIT_BITS : 32 - 2 * CUDA_DIGIT_BITS; }
static __device__ int shift_of(int digit) { return max(32 - (digit + 1) * CUDA_DIGIT_BITS, 0); }

static __device__ uint32_t *counts_of(const struct cuda_choice &choice, const struct part &part, int digit) {
  return choice.digits + ((uint64_t)part.cloud * CUDA_RANK_DIGITS + digit) * DIGITS;
}

// Called by a whole warp. Counts the digits of the threads with `counts`.
static __device__ void count_digit(const struct cuda_choice &choice, const struct part &part, int digit, bool counts,
                                   uint32_t rank) {
  uint32_t mask = __ballot_sync(~0u, counts), which = rank >> shift_of(digit) & ((1u << bits_of(digit)) - 1);
  if (counts) cuda_add_together(mask, counts_of(choice, part, digit), which);
  __syncwarp();
}

// Called by a whole block, once the digit `known` - 1 of the ranks is counted. Returns the first `known` digits of the
// rank of the last cell that stays. The first block of a cloud also stores them.
static __device__ struct cuda_last_cell find_last(const struct voxel_view &v, const struct cuda_choice &choice,
                                                  const struct part &part, int known) {
  __shared__ struct cuda_last_cell found;
  struct cuda_last_cell *stored = choice.last + (uint64_t)part.cloud * CUDA_RANK_DIGITS;
  struct cuda_last_cell last = {0, v.clouds.max_rows};
  if (known > 1) last = stored[known - 2];
  const uint4 *counts = (const uint4 *)counts_of(choice, part, known - 1) + threadIdx.x * (EACH / 4);
  const uint4 low = counts[0], high = counts[1];
  const uint32_t cells[EACH] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  uint32_t sum = 0, total;
#pragma unroll
  for (int i = 0; i < EACH; i++) sum += cells[i];
  uint32_t before = cuda_block_before(sum, &total);
  if (before < last.left && last.left <= before + sum) {
    bool is_found = false;
#pragma unroll
    for (uint32_t i = 0; i < EACH; i++) {
      if (!is_found && last.left <= before + cells[i]) {
        found = {last.digits << bits_of(known - 1) | (threadIdx.x * EACH + i), last.left - before};
        is_found = true;
      }
      before += cells[i];
    }
  }
  __syncthreads();
  if (part.number == 0 && threadIdx.x == 0) stored[known - 1] = found;
  return found;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK)
    rank_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_choice choice) {
  cuda_wait();
  struct part part = part_of(v, choice);
  for (uint32_t first = part.begin; first < part.end; first += BLOCK) {
    uint32_t number = first + threadIdx.x, rank = 0;
    if (number < part.end) {
      uint4 record = *(const uint4 *)&v.records[number];
      const float *point = v.points + (uint64_t)record.x * v.columns;
      int32_t cell[3];
      (void)vx_cell_of_point(&v.map, point[0], point[1], point[2], cell);
      rank = vx_voxel_rank(choice.by, &v.map, cell, record.y);
      choice.ranks[number] = rank;
      *(uint4 *)&choice.records[number] = record;
    }
    count_digit(choice, part, 0, number < part.end, rank);
  }
}

static __global__ void __launch_bounds__(BLOCK)
    digit_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_choice choice,
                 int digit) {
  cuda_wait();
  struct part part = part_of(v, choice);
  if (part.begin == part.end) return;
  struct cuda_last_cell last = find_last(v, choice, part, digit);
  for (uint32_t first = part.begin; first < part.end; first += BLOCK) {
    bool here = first + threadIdx.x < part.end;
    uint32_t rank = here ? choice.ranks[first + threadIdx.x] : 0;
    count_digit(choice, part, digit, here && rank >> shift_of(digit - 1) == last.digits, rank);
  }
}

static __global__ void __launch_bounds__(BLOCK)
    count_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_choice choice) {
  cuda_wait();
  struct part part = part_of(v, choice);
  if (part.begin == part.end) return;
  struct cuda_last_cell last = find_last(v, choice, part, CUDA_RANK_DIGITS);
  uint32_t lower = 0, tied = 0;
  for (uint32_t first = part.begin; first < part.end; first += BLOCK) {
    bool here = first + threadIdx.x < part.end;
    uint32_t rank = here ? choice.ranks[first + threadIdx.x] : 0;
    lower += __syncthreads_count(here && rank < last.digits);
    tied += __syncthreads_count(here && rank == last.digits);
  }
  if (threadIdx.x == 0) choice.counts[blockIdx.x] = make_uint2(lower, tied);
}

// Called by a whole block.
static __device__ uint2 count_before(const struct cuda_choice &choice, const struct part &part) {
  uint2 sum = make_uint2(0, 0), all;
  for (uint32_t i = threadIdx.x; i < part.number; i += BLOCK) {
    uint2 counts = choice.counts[blockIdx.x - part.number + i];
    sum.x += counts.x;
    sum.y += counts.y;
  }
  (void)cuda_block_before(sum.x, &all.x);
  (void)cuda_block_before(sum.y, &all.y);
  return all;
}

static __global__ void __launch_bounds__(BLOCK)
    place_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_choice choice) {
  cuda_wait();
  struct part part = part_of(v, choice);
  if (!part.chosen) return;
  struct cuda_last_cell last = choice.last[(uint64_t)part.cloud * CUDA_RANK_DIGITS + CUDA_RANK_DIGITS - 1];
  uint2 before = part.begin < part.end ? count_before(choice, part) : make_uint2(0, 0);  // empty parts have no counts
  for (uint32_t first = part.begin; first < part.end; first += BLOCK) {
    uint32_t number = first + threadIdx.x, in_block;
    bool here = number < part.end;
    uint32_t rank = here ? choice.ranks[number] : 0;
    uint32_t is_lower = here && rank < last.digits, is_tied = here && rank == last.digits;
    uint32_t upto = cuda_block_before(is_lower << 16 | is_tied, &in_block);  // both are at most BLOCK
    uint32_t lower = before.x + (upto >> 16), tied = before.y + (upto & 0xFFFF);
    uint32_t stay_before = lower + min(tied, last.left);
    bool stays = is_lower || (is_tied && tied < last.left);
    if (here) {
      uint32_t go_before = number - part.first_cell - stay_before;
      uint32_t place = part.first_cell + (stays ? stay_before : v.clouds.max_rows + go_before);
      uint4 record = *(const uint4 *)&choice.records[number];
      *(uint4 *)&v.records[place] = record;
      v.cells[record.w].first = place;
    }
    before.x += in_block >> 16;
    before.y += in_block & 0xFFFF;
  }
  uint32_t *digits = counts_of(choice, part, 0);
  for (uint32_t i = part.number * BLOCK + threadIdx.x; i < CUDA_RANK_DIGITS * DIGITS; i += choice.per_cloud * BLOCK)
    digits[i] = 0;
}

// ---- launches -------------------------------------------------------------------------------------------------------

void cuda_plan_choice(struct cuda_run *run) {
  uint32_t blocks = cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 4);
  run->choice.by = run->params->choice.voxels_by;
  run->choice.per_cloud = max(blocks / (uint32_t)run->clouds.count, 1u);
}

enum vx_status cuda_choose(const struct cuda_run *run, struct error *error) {
  const struct cuda_choice &choice = run->choice;
  uint64_t blocks = (uint64_t)run->clouds.count * choice.per_cloud;
  CUDA_TRY(cuda_launch("rank_kernel", rank_kernel, blocks, BLOCK, 0, run, error, *run, choice));
  for (int digit = 1; digit < CUDA_RANK_DIGITS; digit++)
    CUDA_TRY(cuda_launch("digit_kernel", digit_kernel, blocks, BLOCK, 0, run, error, *run, choice, digit));
  CUDA_TRY(cuda_launch("count_kernel", count_kernel, blocks, BLOCK, 0, run, error, *run, choice));
  return cuda_launch("place_kernel", place_kernel, blocks, BLOCK, 0, run, error, *run, choice);
}
