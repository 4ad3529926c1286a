// A range image on a GPU (kernels/range_image.h).
//
//   project   Brings the points from the host and finds their pixels. Each pixel gets the least key of its points, in a
//             cell of the lane's table (run.cuh), which the job's end cleans. If KITTI's rings give the rows, the first
//             kernel only notes where turns begin, unless a chain has noted that before. Two further kernels count the
//             turns and find the pixels.
//   sections  Counts the fates of the points by section, if the cloud has sections.
//   number    Numbers the pixels that have a point, by a scan, and tells the host how many there are.
//   write     Writes the tensors into an image of the output block. If it can begin before the host knows the counts,
//             and no tensor needs the numbers of pixels, its first blocks do what `number` does.
#include "kernels/cuda/image/image.cuh"

#include "kernels/cuda/base/bring.cuh"
#include "kernels/cuda/base/chain.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/base/sections.cuh"
#include "kernels/cuda/base/tensors.cuh"
#include "kernels/cuda/base/transfer.cuh"
#include "kernels/cuda/image/pixels.cuh"

enum { BLOCK = BRING_BLOCK, TURNS_BLOCK = 1024, WORD = 32 };
static_assert((int)BLOCK == (int)SCAN_BLOCK, "a kernel both numbers pixels and writes tensors");

struct range_image {
  struct vx_range_image params;
  struct cuda_view_of_image view;
  uint32_t plane;            // pixels of one image
  uint32_t num_pixels;       // of all images
  unsigned long long *keys;  // [num_pixels]
  uint32_t *numbers;         // [num_pixels]: rows in pixel_coords; NULL if no tensor needs them
  int32_t *pixels;           // [num_points]: each point's pixel in its image, VX_NO_PIXEL or VX_NOT_FINITE_PIXEL
  float *distances;          // [num_points]
  uint32_t *turns;           // one bit for each point: whether a turn begins there; NULL unless turns are counted
  uint32_t *turns_before;    // [words of turns]: turns before each word
  bool notes_turns;          // true: turns are counted, and no chain has noted where they begin
};

// ---- project --------------------------------------------------------------------------------------------------------

struct dropped {
  uint32_t not_finite, outside;
};

static __device__ int32_t row_of(const struct range_image &s, const float *row, const struct location &at,
                                 uint32_t turns) {
  if (s.params.rows == VX_ROWS_ELEVATION) return cuda_image_row(s.view, s.params.outside, at.x, at.y, at.z);
  uint32_t most = VX_NO_RING;
  int32_t ring = s.params.ring == VX_KITTI_RINGS ? (int32_t)min(turns, most) : vx_ring_of(row[s.params.ring]);
  return vx_row_of_ring(&s.params, ring);
}

// `turns`: turns of the point's cloud up to the point.
static __device__ void project(const struct cuda_view &v, const struct range_image &s, uint32_t point,
                               const struct location &at, uint32_t turns, struct dropped *dropped) {
  int32_t pixel = VX_NOT_FINITE_PIXEL;
  float distance = vx_distance_of(at.x, at.y, at.z);
  if (!vx_are_finite(at.x, at.y, at.z)) {
    dropped->not_finite++;
  } else {
    int32_t row = row_of(s, v.points + (uint64_t)point * v.columns, at, turns);
    pixel = row < 0 ? VX_NO_PIXEL : row * s.params.width + cuda_image_column(s.view, at.x, at.y);
    dropped->outside += row < 0;
  }
  if (pixel >= 0) {
    uint64_t image = (uint64_t)cuda_cloud_of_point(v.clouds, point) * s.plane;
    atomicMin(&s.keys[image + pixel], (unsigned long long)vx_image_key(s.params.winner, distance, point));
  }
  s.pixels[point] = pixel;
  s.distances[point] = distance;
}

// Called by whole warps.
static __device__ void count_dropped(const struct cuda_view &v, struct dropped dropped) {
  uint32_t not_finite = cuda_warp_add(dropped.not_finite), outside = cuda_warp_add(dropped.outside);
  if (threadIdx.x % WORD != 0) return;
  if (not_finite != 0) atomicAdd(&v.counters->not_finite, not_finite);
  if (outside != 0) atomicAdd(&v.counters->out_of_range, outside);
}

