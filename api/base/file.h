// Whole files. Only regular files are read, and links to them: any other kind of file could block its reader, or never
// end. Any thread.
#ifndef VOXELD_FILE_H
#define VOXELD_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

struct file {
  char *bytes;
  size_t size;
  bool exposed;  // users beside the owner and the group may read it
};

// Reads a file of up to `most` bytes, for file_free. `what` is its purpose, as messages call it. False with a reason,
// which names the path; then nothing is held.
VX_WARN_UNUSED bool file_read(const char *what, const char *path, size_t most, struct file *file, struct error *error);
// Wipes the bytes, which may be secret, and frees them. A struct of zeros is fine.
void file_free(struct file *file);

#endif
