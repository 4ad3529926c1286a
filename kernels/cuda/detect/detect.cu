// A detection on a GPU. kernels/detection.h has its stages.
//
// The first stage's tensors stay in the lane's block `features`, the maps of network and backbone in `maps`. The host
// waits for the number of voxels, for a backbone's numbers of rows, and for the boxes, but not between network and
// decoder: the network's work is enqueued in the lane's stream.
#include "kernels/cuda/detect/detect.cuh"

#include <string.h>

#include "kernels/cuda/base/chain.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/memory.cuh"
#include "kernels/cuda/boxes/boxes.cuh"
#include "kernels/cuda/voxelize/voxelize.cuh"

// ---- what the GPU takes ---------------------------------------------------------------------------------------------

// A network that takes one cloud at a time reads it in place in the batch, 16 bytes at once. So each cloud must begin
// at a multiple of WHOLE bytes.
enum { WHOLE = 16 };

static bool is_whole(int64_t values, size_t size) { return (uint64_t)values * size % WHOLE == 0; }

static bool lies_well(const struct vx_detector *detector) {
  const struct vx_voxelize *voxelize = &detector->voxelize;
  struct vx_grid grid;
  struct error error;
  bool well = vx_grid_of(voxelize, 1, &grid, &error) == VX_OK;
  int64_t values = (int64_t)grid.cells[0] * grid.cells[1] * grid.cells[2] * vx_encoder_width(&voxelize->encoder);
  if (vx_has_backbone(detector)) values = vx_sparse_map_values(&detector->plan, 1);
  well = well && is_whole(values, vx_dtype_size(voxelize->feature_dtype));
  for (int i = 0; i < VX_DETECTOR_MAPS; i++) {
    const struct vx_detector_map *map = &detector->maps[i];
    well = well && (!map->output || is_whole(map->height * map->width * map->channels, vx_dtype_size(map->dtype)));
  }
  return well;
}

bool cuda_detects(const struct vx_job *job) {
  const struct vx_detect *detect = &job->params.detect;
  if (job->op == VX_BACKBONE) return true;
  return detect->session && (!detect->detector->one_by_one || job->num_clouds <= 1 || lies_well(detect->detector));
}

// ---- times ----------------------------------------------------------------------------------------------------------

// `moment`: host memory.
static __global__ void note_kernel(uint64_t *moment) {
  cuda_wait();
  *moment = cuda_now();
  __threadfence_system();
}

static enum vx_status note(struct vx_lane *lane, enum cuda_note which, struct error *error) {
  struct cuda_run run = {};
  run.lane = lane;
  run.stream = lane->stream;
  return cuda_launch("note_kernel", note_kernel, 1, 1, 0, &run, error, &lane->status_on_device->notes[which]);
}

static int64_t between(const struct vx_lane *lane, enum cuda_note first, enum cuda_note last) {
  return (int64_t)(lane->status->notes[last] - lane->status->notes[first]);
}

// ---- voxels ---------------------------------------------------------------------------------------------------------

static void lay_out(struct vx_detection *detection, struct cuda_arena *arena) {
  unsigned char *features = NULL;
  if (vx_has_backbone(detection->detector) && detection->features.rank != 0)
    take(arena, &features, detection->features.bytes);
  detection->features_at = features;
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    unsigned char *map = NULL, *last = NULL;
    if (detection->maps[i].rank != 0) {
      take(arena, &map, detection->maps[i].bytes);
      last = map;
    }
    if (vx_detection_moves(detection, i)) take(arena, &last, detection->maps[i].bytes);
    detection->written[i] = map;
    detection->last[i] = last;
  }
}

static enum vx_status reserve_maps(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  struct cuda_arena measured = {}, arena = {};
  lay_out(detection, &measured);
  CUDA_TRY(cuda_reserve(lane, &lane->maps, measured.used, error));
  arena.memory = lane->maps.memory;
  lay_out(detection, &arena);
  return VX_OK;
}

