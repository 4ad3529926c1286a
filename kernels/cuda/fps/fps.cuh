// Farthest point sampling on a GPU, of a job's points or of its voxels' means. Runs on the thread that has the lane.
//
// fps_sort.cu sorts a cloud's rows along a space-filling curve, so that a bucket, 32 neighbours, lies in a small box.
// fps_sample.cu takes all samples in one kernel. It skips the buckets whose boxes are farther from the new sample than
// their points are from earlier samples. fps.cu writes the tensors.
#ifndef VOXELD_CUDA_FPS_CUH
#define VOXELD_CUDA_FPS_CUH

#include "kernels/cuda/base/curve.cuh"
#include "kernels/cuda/base/run.cuh"

enum {
  FPS_FINE_BITS = 6,                  // the last bits of a position on the curve
  FPS_FAR_BIT = 3 * CUDA_CURVE_BITS,  // of a sorting key: puts a row that is not finite after all others of its cloud
  FPS_CLOUD_BIT = FPS_FAR_BIT + 1,    // lowest bit of the cloud's number
  FPS_BUCKET = 32,                    // rows of a bucket; buckets of very large clouds have a multiple of it
};

// The box of a cloud's candidates. Its coordinates are integers with the same order as the floats.
struct cuda_fps_box {
  int32_t low[3], high[3];
  uint32_t first, first_from_start;  // first candidate; first candidate from `start` on; CUDA_NO_POINT: none
};

VX_WARN_UNUSED enum vx_status cuda_sample_points(struct cuda_run *run, struct error *error);

// Sets the device's largest_cluster and shared_bytes.
VX_WARN_UNUSED enum vx_status cuda_fps_prepare_device(struct vx_device *device, struct error *error);

// The bytes of temporary storage for the sort.
VX_WARN_UNUSED enum vx_status cuda_fps_measure_sort(const struct cuda_run *run, size_t *bytes, struct error *error);
// Takes memory for the arrays. `rows`: [num_clouds], the rows of each cloud.
VX_WARN_UNUSED enum vx_status cuda_fps_reserve(struct cuda_run *run, const int32_t *rows, struct error *error);
// Sets the rows of each cloud, at most those reserved. The arrays stay where they are.
void cuda_fps_measure(struct cuda_run *run, const int32_t *rows);

// Enqueues the counting of the candidates and, if any are sampled, their sorting.
VX_WARN_UNUSED enum vx_status cuda_fps_sort(const struct cuda_run *run, struct error *error);
// Waits for the number of candidates. VX_REFUSED if a cloud has too few.
VX_WARN_UNUSED enum vx_status cuda_fps_check(struct cuda_run *run, struct error *error);
// Enqueues the choice of all samples.
VX_WARN_UNUSED enum vx_status cuda_fps_sample(struct cuda_run *run, struct error *error);
// Enqueues the writing of the sampled tensors into the image.
VX_WARN_UNUSED enum vx_status cuda_fps_write(const struct cuda_run *run, struct error *error);

#endif
