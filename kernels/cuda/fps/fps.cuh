// Farthest point sampling on a GPU: of the points of a job, or of its voxels' means.
//
// fps_sort.cu puts the rows of each cloud in the order of a space-filling curve. Any 32 neighbours in that order, a
// bucket, then lie in a small box. fps_sample.cu takes sample after sample, in one kernel. It skips every bucket whose
// box is farther from the new sample than the bucket's points are from the earlier samples, so a step costs little more
// than a few messages. fps.cu writes the chosen rows into the image of the output.
#ifndef VOXELD_CUDA_FPS_CUH
#define VOXELD_CUDA_FPS_CUH

#include "kernels/cuda/base/run.cuh"

// Gives the arrays their place. `rows`: [num_clouds], the rows of each cloud.
VX_WARN_UNUSED enum vx_status cuda_fps_reserve(struct cuda_run *run, const int32_t *rows, struct error *error);
// Sets the rows of each cloud, at most those reserved, without a new place for the arrays.
void cuda_fps_measure(struct cuda_run *run, const int32_t *rows);
// Waits for the number of candidates. VX_REFUSED if a cloud has too few.
VX_WARN_UNUSED enum vx_status cuda_fps_check(struct cuda_run *run, struct error *error);
// Enqueues the writing of the sampled tensors into the image.
VX_WARN_UNUSED enum vx_status cuda_fps_write(const struct cuda_run *run, struct error *error);

VX_WARN_UNUSED enum vx_status cuda_sample_points(struct cuda_run *run, struct error *error);

#endif
