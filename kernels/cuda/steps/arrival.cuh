// How a chain's rows come to the first kernel of a step. It brings them if they are still in the body, and moves them
// if a transform precedes the step; else they are in place. The kernel is a template. Its argument is a cuda_arrival or
// a cuda_in_place:
//
//   cuda_begin_rows(rows, arrival);                in place of cuda_wait and cuda_begin_step
//   cuda_take_rows(rows, arrival, first, at);      by whole blocks: the coordinates of each thread's rows
//   cuda_end_rows(rows, arrival);                  in place of cuda_end_step
//
// and cuda_launch_first launches it.
#ifndef VOXELD_CUDA_ARRIVAL_CUH
#define VOXELD_CUDA_ARRIVAL_CUH

#include "kernels/cuda/base/deskew.cuh"
#include "kernels/cuda/base/moving.cuh"
#include "kernels/cuda/steps/steps.cuh"
#include "kernels/step_ring_outlier.h"

struct cuda_arrival {
  bool brings, transforms;
  uint8_t number;             // of the step that counts the rows dropped on the way: the transform, or else the first
  struct cuda_deskew deskew;  // without times: no de-skew
  struct cuda_moving moving;
};

struct cuda_in_place {};

// ---- turns ----------------------------------------------------------------------------------------------------------

static __device__ inline struct location cuda_read_row(const struct cuda_chain_rows &r, uint64_t row) {
  uint64_t value = row * r.columns;
  return {vx_load(r.dtype, r.source, value), vx_load(r.dtype, r.source, value + 1),
          vx_load(r.dtype, r.source, value + 2)};
}

// Called by whole blocks. Notes where turns begin, for the rows first + k * BRING_BLOCK + threadIdx.x. Fills `turns`
// with the words of the warp's rows. `before`: in thread 0, the y of the row before the first.
template <int CHUNKS>
static __device__ inline void cuda_note_turns(const struct cuda_chain_rows &r, uint64_t first, float before,
                                              const struct location (&at)[CHUNKS], uint32_t (&turns)[CHUNKS]) {
  __shared__ float ahead[CHUNKS * (BRING_BLOCK / 32) + 1];  // of each warp: the y of the row before its first
  uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();  // all threads have read `ahead` of the last call
  if (threadIdx.x == 0) ahead[0] = before;
#pragma unroll
  for (int k = 0; k < CHUNKS; k++)
    if (lane == 31) ahead[k * (BRING_BLOCK / 32) + warp + 1] = at[k].y;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < CHUNKS; k++) {
    uint64_t row = first + k * BRING_BLOCK + threadIdx.x;
    bool here = row < r.clouds.num_points;
    float shifted = __shfl_up_sync(~0u, at[k].y, 1), y = lane == 0 ? ahead[k * (BRING_BLOCK / 32) + warp] : shifted;
    bool is_turn = here && !cuda_begins_cloud(r.clouds, (uint32_t)row) && vx_is_turn(y, at[k].x, at[k].y);
    turns[k] = __ballot_sync(~0u, is_turn);
    if (lane == 0 && here) r.turns[row / 32] = turns[k];
  }
}

// ---- rows in place --------------------------------------------------------------------------------------------------

static __device__ inline void cuda_begin_rows(const struct cuda_chain_rows &, const struct cuda_in_place &) {
  cuda_begin_step();
  cuda_wait();
}

// Fills `at` with the coordinates of the rows first + k * BRING_BLOCK + threadIdx.x. The x of a row that is not left,
// or not there, is NaN. Fills `turns` with the words of the warp's rows, if the chain has turns.
template <int CHUNKS>
static __device__ inline void cuda_take_rows(const struct cuda_chain_rows &r, const struct cuda_in_place &,
                                             uint64_t first, struct location (&at)[CHUNKS], uint32_t (&turns)[CHUNKS]) {
#pragma unroll
  for (int k = 0; k < CHUNKS; k++) {
    uint64_t row = first + k * BRING_BLOCK + threadIdx.x;
    bool has_turns = r.turns && row - threadIdx.x % 32 < r.clouds.num_points;
    turns[k] = has_turns ? r.turns[row / 32] : 0;
    const float *from = r.points + row * r.columns;
    at[k].x = vx_bits_float(VX_FLOAT_NAN);
    if (row < r.clouds.num_points) at[k] = {from[0], from[1], from[2]};
  }
}

static __device__ inline void cuda_end_rows(const struct cuda_chain_rows &r, const struct cuda_in_place &) {
  cuda_end_step(r);
}

