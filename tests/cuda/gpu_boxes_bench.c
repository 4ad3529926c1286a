// gpu-boxes-bench: suppression of boxes on a GPU and on one thread of the CPU, with the targets: one table.
//
//   gpu-boxes-bench [--repeat N]
//
// Medians of N runs (200; a tenth of that on the CPU) after a warm-up. `in` ends when the boxes have arrived, `nms`
// when the device knows the kept boxes, both by the device's clock. `whole` is by the host's clock, with both transfers
// over the bus. The targets include the decoding of a KITTI head. The boxes are cars around a number of objects. Exit
// code 1 if GPU and CPU wrote different bytes, 77 without a GPU. One thread. Asserts no time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends.h"
#include "tests/measure/bench/samples.h"
#include "tests/measure/bench/timing.h"

enum { MOST = 16384, MAX_REPEAT = 5000, WARM_UP = 10, CPU_SHARE = 10 };
#define BOX_BYTES ((size_t)MOST * VX_BOX_VALUES * sizeof(float))

static const struct work {
  int32_t boxes, objects, pre_max, post_max;
  double target_us;  // 0: none
} works[] = {{1000, 40, 4096, 500, 100},  {4096, 100, 4096, 500, 250}, {1000, 1, 4096, 500, 0},
             {4096, 1, 4096, 500, 0},     {1000, 1000, 4096, 500, 0},  {4096, 4096, 4096, 500, 0},
             {4096, 4096, 4096, 4096, 0}, {MOST, 400, MOST, MOST, 0}};

struct side {
  const struct vx_backend *backend;
  struct vx_device *device;
  struct vx_lane *lane;
  float *boxes;   // [MOST, 7]
  float *scores;  // [MOST]
  int32_t *kept;  // [MOST]: the output
};

static uint64_t state = 1;
static float random_in(float low, float high) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return low + (high - low) * ((float)(state >> 40) / 16777216.0f);
}

static void fill(const struct work *work, struct side sides[2]) {
  for (int32_t i = 0; i < work->boxes; i++) {
    int32_t object = i % work->objects, row = object / 64, column = object % 64;
    const float car[VX_BOX_VALUES] = {6 * (float)column + random_in(-0.3f, 0.3f),
                                      5 * (float)row + random_in(-0.3f, 0.3f),
                                      random_in(-1.5f, -0.5f),
                                      random_in(3.6f, 4.2f),
                                      random_in(1.5f, 1.7f),
                                      random_in(1.4f, 1.7f),
                                      random_in(-0.2f, 0.2f)};
    float score = random_in(0.1f, 1);
    for (int k = 0; k < 2; k++) {
      memcpy(&sides[k].boxes[(size_t)i * VX_BOX_VALUES], car, sizeof car);
      sides[k].scores[i] = score;
    }
  }
}

static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  const struct side *side = ctx;
  (void)layout, (void)error;
  *block = side->kept;  // no job keeps more than MOST
  return VX_OK;
}

static bool open_side(struct side *side, const struct vx_backend *backend) {
  struct error error = {.text = "this build has no CUDA"};
  *side = (struct side){.backend = backend};
  if (!backend || backend->open(0, &side->device, &error) != VX_OK ||
      backend->lane_open(side->device, VX_LANE_QUICK, &side->lane, &error) != VX_OK) {
    printf("gpu-boxes-bench: skipped: %s\n", error.text);
    return false;
  }
  side->boxes = backend->host_alloc(side->device, BOX_BYTES);
  side->scores = backend->host_alloc(side->device, MOST * sizeof *side->scores);
  side->kept = backend->host_alloc(side->device, MOST * sizeof *side->kept);
  return side->boxes && side->scores && side->kept;
}

static void close_side(struct side *side) {
  side->backend->host_release(side->device, side->boxes, BOX_BYTES);
  side->backend->host_release(side->device, side->scores, MOST * sizeof *side->scores);
  side->backend->host_release(side->device, side->kept, MOST * sizeof *side->kept);
  side->backend->lane_close(side->lane);
  side->backend->close(side->device);
}

