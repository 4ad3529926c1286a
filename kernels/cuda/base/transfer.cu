// See transfer.cuh.
//
// A few blocks are enough to fill the bus. The last block tells the host the end, after a fence, so the host sees the
// data before the word. Cleaning comes last: only the lane's next job waits for it.
#include "kernels/cuda/base/transfer.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/sections.cuh"

enum { BLOCK = 256, SEND_BLOCK = 512, SEND_BLOCKS = 32, AHEAD = 4 };

// `most`: parts that there is room for. Most answers are in one block, and carry no room for more.
template <int most> struct send_params {
  struct cuda_part parts[most];
  int count;
  struct cuda_tally *tally;
  struct cuda_report *report;
  uint32_t sequence;
};

template <typename unit> static __device__ void send_units(const struct cuda_part &part) {
  uint64_t count = part.bytes / sizeof(unit), step = (uint64_t)gridDim.x * SEND_BLOCK;
  for (uint64_t i = (uint64_t)blockIdx.x * SEND_BLOCK + threadIdx.x; i < count; i += AHEAD * step) {
    unit bits[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      if (i + k * step < count) {
        bits[k] = __ldcs((const unit *)part.from + i + k * step);
      }
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
      if (i + k * step < count) {
        __stcs((unit *)part.to + i + k * step, bits[k]);
      }
    }
  }
  uint64_t rest = count * sizeof(unit) + threadIdx.x;
  if (blockIdx.x == 0 && rest < part.bytes) {
    part.to[rest] = part.from[rest];
  }
}

// Vectors must be aligned to their size. In the image every part is.
static __device__ void send_part(const struct cuda_part &part) {
  if ((uintptr_t)part.to % sizeof(uint4) == 0) {
    send_units<uint4>(part);
  } else if ((uintptr_t)part.to % sizeof(uint32_t) == 0) {
    send_units<uint32_t>(part);
  } else {
    send_units<unsigned char>(part);
  }
}

template <int most>
static __global__ void __launch_bounds__(SEND_BLOCK) send_kernel(const __grid_constant__ struct send_params<most> p) {
  cuda_wait();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.tally->moments[CUDA_SENDING] = cuda_now();
  }
  send_part(p.parts[0]);
  for (int i = 1; i < most && i < p.count; i++) {
    send_part(p.parts[i]);
  }
  __threadfence_system();
  if (!cuda_last_block(&p.tally->send_ticket, gridDim.x)) {
    return;
  }
  volatile uint64_t *moments = p.tally->moments;
  if (threadIdx.x == 0) {
    moments[CUDA_SENT] = cuda_now();
    for (int i = 0; i < CUDA_MOMENTS; i++) {
      p.report->tally.moments[i] = moments[i];
    }
    __threadfence_system();
    *(volatile uint32_t *)&p.report->sent = p.sequence;
  }
}

template <int most>
static enum vx_status send(const struct cuda_run *run, const struct cuda_parts *parts, struct error *error) {
  struct send_params<most> p = {};
  uint64_t bytes = 0;
  for (int i = 0; i < parts->count; i++) {
    p.parts[i] = parts->part[i];
    bytes += parts->part[i].bytes;
  }
  p.count = parts->count;
  p.tally = run->tally;
  p.report = run->lane->device_report;
  p.sequence = run->lane->sequence;
  unsigned blocks = cuda_blocks(bytes, SEND_BLOCK * sizeof(uint4));
  blocks = min(max(blocks, 1u), (unsigned)SEND_BLOCKS);
  return cuda_launch("send_kernel", send_kernel<most>, blocks, SEND_BLOCK, 0, run, p, error);
}

enum vx_status cuda_send(const struct cuda_run *run, const struct cuda_parts *parts, struct error *error) {
  return parts->count <= 1 ? send<1>(run, parts, error) : send<VX_TENSOR_COUNT>(run, parts, error);
}

// --- cleaning ---

struct clean_params {
  const struct cuda_record *records;
  uint64_t *keys;  // or NULL
  struct cuda_cell *cells;
  uint32_t *marks;  // or NULL
  const struct cuda_tally *tally;
  struct cuda_tally *next_tally;
  uint64_t *tiles, *order_tiles;
  uint32_t *section_fates;
  uint32_t num_tiles, num_order_tiles, section_words;
};

static __global__ void __launch_bounds__(BLOCK) clean_kernel(const __grid_constant__ struct clean_params p) {
  cuda_wait();
  uint32_t num_cells = p.tally->num_cells, begin = blockIdx.x * BLOCK + threadIdx.x, step = gridDim.x * BLOCK;
  for (uint64_t i = begin; i < num_cells; i += step) {
    uint32_t slot = p.records[i].slot;
    *(uint64_t *)&p.cells[slot] = UINT64_MAX;
    if (p.marks != NULL) {
      p.marks[(p.keys != NULL ? p.keys[slot] : slot) / 32] = 0;
    }
    if (p.keys != NULL) {
      p.keys[slot] = CUDA_NO_KEY;
    }
  }
  for (uint64_t i = begin; i < p.num_tiles; i += step) {
    p.tiles[i] = 0;
  }
  for (uint64_t i = begin; i < p.num_order_tiles; i += step) {
    p.order_tiles[i] = 0;
  }
  for (uint64_t i = begin; i < p.section_words; i += step) {
    p.section_fates[i] = 0;
  }
  if (begin < sizeof *p.next_tally / sizeof(uint32_t)) {
    ((uint32_t *)p.next_tally)[begin] = 0;
  }
}

enum vx_status cuda_clean(const struct cuda_run *run, struct error *error) {
  struct clean_params p = {};
  p.records = run->records;
  p.keys = run->keys;
  p.cells = run->cells;
  p.marks = run->marks;
  p.tally = run->tally;
  p.next_tally = run->tally == &run->control->tallies[0] ? &run->control->tallies[1] : &run->control->tallies[0];
  p.tiles = run->control->tiles;
  p.order_tiles = run->control->order_tiles;
  p.section_fates = run->control->section_fates;
  p.num_tiles = run->num_tiles;
  p.section_words = cuda_section_words(run);
  p.num_order_tiles = run->marked ? cuda_blocks(cuda_mark_groups(run->num_cells), CUDA_TILE) : 0;
  return cuda_launch("clean_kernel", clean_kernel, cuda_looping_blocks(run, run->num_points, BLOCK, 2), BLOCK, 0, run,
                     p, error);
}

// --- data from the host ---

struct fetch_params {
  const uint32_t *from;  // host
  uint32_t *to;
  uint32_t count;
};

static __global__ void __launch_bounds__(BLOCK) fetch_kernel(const __grid_constant__ struct fetch_params p) {
  cuda_wait();
  for (uint32_t i = threadIdx.x; i < p.count; i += BLOCK) {
    p.to[i] = p.from[i];
  }
}

enum vx_status cuda_fetch(const struct cuda_run *run, const void *from, void *to, uint32_t words, struct error *error) {
  struct fetch_params p = {(const uint32_t *)from, (uint32_t *)to, words};
  return cuda_launch("fetch_kernel", fetch_kernel, 1, BLOCK, 0, run, p, error);
}

enum vx_status cuda_fetch_clouds(const struct cuda_run *run, struct error *error) {
  return cuda_fetch(run, run->lane->device_orders->cloud_points, (void *)run->clouds.first_point,
                    (uint32_t)run->clouds.count + 1, error);
}
