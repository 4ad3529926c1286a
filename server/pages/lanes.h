// The names of each kind of lanes, in metrics and in /v1/status. Constant.
#ifndef VOXELD_LANES_H
#define VOXELD_LANES_H

#include "kernels/kernels.h"

static const struct lane_names {
  const char *label;            // in metrics
  const char *workers, *queue;  // in /v1/status
} lane_names[VX_LANE_USES] = {
    [VX_LANE_QUICK] = {"quick", "workers", "queue"},
    [VX_LANE_LONG] = {"long", "long_workers", "long_queue"},
    [VX_LANE_DETECT] = {"detect", "detection_workers", "detection_queue"},
};

#endif
