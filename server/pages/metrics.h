// GET /metrics: the counters and what the rooms hold, in Prometheus text format. IO threads.
#ifndef VOXELD_METRICS_H
#define VOXELD_METRICS_H

#include "api/base/text.h"
#include "server/pages/view.h"

void metrics_write(const struct view *view, struct text *out);
void metrics_describe(struct text *out);  // the table of families as a JSON array

#endif
