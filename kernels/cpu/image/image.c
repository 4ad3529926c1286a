// A range image on the CPU (kernels/range_image.h). cpu_range_image, at the end, shows all of it. Runs on the thread
// that has the lane; helpers may run tasks: a slice of points, a cloud, or a row of an image.
//
//   project  pixel and distance of each point, slice by slice
//   choose   key of each pixel, fates of points, cloud by cloud
//   write    tensors of images, row by row; then tensors of points, slice by slice
#include "kernels/cpu/image/image.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/ops.h"
#include "kernels/parallel_for.h"

enum { SLICE = 1 << 13 };  // most points of a slice

struct slice {
  int32_t cloud, begin, end;
};

struct run {
  struct vx_job *job;
  struct vx_lane *lane;
  const struct vx_range_image *params;
  int32_t columns;      // of a point
  int64_t plane;        // pixels of an image
  const float *points;  // [N,columns]
  float *widened;       // [N,columns]: `points`, if they are narrow
  struct slice *slices;
  int32_t num_slices;
  int32_t *pixels;           // [N]: ring; later pixel in the image, VX_NO_PIXEL or VX_NOT_FINITE_PIXEL
  float *distances;          // [N]; undefined for points that are not finite
  uint64_t *keys;            // [clouds,height,width]
  int32_t *before;           // [clouds,height]: filled pixels of the row; later, of all rows before it
  struct vx_counts *counts;  // [clouds]
  int32_t *numbers;          // [clouds,height,width]: row in pixel_coords; NULL without point_pixel_rows
  struct {
    float *image, *ranges;
    int32_t *indices, *pixels, *coords, *pixel_rows;
    uint8_t *mask;
  } out;  // NULL if not requested
};

// ---- memory ---------------------------------------------------------------------------------------------------------

static void lay_out(struct run *run, struct cpu_arena *arena) {
  const struct vx_job *job = run->job;
  uint64_t points = (uint64_t)job->counts.received, clouds = (uint64_t)job->num_clouds;
  uint64_t pixels = clouds * (uint64_t)run->plane;
  bool numbered = (job->tensors & VX_TENSOR_BIT(VX_POINT_PIXEL_ROWS)) != 0;
  bool narrow = vx_is_narrow(run->lane->points.dtype);
  run->slices = cpu_arena_take(arena, points / SLICE + clouds, sizeof *run->slices);
  run->pixels = cpu_arena_take(arena, points, sizeof *run->pixels);
  run->distances = cpu_arena_take(arena, points, sizeof *run->distances);
  run->keys = cpu_arena_take(arena, pixels, sizeof *run->keys);
  run->before = cpu_arena_take(arena, clouds * (uint64_t)run->params->height, sizeof *run->before);
  run->counts = cpu_arena_take(arena, clouds, sizeof *run->counts);
  run->numbers = numbered ? cpu_arena_take(arena, pixels, sizeof *run->numbers) : NULL;
  run->widened = narrow ? cpu_arena_take(arena, points * (uint64_t)run->columns, sizeof *run->widened) : NULL;
}

static void cut(struct run *run) {
  int32_t begin = 0;
  for (int32_t cloud = 0; cloud < run->job->num_clouds; cloud++) {
    int32_t end = begin + run->job->point_counts[cloud];
    while (begin < end) {
      int32_t next = end - begin < SLICE ? end : begin + SLICE;
      run->slices[run->num_slices++] = (struct slice){cloud, begin, next};
      begin = next;
    }
  }
}

