// gpu-bench: times of the kernels on a GPU, with the targets and the times of other libraries: one table.
//
//   gpu-bench [--repeat N] [DIRECTORY]
//   gpu-bench --once WORK SCAN RUNS [DIRECTORY]      for a profiler: no table; WORK: a name in the table, or a query
//                                                    such as serialize?preset=waymo_ptv3
//
// Times are medians of N rounds (200) after a warm-up. The frames alternate.
//   device   from the first kernel to the finished tensors, with points and tensors in device memory, as for the rivals
//   floor    the time that device memory needs to read the points and to write the tensors once
//   in       until the last point has arrived on the device; most points are in their cells by then
//   voxel.   then the steps and the voxelization
//   feat.    then the features, or what another operation does
//   out      the transfer of the tensors to the host
//   whole    the whole request, by the host's clock
// The columns from `in` to `whole` are of requests with both transfers over the bus; all but `whole` are by the
// device's clock. "coords, all maps" should take at most 25 us more than "coords". DIRECTORY (../shared/data) has the
// scans, such as kitti_raw_00.bin. One thread. Exit code 77 without a GPU. Asserts no time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "api/ops/ops.h"
#include "api/presets.h"
#include "api/query.h"
#include "api/steps/steps.h"
#include "kernels/backends.h"
#include "tests/measure/bench/samples.h"
#include "tests/measure/bench/timing.h"
#include "tests/support/jobs.h"

enum { MAX_FRAMES = 4, MAX_REPEAT = 5000, WARM_UP = 30 };
static const double device_bytes_per_us = 4.25e6;  // a device copy on an H200, counting reads and writes

