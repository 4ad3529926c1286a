// The occupied cells of the levels; see sparse.h. A pass that goes through the words of lines also reports the words to
// vx_stopped, because one line can have up to MOST_WORDS words.
#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/sparse/sparse.h"

enum { WORD = 32, MOST_WORDS = VX_MAX_SPARSE_SIDE / WORD + 1 };

void cpu_level_take(struct cpu_level *level, const int32_t shape[3], int32_t num_clouds, struct cpu_arena *arena) {
  *level = (struct cpu_level){.num_clouds = num_clouds, .words = (shape[2] + 2 + WORD - 1) / WORD};
  memcpy(level->shape, shape, sizeof level->shape);
  uint64_t lines = (uint64_t)cpu_level_lines(level);
  level->first = cpu_arena_take(arena, lines + 1, sizeof *level->first);
  level->word = cpu_arena_take(arena, lines * (uint64_t)level->words + 1, sizeof *level->word);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

// Fills `first`, `rank` and `num_rows`. Before, first[line] is 0 if the line has no row, else any other number.
static void number(struct cpu_level *level, struct vx_stop *stop) {
  int64_t lines = cpu_level_lines(level), rows = 0;
  VX_EACH_ROW(stop, line, 0, lines) {
    bool is_used = level->first[line] != 0;
    level->first[line] = (int32_t)rows;
    if (!is_used) continue;
    if (vx_stopped(stop, level->words)) return;
    struct cpu_word *word = level->word + line * level->words;
    for (int32_t w = 0; w < level->words; w++) {
      word[w].rank = (int32_t)rows;
      rows += cpu_count_bits(word[w].bits);
    }
  }
  level->first[lines] = (int32_t)rows;
  level->num_rows = rows;
}

static void clear_line(struct cpu_level *level, int64_t line, struct vx_stop *stop) {
  vx_fill(stop, level->word + line * level->words, 0, (size_t)level->words * sizeof *level->word);
}

// ---- level 0 --------------------------------------------------------------------------------------------------------

static bool is_inside(const struct cpu_level *level, const int32_t *at) {
  return at[0] >= 0 && at[0] < level->num_clouds && at[1] >= 0 && at[1] < level->shape[0] && at[2] >= 0 &&
         at[2] < level->shape[1] && at[3] >= 0 && at[3] < level->shape[2];
}

static int64_t line_at(const struct cpu_level *level, int64_t cloud, int64_t z, int64_t y) {
  return (cloud * level->shape[0] + z) * level->shape[1] + y;
}

static int64_t line_of_cell(const struct cpu_level *level, const int32_t *at) {
  return line_at(level, at[0], at[1], at[2]);
}

static struct cpu_word *word_of(const struct cpu_level *level, const int32_t *at) {
  return level->word + line_of_cell(level, at) * level->words + (at[3] + 1) / WORD;
}

static uint32_t bit_of(const int32_t *at) { return 1u << (at[3] + 1) % WORD; }

enum vx_status cpu_level_mark(struct cpu_level *level, const struct vx_sparse_rows *rows, struct vx_stop *stop,
                              struct error *error) {
  int64_t outside = -1;
  vx_fill(stop, level->first, 0, ((size_t)cpu_level_lines(level) + 1) * sizeof *level->first);
  VX_EACH_ROW(stop, i, 0, rows->num_rows) {
    const int32_t *at = rows->coords + 4 * i;
    if (!is_inside(level, at)) {
      outside = outside < 0 ? i : outside;
      continue;
    }
    int64_t line = line_of_cell(level, at);
    if (level->first[line] == 0) clear_line(level, line, stop);
    level->first[line] = 1;
    word_of(level, at)->bits |= bit_of(at);
  }
  number(level, stop);
  enum vx_status status = vx_stop_status(stop, error);
  if (status != VX_OK) return status;
  if (outside >= 0) return vx_sparse_refuse_outside(outside, rows->coords + 4 * outside, error);
  return level->num_rows != rows->num_rows ? vx_sparse_refuse_repeated(error) : VX_OK;
}

void cpu_level_sort(const struct cpu_level *level, const struct vx_sparse_rows *rows, int32_t channels,
                    struct vx_stop *stop, float *sorted) {
  VX_EACH_ROW(stop, i, 0, rows->num_rows) {
    const int32_t *at = rows->coords + 4 * i;
    const struct cpu_word *word = word_of(level, at);
    int64_t row = word->rank + cpu_count_bits(word->bits & (bit_of(at) - 1));
    memcpy(sorted + row * channels, rows->features + i * channels, (size_t)channels * sizeof *sorted);
  }
}

// ---- the next level -------------------------------------------------------------------------------------------------

struct step {
  const struct cpu_level *from;
  struct cpu_level *to;
  const struct vx_sparse_layer *layer;
  struct vx_stop *stop;
  // The bitwise OR of the input lines of an output line, with one word of 0 before and four after.
  uint32_t any[MOST_WORDS + 5];
};

// Fills `any` for an output line. Returns false if its input lines have no row, or if the job is stopped.
static bool merge_lines(struct step *step, int64_t cloud, int64_t z, int64_t y) {
  const struct cpu_level *from = step->from;
  const struct vx_sparse_layer *layer = step->layer;
  bool any = false;
  for (int32_t kz = 0; kz < layer->kernel[0]; kz++) {
    int64_t in_z = z * layer->stride[0] - layer->padding[0] + kz;
    for (int32_t ky = 0; ky < layer->kernel[1]; ky++) {
      int64_t in_y = y * layer->stride[1] - layer->padding[1] + ky;
      if (in_z < 0 || in_z >= from->shape[0] || in_y < 0 || in_y >= from->shape[1]) continue;
      int64_t line = line_at(from, cloud, in_z, in_y);
      if (from->first[line] == from->first[line + 1]) continue;
      if (vx_stopped(step->stop, from->words)) return false;
      const struct cpu_word *word = cpu_level_line(from, line);
      for (int32_t w = 0; w < from->words; w++) step->any[w + 1] = (any ? step->any[w + 1] : 0) | word[w].bits;
      any = true;
    }
  }
  return any;
}

// Packs the even bits.
static uint32_t pack_even(uint64_t bits) {
  bits &= UINT64_C(0x5555555555555555);
  bits = (bits | bits >> 1) & UINT64_C(0x3333333333333333);
  bits = (bits | bits >> 2) & UINT64_C(0x0F0F0F0F0F0F0F0F);
  bits = (bits | bits >> 4) & UINT64_C(0x00FF00FF00FF00FF);
  bits = (bits | bits >> 8) & UINT64_C(0x0000FFFF0000FFFF);
  return (uint32_t)(bits | bits >> 16);
}

// The bits of an output word: 1 if some offset along x reaches a cell of `any`.
static uint32_t stride_word(const struct step *step, int32_t w) {
  const struct vx_sparse_layer *layer = step->layer;
  int32_t stride = layer->stride[2], cells = step->to->shape[2];
  uint32_t bits = 0;
  for (int32_t kx = 0; kx < layer->kernel[2]; kx++) {
    // Bit 0 of the word is cell 32 * w - 1. `any` has one word before the bits of a line.
    int32_t at = (WORD * w - 1) * stride - layer->padding[2] + kx + 1 + WORD;
    const uint32_t *from = step->any + at / WORD;
    uint64_t low = (uint64_t)from[1] << WORD | from[0], high = from[2];
    low = at % WORD == 0 ? low : low >> at % WORD | high << (2 * WORD - at % WORD);
    bits |= stride == 1 ? (uint32_t)low : pack_even(low);
  }
  int32_t left = cells + 1 - WORD * w;  // bits up to the last cell
  bits = left < WORD ? bits & ((1u << left) - 1) : bits;
  return w == 0 ? bits & ~1u : bits;
}

static bool stride_line(struct step *step, int64_t line) {
  struct cpu_word *word = step->to->word + line * step->to->words;
  uint32_t any = 0;
  for (int32_t w = 0; w < step->to->words; w++) {
    word[w].bits = stride_word(step, w);
    any |= word[w].bits;
  }
  return any != 0;
}

void cpu_level_stride(struct cpu_level *level, const struct cpu_level *from, const struct vx_sparse_layer *layer,
                      struct vx_stop *stop) {
  struct step step = {.from = from, .to = level, .layer = layer, .stop = stop};
  int32_t rows = level->shape[1], planes = level->shape[0];
  VX_EACH_ROW(stop, line, 0, cpu_level_lines(level)) {
    bool any = merge_lines(&step, line / rows / planes, line / rows % planes, line % rows);
    level->first[line] = any && !vx_stopped(stop, level->words) && stride_line(&step, line);
  }
  number(level, stop);
}

// ---- lists ----------------------------------------------------------------------------------------------------------

void cpu_level_list(struct cpu_level *level, struct vx_stop *stop) {
  int32_t *x = level->x;
  VX_EACH_ROW(stop, line, 0, cpu_level_lines(level)) {
    const struct cpu_word *word = cpu_level_line(level, line);
    int32_t left = level->first[line + 1] - level->first[line];
    if (left > 0 && vx_stopped(stop, level->words)) return;
    for (int32_t w = 0; left > 0; w++)
      for (uint32_t bits = word[w].bits; bits != 0; bits &= bits - 1, left--) *x++ = WORD * w + __builtin_ctz(bits) - 1;
  }
}

void cpu_level_cells(const struct cpu_level *level, struct vx_stop *stop, int32_t *cells) {
  int32_t rows = level->shape[1], planes = level->shape[0];
  VX_EACH_ROW(stop, line, 0, cpu_level_lines(level)) {
    if (vx_stopped(stop, level->first[line + 1] - level->first[line])) return;
    for (int32_t row = level->first[line]; row < level->first[line + 1]; row++) {
      int32_t *cell = cells + 4 * (int64_t)row;
      cell[0] = (int32_t)(line / rows / planes);
      cell[1] = (int32_t)(line / rows % planes);
      cell[2] = (int32_t)(line % rows);
      cell[3] = level->x[row];
    }
  }
}

int64_t cpu_level_line_of(const struct cpu_level *level, int64_t row) {
  int64_t low = 0, high = cpu_level_lines(level);  // first[low] <= row < first[high]
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (level->first[middle] <= row)
      low = middle;
    else
      high = middle;
  }
  return low;
}
