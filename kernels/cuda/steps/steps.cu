// A chain of steps on a GPU: cuda_run_chain, at the end of this file, shows all of it.
//
//   bring    Brings the points from the host, de-skews them if the job asks for that, and drops rows that are not
//            finite. Notes the turns if a step counts them. Moves the rows if this is the first step.
//   steps    Each enqueues its own kernels.
//   number   Numbers the rows that are left, by a scan, if something needs the numbers.
//   count    Counts the fates by step, and those of all steps by section. Its last block writes the counts to the
//            host's memory. The operation's kernels come later, so the host has the counts once it has the operation's
//            sizes.
//
// The rows are the lane's block `chain`, so that steps and operation have the lane's scratch for themselves.
#include "kernels/cuda/steps/steps.cuh"

#include "kernels/cuda/base/cylinder.cuh"
#include "kernels/cuda/base/deskew.cuh"
#include "kernels/cuda/base/moving.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/samples.h"
#include "kernels/step_ring_outlier.h"

enum { BLOCK = BRING_BLOCK, STEP_FATES = (VX_MAX_STEPS + 1) * VX_FATE_COUNT };

// ---- bring ----------------------------------------------------------------------------------------------------------

// The y of a row as it arrived.
static __device__ float y_of(const struct cuda_chain_rows &r, const struct cuda_deskew *deskew, uint64_t row) {
  struct location at;
  at.y = vx_load(r.dtype, r.source, row * r.columns + 1);
  if (!deskew) return at.y;
  at.x = vx_load(r.dtype, r.source, row * r.columns);
  at.z = vx_load(r.dtype, r.source, row * r.columns + 2);
  (void)cuda_deskew_row(*deskew, row, false, &at);
  return at.y;
}

// Called by a whole block, whose first row is `first`. Notes where turns begin. `deskew`: NULL if there is none.
static __device__ void note_turns(const struct cuda_chain_rows &r, const struct cuda_deskew *deskew, uint64_t first,
                                  uint32_t count, const struct location &at) {
  uint64_t row = first + threadIdx.x;
  bool here = threadIdx.x < count, is_first = !here || row == 0;
  if (here && r.clouds.count > 1) is_first = r.clouds.first_point[cuda_cloud_of_point(r.clouds, (uint32_t)row)] == row;
  float before = __shfl_up_sync(~0u, at.y, 1);
  if (threadIdx.x % 32 == 0 && !is_first) before = y_of(r, deskew, row - 1);
  uint32_t turns = __ballot_sync(~0u, !is_first && vx_is_turn(before, at.x, at.y));
  if (threadIdx.x % 32 == 0 && here) r.turns[row / 32] = turns;
}

// Called by all threads, with the first step's number in `r`. Without any step, the operation drops the rows that are
// not finite. `deskew`: NULL if there is none. `use`: what a first step without a kernel does with a row that is left,
// given x, y, z. Returns its fate.
template <typename function>
static __device__ void bring_all(const struct cuda_chain_rows &r, const struct cuda_deskew *deskew,
                                 const function &use) {
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) r.counters->begun = cuda_now();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < r.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, r.clouds.num_points - first);
    struct location at = bring(r, first, count, [&](uint64_t row, struct location *moved) {
      return deskew && cuda_deskew_row(*deskew, row, true, moved);
    });
    if (first + (uint64_t)gridDim.x * BLOCK >= r.clouds.num_points) cuda_let_next();
    if (r.turns) note_turns(r, deskew, first, count, at);
    if (threadIdx.x >= count) continue;
    uint32_t row = (uint32_t)first + threadIdx.x;
    r.fates[row] = VX_FATE_KEPT;
    r.steps[row] = 0;
    enum vx_fate fate = vx_are_finite(at.x, at.y, at.z) ? use(row, at) : VX_FATE_NOT_FINITE;
    if (fate != VX_FATE_KEPT) cuda_drop(r, row, fate);
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&r.counters->ended[0], cuda_now());
}

static __global__ void __launch_bounds__(BLOCK) bring_kernel(const __grid_constant__ struct cuda_chain_rows r) {
  bring_all(
      r, NULL, [](uint32_t, const struct location &) { return VX_FATE_KEPT; });
}

