// The parameters of the step `statistical_outlier`; see kernels/step_statistical_outlier.h.
#include "api/steps/steps.h"

static const struct param mean_k = {
    .name = "mean_k",
    .type = &value_int,
    .offset = STEP_FIELD(step.params.statistical_outlier.mean_k),
    .least = 1,
    .most = VX_MAX_MEAN_K,
    .doc = "number of nearest other points whose distances are averaged",
    .required = true,
};
static const struct param std_mul = {
    .name = "std_mul",
    .type = &value_float,
    .offset = STEP_FIELD(step.params.statistical_outlier.std_mul),
    .to = INFINITY,
    .doc = "a point stays if its mean distance is at most the cloud's mean plus this many standard deviations",
    .required = true,
};

static const struct param *const rows[] = {&mean_k, &std_mul, NULL};
STEP_ROWS_FIT(rows);

// A search for neighbours may take as long as a sampling, so it has the same limit.
static bool split(struct request_step *step, const struct chain_points *points, struct error *error) {
  int64_t work = points->num_points * step->step.params.statistical_outlier.mean_k;
  return work <= points->max_work ||
         error_refuse(error, ERROR_IMPOSSIBLE, "mean_k",
                      "points times mean_k are %lld, too much work for one request; allowed: up to %lld",
                      (long long)work, (long long)points->max_work);
}

const struct step_kind step_statistical_outlier = {
    .type = VX_STEP_STATISTICAL_OUTLIER,
    .doc = "drops points that are far from their nearest neighbours",
    .rows = rows,
    .split = split,
};
