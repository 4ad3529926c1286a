// See transfer.cuh.
//
// A few blocks saturate the bus to the host; the GPU's own memory takes more. The last block tells the host, by a word,
// that all data is sent. Cleaning comes last: only the lane's next job waits for it.
#include "kernels/cuda/base/transfer.cuh"

#include "kernels/cuda/base/chain.cuh"
#include "kernels/cuda/base/clear.cuh"
#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/sections.cuh"

enum { BLOCK = 256, SEND_BLOCK = 512, SEND_BLOCKS = 32, AHEAD = 4 };

// Called by `blocks` blocks, of which this one is number `block`.
template <typename unit>
static __device__ void send_units(const struct cuda_part &part, unsigned block, unsigned blocks) {
  uint64_t count = part.bytes / sizeof(unit), step = (uint64_t)blocks * SEND_BLOCK;
  for (uint64_t i = (uint64_t)block * SEND_BLOCK + threadIdx.x; i < count; i += AHEAD * step) {
    unit bits[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (i + k * step < count) bits[k] = __ldcs((const unit *)part.from + i + k * step);
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (i + k * step < count) __stcs((unit *)part.to + i + k * step, bits[k]);
  }
  uint64_t rest = count * sizeof(unit) + threadIdx.x;
  if (block == 0 && rest < part.bytes) part.to[rest] = part.from[rest];
}

// A vector access must be aligned to its size. `from` is, but `to` may not be.
static __device__ void send_part(const struct cuda_part &part, unsigned block, unsigned blocks) {
  if ((uintptr_t)part.to % sizeof(uint4) == 0)
    send_units<uint4>(part, block, blocks);
  else if ((uintptr_t)part.to % sizeof(uint32_t) == 0)
    send_units<uint32_t>(part, block, blocks);
  else
    send_units<unsigned char>(part, block, blocks);
}

static __device__ void begin_sending(const struct cuda_view &v) {
  cuda_wait();
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_SENDING] = cuda_now();
}

static __device__ void end_sending(const struct cuda_view &v) {
  __threadfence_system();
  if (!cuda_last_block(&v.counters->send_ticket, gridDim.x)) return;
  volatile uint64_t *moments = v.counters->moments;
  if (threadIdx.x == 0) {
    moments[CUDA_SENT] = cuda_now();
    for (int i = 0; i < CUDA_MOMENTS; i++) v.status->counters.moments[i] = moments[i];
    __threadfence_system();
    *(volatile uint32_t *)&v.status->sent = v.sequence;
  }
}

// Sends an answer of one part, which is usual, by the first `blocks` blocks. One more block, if there is one, sends the
// head.
static __global__ void __launch_bounds__(SEND_BLOCK)
    send_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_part part,
                const __grid_constant__ struct cuda_part head, unsigned blocks) {
  begin_sending(v);
  if (blockIdx.x < blocks)
    send_part(part, blockIdx.x, blocks);
  else
    send_part(head, 0, 1);
  end_sending(v);
}

static __global__ void __launch_bounds__(SEND_BLOCK)
    send_parts_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct cuda_parts parts) {
  begin_sending(v);
  for (int i = 0; i < parts.count; i++) send_part(parts.part[i], blockIdx.x, gridDim.x);
  end_sending(v);
}

enum vx_status cuda_send(const struct cuda_run *run, const struct cuda_parts *parts, const struct cuda_part *head,
                         struct error *error) {
  uint64_t bytes = 0;
  for (int i = 0; i < parts->count; i++) bytes += parts->part[i].bytes;
  unsigned blocks = cuda_blocks(bytes, SEND_BLOCK * sizeof(uint4));
  unsigned most = run->job->head ? 2 * run->lane->device->multiprocessors : (unsigned)SEND_BLOCKS;
  blocks = min(max(blocks, 1u), most);
  if (parts->count > 1)
    return cuda_launch("send_kernel", send_parts_kernel, blocks, SEND_BLOCK, 0, run, error, *run, *parts);
  return cuda_launch("send_kernel", send_kernel, blocks + (head->bytes > 0), SEND_BLOCK, 0, run, error, *run,
                     parts->part[0], *head, blocks);
}

// ---- cleaning -------------------------------------------------------------------------------------------------------

// v.chain .. chain_end: the counters of the job's chain, and the states of its scans.
static __global__ void __launch_bounds__(BLOCK)
    clean_kernel(const __grid_constant__ struct cuda_view v, uint32_t num_order_tiles, bool all_cells,
                 unsigned char *chain_end) {
  cuda_wait();
  struct cuda_counters *both = v.control->counters, *next_counters = v.counters == both ? &both[1] : both;
  uint32_t num_cells = v.counters->num_cells, begin = blockIdx.x * BLOCK + threadIdx.x, step = gridDim.x * BLOCK;
  for (uint64_t i = begin; i < num_cells; i += step) {
    uint32_t slot = v.records[i].slot;
    *(uint64_t *)&v.cells[slot] = UINT64_MAX;
    if (v.marks) v.marks[(v.table.keys ? v.table.keys[slot] : slot) / 32] = 0;
    if (v.table.keys) v.table.keys[slot] = CUDA_NO_KEY;
  }
  for (uint64_t i = begin; all_cells && i < v.table.slots; i += step) *(uint64_t *)&v.cells[i] = UINT64_MAX;
  for (uint64_t i = begin; i < v.num_tiles; i += step) v.control->tiles[i] = 0;
  for (uint64_t i = begin; i < num_order_tiles; i += step) v.control->order_tiles[i] = 0;
  for (uint64_t i = begin; i < v.section_words; i += step) v.control->section_fates[i] = 0;
  if (begin < sizeof *next_counters / sizeof(uint32_t)) ((uint32_t *)next_counters)[begin] = 0;
  if (v.chain) cuda_clear((unsigned char *)v.chain, chain_end, begin, step);
}

enum vx_status cuda_clean(const struct cuda_run *run, struct error *error) {
  uint32_t num_order_tiles = run->marked ? cuda_blocks(cuda_mark_groups(run->num_cells), CUDA_TILE) : 0;
  const struct cuda_chain *chain = run->lane->chain;
  uint64_t *chain_end = chain ? chain->scans + chain->num_scans * chain->scan_words : NULL;
  return cuda_launch("clean_kernel", clean_kernel, cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 2), BLOCK, 0,
                     run, error, *run, num_order_tiles, run->all_cells, (unsigned char *)chain_end);
}

// ---- data from the host ---------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(BLOCK) fetch_kernel(const uint32_t *from, uint32_t *to, uint32_t count) {
  cuda_wait();
  for (uint32_t i = threadIdx.x; i < count; i += BLOCK) to[i] = from[i];
}

enum vx_status cuda_fetch(const struct cuda_run *run, const void *from, void *to, uint32_t words, struct error *error) {
  return cuda_launch("fetch_kernel", fetch_kernel, 1, BLOCK, 0, run, error, (const uint32_t *)from, (uint32_t *)to,
                     words);
}

enum vx_status cuda_fetch_clouds(const struct cuda_run *run, struct error *error) {
  return cuda_fetch(run, run->commands->cloud_points, (void *)run->clouds.first_point, (uint32_t)run->clouds.count + 1,
                    error);
}
