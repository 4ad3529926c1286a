// A transform on a GPU: cuda_transform, at the end of this file. Runs on the thread that has the lane.
//
//   judge  Brings the points from the host and moves them. Each point leaves a bit: whether it is kept.
//   list   Lists the kept points in input order, by a scan over the bits.
//   write  Moves the kept points again and writes them into the image of the output, once the host knows their number.
//
// Moving a point twice saves the memory for the moved points.
#include "kernels/cuda/transform/transform.cuh"

#include <string.h>

#include "kernels/cuda/base/bring.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/place.h"

enum { BLOCK = BRING_BLOCK, WORD = 32 };
static_assert((int)BLOCK == (int)SCAN_BLOCK && WORD % SCAN_ITEMS == 0, "a thread's items are bits of one word");

// The matrices that move the points: one by value for all clouds, or one per cloud in the device's memory.
struct matrices {
  float one[VX_MATRIX_VALUES];
  const float *each;  // [num_clouds, 16], or NULL
};

// Of one job.
struct transform {
  struct cuda_run *run;
  struct matrices matrices;
  float *each;     // [num_clouds, 16]: room for the matrices of the clouds
  uint32_t *bits;  // [num_points / 32]: whether a point is kept
  uint32_t *kept;  // [num_points]: the kept points, in input order
};

static __device__ const float *matrix_of(const struct matrices &matrices, const struct cuda_clouds &clouds,
                                         uint32_t point) {
  return matrices.each == NULL ? matrices.one
                               : matrices.each + (uint64_t)cuda_cloud_of_point(clouds, point) * VX_MATRIX_VALUES;
}

// --- judge ---

struct judge_params {
  struct bring_params bring;
  struct cuda_clouds clouds;
  struct matrices matrices;
  struct vx_transform boxes;
  struct vx_box cuts[VX_MAX_CUTS];
  uint32_t *bits;
  struct cuda_sections sections;
  struct cuda_tally *tally;
};

// As a warp.
static __device__ void count_by_section(const struct cuda_sections &sections, bool here, uint32_t point,
                                        enum vx_fate fate) {
  uint32_t mask = __ballot_sync(~0u, here);
  if (here) {
    cuda_add_together(mask, sections.fates, cuda_section_of(sections, point) * CUDA_SECTION_FATES + (uint32_t)fate);
  }
  __syncwarp();
}

static __global__ void __launch_bounds__(BLOCK) judge_kernel(const __grid_constant__ struct judge_params p) {
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.tally->moments[CUDA_BEGUN] = cuda_now();
  }
  uint32_t strange = 0, outside = 0, cut = 0;  // of the warp
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < p.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, p.clouds.num_points - first);
    struct location at = bring(p.bring, first, count);
    if (first + (uint64_t)gridDim.x * BLOCK >= p.clouds.num_points) {
      cuda_let_next();  // all of this block's points are here: what follows is short
      if (threadIdx.x == 0) {
        atomicMax((unsigned long long *)&p.tally->moments[CUDA_ARRIVED], cuda_now());
      }
    }
    bool here = threadIdx.x < count;
    uint32_t point = (uint32_t)first + (here ? threadIdx.x : 0);
    float moved[3];
    vx_move(matrix_of(p.matrices, p.clouds, point), at.x, at.y, at.z, moved);
    enum vx_fate fate = vx_fate_of_moved(&p.boxes, p.cuts, moved);
    uint32_t bits = __ballot_sync(~0u, here && fate == VX_FATE_KEPT);
    strange += __popc(__ballot_sync(~0u, here && fate == VX_FATE_NOT_FINITE));
    outside += __popc(__ballot_sync(~0u, here && fate == VX_FATE_OUT_OF_CROP));
    cut += __popc(__ballot_sync(~0u, here && fate == VX_FATE_CUT_OUT));
    if (here && threadIdx.x % WORD == 0) {
      p.bits[point / WORD] = bits;
    }
    if (p.sections.count > 0) {
      count_by_section(p.sections, here, point, fate);
    }
  }
  if (threadIdx.x % WORD == 0) {
    atomicAdd(&p.tally->not_finite, strange);
    atomicAdd(&p.tally->out_of_crop, outside);
    atomicAdd(&p.tally->cut_out, cut);
  }
}

static enum vx_status judge(const struct transform *transform, struct error *error) {
  const struct cuda_run *run = transform->run;
  const struct vx_transform *params = &run->job->params.transform;
  struct judge_params p = {};
  p.bring = {run->source, run->halves, run->points, run->columns};
  p.clouds = run->clouds;
  p.matrices = transform->matrices;
  p.boxes = *params;
  for (int32_t i = 0; i < params->num_cuts; i++) {
    p.cuts[i] = params->cuts[i];
  }
  p.bits = transform->bits;
  p.sections = cuda_sections_of(run);
  p.tally = run->tally;
  return cuda_launch("judge_kernel", judge_kernel, cuda_looping_blocks(run, run->num_points, BLOCK, 4), BLOCK, 0, run,
                     p, error);
}

