// Messages to the supervisor.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/base.h"
#include "tests/support/logged.h"

static int supervisor;

// The supervisor's socket has an abstract name.
static int open_supervisor(void **state) {
  (void)state;
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  char name[64];
  int length = snprintf(name, sizeof name, "@voxeld-test-notify-%ld", (long)getpid());
  memcpy(at.sun_path + 1, name + 1, (size_t)length - 1);
  supervisor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (supervisor < 0 || setenv("NOTIFY_SOCKET", name, 1) != 0) return -1;
  socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
  return bind(supervisor, (const struct sockaddr *)&at, size);
}

static int close_supervisor(void **state) {
  (void)state;
  return close(supervisor);
}

// The next message, without NULs; "": none.
static const char *told(void) {
  static char message[4096];
  ssize_t size = recv(supervisor, message, sizeof message - 1, MSG_DONTWAIT);
  message[size > 0 ? size : 0] = '\0';
  assert_int_equal(strlen(message), size > 0 ? size : 0);
  return message;
}

// The log lines about a message to the socket `path`.
static const char *said(const char *path) {
  if (path ? setenv("NOTIFY_SOCKET", path, 1) : unsetenv("NOTIFY_SOCKET")) return "no environment";
  notify_supervisor("READY=1");
  return logged();
}

static void without_a_supervisor_nothing_is_said(void **state) {
  (void)state;
  char name[128], long_path[110] = "/tmp/", abstract[64];
  snprintf(name, sizeof name, "%s", getenv("NOTIFY_SOCKET"));
  memset(long_path + strlen(long_path), 'a', sizeof long_path - 1 - strlen(long_path));
  long_path[108] = '\0';
  snprintf(abstract, sizeof abstract, "@voxeld-test-nobody-%ld", (long)getpid());
  assert_true(logged_begin());
  const char *const none[] = {NULL, "", "/", "@", "relative/path", "vsock:2:1", long_path};
  const char *const gone[] = {"/nowhere/socket", abstract};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) assert_string_equal(said(none[i]), "");
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
    assert_non_null(strstr(said(gone[i]), "level=warning msg=\"the supervisor could not be notified\" reason=\""));
  long_path[107] = '\0';  // the longest path that fits
  assert_non_null(strstr(said(long_path), "reason=\"No such file or directory\""));
  assert_string_equal(said(name), "");
  assert_string_equal(told(), "READY=1");
  assert_string_equal(told(), "");
  assert_true(logged_end());
}

static void a_long_message_is_cut(void **state) {
  (void)state;
  char status[4000];
  memset(status, 'x', sizeof status - 1);
  status[sizeof status - 1] = '\0';
  for (int length = 2046; length <= 2049; length++) {
    notify_supervisor("%.*s", length, status);
    assert_int_equal(strlen(told()), length < 2047 ? length : 2047);
  }
}

static void a_reload_that_ends_after_the_stop_began_is_not_reported(void **state) {
  (void)state;
  notify_supervisor("READY=1\nSTATUS=listening on %s", "here");
  assert_string_equal(told(), "READY=1\nSTATUS=listening on here");
  notify_supervisor("RELOADING=1");
  assert_string_equal(told(), "RELOADING=1");
  notify_supervisor("STOPPING=1\nSTATUS=draining");
  assert_string_equal(told(), "STOPPING=1\nSTATUS=draining");
  notify_supervisor("READY=1");
  assert_string_equal(told(), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(without_a_supervisor_nothing_is_said),
                                     cmocka_unit_test(a_long_message_is_cut),
                                     cmocka_unit_test(a_reload_that_ends_after_the_stop_began_is_not_reported)};
  return cmocka_run_group_tests(tests, open_supervisor, close_supervisor);
}
