// Fuzzes the files of answers. The answer is a valid safetensors file, whose header fits into the bytes that were
// reserved before the times were known. Files of other kinds have the size that was measured for them. One thread.
//
// The input: a struct figures, then `id_length` bytes of a request id, then a query string for split_query.h.
#include <assert.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/presets.h"
#include "api/wire/answers.h"
#include "api/wire/safetensors.h"
#include "kernels/ops.h"
#include "tests/fuzz/split_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 22, LENGTH_PREFIX = 8 };

struct figures {
  int64_t ns;     // every time in the answer
  int64_t count;  // every count of points or voxels by fate
  uint16_t points, voxels;
  uint8_t op, id_length;
};

static const char device[] = "a \"device\" \\ of \x01 \xff bytes";

// ---- the file -------------------------------------------------------------------------------------------------------

static void check_metadata(const json_t *header, const struct answer *answer) {
  const json_t *strings = json_object_get(header, "__metadata__");
  assert(json_object_size(strings) == 1);
  const json_t *text = json_object_get(strings, "voxeld");
  assert(json_is_string(text));
  json_t *metadata = json_loadb(json_string_value(text), json_string_length(text), JSON_REJECT_DUPLICATES, NULL);
  assert(json_is_object(metadata));
  const json_t *batch = json_object_get(metadata, "batch");
  assert(json_integer_value(json_object_get(batch, "size")) == answer->job->num_clouds);
  const struct vx_operation *operation = &vx_operations[answer->job->op];
  const json_t *counts = json_object_get(batch, vx_item_names[operation->items]);
  assert(json_array_size(counts) == (operation->rows_carry_cloud_index ? 0 : (size_t)answer->job->num_clouds));
  assert(json_is_object(json_object_get(metadata, "parameters")));
  json_decref(metadata);
}

static size_t integer_at(const json_t *array, size_t index) {
  json_int_t value = json_integer_value(json_array_get(array, index));
  assert(json_is_integer(json_array_get(array, index)) && value >= 0);
  return (size_t)value;
}

static size_t value_bytes(const char *dtype) {
  if (strcmp(dtype, "U8") == 0) return 1;
  if (strcmp(dtype, "F16") == 0) return 2;
  if (strcmp(dtype, "I64") == 0) return 8;
  assert(strcmp(dtype, "F32") == 0 || strcmp(dtype, "I32") == 0);
  return 4;
}

// Checks a tensor, which must begin at `begin`. Returns its end.
static size_t check_tensor(const char *name, const json_t *tensor, size_t begin) {
  const json_t *shape = json_object_get(tensor, "shape"), *offsets = json_object_get(tensor, "data_offsets");
  assert(json_object_size(tensor) == 3 && json_array_size(offsets) == 2 && json_array_size(shape) > 0);
  size_t bytes = value_bytes(json_string_value(json_object_get(tensor, "dtype")));
  for (size_t i = 0; i < json_array_size(shape); i++) bytes *= integer_at(shape, i);
  size_t end = integer_at(offsets, 1);
  assert(integer_at(offsets, 0) == begin && end == begin + bytes);
  if (strncmp(name, "_padding_", 9) != 0) assert(begin % VX_TENSOR_ALIGNMENT == 0);
  return end;
}

static void check_file(const struct answer *answer, const struct vx_layout *layout, const char *file, size_t reserve) {
  uint64_t length = 0;
  for (int i = LENGTH_PREFIX - 1; i >= 0; i--) length = length << 8 | (unsigned char)file[i];
  assert(length + LENGTH_PREFIX == reserve && length % 8 == 0 && reserve % VX_TENSOR_ALIGNMENT == 0);
  assert(file[LENGTH_PREFIX] == '{');
  json_error_t error;
  json_t *header = json_loadb(file + LENGTH_PREFIX, length, JSON_REJECT_DUPLICATES, &error), *tensor;
  assert(header);
  check_metadata(header, answer);
  size_t end = 0, tensors = 0;
  const char *name;
  json_object_foreach(header, name, tensor) {
    if (strcmp(name, "__metadata__") == 0) continue;
    end = check_tensor(name, tensor, end);
    tensors += strncmp(name, "_padding_", 9) != 0;
  }
  assert(end == layout->bytes && tensors == (size_t)__builtin_popcountll(layout->tensors));
  json_decref(header);
}

// ---- the answer -----------------------------------------------------------------------------------------------------

