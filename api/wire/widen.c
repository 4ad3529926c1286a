// See widen.h.
//
// A column is decoded in blocks that stay in the first cache: bits, then numbers, then rows. Most loops run over a
// whole block, even if fewer rows are left: a compiler makes vector instructions of loops with a constant length.
#include "api/wire/widen.h"

#include <math.h>
#include <string.h>

#include "api/wire/loss.h"

enum { BLOCK = 256 };  // rows

// A column while it is decoded.
struct column {
  enum vx_dtype dtype;
  const unsigned char *at;  // the first byte of the first value
  size_t row, byte;         // from a value to the next value, and from a byte of a value to the next byte
  bool delta;
  uint32_t sum;  // of the deltas
  int number;
  struct cone *cone;  // of the first three columns with the filter elevation; else NULL
  bool scaled;
  double scale;
};

// What z is guessed from: successive points of one laser lie on a cone around the z axis.
struct cone {
  double distances[1 + BLOCK];  // from the axis, of the row before the block and of its rows
  double z;                     // of the row before the block
};

// ---- bits -----------------------------------------------------------------------------------------------------------

#define ALWAYS_INLINE inline __attribute__((always_inline))

static ALWAYS_INLINE void load_values(const struct column *column, size_t row, int64_t first, int count,
                                      uint32_t *restrict bits) {
  const unsigned char *a = column->at + (size_t)first * row, *b = a + column->byte, *c = b + column->byte;
  const unsigned char *d = c + column->byte;
  switch (vx_dtype_size(column->dtype)) {
    case 1:
      for (int i = 0; i < count; i++) bits[i] = a[(size_t)i * row];
      break;
    case 2:
      for (int i = 0; i < count; i++) bits[i] = a[(size_t)i * row] | (uint32_t)b[(size_t)i * row] << 8;
      break;
    default:
      for (int i = 0; i < count; i++) {  // byte by byte, which becomes the shortest vector instructions
        unsigned char *value = (unsigned char *)(bits + i);
        value[0] = a[(size_t)i * row];
        value[1] = b[(size_t)i * row];
        value[2] = c[(size_t)i * row];
        value[3] = d[(size_t)i * row];
      }
  }
}

// Adds up deltas in zigzag: 0, -1, 1, -2, ... are 0, 1, 2, 3, ... The bits above the width of the type are wrong.
static void add_deltas(struct column *column, uint32_t *bits) {
  uint32_t sum = column->sum;
  for (int i = 0; i < BLOCK; i++) bits[i] = bits[i] >> 1 ^ (0u - (bits[i] & 1));
  for (int i = 0; i < BLOCK; i++) bits[i] = sum += bits[i];
  column->sum = sum;
}

static double square(uint32_t bits) { return (double)(int32_t)bits * (double)(int32_t)bits; }

static void take_x(struct cone *cone, const uint32_t *bits) {
  cone->distances[0] = cone->distances[BLOCK];
  for (int i = 0; i < BLOCK; i++) cone->distances[i + 1] = square(bits[i]);
}

static void take_y(struct cone *cone, const uint32_t *bits) {
  for (int i = 1; i <= BLOCK; i++) cone->distances[i] = sqrt(cone->distances[i] + square(bits[i - 1]));
}

// Adds to each guess its difference from z, in zigzag. The guess is the z of the row before, times the ratio of the
// distances; if int32 cannot hold it, that z. Sums wrap.
static void add_guesses(struct cone *cone, uint32_t *bits) {
  const double even = 0x1.8p52;  // rounds a smaller number if it is added and subtracted: ties to even
  double ratios[BLOCK], z = cone->z;
  for (int i = 0; i < BLOCK; i++) bits[i] = bits[i] >> 1 ^ (0u - (bits[i] & 1));
  for (int i = 0; i < BLOCK; i++) ratios[i] = cone->distances[i + 1] / cone->distances[i];
  for (int i = 0; i < BLOCK; i++) {
    double guess = z * ratios[i];
    z = (fabs(guess) <= INT32_MAX ? guess + even - even : z) + (double)(int32_t)bits[i];
    if (fabs(z) > INT32_MAX) z = (double)(int32_t)(uint32_t)(int64_t)z;
    bits[i] = (uint32_t)(int32_t)z;
  }
  cone->z = z;
}

static void undo_elevation(const struct column *column, uint32_t *bits) {
  switch (column->number) {
    case 0: take_x(column->cone, bits); break;
    case 1: take_y(column->cone, bits); break;
    default: add_guesses(column->cone, bits);
  }
}