// De-skew, a transform as the first step, or both.
static __global__ void __launch_bounds__(BLOCK)
    bring_and_move_kernel(const __grid_constant__ struct cuda_chain_rows r,
                          const __grid_constant__ struct cuda_deskew deskew,
                          const __grid_constant__ struct cuda_moving moving, bool transforms) {
  bring_all(r, deskew.times ? &deskew : NULL, [&](uint32_t row, const struct location &at) {
    return transforms ? cuda_move(r, moving, row, at) : VX_FATE_KEPT;
  });
  if (transforms) cuda_end_step(r);
}

// ---- number ---------------------------------------------------------------------------------------------------------

// If this row is the first of a cloud, notes the number of rows left before that cloud and before the empty clouds
// ahead of it. For empty clouds at the end the number stays undefined.
static __device__ void note_clouds(const struct cuda_chain_rows &r, uint32_t row, uint32_t before) {
  int32_t cloud = cuda_cloud_of_point(r.clouds, row);
  for (; cloud >= 0 && r.clouds.first_point[cloud] == row; cloud--) r.counters->cloud_rows[cloud] = before;
}

static __global__ void __launch_bounds__(SCAN_BLOCK)
    number_kernel(const __grid_constant__ struct cuda_chain_rows r, const __grid_constant__ struct cuda_scan scan,
                  int32_t *row_of) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile(scan.ticket, &shared);
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++)
    items[k] = begin + k < r.clouds.num_points && cuda_is_left(r.points[(begin + k) * r.columns]) ? 1 : 0;
  (void)scan_items(scan.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (begin + k >= r.clouds.num_points) continue;
    row_of[begin + k] = items[k] != 0 ? (int32_t)before[k] : ~(int32_t)before[k];
    if (r.clouds.count > 1) note_clouds(r, (uint32_t)(begin + k), (uint32_t)before[k]);
  }
}

// ---- count ----------------------------------------------------------------------------------------------------------

// What the last block tells the host, and what it clears for the lane's next chain.
struct telling {
  struct cuda_chain_counters *told;  // host
  uint64_t *scans;                   // [num_words]
  uint64_t num_words;
};

// Called by the last block.
static __device__ void tell(const struct cuda_chain_rows &r, uint32_t num_sections, const struct telling &to) {
  volatile uint32_t *words = (volatile uint32_t *)r.counters;
  const volatile uint32_t *fates = r.counters->fates[0], *of_sections = r.counters->section_fates[0];
  uint32_t *told_fates = to.told->fates[0], *told_sections = to.told->section_fates[0];
  for (uint32_t i = threadIdx.x; i < STEP_FATES; i += BLOCK) told_fates[i] = fates[i];
  for (uint32_t i = threadIdx.x; i < num_sections * VX_FATE_COUNT; i += BLOCK) told_sections[i] = of_sections[i];
  for (int32_t i = (int32_t)threadIdx.x; i < r.clouds.count; i += BLOCK)
    to.told->cloud_rows[i] = r.counters->cloud_rows[i];
  if (threadIdx.x == 0) {
    to.told->begun = r.counters->begun;
    to.told->counted = cuda_now();
    to.told->deskew = r.counters->deskew;
  }
  if (threadIdx.x <= VX_MAX_STEPS) to.told->ended[threadIdx.x] = r.counters->ended[threadIdx.x];
  __threadfence_system();
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < sizeof *r.counters / sizeof *words; i += BLOCK) words[i] = 0;
  for (uint64_t i = threadIdx.x; i < to.num_words; i += BLOCK) to.scans[i] = 0;
}

