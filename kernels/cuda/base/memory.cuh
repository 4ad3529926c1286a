// A lane's blocks of device memory, and the arrays of a job in them.
#ifndef VOXELD_CUDA_MEMORY_CUH
#define VOXELD_CUDA_MEMORY_CUH

#include "kernels/cuda/base/run.cuh"

struct cuda_arena {
  unsigned char *memory;  // NULL: the arena only measures
  size_t used;            // SIZE_MAX after an overflow
};

void *cuda_take(struct cuda_arena *arena, uint64_t count, size_t size);
// Takes an array of `count` items, aligned for any access; NULL while the arena only measures.
template <typename type> static inline void take(struct cuda_arena *arena, type **array, uint64_t count) {
  *array = (type *)cuda_take(arena, count, sizeof(type));
}

// Finds the device's memory pool, if it has one.
VX_WARN_UNUSED enum vx_status cuda_find_pool(struct vx_device *device, struct error *error);
// Makes room for `bytes` bytes in a block of the lane. If the block grows, its content is lost, and only the lane's
// stream may use it. It grows to a power of two, if the device has so much.
VX_WARN_UNUSED enum vx_status cuda_reserve(struct vx_lane *lane, struct cuda_memory *block, size_t bytes,
                                           struct error *error);
// The same, but grows to `bytes`: for jobs whose `bytes` already include room for larger jobs.
VX_WARN_UNUSED enum vx_status cuda_reserve_exactly(struct vx_lane *lane, struct cuda_memory *block, size_t bytes,
                                                   struct error *error);
void cuda_take_points(struct cuda_run *run, struct cuda_arena *arena);
void cuda_take_clouds(struct cuda_run *run, struct cuda_arena *arena);
// Prepares the control block (run->num_tiles tiles) and the table (run->table.slots slots) for a job that makes no
// voxels. Clears them first unless the lane is clean.
VX_WARN_UNUSED enum vx_status cuda_prepare_control(struct cuda_run *run, struct error *error);
// Takes all arrays of a voxelization, and prepares control block and table as above.
VX_WARN_UNUSED enum vx_status cuda_prepare_memory(struct cuda_run *run, struct error *error);
// Takes memory for jobs of a usual size, so that the first jobs allocate nothing.
VX_WARN_UNUSED enum vx_status cuda_presize(struct vx_lane *lane, struct error *error);
// Frees memory that an unusually large job took.
VX_WARN_UNUSED enum vx_status cuda_trim(struct vx_lane *lane, struct error *error);
void cuda_release_all(struct vx_lane *lane);

#endif
