// Metadata, safetensors header and Server-Timing of an answer; see answer.h.
#include "api/wire/answer.h"

#include <float.h>
#include <string.h>

enum { LENGTH_PREFIX = 8, ALIGNMENT = VX_TENSOR_ALIGNMENT };

// ---- timing -----------------------------------------------------------------------------------------------------------

const char *answer_timing_name(int timing) {
  if (timing == TIMING_RECEIVE) return "receive";
  if (timing == TIMING_QUEUE) return "queue";
  if (timing == TIMING_TOTAL) return "total";
  return vx_stage_name((enum vx_stage)(timing - TIMING_STAGES));
}

int64_t answer_timing_ns(const struct answer *answer, int timing) {
  if (timing == TIMING_RECEIVE) return answer->receive_ns;
  if (timing == TIMING_QUEUE) return answer->queue_ns;
  if (timing == TIMING_TOTAL) return answer->total_ns;
  return answer->job->stage_ns[timing - TIMING_STAGES];
}

void answer_server_timing(const struct answer *answer, struct text *out) {
  for (int timing = 0; timing < TIMING_COUNT; timing++)
    text_printf(out, "%s%s;dur=%.4f", timing ? ", " : "", answer_timing_name(timing),
                (double)answer_timing_ns(answer, timing) / 1e6);
}

// `widest` writes the longest times there can be, to measure.
static void write_timing(const struct answer *answer, bool widest, struct text *out) {
  text_put(out, "{");
  for (int timing = 0; timing < TIMING_COUNT; timing++) {
    text_printf(out, "%s\"%s\":", timing ? "," : "", answer_timing_name(timing));
    text_microseconds(out, widest ? INT64_MAX : answer_timing_ns(answer, timing));
  }
  text_put(out, "}");
}

// ---- metadata ---------------------------------------------------------------------------------------------------------

static void write_string(struct text *out, const char *name, const char *value) {
  text_printf(out, "\"%s\":", name);
  text_json_string(out, value, strlen(value));
  text_put(out, ",");
}

static void write_grid(const struct answer *answer, struct text *out) {
  const struct vx_params *params = &answer->job->params;
  struct vx_grid grid = {{0, 0, 0}};
  struct vx_error error;
  (void)!vx_grid_of(params, answer->job->num_clouds, &grid, &error);  // held when the request was admitted
  text_printf(out, ",\"grid_size\":[%d,%d,%d],\"effective_range\":[", grid.cells[0], grid.cells[1], grid.cells[2]);
  for (int a = 0; a < 3; a++) {
    text_float(out, params->range_min[a]);
    text_put(out, ",");
  }
  for (int a = 0; a < 3; a++) {
    // Where the range is not a whole number of voxels the grid ends elsewhere than the range; JSON has no infinity.
    float end = params->range_min[a] + (float)grid.cells[a] * params->voxel_size[a];
    text_float(out, end < FLT_MAX ? end : FLT_MAX);
    text_put(out, a < 2 ? "," : "]");
  }
}

static void write_counts(struct text *out, const char *name, const int32_t *values, int32_t count) {
  text_printf(out, ",\"%s\":[", name);
  for (int32_t i = 0; i < count; i++) text_printf(out, "%s%d", i ? "," : "", values[i]);
  text_put(out, "]");
}

const struct fate point_fates[POINT_FATES] = {{"kept", offsetof(struct vx_counts, kept)},
                                              {"not_finite", offsetof(struct vx_counts, not_finite)},
                                              {"out_of_range", offsetof(struct vx_counts, out_of_range)},
                                              {"over_max_points_per_voxel", offsetof(struct vx_counts, over_voxel_cap)},
                                              {"over_max_voxels", offsetof(struct vx_counts, over_max_voxels)},
                                              {"block_filtered", offsetof(struct vx_counts, block_filtered)}};
const struct fate voxel_fates[VOXEL_FATES] = {{"kept", offsetof(struct vx_counts, voxels_kept)},
                                              {"dropped", offsetof(struct vx_counts, voxels_dropped)},
                                              {"block_filtered", offsetof(struct vx_counts, voxels_block_filtered)}};

int64_t fate_count(const struct fate *fate, const struct vx_counts *counts) {
  int64_t count;
  memcpy(&count, (const char *)counts + fate->offset, sizeof count);
  return count;
}

static void write_fates(struct text *out, const struct fate *fates, size_t number, const struct vx_counts *counts) {
  for (size_t i = 0; i < number; i++)
    text_printf(out, "%s\"%s\":%lld", i ? "," : "", fates[i].name, (long long)fate_count(&fates[i], counts));
  text_put(out, "}");
}

