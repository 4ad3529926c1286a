// A detection on its way through its stages, for every backend: what detect.h says, as jobs of other operations and
// runs of the network between them. A backend places the tensors between the stages, runs the jobs, and moves channels.
//
// A detection belongs to the thread that has the lane. It points to the job, which outlives it.
#ifndef VOXELD_DETECTION_H
#define VOXELD_DETECTION_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vx_detection {
  struct vx_job *job;
  const struct vx_detector *detector;
  struct vx_layout features;            // of the first stage: bev_features alone
  struct vx_shape maps[VX_MAX_INPUTS];  // of all clouds, as the network writes them; rank 0: not given
  // Memory of the backend.
  void *features_at;
  void *written[VX_MAX_INPUTS];  // by the network
  void *last[VX_MAX_INPUTS];     // the same with the channels last, which may be the same memory
  // The last stage.
  int32_t items[VX_MAX_CLOUDS];  // of the decoder
  struct vx_job *decode;         // NULL until it runs
  struct vx_layout layout;       // of the job, once its boxes are counted
  unsigned char *output;         // NULL until then
};

// The tensors that a detection shows of its stages: the network's maps, and bev_features behind them.
enum { VX_SHOWN_TENSORS = VX_MAX_INPUTS + 1 };
struct vx_shown {
  enum vx_tensor tensor;
  const void *from;  // in the backend's memory
};

struct vx_detection vx_detection_of(struct vx_job *job);

// The first stage. Its tensor is to be left at features_at, which its caller gives. vx_begin_job comes first.
struct vx_job vx_detection_voxelize(struct vx_detection *detection, int32_t *row_counts);
// Fills `features` and `maps`, once that job has begun. VX_REFUSED if they would not fit a size_t.
VX_WARN_UNUSED enum vx_status vx_detection_measure(struct vx_detection *detection, const struct vx_job *voxelize,
                                                   struct error *error);
// Whether the channels of a map have to be moved: from `written` to `last`.
bool vx_detection_moves(const struct vx_detection *detection, int map);

// VX_STOPPED if the job is to end before what comes next, which the error names.
VX_WARN_UNUSED enum vx_status vx_detection_check_time(const struct vx_detection *detection, const char *next,
                                                      struct error *error);
// Runs the network over all clouds, or over one after the other, on the job's session if it has one.
VX_WARN_UNUSED enum vx_status vx_detection_network(struct vx_detection *detection, struct error *error);

// The last stage, over the maps at `last`. Its caller gives it its part of the job's output; the decoder's tensors
// follow on each other in the table of tensors, so that both layouts have the same distances between them.
struct vx_job vx_detection_decode(struct vx_detection *detection);
// Adds what a stage has counted and measured to the job, whatever it came to.
void vx_detection_add(struct vx_detection *detection, const struct vx_job *stage);

// Takes the job's output if no stage has done so, and the job has tensors.
VX_WARN_UNUSED enum vx_status vx_detection_settle(struct vx_detection *detection, struct error *error);
// What the stages leave for the output, in the order of the layout: how many tensors. Not all of it is asked for.
int vx_detection_shown(const struct vx_detection *detection, struct vx_shown shown[VX_SHOWN_TENSORS]);

#ifdef __cplusplus
}
#endif
#endif
