// Writes zip archives without compression, such as numpy's npz (PKWARE's APPNOTE.TXT, 4.3 and 4.5.3). The bytes depend
// on the members alone: every time is 1980-01-01. Any thread; nothing here allocates.
#ifndef VOXELD_ZIP_H
#define VOXELD_ZIP_H

#include "api/base/text.h"
#include "kernels/stop.h"

enum { ZIP_MEMBERS = 64, ZIP_ALIGNMENT = 64 };

struct zip {
  struct text *out;      // has nothing but the archive; capacity 0 only measures it
  struct vx_stop *stop;  // if stopped, the archive is incomplete
  int count;
  struct zip_member {
    char name[48];
    uint32_t crc;
    size_t header, data, bytes;  // offsets of header and data; bytes of data
  } members[ZIP_MEMBERS];
};

void zip_begin(struct zip *zip, struct text *out, struct vx_stop *stop);
// Begins a member: bytes appended to `out` are its data, aligned to ZIP_ALIGNMENT in the file. At most ZIP_MEMBERS.
void zip_open(struct zip *zip, const char *name, const char *ending);
void zip_close(struct zip *zip);
// Writes the directory.
void zip_end(struct zip *zip);

#endif
