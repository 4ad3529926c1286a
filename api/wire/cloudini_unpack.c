// See cloudini_unpack.h.
//
// A chunk has the points one after another, each with its fields in order. In a lossy blob of version 5, integers of 16
// bits or more follow the points, column by column. Each chunk starts without a previous value. struct reader's bytes
// are checked against the end of the chunk.
#include "api/wire/cloudini_unpack.h"

#include <limits.h>
#include <lz4.h>
#include <string.h>

#include "api/wire/lines.h"

enum kind {
  KIND_COPY,    // its bytes
  KIND_FLOAT,   // a multiple of the resolution, as a delta; 0 = NaN
  KIND_DOUBLE,  // the same
  KIND_XOR,     // the bits XOR the previous value's bits
  KIND_WINDOW,  // as KIND_XOR, without zeros at both ends
  KIND_DELTA,   // an integer, as a delta
  KIND_BEHIND,  // in a column after the points
};

struct column {
  enum kind kind;
  bool wraps;    // sums wrap at 32 bits
  size_t bytes;  // of a value
  float resolution;
  char *out;            // the chunk's first value
  uint64_t before;      // the previous number, or its bits
  int leading, length;  // of the last window; length 0 = none
};

struct reader {
  const unsigned char *at, *end;
  const char *fault;  // why the chunk is malformed; NULL = it is not
};

// ---- bytes ----------------------------------------------------------------------------------------------------------

static bool fail(struct reader *reader, const char *fault) {
  if (!reader->fault) reader->fault = fault;
  return false;
}

static const char ends_early[] = "it ends within a value";
static const char too_long[] = "a number has more than 64 bits";

static bool take(struct reader *reader, size_t bytes, uint64_t *out) {
  *out = 0;
  if ((size_t)(reader->end - reader->at) < bytes) return fail(reader, ends_early);
  memcpy(out, reader->at, bytes);  // little-endian, as the machine
  reader->at += bytes;
  return true;
}

// Seven bits in a byte, the lowest first.
static bool take_long_number(struct reader *reader, uint64_t *out) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (reader->at == reader->end) return fail(reader, ends_early);
    uint64_t byte = *reader->at++;
    if (shift == 63 && byte > 1) return fail(reader, too_long);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *out = value;
      return true;
    }
  }
  return fail(reader, too_long);
}

static inline bool take_number(struct reader *reader, uint64_t *out) {
  const unsigned char *at = reader->at;
  if (reader->end - at >= 2) {  // most deltas
    if (at[0] < 0x80) {
      *out = at[0];
      reader->at = at + 1;
      return true;
    }
    if (at[1] < 0x80) {
      *out = (at[0] & 0x7fu) | (uint64_t)at[1] << 7;
      reader->at = at + 2;
      return true;
    }
  }
  return take_long_number(reader, out);
}

// 1, 2, 3, 4, ... are the deltas 0, -1, 1, -2, ...
static inline uint64_t delta_of(uint64_t number) { return (number - 1) >> 1 ^ (0 - ((number - 1) & 1)); }

static bool take_delta(struct reader *reader, uint64_t *out) {
  uint64_t number;
  if (!take_number(reader, &number)) return false;
  if (number == 0) return fail(reader, "an integer has the code of a NaN");
  *out = delta_of(number);
  return true;
}

// ---- windows of bits ------------------------------------------------------------------------------------------------

// A value begins at a whole byte; the lowest bit comes first.
static bool take_bits(struct reader *reader, size_t *place, int count, uint64_t *out) {
  *out = 0;
  for (int i = 0; i < count; i++, ++*place) {
    const unsigned char *at = reader->at + *place / 8;
    if (at >= reader->end) return fail(reader, ends_early);
    *out |= (uint64_t)(*at >> *place % 8 & 1) << i;
  }
  return true;
}