// A block counts by step in shared memory. The counts by section go to the device's memory, warp by warp.
// Waits in turn: the first kernel of a voxelization reads the rows before that kernel waits itself.
static __global__ void __launch_bounds__(BLOCK)
    count_kernel(const __grid_constant__ struct cuda_chain_rows r,
                 const __grid_constant__ struct cuda_sections sections, const __grid_constant__ struct telling to) {
  __shared__ uint32_t fates[STEP_FATES];
  cuda_wait_in_turn();
  for (uint32_t i = threadIdx.x; i < STEP_FATES; i += BLOCK) fates[i] = 0;
  __syncthreads();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < r.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t row = (uint32_t)first + threadIdx.x;
    bool here = first + threadIdx.x < r.clouds.num_points;
    uint32_t fate = here ? r.fates[row] : VX_FATE_KEPT;
    bool dropped = fate != VX_FATE_KEPT && sections.count > 0;
    uint32_t all = __ballot_sync(~0u, here), some = __ballot_sync(~0u, dropped);
    if (here) cuda_add_together(all, fates, r.steps[row] * VX_FATE_COUNT + fate);
    if (dropped)
      cuda_add_together(some, r.counters->section_fates[0], cuda_section_of(sections, row) * VX_FATE_COUNT + fate);
    __syncwarp();
  }
  __syncthreads();
  uint32_t *of_all = r.counters->fates[0];
  for (uint32_t i = threadIdx.x; i < STEP_FATES; i += BLOCK)
    if (fates[i] != 0) atomicAdd(&of_all[i], fates[i]);
  if (cuda_last_block(&r.counters->count_ticket, gridDim.x)) tell(r, (uint32_t)sections.count, to);
}

// ---- the chain ------------------------------------------------------------------------------------------------------

// Whether something needs the scan: the tensors of the chain, the counts by cloud of a job that only has a chain, or
// the first sample.
static bool numbers_rows(const struct vx_job *job) {
  vx_tensor_set readers =
      VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES) | VX_TENSOR_BIT(VX_POINT_ROWS);
  bool alone = (vx_operations[job->op].tensors & ~VX_CHAIN_TENSORS) == 0;
  bool ranked = vx_starts_at_rank(job) && job->params.fps.sampling.start > 0;
  return (job->tensors & readers) != 0 || (alone && job->num_clouds > 1) || ranked || job->op == VX_SERIALIZE;
}

static uint32_t count_matrices(const struct vx_job *job) {
  uint32_t matrices = 0;
  for (int32_t i = 0; i < job->chain->count; i++) {
    const struct vx_step *step = &job->chain->steps[i];
    if (step->type == VX_STEP_TRANSFORM && step->params.transform.num_matrices > 1)
      matrices += (uint32_t)step->params.transform.num_matrices;
  }
  return matrices;
}

static bool has_cylinder(const struct vx_job *job) {
  return job->op == VX_VOXELIZE && job->params.voxelize.coordinates == VX_CYLINDER;
}

static __global__ void __launch_bounds__(BLOCK)
    cylinder_kernel(const __grid_constant__ struct cuda_chain_rows r, float *cylinder) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  if (row >= r.clouds.num_points) return;
  const float *point = r.points + row * r.columns;
  vx_cylinder_row(vx_cylinder_rho(point[0], point[1]), cuda_phi(point[0], point[1]), point, (int32_t)r.columns,
                  cylinder + row * (r.columns + VX_CYLINDER_EXTRA));
}

// Runs twice: over an empty arena to measure, then over the lane's block.
static void lay_out(struct cuda_chain *chain, struct cuda_arena *arena) {
  const struct vx_job *job = chain->run.job;
  struct cuda_chain_rows *rows = &chain->rows;
  uint64_t points = chain->run.clouds.num_points;
  cuda_take_points(&chain->run, arena);
  if (!chain->run.source && !vx_is_narrow(chain->run.dtype) && vx_chain_reads_body(job)) {
    float *copy;  // a first step may move rows whose turns are not counted yet
    take(arena, &copy, points * chain->run.columns);
    chain->run.source_copy = copy;
  }
  cuda_take_clouds(&chain->run, arena);
  if (has_cylinder(job)) take(arena, &chain->cylinder, points * (chain->run.columns + VX_CYLINDER_EXTRA));
  take(arena, &rows->fates, points);
  take(arena, &rows->steps, points);
  if (vx_chain_needs_heads(job)) take(arena, &rows->heads, points);
  if (vx_chain_reads_body(job)) take(arena, &rows->turns, (points + 31) / 32);
  if (numbers_rows(job)) take(arena, &chain->row_of, points);
  take(arena, &chain->matrices, (uint64_t)count_matrices(job) * VX_MATRIX_VALUES);
}

