// A chain of steps on a GPU.
//
//   bring    Brings the points from the host, de-skews them if the job asks for that, and drops rows that are not
//            finite. Notes the rows at which a turn of the sensor begins (rings.h), if a step or a range image counts
//            turns. The first kernel of the first step does this, or settle_kernel (arrival.cuh).
//   steps    Each enqueues its own kernels, which count the fates that they give.
//   number   Numbers the rows that are left, by a scan, if something needs the numbers.
//   count    Counts the fates of all steps by section, if there are sections.
//
// Serialization does the last two itself, since it drops rows after the last step. The chain's counters are told to the
// host and cleared together with the operation's (publish.cuh, transfer.cu).
//
// The rows are in the lane's block `chain_rows`; the lane's scratch is for the steps and the operation.
#include "kernels/cuda/base/cylinder.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/cuda/steps/arrival.cuh"
#include "kernels/samples.h"

enum { BLOCK = BRING_BLOCK };

// ---- bring ----------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK) settle_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                              const __grid_constant__ struct cuda_arrival arrival) {
  cuda_begin_rows(r, arrival);
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < r.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    struct location at[1] = {};
    cuda_take_rows(r, arrival, first, at);
  }
  __syncthreads();
  cuda_add_fates(r, arrival.number, cuda_fates_before());
  if (arrival.transforms && threadIdx.x == 0)
    atomicMax((unsigned long long *)&r.counters->ended[arrival.number], cuda_now());
}

enum vx_status cuda_settle_rows(struct cuda_chain *chain, struct error *error) {
  struct cuda_arrival *arrival = chain->arrival;
  if (!arrival->brings && !arrival->transforms) return VX_OK;
  unsigned blocks = cuda_looping_blocks(&chain->run, chain->rows.clouds.num_points, BLOCK, 4);
  CUDA_TRY(cuda_launch("settle_kernel", settle_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, *arrival));
  arrival->brings = arrival->transforms = false;
  return VX_OK;
}

// ---- number ---------------------------------------------------------------------------------------------------------

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
    if (r.clouds.count > 1) cuda_note_clouds(r, (uint32_t)(begin + k), (uint32_t)before[k]);
  }
}

// ---- count ----------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK) count_kernel(const __grid_constant__ struct cuda_chain_rows r,
                                                             const __grid_constant__ struct cuda_sections sections) {
  cuda_wait();
  uint64_t row = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
  uint32_t fate = row < r.clouds.num_points ? r.fates[row] : VX_FATE_KEPT;
  uint32_t dropped = __ballot_sync(~0u, fate != VX_FATE_KEPT);
  if (fate != VX_FATE_KEPT)
    cuda_add_together(dropped, r.counters->section_fates[0],
                      cuda_section_of(sections, (uint32_t)row) * VX_FATE_COUNT + fate);
}

enum vx_status cuda_count_chain(const struct cuda_chain *chain, struct error *error) {
  const struct cuda_sections *sections = &chain->run.sections;
  unsigned blocks = cuda_blocks(chain->rows.clouds.num_points, BLOCK);
  if (sections->count == 0) return VX_OK;
  return cuda_launch("count_kernel", count_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows, *sections);
}

// ---- the chain ------------------------------------------------------------------------------------------------------

// Whether something needs row_of: tensors of the chain, the counts by cloud of a job that only has a chain, the first
// sample, or a serialization.
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

