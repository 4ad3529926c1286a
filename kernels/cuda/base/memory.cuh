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

// Makes room for at least that many bytes; what was there is lost if it grows.
VX_WARN_UNUSED enum vx_status cuda_reserve(struct cuda_memory *memory, size_t bytes, struct vx_error *error);
// The places of the points, and of the first point of each cloud.
void cuda_take_points(struct cuda_run *run, struct cuda_arena *arena);
void cuda_take_clouds(struct cuda_run *run, struct cuda_arena *arena);
// The control block of a lane that is clean, for a job that makes no voxels; with run->num_tiles tiles.
VX_WARN_UNUSED enum vx_status cuda_prepare_control(struct cuda_run *run, struct vx_error *error);
// Gives all arrays of the job their place, in a lane that is clean.
VX_WARN_UNUSED enum vx_status cuda_prepare_memory(struct cuda_run *run, struct vx_error *error);
// Room for jobs of a usual size, so that the first ones allocate nothing.
VX_WARN_UNUSED enum vx_status cuda_presize(struct vx_lane *lane, struct vx_error *error);
// Gives back what a job of unusual size took.
VX_WARN_UNUSED enum vx_status cuda_trim(struct vx_lane *lane, struct vx_error *error);
void cuda_free_all(struct vx_lane *lane);

#endif
