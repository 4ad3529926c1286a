// See inputs.cuh. Runs on the thread that has the lane.
#include "kernels/cuda/base/inputs.cuh"

#include "kernels/cuda/base/host.cuh"

static size_t bytes_of(const struct vx_input *input) {
  size_t bytes = input->rank == 0 ? 0 : vx_dtype_size(input->dtype);
  for (int i = 0; i < input->rank; i++) {
    bytes *= (size_t)input->dims[i];  // the input is in memory, so its size is a number
  }
  return bytes;
}

enum vx_status cuda_see_inputs(struct cuda_run *run, struct error *error) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    const struct vx_input *input = &run->job->inputs[i];
    struct cuda_input *seen = &run->inputs[i];
    *seen = {};
    seen->bytes = bytes_of(input);
    if (seen->bytes > 0) {
      void *data;
      CUDA_TRY(cuda_see(input->data, seen->bytes, &data, error));
      seen->data = data;
    }
  }
  return VX_OK;
}

static bool is_copied(const struct cuda_input *input) { return input->bytes > 0 && input->data == NULL; }

void cuda_take_inputs(struct cuda_run *run, struct cuda_arena *arena) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    if (is_copied(&run->inputs[i])) {
      unsigned char *copy;
      take(arena, &copy, run->inputs[i].bytes);
      run->inputs[i].copy = copy;
    }
  }
}

enum vx_status cuda_copy_inputs(struct cuda_run *run, struct error *error) {
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    struct cuda_input *input = &run->inputs[i];
    if (is_copied(input)) {
      CUDA_CALL(
          cudaMemcpyAsync(input->copy, run->job->inputs[i].data, input->bytes, cudaMemcpyHostToDevice, run->stream),
          error);
      input->data = input->copy;
    }
  }
  return VX_OK;
}