// Where no voxels are made, points are finite or not.
static void write_all_fates(const struct vx_counts *counts, bool voxels_made, bool sampled, struct text *out) {
  enum { WITHOUT_VOXELS = 2 };
  text_printf(out, ",\"points\":{\"received\":%lld,", (long long)counts->received);
  write_fates(out, point_fates, voxels_made ? POINT_FATES : WITHOUT_VOXELS, counts);
  if (voxels_made) {
    text_put(out, ",\"voxels\":{");
    write_fates(out, voxel_fates, VOXEL_FATES, counts);
  }
  if (sampled) text_printf(out, ",\"samples\":{\"chosen\":%lld}", (long long)counts->sampled);
}

static void write_metadata(const struct answer *answer, bool widest, struct text *out) {
  const struct vx_job *job = answer->job;
  enum vx_sampling from = job->params.sampling.from;
  bool voxels_made = from != VX_SAMPLE_POINTS, sampled = from != VX_SAMPLE_NONE;
  text_put(out, "{");
  write_string(out, "request_id", answer->request_id);
  if (answer->trace_id) write_string(out, "trace_id", answer->trace_id);
  write_string(out, "backend", answer->backend);
  write_string(out, "device", answer->device);
  text_put(out, "\"parameters\":");
  job_request_write(answer->request, out);
  if (voxels_made) write_grid(answer, out);
  text_printf(out, ",\"batch\":{\"size\":%d", job->num_clouds);
  write_counts(out, "points", job->point_counts, job->num_clouds);
  if (voxels_made) write_counts(out, "voxels", job->voxel_counts, job->num_clouds);
  if (sampled) write_counts(out, "samples", job->sample_counts, job->num_clouds);
  text_put(out, "}");
  write_all_fates(&job->counts, voxels_made, sampled, out);
  text_put(out, ",\"timing_us\":");
  write_timing(answer, widest, out);
  text_put(out, "}");
}

void answer_metadata(const struct answer *answer, struct text *out) { write_metadata(answer, false, out); }

// ---- safetensors ------------------------------------------------------------------------------------------------------

static void write_tensor(struct text *out, const char *name, int number, const struct vx_shape *shape, size_t offset) {
  text_printf(out, ",\"%s", name);
  if (number >= 0) text_printf(out, "%d", number);
  text_printf(out, "\":{\"dtype\":\"%s\",\"shape\":[", vx_dtype_name(shape->dtype));
  for (int d = 0; d < shape->rank; d++) text_printf(out, "%s%lld", d ? "," : "", (long long)shape->dims[d]);
  text_printf(out, "],\"data_offsets\":[%zu,%zu]}", offset, offset + shape->bytes);
}

static void write_header(const struct answer *answer, const struct vx_layout *layout, bool widest, struct text *out) {
  text_put(out, "{\"__metadata__\":{\"voxeld\":\"");
  out->quoted = true;
  write_metadata(answer, widest, out);
  out->quoted = false;
  text_put(out, "\"}");
  size_t end = 0;
  int paddings = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    size_t gap = layout->offset[tensor] - end;
    struct vx_shape padding = {.dtype = VX_UINT8, .rank = 1, .dims = {(int64_t)gap}, .bytes = gap};
    if (gap) write_tensor(out, "_padding_", paddings++, &padding, end);
    write_tensor(out, vx_tensor_name((enum vx_tensor)tensor), -1, &layout->shape[tensor], layout->offset[tensor]);
    end = layout->offset[tensor] + layout->shape[tensor].bytes;
  }
  text_put(out, "}");
}

size_t answer_header_reserve(const struct answer *answer, const struct vx_layout *layout) {
  struct text measure = text_over(NULL, 0);
  write_header(answer, layout, true, &measure);
  size_t needed = LENGTH_PREFIX + measure.length + 1;  // the builder ends its text with a NUL
  return (needed + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

void answer_frame_write(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve) {
  uint64_t length = reserve - LENGTH_PREFIX;
  for (int i = 0; i < LENGTH_PREFIX; i++) block[i] = (char)(length >> (8 * i) & 0xff);
  struct text header = text_over(block + LENGTH_PREFIX, length);
  write_header(answer, layout, false, &header);
  size_t written = header.length < length ? header.length : length;
  memset(block + LENGTH_PREFIX + written, ' ', length - written);
  // The memory may hold what an earlier request left there.
  size_t end = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    memset(block + reserve + end, 0, layout->offset[tensor] - end);
    end = layout->offset[tensor] + layout->shape[tensor].bytes;
  }
}
