// A stand-in for the network of a detection, on either backend. It computes in copies of its tensors, because those
// of the CUDA backend are in the device's memory.
#ifndef VOXELD_TESTS_COPYING_NETWORK_H
#define VOXELD_TESTS_COPYING_NETWORK_H

#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "kernels/half.h"
#include "kernels/kernels.h"

struct vx_session {
  cudaStream_t stream;
  int runs;
};

// Value i of an output depends on the output's name and on value 7 i of the input, modulo the input's length.
static inline void compute(const struct vx_network_value *in, const unsigned char *from,
                           const struct vx_network_value *out, unsigned char *to) {
  const uint16_t *halves = (const void *)from;
  const float *floats = (const void *)from;
  size_t count = in->shape.bytes / vx_dtype_size(in->shape.dtype);
  size_t values = out->shape.bytes / vx_dtype_size(out->shape.dtype);
  float scale = (float)(out->name[0] % 7 + 1) * 0.5f, shift = (float)(out->name[0] % 5) - 3;
  for (size_t i = 0; i < values; i++) {
    size_t at = i * 7 % count;
    float value = (in->shape.dtype == VX_FLOAT16 ? vx_half_to_float(halves[at]) : floats[at]) * scale + shift;
    if (out->shape.dtype == VX_FLOAT16)
      ((uint16_t *)(void *)to)[i] = vx_float_to_half(value);
    else
      ((float *)(void *)to)[i] = value;
  }
}

static inline bool is_aligned(const struct vx_network_value *value) {
  return value->shape.bytes == 0 || (uintptr_t)value->data % 16 == 0;
}

static inline enum vx_status run_session(struct vx_session *session, const struct vx_network_run *run,
                                         struct error *error) {
  const struct vx_network_value *in = &run->input[0];
  unsigned char *from = malloc(in->shape.bytes);
  bool good = from != NULL && is_aligned(in) &&
              cudaMemcpyAsync(from, in->data, in->shape.bytes, cudaMemcpyDefault, session->stream) == cudaSuccess &&
              cudaStreamSynchronize(session->stream) == cudaSuccess;
  for (int i = 0; i < run->outputs && good; i++) {
    const struct vx_network_value *out = &run->output[i];
    unsigned char *to = malloc(out->shape.bytes);
    good = to != NULL && is_aligned(out);
    if (good) {
      compute(in, from, out, to);
      good = cudaMemcpyAsync(out->data, to, out->shape.bytes, cudaMemcpyDefault, session->stream) == cudaSuccess &&
             cudaStreamSynchronize(session->stream) == cudaSuccess;
    }
    free(to);
  }
  free(from);
  session->runs++;
  if (good) return VX_OK;
  return vx_fail(error, VX_FAILED, "the network's stand-in cannot copy");
}

static const struct vx_engine copying_engine = {.name = "copying", .session_run = run_session};

#endif