// Called by a whole block, whose first point is `first`.
static __device__ void note_turns(const struct cuda_view &v, const struct range_image &s, uint64_t first,
                                  uint32_t count) {
  uint64_t point = first + threadIdx.x;
  bool here = threadIdx.x < count, begins = false;
  if (here && point > 0) {
    bool is_first = v.clouds.count > 1 && v.clouds.first_point[cuda_cloud_of_point(v.clouds, (uint32_t)point)] == point;
    const float *row = v.points + point * v.columns;
    begins = !is_first && vx_is_turn(vx_load(v.dtype, v.source, (point - 1) * v.columns + 1), row[0], row[1]);
  }
  uint32_t turns = __ballot_sync(~0u, begins);
  if (threadIdx.x % WORD == 0 && here) s.turns[point / WORD] = turns;
}

static __global__ void __launch_bounds__(BLOCK)
    project_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct range_image s) {
  cuda_wait_in_turn();  // in turn, since number takes its tiles before its own wait
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
  struct dropped dropped = {};
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t count = (uint32_t)min((uint64_t)BLOCK, v.clouds.num_points - first);
    struct location at = bring(v, first, count);
    if (s.notes_turns) note_turns(v, s, first, count);
    if (!s.turns && threadIdx.x < count) project(v, s, (uint32_t)first + threadIdx.x, at, 0, &dropped);
  }
  count_dropped(v, dropped);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
}

// One block: adds up the turns, word by word.
static __global__ void __launch_bounds__(TURNS_BLOCK)
    add_turns_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct range_image s) {
  cuda_wait();
  uint32_t words = (v.clouds.num_points + WORD - 1) / WORD, before = 0;
  for (uint32_t first = 0; first < words; first += TURNS_BLOCK) {
    uint32_t word = first + threadIdx.x, total;
    uint32_t own = word < words ? (uint32_t)__popc(s.turns[word]) : 0;
    uint32_t ahead = cuda_block_before(own, &total);
    if (word < words) s.turns_before[word] = before + ahead;
    before += total;
  }
}

// Turns of all clouds up to a point.
static __device__ uint32_t turns_upto(const struct range_image &s, uint32_t point) {
  uint32_t upto = ~0u >> (WORD - 1 - point % WORD);
  return s.turns_before[point / WORD] + (uint32_t)__popc(s.turns[point / WORD] & upto);
}

static __global__ void __launch_bounds__(BLOCK)
    project_turns_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct range_image s) {
  cuda_wait();
  struct dropped dropped = {};
  for (uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x; i < v.clouds.num_points;
       i += (uint64_t)gridDim.x * BLOCK) {
    uint32_t point = (uint32_t)i;
    const float *row = v.points + i * v.columns;
    uint32_t first = v.clouds.count == 1 ? 0 : v.clouds.first_point[cuda_cloud_of_point(v.clouds, point)];
    project(v, s, point, {row[0], row[1], row[2]}, turns_upto(s, point) - turns_upto(s, first), &dropped);
  }
  __syncwarp();
  count_dropped(v, dropped);
}

// ---- sections -------------------------------------------------------------------------------------------------------

// The fates of a section's points, in the order of their counters.
enum { FATES = 4 };
static const enum vx_fate fates_of_section[FATES] = {VX_FATE_KEPT, VX_FATE_OCCLUDED, VX_FATE_OUTSIDE_IMAGE,
                                                     VX_FATE_NOT_FINITE};
static_assert((int)FATES <= (int)CUDA_SECTION_FATES, "a section has a counter for each fate");

static __global__ void __launch_bounds__(BLOCK)
    sections_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct range_image s,
                    const __grid_constant__ struct cuda_sections sections) {
  cuda_wait();
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint32_t point = (uint32_t)first + threadIdx.x;
    bool here = first + threadIdx.x < v.clouds.num_points;
    uint32_t mask = __ballot_sync(~0u, here);
    if (here) {
      int32_t pixel = s.pixels[point];
      uint32_t fate = pixel == VX_NOT_FINITE_PIXEL                             ? 3
                      : pixel == VX_NO_PIXEL                                   ? 2
                      : vx_row_of_key(s.params.winner, s.keys[pixel]) == point ? 0
                                                                               : 1;
      cuda_add_together(mask, v.control->section_fates, cuda_section_of(sections, point) * CUDA_SECTION_FATES + fate);
    }
    __syncwarp();
  }
}

static void read_sections(const struct cuda_run *run) {
  const struct vx_sections *sections = &run->job->sections;
  const struct cuda_device_status *status = (const struct cuda_device_status *)run->lane->status;
  for (int32_t i = 0; i < sections->count; i++)
    for (int fate = 0; fate < FATES; fate++)
      sections->counts[i].fates[fates_of_section[fate]] = status->section_fates[i * CUDA_SECTION_FATES + fate];
}

