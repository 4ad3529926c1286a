// The parameters of POST /v1/serialize; kernels/serialize.h says what they mean.
#include <string.h>

#include "api/base/json_write.h"
#include "api/ops/deskew.h"
#include "api/ops/stream.h"

#define SERIALIZE(member) FIELD(job.params.serialize.member)

// ---- rows -----------------------------------------------------------------------------------------------------------

static const char *const curve_words[] = {"z", "z-trans", "hilbert", "hilbert-trans", NULL};  // enum vx_curve

static bool read_size(const struct param *param, const char *value, const char *end, void *record) {
  (void)param;
  return value_read_size(value, end, ((struct job_request *)record)->job.params.serialize.size);
}

static void write_size(const struct param *param, const void *record, struct text *out) {
  (void)param;
  value_write_floats(((const struct job_request *)record)->job.params.serialize.size, 3, out);
}

static const struct value_type value_size = {"float or floats", false, read_size, write_size, NULL, NULL};

static bool read_orders(const struct param *param, const char *value, const char *end, void *record) {
  struct vx_serialize *params = &((struct job_request *)record)->job.params.serialize;
  uint32_t seen = 0;
  char item[16];
  params->num_orders = 0;
  while (params->num_orders < VX_CURVES && value_next(&value, end, item, sizeof item)) {
    int curve = 0;
    while (param->words[curve] && strcmp(param->words[curve], item) != 0) curve++;
    if (!param->words[curve] || (seen & 1u << curve)) return false;
    seen |= 1u << curve;
    params->orders[params->num_orders++] = curve;
  }
  return value_ended(value, end);
}

static void write_orders(const struct param *param, const void *record, struct text *out) {
  const struct vx_serialize *params = &((const struct job_request *)record)->job.params.serialize;
  json_printf(out, "[");
  for (int32_t i = 0; i < params->num_orders; i++) json_put_string(out, param->words[params->orders[i]]);
  json_printf(out, "]");
}

static void allow_orders(const struct param *param, struct text *out) {
  text_put(out, "a list of ");
  for (int i = 0; param->words[i]; i++) text_printf(out, "%s%s", i ? ", " : "", param->words[i]);
}

static const struct value_type value_orders = {"list", false, read_orders, write_orders, allow_orders, NULL};

static const struct param voxel_size = {
    .name = "voxel_size",
    .type = &value_size,
    .allowed = "one number for all axes, or x,y,z, finite, each above 0",
    .unit = "metres",
    .doc = "edges of the cells; points over 1048575 cells from 0,0,0 are dropped as out_of_lattice",
};
static const struct param orders = {
    .name = "orders",
    .type = &value_orders,
    .words = curve_words,
    .initial = "z,z-trans,hilbert,hilbert-trans",
    .doc = "the curves that order the points, each once; strides uses the first",
};
static const struct param depth = {
    .name = "depth",
    .type = &value_int,
    .offset = SERIALIZE(depth),
    .least = 1,
    .most = VX_MAX_SERIAL_DEPTH,
    .doc = "bits of a code for each axis; without it, the fewest that hold 1 + the largest value in grid_coord",
};
static const struct param grid_origin = {
    .name = "grid_origin",
    .type = &value_floats,
    .offset = SERIALIZE(origin),
    .least = 3,
    .allowed = "x,y,z, finite",
    .unit = "metres",
    .doc =
        "the point whose cell is 0,0,0; points below are out_of_lattice; without it each cloud's least cell is 0,0,0",
};
static const struct param strides = {
    .name = "strides",
    .type = &value_counts,
    .offset = SERIALIZE(strides),
    .second = SERIALIZE(num_pools),
    .most = VX_MAX_POOLS,
    .allowed = "1 to 8 powers of two, from 1 to 65536",
    .doc = "one stage of pooling per number, which joins that many cells along each axis; without it, no pooling",
};
static const struct param outputs = PARAM_OUTPUTS(VX_SERIAL_TENSORS | VX_POOL_TENSORS | VX_CHAIN_TENSORS,
                                                  "points, serialized_* and, with strides, pool_*");

static const struct param *const rows[] = {&param_preset, PARAMS_OF_POINTS, &param_steps, &voxel_size,
                                           &orders,       &depth,           &grid_origin, &strides,
                                           &outputs,      PARAMS_OF_ANSWER, NULL};
PARAM_ROWS_FIT(rows);

#define WITH_STRIDES "with strides"