static void swap_image(struct vx_lane *lane) {
  struct cuda_memory image = lane->image;
  lane->image = lane->features;
  lane->features = image;
}

static enum vx_status voxelize(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  int32_t row_counts[VX_MAX_CLOUDS];
  bool detects = detection->job->op == VX_DETECT;
  struct vx_job voxelize = vx_detection_voxelize(detection, detects ? row_counts : detection->job->row_counts);
  CUDA_TRY(vx_detection_measure(detection, error));
  CUDA_TRY(reserve_maps(lane, detection, error));
  swap_image(lane);
  enum vx_status status = cuda_run_job(lane, &voxelize, cuda_voxelize, &detection->voxels, error);
  swap_image(lane);
  if (vx_has_backbone(detection->detector))
    detection->voxels_at = lane->features.memory;
  else
    detection->features_at = lane->features.memory;
  vx_detection_add(detection, &voxelize);
  return status;
}

static enum vx_status run_backbone(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  CUDA_TRY(note(lane, CUDA_BACKBONE_BEGUN, error));
  CUDA_TRY(cuda_run_backbone(lane, detection, error));
  return note(lane, CUDA_BACKBONE_DONE, error);
}

// ---- the network ----------------------------------------------------------------------------------------------------

// A library that fails may have lost the device. It may also have left an error that the next call would report.
static enum vx_status run_network(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  enum vx_status status = vx_detection_network(detection, error);
  (void)cudaGetLastError();
  if (status == VX_FAILED || status == VX_OUT_OF_MEMORY) CUDA_CALL(cudaStreamSynchronize(lane->stream), error);
  return status;
}

static enum vx_status compute_maps(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  CUDA_TRY(note(lane, CUDA_NETWORK_BEGUN, error));
  CUDA_TRY(run_network(lane, detection, error));
  CUDA_TRY(cuda_move_channels(lane, detection, error));
  return note(lane, CUDA_NETWORK_DONE, error);
}

// ---- boxes ----------------------------------------------------------------------------------------------------------

static enum vx_status decode(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  struct vx_job decode = vx_detection_decode(detection);
  CUDA_TRY(vx_detection_check_time(detection, "boxes were made", error));
  detection->decode = &decode;
  enum vx_status status =
      cuda_run_job(lane, &decode, decode.op == VX_DECODE ? cuda_decode : cuda_decode_center, NULL, error);
  detection->decode = NULL;
  vx_detection_add(detection, &decode);
  return status;
}

// ---- the output -----------------------------------------------------------------------------------------------------

// Writes zeros to a part of the output. `seen`: the output as the device sees it, or NULL. Memory that the device sees
// may be a GPU's own, which the host cannot write.
static enum vx_status clear(struct vx_lane *lane, unsigned char *output, unsigned char *seen, size_t begin, size_t end,
                            struct error *error) {
  if (begin < end && seen)
    CUDA_CALL(cudaMemsetAsync(seen + begin, 0, end - begin, lane->stream), error);
  else if (begin < end)
    memset(output + begin, 0, end - begin);
  return VX_OK;
}

static enum vx_status copy_shown(struct vx_lane *lane, const struct vx_detection *detection, unsigned char *seen,
                                 struct error *error) {
  const struct vx_layout *layout = &detection->layout;
  struct vx_shown shown[VX_SHOWN_TENSORS];
  int count = vx_detection_shown(detection, shown);
  size_t end = 0;
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    const void *from = NULL;
    for (int i = 0; i < count; i++) from = (int)shown[i].tensor == tensor ? shown[i].from : from;
    if ((VX_CHAIN_TENSORS & VX_TENSOR_BIT(tensor)) != 0) from = lane->image.memory + layout->offset[tensor];
    if ((layout->tensors & VX_TENSOR_BIT(tensor)) == 0) continue;
    size_t begin = layout->offset[tensor], bytes = layout->shape[tensor].bytes;
    bool left = (VX_TRACK_TENSORS & VX_TENSOR_BIT(tensor)) != 0;  // the caller fills them
    if (from || left) CUDA_TRY(clear(lane, detection->output, seen, end, begin, error));
    if (from && bytes > 0)
      CUDA_CALL(cudaMemcpyAsync(detection->output + begin, from, bytes, cudaMemcpyDeviceToHost, lane->stream), error);
    end = begin + bytes;
  }
  return VX_OK;
}

