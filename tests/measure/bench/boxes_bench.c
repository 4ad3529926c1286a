// boxes-bench: measures how long the CPU takes to decode the maps of a KITTI head: 248 x 216 cells with 6 anchors each.
// Each row of the table has a number of anchors that reach the threshold, around a number of objects.
//
// One thread.
#include <stdio.h>
#include <stdlib.h>

#include "kernels/backends.h"
#include "tests/measure/bench/heads.h"
#include "tests/measure/bench/samples.h"
#include "tests/measure/bench/timing.h"

enum { REPEAT = 51, WARM_UP = 5, MEMORY = 1 << 20 };  // bytes of the largest answer

static void *output;
static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  (void)ctx, (void)error;
  if (layout->bytes > MEMORY) abort();
  *block = output;
  return VX_OK;
}

static bool run(const struct vx_backend *backend, struct vx_lane *lane, const struct heads_anchors *maps,
                struct vx_job *job, struct error *error) {
  static const struct vx_caller caller = {.output = give_output};
  static int32_t kept[1];
  *job = heads_anchor_job(maps);
  job->row_counts = kept;
  job->caller = &caller;
  return backend->run(lane, job, error) == VX_OK;
}

static bool measure(const struct vx_backend *backend, struct vx_lane *lane, struct heads_anchors *maps, int count,
                    int objects) {
  double decode[REPEAT], nms[REPEAT];
  struct vx_job job;
  struct error error;
  heads_fill_anchors(maps, count, objects);
  for (int i = -WARM_UP; i < REPEAT; i++) {
    if (!run(backend, lane, maps, &job, &error)) {
      fprintf(stderr, "boxes-bench: %s\n", error.text);
      return false;
    }
    if (i < 0) continue;
    decode[i] = (double)job.stage_ns[VX_STAGE_DECODE] / 1e6;
    nms[i] = (double)job.stage_ns[VX_STAGE_NMS] / 1e6;
  }
  printf("| %d | %d | %d | %d | %.2f | %.2f |\n", HEADS_ALL, count, objects, (int)job.counts.kept,
         timing_median(decode, REPEAT), timing_median(nms, REPEAT));
  samples_note(decode, REPEAT, "ms", (struct samples_limit){0}, "maps to %d boxes around %d objects", count, objects);
  samples_note(nms, REPEAT, "ms", (struct samples_limit){0}, "NMS of %d boxes around %d objects", count, objects);
  return true;
}

int main(void) {
  static const int cases[][2] = {{1000, 40}, {1000, 1}, {1000, 1000}, {4096, 100}, {4096, 1}};
  const struct vx_backend *backend = vx_backend_find("cpu");
  struct vx_device *device;
  struct vx_lane *lane;
  struct error error;
  static struct heads_anchors maps;
  static _Alignas(64) unsigned char memory[MEMORY];
  output = memory;
  if (!backend || backend->open(0, &device, &error) != VX_OK) return 1;
  if (backend->lane_open(device, VX_LANE_QUICK, &lane, &error) != VX_OK) return 1;
  printf("| anchors | boxes before NMS | objects | kept | maps to boxes ms | NMS ms |\n| --- | --- | --- | --- | --- | "
         "--- |\n");
  bool good = true;
  for (size_t i = 0; good && i < sizeof cases / sizeof *cases; i++)
    good = measure(backend, lane, &maps, cases[i][0], cases[i][1]);
  backend->lane_close(lane);
  backend->close(device);
  return good ? 0 : 1;
}
