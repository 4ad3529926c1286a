// See ahead.cuh. The copies are in the order of the lane's stream, so before the kernels of the job. A copy engine
// makes them: what it costs to begin passes while more of the body arrives.
#include "kernels/cuda/base/ahead.cuh"

#include <stdio.h>

#include "kernels/cuda/base/check.cuh"
#include "kernels/cuda/base/memory.cuh"

static enum vx_status enqueue(struct vx_lane *lane, const void *points, size_t bytes, size_t from, size_t to,
                              struct vx_error *error) {
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  if (from == 0) {
    lane->brought = 0;
    CUDA_TRY(cuda_reserve(lane, &lane->ahead, bytes, error));
  }
  if (from != lane->brought) {
    snprintf(error->text, sizeof error->text, "the lane has given up the points before these");
    return VX_REFUSED;
  }
  CUDA_CALL(cudaMemcpyAsync(lane->ahead.memory + from, (const unsigned char *)points + from, to - from,
                            cudaMemcpyHostToDevice, lane->stream),
            error);
  CUDA_CALL(cudaEventRecord(lane->brought_last, lane->stream), error);
  lane->brought = to;
  return VX_OK;
}

enum vx_status cuda_bring(struct vx_lane *lane, const void *points, size_t bytes, size_t from, size_t to,
                          struct vx_error *error) {
  enum vx_status status = enqueue(lane, points, bytes, from, to, error);
  if (status != VX_OK) {
    (void)cudaStreamSynchronize(lane->stream);  // nobody could wait for the copy
    (void)cudaGetLastError();
  }
  return status;
}

// Jobs that the lane has begun meanwhile are not waited for. If this fails, so does whatever the lane does next, which
// says so; the thread, which may have a lane of another device, keeps no error.
void cuda_settle(struct vx_lane *lane) {
  (void)cudaEventSynchronize(lane->brought_last);
  (void)cudaGetLastError();
}

void cuda_find_brought(struct cuda_run *run) {
  size_t bytes = run->job->brought < run->lane->brought ? run->job->brought : run->lane->brought;
  size_t row_bytes = run->columns * (run->halves ? sizeof(uint16_t) : sizeof(float));
  run->brought = run->lane->ahead.memory;
  run->num_brought = row_bytes == 0 ? 0 : (uint32_t)(bytes / row_bytes);
  run->lane->reads_ahead = run->num_brought > 0;
}