struct times {
  double in_us, nms_us, whole_us;
  int32_t kept;
};

static bool run(struct side *side, const struct work *work, int repeat, struct times *times) {
  static double in[MAX_REPEAT], nms[MAX_REPEAT], whole[MAX_REPEAT];
  static const struct vx_caller caller = {.output = give_output};
  struct error error = {0};
  for (int i = -WARM_UP; i < repeat; i++) {
    struct vx_job job = {.op = VX_NMS,
                         .params.nms = {0.01f, work->pre_max, work->post_max, 1, 0, 0},
                         .inputs = {{VX_FLOAT32, 2, {work->boxes, VX_BOX_VALUES}, side->boxes},
                                    {VX_FLOAT32, 1, {work->boxes}, side->scores}},
                         .tensors = VX_NMS_TENSORS,
                         .num_clouds = 1,
                         .point_counts = &work->boxes,
                         .row_counts = &times->kept,
                         .caller = &caller,
                         .ctx = side};
    double begin = timing_now_us();
    if (side->backend->run(side->lane, &job, &error) != VX_OK) {
      fprintf(stderr, "gpu-boxes-bench: %s: %s\n", side->backend->name, error.text);
      return false;
    }
    if (i < 0) continue;
    whole[i] = timing_now_us() - begin;
    in[i] = (double)job.stage_ns[VX_STAGE_COPY_IN] / 1e3;
    nms[i] = (double)job.stage_ns[VX_STAGE_NMS] / 1e3;
  }
  times->in_us = timing_median(in, repeat);
  times->nms_us = timing_median(nms, repeat);
  times->whole_us = timing_median(whole, repeat);
  struct samples_limit target = {side->backend == &vx_cpu_backend ? 0 : work->target_us, "target"};
  samples_note(nms, repeat, "us", target, "NMS of %d boxes around %d objects, post_max %d, %s", work->boxes,
               work->objects, work->post_max, side->backend->name);
  return true;
}

static bool measure(struct side sides[2], const struct work *work, int repeat) {
  struct times gpu, cpu;
  char target[16] = "";
  fill(work, sides);
  if (!run(&sides[0], work, repeat, &gpu) || !run(&sides[1], work, repeat / CPU_SHARE + 1, &cpu)) return false;
  bool same = gpu.kept == cpu.kept && memcmp(sides[0].kept, sides[1].kept, (size_t)gpu.kept * sizeof(int32_t)) == 0;
  if (work->target_us > 0) snprintf(target, sizeof target, "%.0f", work->target_us);
  printf("%6d %8d %8d %6d | %6.1f %8.1f %6s %8.1f | %10.1f | %s\n", work->boxes, work->objects, work->post_max,
         gpu.kept, gpu.in_us, gpu.nms_us, target, gpu.whole_us, cpu.whole_us, same ? "same bytes" : "OTHER BYTES");
  return same;
}

int main(int argc, char **argv) {
  long repeat = argc == 3 && strcmp(argv[1], "--repeat") == 0 ? strtol(argv[2], NULL, 10) : 200;
  struct side sides[2];
  struct vx_description description;
  if (repeat < 1 || repeat > MAX_REPEAT) {
    fprintf(stderr, "gpu-boxes-bench: --repeat takes 1 to %d\n", MAX_REPEAT);
    return 2;
  }
  if (!open_side(&sides[0], vx_backend_find("cuda"))) return 77;
  if (!open_side(&sides[1], &vx_cpu_backend)) return 1;
  sides[0].backend->describe(sides[0].device, &description);
  printf("%s, medians of %ld, us\n", description.name, repeat);
  printf("%6s %8s %8s %6s | %6s %8s %6s %8s | %10s |\n", "boxes", "objects", "post_max", "kept", "in", "nms", "target",
         "whole", "CPU, whole");
  bool good = true;
  for (size_t i = 0; i < sizeof works / sizeof *works; i++) good = measure(sides, &works[i], (int)repeat) && good;
  close_side(&sides[0]);
  close_side(&sides[1]);
  return good ? 0 : 1;
}
