// What the supervisor is told, and that nothing follows the word of the stop.
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

#include "server/base/notify.h"

static int supervisor;

// Binds an abstract name of this process.
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

// The next message, or "".
static const char *told(void) {
  static char message[4096];
  ssize_t size = recv(supervisor, message, sizeof message - 1, MSG_DONTWAIT);
  message[size > 0 ? size : 0] = '\0';
  return message;
}

static void a_reload_that_ends_after_the_stop_began_is_not_told(void **state) {
  (void)state;
  notify_supervisor("READY=1\nSTATUS=listening on %s", "here");
  assert_string_equal(told(), "READY=1\nSTATUS=listening on here");
  notify_supervisor("RELOADING=1");
  assert_string_equal(told(), "RELOADING=1");
  notify_stopping();
  assert_string_equal(told(), "STOPPING=1\nSTATUS=draining");
  notify_supervisor("READY=1");
  assert_string_equal(told(), "");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_reload_that_ends_after_the_stop_began_is_not_told)};
  return cmocka_run_group_tests(tests, open_supervisor, close_supervisor);
}
