// A transform on a GPU: cuda_transform, at the end of this file. Runs on the thread that has the lane.
//
//   judge  Brings the points from the host and moves them. One bit per point says whether it is kept.
//   list   Lists the kept points in input order, by a scan over the bits.
//   write  Moves the kept points again and writes them into the image of the output, once the host knows their number.
//
// Moving a point twice saves memory for moved points.
#include "kernels/cuda/transform/transform.cuh"

#include <string.h>

#include "kernels/cuda/base/bring.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/cuda/base/tensors.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/point_transform.h"

enum { BLOCK = BRING_BLOCK, WORD = 32 };
static_assert((int)BLOCK == (int)SCAN_BLOCK && WORD % SCAN_ITEMS == 0, "a thread's items are bits of one word");

// The matrices that move the points: one for all clouds, passed by value, or one per cloud in the device's memory.
struct matrices {
  float one[VX_MATRIX_VALUES];
  const float *each;  // [num_clouds, 16], or NULL
};

// A job as the kernels see it.
struct transform {
  struct matrices matrices;
  struct vx_transform params;
  struct vx_box cuts[VX_MAX_CUTS];
  uint32_t *bits;  // [num_points / 32]: whether each point is kept
  uint32_t *kept;  // [num_points]: the kept points, in input order
};

static __device__ const float *matrix_of(const struct matrices &matrices, const struct cuda_clouds &clouds,
                                         uint32_t point) {
  return matrices.each ? matrices.each + (uint64_t)cuda_cloud_of_point(clouds, point) * VX_MATRIX_VALUES : matrices.one;
}

// ---- judge ----------------------------------------------------------------------------------------------------------

// Called by a whole warp. Counts the fates of its points by section.
static __device__ void count_by_section(const struct cuda_sections &sections, uint32_t *fates, bool here,
                                        uint32_t point, enum vx_fate fate) {
  uint32_t mask = __ballot_sync(~0u, here);
  if (here) cuda_add_together(mask, fates, cuda_section_of(sections, point) * CUDA_SECTION_FATES + (uint32_t)fate);
  __syncwarp();
}

static __global__ void __launch_bounds__(BLOCK)
    judge_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct transform transform,
                 const __grid_constant__ struct cuda_sections sections) {
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
  uint32_t strange = 0, outside = 0, cut = 0;  // of the warp
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, v.clouds.num_points - first);
    struct location at = bring(v, first, count);
    if (first + (uint64_t)gridDim.x * BLOCK >= v.clouds.num_points) {
      cuda_let_next();  // all of this block's points have arrived; the rest is short
      if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
    }
    bool here = threadIdx.x < count;
    uint32_t point = (uint32_t)first + (here ? threadIdx.x : 0);
    float moved[3];
    vx_move(matrix_of(transform.matrices, v.clouds, point), at.x, at.y, at.z, moved);
    enum vx_fate fate = vx_fate_of_moved(&transform.params, transform.cuts, moved);
    uint32_t bits = __ballot_sync(~0u, here && fate == VX_FATE_KEPT);
    strange += __popc(__ballot_sync(~0u, here && fate == VX_FATE_NOT_FINITE));
    outside += __popc(__ballot_sync(~0u, here && fate == VX_FATE_OUT_OF_CROP));
    cut += __popc(__ballot_sync(~0u, here && fate == VX_FATE_CUT_OUT));
    if (here && threadIdx.x % WORD == 0) transform.bits[point / WORD] = bits;
    if (sections.count > 0) count_by_section(sections, v.control->section_fates, here, point, fate);
  }
  if (threadIdx.x % WORD == 0) {
    atomicAdd(&v.counters->not_finite, strange);
    atomicAdd(&v.counters->out_of_crop, outside);
    atomicAdd(&v.counters->cut_out, cut);
  }
}

static enum vx_status judge(const struct cuda_run *run, const struct transform *transform, struct error *error) {
  return cuda_launch("judge_kernel", judge_kernel, cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 4), BLOCK, 0,
                     run, error, *run, *transform, run->sections);
}

