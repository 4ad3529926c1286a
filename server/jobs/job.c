// See job.h.
#include "server/jobs/job.h"

#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
#include "server/base/base.h"

void job_init(struct job *job, struct job_services *services) {
  memset(job, 0, offsetof(struct job, work));
  job->services = services;
  job->spec.id = "";
  job->spec.kind = answer_kind_of(NULL);
  job->spec.regions_registered = atomic_load(&services->regions->registered);
  job->held.queue_slot = SHARES;
}

enum vx_lane_use job_lane_use(const struct job *job) {
  enum vx_lane_use use = vx_lane_use_of(&job->asked.job, job->asked.point_counts);
  return use == VX_LANE_QUICK && chain_is_long(&job->asked.chain) ? VX_LANE_LONG : use;
}

bool job_is_stopped(void *ctx) {
  const struct job *job = ctx;
  return job_is_stale(job, clock_ns()) || atomic_load(&job->services->hurry);
}

bool job_refuse_stopped(struct job *job, const char *what) {
  if (atomic_load(&job->services->hurry)) return error_refuse(&job->result.error, ERROR_DRAINING, NULL, DRAIN_IS_OVER);
  return job_refuse_after(job, ERROR_DEADLINE, what);
}

bool job_refuse_after(struct job *job, enum error_kind kind, const char *what) {
  return error_refuse(&job->result.error, kind, NULL, "%s, after %lld ms", what,
                      (long long)((clock_ns() - job->queued_ns) / NS_PER_MS));
}

// A batch without point_counts counts as one cloud until its rows are counted.
enum vx_status job_layout(const struct job *job, int64_t rows, struct vx_layout *layout, struct error *error) {
  struct vx_job work = job->asked.job;
  work.tensors = job_answer_kind(job)->tensors(&job->asked);
  work.counts.voxels_kept = work.counts.kept = rows;
  if (work.num_clouds == 0) work.num_clouds = job->asked.num_clouds ? job->asked.num_clouds : 1;
  struct vx_sizes sizes = vx_sizes_of(&work);
  return vx_layout_of(work.tensors, &sizes, layout, error);
}

bool job_may_use_state(const struct job *job, struct error *error) {
  return !job->spec.cross_origin ||
         error_refuse(error, ERROR_FORBIDDEN, NULL,
                      "streams and shared memory are not for web pages of other sites: %s", job->spec.cross_origin);
}

bool job_may_fit(const struct job *job, struct error *error) {
  struct vx_layout layout;
  if (job_layout(job, 0, &layout, error) != VX_OK) return false;
  return layout.bytes <= job->services->max_response_bytes ||
         error_refuse(error, ERROR_IMPOSSIBLE, NULL, "the answer would have %zu bytes or more; allowed: up to %zu",
                      layout.bytes, job->services->max_response_bytes);
}

// ---- shortages ------------------------------------------------------------------------------------------------------

static bool granted(enum grant grant, enum error_kind full, const char *what, struct error *error) {
  if (grant == GRANTED) return true;
  if (grant == OVER_SERVER_LIMIT) return error_refuse(error, full, NULL, "there is no room for %s now", what);
  return error_refuse(
      error, ERROR_CLIENT_OVER_SHARE, NULL,
      "with %s this client would hold more than it leaves to others; wait until one of its requests ends", what);
}

bool shortage_refuse(const struct shortage *shortage, const char *what, struct error *error) {
  char text[64];
  snprintf(text, sizeof text, "%s of %lld bytes", what, (long long)shortage->amount);
  return granted(shortage->grant, ERROR_MEMORY_FULL, text, error);
}

bool queue_slot_acquire(struct clients *clients, struct client *client, enum vx_lane_use use, struct shortage *shortage,
                        struct error *error) {
  enum share share = share_of_queue_slot(use);
  *shortage = (struct shortage){share_acquire(clients, client, share, 1, 0), share, 1};
  return granted(shortage->grant, ERROR_QUEUE_FULL, "another job", error);
}