static enum vx_status prepare(struct run *run, struct error *error) {
  struct cpu_arena measured = {0};
  struct vx_job *job = run->job;
  lay_out(run, &measured);
  enum vx_status status = cpu_arena_reserve(&run->lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  lay_out(run, &run->lane->scratch);
  cut(run);
  run->points = cpu_float_points(run->lane, job->stop, job->counts.received * run->columns, run->widened);
  return vx_stop_status(job->stop, error);
}

typedef enum vx_status part(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error);

static enum vx_status for_parts(struct run *run, int32_t count, part *of, struct error *error) {
  const struct vx_tasks tasks = {count, of, run};
  return vx_parallel_for(run->job, run->lane, &tasks, error);
}

// ---- project --------------------------------------------------------------------------------------------------------

// Writes the ring of each point to `pixels`: turns since the cloud's first row, in the rows of the body as sent.
static void count_turns(struct run *run) {
  const struct vx_input *body = &run->job->inputs[VX_POINTS];
  int64_t begin = 0;
  for (int32_t cloud = 0; cloud < run->job->num_clouds; begin += run->job->point_counts[cloud++]) {
    int32_t turns = 0;
    float before = 0;
    VX_EACH_ROW(run->job->stop, row, begin, begin + run->job->point_counts[cloud]) {
      uint64_t at = (uint64_t)(row * body->dims[1]);
      float x = vx_load(body->dtype, body->data, at), y = vx_load(body->dtype, body->data, at + 1);
      turns += turns < VX_NO_RING && vx_is_turn(before, x, y);  // never at the first row
      before = y;
      run->pixels[row] = turns;
    }
  }
}

// Copies the coordinates. For an image by ring, also finds the row of each point.
static void load(const struct run *run, int64_t begin, int32_t count, struct cpu_projected *at) {
  const struct vx_range_image *params = run->params;
  bool by_ring = params->rows != VX_ROWS_ELEVATION, counted = params->ring == VX_KITTI_RINGS;
  const float *point = run->points + begin * run->columns;
  for (int32_t i = 0; i < count; i++, point += run->columns) {
    at->x[i] = point[0];
    at->y[i] = point[1];
    at->z[i] = point[2];
    if (by_ring)
      at->row[i] = vx_row_of_ring(params, counted ? run->pixels[begin + i] : vx_ring_of(point[params->ring]));
  }
}

static enum vx_status project(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct run *run = ctx;
  const struct slice *slice = &run->slices[task];
  struct cpu_projected at = {.x = {0}};
  cpu_project *find = cpu_project_here();
  for (int32_t begin = slice->begin; begin < slice->end && !vx_stopped(worker->stop, CPU_PROJECTED);
       begin += CPU_PROJECTED) {
    int32_t count = slice->end - begin < CPU_PROJECTED ? slice->end - begin : CPU_PROJECTED;
    load(run, begin, count, &at);
    find(run->params, &at);
    memcpy(run->pixels + begin, at.pixel, (size_t)count * sizeof *at.pixel);
    memcpy(run->distances + begin, at.distance, (size_t)count * sizeof *at.distance);
  }
  return vx_stop_status(worker->stop, error);
}

// ---- choose ---------------------------------------------------------------------------------------------------------

// Finds the least key of each pixel. Counts points without a pixel.
static void find_keys(const struct run *run, const struct vx_worker *worker, int32_t cloud, int64_t begin) {
  enum vx_winner winner = run->params->winner;
  struct vx_counts *counts = &run->counts[cloud];
  uint64_t *keys = run->keys + cloud * run->plane;
  vx_fill(worker->stop, keys, 0xFF, (size_t)run->plane * sizeof *keys);
  VX_EACH_ROW(worker->stop, i, begin, begin + run->job->point_counts[cloud]) {
    int32_t pixel = run->pixels[i];
    counts->not_finite += pixel == VX_NOT_FINITE_PIXEL;
    counts->outside_image += pixel == VX_NO_PIXEL;
    if (pixel < 0) continue;
    uint64_t key = vx_image_key(winner, run->distances[i], (uint32_t)i);
    if (key < keys[pixel]) keys[pixel] = key;
  }
}

static enum vx_status choose(void *ctx, const struct vx_worker *worker, int32_t cloud, struct error *error) {
  const struct run *run = ctx;
  int64_t begin = 0, width = run->params->width;
  for (int32_t i = 0; i < cloud; i++) begin += run->job->point_counts[i];
  struct vx_counts *counts = &run->counts[cloud];
  *counts = (struct vx_counts){.received = run->job->point_counts[cloud]};
  find_keys(run, worker, cloud, begin);
  for (int32_t v = 0; v < run->params->height && !vx_stopped(worker->stop, width); v++) {
    int64_t row = (int64_t)cloud * run->params->height + v;
    const uint64_t *keys = run->keys + row * width;
    int32_t filled = 0;
    for (int64_t u = 0; u < width; u++) filled += keys[u] != VX_EMPTY_KEY;
    run->before[row] = filled;
    counts->kept += filled;
  }
  counts->occluded = counts->received - counts->not_finite - counts->outside_image - counts->kept;
  return vx_stop_status(worker->stop, error);
}

static enum vx_fate fate_of(const struct run *run, int64_t point) {
  int32_t pixel = run->pixels[point];
  if (pixel < 0) return pixel == VX_NO_PIXEL ? VX_FATE_OUTSIDE_IMAGE : VX_FATE_NOT_FINITE;
  bool kept = vx_row_of_key(run->params->winner, run->keys[pixel]) == (uint32_t)point;
  return kept ? VX_FATE_KEPT : VX_FATE_OCCLUDED;
}

// A job with sections has one cloud.
static void count_sections(const struct run *run) {
  const struct vx_sections *sections = &run->job->sections;
  int64_t begin = 0;
  for (int32_t section = 0; section < sections->count; begin += sections->points[section++]) {
    int64_t fates[VX_FATE_COUNT] = {0};
    VX_EACH_ROW(run->job->stop, i, begin, begin + sections->points[section]) fates[fate_of(run, i)]++;
    memcpy(sections->counts[section].fates, fates, sizeof fates);
  }
}

// Adds up counts of clouds, and pixels before each row.
static enum vx_status add_up(struct run *run, struct error *error) {
  struct vx_job *job = run->job;
  int32_t before = 0, height = run->params->height;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    const struct vx_counts *counts = &run->counts[cloud];
    job->counts.kept += counts->kept;
    job->counts.occluded += counts->occluded;
    job->counts.outside_image += counts->outside_image;
    job->counts.not_finite += counts->not_finite;
    job->row_counts[cloud] = (int32_t)counts->kept;
    for (int32_t *row = run->before + (int64_t)cloud * height, *end = row + height; row < end; row++) {
      int32_t filled = *row;
      *row = before;
      before += filled;
    }
  }
  count_sections(run);
  return vx_stop_status(job->stop, error);
}

