// See packed_files.h.
#include "tests/fuzz/packed_files.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 22 };

static void check_problem(const struct error *error) {
  assert(error->kind > ERROR_NONE && error->kind < ERROR_COUNT && error->text[0]);
}

static struct decoder *decoder_for(enum coding coding) {
  static struct decoder *decoders[CODINGS];  // reused, as in the daemon
  if (coding == CODING_NONE) return NULL;
  if (!decoders[coding]) decoders[coding] = decoder_new(coding);
  assert(decoders[coding]);
  decoder_begin(decoders[coding]);
  return decoders[coding];
}

// Unpacks into memory that is filled with the byte `fill`. Returns the memory; NULL with an error.
static char *unpack(const struct cloud_file *packed, int fill, struct cloud_file *file, struct error *error) {
  size_t bytes = packed->packing.bytes + packed->packing.spare_bytes;
  char *out = malloc(bytes + 1);
  assert(out);
  memset(out, fill, bytes);
  *file = *packed;
  if (cloud_unpack(file, decoder_for(packed->packing.coding), out, error)) return out;
  check_problem(error);
  free(out);
  return NULL;
}

static void gather(const struct cloud_file *file, struct error *error) {
  static struct job_request request;
  struct cloud_columns columns;
  struct cloud_loss loss;
  job_request_init(&request, VX_TRANSFORM);
  bool good = job_request_set(&request, "num_features", 12, "3", 1, error) && job_request_finish(&request, error);
  assert(good);
  good = cloud_choose(file, &request, &columns, error) && job_request_split(&request, file->points, error);
  if (!good) {
    check_problem(error);
    return;
  }
  char *rows = malloc((size_t)file->points * 3 * sizeof(float) + 1);
  assert(rows);
  good = cloud_gather(file, &columns, rows, &loss, error);
  assert(good);
  free(rows);
}

// Unpacks twice, into memory with different contents: equal points show that every byte was written.
static void read_twice(const struct cloud_file *packed) {
  static struct cloud_file first, second;
  struct error error = {.kind = ERROR_NONE}, again = {.kind = ERROR_NONE};
  char *ones = unpack(packed, 0xff, &first, &error), *zeros = unpack(packed, 0, &second, &again);
  assert(!ones == !zeros && error.kind == again.kind && strcmp(error.text, again.text) == 0);
  if (ones) {
    assert(first.layout != CLOUD_PACKED && memcmp(ones, zeros, packed->packing.bytes) == 0);
    gather(&first, &error);
  }
  free(ones);
  free(zeros);
}

void packed_file_read(enum body_format format, const uint8_t *data, size_t size) {
  static struct cloud_file file;
  struct error error = {.kind = ERROR_NONE};
  char *body = malloc(size ? size : 1);  // of the exact size, so that a sanitizer sees a read past the end
  assert(body);
  memcpy(body, data, size);
  const char *hint = format_hint(FORMAT_RAW, body, size);
  assert(!hint || hint[0]);
  bool good = format_open(format, body, size, NULL, &file, &error);
  size_t most = file.packing.bytes + file.packing.spare_bytes;
  if (!good) check_problem(&error);
  if (good && file.points > 0 && file.layout == CLOUD_PACKED && most <= MOST_BYTES) read_twice(&file);
  free(body);
}
