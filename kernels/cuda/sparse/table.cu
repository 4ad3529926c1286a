// Tables of neighbours, for the rows of a level; see sparse.cuh.
#include "kernels/cuda/sparse/sparse.cuh"

// Looks at the inputs of an output cell. Returns a bit for each offset with an input. With `inputs`, it also writes the
// inputs of the offsets in `wanted`, SPARSE_TILE apart.
static __device__ uint32_t look_around(const struct sparse_window &window, int4 at, uint32_t wanted, int32_t *inputs) {
  int32_t z = at.y * window.stride[0] - window.padding[0], y = at.z * window.stride[1] - window.padding[1];
  int32_t x = at.w * window.stride[2] - window.padding[2], k = 0;
  uint32_t mask = 0;
  for (int32_t kz = 0; kz < window.kernel[0]; kz++)
    for (int32_t ky = 0; ky < window.kernel[1]; ky++)
      for (int32_t kx = 0; kx < window.kernel[2]; kx++, k++) {
        if ((wanted >> k & 1) == 0) continue;
        uint32_t row = 0;
        bool is_there = sparse_look(window.from, at.x, z + kz, y + ky, x + kx, &row);
        mask |= (uint32_t)is_there << k;
        if (inputs) inputs[k * SPARSE_TILE] = is_there ? (int32_t)row : SPARSE_NO_INPUT;
      }
  return mask;
}

// The class of a row. For a kernel of 3 x 3 x 3 it has 12 bits: for each of the 8 lines beside the row's own, for the
// left and the right column of the outer planes, and for the left and the right in the row's own plane. A bit is set if
// the row has an input there. A class only makes tiles alike, so any number below SPARSE_CLASSES is right for other
// kernels.
static __device__ uint32_t class_of(uint32_t mask, int32_t offsets) {
  const uint32_t left = 01111111111 & 0x7FFFFFF, outer = 0x7FC01FF;
  if (offsets != 27) return mask % SPARSE_CLASSES;
  uint32_t found = 0;
  for (int32_t line = 0; line < 9; line++)
    if (line != 4) found = found << 1 | ((mask >> 3 * line & 7) != 0);
  found = found << 1 | ((mask & left & outer) != 0);
  found = found << 1 | ((mask & left << 2 & outer) != 0);
  found = found << 1 | ((mask & left & ~outer) != 0);
  return found << 1 | ((mask & left << 2 & ~outer) != 0);
}

// One block. The fullest classes come first: their numbers are the largest.
static __device__ void begin_classes(uint32_t *classes) {
  enum { EACH = SPARSE_CLASSES / SPARSE_BLOCK };
  uint32_t *last = classes + SPARSE_CLASSES - 1 - threadIdx.x * EACH, own[EACH], sum = 0, total;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    own[i] = __ldcg(last - i);
    sum += own[i];
  }
  uint32_t before = cuda_block_before(sum, &total);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    last[-i] = before;
    before += own[i];
  }
}

// Finds the offsets of each row. The last block finds where the classes begin.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    mask_kernel(struct sparse_window window, struct sparse_table table) {
  cuda_wait_alone();
  uint32_t row = blockIdx.x * SPARSE_BLOCK + threadIdx.x;
  if (row < window.to.num_rows) {
    uint32_t mask = look_around(window, window.to.cells[row], ~0u, NULL);
    table.masks[row] = mask;
    atomicAdd(&table.classes[class_of(mask, window.offsets)], 1);
  }
  if (cuda_last_block(&table.classes[SPARSE_CLASSES], gridDim.x)) begin_classes(table.classes);
}

static __global__ void __launch_bounds__(SPARSE_BLOCK)
    order_kernel(struct sparse_table table, uint32_t num_rows, uint32_t places, int32_t offsets) {
  cuda_wait_alone();
  uint32_t row = blockIdx.x * SPARSE_BLOCK + threadIdx.x;
  if (row < num_rows)
    table.order[atomicAdd(&table.classes[class_of(table.masks[row], offsets)], 1)] = row;
  else if (row < places)
    table.order[row] = UINT32_MAX;
}

// A warp fills a tile.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    fill_kernel(struct sparse_window window, struct sparse_table table, uint32_t places) {
  cuda_wait_alone();
  uint32_t place = blockIdx.x * SPARSE_BLOCK + threadIdx.x, tile = place / SPARSE_TILE, lane = place % SPARSE_TILE;
  if (place >= places) return;
  uint32_t row = table.order[place], mask = row == UINT32_MAX ? 0 : table.masks[row], wanted = mask;
  for (int offset = 16; offset > 0; offset /= 2) wanted |= __shfl_xor_sync(~0u, wanted, offset);
  int32_t *inputs = table.inputs + (uint64_t)tile * VX_MAX_SPARSE_OFFSETS * SPARSE_TILE + lane;
  if (lane == 0) table.tiles[tile] = wanted;
  if (row != UINT32_MAX) {
    (void)look_around(window, window.to.cells[row], wanted, inputs);
    return;
  }
  for (int32_t k = 0; k < window.offsets; k++)
    if ((wanted >> k & 1) != 0) inputs[k * SPARSE_TILE] = SPARSE_NO_INPUT;
}

enum vx_status sparse_fill_table(const struct cuda_run *run, const struct sparse_window &window,
                                 const struct sparse_table &table, struct error *error) {
  uint32_t rows = window.to.num_rows, places = (uint32_t)sparse_tiles(rows) * SPARSE_TILE;
  unsigned blocks = cuda_blocks(places, SPARSE_BLOCK);
  CUDA_TRY(cuda_launch("mask_kernel", mask_kernel, blocks, SPARSE_BLOCK, 0, run, error, window, table));
  CUDA_TRY(cuda_launch("order_kernel", order_kernel, blocks, SPARSE_BLOCK, 0, run, error, table, rows, places,
                       window.offsets));
  return cuda_launch("fill_kernel", fill_kernel, blocks, SPARSE_BLOCK, 0, run, error, window, table, places);
}