static void lay_out(struct cuda_chain *chain, struct cuda_arena *arena) {
  const struct vx_job *job = chain->run.job;
  struct cuda_chain_rows *rows = &chain->rows;
  uint64_t points = chain->run.clouds.num_points;
  cuda_take_points(&chain->run, arena);
  if (!chain->run.source && !vx_is_narrow(chain->run.dtype) && vx_chain_reads_body(job)) {
    float *copy;  // turns are found in the body's rows, but the first step may move the rows of the chain
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

// The counters, then the states of the scans. Each chain leaves them cleared.
static enum vx_status take_control(struct cuda_chain *chain, struct error *error) {
  struct vx_lane *lane = chain->run.lane;
  struct cuda_memory *control = &lane->chain_control;
  uint64_t scans = (uint64_t)chain->run.job->chain->count * STEP_SCANS + 1;
  chain->scan_words = (uint64_t)cuda_blocks(chain->run.clouds.num_points, CUDA_TILE) + 1;
  size_t bytes = sizeof *chain->rows.counters + scans * chain->scan_words * sizeof *chain->scans;
  CUDA_TRY(cuda_reserve(lane, control, bytes, error));
  if (!lane->chain_clean) CUDA_CALL(cudaMemsetAsync(control->memory, 0, control->bytes, lane->stream), error);
  lane->chain_clean = false;  // until the end of this job
  chain->rows.counters = (struct cuda_chain_counters *)control->memory;
  chain->scans = (uint64_t *)(chain->rows.counters + 1);
  chain->run.stop = {&chain->run.commands->stop, &chain->rows.counters->told, cuda_next_sequence(lane)};
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
  CUDA_TRY(take_control(chain, error));
  chain->rows.stop = chain->run.stop;
  return VX_OK;
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

static enum vx_status plan_arrival(struct cuda_chain *chain, struct error *error) {
  struct cuda_arrival *arrival = chain->arrival;
  CUDA_TRY(cuda_copy_source(&chain->run, error));
  if (chain->run.clouds.count > 1) CUDA_TRY(cuda_fetch_clouds(&chain->run, error));
  arrival->brings = true;
  arrival->number = chain->run.job->chain->count > 0;
  return cuda_deskews(&chain->run)
             ? cuda_plan_deskew(&chain->run, &chain->rows.counters->deskew, &arrival->deskew, error)
             : VX_OK;
}

static enum vx_status run_steps(struct cuda_chain *chain, struct error *error) {
  const struct vx_chain *asked = chain->run.job->chain;
  unsigned blocks = cuda_blocks(chain->rows.clouds.num_points, BLOCK);
  CUDA_TRY(plan_arrival(chain, error));
  for (int32_t i = 0; i < asked->count; i++) {
    chain->rows.number = (uint8_t)(i + 1);
    CUDA_TRY(step_of(asked->steps[i].type)(chain, &asked->steps[i], error));
  }
  chain->rows.number = 0;
  CUDA_TRY(cuda_settle_rows(chain, error));
  if (chain->cylinder)
    CUDA_TRY(cuda_launch("cylinder_kernel", cylinder_kernel, blocks, BLOCK, 0, &chain->run, error, chain->rows,
                         chain->cylinder));
  if (chain->run.job->op == VX_SERIALIZE) return VX_OK;
  if (chain->row_of) {
    struct cuda_scan scan = cuda_take_scan(chain);
    CUDA_TRY(cuda_launch("number_kernel", number_kernel, scan.num_tiles, SCAN_BLOCK, 0, &chain->run, error, chain->rows,
                         scan, chain->row_of));
  }
  return cuda_count_chain(chain, error);
}

// ---- a job that only has a chain ------------------------------------------------------------------------------------

// The rows left of a cloud: those left before the next cloud, minus those left before this one.
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

// The steps last until the operation begins or, if the operation does not note that, until the host is told the counts.
static void add_times(const struct cuda_chain *chain) {
  struct vx_job *job = chain->run.job;
  const struct cuda_device_status *status = (const struct cuda_device_status *)chain->run.lane->status;
  const struct cuda_chain_counters *told = &status->chain;
  const uint64_t *moments = status->counters.moments;
  uint64_t end = moments[CUDA_BEGUN] != 0 ? moments[CUDA_BEGUN] : moments[CUDA_FOUND];
  job->stage_ns[VX_STAGE_COPY_IN] += (int64_t)(told->ended[0] - told->begun);
  job->stage_ns[VX_STAGE_STEPS] = (int64_t)(end - told->ended[0]);
}

// Runs the operation on the chain's rows in place of the body.
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
  struct cuda_arrival arrival = {};
  struct cuda_chain chain = {};
  chain.arrival = &arrival;
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
