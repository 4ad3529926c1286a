// The occupied cells of the levels, and the map of the last one; see sparse.cuh.
#include "kernels/cuda/sparse/sparse.cuh"

// ---- bits -----------------------------------------------------------------------------------------------------------

// The line of a word, and the word's number in the line. There are fewer than 2^31 lines.
static __device__ uint32_t split_word(const struct sparse_level &level, uint64_t word, int32_t *in_line) {
  uint32_t words = level.words,
           line = level.all_words <= UINT32_MAX ? (uint32_t)word / words : (uint32_t)(word / words);
  *in_line = (int32_t)(word - (uint64_t)line * words);
  return line;
}

// `words`: the number of words of 16 bytes to clear. The first block also copies the input from the host's memory.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    clear_kernel(uint4 *first, uint64_t words, const struct cuda_sparse_input *given, struct cuda_sparse_input *input) {
  cuda_wait();
  if (blockIdx.x == 0 && threadIdx.x == 0) *input = *given;
  uint64_t step = (uint64_t)gridDim.x * SPARSE_BLOCK;
  for (uint64_t i = (uint64_t)blockIdx.x * SPARSE_BLOCK + threadIdx.x; i < words; i += step)
    first[i] = make_uint4(0, 0, 0, 0);
}

enum vx_status sparse_clear(const struct cuda_run *run, void *first, uint64_t words, struct cuda_sparse_input *input,
                            struct error *error) {
  enum { BLOCKS_OF_MULTIPROCESSOR = 8 };
  return cuda_launch("clear_kernel", clear_kernel,
                     cuda_looping_blocks(run, words, SPARSE_BLOCK, BLOCKS_OF_MULTIPROCESSOR), SPARSE_BLOCK, 0, run,
                     error, (uint4 *)first, words, &run->lane->commands_on_device->sparse, input);
}

static __global__ void __launch_bounds__(SPARSE_BLOCK)
    mark_kernel(struct sparse_level level, const struct cuda_sparse_input *input, uint64_t *sums,
                struct sparse_found *found) {
  cuda_wait();
  uint32_t row = blockIdx.x * SPARSE_BLOCK + threadIdx.x;
  if (row >= input->num_rows) return;
  int4 at = input->coords[row];
  if (at.x < 0 || at.x >= level.clouds || at.y < 0 || at.y >= level.shape[0] || at.z < 0 || at.z >= level.shape[1] ||
      at.w < 0 || at.w >= level.shape[2]) {
    atomicMax(&found->outside, UINT32_MAX - row);
    return;
  }
  uint64_t word = sparse_line(level, at.x, at.y, at.z) * level.words + (at.w + 1) / 32;
  uint32_t bit = 1u << (at.w + 1) % 32;
  if ((atomicOr(&level.bits[word], bit) & bit) != 0)
    atomicAdd(&found->repeated, 1);
  else
    atomicAdd((unsigned long long *)&sums[word / SPARSE_WORDS], 1ull);
}

enum vx_status sparse_mark(const struct cuda_run *run, const struct sparse_levels &all,
                           const struct cuda_sparse_input *input, struct sparse_found *found, struct error *error) {
  return cuda_launch("mark_kernel", mark_kernel, cuda_blocks(all.levels[0].room, SPARSE_BLOCK), SPARSE_BLOCK, 0, run,
                     error, all.levels[0], input, all.sums, found);
}

// Packs the even bits.
static __device__ uint32_t pack_even(uint64_t bits) {
  bits &= UINT64_C(0x5555555555555555);
  bits = (bits | bits >> 1) & UINT64_C(0x3333333333333333);
  bits = (bits | bits >> 2) & UINT64_C(0x0F0F0F0F0F0F0F0F);
  bits = (bits | bits >> 4) & UINT64_C(0x00FF00FF00FF00FF);
  bits = (bits | bits >> 8) & UINT64_C(0x0000FFFF0000FFFF);
  return (uint32_t)(bits | bits >> 16);
}

enum { MERGED_WORDS = 4 };

