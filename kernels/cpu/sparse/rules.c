// The inputs of each output row; see sparse.h. Pure; any thread.
#include "kernels/cpu/sparse/sparse.h"

// Outputs on one line: rows of the block from `row` on, at the cells `x`.
struct stretch {
  const struct vx_sparse_layer *layer;
  const int32_t *x;
  int32_t row, count;
};

// Adds the inputs on one line for `kernel` offsets along x, from number `offset` on. An output's inputs are `kernel`
// bits of the line, in one or two words. Occupied cells have consecutive rows.
static void add_line(const struct stretch *stretch, const struct cpu_word *line, int32_t offset,
                     struct cpu_rules *rules) {
  int32_t kernel = stretch->layer->kernel[2], stride = vx_sparse_stride(stretch->layer, 2);
  int32_t shift = 1 - vx_sparse_padding(stretch->layer, 2);
  for (int32_t i = 0; i < stretch->count; i++) {
    int32_t at = stretch->x[i] * stride + shift;
    const struct cpu_word *word = line + at / 32;
    uint64_t bits = ((uint64_t)word[1].bits << 32 | word[0].bits) >> at % 32;
    if ((bits & ((1u << kernel) - 1)) == 0) continue;
    int32_t input = word->rank + cpu_count_bits(word->bits & ((1u << at % 32) - 1));
    for (int32_t k = offset; k < offset + kernel; k++, bits >>= 1) {
      int32_t n = rules->count[k], is_there = (int32_t)(bits & 1);
      rules->input[k][n] = input;
      rules->row[k][n] = (uint8_t)(stretch->row + i);
      rules->count[k] = n + is_there;
      input += is_there;
    }
  }
}

static void add_lines(const struct stretch *stretch, const struct cpu_level *in, const struct cpu_level *out,
                      int64_t line, struct cpu_rules *rules) {
  const struct vx_sparse_layer *layer = stretch->layer;
  int64_t plane = line / out->shape[1], cloud = plane / out->shape[0];
  int64_t first_z = plane % out->shape[0] * vx_sparse_stride(layer, 0) - vx_sparse_padding(layer, 0);
  int64_t first_y = line % out->shape[1] * vx_sparse_stride(layer, 1) - vx_sparse_padding(layer, 1);
  for (int32_t kz = 0; kz < layer->kernel[0]; kz++) {
    for (int32_t ky = 0; ky < layer->kernel[1]; ky++) {
      int64_t z = first_z + kz, y = first_y + ky;
      if (z < 0 || z >= in->shape[0] || y < 0 || y >= in->shape[1]) continue;
      int64_t from = (cloud * in->shape[0] + z) * in->shape[1] + y;
      if (in->first[from] < in->first[from + 1])
        add_line(stretch, cpu_level_line(in, from), (kz * layer->kernel[1] + ky) * layer->kernel[2], rules);
    }
  }
}

void cpu_rules_fill(const struct cpu_level *in, const struct cpu_level *out, const struct vx_sparse_layer *layer,
                    int64_t begin, int64_t count, struct cpu_rules *rules) {
  int64_t line = cpu_level_line_of(out, begin), end = begin + count;
  for (int32_t k = 0; k < VX_MAX_SPARSE_OFFSETS; k++) rules->count[k] = 0;
  for (int64_t row = begin; row < end; line++) {
    int64_t next = out->first[line + 1] < end ? out->first[line + 1] : end;
    struct stretch stretch = {layer, out->x + row, (int32_t)(row - begin), (int32_t)(next - row)};
    if (next > row) add_lines(&stretch, in, out, line, rules);
    row = next;
  }
}
