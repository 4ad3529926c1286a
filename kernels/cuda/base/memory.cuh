// A lane's memory on the device: its blocks, and the place of each array of a job in them.
#ifndef VOXELD_CUDA_MEMORY_CUH
#define VOXELD_CUDA_MEMORY_CUH

#include "kernels/cuda/base/run.cuh"

struct cuda_arena {
  unsigned char *memory;  // NULL: takes are only measured
  size_t used;            // SIZE_MAX once a size did not fit
};

void *cuda_take(struct cuda_arena *arena, uint64_t count, size_t size);
// An array of `count` items, aligned for any access; NULL while the arena is only measured.
template <typename type> static inline void take(struct cuda_arena *arena, type **array, uint64_t count) {
  *array = (type *)cuda_take(arena, count, sizeof(type));
}

// Finds the pool that the lanes of the device take their memory from, if the device has one.
VX_WARN_UNUSED enum vx_status cuda_find_pool(struct vx_device *device, struct error *error);
// Makes room for at least `bytes` bytes in one of the lane's blocks. If the block grows, its content is lost, and the
// lane's stream alone may use it.
VX_WARN_UNUSED enum vx_status cuda_reserve(struct vx_lane *lane, struct cuda_memory *block, size_t bytes,
                                           struct error *error);
// Take the arrays of the points, and of the first point of each cloud.
void cuda_take_points(struct cuda_run *run, struct cuda_arena *arena);
void cuda_take_clouds(struct cuda_run *run, struct cuda_arena *arena);
// Prepares the control block and the table of a clean lane, with run->num_tiles tiles and run->table.slots slots, for a
// job that makes no voxels.
VX_WARN_UNUSED enum vx_status cuda_prepare_control(struct cuda_run *run, struct error *error);
// Gives all arrays of a voxelization their place, in a clean lane.
VX_WARN_UNUSED enum vx_status cuda_prepare_memory(struct cuda_run *run, struct error *error);
// Takes memory for jobs of a usual size, so that the first jobs allocate nothing.
VX_WARN_UNUSED enum vx_status cuda_presize(struct vx_lane *lane, struct error *error);
// Gives back what the job outgrew, and the memory that a job of unusual size took.
VX_WARN_UNUSED enum vx_status cuda_trim(struct vx_lane *lane, struct error *error);
void cuda_free_all(struct vx_lane *lane);

#endif
