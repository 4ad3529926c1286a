// A voxelization on a GPU, and its stages, in the order in which they run: run.cuh says what each does. Runs on the
// thread that has the lane; each stage only enqueues work.
#ifndef VOXELD_CUDA_VOXELIZE_CUH
#define VOXELD_CUDA_VOXELIZE_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_voxelize(struct cuda_run *run, struct error *error);

// Before the job's memory is taken: fills run->filter, but for its arrays, and run->filter_cub_bytes.
VX_WARN_UNUSED enum vx_status cuda_plan_filter(struct cuda_run *run, struct error *error);
// Likewise: fills run->num_rooms and run->room_floats.
void cuda_measure_encoder(struct cuda_run *run);

// From points to cells, to numbers, to rows.
VX_WARN_UNUSED enum vx_status cuda_insert(const struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_number(const struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_assign(const struct cuda_run *run, struct error *error);

// Orders whole lists and takes the sums that are trees. `sorted`: the lists are in order already.
VX_WARN_UNUSED enum vx_status cuda_order_lists(const struct cuda_run *run, bool sorted, struct error *error);
// Sorts all points by their cells by cub, if a list is too long for any block.
VX_WARN_UNUSED enum vx_status cuda_sort_lists(const struct cuda_run *run, struct error *error);

VX_WARN_UNUSED enum vx_status cuda_filter(const struct cuda_run *run, struct error *error);

// Counts the fates of the points of each section, if the job has sections: after the block filter and before the
// counters are published.
VX_WARN_UNUSED enum vx_status cuda_count_sections(const struct cuda_run *run, struct error *error);

// Orders rows by the marks of their cells.
VX_WARN_UNUSED enum vx_status cuda_order_rows(const struct cuda_run *run, struct error *error);
// Sorts the rows of a grid that is too large for marks by cub. Expects run->sizes.
VX_WARN_UNUSED enum vx_status cuda_sort_rows(const struct cuda_run *run, struct error *error);

// From rows to tensors: writes the image. `publish`: also tells the host the sizes.
VX_WARN_UNUSED enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct error *error);
// Writes the dense tensors but bev_features: maps.h of kernels/ says what they have.
VX_WARN_UNUSED enum vx_status cuda_write_maps(const struct cuda_run *run, struct error *error);
// Writes encoded_features, or the rows that bev_features is made of: encode.h of kernels/.
VX_WARN_UNUSED enum vx_status cuda_encode(const struct cuda_run *run, struct error *error);
// Makes bev_features, when the rows' features are there.
VX_WARN_UNUSED enum vx_status cuda_write_bev(const struct cuda_run *run, struct error *error);

// ---- marks of cells -------------------------------------------------------------------------------------------------
//
// One bit each, in the order of the keys. They are all 0 when a job begins, and its end clears those that it set
// (transfer.cu).

static __device__ inline uint64_t cuda_key_of_slot(const struct voxel_view &v, uint32_t slot) {
  return v.table.keys ? v.table.keys[slot] : slot;
}

static __device__ inline void cuda_mark(const struct voxel_view &v, uint32_t slot) {
  uint64_t key = cuda_key_of_slot(v, slot);
  atomicOr(&v.marks[key / 32], 1u << key % 32);
}

#endif
