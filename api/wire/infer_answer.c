// See infer_answer.h.
#include "api/wire/infer_answer.h"

#include <math.h>
#include <string.h>

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

// Bytes of the tensors that are sent as such.
static size_t binary_bytes(const struct infer *infer, const struct vx_layout *layout) {
  size_t bytes = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++)
    if (layout->tensors & VX_TENSOR_BIT(tensor) && is_binary(infer, tensor)) bytes += layout->shape[tensor].bytes;
  return bytes;
}

// ---- tensors as JSON ------------------------------------------------------------------------------------------------

enum { NUMBER_WIDTH = 16 };  // of a float32 or an integer and a comma, at most

// JSON has no number that is not finite; null stands for it. Readers take -0 for a whole number, which has no sign.
static void write_number(enum vx_dtype dtype, const char *at, struct text *out) {
  float real;
  int32_t integer;
  switch (dtype) {
    case VX_INT32:
      memcpy(&integer, at, sizeof integer);
      text_printf(out, "%d", (int)integer);
      break;
    case VX_UINT8: text_printf(out, "%d", (int)(unsigned char)*at); break;
    case VX_FLOAT16:  // is never asked for as JSON
    case VX_FLOAT32:
      memcpy(&real, at, sizeof real);
      if (!isfinite(real))
        text_put(out, "null");
      else if (real == 0 && signbit(real))
        text_put(out, "-0.0");
      else
        text_float(out, real);
  }
}

static void write_data(const struct vx_shape *shape, const char *data, struct vx_stop *stop, struct text *out) {
  size_t size = vx_dtype_size(shape->dtype), count = shape->bytes / size;
  text_put(out, ",\"data\":[");
  if (!data) text_append(out, NULL, count * NUMBER_WIDTH);
  VX_EACH_ROW(stop, i, 0, data ? (int64_t)count : 0) {
    if (i) text_put(out, ",");
    write_number(shape->dtype, data + (size_t)i * size, out);
  }
  text_put(out, "]");
}

// ---- the JSON -------------------------------------------------------------------------------------------------------

static void write_member(struct text *out, const char *name, const char *value) {
  text_printf(out, ",\"%s\":", name);
  text_json_string(out, value, strlen(value));
}

static void write_counts(const struct vx_job *job, struct text *out) {
  const struct vx_operation *operation = vx_operation_of(job->op);
  const char *items = vx_item_name(operation->items);
  text_printf(out, ",\"%s_received\":%lld", items, (long long)job->counts.received);
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT; fate++)
    if (operation->fates & VX_FATE_BIT(fate))
      text_printf(out, ",\"%s_%s\":%lld", items, vx_fate_name(fate), (long long)vx_fate_count(fate, &job->counts));
  for (int i = 0; operation->makes_voxels && i < VOXEL_FATES; i++)
    text_printf(out, ",\"voxels_%s\":%lld", voxel_fates[i].name, (long long)voxel_fate_count(i, &job->counts));
  if (vx_sampling_of(job)) text_printf(out, ",\"samples_chosen\":%lld", (long long)job->counts.sampled);
}

// Clients take only strings, numbers and booleans here. So counts and times are flat, and `metadata` is the whole of
// the metadata as a string.
static void write_parameters(const struct answer *answer, bool widest, struct text *out) {
  text_put(out, ",\"parameters\":{\"request_id\":");
  text_json_string(out, answer->request_id, strlen(answer->request_id));
  write_member(out, "backend", answer->backend);
  write_member(out, "device", answer->device);
  write_counts(answer->job, out);
  for (int timing = 0; timing < TIMING_COUNT; timing++) {
    if (!answer_has_timing(answer, timing)) continue;
    text_printf(out, ",\"%s_us\":", answer_timing_name(timing));
    text_microseconds(out, widest ? INT64_MAX : answer_timing_ns(answer, timing));
  }
  text_put(out, ",\"metadata\":\"");
  out->quoted = true;
  answer_metadata(answer, widest, out);
  out->quoted = false;
  text_put(out, "\"}");
}

// `tensors`: NULL to measure.
static void write_output(const struct answer *answer, const struct vx_layout *layout, int tensor, const char *tensors,
                         struct text *out) {
  const struct vx_shape *shape = &layout->shape[tensor];
  text_printf(out, "{\"name\":\"%s\",\"datatype\":\"%s\",\"shape\":[", vx_tensor_name((enum vx_tensor)tensor),
              model_datatype(shape->dtype));
  for (int d = 0; d < shape->rank; d++) text_printf(out, "%s%lld", d ? "," : "", (long long)shape->dims[d]);
  text_put(out, "]");
  if (is_binary(answer->infer, tensor)) text_printf(out, ",\"parameters\":{\"binary_data_size\":%zu}", shape->bytes);
  if (is_json(answer->infer, tensor))
    write_data(shape, tensors ? tensors + layout->offset[tensor] : NULL, answer->stop, out);
  text_put(out, "}");
}

static void write_json(const struct answer *answer, const struct vx_layout *layout, bool widest, const char *tensors,
                       struct text *out) {
  const char *comma = "";
  text_put(out, "{\"model_name\":");
  text_json_string(out, answer->infer->model, strlen(answer->infer->model));
  write_member(out, "model_version", answer->infer->version);
  if (answer->infer->id[0]) write_member(out, "id", answer->infer->id);
  write_parameters(answer, widest, out);
  text_put(out, ",\"outputs\":[");
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    text_put(out, comma);
    write_output(answer, layout, tensor, tensors, out);
    comma = ",";
  }
  text_put(out, "]}");
}

// ---- answers with all tensors as bytes ------------------------------------------------------------------------------

static size_t reserve_json(const struct answer *answer, const struct vx_layout *layout) {
  struct text measure = text_over(NULL, 0);
  write_json(answer, layout, true, NULL, &measure);
  size_t needed = measure.length + 1;  // the builder ends its text with a NUL
  return (needed + VX_TENSOR_ALIGNMENT - 1) / VX_TENSOR_ALIGNMENT * VX_TENSOR_ALIGNMENT;
}

// Blanks may follow a JSON object, so the head fills what was reserved for it.
// What is between the tensors is not sent, so it is left as it is.
static void write_head(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve,
                       char *tensors) {  // NOLINT(readability-non-const-parameter): answer_kind has it so
  (void)tensors;
  struct text head = text_over(block, reserve);
  write_json(answer, layout, false, NULL, &head);
  size_t written = head.length < reserve ? head.length : reserve;
  memset(block + written, ' ', reserve - written);
  answer->infer->answer_head = binary_bytes(answer->infer, layout) ? reserve : 0;
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