// --- list ---

struct list_params {
  struct cuda_clouds clouds;
  const uint32_t *bits;
  uint32_t *kept;
  uint32_t *kept_before;  // [num_clouds]: of all clouds before; undefined for empty clouds at the end
  uint64_t *tiles;        // [num_tiles], zeroed
  uint32_t num_tiles;
  struct cuda_tally *tally;
};

// Notes the number of kept points before a cloud if this point is its first, and before the empty clouds ahead of it.
static __device__ void note_clouds(const struct list_params &p, uint32_t point, uint32_t before) {
  int32_t cloud = cuda_cloud_of_point(p.clouds, point);
  for (; cloud >= 0 && p.clouds.first_point[cloud] == point; cloud--) {
    p.kept_before[cloud] = before;
  }
}

static __global__ void __launch_bounds__(SCAN_BLOCK) list_kernel(const __grid_constant__ struct list_params p) {
  __shared__ struct scan_shared shared;
  cuda_wait();
  uint32_t tile = scan_next_tile(&p.tally->number_ticket, &shared);
  uint32_t begin = tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint32_t bits = begin < p.clouds.num_points ? p.bits[begin / WORD] >> (begin % WORD) : 0;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    items[k] = bits >> k & 1;
  }
  uint64_t total = scan_items(p.tiles, tile, items, before, &shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (items[k] != 0) {
      p.kept[before[k]] = begin + k;
    }
    if (p.clouds.count > 1 && (uint64_t)begin + k < p.clouds.num_points) {
      note_clouds(p, begin + k, (uint32_t)before[k]);
    }
  }
  if (tile == p.num_tiles - 1 && threadIdx.x == 0) {
    p.tally->kept = p.tally->num_output_rows = (uint32_t)total;
  }
}

static enum vx_status list(const struct transform *transform, struct error *error) {
  const struct cuda_run *run = transform->run;
  struct list_params p = {};
  p.clouds = run->clouds;
  p.bits = transform->bits;
  p.kept = transform->kept;
  p.kept_before = run->control->cloud_rows;
  p.tiles = run->control->tiles;
  p.num_tiles = run->num_tiles;
  p.tally = run->tally;
  return cuda_launch("list_kernel", list_kernel, run->num_tiles, SCAN_BLOCK, 0, run, p, error);
}

// --- write ---

struct write_params {
  struct cuda_clouds clouds;
  struct matrices matrices;
  const float *points;  // [num_points, columns]
  const uint32_t *kept;
  uint32_t num_kept, columns;
  float *point_tensor;                 // [num_kept, columns], or NULL
  int32_t *index_tensor;               // [num_kept], or NULL
  unsigned char *gap_begin, *gap_end;  // between them, to be zeroed
  struct cuda_tally *tally;
};

static __device__ float value_of(const struct write_params &p, uint32_t point, uint32_t column) {
  const float *row = p.points + (uint64_t)point * p.columns;
  return column < 3 ? vx_moved_on_axis(matrix_of(p.matrices, p.clouds, point), column, row[0], row[1], row[2])
                    : row[column];
}

static __global__ void __launch_bounds__(BLOCK) write_kernel(const __grid_constant__ struct write_params p) {
  cuda_wait();
  uint64_t begin = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, step = (uint64_t)gridDim.x * BLOCK;
  if (p.gap_begin + begin < p.gap_end) {
    p.gap_begin[begin] = 0;  // a gap is shorter than a block
  }
  for (uint64_t i = begin; p.index_tensor != NULL && i < p.num_kept; i += step) {
    p.index_tensor[i] = (int32_t)p.kept[i];
  }
  uint64_t values = p.point_tensor == NULL ? 0 : (uint64_t)p.num_kept * p.columns;
  for (uint64_t i = begin; i < values; i += step) {
    p.point_tensor[i] = value_of(p, p.kept[i / p.columns], (uint32_t)(i % p.columns));
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicMax((unsigned long long *)&p.tally->moments[CUDA_GATHERED], cuda_now());
  }
}

static enum vx_status write(const struct transform *transform, struct error *error) {
  const struct cuda_run *run = transform->run;
  const struct vx_layout *layout = &run->layout;
  unsigned char *image = run->lane->image.memory;
  bool points = (run->tensors & VX_TENSOR_BIT(VX_MOVED_POINTS)) != 0;
  bool indices = (run->tensors & VX_TENSOR_BIT(VX_POINT_INDICES)) != 0;
  struct write_params p = {};
  p.clouds = run->clouds;
  p.matrices = transform->matrices;
  p.points = run->points;
  p.kept = transform->kept;
  p.num_kept = run->sizes.num_output_rows;
  p.columns = run->columns;
  p.point_tensor = points ? (float *)(image + layout->offset[VX_MOVED_POINTS]) : NULL;
  p.index_tensor = indices ? (int32_t *)(image + layout->offset[VX_POINT_INDICES]) : NULL;
  p.gap_begin = image + layout->shape[VX_MOVED_POINTS].bytes;
  p.gap_end = image + layout->offset[VX_POINT_INDICES];
  p.tally = run->tally;
  unsigned blocks = cuda_looping_blocks(run, (uint64_t)p.num_kept * p.columns, BLOCK, 8);
  return cuda_launch("write_kernel", write_kernel, blocks, BLOCK, 0, run, p, error);
}

