// See chain.cuh.
#include "kernels/cuda/base/chain.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/tensors.cuh"
#include "kernels/steps.h"

enum { BLOCK = 256 };

bool cuda_is_folded(const struct vx_job *job) {
  const struct vx_chain *chain = job->chain;
  if (!chain || job->op != VX_VOXELIZE || (job->tensors & VX_CHAIN_TENSORS) != 0 || job->sections.count != 0)
    return false;
  if (job->params.voxelize.coordinates == VX_CYLINDER) return chain->count == 0;
  return chain->count == 1 && chain->steps[0].type == VX_STEP_TRANSFORM &&
         chain->steps[0].params.transform.num_matrices < 2;
}

void cuda_read_folded(struct vx_job *job, const struct cuda_counters *told) {
  static const enum vx_fate fates[CUDA_MOVED_FATES] = {VX_FATE_NOT_FINITE, VX_FATE_OUT_OF_CROP, VX_FATE_CUT_OUT,
                                                       VX_FATE_OUT_OF_DISTANCE};
  struct vx_chain_report *report = job->report;
  report->left = job->counts.received;
  for (int i = 0; i < CUDA_MOVED_FATES; i++) {
    report->fates[job->chain->count][fates[i]] = told->moved_fates[i];
    report->left -= told->moved_fates[i];
  }
  report->fates[0][VX_FATE_KEPT] = report->left;
}

void cuda_read_chain(struct vx_lane *lane) {
  struct vx_job *job = lane->chain->run.job;
  struct vx_chain_report *report = job->report;
  const struct cuda_chain_counters *told = &((const struct cuda_device_status *)lane->status)->chain;
  report->left = job->counts.received;
  for (int step = 0; step <= VX_MAX_STEPS; step++) {
    for (int fate = 0; fate < VX_FATE_COUNT; fate++) {
      report->fates[step][fate] = told->fates[step][fate];
      report->left -= told->fates[step][fate];
    }
  }
  report->fates[0][VX_FATE_KEPT] = report->left;
  uint64_t begun = told->ended[0];
  for (int32_t i = 0; i < job->chain->count; i++) {
    uint64_t ended = told->ended[i + 1] > begun ? told->ended[i + 1] : begun;
    report->step_ns[i] = (int64_t)(ended - begun);
    begun = ended;
  }
  report->section_fates = told->section_fates;
  if (job->deskew) cuda_read_deskew(job, &told->deskew);
}

typedef struct cuda_tensors<VX_LEFT_POINTS, VX_POINT_STEPS> chain_tensors;

// `voxel_ids`: NULL, or the voxel of each row, which the operation has written for the rows that are left. Merged rows
// get the voxel of their head.
static __global__ void __launch_bounds__(BLOCK)
    write_chain_kernel(const __grid_constant__ struct cuda_chain_rows r, const int32_t *row_of,
                       const __grid_constant__ chain_tensors tensors, int32_t *voxel_ids) {
  cuda_wait();
  uint64_t begin = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, step = (uint64_t)gridDim.x * BLOCK;
  float *points = tensors.of<float>(VX_LEFT_POINTS);
  int32_t *indices = tensors.of<int32_t>(VX_POINT_INDICES), *rows = tensors.of<int32_t>(VX_POINT_ROWS);
  uint8_t *fates = tensors.of<uint8_t>(VX_POINT_FATES), *steps = tensors.of<uint8_t>(VX_POINT_STEPS);
  tensors.zero_gaps(begin);
  uint64_t values = points ? (uint64_t)r.clouds.num_points * r.columns : 0;
  for (uint64_t i = begin; i < values; i += step) {
    int64_t row = row_of[i / r.columns];
    if (row >= 0) points[row * r.columns + i % r.columns] = r.points[i];
  }
  for (uint64_t i = begin; i < r.clouds.num_points; i += step) {
    uint64_t head = i;
    while (r.heads && r.fates[head] == VX_FATE_MERGED) head = (uint64_t)r.heads[head];
    if (indices && row_of[i] >= 0) indices[row_of[i]] = (int32_t)i;
    if (rows) rows[i] = max(row_of[head], -1);
    if (voxel_ids && head != i) voxel_ids[i] = voxel_ids[head];
    if (fates) fates[i] = r.fates[i];
    if (steps) steps[i] = r.steps[i];
  }
}

enum vx_status cuda_write_chain(const struct cuda_run *run, struct error *error) {
  const struct cuda_chain *chain = run->lane->chain;
  const vx_tensor_set ids = VX_TENSOR_BIT(VX_POINT_VOXEL_IDS);
  if (!chain || (run->tensors & (VX_CHAIN_TENSORS | (chain->rows.heads ? ids : 0))) == 0) return VX_OK;
  int32_t *voxel_ids = NULL;
  if (chain->rows.heads && (run->tensors & ids) != 0)
    voxel_ids = (int32_t *)(run->lane->image.memory + run->layout.offset[VX_POINT_VOXEL_IDS]);
  uint64_t values = (uint64_t)chain->rows.clouds.num_points * chain->rows.columns;
  return cuda_launch("write_chain_kernel", write_chain_kernel, cuda_looping_blocks(run, values, BLOCK, 8), BLOCK, 0,
                     run, error, chain->rows, (const int32_t *)chain->row_of,
                     cuda_tensors_of<VX_LEFT_POINTS, VX_POINT_STEPS>(run), voxel_ids);
}