// ---- list -----------------------------------------------------------------------------------------------------------

// If this point is the first of a cloud, notes the number of kept points before that cloud and before the empty clouds
// ahead of it. For empty clouds at the end the number stays undefined.
static __device__ void note_clouds(const struct cuda_view &v, uint32_t point, uint32_t before) {
  int32_t cloud = cuda_cloud_of_point(v.clouds, point);
  for (; cloud >= 0 && v.clouds.first_point[cloud] == point; cloud--) v.control->cloud_rows[cloud] = before;
}

static __global__ void __launch_bounds__(SCAN_BLOCK)
    list_kernel(const __grid_constant__ struct cuda_view v, const uint32_t *bits_of_points, uint32_t *kept) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile(&v.counters->number_ticket, &shared);
  uint32_t begin = tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint32_t bits = begin < v.clouds.num_points ? bits_of_points[begin / WORD] >> (begin % WORD) : 0;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) items[k] = bits >> k & 1;
  uint64_t total = scan_items(v.control->tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (items[k] != 0) kept[before[k]] = begin + k;
    if (v.clouds.count > 1 && (uint64_t)begin + k < v.clouds.num_points) note_clouds(v, begin + k, (uint32_t)before[k]);
  }
  if (tile == v.num_tiles - 1 && threadIdx.x == 0) v.counters->kept = v.counters->num_output_rows = (uint32_t)total;
}

static enum vx_status list(const struct cuda_run *run, const struct transform *transform, struct error *error) {
  return cuda_launch("list_kernel", list_kernel, run->num_tiles, SCAN_BLOCK, 0, run, error, *run,
                     (const uint32_t *)transform->bits, transform->kept);
}

// ---- write ----------------------------------------------------------------------------------------------------------

typedef struct cuda_tensors<VX_MOVED_POINTS, VX_POINT_INDICES> moved_tensors;

static __device__ float value_of(const struct cuda_view &v, const struct matrices &matrices, uint32_t point,
                                 uint32_t column) {
  const float *row = v.points + (uint64_t)point * v.columns;
  return column < 3 ? vx_moved_on_axis(matrix_of(matrices, v.clouds, point), column, row[0], row[1], row[2])
                    : row[column];
}

static __global__ void __launch_bounds__(BLOCK)
    write_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct matrices matrices,
                 const uint32_t *kept, uint32_t num_kept, const __grid_constant__ moved_tensors tensors) {
  cuda_wait();
  uint64_t begin = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, step = (uint64_t)gridDim.x * BLOCK;
  float *points = tensors.of<float>(VX_MOVED_POINTS);
  int32_t *indices = tensors.of<int32_t>(VX_POINT_INDICES);
  tensors.zero_gaps(begin);
  for (uint64_t i = begin; indices && i < num_kept; i += step) indices[i] = (int32_t)kept[i];
  uint64_t values = points ? (uint64_t)num_kept * v.columns : 0;
  for (uint64_t i = begin; i < values; i += step)
    points[i] = value_of(v, matrices, kept[i / v.columns], (uint32_t)(i % v.columns));
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_GATHERED], cuda_now());
}

static enum vx_status write(const struct cuda_run *run, const struct transform *transform, struct error *error) {
  uint32_t num_kept = run->sizes.num_output_rows;
  unsigned blocks = cuda_looping_blocks(run, (uint64_t)num_kept * run->columns, BLOCK, 8);
  return cuda_launch("write_kernel", write_kernel, blocks, BLOCK, 0, run, error, *run, transform->matrices,
                     (const uint32_t *)transform->kept, num_kept,
                     cuda_tensors_of<VX_MOVED_POINTS, VX_POINT_INDICES>(run));
}

// ---- the job --------------------------------------------------------------------------------------------------------

// Runs twice: over an empty arena to measure, then over the lane's scratch. Returns the room for the clouds' matrices.
static float *lay_out(struct cuda_run *run, struct transform *transform, struct cuda_arena *arena) {
  float *matrices;
  cuda_take_points(run, arena);
  cuda_take_clouds(run, arena);
  take(arena, &matrices, (uint64_t)run->clouds.count * VX_MATRIX_VALUES);
  take(arena, &transform->bits, cuda_blocks(run->clouds.num_points, WORD));
  take(arena, &transform->kept, run->clouds.num_points);
  return matrices;
}