// Writes the tensors of the chain into the lane's image, whose boxes have been sent.
static enum vx_status write_chain(struct vx_lane *lane, const struct vx_detection *detection, struct error *error) {
  struct cuda_run run = {};
  run.lane = lane;
  run.stream = lane->stream;
  run.tensors = detection->job->tensors & VX_CHAIN_TENSORS;
  run.layout = detection->layout;
  if (run.tensors == 0 || !lane->chain) return VX_OK;
  CUDA_TRY(cuda_reserve(lane, &lane->image, detection->layout.bytes, error));
  return cuda_write_chain(&run, error);
}

static enum vx_status show_stages(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  struct vx_job *job = detection->job;
  struct cuda_run run = {};
  void *seen = NULL;
  run.job = job;
  if (lane->chain) cuda_read_chain(lane);
  CUDA_TRY(vx_detection_settle(detection, error));
  if ((job->tensors & ~VX_DECODE_TENSORS) == 0 || detection->layout.bytes == 0) return VX_OK;
  CUDA_CALL(cudaSetDevice(lane->device->index), error);  // allocating may have made another device current
  CUDA_TRY(cuda_see_part(&run, detection->output, detection->layout.bytes, &seen, error));
  CUDA_TRY(write_chain(lane, detection, error));
  CUDA_TRY(note(lane, CUDA_SHOW_BEGUN, error));
  CUDA_TRY(copy_shown(lane, detection, (unsigned char *)seen, error));
  CUDA_TRY(note(lane, CUDA_SHOWN, error));
  CUDA_CALL(cudaStreamSynchronize(lane->stream), error);
  job->stage_ns[VX_STAGE_COPY_OUT] += between(lane, CUDA_SHOW_BEGUN, CUDA_SHOWN);
  return VX_OK;
}

static enum vx_status find_boxes(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  CUDA_TRY(compute_maps(lane, detection, error));
  CUDA_TRY(decode(lane, detection, error));
  detection->job->stage_ns[VX_STAGE_NETWORK] = between(lane, CUDA_NETWORK_BEGUN, CUDA_NETWORK_DONE);
  return VX_OK;
}

static enum vx_status run_stages(struct vx_lane *lane, struct vx_detection *detection, struct error *error) {
  bool backbone = vx_has_backbone(detection->detector);
  CUDA_TRY(voxelize(lane, detection, error));
  if (backbone) CUDA_TRY(run_backbone(lane, detection, error));
  if (detection->job->op == VX_DETECT) CUDA_TRY(find_boxes(lane, detection, error));
  CUDA_TRY(show_stages(lane, detection, error));
  if (detection->job->op == VX_BACKBONE) CUDA_CALL(cudaStreamSynchronize(lane->stream), error);
  if (backbone) detection->job->stage_ns[VX_STAGE_BACKBONE] = between(lane, CUDA_BACKBONE_BEGUN, CUDA_BACKBONE_DONE);
  return VX_OK;
}

enum vx_status cuda_detect(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct vx_detection detection = vx_detection_of(job);
  CUDA_TRY(vx_begin_job(job, error));
  CUDA_CALL(cudaSetDevice(lane->device->index), error);
  enum vx_status status = run_stages(lane, &detection, error);
  if (status != VX_OK) {
    // The caller takes its memory back after this, so no copy to that memory may still run.
    (void)cudaStreamSynchronize(lane->stream);
    (void)cudaGetLastError();
  }
  return status;
}
