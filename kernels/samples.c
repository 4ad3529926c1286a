// See samples.h.
#include "kernels/samples.h"

#include "kernels/ops.h"

static const char *name_of(const struct vx_job *job) {
  return vx_operations[job->op].makes_voxels ? "voxels" : "points";
}

bool vx_starts_at_rank(const struct vx_job *job) { return job->op == VX_FPS && job->chain && job->chain->count > 0; }

enum vx_status vx_check_samples(const struct vx_job *job, const int32_t *from, struct error *error) {
  const struct vx_sampling *sampling = vx_sampling_of(job);
  const char *what = name_of(job);
  int64_t work = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    int32_t samples = job->sample_counts[cloud];
    if (samples > from[cloud]) {
      return vx_refuse(error, "cloud %d has %d %s, fewer than the %d samples requested", (int)cloud, (int)from[cloud],
                       what, (int)samples);
    }
    if (samples > 0 && sampling->start >= from[cloud]) {
      return vx_refuse(error, "cloud %d has %d %s, so sampling cannot start from number %d", (int)cloud,
                       (int)from[cloud], what, (int)sampling->start);
    }
    if (__builtin_add_overflow(work, (int64_t)from[cloud] * samples, &work)) work = INT64_MAX;
  }
  if (work > sampling->max_work) {
    return vx_refuse(error, "%lld %s times samples are too much work for one request; allowed: up to %lld",
                     (long long)work, what, (long long)sampling->max_work);
  }
  return VX_OK;
}

enum vx_status vx_check_candidates(const struct vx_job *job, int32_t cloud, int64_t candidates, struct error *error) {
  int32_t samples = job->sample_counts[cloud], start = vx_starts_at_rank(job) ? job->params.fps.sampling.start : 0;
  if (samples > 0 && samples <= candidates && start >= candidates)
    return vx_refuse(error, "of cloud %d the steps left %lld points, so sampling cannot start from number %d",
                     (int)cloud, (long long)candidates, (int)start);
  if (samples <= candidates) return VX_OK;
  if (vx_starts_at_rank(job))
    return vx_refuse(error, "of cloud %d the steps left %lld points, fewer than the %d samples requested", (int)cloud,
                     (long long)candidates, (int)samples);
  return vx_refuse(error, "cloud %d has %lld %s whose x, y and z are finite, fewer than the %d samples requested",
                   (int)cloud, (long long)candidates, name_of(job), (int)samples);
}

enum vx_status vx_begin_samples(struct vx_job *job, const int32_t *from, struct error *error) {
  enum vx_status status = vx_check_samples(job, from, error);
  for (int32_t cloud = 0; status == VX_OK && cloud < job->num_clouds; cloud++)
    job->counts.sampled += job->sample_counts[cloud];
  return status;
}
