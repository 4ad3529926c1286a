// Listeners: what is wrong with a list is told in words, and who is at the other end of a connection.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/listener.h"

static char error[256];

// Checks the list alone, as --check-config does.
static bool check(const char *list, bool may_expose) {
  struct listeners listeners = {.count = 0};
  const struct listen_rules rules = {.unix_mode = 0600, .may_expose = may_expose};
  error[0] = '\0';
  bool good = listeners_check(&listeners, list, &rules, error, sizeof error);
  listeners_close(&listeners);
  return good;
}

static void lists_are_checked(void **state) {
  (void)state;
  char long_path[128] = "unix:/tmp/";
  memset(long_path + strlen(long_path), 'a', 108 - strlen("/tmp/"));
  static const struct {
    const char *list, *reason;
  } bad[] = {{"unix:", "the path must have 1 to 107 bytes"},
             {"127.0.0.1:1,127.0.0.1:1", "127.0.0.1:1"},
             {"unix:/tmp/voxeld-none,unix:/tmp/voxeld-none", "unix:/tmp/voxeld-none"},
             {"127.0.0.1", "127.0.0.1"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(check(bad[i].list, false));
    if (!strstr(error, bad[i].reason)) fail_msg("no '%s' in '%s'", bad[i].reason, error);
  }
  assert_false(check(long_path, false));
  assert_non_null(strstr(error, "1 to 107 bytes"));
  long_path[strlen(long_path) - 1] = '\0';
  assert_true(check(long_path, false));
  assert_true(check("127.0.0.1:1,127.0.0.1:2,unix:/tmp/voxeld-none", false));
  assert_false(check("0.0.0.0:1", false));
  assert_true(check("0.0.0.0:1", true));
}

static void a_client_is_told_why_it_cannot_connect(void **state) {
  (void)state;
  bool tcp = false;
  error[0] = '\0';
  assert_int_equal(listener_connect("systemd", 1, &tcp, error, sizeof error), -1);
  assert_non_null(strstr(error, "systemd gives the address of its socket only to the service"));
  assert_int_equal(listener_connect("unix:/tmp/voxeld-none/there,127.0.0.1:1", 1, &tcp, error, sizeof error), -1);
  assert_false(tcp);
  assert_non_null(strstr(error, "unix:/tmp/voxeld-none/there: connect: No such file or directory"));
}

static void who_is_at_the_other_end(void **state) {
  (void)state;
  char address[ADDRESS_SIZE] = "x", expected[ADDRESS_SIZE];
  int ends[2];
  listener_peer(-1, address);
  assert_string_equal(address, "unknown");
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  listener_peer(ends[0], address);
  snprintf(expected, sizeof expected, "unix:%u", (unsigned)getuid());
  assert_string_equal(address, expected);
  assert_int_equal(close(ends[0]) | close(ends[1]), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_checked),
      cmocka_unit_test(a_client_is_told_why_it_cannot_connect),
      cmocka_unit_test(who_is_at_the_other_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
