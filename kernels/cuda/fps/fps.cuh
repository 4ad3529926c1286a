// Farthest point sampling on a GPU: of the points of a job, or of its voxels' means.
//
// The rows of each cloud are put in the order of a space-filling curve (fps_sort.cu), so that each 32 neighbours in
// that order, a bucket, lie in a small box. Then one kernel takes sample after sample (fps_sample.cu): a bucket whose
// box is farther from the new sample than its points are from the earlier ones needs no look, so that a step is not so
// much work as a few messages. At the end the chosen rows are written into the image of the output (fps.cu).
#ifndef VOXELD_CUDA_FPS_CUH
#define VOXELD_CUDA_FPS_CUH

#include "kernels/cuda/base/run.cuh"

// Gives the arrays their place, for clouds of as many rows: [num_clouds].
VX_WARN_UNUSED enum vx_status cuda_fps_reserve(struct cuda_run *run, const int32_t *rows, struct vx_error *error);
// Takes fewer rows into account than were reserved.
void cuda_fps_measure(struct cuda_run *run, const int32_t *rows);
// Waits for the number of candidates. VX_REFUSED if a cloud has too few.
VX_WARN_UNUSED enum vx_status cuda_fps_check(struct cuda_run *run, struct vx_error *error);
// Enqueues the writing of the sampled tensors into the image.
VX_WARN_UNUSED enum vx_status cuda_fps_write(const struct cuda_run *run, struct vx_error *error);

VX_WARN_UNUSED enum vx_status cuda_sample_points(struct cuda_run *run, struct vx_error *error);

#endif
