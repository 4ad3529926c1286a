// What the benchmarks on a GPU share: a backend on one lane, with memory for its largest output. One thread.
#ifndef VOXELD_TESTS_CUDA_BENCH_SIDE_H
#define VOXELD_TESTS_CUDA_BENCH_SIDE_H

#include <stdio.h>

#include "kernels/backends.h"

struct side {
  const struct vx_backend *backend;
  struct vx_device *device;
  struct vx_lane *lane;
  void *output;
  size_t output_bytes, bytes;  // size of the memory; bytes of the last job's output
};

static inline enum vx_status side_give_output(void *ctx, const struct vx_layout *layout, void **block,
                                              struct error *error) {
  struct side *side = ctx;
  side->bytes = layout->bytes;
  if (layout->bytes > side->output_bytes) {
    side->backend->host_release(side->device, side->output, side->output_bytes);
    side->output_bytes = layout->bytes;
    side->output = side->backend->host_alloc(side->device, side->output_bytes);
  }
  *block = side->output;
  if (side->output) return VX_OK;
  snprintf(error->text, sizeof error->text, "no memory for %zu bytes", layout->bytes);
  side->output_bytes = 0;
  return VX_OUT_OF_MEMORY;
}

// False, with a message that names the program, if there is no such device.
static inline bool side_open(struct side *side, const char *program, const struct vx_backend *backend,
                             enum vx_lane_use use) {
  struct error error = {.text = "this build has no CUDA"};
  *side = (struct side){.backend = backend};
  if (backend && backend->open(0, &side->device, &error) == VX_OK &&
      backend->lane_open(side->device, use, &side->lane, &error) == VX_OK)
    return true;
  printf("%s: skipped: %s\n", program, error.text);
  return false;
}

static inline void side_close(struct side *side) {
  side->backend->host_release(side->device, side->output, side->output_bytes);
  side->backend->lane_close(side->lane);
  side->backend->close(side->device);
}

#endif