// ---- write ----------------------------------------------------------------------------------------------------------

// Writes a row of all channels, which are `plane` values apart.
static void write_channels(const struct run *run, const uint64_t *keys, float *to) {
  const struct vx_range_image *params = run->params;
  for (int32_t u = 0; u < params->width; u++) {
    uint32_t row = vx_row_of_key(params->winner, keys[u]);
    bool filled = keys[u] != VX_EMPTY_KEY;
    const float *point = run->points + (filled ? (int64_t)row * run->columns : 0);
    for (int32_t channel = 0; channel < params->num_channels; channel++) {
      int32_t column = params->channels[channel];
      const float *at = column == VX_DISTANCE_CHANNEL ? &run->distances[filled ? row : 0] : &point[column];
      to[channel * run->plane + u] = filled ? vx_image_value(params, channel, *at) : params->empty;
    }
  }
}

static void number_pixels(const struct run *run, int64_t row, const uint64_t *keys) {
  int32_t width = run->params->width, height = run->params->height, number = run->before[row];
  for (int32_t u = 0; u < width; u++) {
    if (keys[u] == VX_EMPTY_KEY) continue;
    if (run->out.coords)
      memcpy(run->out.coords + 3 * (int64_t)number, (int32_t[]){(int32_t)(row / height), (int32_t)(row % height), u},
             3 * sizeof(int32_t));
    if (run->numbers) run->numbers[row * width + u] = number;
    number++;
  }
}

