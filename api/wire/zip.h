// Writes zip archives of members without compression, such as numpy's npz (PKWARE's APPNOTE.TXT, 4.3 and 4.5.3).
//
// The bytes depend only on the members: every time is 1980-01-01. The header of a member always has 64-bit sizes, the
// directory only where they are needed. Any thread; nothing here allocates.
#ifndef VOXELD_ZIP_H
#define VOXELD_ZIP_H

#include "api/base/text.h"
#include "kernels/stop.h"

enum { ZIP_MEMBERS = 64, ZIP_ALIGNMENT = 64 };

struct zip {
  struct text *out;      // the archive, from its beginning; may only measure
  struct vx_stop *stop;  // if stopped, the archive is incomplete
  int count;
  struct zip_member {
    char name[48];
    uint32_t crc;
    size_t header, data, bytes;  // offsets of the header and of the data; bytes of the data
  } members[ZIP_MEMBERS];
};

void zip_begin(struct zip *zip, struct text *out, struct vx_stop *stop);
// Begins a member. Bytes appended to `out` from now on are its data, which begins on a multiple of ZIP_ALIGNMENT bytes
// of the file. An archive has at most ZIP_MEMBERS members.
void zip_open(struct zip *zip, const char *name, const char *ending);
// Ends the member.
void zip_close(struct zip *zip);
// Writes the directory, which ends the archive.
void zip_end(struct zip *zip);

#endif
