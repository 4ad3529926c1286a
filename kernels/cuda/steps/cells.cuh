// A hash table of cells, for steps. The row that claims a slot owns a cell. A step keeps what it knows of a cell in its
// own arrays, at the owner's row.
//
// A slot is `use << 32 | owner`, where `use` numbers the uses of the table. Slots of earlier uses are free, so the
// table is cleared only if it is new, or if `use` is at its maximum. Every cloud has its own part.
#ifndef VOXELD_CUDA_CELLS_CUH
#define VOXELD_CUDA_CELLS_CUH

#include "kernels/cuda/base/table.cuh"
#include "kernels/cuda/steps/steps.cuh"

struct cuda_owners {
  uint64_t *slots;         // [num_points * slots_per_row]
  uint32_t use;            // the number of this use, from 1
  uint32_t slots_per_row;  // of each cloud's part of the table; at least half of the slots stay free
  struct cuda_table hash;  // only its seed is used
};

struct cuda_part {
  uint64_t begin, slots;
};

static __device__ inline struct cuda_part cuda_part_of(const struct cuda_owners &table,
                                                       const struct cuda_clouds &clouds, uint32_t row) {
  if (clouds.count == 1) return {0, (uint64_t)clouds.num_points * table.slots_per_row};
  int32_t cloud = cuda_cloud_of_point(clouds, row);
  uint64_t first = clouds.first_point[cloud], rows = clouds.first_point[cloud + 1] - first;
  return {first * table.slots_per_row, rows * table.slots_per_row};
}

static __device__ inline uint64_t cuda_home_of(const struct cuda_owners &table, const struct cuda_part &part,
                                               uint64_t key) {
  return __umul64hi(cuda_first_slot(table.hash, key), part.slots);
}

static __device__ inline uint64_t cuda_next_slot(const struct cuda_part &part, uint64_t at) {
  return at + 1 == part.slots ? 0 : at + 1;
}

static __device__ inline bool cuda_is_owned(const struct cuda_owners &table, uint64_t slot) {
  return slot >> 32 == table.use;
}

// Returns the owner of the row's cell; if the cell has none, the row becomes its owner. `is_same`: whether another row
// is in the same cell. A fence precedes the claim, so other rows see what a row has stored for its cell.
template <typename function>
static __device__ inline uint32_t cuda_claim(const struct cuda_owners &table, const struct cuda_part &part,
                                             uint64_t key, uint32_t row, const function &is_same) {
  uint64_t claim = (uint64_t)table.use << 32 | row;
  __threadfence();
  for (uint64_t at = cuda_home_of(table, part, key);; at = cuda_next_slot(part, at)) {
    unsigned long long *slot = (unsigned long long *)&table.slots[part.begin + at];
    uint64_t here = __ldcg(slot);
    if (!cuda_is_owned(table, here)) {
      uint64_t before = atomicCAS(slot, here, claim);
      if (before == here) return row;
      here = before;
    }
    if (is_same((uint32_t)here)) return (uint32_t)here;
  }
}

// The later of two rows of a cell, and the earlier of them. CUDA_NO_POINT: the cell has no other row yet.
struct cuda_later {
  uint32_t row, before;
};

// Claims the row's cell. If it has a row already, the earlier keeps the cell, and both are returned. So every row of a
// cell but the first is returned once as the later. The rest is as for cuda_claim.
template <typename function>
static __device__ inline struct cuda_later cuda_claim_first(const struct cuda_owners &table,
                                                            const struct cuda_part &part, uint64_t key, uint32_t row,
                                                            const function &is_same) {
  unsigned long long claim = (uint64_t)table.use << 32 | row;
  __threadfence();
  for (uint64_t at = cuda_home_of(table, part, key);; at = cuda_next_slot(part, at)) {
    unsigned long long *slot = (unsigned long long *)&table.slots[part.begin + at];
    uint64_t here = __ldcg(slot);
    if (!cuda_is_owned(table, here)) {
      uint64_t before = atomicCAS(slot, here, claim);
      if (before == here) return {CUDA_NO_POINT, CUDA_NO_POINT};
      here = before;
    }
    if (!is_same((uint32_t)here)) continue;
    if (row > (uint32_t)here) return {row, (uint32_t)here};
    uint32_t other = (uint32_t)atomicMin(slot, claim);
    return {max(row, other), min(row, other)};
  }
}

static inline enum vx_status cuda_take_owners(const struct cuda_chain *chain, struct cuda_owners *table,
                                              struct error *error) {
  struct vx_lane *lane = chain->run.lane;
  uint64_t rows = chain->rows.clouds.num_points;
  table->slots_per_row = rows < 1 << 19 ? 4 : 2;
  CUDA_TRY(cuda_reserve(lane, &lane->step_cells, rows * table->slots_per_row * sizeof *table->slots, error));
  if (lane->uses == 0 || lane->uses == UINT32_MAX) {
    CUDA_CALL(cudaMemsetAsync(lane->step_cells.memory, 0, lane->step_cells.bytes, lane->stream), error);
    lane->uses = 0;
  }
  table->slots = (uint64_t *)lane->step_cells.memory;
  table->use = ++lane->uses;
  memcpy(table->hash.seed, lane->seed, sizeof table->hash.seed);
  return VX_OK;
}

#endif
