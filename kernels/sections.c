// See sections.h.
#include "kernels/sections.h"

bool vx_begin_sections(struct vx_job *job) {
  const struct vx_sections *sections = &job->sections;
  int64_t points = 0;
  if (job->num_clouds != 1 || sections->count < 0 || sections->count > VX_MAX_SECTIONS) {
    return false;
  }
  for (int32_t i = 0; i < sections->count; i++) {
    if (sections->points[i] < 0) {
      return false;
    }
    sections->counts[i] = (struct vx_counts){.received = sections->points[i]};
    points += sections->points[i];
  }
  return points == job->counts.received;
}