// ---- number ---------------------------------------------------------------------------------------------------------

// Called by a whole block.
static __device__ void number(const struct cuda_view &v, const struct range_image &s, uint32_t tile,
                              struct scan_shared *shared) {
  uint64_t begin = (uint64_t)tile * CUDA_TILE + threadIdx.x * SCAN_ITEMS;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) items[k] = begin + k < s.num_pixels && s.keys[begin + k] != VX_EMPTY_KEY ? 1 : 0;
  uint64_t total = scan_items(v.control->tiles, tile, items, before, shared);
#pragma unroll
  for (int k = 0; k < SCAN_ITEMS; k++) {
    if (begin + k >= s.num_pixels) continue;
    if (s.numbers) s.numbers[begin + k] = (uint32_t)before[k];
    if ((begin + k) % s.plane == 0) v.control->cloud_rows[(begin + k) / s.plane] = (uint32_t)before[k];
  }
  if (tile == v.num_tiles - 1 && threadIdx.x == 0) v.counters->kept = (uint32_t)total;
  if (cuda_last_block(&v.counters->order_ticket, v.num_tiles)) publish(v, v.sequence);
}

static __global__ void __launch_bounds__(SCAN_BLOCK)
    number_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct range_image s) {
  __shared__ struct scan_shared shared;
  uint32_t tile = scan_next_tile(&v.counters->number_ticket, &shared);  // counters are clean since `project` began
  cuda_wait();
  number(v, s, tile, &shared);
}

// ---- write ----------------------------------------------------------------------------------------------------------

typedef struct cuda_tensors<VX_RANGE_IMAGE, VX_POINT_PIXEL_ROWS> image_tensors;

// Reads several channels of a pixel before it writes them.
static __device__ void write_channels(const struct cuda_view &v, const struct range_image &s, float *to, bool filled,
                                      uint32_t row) {
  enum { AT_ONCE = 8 };
  const float *point = v.points + (uint64_t)row * v.columns;
  for (int32_t first = 0; first < s.params.num_channels; first += AT_ONCE) {
    float values[AT_ONCE];
#pragma unroll
    for (int32_t k = 0; k < AT_ONCE; k++) {
      if (!filled || first + k >= s.params.num_channels) continue;
      int32_t column = s.params.channels[first + k];
      values[k] = column == VX_DISTANCE_CHANNEL ? s.distances[row] : point[column];
    }
#pragma unroll
    for (int32_t k = 0; k < AT_ONCE; k++)
      if (first + k < s.params.num_channels)
        to[(uint64_t)(first + k) * s.plane] = filled ? vx_image_value(&s.params, first + k, values[k]) : s.params.empty;
  }
}

static __device__ void write_pixel(const struct cuda_view &v, const struct range_image &s, const image_tensors &tensors,
                                   uint32_t pixel) {
  uint64_t key = s.keys[pixel];
  uint32_t cloud = pixel / s.plane, place = pixel % s.plane, row = vx_row_of_key(s.params.winner, key);
  bool filled = key != VX_EMPTY_KEY;
  float *image = tensors.of<float>(VX_RANGE_IMAGE);
  int32_t *indices = tensors.of<int32_t>(VX_RANGE_INDICES), *coords = tensors.of<int32_t>(VX_PIXEL_COORDS);
  uint8_t *mask = tensors.of<uint8_t>(VX_RANGE_MASK);
  if (indices) indices[pixel] = filled ? (int32_t)row : -1;
  if (mask) mask[pixel] = filled;
  if (coords && filled) {
    int32_t *at = coords + 3 * (uint64_t)s.numbers[pixel];
    at[0] = (int32_t)cloud;
    at[1] = (int32_t)(place / s.params.width);
    at[2] = (int32_t)(place % s.params.width);
  }
  if (image) write_channels(v, s, image + (uint64_t)cloud * s.params.num_channels * s.plane + place, filled, row);
}

static __device__ void write_point(const struct cuda_view &v, const struct range_image &s, const image_tensors &tensors,
                                   uint32_t point) {
  int32_t pixel = s.pixels[point], *pixels = tensors.of<int32_t>(VX_POINT_PIXELS);
  int32_t *rows = tensors.of<int32_t>(VX_POINT_PIXEL_ROWS);
  float *ranges = tensors.of<float>(VX_POINT_RANGES);
  bool inside = pixel >= 0;
  if (pixels) {
    pixels[2 * (uint64_t)point] = inside ? pixel / s.params.width : -1;
    pixels[2 * (uint64_t)point + 1] = inside ? pixel % s.params.width : -1;
  }
  if (ranges) ranges[point] = inside ? s.distances[point] : -1.0f;
  if (rows) {
    uint64_t image = (uint64_t)cuda_cloud_of_point(v.clouds, point) * s.plane;
    rows[point] = inside ? (int32_t)s.numbers[image + pixel] : -1;
  }
}

