// The parameters of the step `radius_outlier`; see kernels/step_radius_outlier.h.
#include "api/steps/steps.h"

static const char *const axes_words[] = {"xyz", "xy", NULL};  // enum vx_radius_axes
_Static_assert(sizeof(enum vx_radius_axes) == sizeof(int32_t), "an enum is written as an int32_t");

static const struct param radius = {
    .name = "radius",
    .type = &value_float,
    .offset = STEP_FIELD(step.params.radius_outlier.radius),
    .from = VX_LEAST_RADIUS,
    .to = VX_MOST_RADIUS,
    .unit = "metres",
    .doc = "points at most this far apart are neighbours",
    .required = true,
};
static const struct param min_neighbors = {
    .name = "min_neighbors",
    .type = &value_int,
    .offset = STEP_FIELD(step.params.radius_outlier.min_neighbors),
    .least = 1,
    .most = VX_MAX_NEIGHBORS,
    .doc = "a point stays if it has at least this many neighbours, not counting itself",
    .required = true,
};
static const struct param axes = {
    .name = "axes",
    .type = &value_word,
    .offset = STEP_FIELD(step.params.radius_outlier.axes),
    .words = axes_words,
    .initial = "xyz",
    .doc = "the axes along which distances are measured",
};

static const struct param *const rows[] = {&radius, &min_neighbors, &axes, NULL};
STEP_ROWS_FIT(rows);

const struct step_kind step_radius_outlier = {
    .type = VX_STEP_RADIUS_OUTLIER,
    .doc = "drops points with few neighbours",
    .rows = rows,
};
