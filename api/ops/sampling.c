// See sampling.h.
#include "api/ops/sampling.h"

#include "api/base/json_write.h"

static bool read_samples(const struct param *param, const char *value, const char *end, void *record) {
  struct job_request *request = record;
  request->num_sample_counts = 0;
  if (param->initial && value_is_off(value, end)) return true;
  return value_read_clouds(value, end, VX_MAX_CLOUDS, record, &request->sample_counts, &request->num_sample_counts);
}

static void write_samples(const struct param *param, const void *record, struct text *out) {
  (void)param;
  const struct job_request *request = record;
  if (request->num_sample_counts == 0)
    json_put_string(out, "off");
  else if (request->num_sample_counts > 1)
    value_write_counts(request->sample_counts, request->num_sample_counts, out);
  else
    json_put_integer(out, request->sample_counts[0]);
}

const struct value_type value_samples = {"int or ints", false, read_samples, write_samples, NULL, NULL};

void sampling_finish(struct job_request *request, struct vx_sampling *sampling) {
  sampling->enabled = request->num_sample_counts > 0;
  sampling->stacked = request->num_sample_counts > 1;
}

bool sampling_split(struct job_request *request, struct vx_sampling *sampling, struct error *error) {
  const char *name = operations[request->job.op]->samples;
  if (!sampling->enabled) return true;
  sampling->max_work = request->max_sampling_work;
  if (sampling->stacked && request->num_sample_counts != request->num_clouds)
    return error_refuse(error, ERROR_BAD_PARAMETER, name,
                        "%s has %d numbers, but the batch has %d clouds; allowed: one number, or one for each cloud",
                        name, (int)request->num_sample_counts, (int)request->num_clouds);
  if (sampling->stacked || request->num_clouds <= 1) return true;
  int32_t *counts = pool_take(&request->pool, (size_t)request->num_clouds * sizeof *counts);
  if (!counts) return pool_refuse(error);
  for (int32_t i = 0; i < request->num_clouds; i++) counts[i] = request->sample_counts[0];
  request->sample_counts = counts;
  return true;
}
