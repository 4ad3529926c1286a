// Chunks of ranked boxes, and tiles, for suppress.cu. A tile is 32 boxes against 32 others: a block finds the pairs in
// which one box suppresses the other.
#ifndef VOXELD_CUDA_TILES_CUH
#define VOXELD_CUDA_TILES_CUH

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/boxes/boxes.cuh"

enum { WARP = 32, CHUNK = 1024, WORDS = CHUNK / WARP, TILE = WARP, TILE_BLOCK = 256 };
static_assert((int)CHUNK <= (int)CUDA_QUICK_KEYS, "a segment of one chunk is never stopped while it is ranked");

// ---- boxes ----------------------------------------------------------------------------------------------------------

static __device__ struct cuda_ranked_box box_of(const struct cuda_suppression &s, uint32_t segment, uint32_t rank) {
  uint64_t at = cuda_ranked_begin(s.segments, (uint32_t)s.nms.pre_max, segment) + rank;
  if (s.ranked) at = cuda_segment_begin(s.segments, segment) + (uint32_t)s.ranked[at];
  return {vx_rectangle_of(s.boxes + at * s.values), s.labels ? s.labels[at] : 0};
}

static __device__ struct vx_nms nms_of(const struct cuda_suppression &s, uint32_t segment) {
  struct vx_nms nms = s.nms;
  nms.radius = s.radii ? s.radii[segment % s.num_radii] : nms.radius;
  return nms;
}

static __host__ __device__ uint32_t chunk_room(const struct cuda_suppression &s) {
  return (uint32_t)s.nms.pre_max < CHUNK ? (uint32_t)s.nms.pre_max : (uint32_t)CHUNK;
}

// WORDS words per box of the chunk.
static __device__ uint32_t *overlaps_of(const struct cuda_suppression &s, uint32_t segment) {
  return s.overlaps + cuda_ranked_begin(s.segments, chunk_room(s), segment) * WORDS;
}

// The bits of each segment begin a new word, so each segment has room for one word more.
static __device__ uint32_t *struck_of(const struct cuda_suppression &s, uint32_t segment) {
  return s.struck + cuda_ranked_begin(s.segments, (uint32_t)s.nms.pre_max, segment) / WARP + segment;
}

static __device__ bool may_suppress(const struct cuda_ranked_box &a, const struct cuda_ranked_box &b,
                                    const struct vx_nms &nms) {
  bool near =
      nms.circle ? vx_are_near(&a.rectangle, &b.rectangle, nms.radius) : !vx_are_apart(&a.rectangle, &b.rectangle);
  return near && a.label == b.label;
}

// `long_job`: the host may stop the job.
struct chunk {
  uint32_t segment, valid, ranked;  // valid boxes of the segment; ranked boxes of it
  uint32_t begin, left, end;        // first rank of the chunk; ranked boxes from there on; boxes of the chunk
  bool long_job;
};

static __device__ struct chunk chunk_of(const struct cuda_suppression &s, uint32_t segment) {
  struct chunk chunk = {segment, s.counts[segment]};
  chunk.ranked = min(chunk.valid, (uint32_t)s.nms.pre_max);
  chunk.begin = s.number * CHUNK;
  chunk.left = chunk.ranked > chunk.begin ? chunk.ranked - chunk.begin : 0;
  chunk.end = min(chunk.left, (uint32_t)CHUNK);
  chunk.long_job = s.number > 0 || chunk.valid > CUDA_QUICK_KEYS;
  return chunk;
}

static __device__ bool is_full(const struct cuda_suppression &s, uint32_t segment) {
  return s.number > 0 && s.num_kept[segment] == (uint32_t)s.nms.post_max;
}

// One bit for each of the 32 places from `word` * 32 on: whether it is suppressed or after the end.
static __device__ uint32_t closed_of(const struct cuda_suppression &s, const struct chunk &chunk, uint32_t word) {
  uint32_t left = chunk.end > word * WARP ? chunk.end - word * WARP : 0, behind = left >= WARP ? 0 : ~0u << left;
  return behind | (s.number == 0 || left == 0 ? 0 : struck_of(s, chunk.segment)[chunk.begin / WARP + word]);
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

// The boxes of a tile's rows and columns, and the near pairs.
struct tile {
  struct cuda_ranked_box boxes[2][TILE];
  uint32_t open[2];             // boxes that exist and are not suppressed
  uint16_t pairs[TILE * TILE];  // row * TILE + column
  uint32_t count, bits[TILE];   // number of pairs; bits of each row
};

// Called by a whole block, whose first two warps have the rows and the columns. Loads the boxes whose bits in `open`
// are set.
static __device__ void fill_tile(const struct cuda_suppression &s, uint32_t segment, uint32_t open, uint32_t rank,
                                 struct tile *tile) {
  uint32_t side = threadIdx.x / TILE, lane = threadIdx.x % TILE;
  __syncthreads();  // the last tile is no longer used
  if (side < 2) {
    if ((open >> lane & 1) != 0) tile->boxes[side][lane] = box_of(s, segment, rank);
    if (lane == 0) {
      tile->open[side] = open;
      tile->count = 0;
    }
    if (side == 0) tile->bits[lane] = 0;
  }
  __syncthreads();
}

// Called by a whole block. Lists the near pairs. A warp handles one row at a time, with one column per lane.
static __device__ void list_pairs(const struct vx_nms &nms, bool diagonal, struct tile *tile) {
  uint32_t lane = threadIdx.x % WARP;
  for (uint32_t row = threadIdx.x / WARP; row < TILE; row += TILE_BLOCK / WARP) {
    bool both = (tile->open[0] >> row & tile->open[1] >> lane & 1) != 0 && (!diagonal || row < lane);
    bool near = both && may_suppress(tile->boxes[0][row], tile->boxes[1][lane], nms);
    uint32_t all = __ballot_sync(~0u, near), place = 0;
    if (lane == 0 && all != 0) place = atomicAdd(&tile->count, __popc(all));
    place = __shfl_sync(~0u, place, 0) + __popc(all & ((1u << lane) - 1));
    if (near) tile->pairs[place] = (uint16_t)(row * TILE + lane);
  }
  __syncthreads();
}

// Called by a whole block. Sets the bit of each listed pair in which one box suppresses the other.
static __device__ void compare_pairs(const struct vx_nms &nms, struct tile *tile) {
  for (uint32_t i = threadIdx.x; i < tile->count; i += TILE_BLOCK) {
    uint32_t row = tile->pairs[i] / TILE, column = tile->pairs[i] % TILE;
    if (vx_suppresses(&tile->boxes[0][row].rectangle, &tile->boxes[1][column].rectangle, &nms))
      atomicOr(&tile->bits[row], 1u << column);
  }
  __syncthreads();
}

#endif
