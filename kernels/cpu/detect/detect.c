// A detection on the CPU. cpu_detect, at the end, shows all of it; kernels/detection.h has its stages.
//
// Each stage uses the lane's scratch; what it leaves for later stages is in `between`. Runs on the thread that has the
// lane.
#include "kernels/cpu/detect/detect.h"

#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/boxes/boxes.h"
#include "kernels/cpu/sparse/sparse.h"
#include "kernels/cpu/voxelize/voxelize.h"
#include "kernels/detection.h"
#include "kernels/ops.h"

// ---- memory between the stages --------------------------------------------------------------------------------------

static void lay_out(struct vx_detection *detection, struct cpu_arena *arena) {
  detection->voxels_at =
      vx_has_backbone(detection->detector) ? cpu_arena_take(arena, detection->voxels.bytes, 1) : NULL;
  detection->features_at = detection->features.rank == 0 ? NULL : cpu_arena_take(arena, detection->features.bytes, 1);
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    size_t bytes = detection->maps[i].bytes;
    detection->written[i] = detection->maps[i].rank == 0 ? NULL : cpu_arena_take(arena, bytes, 1);
    detection->last[i] = vx_detection_moves(detection, i) ? cpu_arena_take(arena, bytes, 1) : detection->written[i];
  }
}

static enum vx_status prepare(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  struct cpu_arena measured = {0};
  lay_out(detection, &measured);
  enum vx_status status = cpu_arena_reserve(&lane->between, &measured, detection->job, error);
  if (status == VX_OK) {
    cpu_arena_fill(&lane->between);
    lay_out(detection, &lane->between);
  }
  return status;
}

// ---- the stages -----------------------------------------------------------------------------------------------------

static enum vx_status voxelize(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  int32_t row_counts[VX_MAX_CLOUDS];
  bool detects = detection->job->op == VX_DETECT;
  struct vx_job voxelize = vx_detection_voxelize(detection, detects ? row_counts : detection->job->row_counts);
  enum vx_status status = vx_begin_job(&voxelize, error);
  if (status == VX_OK) status = vx_detection_measure(detection, error);
  if (status == VX_OK) status = prepare(lane, detection, error);
  if (status == VX_OK) status = cpu_voxelize(lane, &voxelize, error);
  vx_detection_add(detection, &voxelize);
  return status;
}

static enum vx_status run_backbone(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  struct vx_job *job = detection->job;
  struct vx_sparse_rows rows = vx_detection_rows(detection);
  int64_t began = clock_ns();
  enum vx_status status = vx_detection_check_time(detection, "the backbone ran", error);
  detection->sparse.map = detection->features_at;
  if (status == VX_OK && rows.half)
    status = vx_refuse(error, "precision is float16, which only a GPU computes; this server has the CPU backend");
  if (status == VX_OK)
    status =
        cpu_sparse(lane, job, &detection->detector->backbone, &rows, cpu_convolve_here(), &detection->sparse, error);
  memcpy(job->counts.level_rows, detection->sparse.level_rows, sizeof job->counts.level_rows);
  job->stage_ns[VX_STAGE_BACKBONE] = clock_ns() - began;
  return status;
}

// Moves values from [clouds,channels,cells] to [clouds,cells,channels]. `bytes`: of a value.
static inline void move_values(const struct vx_detector_map *map, struct vx_stop *stop, int64_t clouds, size_t bytes,
                               const unsigned char *from, unsigned char *to) {
  size_t cells = (size_t)(map->height * map->width), channels = (size_t)map->channels;
  for (int64_t cloud = 0; cloud < clouds; cloud++) {
    for (size_t cell = 0; cell < cells && !vx_stopped(stop, map->channels); cell++) {
      for (size_t channel = 0; channel < channels; channel++) {
        memcpy(to, from + (channel * cells + cell) * bytes, bytes);
        to += bytes;
      }
    }
    from += cells * channels * bytes;
  }
}

// With a constant size, a copy is one instruction.
static void move_channels(const struct vx_detector_map *map, struct vx_stop *stop, int64_t clouds, const void *from,
                          void *to) {
  if (vx_dtype_size(map->dtype) == 2)
    move_values(map, stop, clouds, 2, from, to);
  else
    move_values(map, stop, clouds, 4, from, to);
}

static enum vx_status compute_maps(struct vx_detection *detection, struct error *error) {
  int64_t began = clock_ns();
  enum vx_status status = vx_detection_network(detection, error);
  for (int i = 0; i < VX_MAX_INPUTS && status == VX_OK; i++) {
    if (vx_detection_moves(detection, i)) {
      move_channels(&detection->detector->maps[i], detection->job->stop, detection->job->num_clouds,
                    detection->written[i], detection->last[i]);
    }
  }
  detection->job->stage_ns[VX_STAGE_NETWORK] = clock_ns() - began;
  return status == VX_OK ? vx_stop_status(detection->job->stop, error) : status;
}

static enum vx_status decode(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  struct vx_job decode = vx_detection_decode(detection);
  detection->decode = &decode;
  enum vx_status status = vx_detection_check_time(detection, "boxes were made", error);
  if (status == VX_OK) status = vx_begin_job(&decode, error);
  if (status == VX_OK)
    status = decode.op == VX_DECODE ? cpu_decode(lane, &decode, error) : cpu_decode_center(lane, &decode, error);
  vx_detection_add(detection, &decode);
  detection->decode = NULL;
  return status;
}

// Copies requested tensors of the stages to the output.
static enum vx_status show_stages(struct vx_detection *detection, struct error *error) {
  struct vx_shown shown[VX_SHOWN_TENSORS];
  int64_t began = clock_ns();
  enum vx_status status = vx_detection_settle(detection, error);
  int count = vx_detection_shown(detection, shown);
  for (int i = 0; i < count && status == VX_OK; i++) {
    const struct vx_shape *shape = &detection->layout.shape[shown[i].tensor];
    if ((detection->job->tensors & VX_TENSOR_BIT(shown[i].tensor)) != 0 && shape->bytes > 0) {
      vx_copy(detection->job->stop, detection->output + detection->layout.offset[shown[i].tensor], shown[i].from,
              shape->bytes);
    }
  }
  detection->job->stage_ns[VX_STAGE_COPY_OUT] = clock_ns() - began;
  return status == VX_OK ? vx_stop_status(detection->job->stop, error) : status;
}

enum vx_status cpu_detect(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct vx_detection detection = vx_detection_of(job);
  enum vx_status status = voxelize(lane, &detection, error);
  if (status == VX_OK && vx_has_backbone(detection.detector)) status = run_backbone(lane, &detection, error);
  if (status == VX_OK && job->op == VX_BACKBONE) return show_stages(&detection, error);
  if (status == VX_OK) status = compute_maps(&detection, error);
  if (status == VX_OK) status = decode(lane, &detection, error);
  return status == VX_OK ? show_stages(&detection, error) : status;
}