// The first `tiles` blocks number the pixels.
static __global__ void __launch_bounds__(BLOCK)
    write_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct range_image s,
                 const __grid_constant__ image_tensors tensors, uint32_t tiles) {
  __shared__ struct scan_shared shared;
  uint32_t tile = blockIdx.x < tiles ? scan_next_tile(&v.counters->number_ticket, &shared) : 0;
  cuda_wait();
  if (blockIdx.x < tiles) {
    number(v, s, tile, &shared);
    return;
  }
  uint64_t begin = (uint64_t)(blockIdx.x - tiles) * BLOCK + threadIdx.x, step = (uint64_t)(gridDim.x - tiles) * BLOCK;
  uint64_t items = (uint64_t)s.num_pixels + v.clouds.num_points;
  tensors.zero_gaps(begin);
  for (uint64_t i = begin; i < items; i += step)
    if (i < s.num_pixels)
      write_pixel(v, s, tensors, (uint32_t)i);
    else
      write_point(v, s, tensors, (uint32_t)(i - s.num_pixels));
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_GATHERED], cuda_now());
}

static bool needs_numbers(const struct cuda_run *run) {
  return (run->tensors & (VX_TENSOR_BIT(VX_PIXEL_COORDS) | VX_TENSOR_BIT(VX_POINT_PIXEL_ROWS))) != 0;
}

// `numbers`: also numbers the pixels.
static enum vx_status write(const struct cuda_run *run, const struct range_image *image, bool numbers,
                            struct error *error) {
  uint64_t items = (uint64_t)image->num_pixels + run->clouds.num_points;
  uint32_t tiles = numbers ? run->num_tiles : 0;
  CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
  return cuda_launch("write_kernel", write_kernel, tiles + cuda_looping_blocks(run, items, BLOCK, 8), BLOCK, 0, run,
                     error, *run, *image, cuda_tensors_of<VX_RANGE_IMAGE, VX_POINT_PIXEL_ROWS>(run), tiles);
}

// ---- the job --------------------------------------------------------------------------------------------------------

static void lay_out(struct cuda_run *run, struct range_image *image, struct cuda_arena *arena) {
  uint64_t points = run->clouds.num_points, words = (points + WORD - 1) / WORD;
  cuda_take_points(run, arena);
  cuda_take_clouds(run, arena);
  if (needs_numbers(run)) take(arena, &image->numbers, image->num_pixels);
  take(arena, &image->pixels, points);
  take(arena, &image->distances, points);
  if (image->notes_turns) take(arena, &image->turns, words);
  if (vx_counts_turns(&run->job->params.image)) take(arena, &image->turns_before, words);
}

// Whether the tensors can be written before the host knows the counts.
static bool is_eager(struct cuda_run *run, struct error *error) {
  const vx_tensor_set counted =
      VX_TENSOR_BIT(VX_PIXEL_COORDS) | VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES);
  struct vx_sizes sizes = vx_sizes_of(run->job);
  bool possible = (run->tensors & counted) == 0 && vx_layout_of(run->tensors, &sizes, &run->layout, error) == VX_OK;
  return possible && run->tensors != 0 && run->layout.bytes <= CUDA_EAGER_BYTES;
}

static enum vx_status prepare(struct cuda_run *run, struct range_image *image, struct error *error) {
  struct cuda_arena measured = {}, arena = {};
  struct vx_lane *lane = run->lane;
  const struct cuda_chain *chain = lane->chain;
  void *source;
  CUDA_TRY(cuda_see_part(run, run->input.data, cuda_input_bytes(run), &source, error));
  run->source = source;
  image->params = run->job->params.image;
  image->view = cuda_view_of_image(&image->params);
  image->plane = (uint32_t)image->params.height * (uint32_t)image->params.width;
  image->num_pixels = (uint32_t)run->clouds.count * image->plane;  // at most VX_MAX_PIXELS
  image->notes_turns = vx_counts_turns(&run->job->params.image) && !chain;
  lay_out(run, image, &measured);
  CUDA_TRY(cuda_reserve(lane, &lane->scratch, measured.used, error));
  arena.memory = lane->scratch.memory;
  lay_out(run, image, &arena);
  run->source = source ? source : run->source_copy;
  if (vx_counts_turns(&run->job->params.image) && chain) image->turns = chain->rows.turns;
  run->num_tiles = cuda_blocks(image->num_pixels, CUDA_TILE);
  run->direct = run->all_cells = true;
  run->table.slots = image->num_pixels;
  CUDA_TRY(cuda_prepare_control(run, error));
  image->keys = (unsigned long long *)run->cells;
  CUDA_TRY(cuda_copy_source(run, error));
  return run->clouds.count > 1 ? cuda_fetch_clouds(run, error) : VX_OK;
}