// The rivals were measured on an H200.
static const struct work {
  const char *name, *query, *frames[MAX_FRAMES];
  const char *rival;
  double rival_us, target_us;  // 0: none
} works[] = {
#define RAW                                                                                                            \
  { "kitti_raw_00", "kitti_raw_03", "kitti_raw_06", "kitti_raw_09" }
#define FOV                                                                                                            \
  { "kitti_fov_0", "kitti_fov_1", "kitti_fov_2", "kitti_fov_3" }
    {"0.2 m, mean, f16", "preset=voxelize_cuda", RAW, "voxelize-cuda", 69, 17},
    {"0.05 m, mean", "preset=kitti_second", RAW, "mmcv", 507, 20},
    {"0.05 m, points", "preset=kitti_second&feature=points", RAW, "mmcv deterministic", 24300, 36},
    {"pillars, f16", "preset=kitti_pointpillar&feature_dtype=float16", RAW, "CUDA-PointPillars", 33, 17},
    {"pillars, f16", "preset=kitti_pointpillar&feature_dtype=float16", FOV, "CUDA-PointPillars", 26, 17},
    {"pillars", "preset=kitti_pointpillar", RAW, "mmcv deterministic", 24800, 17},
    {"dynamic mean", "preset=kitti_second&max_points_per_voxel=0&max_voxels=150000", RAW, "OpenPCDet", 590, 26},
    {"dynamic mean, by key", "preset=kitti_second&max_points_per_voxel=0&max_voxels=150000&order=key", RAW, "OpenPCDet",
     590, 45},
    {"0.2 m, 10000 voxels", "preset=voxelize_cuda&max_voxels=10000", RAW, "", 0, 0},
    {"the nearest", "preset=voxelize_cuda&max_voxels=10000&max_voxels_by=near", RAW, "", 0, 0},
    {"the fullest", "preset=voxelize_cuda&max_voxels=10000&max_voxels_by=full", RAW, "", 0, 0},
    {"0.2 m, random points", "preset=voxelize_cuda&max_points_by=random", RAW, "", 0, 0},
#define BEFORE(step) "preset=kitti_second&steps=" step
#define MOVE "transform.matrix=1,0,0,0.1,0,1,0,0,0,0,1,0,0,0,0,1&transform.cut=-1,-1,-2,2.5,1,0.5"
#define RINGS "ring_outlier.ring=kitti"
#define THIN "downsample.method=first&downsample.voxel_size=0.1"
    {"+ transform", BEFORE("transform&" MOVE "&transform.crop=-70,-70,-5,70,70,5"), RAW, "", 0, 0},
    {"+ downsample, first", BEFORE("downsample&" THIN), RAW, "", 0, 0},
    {"+ downsample, mean", BEFORE("downsample&downsample.voxel_size=0.1"), RAW, "", 0, 0},
    {"+ ring_outlier", BEFORE("ring_outlier&" RINGS), RAW, "", 0, 0},
    {"+ radius_outlier", BEFORE("radius_outlier&radius_outlier.radius=0.5&radius_outlier.min_neighbors=2"), RAW, "", 0,
     0},
    {"+ statistical", BEFORE("statistical_outlier&statistical_outlier.mean_k=20&statistical_outlier.std_mul=2"), RAW,
     "", 0, 0},
    {"+ ring, move, thin", BEFORE("ring_outlier,transform,downsample&" RINGS "&" MOVE "&" THIN), RAW, "", 0, 45},
    {"+ de-skew", "preset=kitti_second", RAW, "", 0, 0},
    {"+ de-skew, ring, ...", BEFORE("ring_outlier,transform,downsample&" RINGS "&" MOVE "&" THIN), RAW, "", 0, 45},
    {"cylinder", "preset=semantickitti_cylinder3d", RAW, "", 0, 0},
    {"the same, x y z",
     "num_features=4&point_cloud_range=-50,-50,-4,50,50,2&voxel_size=0.2,0.28,0.2&max_points_per_voxel=0&"
     "max_voxels=5529600&feature=mean&order=key&"
     "outputs=voxel_coords,voxel_num_points,voxel_features,point_voxel_ids",
     RAW, "", 0, 0},
    {"range image", "range_image?preset=semantickitti_rangenet", RAW, "", 0, 10},
    {"range image by rings", "range_image?preset=semantickitti_rangenet&rows=ring&ring=kitti", RAW, "", 0, 0},
    {"serialize, four orders", "serialize?num_features=4&voxel_size=0.05", RAW, "", 0, 0},
    {"downsample, serialize",
     "serialize?num_features=4&voxel_size=0.05&steps=downsample&downsample.voxel_size=0.05&downsample.method=first",
     RAW, "", 0, 90},
    {"the same, with pools", "serialize?preset=nuscenes_ptv3", RAW, "", 0, 0},
    {"coords", "preset=kitti_pointpillar&outputs=voxel_coords", RAW, "", 0, 0},
    {"coords, all maps",
     "preset=kitti_pointpillar&outputs=voxel_coords,occupancy,occupancy_counts,occupancy_packed,"
     "bev_max_height,bev_min_height,bev_max_intensity,bev_top_intensity,bev_density",
     RAW, "", 0, 0},
    {"bev_features", "preset=kitti_pointpillar&feature=mean&outputs=bev_features", RAW, "", 0, 0},
    {"nuScenes pillars", "preset=nuscenes_pointpillar", {"nuscenes_sweep"}, "", 0, 0},
    {"nuScenes 0.075 m", "preset=nuscenes_centerpoint_voxel0075", {"nuscenes_10sweeps"}, "", 0, 55},
};

struct frame {
  void *points;    // pinned
  void *resident;  // the same points, on the device
  size_t bytes;
  int32_t rows;
  float *times, *resident_times;  // of the points, seconds
};

// For works with "de-skew" in their names: a curve, from 0.1 s before a sweep of 0.1 s to 0.1 s after it.
static const struct vx_motion motion = {
    .count = 3,
    .first = -0.1f,
    .last = 0.2f,
    .segments = {{-0.1f, {1, 0, 0, -1, 0, 1, 0, 0, 0, 0, 1, 0}, {10, 0, 0}, {0, 0, 0.3f}},
                 {0, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {10, 0, 0}, {0, 0, 0.3f}},
                 {0.1f, {1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0}, {10, 0, 0}, {0, 0, 0.3f}}},
};

struct gpu {
  const struct vx_backend *backend;
  struct vx_device *device;
  struct vx_lane *lane;
  struct presets *presets;
  void *output;
  size_t output_bytes;
  struct vx_layout layout;
  struct vx_chain_report report;
};