static bool take_window(struct reader *reader, size_t *place, struct column *column) {
  uint64_t leading, length;
  if (!take_bits(reader, place, 5, &leading) || !take_bits(reader, place, 6, &length)) return false;
  column->leading = (int)leading;
  column->length = (int)length + 1;
  return column->leading + column->length <= 64 || fail(reader, "a window of bits has more than 64");
}

// In order: differs (1 bit); if 1: new window (1 bit), the window if it is new, the bits in the window.
static bool take_difference(struct reader *reader, struct column *column, uint64_t *value) {
  uint64_t differs, new, bits = 0;
  size_t place = 0;
  if (!take_bits(reader, &place, 1, &differs)) return false;
  if (differs) {
    if (!take_bits(reader, &place, 1, &new) || (new && !take_window(reader, &place, column))) return false;
    if (!column->length) return fail(reader, "a window of bits is used before it is given");
    if (!take_bits(reader, &place, column->length, &bits)) return false;
    bits <<= 64 - column->leading - column->length;
  }
  reader->at += (place + 7) / 8;
  *value = column->before ^ bits;
  return true;
}

// ---- points ---------------------------------------------------------------------------------------------------------

static void put_float(char *at, float value) { memcpy(at, &value, sizeof value); }
static void put_double(char *at, double value) { memcpy(at, &value, sizeof value); }

// False for a NaN, or with a fault in `reader`.
static inline bool take_multiple(struct reader *reader, struct column *column, int64_t *out) {
  uint64_t number;
  if (!take_number(reader, &number)) return false;
  column->before = number ? column->before + delta_of(number) : 0;
  if (column->wraps) column->before = (uint64_t)(int64_t)(int32_t)column->before;
  *out = (int64_t)column->before;
  return number;
}

static inline bool take_value(struct reader *reader, struct column *column, bool first, char *at) {
  uint64_t value = 0;
  int64_t multiple;
  switch (column->kind) {
    case KIND_FLOAT:
      if (take_multiple(reader, column, &multiple))
        put_float(at, (float)multiple * column->resolution);
      else
        put_float(at, vx_bits_float(VX_FLOAT_NAN));
      return !reader->fault;
    case KIND_DOUBLE:
      if (take_multiple(reader, column, &multiple))
        put_double(at, (double)multiple * (double)column->resolution);
      else
        put_double(at, (double)vx_bits_float(VX_FLOAT_NAN));
      return !reader->fault;
    case KIND_COPY:
      if (!take(reader, column->bytes, &value)) return false;
      break;
    case KIND_XOR:
      if (!take(reader, column->bytes, &value)) return false;
      value ^= column->before;
      break;
    case KIND_WINDOW:
      if (first ? !take(reader, column->bytes, &value) : !take_difference(reader, column, &value)) return false;
      break;
    case KIND_DELTA:
      if (!take_delta(reader, &value)) return false;
      value += column->before;
      break;
    case KIND_BEHIND: return true;
  }
  column->before = value;
  memcpy(at, &value, column->bytes);
  return true;
}

static bool take_points(struct reader *reader, struct column *columns, int count, int64_t points,
                        struct vx_stop *stop) {
  VX_EACH_ROW(stop, i, 0, points)
    for (int c = 0; c < count; c++)
      if (!take_value(reader, &columns[c], i == 0, columns[c].out + (size_t)i * columns[c].bytes)) return false;
  return true;
}

// ---- columns after the points ---------------------------------------------------------------------------------------

enum mode { MODE_DELTAS, MODE_PALETTE, MODE_RUNS, MODE_DELTA_RUNS };

static bool take_deltas(struct reader *reader, const struct column *column, int64_t points, struct vx_stop *stop) {
  uint64_t value = 0, delta = 0;
  VX_EACH_ROW(stop, i, 0, points) {
    if (!take_delta(reader, &delta)) return false;
    value += delta;
    memcpy(column->out + (size_t)i * column->bytes, &value, column->bytes);
  }
  return true;
}

