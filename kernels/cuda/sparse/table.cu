// Tables of neighbours, for the rows of a level; see sparse.cuh.
#include "kernels/cuda/sparse/sparse.cuh"

enum { LINES = VX_MAX_SPARSE_KERNEL * VX_MAX_SPARSE_KERNEL };

// Where the inputs of an output cell lie. The inputs of a line are next to each other.
struct around {
  int32_t cloud, z, y;
  uint32_t bit;  // of the first input in each line
};

static __device__ struct around around_of(const struct sparse_window &window, int4 at) {
  return {at.x, at.y * window.stride[0] - window.padding[0], at.z * window.stride[1] - window.padding[1],
          (uint32_t)(at.w * window.stride[2] - window.padding[2] + 1)};
}

// The word with the first input of a line; UINT64_MAX if the line is outside of the grid or of the kernel.
static __device__ uint64_t word_of(const struct sparse_level &from, const struct sparse_window &window,
                                   const struct around &around, int32_t line) {
  int32_t kz = line / VX_MAX_SPARSE_KERNEL, ky = line % VX_MAX_SPARSE_KERNEL, z = around.z + kz, y = around.y + ky;
  bool is_there =
      kz < window.kernel[0] && ky < window.kernel[1] && z >= 0 && z < from.shape[0] && y >= 0 && y < from.shape[1];
  return is_there ? sparse_line(from, around.cloud, z, y) * from.words + around.bit / 32 : UINT64_MAX;
}

// Bit kx of inputs[line] is set if the cell at offset kx of the line is occupied. The first and the last bit of a line
// of the grid are 0, so offsets outside of the grid along x find no cell.
static __device__ void look_around(const struct sparse_level &from, const struct sparse_window &window,
                                   const struct around &around, uint32_t (&inputs)[LINES]) {
  uint32_t shift = around.bit % 32, wanted = (1u << window.kernel[2]) - 1;
#pragma unroll
  for (int32_t line = 0; line < LINES; line++) {
    uint64_t word = word_of(from, window, around, line);
    uint32_t low = word == UINT64_MAX ? 0 : from.bits[word],
             high = word == UINT64_MAX || shift <= 32 - VX_MAX_SPARSE_KERNEL ? 0 : from.bits[word + 1];
    inputs[line] = __funnelshift_r(low, high, shift) & wanted;
  }
}

static __device__ int32_t first_offset(const struct sparse_window &window, int32_t line) {
  return (line / VX_MAX_SPARSE_KERNEL * window.kernel[1] + line % VX_MAX_SPARSE_KERNEL) * window.kernel[2];
}

static __device__ uint32_t mask_of(const struct sparse_window &window, const uint32_t (&inputs)[LINES]) {
  uint32_t mask = 0;
#pragma unroll
  for (int32_t line = 0; line < LINES; line++)
    mask |= inputs[line] == 0 ? 0 : inputs[line] << first_offset(window, line);
  return mask;
}

// The row of a line's first input. The rows of a line's other inputs follow.
static __device__ uint32_t first_row(const struct sparse_level &from, uint64_t word, uint32_t shift, uint32_t inputs) {
  bool is_low = (inputs & ~0u >> shift) != 0;
  uint32_t bits = is_low ? from.bits[word] : 0;
  return from.ranks[word + !is_low] + __popc(bits & ((1u << shift) - 1));
}

// The class of a row: for a kernel of 3 x 3 x 3, 12 bits, each set if the row has an input at any of some offsets.
// Eight bits are for the lines other than the row's own, two for the left and right side of the outer planes, and two
// for the left and right side of the row's own plane. For other kernels, any number below SPARSE_CLASSES will do.
static __device__ uint32_t class_of(uint32_t mask, const struct sparse_window &window) {
  const uint32_t left = 01111111111 & 0x7FFFFFF, outer = 0x7FC01FF;
  if (window.kernel[0] * window.kernel[1] * window.kernel[2] != 27) return mask % SPARSE_CLASSES;
  uint32_t found = 0;
  for (int32_t line = 0; line < 9; line++)
    if (line != 4) found = found << 1 | ((mask >> 3 * line & 7) != 0);
  found = found << 1 | ((mask & left & outer) != 0);
  found = found << 1 | ((mask & left << 2 & outer) != 0);
  found = found << 1 | ((mask & left & ~outer) != 0);
  return found << 1 | ((mask & left << 2 & ~outer) != 0);
}

// Called by a whole block. Finds where each class begins. Classes with larger numbers come first: these tend to have
// more bits set, so their rows have more inputs.
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

static __device__ int32_t table_of_block(const struct sparse_tables &tables) {
  int32_t number = 0;
  while (number + 1 < tables.count && blockIdx.x * SPARSE_BLOCK >= tables.first[number + 1]) number++;
  return number;
}

// Adds the thread's row to its class. Returns how many rows of the class come before it.
static __device__ uint32_t join_class(uint32_t *classes, uint32_t number, uint32_t warp) {
  uint32_t peers = __match_any_sync(warp, number), lane = threadIdx.x % 32, before = 0;
  int leader = __ffs(peers) - 1;
  if ((int)lane == leader) before = atomicAdd(&classes[number], __popc(peers));
  return __shfl_sync(peers, before, leader) + __popc(peers & ((1u << lane) - 1));
}

