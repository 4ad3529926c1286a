// Whole files: which are read, and which are refused with which reason.
#include "api/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[32], path[64];
static struct file file;
static struct error error;
static int next_fd;  // the next descriptor if none has leaked

static int unused_fd(void) {
  int fd = dup(STDERR_FILENO);
  if (fd >= 0) close(fd);
  return fd;
}

static int enter(void **state) {
  (void)state;
  strcpy(folder, "/tmp/voxeld-file-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/it", folder);
  next_fd = unused_fd();
  return 0;
}

static int leave(void **state) {
  (void)state;
  file_release(&file);
  if (unlink(path) != 0) (void)rmdir(path);
  (void)rmdir(folder);
  return unused_fd() == next_fd ? 0 : -1;
}

static void write_file(const char *text) {
  FILE *stream = fopen(path, "w");
  assert_non_null(stream);
  fputs(text, stream);
  fclose(stream);
}

static void refused(const char *reason) {
  assert_false(file_read("thing", path, 4, &file, &error));
  assert_null(file.bytes);
  char expected[128];
  snprintf(expected, sizeof expected, "thing %s: %s", path, reason);
  assert_string_equal(error.text, expected);
}

static void up_to_the_bound_is_read(void **state) {
  (void)state;
  static const char *const texts[] = {"", "a", "abcd"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    write_file(texts[i]);
    assert_true(file_read("thing", path, 4, &file, &error));
    assert_int_equal(file.size, strlen(texts[i]));
    assert_memory_equal(file.bytes, texts[i], file.size);
    file_release(&file);
    assert_null(file.bytes);
  }
  write_file("abcde");
  refused("it has more than 4 bytes");
}

static void a_file_that_others_may_read_is_reported(void **state) {
  (void)state;
  write_file("abc");
  for (unsigned mode = 0600; mode <= 0604; mode += 4) {
    assert_int_equal(chmod(path, mode), 0);
    assert_true(file_read("thing", path, 4, &file, &error));
    assert_int_equal(file.exposed, mode == 0604);
    file_release(&file);
  }
}

static void a_link_leads_to_its_file(void **state) {
  (void)state;
  char other[64];
  snprintf(other, sizeof other, "%s/other", folder);
  write_file("abc");
  assert_int_equal(rename(path, other), 0);
  assert_int_equal(symlink("other", path), 0);
  assert_true(file_read("thing", path, 4, &file, &error));
  assert_int_equal(file.size, 3);
  unlink(other);
}

static void a_link_to_itself_is_refused(void **state) {
  (void)state;
  assert_int_equal(symlink("it", path), 0);
  refused("Too many levels of symbolic links");
}

static void a_link_to_an_endless_device_is_refused(void **state) {
  (void)state;
  assert_int_equal(symlink("/dev/zero", path), 0);
  refused("it is not a regular file");
}

static void a_fifo_is_refused(void **state) {
  (void)state;
  assert_int_equal(mkfifo(path, 0600), 0);
  refused("it is not a regular file");
}

static void a_socket_is_refused(void **state) {
  (void)state;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  strcpy(name.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
  refused("No such device or address");
  close(fd);
}

static void a_directory_is_refused(void **state) {
  (void)state;
  assert_int_equal(mkdir(path, 0700), 0);
  refused("it is not a regular file");
}

static void a_missing_file_is_refused(void **state) {
  (void)state;
  refused("No such file or directory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(up_to_the_bound_is_read, enter, leave),
      cmocka_unit_test_setup_teardown(a_file_that_others_may_read_is_reported, enter, leave),
      cmocka_unit_test_setup_teardown(a_link_leads_to_its_file, enter, leave),
      cmocka_unit_test_setup_teardown(a_link_to_itself_is_refused, enter, leave),
      cmocka_unit_test_setup_teardown(a_link_to_an_endless_device_is_refused, enter, leave),
      cmocka_unit_test_setup_teardown(a_fifo_is_refused, enter, leave),
      cmocka_unit_test_setup_teardown(a_socket_is_refused, enter, leave),
      cmocka_unit_test_setup_teardown(a_directory_is_refused, enter, leave),
      cmocka_unit_test_setup_teardown(a_missing_file_is_refused, enter, leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
