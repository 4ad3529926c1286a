// The parameters of POST /v1/scatter; kernels/scatter.h says what they mean.
#include "api/ops/rows.h"

// ---- rows -----------------------------------------------------------------------------------------------------------

enum { AXES = 3 };

static bool read_grid(const struct param *param, const char *value, const char *end, void *record) {
  int32_t *cells = (void *)((char *)record + param->offset);
  char item[16];
  int64_t number;
  for (int a = 0; a < AXES; a++) {
    if (!value_next(&value, end, item, sizeof item) || !value_parse_int(item, 1, VX_MAX_AXIS_CELLS, &number))
      return false;
    cells[a] = (int32_t)number;
  }
  return value_ended(value, end);
}

static void write_grid(const struct param *param, const void *record, struct text *out) {
  value_write_counts((const void *)((const char *)record + param->offset), AXES, out);
}

static const struct value_type value_grid = {"ints", false, read_grid, write_grid, NULL, NULL};

static const struct param grid_size = {
    .name = "grid_size",
    .type = &value_grid,
    .offset = FIELD(job.params.scatter.grid_size),
    .allowed = "nx,ny,nz, whole numbers from 1 to 2147483647",
    .doc = "number of cells of the grid along x, y and z, as in the metadata of /v1/voxelize",
};
static const struct param batch_size = {
    .name = "batch_size",
    .type = &value_int,
    .offset = FIELD(num_clouds),
    .least = 1,
    .most = VX_MAX_CLOUDS,
    .initial = "1",
    .doc = "number of clouds in the batch (B)",
};
static const struct param outputs = PARAM_OUTPUTS(VX_SCATTER_TENSORS, "bev_features");

static const struct param *const rows[] = {&param_preset, &grid_size, &batch_size, &outputs, PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

static const struct result_row results[] = {
    {VX_BEV_FEATURES,
     "value c of a row at channel c*nz + z, row y, column x; zeros elsewhere; the dtype is that of features", NULL},
    {.doc = NULL},
};

// ---- checks ---------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  (void)request;
  return VX_SCATTER_TENSORS;
}

static bool finish(struct job_request *request, struct error *error) {
  const int32_t *cells = request->job.params.scatter.grid_size;
  if (!job_request_is_given(request, "grid_size"))
    return error_refuse(error, ERROR_BAD_PARAMETER, "grid_size",
                        "grid_size is missing; give it, or a preset that has it");
  int64_t plane = (int64_t)cells[0] * cells[1], height = (int64_t)cells[2] * request->num_clouds;
  return plane <= VX_MAX_GRID_CELLS / height ||
         error_refuse(error, ERROR_IMPOSSIBLE, "grid_size",
                      "a grid of %d x %d x %d cells for each of %d clouds has more than 2^62 cells in all",
                      (int)cells[0], (int)cells[1], (int)cells[2], (int)request->num_clouds);
}

const struct operation operation_scatter = {
    .body = FORMAT_SAFETENSORS,
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
};
