// See found.h.
#include "kernels/cpu/boxes/found.h"

#include <string.h>

#include "kernels/exact.h"
#include "kernels/ops.h"

const float *cpu_map_values(const struct vx_input *map, int64_t first, int32_t count, float *widened) {
  if (map->dtype != VX_FLOAT16) {
    return (const float *)map->data + first;
  }
  for (int32_t i = 0; i < count; i++) {
    widened[i] = cpu_map_value(map, first + i);
  }
  return widened;
}

bool cpu_any_reaches(const float *logits, int32_t count, float least) {
  int reaches = 0;
  for (int32_t i = 0; i < count; i++) {
    reaches |= logits[i] >= least;
  }
  return reaches != 0;
}

static void write_tensors(const struct vx_job *job, const struct cpu_candidate *found, const float *boxes,
                          const struct vx_layout *layout, unsigned char *output) {
  void *at[VX_TENSOR_COUNT];
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    at[tensor] = (layout->tensors & VX_TENSOR_BIT(tensor)) != 0 ? output + layout->offset[tensor] : NULL;
  }
  float *scores = at[VX_DECODED_SCORES];
  int32_t *labels = at[VX_DECODED_LABELS], *indices = at[VX_BOX_INDICES];
  if (at[VX_DECODED_BOXES] != NULL) {
    memcpy(at[VX_DECODED_BOXES], boxes, layout->shape[VX_DECODED_BOXES].bytes);
  }
  if (at[VX_BOX_COUNTS] != NULL) {
    memcpy(at[VX_BOX_COUNTS], job->row_counts, layout->shape[VX_BOX_COUNTS].bytes);
  }
  for (int64_t i = 0; i < job->counts.kept; i++) {
    if (scores != NULL) scores[i] = vx_sigmoid(found[i].logit);
    if (labels != NULL) labels[i] = found[i].label;
    if (indices != NULL) indices[i] = found[i].index;
  }
}

enum vx_status cpu_write_found(const struct vx_job *job, const struct cpu_candidate *found, const float *boxes,
                               struct vx_error *error) {
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(job, &layout, &output, error);
  if (status == VX_OK && layout.bytes > 0) {
    write_tensors(job, found, boxes, &layout, output);
  }
  return status;
}