static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct gpu *gpu = ctx;
  gpu->layout = *layout;
  if (layout->bytes > gpu->output_bytes) {
    gpu->backend->host_release(gpu->device, gpu->output, gpu->output_bytes);
    gpu->output_bytes = 2 * layout->bytes;
    gpu->output = gpu->backend->host_alloc(gpu->device, gpu->output_bytes);
  }
  *block = gpu->output;
  if (gpu->output) return VX_OK;
  snprintf(error->text, sizeof error->text, "no memory for %zu bytes", layout->bytes);
  gpu->output_bytes = 0;
  return VX_OUT_OF_MEMORY;
}

static bool load(struct gpu *gpu, const char *directory, const char *name, size_t row_bytes, struct frame *frame) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s.bin", directory, name);
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  frame->bytes = size > 0 ? (size_t)size / row_bytes * row_bytes : 0;
  frame->rows = (int32_t)(frame->bytes / row_bytes);
  frame->points = gpu->backend->host_alloc(gpu->device, frame->bytes);
  size_t times = (size_t)frame->rows * sizeof *frame->times;
  frame->times = gpu->backend->host_alloc(gpu->device, times);
  for (int32_t i = 0; frame->times && i < frame->rows; i++) frame->times[i] = 0.1f * (float)i / (float)frame->rows;
  bool good = frame->times && cudaMalloc((void **)&frame->resident_times, times) == cudaSuccess &&
              cudaMemcpy(frame->resident_times, frame->times, times, cudaMemcpyHostToDevice) == cudaSuccess;
  good = good && frame->points && fread(frame->points, 1, frame->bytes, file) == frame->bytes &&
         cudaMalloc(&frame->resident, frame->bytes) == cudaSuccess &&
         cudaMemcpy(frame->resident, frame->points, frame->bytes, cudaMemcpyHostToDevice) == cudaSuccess;
  fclose(file);
  return good;
}

// Removes the operation and the question mark from a query. A query without them is a voxelization.
static enum vx_op take_op(const char **query) {
  for (int op = 0; op < VX_OPS; op++) {
    size_t length = strlen(vx_operations[op].name);
    if (strncmp(*query, vx_operations[op].name, length) != 0 || (*query)[length] != '?') continue;
    *query += length + 1;
    return (enum vx_op)op;
  }
  return VX_VOXELIZE;
}

// The job points to the steps of `request`.
static bool read_params(const struct gpu *gpu, const char *query, struct job_request *request, struct vx_job *asked) {
  struct error error = {.kind = ERROR_NONE};
  struct query items = {.count = 0};
  char text[512];
  enum vx_op op = take_op(&query);
  snprintf(text, sizeof text, "%s", query);
  char *rest = text;
  for (char *item; (item = strsep(&rest, "&"));) {
    char *value = strchr(item, '=');
    if (!value) return false;
    *value++ = '\0';
    items.items[items.count++] = (struct query_item){item, value, strlen(item), strlen(value)};
  }
  if (!job_request_from_query(request, op, &items, &(const struct named){gpu->presets, NULL}, &error) ||
      !chain_split(&request->chain,
                   &(const struct chain_points){.num_columns = 4, .num_clouds = 1, .fields = "", .max_work = INT64_MAX},
                   &error)) {
    fprintf(stderr, "gpu-bench: %s: %s\n", query, error.text);
    return false;
  }
  *asked = job_request_job(request, NULL);
  return true;
}

// Medians of the rounds. Bytes are the mean per round.
struct times {
  double in_us, voxelize_us, features_us, device_us, out_us, whole_us;
  double in_bytes, out_bytes;
  int32_t voxels;  // of the last frame
};

static const struct vx_caller caller = {.output = give_output};

static struct vx_job job_of(struct gpu *gpu, const struct vx_job *asked, const void *points, const int32_t *rows,
                            int32_t *voxels) {
  struct vx_job job = job_over(asked, points, 1, rows);
  job.caller = &caller;
  job.ctx = gpu;
  job.row_counts = voxels;
  job.report = job.chain ? &gpu->report : NULL;
  return job;
}