// The values, then an index for each point, of as few bits as the greatest index needs.
static bool take_palette(struct reader *reader, const struct column *column, int64_t points, struct vx_stop *stop) {
  uint64_t count, pending = 0;
  int bits = 0, held = 0;
  if (!take(reader, 2, &count)) return false;
  if (count == 0) return fail(reader, "a palette is empty");
  const unsigned char *palette = reader->at;
  if ((size_t)(reader->end - reader->at) < count * column->bytes) return fail(reader, ends_early);
  reader->at += count * column->bytes;
  while ((count - 1) >> bits) bits++;
  VX_EACH_ROW(stop, i, 0, points) {
    for (; held < bits; held += 8) {
      if (reader->at == reader->end) return fail(reader, ends_early);
      pending |= (uint64_t)*reader->at++ << held;
    }
    uint64_t index = pending & ((UINT64_C(1) << bits) - 1);
    pending >>= bits;
    held -= bits;
    if (index >= count) return fail(reader, "an index is beyond its palette");
    memcpy(column->out + (size_t)i * column->bytes, palette + index * column->bytes, column->bytes);
  }
  return true;
}

// Runs of one value, or of one delta. A length may be any 64-bit number, so a sum with it could overflow.
static bool take_runs(struct reader *reader, const struct column *column, bool deltas, int64_t points,
                      struct vx_stop *stop) {
  uint64_t runs, length, value = 0, step = 0;
  int64_t done = 0;
  if (!take(reader, 4, &runs)) return false;
  for (; runs > 0 && !vx_stopped(stop, 1); runs--) {
    if (deltas ? !take_delta(reader, &step) : !take(reader, column->bytes, &value)) return false;
    if (!take_number(reader, &length)) return false;
    if (length > (uint64_t)(points - done)) return fail(reader, "its runs are longer than the chunk");
    int64_t end = done + (int64_t)length;
    VX_EACH_ROW(stop, i, done, end) {
      value += step;
      memcpy(column->out + (size_t)i * column->bytes, &value, column->bytes);
    }
    done = end;
  }
  return done == points || fail(reader, "its runs are shorter than the chunk");
}

static bool take_column(struct reader *reader, const struct column *column, int64_t points, struct vx_stop *stop) {
  uint64_t mode;
  if (!take(reader, 1, &mode)) return false;
  switch (mode) {
    case MODE_DELTAS: return take_deltas(reader, column, points, stop);
    case MODE_PALETTE: return take_palette(reader, column, points, stop);
    case MODE_RUNS:
    case MODE_DELTA_RUNS: return take_runs(reader, column, mode == MODE_DELTA_RUNS, points, stop);
    default: return fail(reader, "a column has an unknown mode");
  }
}

// ---- chunks ---------------------------------------------------------------------------------------------------------

static enum kind kind_of(const struct cloud_packing *packing, const struct cloud_field *field) {
  bool lossy = packing->encoding == CLOUDINI_LOSSY, rounded = field->resolution > 0;
  if (packing->encoding == CLOUDINI_NONE || number_bytes(field->type) == 1) return KIND_COPY;
  switch (field->type) {
    case NUMBER_FLOAT32: return !lossy ? KIND_XOR : rounded ? KIND_FLOAT : KIND_COPY;
    case NUMBER_FLOAT64:
      if (rounded) return lossy ? KIND_DOUBLE : KIND_XOR;
      return packing->version < 4 ? KIND_XOR : KIND_WINDOW;
    default: return lossy && packing->version >= 5 ? KIND_BEHIND : KIND_DELTA;
  }
}

// A number of variable length has at most 10 bytes; in KIND_BEHIND a run's length may add 1.
size_t cloudini_value_bytes(const struct cloud_packing *packing, const struct cloud_field *field) {
  enum { NUMBER_MOST = 11 };
  enum kind kind = kind_of(packing, field);
  return kind == KIND_COPY || kind == KIND_XOR ? number_bytes(field->type) : NUMBER_MOST;
}

