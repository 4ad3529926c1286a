// The inputs of a job that is not about points: tensors of any shape, each seen where it lies, or copied. The order of
// calls: cuda_see_inputs; cuda_take_inputs in both layouts of the job's memory; cuda_copy_inputs.
#ifndef VOXELD_CUDA_INPUTS_CUH
#define VOXELD_CUDA_INPUTS_CUH

#include "kernels/cuda/base/memory.cuh"

// Fills run->inputs: where the device can read each of the job's inputs, if it can. Data is aligned as its type needs.
VX_WARN_UNUSED enum vx_status cuda_see_inputs(struct cuda_run *run, struct error *error);
// Takes room for the inputs that the device cannot read in place.
void cuda_take_inputs(struct cuda_run *run, struct cuda_arena *arena);
// Enqueues the copies of these inputs. After it the `data` of each input is what kernels read.
VX_WARN_UNUSED enum vx_status cuda_copy_inputs(struct cuda_run *run, struct error *error);

#endif
