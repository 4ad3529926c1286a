// Sparse convolution on the CPU. Runs on the thread that has the lane; tasks also run on helpers.
//
// Rows are ordered by cell: cloud, z, y, x. A line is the cells of one (cloud, z, y), one bit each, in words that are
// undefined if the line has no row. A cell's row is its word's `rank` plus the number of set bits before its bit.
#ifndef VOXELD_CPU_SPARSE_H
#define VOXELD_CPU_SPARSE_H

#include "kernels/kernels.h"
#include "kernels/sparse.h"

enum { CPU_RULE_ROWS = 256 };  // rows of a block

// The inputs of a block of output rows: for each offset, `count` pairs (input, row), by ascending row.
struct cpu_rules {
  int32_t count[VX_MAX_SPARSE_OFFSETS];
  int32_t input[VX_MAX_SPARSE_OFFSETS][CPU_RULE_ROWS];  // row of the input level
  uint8_t row[VX_MAX_SPARSE_OFFSETS][CPU_RULE_ROWS];    // row of the block
};

struct cpu_pairs {
  const int32_t *input;
  const uint8_t *row;
  int32_t count;
  const float *in;      // [rows, inputs]
  const float *weight;  // [inputs, width]
  int32_t inputs, width;
  float *out;  // [CPU_RULE_ROWS, width]
};

// For each pair and each c in turn: out[row][d] = fma(in[input][c], weight[c][d], out[row][d]) for all d.
typedef void cpu_convolve(const struct cpu_pairs *pairs);

struct cpu_convolve_way {
  const char *name;
  bool (*runs)(void);  // whether this processor can run it
  cpu_convolve *convolve;
};

// The fastest first; plain C is last.
extern const struct cpu_convolve_way cpu_convolve_ways[];
extern const int cpu_num_convolve_ways;

// The fastest way on this processor.
cpu_convolve *cpu_convolve_here(void);

// Computes the rows of the last level and, if result->map is given, the map. VX_REFUSED, before any convolution, if the
// rows or the levels do not fit.
VX_WARN_UNUSED enum vx_status cpu_sparse(struct vx_lane *lane, const struct vx_job *job,
                                         const struct vx_sparse *backbone, const struct vx_sparse_rows *rows,
                                         cpu_convolve *convolve, struct vx_sparse_result *result, struct error *error);

// ---- levels ---------------------------------------------------------------------------------------------------------

struct cpu_word {
  uint32_t bits;  // bit i of word w is the cell x = 32 * w + i - 1; the first and the last bit of a line are 0
  int32_t rank;   // rows before this word
};

struct cpu_level {
  int32_t shape[3];
  int32_t num_clouds;
  int32_t words;          // of a line
  int64_t num_rows;       // if this is above max_rows, `first` and `rank` may have overflowed
  int32_t *first;         // [lines + 1]: rows before each line
  struct cpu_word *word;  // [lines, words], and one more
  int32_t *x;             // [num_rows]
};

struct cpu_arena;

static inline int64_t cpu_level_lines(const struct cpu_level *level) {
  return (int64_t)level->num_clouds * level->shape[0] * level->shape[1];
}
static inline const struct cpu_word *cpu_level_line(const struct cpu_level *level, int64_t line) {
  return level->word + line * level->words;
}
// The number of bits that are set. Needs no special instruction.
static inline int32_t cpu_count_bits(uint32_t bits) {
  bits -= bits >> 1 & 0x55555555u;
  bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
  return (int32_t)(((bits + (bits >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24);
}

void cpu_level_take(struct cpu_level *level, const int32_t shape[3], int32_t num_clouds, struct cpu_arena *arena);
// Fills level 0. VX_REFUSED if a cell is outside or repeated.
VX_WARN_UNUSED enum vx_status cpu_level_mark(struct cpu_level *level, const struct vx_sparse_rows *rows,
                                             struct vx_stop *stop, struct error *error);
// Fills the level that a strided layer begins.
void cpu_level_stride(struct cpu_level *level, const struct cpu_level *from, const struct vx_sparse_layer *layer,
                      struct vx_stop *stop);
// Fills `x`.
void cpu_level_list(struct cpu_level *level, struct vx_stop *stop);
// Writes the cells of the rows: [num_rows, 4].
void cpu_level_cells(const struct cpu_level *level, struct vx_stop *stop, int32_t *cells);
// Copies `features`, [num_rows, channels], into the order of the level.
void cpu_level_sort(const struct cpu_level *level, const struct vx_sparse_rows *rows, int32_t channels,
                    struct vx_stop *stop, float *sorted);
int64_t cpu_level_line_of(const struct cpu_level *level, int64_t row);

// ---- rules, map -----------------------------------------------------------------------------------------------------

// Fills the rules of `count` outputs, from row `begin` on.
void cpu_rules_fill(const struct cpu_level *in, const struct cpu_level *out, const struct vx_sparse_layer *layer,
                    int64_t begin, int64_t count, struct cpu_rules *rules);

// Writes line `y` of each plane of a cloud. `features`: [num_rows, width].
void cpu_sparse_fill_lines(const struct cpu_level *level, const float *features, int32_t width, int32_t cloud,
                           int32_t y, float *map);

#endif