static enum vx_status find_pixels(const struct cuda_run *run, const struct range_image *image, struct error *error) {
  uint64_t points = run->clouds.num_points;
  CUDA_TRY(cuda_launch("project_kernel", project_kernel, cuda_looping_blocks(run, points, BLOCK, 4), BLOCK, 0, run,
                       error, *run, *image));
  if (image->turns) {
    CUDA_TRY(cuda_launch("add_turns_kernel", add_turns_kernel, 1, TURNS_BLOCK, 0, run, error, *run, *image));
    CUDA_TRY(cuda_launch("project_turns_kernel", project_turns_kernel, cuda_looping_blocks(run, points, BLOCK, 8),
                         BLOCK, 0, run, error, *run, *image));
  }
  if (run->sections.count > 0)
    CUDA_TRY(cuda_launch("sections_kernel", sections_kernel, cuda_looping_blocks(run, points, BLOCK, 8), BLOCK, 0, run,
                         error, *run, *image, run->sections));
  return VX_OK;
}

static enum vx_status number_pixels(const struct cuda_run *run, const struct range_image *image, struct error *error) {
  if (run->eager && !needs_numbers(run)) return write(run, image, true, error);
  CUDA_TRY(cuda_launch("number_kernel", number_kernel, run->num_tiles, SCAN_BLOCK, 0, run, error, *run, *image));
  return run->eager ? write(run, image, false, error) : VX_OK;
}

static enum vx_status read_counts(struct cuda_run *run, struct error *error) {
  struct vx_counts *counts = &run->job->counts;
  CUDA_TRY(cuda_read_counters(run, run->sequence, error));
  counts->kept = run->sizes.kept;
  counts->not_finite = run->sizes.not_finite;
  counts->outside_image = run->sizes.out_of_range;
  counts->occluded = counts->received - counts->kept - counts->not_finite - counts->outside_image;
  int64_t after = counts->kept;
  for (int32_t cloud = run->clouds.count - 1; cloud >= 0; cloud--) {
    int64_t before = run->lane->status->cloud_rows[cloud];
    run->job->row_counts[cloud] = (int32_t)(after - before);
    after = before;
  }
  read_sections(run);
  const uint64_t *moments = run->sizes.moments;
  run->job->stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  run->job->stage_ns[VX_STAGE_PROJECT] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  return VX_OK;
}

// A job without points has only empty pixels, which the host writes.
static enum vx_status write_empty(struct cuda_run *run, struct error *error) {
  if (run->tensors == 0) return VX_OK;
  CUDA_TRY(cuda_take_zeros(run, error));
  const struct vx_layout *layout = &run->layout;
  unsigned char *output = (unsigned char *)run->output;
  float *image = (float *)(output + layout->offset[VX_RANGE_IMAGE]);
  bool has_image = (layout->tensors & VX_TENSOR_BIT(VX_RANGE_IMAGE)) != 0;
  for (size_t i = 0; has_image && i < layout->shape[VX_RANGE_IMAGE].bytes / sizeof *image; i++)
    image[i] = run->job->params.image.empty;
  if ((layout->tensors & VX_TENSOR_BIT(VX_RANGE_INDICES)) != 0)
    memset(output + layout->offset[VX_RANGE_INDICES], 0xFF, layout->shape[VX_RANGE_INDICES].bytes);
  return VX_OK;
}

enum vx_status cuda_range_image(struct cuda_run *run, struct error *error) {
  struct range_image image = {};
  run->gathers = VX_STAGE_PROJECT;
  if (run->clouds.num_points == 0) return write_empty(run, error);
  CUDA_TRY(prepare(run, &image, error));
  run->eager = is_eager(run, error);
  CUDA_TRY(find_pixels(run, &image, error));
  CUDA_TRY(number_pixels(run, &image, error));
  CUDA_TRY(read_counts(run, error));
  if (run->tensors == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_take_output(run, error));
  if (!run->eager && run->layout.bytes > 0) CUDA_TRY(write(run, &image, false, error));
  return cuda_finish_output(run, error);
}