static enum vx_status prepare(struct cuda_run *run, struct transform *transform, float **matrices,
                              struct error *error) {
  struct cuda_arena measured = {}, arena = {};
  void *source;
  transform->params = run->job->params.transform;
  for (int32_t i = 0; i < transform->params.num_cuts; i++) transform->cuts[i] = transform->params.cuts[i];
  CUDA_TRY(cuda_see_part(run, run->job->inputs[VX_POINTS].data, cuda_input_bytes(run), &source, error));
  run->source = source;
  run->num_tiles = cuda_blocks(run->clouds.num_points, CUDA_TILE);
  (void)lay_out(run, transform, &measured);
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->scratch, measured.used, error));
  arena.memory = run->lane->scratch.memory;
  *matrices = lay_out(run, transform, &arena);
  run->source = source ? source : run->source_copy;
  return cuda_prepare_control(run, error);
}

// Brings the first points of the clouds to the device, and their matrices to `room`.
static enum vx_status fetch(struct cuda_run *run, struct matrices *matrices, float *room, struct error *error) {
  const struct vx_input *matrix = &run->job->inputs[VX_MATRIX];
  bool several = matrix->dims[0] > 1;
  memcpy(matrices->one, vx_matrix_of(matrix, 0), sizeof matrices->one);
  if (run->clouds.count > 1) CUDA_TRY(cuda_fetch_clouds(run, error));
  if (several) {
    uint32_t values = (uint32_t)run->clouds.count * VX_MATRIX_VALUES;
    memcpy(run->lane->commands->matrices, matrix->data, values * sizeof(float));
    CUDA_TRY(cuda_fetch(run, run->commands->matrices, room, values, error));
    matrices->each = room;
  }
  return cuda_copy_source(run, error);
}

// A cloud's kept points: those before the next cloud minus those before this one.
static void read_rows(const struct cuda_run *run, const volatile struct cuda_device_status *status) {
  uint32_t after = run->sizes.kept;
  for (int32_t cloud = run->clouds.count - 1; cloud >= 0; cloud--) {
    bool at_end = run->lane->commands->cloud_points[cloud] == run->clouds.num_points;
    uint32_t before = run->clouds.count == 1 ? 0 : at_end ? run->sizes.kept : status->cloud_rows[cloud];
    run->job->row_counts[cloud] = (int32_t)(after - before);
    after = before;
  }
}

static enum vx_status read_sizes(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_read_counters(run, run->sequence, error));
  struct vx_job *job = run->job;
  job->counts.kept = run->sizes.kept;
  job->counts.not_finite = run->sizes.not_finite;
  job->counts.out_of_crop = run->sizes.out_of_crop;
  job->counts.cut_out = run->sizes.cut_out;
  read_rows(run, run->lane->status);
  cuda_read_sections(run);
  const uint64_t *moments = run->sizes.moments;
  job->stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  job->stage_ns[VX_STAGE_TRANSFORM] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  return VX_OK;
}

enum vx_status cuda_transform(struct cuda_run *run, struct error *error) {
  if (run->clouds.num_points == 0) return run->tensors == 0 ? VX_OK : cuda_take_output(run, error);
  struct transform transform = {};
  float *room;
  run->gathers = VX_STAGE_TRANSFORM;
  CUDA_TRY(prepare(run, &transform, &room, error));
  CUDA_TRY(fetch(run, &transform.matrices, room, error));
  CUDA_TRY(judge(run, &transform, error));
  CUDA_TRY(list(run, &transform, error));
  CUDA_TRY(cuda_publish(run, run->sequence, error));
  CUDA_TRY(read_sizes(run, error));
  if (run->tensors == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_take_output(run, error));
  if (run->layout.bytes > 0) {
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
    CUDA_TRY(write(run, &transform, error));
  }
  return cuda_finish_output(run, error);
}