// --- the job ---

// Runs twice: over an empty arena to measure, then over the lane's scratch.
static void lay_out(struct transform *transform, struct cuda_arena *arena) {
  struct cuda_run *run = transform->run;
  cuda_take_points(run, arena);
  cuda_take_clouds(run, arena);
  take(arena, &transform->each, (uint64_t)run->clouds.count * VX_MATRIX_VALUES);
  take(arena, &transform->bits, cuda_blocks(run->num_points, WORD));
  take(arena, &transform->kept, run->num_points);
}

static enum vx_status prepare(struct transform *transform, struct error *error) {
  struct cuda_run *run = transform->run;
  struct cuda_arena measured = {}, arena = {};
  void *source;
  CUDA_TRY(cuda_see_part(run, run->job->inputs[VX_POINTS].data, cuda_input_bytes(run), &source, error));
  run->source = source;
  run->num_tiles = cuda_blocks(run->num_points, CUDA_TILE);
  lay_out(transform, &measured);
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->scratch, measured.used, error));
  arena.memory = run->lane->scratch.memory;
  lay_out(transform, &arena);
  run->source = source == NULL ? run->source_copy : source;
  return cuda_prepare_control(run, error);
}

// Brings the places of the clouds and their matrices to the device.
static enum vx_status fetch(struct transform *transform, struct error *error) {
  struct cuda_run *run = transform->run;
  const struct vx_input *matrix = &run->job->inputs[VX_MATRIX];
  bool several = matrix->dims[0] > 1;
  memcpy(transform->matrices.one, vx_matrix_of(matrix, 0), sizeof transform->matrices.one);
  if (run->clouds.count > 1) {
    CUDA_TRY(cuda_fetch_clouds(run, error));
  }
  if (several) {
    uint32_t values = (uint32_t)run->clouds.count * VX_MATRIX_VALUES;
    memcpy(run->lane->orders->matrices, matrix->data, values * sizeof(float));
    CUDA_TRY(cuda_fetch(run, run->lane->device_orders->matrices, transform->each, values, error));
    transform->matrices.each = transform->each;
  }
  return cuda_copy_source(run, error);
}

// The kept points of a cloud are those before the next cloud, less those before the cloud itself.
static void read_rows(const struct cuda_run *run, const volatile struct cuda_report *report) {
  uint32_t after = run->sizes.kept;
  for (int32_t cloud = run->clouds.count - 1; cloud >= 0; cloud--) {
    bool at_end = run->lane->orders->cloud_points[cloud] == run->num_points;
    uint32_t before = run->clouds.count == 1 ? 0 : at_end ? run->sizes.kept : report->cloud_rows[cloud];
    run->job->row_counts[cloud] = (int32_t)(after - before);
    after = before;
  }
}

static enum vx_status read_sizes(struct cuda_run *run, struct error *error) {
  CUDA_TRY(cuda_read_tally(run, run->lane->sequence, error));
  struct vx_job *job = run->job;
  job->counts.kept = run->sizes.kept;
  job->counts.not_finite = run->sizes.not_finite;
  job->counts.out_of_crop = run->sizes.out_of_crop;
  job->counts.cut_out = run->sizes.cut_out;
  read_rows(run, run->lane->report);
  cuda_read_sections(run);
  const uint64_t *moments = run->sizes.moments;
  job->stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  job->stage_ns[VX_STAGE_TRANSFORM] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  return VX_OK;
}

enum vx_status cuda_transform(struct cuda_run *run, struct error *error) {
  if (run->num_points == 0) {
    return run->tensors == 0 ? VX_OK : cuda_take_output(run, error);
  }
  struct transform transform = {};
  transform.run = run;
  CUDA_TRY(prepare(&transform, error));
  CUDA_TRY(fetch(&transform, error));
  CUDA_TRY(judge(&transform, error));
  CUDA_TRY(list(&transform, error));
  CUDA_TRY(cuda_publish(run, run->lane->sequence, error));
  CUDA_TRY(read_sizes(run, error));
  if (run->tensors == 0) {
    return cuda_clean(run, error);
  }
  CUDA_TRY(cuda_take_output(run, error));
  if (run->layout.bytes > 0) {
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
    CUDA_TRY(write(&transform, error));
  }
  return cuda_finish_output(run, error);
}
