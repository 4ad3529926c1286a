// See zip.h.
#include "api/wire/zip.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "api/base/bytes.h"

enum {
  VERSION = 45,  // the first with 64-bit sizes
  MADE_BY = 3 << 8 | VERSION,
  DATE = 1 << 5 | 1,  // 1980-01-01
  READABLE = 0100644,
  LARGE = 1,       // id of the field with 64-bit sizes
  ALIGN = 0xd935,  // id of Android's field that aligns data
  LOCAL_BYTES = 30,
  LARGE_BYTES = 20,
  ALIGN_BYTES = 6,
  CRC_AT = 14,
};
#define LIMIT UINT64_C(0xffffffff)  // stands in a 32-bit field for a number in a 64-bit field

void zip_begin(struct zip *zip, struct text *out, struct vx_stop *stop) {
  zip->out = out;
  zip->stop = stop;
  zip->count = 0;
}

static uint64_t short_of(uint64_t value) { return value < LIMIT ? value : LIMIT; }

// A local header and an entry of the directory have this in common.
static void put_common(struct text *out, const struct zip_member *member, uint64_t bytes) {
  bytes_put(out, VERSION, 2);
  bytes_put(out, 0, 2);  // flags
  bytes_put(out, 0, 2);  // stored
  bytes_put(out, 0, 2);  // time
  bytes_put(out, DATE, 2);
  bytes_put(out, member->crc, 4);
  bytes_put(out, bytes, 4);
  bytes_put(out, bytes, 4);
  bytes_put(out, strlen(member->name), 2);
}

// Sizes are always in the 64-bit field, as in numpy's own files, so that the data's offset does not depend on them.
void zip_open(struct zip *zip, const char *name, const char *ending) {
  struct text *out = zip->out;
  struct zip_member *member = &zip->members[zip->count];
  *member = (struct zip_member){.header = out->length};
  int length = snprintf(member->name, sizeof member->name, "%s%s", name, ending);
  out->cut = out->cut || length < 0 || (size_t)length >= sizeof member->name;
  size_t end = out->length + LOCAL_BYTES + strlen(member->name) + LARGE_BYTES + ALIGN_BYTES;
  size_t padding = (ZIP_ALIGNMENT - end % ZIP_ALIGNMENT) % ZIP_ALIGNMENT;
  text_append(out, "PK\3\4", 4);
  put_common(out, member, LIMIT);
  bytes_put(out, LARGE_BYTES + ALIGN_BYTES + padding, 2);
  text_put(out, member->name);
  bytes_put(out, LARGE, 2);
  bytes_put(out, LARGE_BYTES - 4, 2);
  bytes_put(out, 0, 8);
  bytes_put(out, 0, 8);
  bytes_put(out, ALIGN, 2);
  bytes_put(out, ALIGN_BYTES - 4 + padding, 2);
  bytes_put(out, ZIP_ALIGNMENT, 2);
  bytes_zero(out, padding);
  member->data = out->length;
}

static uint32_t sum_up(struct vx_stop *stop, const char *data, size_t bytes) {
  uLong crc = 0;
  for (size_t more; (more = vx_stride_bytes(stop, bytes)) > 0; data += more, bytes -= more)
    crc = crc32_z(crc, (const Bytef *)data, more);
  return (uint32_t)crc;
}

void zip_close(struct zip *zip) {
  struct text *out = zip->out;
  struct zip_member *member = &zip->members[zip->count++];
  member->bytes = out->length - member->data;
  if (!text_complete(out)) return;
  member->crc = sum_up(zip->stop, out->data + member->data, member->bytes);
  size_t sizes = member->header + LOCAL_BYTES + strlen(member->name) + 4;
  bytes_patch(out, member->header + CRC_AT, member->crc, 4);
  bytes_patch(out, sizes, member->bytes, 8);
  bytes_patch(out, sizes + 8, member->bytes, 8);
}

static void put_entry(struct text *out, const struct zip_member *member) {
  bool large = member->bytes >= LIMIT, far = member->header >= LIMIT;
  int extra = 16 * large + 8 * far;
  text_append(out, "PK\1\2", 4);
  bytes_put(out, MADE_BY, 2);
  put_common(out, member, short_of(member->bytes));
  bytes_put(out, extra ? 4 + (uint64_t)extra : 0, 2);
  bytes_zero(out, 6);  // comment, disk, internal attributes
  bytes_put(out, (uint64_t)READABLE << 16, 4);
  bytes_put(out, short_of(member->header), 4);
  text_put(out, member->name);
  if (!extra) return;
  bytes_put(out, LARGE, 2);
  bytes_put(out, (uint64_t)extra, 2);
  if (large) bytes_put(out, member->bytes, 8);
  if (large) bytes_put(out, member->bytes, 8);
  if (far) bytes_put(out, member->header, 8);
}

// For a directory beyond the first 4 GiB.
static void put_far_end(struct text *out, uint64_t count, uint64_t directory, uint64_t bytes) {
  uint64_t here = out->length;
  text_append(out, "PK\6\6", 4);
  bytes_put(out, 44, 8);  // bytes that follow
  bytes_put(out, MADE_BY, 2);
  bytes_put(out, VERSION, 2);
  bytes_zero(out, 8);  // disks
  bytes_put(out, count, 8);
  bytes_put(out, count, 8);
  bytes_put(out, bytes, 8);
  bytes_put(out, directory, 8);
  text_append(out, "PK\6\7", 4);
  bytes_put(out, 0, 4);
  bytes_put(out, here, 8);
  bytes_put(out, 1, 4);
}

void zip_end(struct zip *zip) {
  struct text *out = zip->out;
  uint64_t directory = out->length, count = (uint64_t)zip->count;
  for (int i = 0; i < zip->count; i++) put_entry(out, &zip->members[i]);
  uint64_t bytes = out->length - directory;
  if (directory >= LIMIT) put_far_end(out, count, directory, bytes);
  text_append(out, "PK\5\6", 4);
  bytes_put(out, 0, 4);
  bytes_put(out, count, 2);
  bytes_put(out, count, 2);
  bytes_put(out, bytes, 4);
  bytes_put(out, short_of(directory), 4);
  bytes_put(out, 0, 2);
}
