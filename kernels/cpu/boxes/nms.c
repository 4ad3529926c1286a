// Non-maximum suppression on the CPU, cloud by cloud; see boxes.h.
#include "kernels/cpu/boxes/boxes.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/ops.h"
#include "kernels/rank.h"

struct nms {
  struct vx_job *job;
  const float *scores;  // [N]
  struct cpu_suppressor suppressor;
  int32_t *kept;  // [N]: kept rows of all clouds
};

static void lay_out(struct nms *nms, struct cpu_arena *arena) {
  const struct vx_job *job = nms->job;
  int32_t most = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++)
    most = job->point_counts[cloud] > most ? job->point_counts[cloud] : most;
  cpu_suppressor_lay_out(&nms->suppressor, most, arena);
  nms->kept = cpu_arena_take(arena, (uint64_t)job->inputs[VX_BOXES].dims[0], sizeof *nms->kept);
}

// Lists the valid boxes among begin..end - 1. Returns their number.
static int32_t list_valid(struct nms *nms, int32_t begin, int32_t end) {
  struct cpu_suppressor *suppressor = &nms->suppressor;
  int32_t valid = 0;
  VX_EACH_ROW(suppressor->stop, i, begin, end)
    if (vx_is_valid_box(suppressor->boxes + i * VX_BOX_VALUES, nms->scores[i]))
      suppressor->ranked[valid++] = (struct cpu_keyed){vx_rank_key(nms->scores[i]), (int32_t)i};
  nms->job->counts.invalid += end - begin - valid;
  return valid;
}

static enum vx_status suppress(struct nms *nms, struct error *error) {
  struct vx_job *job = nms->job;
  int32_t begin = 0, kept = 0;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++) {
    int32_t end = begin + job->point_counts[cloud], valid = list_valid(nms, begin, end);
    int32_t more = cpu_suppress(&nms->suppressor, valid, nms->kept + kept, &job->counts);
    job->row_counts[cloud] = more;
    kept += more;
    begin = end;
  }
  return vx_stop_status(job->stop, error);
}

static enum vx_status write_output(const struct nms *nms, struct error *error) {
  struct vx_layout layout;
  void *output = NULL;
  enum vx_status status = vx_take_output(nms->job, &layout, &output, error);
  if (status == VX_OK && layout.bytes > 0)
    memcpy((unsigned char *)output + layout.offset[VX_KEPT_INDICES], nms->kept, layout.shape[VX_KEPT_INDICES].bytes);
  return status;
}

enum vx_status cpu_nms(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct vx_nms *params = &job->params.nms;
  struct nms nms = {.job = job,
                    .scores = job->inputs[VX_SCORES].data,
                    .suppressor = {.stop = job->stop,
                                   .params = params,
                                   .boxes = job->inputs[VX_BOXES].data,
                                   .labels = params->class_agnostic ? NULL : job->inputs[VX_LABELS].data}};
  struct cpu_arena measured = {0};
  int64_t began = clock_ns();
  lay_out(&nms, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->scratch, &measured, job, error);
  if (status != VX_OK) return status;
  lay_out(&nms, &lane->scratch);
  status = suppress(&nms, error);
  job->stage_ns[VX_STAGE_NMS] = clock_ns() - began;
  return status != VX_OK || job->tensors == 0 ? status : write_output(&nms, error);
}