// The chunk begins at point `begin`. If a point begins with exactly three or four rounded floats, their sums wrap at 32
// bits.
static void begin_columns(const struct cloud_file *file, int64_t begin, char *out, struct column *columns) {
  int floats = 0;
  for (int c = 0; c < file->num_fields; c++) {
    const struct cloud_field *field = &file->fields[c];
    columns[c] = (struct column){.kind = kind_of(&file->packing, field), .bytes = field->stride};
    columns[c].resolution = field->resolution;
    columns[c].out = &out[field->offset + (size_t)begin * field->stride];
    floats += floats == c && columns[c].kind == KIND_FLOAT;
  }
  for (int c = 0; c < floats && (floats == 3 || floats == 4); c++) columns[c].wraps = true;
}

static bool decode(const struct cloud_file *file, const char *chunk, size_t size, int64_t begin, int64_t points,
                   char *out, struct error *error) {
  struct column columns[VX_MAX_FEATURES];
  struct reader reader = {.at = (const unsigned char *)chunk, .end = (const unsigned char *)chunk + size};
  begin_columns(file, begin, out, columns);
  bool good = take_points(&reader, columns, file->num_fields, points, file->stop);
  for (int c = 0; good && c < file->num_fields; c++)
    if (columns[c].kind == KIND_BEHIND) good = take_column(&reader, &columns[c], points, file->stop);
  if (good && reader.at < reader.end) good = fail(&reader, "bytes are left after its points");
  if (good) return true;
  return error_refuse(error, ERROR_BAD_BODY, NULL, "the blob's chunk from point %lld on is malformed: %s",
                      (long long)begin, reader.fault);
}

// Into the spare bytes.
static bool decompress(const struct cloud_file *file, struct decoder *decoder, const char *chunk, size_t size,
                       char *spare, size_t *length, struct error *error) {
  size_t room = file->packing.spare_bytes;
  if (file->packing.compressor == CLOUDINI_ZSTD)
    return decoder_whole(decoder, chunk, size, spare, room, length, file->stop, error);
  int most = room < INT_MAX ? (int)room : INT_MAX;
  int bytes = size < INT_MAX ? LZ4_decompress_safe(chunk, spare, (int)size, most) : -1;
  *length = bytes < 0 ? 0 : (size_t)bytes;
  return bytes >= 0 || error_refuse(error, ERROR_BAD_BODY, NULL,
                                    "an LZ4 block of the blob is malformed, or longer than its points can be");
}

// check_chunks (cloudini.c) has checked the length.
static struct span next_chunk(const struct cloud_file *file, const char **at) {
  struct span chunk = {*at, file->size};
  if (file->packing.version > 2) {
    uint32_t bytes;
    memcpy(&bytes, *at, sizeof bytes);
    chunk = (struct span){*at + sizeof bytes, bytes};
  }
  *at = chunk.at + chunk.length;
  return chunk;
}

bool cloudini_unpack(struct cloud_file *file, struct decoder *decoder, char *out, struct error *error) {
  const char *at = file->data;
  int64_t most = file->packing.version > 2 ? CLOUDINI_CHUNK : file->points;
  char *spare = out + file->packing.bytes;
  for (int64_t begin = 0; begin < file->points && !vx_stopped(file->stop, 1); begin += most) {
    int64_t points = file->points - begin < most ? file->points - begin : most;
    struct span chunk = next_chunk(file, &at);
    if (file->packing.compressor != CLOUDINI_PLAIN) {
      if (!decompress(file, decoder, chunk.at, chunk.length, spare, &chunk.length, error)) return false;
      chunk.at = spare;
    }
    if (!decode(file, chunk.at, chunk.length, begin, points, out, error)) return false;
  }
  file->layout = CLOUD_COLUMNS;
  file->data = out;
  file->size = file->packing.bytes;
  return true;
}