static void set_times(struct answer *answer, struct vx_job *job, int64_t ns) {
  answer->receive_ns = answer->queue_ns = answer->total_ns = ns;
  for (int stage = 0; stage < VX_STAGE_COUNT; stage++) job->stage_ns[stage] = ns;
  for (int step = 0; step < VX_MAX_STEPS; step++) job->report->step_ns[step] = ns;
}

// Measures a file of another kind, then writes it into memory of exactly this size.
static void check_copy(const char *media_type, const struct answer *answer, const struct vx_sizes *sizes) {
  const struct answer_kind *kind = answer_kind_of(media_type);
  struct vx_layout layout;
  struct error error;
  if (vx_layout_of(kind->tensors(answer->request), sizes, &layout, &error) != VX_OK || layout.bytes > MOST_BYTES)
    return;
  char *tensors = calloc(1, layout.bytes + 1);
  struct text file = text_over(NULL, 0);
  assert(tensors && kind->write(answer, &layout, NULL, &file, &error));
  size_t size = file.length + 1;
  file = text_over(malloc(size), size);
  assert(file.data && kind->write(answer, &layout, tensors, &file, &error));
  assert(text_complete(&file) && file.length == size - 1);
  free(file.data);
  free(tensors);
}

static void check_answer(const struct figures *figures, const char *id, const struct job_request *request) {
  static int32_t voxels[VX_MAX_CLOUDS];
  voxels[0] = figures->voxels;
  int64_t count = figures->count;
  struct vx_job job = job_request_job(request, NULL);
  struct vx_chain_report report = {.left = figures->voxels};
  for (int step = 0; step <= VX_MAX_STEPS; step++)
    for (int fate = 0; fate < VX_FATE_COUNT; fate++) report.fates[step][fate] = count & INT32_MAX;  // counts are summed
  job.report = &report;
  job.row_counts = voxels;
  job.counts = (struct vx_counts){.received = count,
                                  .kept = count,
                                  .not_finite = count,
                                  .out_of_range = count,
                                  .over_voxel_cap = count,
                                  .over_max_voxels = count,
                                  .block_filtered = count,
                                  .voxels_kept = count,
                                  .voxels_dropped = count,
                                  .voxels_block_filtered = count};
  for (int32_t i = 0; request->num_sample_counts && i < request->num_clouds; i++)
    job.counts.sampled += request->sample_counts[i];
  struct vx_sizes sizes = vx_sizes_of(&job);
  sizes.voxels = sizes.kept = figures->voxels;
  struct answer answer = {.request_id = id,
                          .backend = "cpu",
                          .device = device,
                          .request = request,
                          .job = &job,
                          .inspected = {true, 5, "a hint"}};
  struct vx_layout layout;
  struct error error;
  if (vx_layout_of(job.tensors, &sizes, &layout, &error) != VX_OK || layout.bytes > MOST_BYTES) return;

  size_t reserve = answer_header_reserve(&answer, &layout);
  set_times(&answer, &job, figures->ns);
  char *file = malloc(reserve + layout.bytes);
  assert(file);
  bool whole = answer_frame_write(&answer, &layout, file, reserve, file + reserve);
  assert(whole);
  check_file(&answer, &layout, file, reserve);
  free(file);
  answer.began_ns = figures->ns / 2;  // half, since mcap.c adds 0.1 s per cloud to it
  check_copy("application/json", &answer, &sizes);
  check_copy("application/x-npz", &answer, &sizes);
  check_copy("application/x-mcap", &answer, &sizes);
  check_copy("application/x-shuffled-safetensors", &answer, &sizes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct presets *presets;
  static struct job_request request;
  struct error error = {0};
  char id[129] = "";
  if (!presets) presets = presets_load("", &error);
  assert(presets);

  struct figures figures;
  if (size < sizeof figures) return -1;
  memcpy(&figures, data, sizeof figures);
  const char *cursor = (const char *)data + sizeof figures, *end = (const char *)data + size;
  size_t id_length = figures.id_length % sizeof id;
  if ((size_t)(end - cursor) < id_length) return -1;
  memcpy(id, cursor, id_length);
  figures.ns &= INT64_MAX, figures.count &= INT64_MAX;

  struct query query;
  query_split(cursor + id_length, end, &query);
  bool sound =
      job_request_from_query(&request, figures.op % VX_OPS, &query, &(const struct named){presets, NULL}, &error);
  query_free(&query);
  if (sound && job_request_split(&request, figures.points, &error)) check_answer(&figures, id, &request);
  return sound ? 0 : -1;
}
