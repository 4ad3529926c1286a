// Brings points as float32 rows, in the kernel that processes them. Rows may move as they arrive.
//
// Points are read straight from pinned memory: a few blocks, chunk after chunk, keep the bus busy. The rows that a
// chain left are in place: points == source.
#ifndef VOXELD_CUDA_BRING_CUH
#define VOXELD_CUDA_BRING_CUH

#include "kernels/cuda/base/number.cuh"
#include "kernels/cuda/base/run.cuh"

enum { BRING_BLOCK = 256, BRING_AHEAD = 4 };

struct location {
  float x, y, z;
  float w;  // of usual rows: the fourth column
};

static __device__ bool are_in_place(const struct cuda_points &p) { return p.points == p.source; }
static __device__ bool is_usual(const struct cuda_points &p) { return p.columns == 4 && p.dtype == VX_FLOAT32; }

// Widens a part of 16 bytes, and stores it among the points.
static __device__ void store_part(const struct cuda_points &p, uint64_t part, uint4 bits) {
  cuda_with_float(p.dtype, [&](auto number) {
    typedef decltype(number) type;
    float values[type::PER_PART];
    type::unpack(bits, values);
    float4 *to = (float4 *)p.points + part * (type::PER_PART / 4);
#pragma unroll
    for (int i = 0; i < type::PER_PART; i += 4)
      to[i / 4] = make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
  });
}

// A whole block brings rows first .. first + count - 1: whole parts, then the rest.
static __device__ void bring_rows(const struct cuda_points &p, uint64_t first, uint32_t count) {
  uint32_t per_part = cuda_per_part(p.dtype);
  uint64_t begin = first * p.columns, end = begin + (uint64_t)count * p.columns;  // begin: a multiple of BRING_BLOCK
  uint64_t begin_part = begin / per_part, end_part = end / per_part;
  for (uint64_t part = begin_part + threadIdx.x; part < end_part; part += BRING_BLOCK * BRING_AHEAD) {
    uint4 bits[BRING_AHEAD];
#pragma unroll
    for (int i = 0; i < BRING_AHEAD; i++)
      if (part + i * BRING_BLOCK < end_part) bits[i] = __ldcs((const uint4 *)p.source + part + i * BRING_BLOCK);
#pragma unroll
    for (int i = 0; i < BRING_AHEAD; i++)
      if (part + i * BRING_BLOCK < end_part) store_part(p, part + i * BRING_BLOCK, bits[i]);
  }
  uint64_t at = end_part * per_part + threadIdx.x;
  if (at < end) p.points[at] = vx_load(p.dtype, p.source, at);
  __syncthreads();
}

// The `move` of rows that stay where they are.
struct cuda_staying {
  __device__ bool operator()(uint64_t, float, struct location *) const { return false; }
};

// Brings the rows before `end` of CHUNKS chunks of BRING_BLOCK rows, from `first` on. Fills `at` with this thread's row
// of each chunk, if it exists. A chunk is stored once the block has passed its next barrier. `times`: of all rows, or
// NULL. `move(row, time, &at)` returns whether it changed `at`. All times, and all rows of four float32, are loaded
// before the first is used.
template <int CHUNKS, typename function>
static __device__ void bring_chunks(const struct cuda_points &p, uint64_t first, uint64_t end, const float *times,
                                    const function &move, struct location (&at)[CHUNKS]) {
  bool placed = are_in_place(p), usual = is_usual(p);
  float4 values[CHUNKS];
  float measured[CHUNKS] = {};
#pragma unroll
  for (int k = 0; k < CHUNKS; k++) {
    uint64_t row = first + k * BRING_BLOCK + threadIdx.x;
    if (usual && row < end) values[k] = __ldcs((const float4 *)p.source + row);
    if (times && row < end) measured[k] = __ldcs(times + row);
  }
#pragma unroll
  for (int k = 0; k < CHUNKS; k++) {
    uint64_t begin = first + k * BRING_BLOCK, row = begin + threadIdx.x;
    if (!placed && !usual && begin < end) bring_rows(p, begin, (uint32_t)min((uint64_t)BRING_BLOCK, end - begin));
    if (row >= end) continue;
    float *to = p.points + row * p.columns;
    at[k] = usual ? location{values[k].x, values[k].y, values[k].z} : location{to[0], to[1], to[2]};
    bool moved = move(row, measured[k], &at[k]);
    if (usual) at[k].w = values[k].w;
    if (usual && (moved || !placed))
      *(float4 *)to = make_float4(at[k].x, at[k].y, at[k].z, values[k].w);
    else if (moved)
      to[0] = at[k].x, to[1] = at[k].y, to[2] = at[k].z;
  }
}

// `count`: at most a chunk. Returns this thread's row.
template <typename function = struct cuda_staying>
static __device__ struct location bring(const struct cuda_points &p, uint64_t first, uint32_t count,
                                        const float *times = NULL, const function &move = function()) {
  struct location at[1] = {};
  bring_chunks(p, first, first + count, times, move, at);
  return at[0];
}

#endif
