// See infer_answer.h.
#include "api/wire/infer_answer.h"

#include <string.h>

#include "api/base/json_write.h"
#include "api/wire/model.h"
#include "kernels/ops.h"

static vx_tensor_set as_asked(const struct job_request *request) { return request->job.tensors; }

const struct answer_kind *infer_answer_kind(const struct infer *infer, const struct job_request *request) {
  return request->job.tensors & ~infer->binary ? &infer_json : &infer_binary;
}

static bool is_binary(const struct infer *infer, int tensor) {
  return infer->binary & ~infer->shared & VX_TENSOR_BIT(tensor);
}

static bool is_json(const struct infer *infer, int tensor) { return !(infer->binary & VX_TENSOR_BIT(tensor)); }

static size_t binary_bytes(const struct infer *infer, const struct vx_layout *layout) {
  size_t bytes = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (layout->tensors & VX_TENSOR_BIT(tensor) && is_binary(infer, tensor)) bytes += layout->shape[tensor].bytes;
  return bytes;
}

// ---- tensors as JSON ------------------------------------------------------------------------------------------------

enum {
  NUMBER_WIDTH = 16,
  LONG_WIDTH = 24
};  // maximum characters of a number with a comma: of a float32 or int32, of an int64

static void write_number(enum vx_dtype dtype, const char *at, struct text *out) {
  float real;
  int32_t integer;
  int64_t whole;
  switch (dtype) {
    case VX_INT32:
      memcpy(&integer, at, sizeof integer);
      json_put_integer(out, integer);
      break;
    case VX_INT64:
      memcpy(&whole, at, sizeof whole);
      json_put_integer(out, whole);
      break;
    case VX_UINT8: json_put_integer(out, (unsigned char)*at); break;
    default:  // float32: infer_read refuses narrow types
      memcpy(&real, at, sizeof real);
      json_put_float(out, real);
  }
}

static void write_data(const struct vx_shape *shape, const char *data, struct vx_stop *stop, struct text *out) {
  size_t size = vx_dtype_size(shape->dtype), count = shape->bytes / size;
  json_printf(out, "data:[");
  if (!data) text_append(out, NULL, count * (size_t)(shape->dtype == VX_INT64 ? LONG_WIDTH : NUMBER_WIDTH));
  VX_EACH_ROW(stop, i, 0, data ? (int64_t)count : 0) write_number(shape->dtype, data + (size_t)i * size, out);
  json_printf(out, "]");
}

// ---- the JSON -------------------------------------------------------------------------------------------------------

static void write_counts(const struct vx_job *job, struct text *out) {
  const struct vx_operation *operation = &vx_operations[job->op];
  const char *items = vx_item_names[operation->items];
  json_printf(out, "%s_received:%ld", items, job->counts.received);
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
    if (vx_fates_of_job(job) & VX_FATE_BIT(fate))
      json_printf(out, "%s_%s:%ld", items, vx_fate_names[fate], job->counts.fates[fate]);
  for (int i = 0; operation->makes_voxels && i < VX_VOXEL_FATES; i++)
    json_printf(out, "voxels_%s:%ld", voxel_fates[i], job->counts.voxels[i]);
  if (vx_sampling_of(job)) json_printf(out, "samples_chosen:%ld", job->counts.sampled);
}

// Clients accept only strings, numbers and booleans as parameters: counts and times are flat members, `metadata` is a
// string.
static void write_parameters(const struct answer *answer, bool widest, struct text *out) {
  bool stable = answer_is_stable(answer);
  json_printf(out, "parameters:{");
  if (!stable)
    json_printf(out, "request_id:%s backend:%s device:%s", answer->request_id, answer->backend, answer->device);
  write_counts(answer->job, out);
  for (int timing = 0; timing < TIMING_COUNT; timing++) {
    int64_t ns = answer_timing_ns(answer, timing);
    if (stable || ns < 0) continue;
    json_printf(out, "%s_us:", answer_timing_name(timing));
    json_put_fixed(out, (widest ? INT64_MAX : ns) / 100, 1);
  }
  json_printf(out, "metadata:");
  json_begin_string(out);
  answer_metadata(answer, widest, out);
  json_end(out);
  json_printf(out, "}");
}

