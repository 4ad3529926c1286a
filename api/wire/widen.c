// See widen.h.
//
// A column is decoded in blocks that fit into the first-level cache: bits, numbers, rows. Most loops run over a whole
// block, even if fewer rows are left, since compilers vectorize loops of constant length.
#include "api/wire/widen.h"

#include <math.h>
#include <string.h>

#include "api/wire/loss.h"

enum { BLOCK = 256, RUN = 64 };  // rows; after each RUN the filter `direction` chooses its leading column again

// A column that is being decoded.
struct column {
  enum vx_dtype dtype;
  const unsigned char *at;  // the first byte of the first value
  size_t row, byte;         // bytes from a value to the next, and within a value to its next byte
  bool delta;               // numbers are differences to the number before
  bool guessed;             // numbers are differences to a guess
  uint32_t sum;             // of the deltas
  bool scaled;
  double scale;
};

// For the filter direction: x, y, z of the two rows before; rows[1] is the row just before.
struct direction {
  double rows[2][3];
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
      for (int i = 0; i < count; i++) {  // compilers make the fewest vector instructions of this
        unsigned char *value = (unsigned char *)(bits + i);
        value[0] = a[(size_t)i * row];
        value[1] = b[(size_t)i * row];
        value[2] = c[(size_t)i * row];
        value[3] = d[(size_t)i * row];
      }
  }
}

// 0, 1, 2, 3, ... are the differences 0, -1, 1, -2, ...
static ALWAYS_INLINE void undo_zigzag(uint32_t *bits, int count) {
  for (int i = 0; i < count; i++) bits[i] = bits[i] >> 1 ^ (0u - (bits[i] & 1));
}

// Bits above the width of the type become wrong.
static ALWAYS_INLINE void add_deltas(struct column *column, uint32_t *bits) {
  uint32_t sum = column->sum;
  for (int i = 0; i < BLOCK; i++) bits[i] = sum += bits[i];
  column->sum = sum;
}

// (x + even) - even is x rounded to an integer, ties to even, if |x| < 2^51.
static const double even = 0x1.8p52;

typedef double pair __attribute__((vector_size(2 * sizeof(double))));  // of the x or y that does not lead, and of z
typedef int64_t masks __attribute__((vector_size(2 * sizeof(int64_t))));

static ALWAYS_INLINE masks fit_int32(pair numbers) { return (pair)((masks)numbers & INT64_MAX) <= (double)INT32_MAX; }

// The last number replaces a guess that int32 cannot hold. A sum that int32 cannot hold wraps.
static __attribute__((cold, noinline)) pair add_wrapping(pair guess, pair last, pair difference) {
  pair sum = {0};
  for (int c = 0; c < 2; c++) {
    double whole = guess[c] + even - even, taken = fabs(whole) <= INT32_MAX ? whole : last[c];
    sum[c] = (double)(int32_t)(uint32_t)(int64_t)(taken + difference[c]);
  }
  return sum;
}

// Undoes the filter direction for RUN rows. `x` enters with the differences of the leading column, `y` with those of
// the other one. A guess assumes that the direction from the origin to the row turns evenly.
//
// The two numbers that are guessed depend on those of the row before. Few operations lie between: doubling a ratio and
// subtracting `even` are exact, so both are done to numbers that a processor can compute while it waits for the row
// before.
static ALWAYS_INLINE void undo_run(struct direction *direction, int lead, uint32_t *x, uint32_t *y, uint32_t *z) {
  double(*rows)[3] = direction->rows, last_lead = rows[1][lead], older_lead = rows[0][lead];
  int other = 1 - lead;
  pair last = {rows[1][other], rows[1][2]}, older = {rows[0][other], rows[0][2]};
  uint32_t sum = (uint32_t)(int32_t)last_lead, *leads = lead ? y : x, *others = lead ? x : y;
  for (int i = 0; i < RUN; i++) {
    double now = (int32_t)(sum += x[i]);
    pair ratios = (pair){now, now} / (pair){last_lead, older_lead}, difference = {(int32_t)y[i], (int32_t)z[i]};
    pair guess = last * (2 * ratios[0]) - older * ratios[1], next = (guess + even) + (difference - even);
    masks fit = fit_int32(guess) & fit_int32(next);
    if (__builtin_expect(!(fit[0] & fit[1]), 0)) next = add_wrapping(guess, last, difference);
    older_lead = last_lead, older = last;
    last_lead = now, last = next;
    leads[i] = sum;
    others[i] = (uint32_t)(int32_t)last[0];
    z[i] = (uint32_t)(int32_t)last[1];
  }
  rows[0][lead] = older_lead, rows[0][other] = older[0], rows[0][2] = older[1];
  rows[1][lead] = last_lead, rows[1][other] = last[0], rows[1][2] = last[1];
}