static enum vx_status write_row(void *ctx, const struct vx_worker *worker, int32_t row, struct error *error) {
  const struct run *run = ctx;
  int64_t width = run->params->width, height = run->params->height, first = row * width;
  const uint64_t *keys = run->keys + first;
  if (vx_stopped(worker->stop, width)) return vx_stop_status(worker->stop, error);
  if (run->out.image)
    write_channels(run, keys,
                   run->out.image + row / height * run->params->num_channels * run->plane + row % height * width);
  for (int64_t u = 0; run->out.indices && u < width; u++) {
    bool filled = keys[u] != VX_EMPTY_KEY;
    run->out.indices[first + u] = filled ? (int32_t)vx_row_of_key(run->params->winner, keys[u]) : -1;
  }
  for (int64_t u = 0; run->out.mask && u < width; u++) run->out.mask[first + u] = keys[u] != VX_EMPTY_KEY;
  if (run->out.coords || run->numbers) number_pixels(run, row, keys);
  return VX_OK;
}

static enum vx_status write_points(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct run *run = ctx;
  const struct slice *slice = &run->slices[task];
  int32_t width = run->params->width;
  VX_EACH_ROW(worker->stop, i, slice->begin, slice->end) {
    int32_t pixel = run->pixels[i];
    bool inside = pixel >= 0;
    if (run->out.pixels) {
      run->out.pixels[2 * i] = inside ? pixel / width : -1;
      run->out.pixels[2 * i + 1] = inside ? pixel % width : -1;
    }
    if (run->out.ranges) run->out.ranges[i] = inside ? run->distances[i] : -1;
    if (run->out.pixel_rows) run->out.pixel_rows[i] = inside ? run->numbers[slice->cloud * run->plane + pixel] : -1;
  }
  return vx_stop_status(worker->stop, error);
}

// NULL if the tensor is not requested.
static void *place_of(const struct vx_layout *layout, void *output, enum vx_tensor tensor) {
  bool wanted = (layout->tensors & VX_TENSOR_BIT(tensor)) != 0;
  return wanted ? (unsigned char *)output + layout->offset[tensor] : NULL;
}

static enum vx_status write_output(struct run *run, struct error *error) {
  const vx_tensor_set of_points =
      VX_TENSOR_BIT(VX_POINT_PIXELS) | VX_TENSOR_BIT(VX_POINT_RANGES) | VX_TENSOR_BIT(VX_POINT_PIXEL_ROWS);
  struct vx_job *job = run->job;
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(job, &layout, &output, error);
  if (status != VX_OK) return status;
  run->out.image = place_of(&layout, output, VX_RANGE_IMAGE);
  run->out.indices = place_of(&layout, output, VX_RANGE_INDICES);
  run->out.mask = place_of(&layout, output, VX_RANGE_MASK);
  run->out.pixels = place_of(&layout, output, VX_POINT_PIXELS);
  run->out.ranges = place_of(&layout, output, VX_POINT_RANGES);
  run->out.coords = place_of(&layout, output, VX_PIXEL_COORDS);
  run->out.pixel_rows = place_of(&layout, output, VX_POINT_PIXEL_ROWS);
  status = for_parts(run, job->num_clouds * run->params->height, write_row, error);
  return status == VX_OK && (job->tensors & of_points) != 0 ? for_parts(run, run->num_slices, write_points, error)
                                                            : status;
}

// ---- all of it ------------------------------------------------------------------------------------------------------

enum vx_status cpu_range_image(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct vx_range_image *params = &job->params.image;
  struct run run = {.job = job,
                    .lane = lane,
                    .params = params,
                    .columns = (int32_t)lane->points.dims[1],
                    .plane = (int64_t)params->height * params->width};
  int64_t began = clock_ns();
  enum vx_status status = prepare(&run, error);
  if (status != VX_OK) return status;
  if (vx_counts_turns(params)) count_turns(&run);
  status = for_parts(&run, run.num_slices, project, error);
  if (status == VX_OK) status = for_parts(&run, job->num_clouds, choose, error);
  if (status == VX_OK) status = add_up(&run, error);
  if (status == VX_OK && job->tensors != 0) status = write_output(&run, error);
  job->stage_ns[VX_STAGE_PROJECT] = clock_ns() - began;
  return status;
}
