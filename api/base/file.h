// Reads whole files. Only regular files, and links to them, are read: a file of another kind could block its reader or
// never end. Any thread.
#ifndef VOXELD_FILE_H
#define VOXELD_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

struct file {
  char *bytes;
  size_t size;
  bool exposed;  // users other than the owner and the group may read it
};

// Reads a file of up to `most` bytes; file_release releases it. `what` names its purpose in errors. False with an error
// that names the path; `file` then holds nothing.
VX_WARN_UNUSED bool file_read(const char *what, const char *path, size_t most, struct file *file, struct error *error);
// Wipes the bytes, which may be secret, and frees them. Accepts a struct of zeros.
void file_release(struct file *file);

#endif