static ALWAYS_INLINE void load(struct column *column, int64_t first, int count, uint32_t *bits) {
  if (count < BLOCK) memset(bits, 0, BLOCK * sizeof *bits);
  if (column->row == 1 && count == BLOCK)
    load_values(column, 1, first, BLOCK, bits);
  else
    load_values(column, column->row, first, count, bits);
  if (column->delta || column->guessed) undo_zigzag(bits, BLOCK);
  if (column->delta) add_deltas(column, bits);
}

// Loads the first three columns, with the filter direction.
static ALWAYS_INLINE void load_position(struct column *columns, struct direction *direction, int64_t first, int count,
                                        uint32_t bits[][BLOCK]) {
  for (int c = 0; c < VX_MIN_FEATURES; c++) load(&columns[c], first, count, bits[c]);
  for (int i = 0; i < BLOCK; i += RUN) {
    const double *last = direction->rows[1];  // a branch, so that `lead` is a constant in each call
    if (fabs(last[0]) < fabs(last[1]))
      undo_run(direction, 1, bits[0] + i, bits[1] + i, bits[2] + i);
    else
      undo_run(direction, 0, bits[0] + i, bits[1] + i, bits[2] + i);
  }
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

// Without a scale the factor is 1.
static void numbers_of(const struct column *column, const uint32_t *restrict bits, double *restrict out) {
  const double scale = column->scale;
  CONVERT_BITS(double)
}

// The same, rounded to float32.
static ALWAYS_INLINE void floats_of(const struct column *column, const uint32_t *restrict bits, float *restrict out) {
  const double scale = column->scale;
  CONVERT_BITS(float)
}

// A float column without a scale keeps its values exactly: even a signaling NaN stays signaling.
static ALWAYS_INLINE void same_floats(const struct column *column, const uint32_t *bits, float *out) {
  if (column->dtype == VX_FLOAT16)
    for (int i = 0; i < BLOCK; i++) out[i] = vx_half_to_float((uint16_t)bits[i]);
  else
    memcpy(out, bits, BLOCK * sizeof *out);
}

// Below `far`, rounding moves coordinates by less than 2 mm, which is not noted.
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

static ALWAYS_INLINE void take_floats(const struct column *column, const uint32_t *bits, int count, float *out,
                                      struct cloud_loss *loss) {
  if (vx_is_float(column->dtype) && !column->scaled) {
    same_floats(column, bits, out);
    return;
  }
  floats_of(column, bits, out);
  if (loss) note_losses(column, bits, out, count, loss);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static int64_t points_of(const struct job_request *request) { return request->job.inputs[VX_POINTS].dims[0]; }

// A shuffled column has the first bytes of all rows, then all second bytes, and so on.
static struct column column_of(const struct job_request *request, const char *rows, int number) {
  const struct column_terms *terms = &request->columns;
  size_t place = 0, points = (size_t)points_of(request);
  bool shuffled = terms->filters & FILTER_BIT(FILTER_SHUFFLE);
  bool direction = terms->filters & FILTER_BIT(FILTER_DIRECTION), guessed = direction && number < VX_MIN_FEATURES;
  for (int c = 0; c < number; c++) place += vx_dtype_size(column_dtype(terms, c));
  return (struct column){.dtype = column_dtype(terms, number),
                         .at = (const unsigned char *)rows + (shuffled ? place * points : place),
                         .row = shuffled ? 1 : job_request_row_bytes(request),
                         .byte = shuffled ? points : 1,
                         .delta = (direction && !guessed) || (terms->filters & FILTER_BIT(FILTER_DELTA)),
                         .guessed = guessed,
                         .scaled = number < terms->num_scales,
                         .scale = number < terms->num_scales ? request->scales[number] : 1};
}

static ALWAYS_INLINE void write_rows(float values[][BLOCK], int count, int columns, float *restrict out) {
  for (int i = 0; i < count; i++)
    for (int c = 0; c < columns; c++) *out++ = values[c][i];
}

static ALWAYS_INLINE void widen(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                                struct cloud_loss *loss) {
  struct column columns[VX_MAX_FEATURES];
  struct direction direction = {0};
  int64_t points = points_of(request), count;
  int width = request->num_features;
  bool guessed = request->columns.filters & FILTER_BIT(FILTER_DIRECTION);
  float values[VX_MAX_FEATURES][BLOCK];
  uint32_t bits[VX_MIN_FEATURES][BLOCK];
  for (int c = 0; c < width; c++) columns[c] = column_of(request, rows, c);
  for (int64_t first = 0; first < points && !vx_stopped(stop, BLOCK); first += count) {
    count = points - first < BLOCK ? points - first : BLOCK;
    if (guessed) load_position(columns, &direction, first, (int)count, bits);
    for (int c = 0; c < width; c++) {
      uint32_t *own = bits[guessed && c < VX_MIN_FEATURES ? c : 0];
      if (!guessed || c >= VX_MIN_FEATURES) load(&columns[c], first, (int)count, own);
      take_floats(&columns[c], own, (int)count, values[c], c < 3 ? loss : NULL);
    }
    if (width == 4)
      write_rows(values, (int)count, 4, out + first * 4);  // a constant is faster
    else
      write_rows(values, (int)count, width, out + first * width);
  }
}

void rows_widen_any(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                    struct cloud_loss *loss) {
  widen(request, rows, stop, out, loss);
}

#ifdef __x86_64__
static __attribute__((target("avx2"))) void widen_avx2(const struct job_request *request, const char *rows,
                                                       struct vx_stop *stop, float *out, struct cloud_loss *loss) {
  widen(request, rows, stop, out, loss);
}
#endif

void rows_widen(const struct job_request *request, const char *rows, struct vx_stop *stop, float *out,
                struct cloud_loss *loss) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) {
    widen_avx2(request, rows, stop, out, loss);
    return;
  }
#endif
  rows_widen_any(request, rows, stop, out, loss);
}

void rows_read_column(const struct job_request *request, const char *rows, int column, struct vx_stop *stop,
                      double *out) {
  struct column columns[VX_MIN_FEATURES], taken = column_of(request, rows, column);
  struct direction direction = {0};
  int64_t points = points_of(request), count;
  for (int c = 0; c < VX_MIN_FEATURES; c++) columns[c] = column_of(request, rows, c);
  for (int64_t first = 0; first < points && !vx_stopped(stop, BLOCK); first += count) {
    uint32_t bits[VX_MIN_FEATURES][BLOCK];
    double numbers[BLOCK];
    count = points - first < BLOCK ? points - first : BLOCK;
    if (taken.guessed)
      load_position(columns, &direction, first, (int)count, bits);
    else
      load(&taken, first, (int)count, bits[0]);
    numbers_of(&taken, bits[taken.guessed ? column : 0], numbers);
    memcpy(out + first, numbers, (size_t)count * sizeof *out);
  }
}