static const struct result_row results[] = {
    {VX_GRID_COORD, "the cell x, y, z of each row of points, from the least cell or grid_origin", NULL},
    {VX_SERIALIZED_CODE, "the code of each row on each curve; its cloud is in the bits above 3 * depth", NULL},
    {VX_SERIALIZED_ORDER, "the rows by ascending code, on each curve; rows with the same code ascend", NULL},
    {VX_SERIALIZED_INVERSE, "the place of each row in serialized_order", NULL},
    {VX_POOL_CLUSTER, "for each stage in turn: for each row before the stage, the new row that it joins", WITH_STRIDES},
    {VX_POOL_INDICES, "for each stage in turn: the rows before the stage, by ascending (new row, row)", WITH_STRIDES},
    {VX_POOL_INDPTR,
     "for each stage in turn: for each new row, where its rows begin in pool_indices; at the end, the number of rows",
     WITH_STRIDES},
    {VX_POOL_HEAD_INDICES, "for each stage in turn: the first row of each new row", WITH_STRIDES},
    {VX_POOL_GRID_COORD, "for each stage in turn: the cells of the new rows", WITH_STRIDES},
    {VX_POOL_SERIALIZED_CODE, "for each stage in turn: the codes of the new rows on each curve", WITH_STRIDES},
    {VX_POOL_SERIALIZED_ORDER, "the new rows of each stage by ascending code, numbered from 0 in the stage",
     WITH_STRIDES},
    {VX_POOL_SERIALIZED_INVERSE, "the place of each new row in pool_serialized_order", WITH_STRIDES},
    {VX_LEFT_POINTS, "the points that the steps left, without those out of the lattice, in the order of the body",
     NULL},
    {VX_POINT_INDICES, "the row of each of these points in the body, counted over all clouds", WHEN_NAMED},
    {VX_POINT_ROWS, POINT_ROWS_DOC, WHEN_NAMED},
    {VX_POINT_FATES, POINT_FATES_DOC, WHEN_NAMED},
    {VX_POINT_STEPS, POINT_STEPS_DOC, WHEN_NAMED},
    {.doc = NULL},
};

// ---- checks ---------------------------------------------------------------------------------------------------------

static vx_tensor_set tensors(const struct job_request *request) {
  bool pools = request->job.params.serialize.num_pools > 0;
  return VX_SERIAL_TENSORS | (pools ? VX_POOL_TENSORS : 0) | VX_TENSOR_BIT(VX_LEFT_POINTS);
}

static bool check_strides(const struct job_request *request, struct error *error) {
  const struct vx_serialize *params = &request->job.params.serialize;
  for (int32_t i = 0; i < params->num_pools; i++) {
    int32_t stride = params->strides[i];
    if (stride >= 1 && stride <= 1 << VX_MAX_SERIAL_DEPTH && (stride & (stride - 1)) == 0) continue;
    return error_refuse(error, ERROR_BAD_PARAMETER, "strides", "strides has %d; allowed: %s", (int)stride,
                        "powers of two, from 1 to 65536");
  }
  vx_tensor_set without = params->num_pools == 0 ? request->job.tensors & VX_POOL_TENSORS : 0;
  return !without || error_refuse(error, ERROR_BAD_PARAMETER, "outputs", "outputs names %s, which needs strides",
                                  vx_tensors[__builtin_ctzll(without)].name);
}

static bool finish(struct job_request *request, struct error *error) {
  struct vx_serialize *params = &request->job.params.serialize;
  params->fixed = job_request_is_given(request, "grid_origin");
  if (!stream_finish(request, error)) return false;
  if (!job_request_is_given(request, "voxel_size"))
    return error_refuse(error, ERROR_BAD_PARAMETER, "voxel_size", "voxel_size is missing");
  if (!vx_serial_origin_fits(params))
    return error_refuse(error, ERROR_BAD_PARAMETER, "grid_origin",
                        "grid_origin is over 1048575 cells of voxel_size from 0,0,0");
  return check_strides(request, error);
}

static void write(const struct vx_job *job, struct text *out) {
  json_printf(out, "depth:%ld", job->counts.depth);
  if (job->params.serialize.num_pools == 0) return;
  json_printf(out, "pool_rows:");
  json_put_integers(out, job->counts.level_rows, job->params.serialize.num_pools);
}

const struct operation operation_serialize = {
    .rows = rows,
    .results = results,
    .tensors = tensors,
    .finish = finish,
    .write = write,
};