// Finds the offsets at which each row has an input. The block of a table that ends last finds where the classes begin.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    mask_kernel(struct sparse_levels all, struct sparse_tables tables) {
  cuda_wait();
  int32_t number = table_of_block(tables);
  const struct sparse_window &window = tables.windows[number];
  uint32_t at = blockIdx.x * SPARSE_BLOCK + threadIdx.x, row = at - tables.first[number];
  uint32_t *classes = tables.classes[number];
  bool is_row = row < *all.levels[window.to].num_rows;
  uint32_t warp = __ballot_sync(~0u, is_row);
  if (is_row) {
    uint32_t inputs[LINES];
    look_around(all.levels[window.from], window, around_of(window, all.levels[window.to].cells[row]), inputs);
    uint32_t mask = mask_of(window, inputs);
    tables.masks[at] = mask;
    tables.members[at] = join_class(classes, class_of(mask, window), warp);
  }
  uint32_t blocks = (tables.first[number + 1] - tables.first[number]) / SPARSE_BLOCK;
  if (cuda_last_block(&classes[SPARSE_CLASSES], blocks)) begin_classes(classes);
}

static __global__ void __launch_bounds__(SPARSE_BLOCK)
    order_kernel(struct sparse_levels all, struct sparse_tables tables) {
  cuda_wait();
  int32_t number = table_of_block(tables);
  const struct sparse_window &window = tables.windows[number];
  uint32_t first = tables.first[number], at = blockIdx.x * SPARSE_BLOCK + threadIdx.x, row = at - first;
  if (row < *all.levels[window.to].num_rows)
    tables.order[first + tables.classes[number][class_of(tables.masks[at], window)] + tables.members[at]] = row;
  else
    tables.order[at] = UINT32_MAX;
}

static __device__ void write_inputs(const struct sparse_level &from, const struct sparse_window &window,
                                    const struct around &around, uint32_t wanted, int32_t *inputs) {
  uint32_t found[LINES];
  look_around(from, window, around, found);
#pragma unroll
  for (int32_t line = 0; line < LINES; line++) {
    int32_t k = first_offset(window, line);
    if (line / VX_MAX_SPARSE_KERNEL >= window.kernel[0] || line % VX_MAX_SPARSE_KERNEL >= window.kernel[1]) continue;
    if ((wanted >> k & ((1u << window.kernel[2]) - 1)) == 0) continue;
    uint32_t row =
        found[line] == 0 ? 0 : first_row(from, word_of(from, window, around, line), around.bit % 32, found[line]);
#pragma unroll
    for (int32_t kx = 0; kx < VX_MAX_SPARSE_KERNEL; kx++) {
      bool is_there = (found[line] >> kx & 1) != 0;
      if (kx < window.kernel[2] && (wanted >> (k + kx) & 1) != 0)
        inputs[(k + kx) * SPARSE_TILE] = is_there ? (int32_t)row : SPARSE_NO_INPUT;
      row += is_there;
    }
  }
}

static __device__ uint32_t *tiles_with(const struct sparse_tables &tables, int32_t table, uint32_t offsets) {
  return &tables.classes[table][SPARSE_CLASSES + 1 + offsets];
}

// A warp fills a tile.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    fill_kernel(struct sparse_levels all, struct sparse_tables tables) {
  cuda_wait();
  int32_t number = table_of_block(tables);
  const struct sparse_window &window = tables.windows[number];
  uint32_t first = tables.first[number], place = blockIdx.x * SPARSE_BLOCK + threadIdx.x;
  uint32_t tile = place / SPARSE_TILE, lane = place % SPARSE_TILE, row = tables.order[place];
  uint32_t wanted = row == UINT32_MAX ? 0 : tables.masks[first + row];
  for (int offset = 16; offset > 0; offset /= 2) wanted |= __shfl_xor_sync(~0u, wanted, offset);
  int32_t *inputs = tables.inputs + (uint64_t)tile * VX_MAX_SPARSE_OFFSETS * SPARSE_TILE + lane;
  if (lane == 0) tables.tiles[tile] = make_uint2(wanted, atomicAdd(tiles_with(tables, number, __popc(wanted)), 1));
  if (row != UINT32_MAX) {
    write_inputs(all.levels[window.from], window, around_of(window, all.levels[window.to].cells[row]), wanted, inputs);
    return;
  }
  for (int32_t k = 0; k < VX_MAX_SPARSE_OFFSETS; k++)
    if ((wanted >> k & 1) != 0) inputs[k * SPARSE_TILE] = SPARSE_NO_INPUT;
}

// A warp finds a tile's turn: after all tiles with more offsets. Lane l knows how many tiles have l offsets.
static __global__ void __launch_bounds__(SPARSE_BLOCK) turn_kernel(struct sparse_tables tables) {
  cuda_wait();
  int32_t number = table_of_block(tables);
  uint32_t first = tables.first[number] / SPARSE_TILE, lane = threadIdx.x % SPARSE_TILE;
  uint32_t tile = (blockIdx.x * SPARSE_BLOCK + threadIdx.x) / SPARSE_TILE;
  uint2 own = tables.tiles[tile];
  uint32_t fuller = cuda_warp_add((int)lane > __popc(own.x) ? __ldcg(tiles_with(tables, number, lane)) : 0);
  if (lane == 0) tables.turns[first + fuller + own.y] = make_uint2(tile - first, own.x);
}

enum vx_status sparse_fill_tables(const struct cuda_run *run, const struct sparse_levels &all,
                                  const struct sparse_tables &tables, struct error *error) {
  unsigned blocks = tables.first[tables.count] / SPARSE_BLOCK;
  CUDA_TRY(cuda_launch("mask_kernel", mask_kernel, blocks, SPARSE_BLOCK, 0, run, error, all, tables));
  CUDA_TRY(cuda_launch("order_kernel", order_kernel, blocks, SPARSE_BLOCK, 0, run, error, all, tables));
  CUDA_TRY(cuda_launch("fill_kernel", fill_kernel, blocks, SPARSE_BLOCK, 0, run, error, all, tables));
  return cuda_launch("turn_kernel", turn_kernel, blocks, SPARSE_BLOCK, 0, run, error, tables);
}
