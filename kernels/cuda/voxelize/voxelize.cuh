// A voxelization on a GPU and its stages. run.cuh says what each stage does.
//
// Runs on the thread that has the lane. Each stage only enqueues work; cuda_voxelize also waits for the sizes.
#ifndef VOXELD_CUDA_VOXELIZE_CUH
#define VOXELD_CUDA_VOXELIZE_CUH

#include "kernels/cuda/base/run.cuh"

VX_WARN_UNUSED enum vx_status cuda_voxelize(struct cuda_run *run, struct error *error);

// Call these three before the job's memory is taken.
// Fills run->filter, except its arrays.
void cuda_plan_filter(struct cuda_run *run);
// Fills run->choice, except its arrays.
void cuda_plan_choice(struct cuda_run *run);
// Fills run->num_rooms and run->room_floats.
void cuda_measure_encoder(struct cuda_run *run);

VX_WARN_UNUSED enum vx_status cuda_insert(const struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_number(const struct cuda_run *run, struct error *error);
VX_WARN_UNUSED enum vx_status cuda_assign(const struct cuda_run *run, struct error *error);

// Renumbers the cells: the cells that max_voxels keeps come first in each cloud. Runs before `assign`.
VX_WARN_UNUSED enum vx_status cuda_choose(const struct cuda_run *run, struct error *error);
// Moves the points that were chosen at random to the front of each row's list. Runs after `assign`.
VX_WARN_UNUSED enum vx_status cuda_pick(const struct cuda_run *run, struct error *error);

// Sorts the first cuda_listed points of each list. Without a cap also computes the means (lists.cuh). `sorted`: lists
// are sorted already.
VX_WARN_UNUSED enum vx_status cuda_order_lists(const struct cuda_run *run, bool sorted, struct error *error);
// For jobs with a list of more than CUDA_SHARED_LIST points: sorts all points by their cells with cub.
VX_WARN_UNUSED enum vx_status cuda_sort_lists(const struct cuda_run *run, struct error *error);

VX_WARN_UNUSED enum vx_status cuda_filter(const struct cuda_run *run, struct error *error);

// Counts the fates of each section's points, if the job has sections. Runs after the block filter and before the
// counters are published.
VX_WARN_UNUSED enum vx_status cuda_count_sections(const struct cuda_run *run, struct error *error);

// By the marks of cells.
VX_WARN_UNUSED enum vx_status cuda_order_rows(const struct cuda_run *run, struct error *error);
// For grids that are too large for marks: with cub. Expects run->sizes.
VX_WARN_UNUSED enum vx_status cuda_sort_rows(const struct cuda_run *run, struct error *error);

// Writes the image. `publish`: also tells the host the sizes.
VX_WARN_UNUSED enum vx_status cuda_gather(const struct cuda_run *run, bool publish, struct error *error);
// Writes the tensors of kernels/maps.h except bev_features.
VX_WARN_UNUSED enum vx_status cuda_write_maps(const struct cuda_run *run, struct error *error);
// Writes encoded_features, or the rows for bev_features (kernels/encode.h).
VX_WARN_UNUSED enum vx_status cuda_encode(const struct cuda_run *run, struct error *error);
// Writes bev_features, once the rows' features are written.
VX_WARN_UNUSED enum vx_status cuda_write_bev(const struct cuda_run *run, struct error *error);

// The number of the cloud's first cell; if `cloud` is the number of clouds, the number of all cells.
static __device__ inline uint32_t cuda_first_cell_of(const struct voxel_view &v, int32_t cloud) {
  if (cloud == v.clouds.count) return v.counters->num_cells;
  if (v.clouds.count == 1) return 0;
  bool at_end = v.clouds.first_point[cloud] == v.clouds.num_points;
  return at_end ? v.counters->num_cells : v.clouds.first_cell[cloud];
}

static __device__ inline struct cuda_record cuda_record_of(const struct voxel_view &v, uint32_t row) {
  return cuda_record_of_row(v.clouds, v.records, cuda_cloud_of_row(v.clouds, row), row);
}

// How many points at the front of a row's list cuda_order_lists sorts.
static __device__ inline uint32_t cuda_listed(const struct voxel_view &v, uint32_t hits) {
  return v.picked ? min(hits, v.cap) : hits;
}

// ---- marks of cells -------------------------------------------------------------------------------------------------
//
// One bit per cell, in the order of the keys, set by assign.cu or filter.cu. All bits are 0 when a job begins; its last
// kernel clears the bits that the job set (transfer.cu).

static __device__ inline uint64_t cuda_key_of_slot(const struct voxel_view &v, uint32_t slot) {
  return v.table.keys ? v.table.keys[slot] : slot;
}

static __device__ inline void cuda_mark(const struct voxel_view &v, uint32_t slot) {
  uint64_t key = cuda_key_of_slot(v, slot);
  atomicOr(&v.marks[key / 32], 1u << key % 32);
}

#endif
