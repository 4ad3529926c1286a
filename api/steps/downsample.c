// The parameters of the step `downsample`; see kernels/step_downsample.h.
#include <string.h>

#include "api/base/json_write.h"
#include "api/steps/steps.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

static const char *const method_words[] = {"first",  "centroid", "center", "nearest_centroid",
                                           "random", "all",      NULL};  // enum vx_downsample_method
static const char *const average_words[] = {"all", "xyz", NULL};         // enum vx_downsample_average
static const char *const cells_words[] = {"floor", "nearest", NULL};     // enum vx_lattice_cells
_Static_assert(sizeof(enum vx_downsample_method) == sizeof(int32_t) &&
                   sizeof(enum vx_downsample_average) == sizeof(int32_t) &&
                   sizeof(enum vx_lattice_cells) == sizeof(int32_t),
               "an enum is written as an int32_t");

static bool read_size(const struct param *param, const char *value, const char *end, void *record) {
  (void)param;
  return value_read_size(value, end, ((struct request_step *)record)->step.params.downsample.size);
}

static void write_size(const struct param *param, const void *record, struct text *out) {
  (void)param;
  value_write_floats(((const struct request_step *)record)->step.params.downsample.size, 3, out);
}

static const struct value_type value_size = {"float or floats", false, read_size, write_size, NULL, NULL};

static const struct param voxel_size = {
    .name = "voxel_size",
    .type = &value_size,
    .allowed = "one number for all axes, or x,y,z, finite, each above 0",
    .unit = "metres",
    .doc = "edges of the cells; points over 1048575 cells from the origin are dropped as out_of_lattice",
};
static const struct param method = {
    .name = "method",
    .type = &value_word,
    .offset = STEP_FIELD(step.params.downsample.method),
    .words = method_words,
    .initial = "centroid",
    .doc = "what is kept of a cell: its first point; the mean, in the row of its first point; the point nearest to the "
           "cell's centre, or to the mean; a random point; or all its points",
};
static const struct param average = {
    .name = "average",
    .type = &value_word,
    .offset = STEP_FIELD(step.params.downsample.average),
    .words = average_words,
    .initial = "all",
    .doc = "with method=centroid: whether the mean replaces all columns or only x, y and z",
};
static const struct param cells = {
    .name = "cells",
    .type = &value_word,
    .offset = STEP_FIELD(step.params.downsample.cells),
    .words = cells_words,
    .initial = "floor",
    .doc = "how a coordinate becomes a cell: rounded down, or to the nearest whole number (MinkowskiEngine, MinkUNet)",
};
static const struct param origin = {
    .name = "origin",
    .type = &value_floats,
    .offset = STEP_FIELD(step.params.downsample.origin),
    .least = 3,
    .initial = "0,0,0",
    .allowed = "x,y,z, finite",
    .unit = "metres",
    .doc = "where the cells begin",
};
static const struct param min_points = {
    .name = "min_points",
    .type = &value_int,
    .offset = STEP_FIELD(step.params.downsample.min_points),
    .least = 1,
    .most = INT32_MAX,
    .initial = "1",
    .doc = "drops the points of cells with fewer points than this",
};
static const struct param every = {
    .name = "every",
    .type = &value_int,
    .offset = STEP_FIELD(step.params.downsample.every),
    .least = 1,
    .most = INT32_MAX,
    .doc = "in place of voxel_size: N keeps the first of every N points of a cloud",
};
static const struct param seed = {
    .name = "seed",
    .type = &value_int,
    .offset = STEP_FIELD(step.params.downsample.seed),
    .least = 0,
    .most = INT32_MAX,
    .initial = "0",
    .doc = "with method=random: another seed chooses other points",
};

static const struct param *const rows[] = {&voxel_size, &method, &average, &cells, &origin,
                                           &min_points, &every,  &seed,    NULL};
STEP_ROWS_FIT(rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

static bool is_given(const struct request_step *step, const struct param *param) {
  for (int row = 0; rows[row]; row++)
    if (rows[row] == param) return step->given[row];
  return false;
}

static bool finish(struct request_step *step, struct error *error) {
  if (!is_given(step, &every))
    return is_given(step, &voxel_size) ||
           error_refuse(error, ERROR_BAD_PARAMETER, "voxel_size", "voxel_size is missing; give it, or every");
  for (int row = 0; rows[row]; row++)
    if (step->given[row] && rows[row] != &every)
      return error_refuse(error, ERROR_BAD_PARAMETER, rows[row]->name,
                          "%s is given together with every, which keeps points by their number; give only one",
                          rows[row]->name);
  return true;
}

const struct step_kind step_downsample = {
    .type = VX_STEP_DOWNSAMPLE,
    .doc = "keeps few points of each cell of a lattice",
    .rows = rows,
    .finish = finish,
};
