// Writes zip archives of stored members, as numpy's npz is one (PKWARE's APPNOTE.TXT, 4.3 and 4.5.3).
//
// The bytes follow from the members alone: every time is 1980-01-01. Sizes have 64 bits wherever they need them. Any
// thread; nothing here allocates.
#ifndef VOXELD_ZIP_H
#define VOXELD_ZIP_H

#include "api/base/text.h"
#include "kernels/stop.h"

enum { ZIP_MEMBERS = 64, ZIP_ALIGNMENT = 64 };

struct zip {
  struct text *out;      // from its beginning; one that only measures will do
  struct vx_stop *stop;  // the archive is then incomplete
  int count;
  struct zip_member {
    char name[48];
    uint32_t crc;
    size_t header, data, bytes;  // where its header and its data begin; of the data
  } members[ZIP_MEMBERS];
};

void zip_begin(struct zip *zip, struct text *out, struct vx_stop *stop);
// What is appended to `out` from here on is the member's data. It begins on a multiple of ZIP_ALIGNMENT bytes of the
// file. There are at most ZIP_MEMBERS.
void zip_open(struct zip *zip, const char *name, const char *ending);
// The member ends here.
void zip_close(struct zip *zip);
// Writes the directory; the archive ends here.
void zip_end(struct zip *zip);

#endif
