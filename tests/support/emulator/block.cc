// The emulated GPU cannot open memory of other processes; the stand-in (tests/support/standin) can.
#include "kernels/cuda/base/block.cuh"

enum vx_status cuda_open_block(struct vx_device *, const void *, struct vx_block *, struct error *error) {
  return vx_refuse(error, "the emulated GPU opens no handles");
}

void cuda_close_block(struct vx_device *, void *) {}

enum vx_status cuda_copy_block(struct vx_device *, void *, const void *, size_t, struct error *error) {
  return vx_refuse(error, "the emulated GPU has no blocks");
}
