// See file.h.
#include "api/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/text.h"

// Reads up to `most` + 1 bytes; if the last byte was read, the file is too large. False with errno.
static bool read_bytes(int fd, size_t most, struct file *file) {
  if (!(file->bytes = malloc(most + 1))) return false;
  ssize_t count = 1;
  while (count > 0 && file->size <= most) {
    count = read(fd, file->bytes + file->size, most + 1 - file->size);
    if (count > 0) file->size += (size_t)count;
  }
  return count >= 0;
}

bool file_read(const char *what, const char *path, size_t most, struct file *file, struct error *error) {
  *file = (struct file){NULL, 0, false};
  struct stat status;
  // O_NONBLOCK: otherwise opening a FIFO would wait for its writer. The flag has no effect on regular files.
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  bool opened = fd >= 0 && fstat(fd, &status) == 0, regular = opened && S_ISREG(status.st_mode);
  bool read = regular && read_bytes(fd, most, file);
  int code = errno;
  if (fd >= 0) close(fd);
  if (read && file->size <= most) {
    file->exposed = status.st_mode & S_IROTH;
    return true;
  }
  file_release(file);
  if (read) return error_set(error, "%s %s: it has more than %zu bytes", what, path, most);
  return error_set(error, "%s %s: %s", what, path, opened && !regular ? "it is not a regular file" : strerror(code));
}

void file_release(struct file *file) {
  if (file->bytes) explicit_bzero(file->bytes, file->size);
  free(file->bytes);
  *file = (struct file){NULL, 0, false};
}
