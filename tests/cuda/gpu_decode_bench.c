// gpu-decode-bench: decoding with suppression on a GPU and on one thread of the CPU, with the targets: one table.
//
//   gpu-decode-bench [--repeat N]
//
// Medians of N runs (200; a tenth of that on the CPU) after a warm-up. By the device's clock, with maps on the device:
// `find` is the pass over the logits, `boxes` the ranking and the boxes, `nms` the suppression, `device` all of these.
// `whole` is by the host's clock, with maps in the host's memory and the boxes' transfer back. Says whether GPU and CPU
// wrote the same bytes. One thread. Exit code 77 without a GPU. Asserts no time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "kernels/backends.h"
#include "kernels/ops.h"
#include "tests/measure/bench/heads.h"
#include "tests/measure/bench/samples.h"
#include "tests/measure/bench/timing.h"

enum { MAX_REPEAT = 5000, WARM_UP = 20, MEMORY = 1 << 20 };  // bytes of the largest answer

static const struct work {
  const char *name;
  enum vx_op op;
  int candidates, objects;  // anchors: candidates lie around `objects` places
  double target_us;         // 0: none
} works[] = {{"KITTI anchors", VX_DECODE, 1000, 40, 100},       {"KITTI anchors", VX_DECODE, 1000, 1000, 100},
             {"KITTI anchors", VX_DECODE, 1000, 1, 0},          {"KITTI anchors", VX_DECODE, 4096, 100, 250},
             {"KITTI anchors", VX_DECODE, 4096, 1, 0},          {"nuScenes centres", VX_DECODE_CENTER, 500, 0, 0},
             {"nuScenes centres", VX_DECODE_CENTER, 3000, 0, 0}};

struct side {
  const struct vx_backend *backend;
  struct vx_device *device;
  struct vx_lane *lane;
  void *output;
  size_t output_bytes;  // of the last answer
};

static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct side *side = ctx;
  if (layout->bytes > MEMORY) return vx_refuse(error, "no memory for %zu bytes", layout->bytes);
  side->output_bytes = layout->bytes;
  memset(side->output, 0, layout->bytes);  // not every backend writes the gaps
  *block = side->output;
  return VX_OK;
}

static bool open_side(struct side *side, const struct vx_backend *backend) {
  struct error error = {.text = "this build has no CUDA"};
  *side = (struct side){.backend = backend};
  if (!backend || backend->open(0, &side->device, &error) != VX_OK ||
      backend->lane_open(side->device, VX_LANE_QUICK, &side->lane, &error) != VX_OK) {
    printf("gpu-decode-bench: skipped: %s\n", error.text);
    return false;
  }
  side->output = backend->host_alloc(side->device, MEMORY);
  return side->output != NULL;
}

static void close_side(struct side *side) {
  side->backend->host_release(side->device, side->output, MEMORY);
  side->backend->lane_close(side->lane);
  side->backend->close(side->device);
}

// Medians in us.
struct times {
  double find, boxes, nms, device, whole;
  int64_t kept;
};

// If the maps are on the device, reports the time of the kernels; else the time of the whole call.
static bool time_side(struct side *side, const struct work *work, const struct vx_job *asked, bool resident, int repeat,
                      struct times *times) {
  enum { FIND, BOXES, NMS, DEVICE, WHOLE, COLUMNS };
  static const struct vx_caller caller = {.output = give_output};
  static double us[COLUMNS][MAX_REPEAT];
  int32_t rows[1];
  struct vx_job job = *asked;
  struct error error = {0};
  job.row_counts = rows;
  job.caller = &caller;
  job.ctx = side;
  for (int i = -WARM_UP; i < repeat; i++) {
    double begin = timing_now_us();
    if (side->backend->run(side->lane, &job, &error) != VX_OK) {
      fprintf(stderr, "gpu-decode-bench: %s\n", error.text);
      return false;
    }
    if (i < 0) continue;
    us[WHOLE][i] = timing_now_us() - begin;
    us[FIND][i] = (double)job.stage_ns[VX_STAGE_COPY_IN] / 1e3;
    us[BOXES][i] = (double)job.stage_ns[VX_STAGE_DECODE] / 1e3;
    us[NMS][i] = (double)job.stage_ns[VX_STAGE_NMS] / 1e3;
    us[DEVICE][i] = us[FIND][i] + us[BOXES][i] + us[NMS][i];
  }
  *times = (struct times){timing_median(us[FIND], repeat),  timing_median(us[BOXES], repeat),
                          timing_median(us[NMS], repeat),   timing_median(us[DEVICE], repeat),
                          timing_median(us[WHOLE], repeat), job.counts.kept};
  struct samples_limit target = {resident ? work->target_us : 0, "target"};
  samples_note(us[resident ? DEVICE : WHOLE], repeat, "us", target, "%s, %d around %d, %s %s", work->name,
               work->candidates, work->objects, side->backend->name, resident ? "device" : "whole");
  return true;
}