// ---- rows that arrive -----------------------------------------------------------------------------------------------

static __device__ inline void cuda_begin_rows(const struct cuda_chain_rows &r, const struct cuda_arrival &a) {
  cuda_begin_deskew(a.deskew);
  cuda_begin_step();
  if (!a.brings) {
    cuda_wait();
    return;
  }
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) r.counters->begun = cuda_now();
}

// Returns the fate of a row that is left or has just come from the body. Moves the row if a.transforms.
static __device__ inline enum vx_fate cuda_move_arrived(const struct cuda_chain_rows &r, const struct cuda_arrival &a,
                                                        uint32_t row, struct location *at) {
  if (a.brings && !vx_are_finite(at->x, at->y, at->z)) return VX_FATE_NOT_FINITE;
  return a.transforms ? cuda_move(r, a.moving, row, at) : VX_FATE_KEPT;
}

template <int CHUNKS>
static __device__ inline void cuda_take_rows(const struct cuda_chain_rows &r, const struct cuda_arrival &a,
                                             uint64_t first, struct location (&at)[CHUNKS], uint32_t (&turns)[CHUNKS]) {
  if (a.brings) {
    bool reads = r.turns && threadIdx.x == 0 && first > 0;  // also loads row first - 1, in parallel with its own
    struct location before = reads ? cuda_read_row(r, first - 1) : location{};
    float time = reads && a.deskew.times ? a.deskew.times[first - 1] : 0.0f;
    bring_chunks(
        r, first, r.clouds.num_points, a.deskew.times,
        [&](uint64_t, float t, struct location *moved) {
          return a.deskew.times && cuda_deskew_row(a.deskew, t, true, moved);
        },
        at);
    cuda_let_next();
    if (threadIdx.x == 0) atomicMax((unsigned long long *)&r.counters->ended[0], cuda_now());
    if (reads && a.deskew.times) (void)cuda_deskew_row(a.deskew, time, false, &before);
    if (r.turns) cuda_note_turns(r, first, before.y, at, turns);
  } else {
    cuda_take_rows(r, cuda_in_place(), first, at, turns);
  }
#pragma unroll
  for (int k = 0; k < CHUNKS; k++) {
    uint64_t row = first + k * BRING_BLOCK + threadIdx.x;
    bool here = row < r.clouds.num_points;
    if (a.brings && here) r.fates[row] = VX_FATE_KEPT, r.steps[row] = 0;
    enum vx_fate fate = VX_FATE_KEPT;
    if (here && (a.brings || cuda_is_left(at[k].x))) fate = cuda_move_arrived(r, a, (uint32_t)row, &at[k]);
    if (fate != VX_FATE_KEPT) cuda_drop_for(r, a.number, cuda_fates_before(), (uint32_t)row, fate);
    if (fate != VX_FATE_KEPT || !here) at[k].x = vx_bits_float(VX_FLOAT_NAN);
  }
}

// The same without the turns.
template <typename arrival, int CHUNKS>
static __device__ inline void cuda_take_rows(const struct cuda_chain_rows &r, const arrival &arriving, uint64_t first,
                                             struct location (&at)[CHUNKS]) {
  uint32_t turns[CHUNKS];
  cuda_take_rows(r, arriving, first, at, turns);
}

static __device__ inline void cuda_end_rows(const struct cuda_chain_rows &r, const struct cuda_arrival &a) {
  cuda_end_step(r);
  cuda_add_fates(r, a.number, cuda_fates_before());
}

// ---- launches -------------------------------------------------------------------------------------------------------

// Launches the first kernel of a step: `arriving` if it must bring or move rows, else `staying`. Both take the chain's
// rows, the step's own arguments, and the arrival.
template <typename own>
static inline enum vx_status cuda_launch_first(struct cuda_chain *chain, const char *name,
                                               void (*arriving)(struct cuda_chain_rows, own, struct cuda_arrival),
                                               void (*staying)(struct cuda_chain_rows, own, struct cuda_in_place),
                                               uint64_t blocks, struct error *error, const own &arguments) {
  struct cuda_arrival *arrival = chain->arrival;
  if (!arrival->brings && !arrival->transforms)
    return cuda_launch(name, staying, blocks, BRING_BLOCK, 0, &chain->run, error, chain->rows, arguments,
                       cuda_in_place());
  enum vx_status status =
      cuda_launch(name, arriving, blocks, BRING_BLOCK, 0, &chain->run, error, chain->rows, arguments, *arrival);
  arrival->brings = arrival->transforms = false;
  arrival->deskew.times = NULL;
  return status;
}

#endif