static void load(struct column *column, int64_t first, int count, uint32_t *bits) {
  if (count < BLOCK) memset(bits, 0, BLOCK * sizeof *bits);
  if (column->row == 1 && count == BLOCK)
    load_values(column, 1, first, BLOCK, bits);
  else
    load_values(column, column->row, first, count, bits);
  if (column->delta) add_deltas(column, bits);
  if (column->cone) undo_elevation(column, bits);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

#define CONVERT(number, type)                                                                                          \
  for (int i = 0; i < BLOCK; i++) out[i] = (type)((double)(number)*scale);                                             \
  break

#define CONVERT_BITS(type)                                                                                             \
  switch (column->dtype) {                                                                                             \
    case VX_INT8: CONVERT((int8_t)bits[i], type);                                                                      \
    case VX_UINT8: CONVERT((uint8_t)bits[i], type);                                                                    \
    case VX_INT16: CONVERT((int16_t)bits[i], type);                                                                    \
    case VX_UINT16: CONVERT((uint16_t)bits[i], type);                                                                  \
    case VX_INT32: CONVERT((int32_t)bits[i], type);                                                                    \
    case VX_UINT32: CONVERT((uint32_t)bits[i], type);                                                                  \
    case VX_FLOAT16: CONVERT(vx_half_to_float((uint16_t)bits[i]), type);                                               \
    case VX_FLOAT32: CONVERT(vx_bits_float(bits[i]), type);                                                            \
    case VX_INT64: memset(out, 0, BLOCK * sizeof *out); break; /* not a type of points */                              \
  }

// The numbers of a block. Without a scale the factor is 1, which changes nothing.
static void numbers_of(const struct column *column, const uint32_t *restrict bits, double *restrict out) {
  const double scale = column->scale;
  CONVERT_BITS(double)
}

// The same, rounded.
static void floats_of(const struct column *column, const uint32_t *restrict bits, float *restrict out) {
  const double scale = column->scale;
  CONVERT_BITS(float)
}

// A float column without a scale, whose bits are not touched: even a signaling NaN stays.
static void same_floats(const struct column *column, const uint32_t *bits, float *out) {
  if (column->dtype == VX_FLOAT16)
    for (int i = 0; i < BLOCK; i++) out[i] = vx_half_to_float((uint16_t)bits[i]);
  else
    memcpy(out, bits, BLOCK * sizeof *out);
}

// Rounding moves a coordinate by more than a hair only if the coordinate is far away.
static void note_losses(const struct column *column, const uint32_t *bits, const float *values, int count,
                        struct cloud_loss *loss) {
  const float far = 0x1p16f;
  double numbers[BLOCK];
  int any = 0;
  for (int i = 0; i < BLOCK; i++) any |= fabsf(values[i]) >= far;
  if (!any) return;
  numbers_of(column, bits, numbers);
  for (int i = 0; i < count; i++) cloud_note_loss(loss, numbers[i], values[i]);
}

static void take_floats(struct column *column, int64_t first, int count, float *out, struct cloud_loss *loss) {
  uint32_t bits[BLOCK];
  load(column, first, count, bits);
  if (vx_is_float(column->dtype) && !column->scaled) {
    same_floats(column, bits, out);
    return;
  }
  floats_of(column, bits, out);
  if (loss) note_losses(column, bits, out, count, loss);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static int64_t points_of(const struct job_request *request) { return request->job.inputs[VX_POINTS].dims[0]; }

// With the shuffle, all first bytes of the rows come first, then all second bytes, and so on.
static struct column column_of(const struct job_request *request, const char *rows, int number, struct cone *cone) {
  const struct column_terms *terms = &request->columns;
  size_t place = 0, points = (size_t)points_of(request);
  bool shuffled = terms->filters & FILTER_BIT(FILTER_SHUFFLE);
  bool conical = number < VX_MIN_FEATURES && (terms->filters & FILTER_BIT(FILTER_ELEVATION));
  bool delta = terms->filters & (FILTER_BIT(FILTER_DELTA) | FILTER_BIT(FILTER_ELEVATION));
  for (int c = 0; c < number; c++) place += vx_dtype_size(column_dtype(terms, c));
  return (struct column){.dtype = column_dtype(terms, number),
                         .at = (const unsigned char *)rows + (shuffled ? place * points : place),
                         .row = shuffled ? 1 : job_request_row_bytes(request),
                         .byte = shuffled ? points : 1,
                         .delta = delta && !(conical && number == 2),
                         .number = number,
                         .cone = conical ? cone : NULL,
                         .scaled = number < terms->num_scales,
                         .scale = number < terms->num_scales ? request->scales[number] : 1};
}

static ALWAYS_INLINE void write_rows(float values[][BLOCK], int count, int columns, float *restrict out) {
  for (int i = 0; i < count; i++)
    for (int c = 0; c < columns; c++) *out++ = values[c][i];
}

void rows_widen(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                struct cloud_loss *loss) {
  struct column columns[VX_MAX_FEATURES];
  struct cone cone = {.z = 0};
  int64_t points = points_of(request), count;
  int width = request->num_features;
  float values[VX_MAX_FEATURES][BLOCK];
  for (int c = 0; c < width; c++) columns[c] = column_of(request, rows, c, &cone);
  for (int64_t first = 0; first < points && !vx_stopped(stop, BLOCK); first += count) {
    count = points - first < BLOCK ? points - first : BLOCK;
    for (int c = 0; c < width; c++) take_floats(&columns[c], first, (int)count, values[c], c < 3 ? loss : NULL);
    if (width == 4)
      write_rows(values, (int)count, 4, out + first * 4);  // with a constant, which is faster
    else
      write_rows(values, (int)count, width, out + first * width);
  }
}

void rows_read_column(const struct job_request *request, const char *rows, int column, struct vx_stop *stop,
                      double *out) {
  struct column columns[3];
  struct cone cone = {.z = 0};
  int64_t points = points_of(request), count;
  int used = 0;
  if (column == 2)  // which may be guessed from the columns before it
    for (; used < 2; used++) columns[used] = column_of(request, rows, used, &cone);
  columns[used++] = column_of(request, rows, column, &cone);
  for (int64_t first = 0; first < points && !vx_stopped(stop, BLOCK); first += count) {
    uint32_t bits[BLOCK];
    double numbers[BLOCK];
    count = points - first < BLOCK ? points - first : BLOCK;
    for (int c = 0; c < used; c++) load(&columns[c], first, (int)count, bits);
    numbers_of(&columns[used - 1], bits, numbers);
    memcpy(out + first, numbers, (size_t)count * sizeof *out);
  }
}