// The bitwise or of MERGED_WORDS words, from word `first` on, of all input lines that the offsets along z and y reach.
// Issues all loads before it uses any value.
static __device__ void merge_words(const struct sparse_level &from, const struct sparse_window &window, int32_t cloud,
                                   int32_t z, int32_t y, int32_t first, uint32_t (&any)[MERGED_WORDS]) {
  enum { LINES = VX_MAX_SPARSE_KERNEL * VX_MAX_SPARSE_KERNEL };
  uint32_t words[LINES][MERGED_WORDS];
  int32_t in_z = z * window.stride[0] - window.padding[0], in_y = y * window.stride[1] - window.padding[1];
  int64_t begin = (((int64_t)cloud * from.shape[0] + in_z) * from.shape[1] + in_y) * from.words + first;
#pragma unroll
  for (int32_t i = 0; i < LINES; i++) {
    int32_t kz = i / VX_MAX_SPARSE_KERNEL, ky = i % VX_MAX_SPARSE_KERNEL;
    bool is_there = kz < window.kernel[0] && ky < window.kernel[1] && (uint32_t)(in_z + kz) < (uint32_t)from.shape[0] &&
                    (uint32_t)(in_y + ky) < (uint32_t)from.shape[1];
    int64_t line = begin + (kz * from.shape[1] + ky) * from.words;
#pragma unroll
    for (int32_t w = 0; w < MERGED_WORDS; w++)
      words[i][w] = is_there && (uint32_t)(first + w) < (uint32_t)from.words ? from.bits[line + w] : 0;
  }
#pragma unroll
  for (int32_t i = 0; i < LINES * MERGED_WORDS; i++) any[i % MERGED_WORDS] |= words[i / MERGED_WORDS][i % MERGED_WORDS];
}

static __device__ uint32_t bits_of(const struct sparse_level &from, const struct sparse_level &to,
                                   const struct sparse_window &window, uint64_t at) {
  int32_t w, stride = window.stride[2];
  uint32_t line = split_word(to, at, &w), plane = line / to.shape[1];
  // The input bit that the word's first bit reaches with offset 0. The count starts one word before the line, so it is
  // not negative.
  int32_t begin = (32 * w - 1) * stride - window.padding[2] + 1 + 32;
  uint32_t any[MERGED_WORDS] = {}, bits = 0;
  merge_words(from, window, (int32_t)(plane / to.shape[0]), (int32_t)(plane % to.shape[0]),
              (int32_t)(line % to.shape[1]), begin / 32 - 1, any);
  uint64_t low = (uint64_t)any[1] << 32 | any[0], high = (uint64_t)any[3] << 32 | any[2];
  if ((low | high) == 0) return 0;
  for (int32_t kx = 0; kx < window.kernel[2]; kx++) {
    int32_t shift = begin % 32 + kx;  // below 34
    uint64_t here = shift == 0 ? low : low >> shift | high << (64 - shift);
    bits |= stride == 1 ? (uint32_t)here : pack_even(here);
  }
  int32_t left = to.shape[2] + 1 - 32 * w;
  bits = left < 32 ? bits & ((1u << left) - 1) : bits;
  return w == 0 ? bits & ~1u : bits;
}

// A thread makes an output word. `sums`: of the level's blocks.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    stride_kernel(struct sparse_level from, struct sparse_level to, struct sparse_window window, uint64_t *sums) {
  cuda_wait();
  uint64_t at = (uint64_t)blockIdx.x * SPARSE_BLOCK + threadIdx.x;
  uint32_t bits = at < to.all_words ? bits_of(from, to, window, at) : 0, count = cuda_warp_add(__popc(bits));
  if (at < to.all_words) to.bits[at] = bits;
  if (threadIdx.x % 32 == 0 && count != 0)
    atomicAdd((unsigned long long *)&sums[at / SPARSE_WORDS], (unsigned long long)count);
}

