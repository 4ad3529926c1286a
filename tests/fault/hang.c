// A library for LD_PRELOAD: opening the file $VOXELD_HANG hangs, as on a network mount that does not answer. The call
// creates the folder $VOXELD_HANG.opened for the test, then hangs until $VOXELD_HANG.answers exists. Any thread.
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int open(const char *file, int oflag, ...) {
  const char *hanging = getenv("VOXELD_HANG");
  if (hanging && strcmp(file, hanging) == 0) {
    char mark[4096];
    snprintf(mark, sizeof mark, "%s.opened", file);
    (void)mkdir(mark, 0700);
    snprintf(mark, sizeof mark, "%s.answers", file);
    while (access(mark, F_OK) != 0) usleep(1000);
  }
  va_list rest;
  va_start(rest, oflag);
  mode_t mode = oflag & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return (int)syscall(SYS_openat, AT_FDCWD, file, oflag, mode);
}
