// See model.h.
#include "api/wire/model.h"

#include "api/base/json.h"
#include "api/base/json_write.h"

const char *model_datatype(enum vx_dtype dtype) { return vx_numbers[dtype].kserve; }

bool model_serves(const struct model *model, struct error *error) {
  return !model->fault ||
         error_refuse(error, ERROR_MODEL_FAILED, NULL, "the model %.63s does not serve: %s", model->name, model->fault);
}

// ---- tensors --------------------------------------------------------------------------------------------------------

// How a document spells type and shape.
struct spelling {
  const char *type, *prefix, *shape;
  bool optional;  // it says which inputs are optional
};

// The logits of a cell; -1 unless the preset has tasks or names the classes.
static int64_t logits_of(const struct job_request *request, const struct vx_sizes *sizes) {
  int64_t anchors = request->job.op == VX_DECODE ? vx_cell_anchors(&request->job.params.decode) : 1;
  if (sizes->logits > 0) return sizes->logits;
  return request->num_class_names ? anchors * request->num_class_names : -1;
}

// -1: differs between requests. Without a preset, requests choose columns and caps.
static int64_t length_of(const struct model *model, enum vx_extent extent, const struct vx_sizes *sizes) {
  switch (extent) {
    case VX_EXTENT_COORDS:
    case VX_EXTENT_SIDE:
    case VX_EXTENT_AXES:
    case VX_EXTENT_PIXEL:
    case VX_EXTENT_BOX: return vx_extent_of(extent, sizes);
    case VX_EXTENT_COLUMNS:
    case VX_EXTENT_ROW:
    case VX_EXTENT_CAP:
    case VX_EXTENT_PILLAR:
    case VX_EXTENT_OFFSETS:
    case VX_EXTENT_BINS:
    case VX_EXTENT_ORDERS:
    case VX_EXTENT_IMAGE_CHANNELS:
    case VX_EXTENT_TASKS:
    case VX_EXTENT_TASKS_2:
    case VX_EXTENT_TASKS_3: return model->preset ? vx_extent_of(extent, sizes) : -1;
    case VX_EXTENT_LOGITS: return model->preset ? logits_of(model->request, sizes) : -1;
    default: return -1;
  }
}

static void write_tensor(const struct model *model, const struct spelling *spelling, const char *name,
                         enum vx_dtype dtype, const enum vx_extent *extents, bool optional, struct text *out) {
  struct vx_sizes sizes = vx_sizes_of(&model->request->job);
  sizes.row += model->request->num_features - sizes.columns;
  sizes.columns = model->request->num_features;
  json_printf(out, "{name:%s %s:'%s%s' %s:[", name, spelling->type, spelling->prefix, model_datatype(dtype),
              spelling->shape);
  for (int d = 0; d < VX_MAX_RANK && extents[d] != VX_EXTENT_NONE; d++)
    json_put_integer(out, length_of(model, extents[d], &sizes));
  json_printf(out, optional && spelling->optional ? "]optional:true}" : "]}");
}

// The type to report: the type of all columns of the points, if they have one; else the first that the input allows.
static enum vx_dtype dtype_of(const struct model *model, const struct vx_input_row *row) {
  bool points = vx_operations[model->request->job.op].items == VX_POINT_ITEMS;
  enum vx_dtype first = VX_FLOAT32;
  while (!(row->dtypes & VX_DTYPE_BIT(first))) first++;
  bool shared = points && model->request->columns.num_types == 1;
  return shared && row->dtypes == VX_FLOATS ? column_dtype(&model->request->columns, 0) : first;
}

// The operation refuses the input iou if the preset has no iou_power.
static bool takes(const struct model *model, int input) {
  const struct vx_job *job = &model->request->job;
  return !model->preset || job->op != VX_DECODE_CENTER || input != VX_IOU || job->params.center.num_iou_powers > 0;
}

static void write_inputs(const struct model *model, const struct spelling *spelling, struct text *out) {
  static const enum vx_extent clouds[] = {VX_EXTENT_BATCH, VX_EXTENT_NONE};
  const struct vx_input_row *rows = vx_operations[model->request->job.op].inputs;
  const char *counts = job_request_counts(model->request);
  for (int i = 0; i < VX_MAX_INPUTS && rows[i].name; i++)
    if (takes(model, i))
      write_tensor(model, spelling, rows[i].name, dtype_of(model, &rows[i]), rows[i].extents, rows[i].optional, out);
  if (counts) write_tensor(model, spelling, counts, VX_INT32, clouds, true, out);
}

static void write_outputs(const struct model *model, const struct spelling *spelling, struct text *out) {
  const struct job_request *request = model->request;
  vx_tensor_set tensors = request->outputs ? request->outputs : operations[request->job.op]->tensors(request);
  struct vx_sizes sizes = vx_sizes_of(&request->job);
  for (enum vx_tensor tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (tensors & VX_TENSOR_BIT(tensor))
      write_tensor(model, spelling, vx_tensors[tensor].name, vx_tensor_dtype(tensor, &sizes),
                   vx_tensors[tensor].extents, false, out);
}

// ---- documents ------------------------------------------------------------------------------------------------------

void model_write_metadata(const struct model *model, struct text *out) {
  static const struct spelling spelling = {"datatype", "", "shape", false};
  json_printf(out, "{name:%s versions:[%s] platform:'voxeld' inputs:[", model->name, model->version);
  write_inputs(model, &spelling, out);
  json_printf(out, "]outputs:[");
  write_outputs(model, &spelling, out);
  json_printf(out, "]}\n");
}

// max_batch_size 0: shapes have no further batch dimension. Triton's versions are numbers, but a detector's may be a
// word, so the policy names none.
void model_write_config(const struct model *model, struct text *out) {
  static const struct spelling spelling = {"data_type", "TYPE_", "dims", true};
  json_printf(out, "{name:%s platform:'voxeld' backend:'voxeld' version_policy:{latest:{num_versions:1}}", model->name);
  json_printf(out, "max_batch_size:0 input:[");
  write_inputs(model, &spelling, out);
  json_printf(out, "]output:[");
  write_outputs(model, &spelling, out);
  json_printf(out, "]}\n");
}

// ---- the list -------------------------------------------------------------------------------------------------------

static bool take_ready(const json_t *root, bool *ready, struct error *error) {
  const json_t *value = json_object_get(root, "ready");
  *ready = json_is_true(value);
  if (!json_is_object(root))
    return error_refuse(error, ERROR_BAD_BODY, NULL, "the body is not a JSON object; allowed: {\"ready\": true}");
  return !value || json_is_boolean(value) || error_refuse(error, ERROR_BAD_BODY, NULL, "ready is not a boolean");
}

bool model_read_index(const char *body, size_t size, bool *ready, struct error *error) {
  struct json_document document;
  *ready = false;
  if (size == 0) return true;
  if (!json_open_sent(&document, "the body's JSON", body, size, NULL, error)) return false;
  bool good = take_ready(document.root, ready, error);
  json_close(&document);
  return good;
}