static size_t bytes_of(const struct vx_input *input) {
  size_t bytes = vx_dtype_size(input->dtype);
  for (int i = 0; i < input->rank; i++) bytes *= (size_t)input->dims[i];
  return bytes;
}

static void free_resident(struct vx_job *job) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) (void)cudaFree((void *)job->inputs[i].data);
}

static bool make_resident(const struct vx_job *asked, struct vx_job *job) {
  bool good = true;
  *job = *asked;
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    void *copy = NULL;
    size_t bytes = bytes_of(&asked->inputs[i]);
    if (good && asked->inputs[i].rank != 0)
      good = cudaMalloc(&copy, bytes) == cudaSuccess &&
             cudaMemcpy(copy, asked->inputs[i].data, bytes, cudaMemcpyHostToDevice) == cudaSuccess;
    job->inputs[i].data = copy;
  }
  return good;
}

static bool bench(struct side sides[2], const struct work *work, const struct vx_job *asked, int repeat) {
  struct vx_job resident;
  struct times device = {0}, whole = {0}, cpu = {0};
  char target[16] = "";
  bool good = make_resident(asked, &resident) && time_side(&sides[0], work, &resident, true, repeat, &device) &&
              time_side(&sides[0], work, asked, false, repeat, &whole) &&
              time_side(&sides[1], work, asked, false, repeat / 10 + 1, &cpu);
  free_resident(&resident);
  if (!good) return false;
  bool equal = sides[0].output_bytes == sides[1].output_bytes &&
               memcmp(sides[0].output, sides[1].output, sides[0].output_bytes) == 0;
  if (work->target_us > 0) snprintf(target, sizeof target, "%.0f", work->target_us);
  printf("%-16s %7lld %6d %6d %6lld | %6.1f %6.1f %6.1f | %7.1f %6s | %7.1f | %8.1f | %s\n", work->name,
         (long long)asked->point_counts[0], work->candidates, work->objects, (long long)device.kept, device.find,
         device.boxes, device.nms, device.device, target, whole.whole, cpu.whole, equal ? "equal" : "DIFFER");
  return true;
}

static bool print_table(struct side sides[2], int repeat) {
  struct heads_anchors *anchors = sides[0].backend->host_alloc(sides[0].device, sizeof *anchors);
  struct heads_centers *centers = sides[0].backend->host_alloc(sides[0].device, sizeof *centers);
  bool good = anchors && centers;
  printf("medians of %d, us\n%-16s %7s %6s %6s %6s | %6s %6s %6s | %7s %6s | %7s | %8s |\n", repeat, "maps", "items",
         "reach", "around", "kept", "find", "boxes", "nms", "device", "target", "whole", "CPU");
  for (size_t i = 0; good && i < sizeof works / sizeof *works; i++) {
    struct vx_job job;
    if (works[i].op == VX_DECODE) {
      heads_fill_anchors(anchors, works[i].candidates, works[i].objects);
      job = heads_anchor_job(anchors);
    } else {
      heads_fill_centers(centers, works[i].candidates);
      job = heads_center_job(centers);
    }
    good = bench(sides, &works[i], &job, repeat);
  }
  sides[0].backend->host_release(sides[0].device, anchors, sizeof *anchors);
  sides[0].backend->host_release(sides[0].device, centers, sizeof *centers);
  return good;
}

int main(int argc, char **argv) {
  long repeat = 200;
  struct side sides[2];
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], "--repeat") == 0) repeat = strtol(argv[++i], NULL, 10);
  if (repeat < 1 || repeat > MAX_REPEAT) {
    fprintf(stderr, "gpu-decode-bench: --repeat takes 1 to %d\n", MAX_REPEAT);
    return 2;
  }
  if (!open_side(&sides[0], vx_backend_find("cuda"))) return 77;
  if (!open_side(&sides[1], &vx_cpu_backend)) return 1;
  bool good = print_table(sides, (int)repeat);
  close_side(&sides[0]);
  close_side(&sides[1]);
  return good ? 0 : 1;
}
