// What a request says about the motion of its sensor while a sweep was measured. api/ops/deskew.h reads these values.
// Any thread.
#ifndef VOXELD_PARAMS_DESKEW_H
#define VOXELD_PARAMS_DESKEW_H

#include "api/params/motion.h"
#include "api/params/times.h"

enum deskew_mode {
  DESKEW_OFF,
  DESKEW_POSES,
  DESKEW_TWISTS,
  DESKEW_STREAM,  // from the pose of the stream's previous sweep to the pose of this sweep
};

struct deskew_terms {
  enum deskew_mode mode;
  int32_t slerp;     // bool
  double reference;  // seconds
  struct motion_size poses, twists;
};

#endif
