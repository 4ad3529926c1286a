// The rows of a chain of steps on a GPU (kernels/steps.h), their counts and tensors. The folder steps/ runs the chain.
#ifndef VOXELD_CUDA_CHAIN_CUH
#define VOXELD_CUDA_CHAIN_CUH

#include "kernels/cuda/base/run.cuh"

// `points`: the chain's rows.
struct cuda_chain_rows : cuda_points {
  uint8_t *fates, *steps;     // [clouds.num_points]
  int32_t *heads;             // [clouds.num_points], or NULL
  uint32_t *turns;            // one bit for each row: in the body, the sensor begins a turn there; NULL if unused
  struct cuda_clouds clouds;  // num_points: rows of all clouds; first_point: of each cloud, NULL for one cloud
  struct cuda_chain_counters *counters;
  struct cuda_stop stop;  // of the job, for steps that may take long
  uint8_t number;         // of the current step, from 1; 0: the operation
};

struct cuda_chain {
  struct cuda_chain_rows rows;
  struct cuda_run run;           // for launches: its lane, stream and job
  struct cuda_arrival *arrival;  // what the next kernel does with the rows first (steps/arrival.cuh)
  // [num_points]: for each row, how many of the rows before it the chain kept; if the chain dropped the row itself, the
  // complement (~) of this number, which is negative. NULL if nothing reads it.
  int32_t *row_of;
  float *cylinder;  // [num_points, columns + VX_CYLINDER_EXTRA]: what the operation sees in place of the rows, or NULL
  uint64_t *scans;  // states of all scans of the chain, after its counters
  uint64_t scan_words;                    // states of one scan
  uint32_t num_scans;                     // number in use
  float *matrices;                        // room for the steps that have one matrix per cloud
  uint32_t used_matrices, host_matrices;  // matrices in use: in this array, and in the host's commands
};

// Whether a voxelization's first kernel does the whole chain, which then has no rows of its own: a transform with at
// most one matrix, or no step and cylindrical coordinates, if no tensor or section needs fates.
bool cuda_is_folded(const struct vx_job *job);
// Copies the counts of that first kernel into the job's report.
void cuda_read_folded(struct vx_job *job, const struct cuda_counters *told);
// Copies the counts of the chain into the job's report, once the host has awaited the sizes of the operation.
void cuda_read_chain(struct vx_lane *lane);
// Enqueues the kernels that write the tensors of the chain into the image. run->layout is known.
VX_WARN_UNUSED enum vx_status cuda_write_chain(const struct cuda_run *run, struct error *error);

#endif