enum vx_status sparse_stride(const struct cuda_run *run, const struct sparse_levels &all,
                             const struct sparse_window &window, struct error *error) {
  const struct sparse_level &to = all.levels[window.to];
  return cuda_launch("stride_kernel", stride_kernel, cuda_blocks(to.all_words, SPARSE_BLOCK), SPARSE_BLOCK, 0, run,
                     error, all.levels[window.from], to, window, all.sums + all.first[window.to]);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

enum { THREAD_WORDS = SPARSE_WORDS / SPARSE_BLOCK };

static __device__ uint32_t word_at(const struct sparse_level &level, uint64_t word) {
  return word < level.all_words ? level.bits[word] : 0;
}

enum { COUNT_BLOCK = 1024 };

// Replaces the count of each block by the sum of the counts before it. sums[blocks] becomes the sum of all.
static __device__ void add_blocks(uint64_t *sums, uint32_t blocks) {
  enum { EACH = 4 };
  uint64_t before = 0;
  for (uint32_t first = threadIdx.x * EACH; first <= blocks + threadIdx.x * EACH; first += COUNT_BLOCK * EACH) {
    uint32_t own[EACH], sum = 0, total;
#pragma unroll
    for (int i = 0; i < EACH; i++) own[i] = first + i < blocks ? (uint32_t)__ldcg(&sums[first + i]) : 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) sum += own[i];
    uint64_t here = before + cuda_block_before(sum, &total);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      if (first + i <= blocks) sums[first + i] = here;
      here += own[i];
    }
    before += total;
  }
}

static __device__ int32_t level_of_block(const struct sparse_levels &all) {
  int32_t number = 0;
  while (number + 1 < all.count && blockIdx.x >= all.first[number + 1]) number++;
  return number;
}

static __device__ uint64_t rows_of(const struct sparse_levels &all, int32_t level) {
  return all.sums[all.first[level + 1]] - all.sums[all.first[level]];
}

// One block. If the input is bad or any level has too many rows, the kernels that follow see 0 rows in all levels.
static __global__ void __launch_bounds__(COUNT_BLOCK)
    count_kernel(struct sparse_levels all, struct sparse_found *found) {
  cuda_wait();
  add_blocks(all.sums, all.first[all.count]);
  __syncthreads();
  if (threadIdx.x != 0) return;
  bool usable = __ldcg(&found->outside) == 0 && __ldcg(&found->repeated) == 0;
  for (int32_t i = 0; i < all.count; i++) usable = usable && rows_of(all, i) <= all.levels[i].room;
  for (int32_t i = 0; i < all.count; i++) found->rows[i] = usable ? rows_of(all, i) : 0;
}

enum vx_status sparse_count(const struct cuda_run *run, const struct sparse_levels &all, struct sparse_found *found,
                            struct error *error) {
  return cuda_launch("count_kernel", count_kernel, 1, COUNT_BLOCK, 0, run, error, all, found);
}

static __device__ void publish(const struct sparse_levels &all, const struct sparse_found *found,
                               struct sparse_found *published) {
  for (int32_t i = 0; i < all.count; i++) published->rows[i] = rows_of(all, i);
  published->outside = found->outside;
  published->repeated = found->repeated;
  __threadfence_system();
  *(volatile uint32_t *)&published->told = 1;
}

// `first`: a multiple of THREAD_WORDS.
static __device__ void load_words(const struct sparse_level &level, uint64_t first, uint32_t (&words)[THREAD_WORDS]) {
  const uint4 *from = (const uint4 *)(level.bits + first);
  bool is_inside = first + THREAD_WORDS <= level.all_words;
#pragma unroll
  for (int i = 0; i < THREAD_WORDS; i += 4) {
    uint4 four = is_inside ? from[i / 4] : make_uint4(0, 0, 0, 0);
    words[i] = four.x, words[i + 1] = four.y, words[i + 2] = four.z, words[i + 3] = four.w;
  }
  for (int i = 0; i < THREAD_WORDS && !is_inside; i++) words[i] = word_at(level, first + i);
}

// A thread numbers the rows of THREAD_WORDS consecutive words. `published`: host memory.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    number_kernel(struct sparse_levels all, const struct sparse_found *found, struct sparse_found *published) {
  cuda_wait();
  int32_t number = level_of_block(all);
  const struct sparse_level &level = all.levels[number];
  if (blockIdx.x == 0 && threadIdx.x == 0) publish(all, found, published);
  if (*level.num_rows == 0 || all.sums[blockIdx.x + 1] == all.sums[blockIdx.x]) return;
  uint32_t block = blockIdx.x - all.first[number], words[THREAD_WORDS], count = 0, total;
  uint64_t first = (uint64_t)block * SPARSE_WORDS + threadIdx.x * THREAD_WORDS;
  load_words(level, first, words);