// `tensors`: NULL to measure, or if no tensor is JSON.
static void write_output(const struct answer *answer, const struct vx_layout *layout, int tensor, const char *tensors,
                         struct text *out) {
  const struct vx_shape *shape = &layout->shape[tensor];
  json_printf(out, "{name:%s datatype:%s shape:", vx_tensors[tensor].name, model_datatype(shape->dtype));
  json_put_integers(out, shape->dims, shape->rank);
  if (is_binary(answer->infer, tensor)) json_printf(out, "parameters:{binary_data_size:%zu}", shape->bytes);
  if (is_json(answer->infer, tensor))
    write_data(shape, tensors ? tensors + layout->offset[tensor] : NULL, answer->stop, out);
  json_printf(out, "}");
}

static void write_json(const struct answer *answer, const struct vx_layout *layout, bool widest, const char *tensors,
                       struct text *out) {
  json_printf(out, "{model_name:%s model_version:%s", answer->infer->model, answer->infer->version);
  if (answer->infer->id[0]) json_printf(out, "id:%s", answer->infer->id);
  write_parameters(answer, widest, out);
  json_printf(out, "outputs:[");
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (layout->tensors & VX_TENSOR_BIT(tensor)) write_output(answer, layout, tensor, tensors, out);
  json_printf(out, "]}");
}

// ---- answers with all tensors as bytes ------------------------------------------------------------------------------

static size_t reserve_json(struct answer *answer, const struct vx_layout *layout) {
  struct text measure = text_over(NULL, 0);
  write_json(answer, layout, true, NULL, &measure);
  size_t needed = measure.length + 1;  // the builder ends its text with a NUL
  return (needed + VX_TENSOR_ALIGNMENT - 1) / VX_TENSOR_ALIGNMENT * VX_TENSOR_ALIGNMENT;
}

// Spaces after the JSON object fill the reserved bytes. The bytes between tensors are not sent.
static bool write_head(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve,
                       char *tensors) {  // NOLINT(readability-non-const-parameter): answer_kind's type
  (void)tensors;
  struct text head = text_over(block, reserve);
  write_json(answer, layout, false, NULL, &head);
  if (!text_complete(&head)) return false;
  memset(block + head.length, ' ', reserve - head.length);
  answer->infer->answer_head = binary_bytes(answer->infer, layout) ? reserve : 0;
  return true;
}

const struct answer_kind infer_binary = {
    .media_type = "application/octet-stream",
    .tensors = as_asked,
    .reserve = reserve_json,
    .frame = write_head,
};

int infer_ranges(const struct infer *infer, const struct vx_layout *layout, size_t reserve,
                 struct byte_range ranges[INFER_RANGES_MAX]) {
  int last = 0;
  ranges[0] = (struct byte_range){0, reserve};
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor)) || !is_binary(infer, tensor) || !layout->shape[tensor].bytes)
      continue;
    size_t offset = reserve + layout->offset[tensor];
    if (ranges[last].offset + ranges[last].bytes != offset) ranges[++last] = (struct byte_range){offset, 0};
    ranges[last].bytes += layout->shape[tensor].bytes;
  }
  return last + 1;
}

// ---- answers with tensors as JSON -----------------------------------------------------------------------------------

static bool write_all(const struct answer *answer, const struct vx_layout *layout, const char *tensors,
                      struct text *out, struct error *error) {
  size_t begin = out->length;
  (void)error;
  write_json(answer, layout, !tensors, tensors, out);
  size_t head = out->length - begin;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor)) || !is_binary(answer->infer, tensor)) continue;
    bytes_append(out, answer->stop, tensors ? tensors + layout->offset[tensor] : NULL, layout->shape[tensor].bytes);
  }
  answer->infer->answer_head = binary_bytes(answer->infer, layout) ? head : 0;
  return true;
}

const struct answer_kind infer_json = {.media_type = "application/json", .tensors = as_asked, .write = write_all};