static bool time_rounds(struct gpu *gpu, const struct work *work, const struct vx_job *asked,
                        const struct frame *frames, int num_frames, bool resident, int repeat, struct times *times) {
  enum { IN, VOXELIZE, FEATURES, DEVICE, OUT, WHOLE, COLUMNS };
  static double us[COLUMNS][MAX_REPEAT];
  struct error error = {0};
  *times = (struct times){.voxels = 0};
  for (int i = -WARM_UP; i < repeat; i++) {
    const struct frame *frame = &frames[(i + WARM_UP) % num_frames];
    struct vx_job job = job_of(gpu, asked, resident ? frame->resident : frame->points, &frame->rows, &times->voxels);
    struct vx_deskew deskew = {.times = resident ? frame->resident_times : frame->times, .motion = &motion};
    job.deskew = strstr(work->name, "de-skew") ? &deskew : NULL;
    double begin = timing_now_us();
    if (gpu->backend->run(gpu->lane, &job, &error) != VX_OK) {
      fprintf(stderr, "gpu-bench: %s\n", error.text);
      return false;
    }
    if (i < 0) continue;
    us[WHOLE][i] = timing_now_us() - begin;
    us[IN][i] = (double)job.stage_ns[VX_STAGE_COPY_IN] / 1e3;
    us[VOXELIZE][i] = (double)(job.stage_ns[VX_STAGE_STEPS] + job.stage_ns[VX_STAGE_VOXELIZE]) / 1e3;
    us[FEATURES][i] = 0;
    for (int stage = VX_STAGE_FEATURES; stage < VX_STAGE_COPY_OUT; stage++)
      us[FEATURES][i] += (double)job.stage_ns[stage] / 1e3;
    us[OUT][i] = (double)job.stage_ns[VX_STAGE_COPY_OUT] / 1e3;
    us[DEVICE][i] = us[IN][i] + us[VOXELIZE][i] + us[FEATURES][i];
    times->in_bytes += (double)frame->bytes / repeat;
    times->out_bytes += (double)gpu->layout.bytes / repeat;
  }
  times->in_us = timing_median(us[IN], repeat);
  times->voxelize_us = timing_median(us[VOXELIZE], repeat);
  times->features_us = timing_median(us[FEATURES], repeat);
  times->device_us = timing_median(us[DEVICE], repeat);
  times->out_us = timing_median(us[OUT], repeat);
  times->whole_us = timing_median(us[WHOLE], repeat);
  struct samples_limit limit = {work->target_us, "target"};
  if (resident)
    samples_note(us[DEVICE], repeat, "us", limit, "%s on %s, device", work->name, work->frames[0]);
  else
    samples_note(us[WHOLE], repeat, "us", (struct samples_limit){0}, "%s on %s, whole", work->name, work->frames[0]);
  return true;
}

static double rate(double bytes, double us) { return us > 0 ? bytes / us / 1e3 : 0; }

static bool measure(struct gpu *gpu, const struct work *work, const struct vx_job *asked, const struct frame *frames,
                    int num_frames, int repeat) {
  struct times resident, times;
  if (!time_rounds(gpu, work, asked, frames, num_frames, true, repeat, &resident) ||
      !time_rounds(gpu, work, asked, frames, num_frames, false, repeat, &times))
    return false;
  char target[16] = "", rival[64] = "";
  if (work->target_us > 0) snprintf(target, sizeof target, "%.0f", work->target_us);
  if (work->rival_us > 0)
    snprintf(rival, sizeof rival, "%s %.0f (%.1fx)", work->rival, work->rival_us, work->rival_us / resident.device_us);
  printf("%-21s %-17s %6d %6d | %6.1f %6s %5.1f | %6.1f %5.1f %6.1f %6.1f %6.1f %5.1f %6.1f | %s\n", work->name,
         work->frames[0], frames->rows, times.voxels, resident.device_us, target,
         (times.in_bytes + times.out_bytes) / device_bytes_per_us, times.in_us, rate(times.in_bytes, times.in_us),
         times.voxelize_us, times.features_us, times.out_us, rate(times.out_bytes, times.out_us), times.whole_us,
         rival);
  return true;
}

