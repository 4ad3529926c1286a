// Fuzzes rows of any types, scales and filters. Each value must equal the value that a plain loop over the bytes finds,
// also if the column is read alone. One thread.
//
// The input: the number of columns, the filters, the number of scales, then the type of each column and the body.
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/loss.h"
#include "api/wire/widen.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 3, MOST_COLUMNS = 9 };

// The position of a byte of a value in the body.
static size_t place_of(const struct job_request *request, size_t row, int column, size_t byte) {
  size_t in_row = byte, rows = (size_t)request->job.inputs[VX_POINTS].dims[0];
  for (int c = 0; c < column; c++) in_row += vx_dtype_size(column_dtype(&request->columns, c));
  bool shuffled = request->columns.filters & FILTER_BIT(FILTER_SHUFFLE);
  return shuffled ? in_row * rows + row : row * job_request_row_bytes(request) + in_row;
}

static uint32_t bits_of(const struct job_request *request, const uint8_t *body, size_t row, int column) {
  uint32_t bits = 0;
  for (size_t byte = 0; byte < vx_dtype_size(column_dtype(&request->columns, column)); byte++)
    bits |= (uint32_t)body[place_of(request, row, column, byte)] << 8 * byte;
  return bits;
}

static double number_of(enum vx_dtype dtype, uint32_t bits) {
  switch (dtype) {
    case VX_INT8: return (int8_t)bits;
    case VX_UINT8: return (uint8_t)bits;
    case VX_INT16: return (int16_t)bits;
    case VX_UINT16: return (uint16_t)bits;
    case VX_INT32: return (int32_t)bits;
    case VX_UINT32: return bits;
    case VX_FLOAT16: return (double)vx_half_to_float((uint16_t)bits);
    default: return (double)vx_bits_float(bits);
  }
}

static uint32_t rest_of(const struct job_request *request, const uint8_t *body, size_t row, int column) {
  uint32_t bits = bits_of(request, body, row, column);
  return bits >> 1 ^ (bits & 1 ? UINT32_MAX : 0);
}

// State of the filter direction: the first three columns of the last three rows, the newest first, and the leading
// column.
struct last {
  int32_t rows[3][3];
  int lead;
};

static uint32_t next_of(const struct job_request *request, const uint8_t *body, size_t row, struct last *last,
                        int column) {
  int32_t(*rows)[3] = last->rows;
  memmove(rows[1], rows[0], sizeof rows[0] * 2);
  if (row % 64 == 0) last->lead = llabs(rows[1][0]) < llabs(rows[1][1]);
  const int order[3] = {last->lead, 1 - last->lead, 2};
  for (int place = 0; place < 3; place++) {
    int c = order[place];
    double near = (double)rows[0][order[0]] / rows[1][order[0]], far = (double)rows[0][order[0]] / rows[2][order[0]];
    double guess = place ? rint(2 * (rows[1][c] * near) - rows[2][c] * far) : rows[1][c];
    int32_t taken = fabs(guess) <= INT32_MAX ? (int32_t)guess : rows[1][c];
    rows[0][c] = (int32_t)((uint32_t)taken + rest_of(request, body, row, place));
  }
  return (uint32_t)rows[0][column];
}

static bool is_same(double a, double b) { return a == b || (a != a && b != b); }

static void check_column(const struct job_request *request, const uint8_t *body, int column, const float *rows,
                         const double *alone) {
  enum vx_dtype dtype = column_dtype(&request->columns, column);
  bool scaled = column < request->columns.num_scales;
  uint32_t sum = 0, filters = request->columns.filters;
  bool direction = filters & FILTER_BIT(FILTER_DIRECTION), delta = direction || filters & FILTER_BIT(FILTER_DELTA);
  struct last last = {.lead = 0};
  for (size_t row = 0; row < (size_t)request->job.inputs[VX_POINTS].dims[0]; row++) {
    uint32_t bits = bits_of(request, body, row, column);
    if (delta) bits = sum += rest_of(request, body, row, column);
    if (direction && column < 3) bits = next_of(request, body, row, &last, column);
    double number = number_of(dtype, bits) * (scaled ? request->scales[column] : 1);
    float value = rows[row * (size_t)request->num_features + (size_t)column];
    assert(is_same((double)(float)number, (double)value) && is_same(number, alone[row]));
    if (dtype == VX_FLOAT32 && !scaled) assert(vx_float_bits(value) == bits);
  }
}

static void read_rows(struct job_request *request, const uint8_t *body, size_t size) {
  struct error error;
  struct cloud_loss loss = {0};
  size_t points = size / job_request_row_bytes(request);
  if (!job_request_split(request, (int64_t)points, &error)) return;
  size -= size % job_request_row_bytes(request);
  char *sent = malloc(size ? size : 1);  // of the exact size, so that a sanitizer sees a read past the end
  size_t bytes = points * (size_t)request->num_features * sizeof(float);
  float *rows = malloc(bytes + 1), *any = malloc(bytes + 1);
  double *alone = malloc(points * sizeof *alone + 1);
  assert(sent && rows && any && alone);
  memcpy(sent, body, size);
  rows_widen(request, sent, NULL, rows, &loss);
  rows_widen_any(request, sent, NULL, any, &loss);
  assert(memcmp(rows, any, bytes) == 0);
  for (int c = 0; c < request->num_features; c++) {
    rows_read_column(request, sent, c, NULL, alone);
    check_column(request, (const uint8_t *)sent, c, rows, alone);
  }
  free(sent);
  free(rows);
  free(any);
  free(alone);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const filters[] = {NULL, "shuffle", "delta", "delta,shuffle", "direction", "direction,shuffle"};
  static const double scales[] = {0.001, 1.0 / 255, 2.5, 1e-30, 3e8};
  static struct job_request request;
  static double scales_of[MOST_COLUMNS];
  struct error error;
  if (size < HEAD + MOST_COLUMNS) return -1;
  job_request_init(&request, VX_TRANSFORM);
  const char *filter = filters[data[1] % 6];
  bool good = !filter || job_request_set(&request, "filter", 6, filter, strlen(filter), &error);
  assert(good);
  request.columns.num_types = VX_MIN_FEATURES + data[0] % (MOST_COLUMNS - VX_MIN_FEATURES + 1);
  request.scales = scales_of;
  request.columns.num_scales = data[2] % (request.columns.num_types + 1);
  for (int c = 0; c < request.columns.num_types; c++) {
    request.columns.types[c] = data[1] % 6 < 4 || c > 2 ? data[HEAD + c] % VX_SENT_TYPES : VX_INT32;
    scales_of[c] = scales[(data[2] + c) % 5];
  }
  if (job_request_finish(&request, &error)) read_rows(&request, data + HEAD + MOST_COLUMNS, size - HEAD - MOST_COLUMNS);
  return 0;
}