// The counters, then the states of the scan. Each chain leaves them cleared.
static enum vx_status take_control(struct cuda_chain *chain, struct error *error) {
  struct vx_lane *lane = chain->run.lane;
  struct cuda_memory *control = &lane->chain_control;
  uint64_t scans = (uint64_t)chain->run.job->chain->count * STEP_SCANS + 1;
  size_t bytes = sizeof *chain->rows.counters + scans * cuda_scan_words(chain) * sizeof *chain->scans;
  CUDA_TRY(cuda_reserve(lane, control, bytes, error));
  if (!lane->chain_clean) CUDA_CALL(cudaMemsetAsync(control->memory, 0, control->bytes, lane->stream), error);
  lane->chain_clean = false;  // until the end of this job
  chain->rows.counters = (struct cuda_chain_counters *)control->memory;
  chain->scans = (uint64_t *)(chain->rows.counters + 1);
  return VX_OK;
}

static enum vx_status prepare(struct cuda_chain *chain, struct error *error) {
  struct cuda_arena measured = {}, arena = {};
  struct vx_lane *lane = chain->run.lane;
  void *source;
  CUDA_TRY(cuda_see_part(&chain->run, chain->run.input.data, cuda_input_bytes(&chain->run), &source, error));
  chain->run.source = source;
  lay_out(chain, &measured);
  CUDA_TRY(cuda_reserve(lane, &lane->chain_rows, measured.used, error));
  arena.memory = lane->chain_rows.memory;
  lay_out(chain, &arena);
  chain->run.source = source ? source : chain->run.source_copy;
  (struct cuda_points &)chain->rows = chain->run;
  chain->rows.clouds = chain->run.clouds;
  return take_control(chain, error);
}

static cuda_step *step_of(enum vx_step_type type) {
  switch (type) {
#define X(type, name)                                                                                                  \
  case VX_STEP_##type: return cuda_step_##name;
    VX_STEPS(X)
#undef X
    case VX_STEP_TYPES: break;
  }
  return NULL;
}

// Enqueues what brings the rows. Returns in `done` how many steps this includes.
static enum vx_status bring_rows_left(struct cuda_chain *chain, int32_t *done, struct error *error) {
  const struct vx_chain *asked = chain->run.job->chain;
  unsigned blocks = cuda_looping_blocks(&chain->run, chain->rows.clouds.num_points, BLOCK, 4);
  CUDA_TRY(cuda_copy_source(&chain->run, error));
  if (chain->run.clouds.count > 1) CUDA_TRY(cuda_fetch_clouds(&chain->run, error));
  chain->rows.number = asked->count > 0;
  bool transforms = asked->count > 0 && asked->steps[0].type == VX_STEP_TRANSFORM, deskews = cuda_deskews(&chain->run);
  *done = transforms;
  if (!transforms && !deskews)
    return cuda_launch("bring_kernel", bring_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows);
  struct cuda_deskew deskew = {};
  struct cuda_moving moving = {};
  if (deskews) CUDA_TRY(cuda_plan_deskew(&chain->run, &chain->rows.counters->deskew, &deskew, error));
  if (transforms) CUDA_TRY(cuda_plan_moving(chain, &asked->steps[0].params.transform, &moving, error));
  return cuda_launch("bring_and_move_kernel", bring_and_move_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows,
                     deskew, moving, transforms);
}

// Enqueues everything up to the rows that are left.
static enum vx_status run_steps(struct cuda_chain *chain, struct error *error) {
  const struct vx_chain *asked = chain->run.job->chain;
  uint32_t points = chain->rows.clouds.num_points;
  unsigned blocks = cuda_looping_blocks(&chain->run, points, BLOCK, 4);
  int32_t done;
  CUDA_TRY(bring_rows_left(chain, &done, error));
  for (int32_t i = done; i < asked->count; i++) {
    chain->rows.number = (uint8_t)(i + 1);
    CUDA_TRY(step_of(asked->steps[i].type)(chain, &asked->steps[i], error));
  }
  chain->rows.number = 0;
  if (chain->cylinder)
    CUDA_TRY(cuda_launch("cylinder_kernel", cylinder_kernel, cuda_blocks(points, BLOCK), BLOCK, 0, &chain->run, error,
                         chain->rows, chain->cylinder));
  if (chain->run.job->op == VX_SERIALIZE) CUDA_TRY(cuda_drop_outside(chain, error));
  if (chain->row_of) {
    struct cuda_scan scan = cuda_take_scan(chain);
    CUDA_TRY(cuda_launch("number_kernel", number_kernel, scan.num_tiles, SCAN_BLOCK, 0, &chain->run, error, chain->rows,
                         scan, chain->row_of));
  }
  const struct telling to = {&chain->run.lane->status_on_device->chain, chain->scans,
                             chain->num_scans * cuda_scan_words(chain)};
  return cuda_launch("count_kernel", count_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows,
                     chain->run.sections, to);
}