static bool bench(struct gpu *gpu, const struct work *work, const char *directory, int repeat) {
  static struct job_request request;
  struct vx_job asked;
  struct frame frames[MAX_FRAMES] = {{.rows = 0}};
  int num_frames = 0;
  if (!read_params(gpu, work->query, &request, &asked)) return false;
  size_t row_bytes = (size_t)job_columns(&asked) * vx_dtype_size(asked.inputs[VX_POINTS].dtype);
  while (num_frames < MAX_FRAMES && work->frames[num_frames] &&
         load(gpu, directory, work->frames[num_frames], row_bytes, &frames[num_frames]))
    num_frames++;
  bool good = true;
  if (num_frames == 0)
    printf("%-21s no %s.bin in %s\n", work->name, work->frames[0], directory);
  else
    good = measure(gpu, work, &asked, frames, num_frames, repeat);
  for (int i = 0; i < MAX_FRAMES; i++) {
    gpu->backend->host_release(gpu->device, frames[i].points, frames[i].bytes);
    gpu->backend->host_release(gpu->device, frames[i].times, (size_t)frames[i].rows * sizeof *frames[i].times);
    (void)cudaFree(frames[i].resident);
    (void)cudaFree(frames[i].resident_times);
  }
  return good;
}

static bool print_table(struct gpu *gpu, const char *directory, int repeat) {
  struct vx_description description;
  gpu->backend->describe(gpu->device, &description);
  printf("%s, medians of %d, us\n", description.name, repeat);
  printf("%-21s %-17s %6s %6s | %6s %6s %5s | %6s %5s %6s %6s %6s %5s %6s | %s\n", "work", "scan", "points", "voxels",
         "device", "target", "floor", "in", "GB/s", "voxel.", "feat.", "out", "GB/s", "whole", "rival (times slower)");
  bool good = true;
  for (size_t i = 0; i < sizeof works / sizeof *works; i++) good = bench(gpu, &works[i], directory, repeat) && good;
  return good;
}

static bool run_once(struct gpu *gpu, char **arguments, const char *directory) {
  struct work work = {.name = arguments[0], .query = arguments[0], .frames = {arguments[1]}};
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    if (strcmp(works[i].name, arguments[0]) == 0) work = works[i];
  static struct job_request request;
  struct vx_job asked;
  struct frame frame;
  struct error error = {0};
  int32_t voxels;
  bool good = read_params(gpu, work.query, &request, &asked) &&
              load(gpu, directory, arguments[1],
                   (size_t)job_columns(&asked) * vx_dtype_size(asked.inputs[VX_POINTS].dtype), &frame);
  for (long i = strtol(arguments[2], NULL, 10); good && i > 0; i--) {
    struct vx_job job = job_of(gpu, &asked, frame.resident, &frame.rows, &voxels);
    struct vx_deskew deskew = {.times = frame.resident_times, .motion = &motion};
    if (strstr(work.name, "de-skew")) job.deskew = &deskew;
    good = gpu->backend->run(gpu->lane, &job, &error) == VX_OK;
  }
  if (!good) fprintf(stderr, "gpu-bench: %s: %s\n", arguments[0], error.text);
  return good;
}

int main(int argc, char **argv) {
  const char *directory = "../shared/data";
  long repeat = 200;
  char **once = NULL;
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--once") == 0 && i + 3 < argc) {
      once = &argv[i + 1];
      i += 3;
    } else if (strcmp(argv[i], "--repeat") == 0 && i + 1 < argc)
      repeat = strtol(argv[++i], NULL, 10);
    else
      directory = argv[i];
  if (repeat < 1 || repeat > MAX_REPEAT) {
    fprintf(stderr, "gpu-bench: --repeat takes 1 to %d\n", MAX_REPEAT);
    return 2;
  }
  struct error error = {.text = "this build has no CUDA"};
  struct gpu gpu = {.backend = vx_backend_find("cuda")};
  if (!gpu.backend || gpu.backend->open(0, &gpu.device, &error) != VX_OK ||
      gpu.backend->lane_open(gpu.device, VX_LANE_QUICK, &gpu.lane, &error) != VX_OK) {
    printf("gpu-bench: skipped: %s\n", error.text);
    return 77;
  }
  gpu.presets = presets_load("", &error);
  if (!gpu.presets) {
    fprintf(stderr, "gpu-bench: %s\n", error.text);
    return 1;
  }
  bool good = true;
  if (once)
    good = run_once(&gpu, once, directory);
  else
    good = print_table(&gpu, directory, (int)repeat);
  gpu.backend->host_release(gpu.device, gpu.output, gpu.output_bytes);
  presets_close(gpu.presets);
  gpu.backend->lane_close(gpu.lane);
  gpu.backend->close(gpu.device);
  return good ? 0 : 1;
}
