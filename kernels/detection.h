// The stages of a detection: jobs of other operations, and the runs of the network between them. A backend allocates
// the tensors between the stages, runs the jobs, and moves channels.
//
// A detection belongs to the thread that has the lane. Its job outlives it.
#ifndef VOXELD_DETECTION_H
#define VOXELD_DETECTION_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vx_detection {
  struct vx_job *job;
  const struct vx_detector *detector;
  struct vx_layout voxels;              // the backbone's input, for the most voxels until they are counted
  struct vx_shape features;             // bev_features; rank 0: not wanted
  struct vx_shape maps[VX_MAX_INPUTS];  // of all clouds, as the network writes them; rank 0: absent
  struct vx_sparse_result sparse;       // of the backbone
  // Memory of the backend.
  void *voxels_at;  // NULL without a backbone
  void *features_at;
  void *written[VX_MAX_INPUTS];  // the network's outputs
  void *last[VX_MAX_INPUTS];     // the outputs with the channels last; may be the same memory
  // The decoder's stage.
  int32_t items[VX_MAX_CLOUDS];  // anchors or candidates per cloud
  struct vx_job *decode;         // NULL until it runs
  struct vx_layout layout;       // the job's output; filled when `output` is taken
  unsigned char *output;         // NULL until then
};

// The network's maps, the rows of the backbone, then bev_features.
enum { VX_SHOWN_TENSORS = VX_MAX_INPUTS + 3 };
struct vx_shown {
  enum vx_tensor tensor;
  const void *from;  // in the backend's memory
};

struct vx_detection vx_detection_of(struct vx_job *job);

// Fills `voxels`, `features` and `maps`. VX_REFUSED if the tensors would not fit a size_t. Call vx_begin_job first.
VX_WARN_UNUSED enum vx_status vx_detection_measure(struct vx_detection *detection, struct error *error);
// The first stage. With a backbone it writes voxel_coords and voxel_features to voxels_at and their layout to `voxels`;
// without a backbone it writes bev_features to features_at.
struct vx_job vx_detection_voxelize(struct vx_detection *detection, int32_t *row_counts);
// The input of the backbone, which writes its map to features_at.
struct vx_sparse_rows vx_detection_rows(const struct vx_detection *detection);
// Whether a map's channels must be moved from `written` to `last`.
bool vx_detection_moves(const struct vx_detection *detection, int map);

// VX_STOPPED if the job is stopped. `next` completes the error: "ended before ...".
VX_WARN_UNUSED enum vx_status vx_detection_check_time(const struct vx_detection *detection, const char *next,
                                                      struct error *error);
// Runs the network for all clouds at once, or cloud by cloud. Uses the job's session if there is one.
VX_WARN_UNUSED enum vx_status vx_detection_network(struct vx_detection *detection, struct error *error);

// The last stage, which reads the maps at `last`. It writes into the job's output, since the decoder's tensors are
// consecutive in the job's layout, too.
struct vx_job vx_detection_decode(struct vx_detection *detection);
// Copies the counts of a stage to the job, and adds its times. Call this even if the stage failed.
void vx_detection_add(struct vx_detection *detection, const struct vx_job *stage);

// Takes the job's output, unless the job has no tensors or the decoder's stage has taken it.
VX_WARN_UNUSED enum vx_status vx_detection_settle(struct vx_detection *detection, struct error *error);
// Fills `shown` with the stages' tensors, whether the job asks for them or not, and returns their number.
int vx_detection_shown(const struct vx_detection *detection, struct vx_shown shown[VX_SHOWN_TENSORS]);

#ifdef __cplusplus
}
#endif
#endif
