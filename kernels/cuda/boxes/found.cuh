// What both decoders share on a GPU: the arrays of what they find in a head's maps, and the way from the kept boxes to
// the output.
//
//   find      Lists the candidates of each segment. (find.cuh)
//   rank      Puts the best of them in order. (rank.cuh)
//   make      Makes their boxes: decode.cu, center.cu.
//   suppress  Lists the boxes that are kept. (suppress.cuh)
//   settle    Adds up the fates and tells the host the sizes.
//   write     Writes the tensors into the image of the output.
//
// A segment is what is ranked and suppressed for itself: a cloud, or a task of a cloud. The candidates have no boxes
// until they are ranked, so that memory for boxes follows from the ranks and not from the size of the maps.
#ifndef VOXELD_CUDA_FOUND_CUH
#define VOXELD_CUDA_FOUND_CUH

#include "kernels/cuda/boxes/maps.cuh"
#include "kernels/cuda/boxes/rank.cuh"
#include "kernels/cuda/boxes/suppress.cuh"

// Of one job, as the kernels see it.
struct cuda_found {
  // What the decoder says.
  uint32_t tasks;                         // segments of a cloud
  uint32_t task_first[VX_MAX_TASKS + 1];  // of each task, and of the next cloud: the number of its first candidate
  uint32_t most_ranked;                   // candidates of a segment that are ranked at most
  uint32_t most_made;                     // boxes of a segment at most, as cuda_ranked_begin has them
  uint32_t values;                        // of a box
  bool some_left_out;                     // not all that are ranked become boxes: num_made says how many do
  uint32_t num_radii;                     // of the circles of the tasks, or one for all; 0: there are no circles
  float radii[VX_MAX_TASKS];
  struct cuda_map maps[VX_MAX_INPUTS];
  // Arrays on the device.
  struct cuda_segments segments;
  uint32_t *first;      // [segments]: place of each segment's keys; NULL if there is one task
  float *device_radii;  // [num_radii]
  uint64_t *keys;       // rank key and number of each candidate that is ranked, segment by segment
  uint32_t *num_found;  // [segments]: how many those are; zeros at first
  uint64_t *ranked;     // [cuda_ranked_room(most_ranked)]: the best of them; later, of those that have boxes
  uint32_t *num_made;   // [segments]: boxes that were made
  float *boxes;         // [cuda_ranked_room(most_made), values]: in the order of ranks
  int32_t *labels;      // of the boxes
  uint32_t *first_row;  // [segments]: of each segment in the output
  uint32_t *kept;       // as suppression has them
  uint32_t *num_kept;
};

// The output of a job whose maps are empty.
VX_WARN_UNUSED enum vx_status cuda_write_none(struct cuda_run *run, struct error *error);
// The parts of a job that rank and suppress.
struct cuda_found_parts {
  struct cuda_ranking ranking;
  struct cuda_suppression suppression;
};

// Gives all arrays their place and brings the inputs to the device, once the decoder has said its part. `nms`: of a
// segment's boxes; its pre_max is found->most_made.
VX_WARN_UNUSED enum vx_status cuda_prepare_found(struct cuda_run *run, const struct vx_nms *nms,
                                                 struct cuda_found *found, struct cuda_found_parts *parts,
                                                 struct error *error);
// All that comes after the boxes.
VX_WARN_UNUSED enum vx_status cuda_finish_found(struct cuda_run *run, const struct cuda_found *found,
                                                struct cuda_suppression *suppression, struct error *error);

#endif