// ---- a job that only has a chain ------------------------------------------------------------------------------------

// A cloud has the rows before the next cloud minus those before itself.
void cuda_read_rows(const struct cuda_run *run, int64_t left) {
  const volatile struct cuda_chain_counters *told = &run->lane->status->chain;
  int64_t after = left;
  for (int32_t cloud = run->clouds.count - 1; cloud >= 0; cloud--) {
    bool at_end = run->lane->commands->cloud_points[cloud] == run->clouds.num_points;
    int64_t before = run->clouds.count == 1 ? 0 : at_end ? left : told->cloud_rows[cloud];
    run->job->row_counts[cloud] = (int32_t)(after - before);
    after = before;
  }
}

enum vx_status cuda_points(struct cuda_run *run, struct error *error) {
  struct vx_job *job = run->job;
  if (run->clouds.num_points == 0) return run->tensors == 0 ? VX_OK : cuda_take_output(run, error);
  CUDA_TRY(cuda_prepare_control(run, error));
  CUDA_TRY(cuda_publish(run, run->sequence, error));
  CUDA_TRY(cuda_read_counters(run, run->sequence, error));
  cuda_read_chain(run->lane);
  job->counts.kept = job->report->left;
  job->counts.not_finite = job->counts.received - job->counts.kept;
  cuda_read_rows(run, job->report->left);
  if (run->tensors == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_take_output(run, error));
  if (run->layout.bytes > 0) CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
  return cuda_finish_output(run, error);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

// The steps last until all is counted, or until the operation begins: it may begin before the end of the count.
static void add_times(const struct cuda_chain *chain) {
  struct vx_job *job = chain->run.job;
  const struct cuda_device_status *status = (const struct cuda_device_status *)chain->run.lane->status;
  const struct cuda_chain_counters *told = &status->chain;
  uint64_t begun = status->counters.moments[CUDA_BEGUN];
  job->stage_ns[VX_STAGE_COPY_IN] += (int64_t)(told->ended[0] - told->begun);
  job->stage_ns[VX_STAGE_STEPS] =
      (int64_t)((begun != 0 && begun < told->counted ? begun : told->counted) - told->ended[0]);
}

// The operation runs on the rows that are left, in place of the body.
static enum vx_status operate(struct cuda_chain *chain, cuda_job *operation, struct error *error) {
  struct vx_job *job = chain->run.job;
  struct vx_lane *lane = chain->run.lane;
  lane->chain = chain;
  enum vx_status status = operation(lane, job, error);
  if (status == VX_OK) {
    cuda_read_chain(lane);
    vx_settle_chain(job);
    add_times(chain);
  }
  lane->chain = NULL;
  return status;
}

enum vx_status cuda_run_chain(struct vx_lane *lane, struct vx_job *job, cuda_job *operation, struct error *error) {
  CUDA_TRY(vx_begin_job(job, error));
  if (job->counts.received == 0) return operation(lane, job, error);
  if (cuda_is_folded(job)) {
    CUDA_TRY(operation(lane, job, error));
    vx_settle_chain(job);
    return VX_OK;
  }
  struct cuda_chain chain = {};
  chain.run = cuda_read_job(lane, job);
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  enum vx_status status = prepare(&chain, error);
  if (status == VX_OK) status = run_steps(&chain, error);
  if (status == VX_OK) status = operate(&chain, operation, error);
  if (status != VX_OK) {
    // The caller takes its memory back after this, so no copy from that memory may still run.
    (void)cudaStreamSynchronize(lane->stream);
    (void)cudaGetLastError();
  }
  lane->chain_clean = status == VX_OK;
  return status;
}
