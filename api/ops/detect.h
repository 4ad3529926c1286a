// Requests for detections take their detector before their query is read. Any thread.
#ifndef VOXELD_API_DETECT_H
#define VOXELD_API_DETECT_H

#include "api/ops/ops.h"

// Sets the detector, and the parameters that it has a value for, which count as given: the query may change them.
void detect_choose(struct job_request *request, const struct vx_detector *detector);

#endif
