// Steps on a GPU. kernels/steps.h has the rules.
//
// A step is a function cuda_step_NAME in NAME.cu, on the thread that has the lane. It only enqueues kernels in the
// lane's stream: no size comes back to the host, and nothing is compacted. Its kernels take the chain's rows by value,
// and the step's own arguments (4 KB in all). A step launches them like this:
//
//   cuda_launch("name_kernel", name_kernel, blocks, threads, 0, &chain->run, error, chain->rows, ...)
//
// Every kernel calls cuda_wait() (device.cuh) before it touches memory. A kernel that drops rows calls
// cuda_begin_step() at first, in all threads of each block, and cuda_end_step(rows) when the block's work is done: a
// block counts fates in shared memory, and then adds them to the step's. The last kernel of a step calls both, because
// cuda_end_step also notes when the step has ended. The first kernel of a step takes its rows as arrival.cuh says, or
// the step calls cuda_settle_rows before it.
//
// A step has the whole scratch of the lane. cuda_step_scratch lays out its arrays, which are not cleared.
// cuda_take_scan takes a scan over the rows; the scan's states are clear. A kernel that may take more than some
// milliseconds checks rows.stop (stop.cuh). The lane's table of cells, its counters and its tiles belong to the
// operation.
#ifndef VOXELD_CUDA_STEPS_CUH
#define VOXELD_CUDA_STEPS_CUH

#include "kernels/cuda/base/chain.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/half.h"

// The x of a row that was dropped is NaN.
static __device__ inline bool cuda_is_left(float x) { return x == x; }

// The number of rows that the block has dropped for its own step, by fate.
static __device__ inline uint32_t *cuda_own_fates(void) {
  __shared__ uint32_t fates[VX_FATE_COUNT];
  return fates;
}

// The same for what is done before the step (arrival.cuh).
static __device__ inline uint32_t *cuda_fates_before(void) {
  __shared__ uint32_t fates[VX_FATE_COUNT];
  return fates;
}

static __device__ inline void cuda_begin_step(void) {
  if (threadIdx.x < VX_FATE_COUNT) cuda_own_fates()[threadIdx.x] = cuda_fates_before()[threadIdx.x] = 0;
  __syncthreads();
}

// Called by a whole block, after a barrier. Adds its counts to those of a step.
static __device__ inline void cuda_add_fates(const struct cuda_chain_rows &r, uint8_t step, const uint32_t *fates) {
  if (threadIdx.x < VX_FATE_COUNT && fates[threadIdx.x] != 0)
    atomicAdd(&r.counters->fates[step][threadIdx.x], fates[threadIdx.x]);
}

// Drops a row that is left, for a step. `fates`: the block's counts for that step.
static __device__ inline void cuda_drop_for(const struct cuda_chain_rows &r, uint8_t step, uint32_t *fates,
                                            uint32_t row, enum vx_fate fate) {
  r.points[(uint64_t)row * r.columns] = vx_bits_float(VX_FLOAT_NAN);
  r.fates[row] = (uint8_t)fate;
  r.steps[row] = step;
  atomicAdd(&fates[fate], 1);
}

static __device__ inline void cuda_drop(const struct cuda_chain_rows &r, uint32_t row, enum vx_fate fate) {
  cuda_drop_for(r, r.number, cuda_own_fates(), row, fate);
}

// As cuda_drop. The row `head` represents this row.
static __device__ inline void cuda_merge(const struct cuda_chain_rows &r, uint32_t row, uint32_t head) {
  cuda_drop(r, row, VX_FATE_MERGED);
  if (r.heads) r.heads[row] = (int32_t)head;
}

static __device__ inline void cuda_end_step(const struct cuda_chain_rows &r) {
  __syncthreads();
  cuda_add_fates(r, r.number, cuda_own_fates());
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&r.counters->ended[r.number], cuda_now());
}

// Makes room in the lane's scratch. `lay_out` takes the arrays from a struct cuda_arena; it is called twice.
template <typename function>
static inline enum vx_status cuda_step_scratch(struct cuda_chain *chain, struct error *error, const function &lay_out) {
  struct cuda_memory *scratch = &chain->run.lane->scratch;
  struct cuda_arena measured = {}, arena = {};
  lay_out(&measured);
  CUDA_TRY(cuda_reserve(chain->run.lane, scratch, measured.used, error));
  arena.memory = scratch->memory;
  lay_out(&arena);
  return VX_OK;
}

// If this row is the first of a cloud, notes the rows left before that cloud and before the empty clouds ahead of it.
// For empty clouds at the end the number stays undefined.
static __device__ inline void cuda_note_clouds(const struct cuda_chain_rows &r, uint32_t row, uint32_t before) {
  int32_t cloud = cuda_cloud_of_point(r.clouds, row);
  for (; cloud >= 0 && r.clouds.first_point[cloud] == row; cloud--) r.counters->cloud_rows[cloud] = before;
}

struct cuda_scan {
  uint64_t *tiles;  // [num_tiles]: its states
  uint32_t *ticket;
  uint32_t num_tiles;
};

enum { STEP_SCANS = 2 };  // scans that a step may take

// Takes a scan whose states are clear. The end of the job clears them again.
static inline struct cuda_scan cuda_take_scan(struct cuda_chain *chain) {
  uint64_t words = chain->scan_words, *tiles = chain->scans + words * chain->num_scans++;
  return {tiles, (uint32_t *)(tiles + words - 1), (uint32_t)(words - 1)};
}

typedef enum vx_status cuda_step(struct cuda_chain *chain, const struct vx_step *step, struct error *error);
#define X(type, name) cuda_step cuda_step_##name;
VX_STEPS(X)
#undef X

// Enqueues a kernel that brings and moves the rows, if that is not done yet (arrival.cuh).
VX_WARN_UNUSED enum vx_status cuda_settle_rows(struct cuda_chain *chain, struct error *error);

// Counts the fates by section, if the job has sections. No row may be dropped later.
VX_WARN_UNUSED enum vx_status cuda_count_chain(const struct cuda_chain *chain, struct error *error);

// Fills row_counts with the rows that the chain left, once they are numbered and the host has awaited the sizes.
void cuda_read_rows(const struct cuda_run *run, int64_t left);

// The operation of a job that only has a chain.
VX_WARN_UNUSED enum vx_status cuda_points(struct cuda_run *run, struct error *error);

typedef enum vx_status cuda_job(struct vx_lane *lane, struct vx_job *job, struct error *error);

// Runs the job's chain, then the operation on the rows that are left. Fills the job's report. The operation also writes
// the tensors of the chain (chain.cuh).
VX_WARN_UNUSED enum vx_status cuda_run_chain(struct vx_lane *lane, struct vx_job *job, cuda_job *operation,
                                             struct error *error);

#endif