#pragma unroll
  for (int i = 0; i < THREAD_WORDS; i++) count += __popc(words[i]);
  uint32_t row = (uint32_t)(all.sums[blockIdx.x] - all.sums[all.first[number]]) + cuda_block_before(count, &total);
#pragma unroll
  for (int i = 0; i < THREAD_WORDS; i++) {
    if (words[i] == 0) continue;
    int32_t w;
    uint32_t line = split_word(level, first + i, &w), plane = line / level.shape[1];
    level.ranks[first + i] = row;
    for (uint32_t bits = words[i]; bits != 0; bits &= bits - 1)
      level.cells[row++] = make_int4((int)(plane / level.shape[0]), (int)(plane % level.shape[0]),
                                     (int)(line % level.shape[1]), 32 * w + __ffs(bits) - 2);
  }
}

enum vx_status sparse_number(const struct cuda_run *run, const struct sparse_levels &all,
                             const struct sparse_found *found, struct sparse_found *published, struct error *error) {
  return cuda_launch("number_kernel", number_kernel, all.first[all.count], SPARSE_BLOCK, 0, run, error, all, found,
                     published);
}

// ---- features -------------------------------------------------------------------------------------------------------

static __global__ void __launch_bounds__(SPARSE_BLOCK)
    sort_kernel(struct sparse_level level, const struct cuda_sparse_input *input, uint32_t channels, uint32_t pitch,
                float *sorted, bool half) {
  cuda_wait_in_turn();
  uint64_t i = (uint64_t)blockIdx.x * SPARSE_BLOCK + threadIdx.x, from = i / pitch, channel = i % pitch;
  if (from >= *level.num_rows) return;
  int4 at = input->coords[from];
  uint32_t row = 0;
  if (!sparse_look(level, at.x, at.y, at.z, at.w, &row)) return;
  float value = channel < channels ? input->features[from * channels + channel] : 0.0f;
  uint64_t to = (uint64_t)row * pitch + channel;
  if (half)
    ((uint16_t *)sorted)[to] = sparse_to_half(value);
  else
    sorted[to] = value;
}

enum vx_status sparse_sort(const struct cuda_run *run, const struct sparse_level &level,
                           const struct cuda_sparse_input *input, uint32_t channels, uint32_t pitch, float *sorted,
                           bool half, struct error *error) {
  return cuda_launch("sort_kernel", sort_kernel, cuda_blocks((uint64_t)level.room * pitch, SPARSE_BLOCK), SPARSE_BLOCK,
                     0, run, error, level, input, channels, pitch, sorted, half);
}

// A block writes 32 rows.
static __global__ void __launch_bounds__(SPARSE_BLOCK)
    map_kernel(struct sparse_level level, const float *features, int32_t width, float *map) {
  enum { ROWS = 32 };
  __shared__ float tile[ROWS][VX_MAX_SPARSE_WIDTH + 1];
  cuda_wait_alone();
  uint64_t first = (uint64_t)blockIdx.x * ROWS, num_rows = *level.num_rows;
  int32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (first >= num_rows) return;
  for (int32_t row = warp; row < ROWS && first + row < num_rows; row += SPARSE_BLOCK / 32)
    for (int32_t c = lane; c < width; c += 32) tile[row][c] = features[(first + row) * width + c];
  __syncthreads();
  if (first + lane >= num_rows) return;
  int4 at = level.cells[first + lane];
  uint64_t all = (uint64_t)level.shape[0] * level.shape[1] * level.shape[2];
  float *to = map + (((uint64_t)at.x * width * level.shape[0] + at.y) * level.shape[1] + at.z) * level.shape[2] + at.w;
  for (int32_t c = warp; c < width; c += SPARSE_BLOCK / 32) to[c * all] = tile[lane][c];
}

enum vx_status sparse_fill_map(const struct cuda_run *run, const struct sparse_level &level, const float *features,
                               int32_t width, float *map, struct error *error) {
  return cuda_launch("map_kernel", map_kernel, cuda_blocks(level.room, 32), SPARSE_BLOCK, 0, run, error, level,
                     features, width, map);
}
