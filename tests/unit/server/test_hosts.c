// Host headers, and requests from foreign pages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "server/config/hosts.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void the_option_is_a_list_of_names(void **state) {
  (void)state;
  static const char *const good[] = {"", "voxeld", "voxeld.example", "a,b-c.d_e,10.0.0.1"};
  static const char *const bad[] = {",", "a,", ",a", "a,,b", "a:80", "a b", "http://a", "*", "[::1]"};
  for (size_t i = 0; i < COUNT(good); i++) assert_true(hosts_are_sound(good[i]));
  for (size_t i = 0; i < COUNT(bad); i++) assert_false(hosts_are_sound(bad[i]));
  char name[257];
  memset(name, 'a', sizeof name - 1);
  name[256] = '\0';
  assert_false(hosts_are_sound(name));
  name[255] = '\0';
  assert_true(hosts_are_sound(name));
}

static void a_host_of_this_machine(void **state) {
  (void)state;
  static const char *const own[] = {"",           "127.0.0.1",      "127.0.0.1:8080",    "192.0.2.7:80", "[::1]",
                                    "[::1]:8080", "[2001:db8::1]",  "localhost",         "LocalHost:80", "localhost.",
                                    ":8080",      "page.localhost", "page.localhost:80", "localhost:",   "[::1]:"};
  static const char *const others[] = {"rebound.example",
                                       "rebound.example:8080",
                                       "localhost.example",
                                       "notlocalhost",
                                       "127.0.0.1.example",
                                       "[rebound.example]",
                                       "[::1.example]",
                                       ".",
                                       ".localhost",
                                       "127.0.0.1x",
                                       "0127.0.0.1.x",
                                       "[::1].rebound.example",
                                       "[::1]rebound.example",
                                       "[::1].",
                                       "[::1]:80.example",
                                       "[::1]:8080x",
                                       "[::1]:80:80",
                                       "[::1",
                                       "[",
                                       "[]",
                                       "[]:80",
                                       "[127.0.0.1]",
                                       "127.0.0.1:80.rebound.example",
                                       "127.0.0.1:http",
                                       "127.0.0.1:-1",
                                       "localhost:80.rebound.example",
                                       "localhost:rebound.example",
                                       "localhost:80:80",
                                       "localhost: 80",
                                       ":rebound.example",
                                       "page.localhost:x"};
  for (size_t i = 0; i < COUNT(own); i++) assert_true(host_is_own(own[i]));
  for (size_t i = 0; i < COUNT(others); i++) assert_false(host_is_own(others[i]));
  char long_name[300];
  memset(long_name, 'a', sizeof long_name - 1);
  long_name[299] = '\0';
  assert_false(host_is_own(long_name));
  long_name[0] = '[';
  assert_false(host_is_own(long_name));
}

static void the_machines_name_is_its_own(void **state) {
  (void)state;
  char name[300];
  assert_int_equal(gethostname(name, 256), 0);
  assert_true(host_is_own(name));
  strcat(name, ":8080");
  assert_true(host_is_own(name));
  strcat(name, "x");
  assert_false(host_is_own(name));
  strcpy(name + strlen(name) - strlen(":8080x"), "x");
  assert_false(host_is_own(name));
}

static void names_of_the_option(void **state) {
  (void)state;
  static const char list[] = "voxeld.example,Voxeld,a.b";
  static const char *const in[] = {"voxeld.example", "VOXELD.example:8080", "voxeld", "voxeld.", "a.b:1"};
  static const char *const out[] = {
      "voxeld.exampl",         "voxeld.example.com",        "x.voxeld.example", "a",       "b",    "a.bc", "",
      "voxeld.example,Voxeld", "voxeld:80.rebound.example", "voxeld:x",         "a.b:1:1", "[a.b]"};
  for (size_t i = 0; i < COUNT(in); i++) assert_true(hosts_have(list, in[i]));
  for (size_t i = 0; i < COUNT(out); i++) assert_false(hosts_have(list, out[i]));
  assert_false(hosts_have("", "voxeld"));
  assert_false(hosts_have("", ""));
}

static void a_page_of_another_origin(void **state) {
  (void)state;
  static const char host[] = "voxeld.example:8080";
  static const char *const own[] = {NULL, "http://voxeld.example:8080", "https://voxeld.example:8080",
                                    "HTTP://Voxeld.Example:8080"};
  static const char *const foreign[] = {"",
                                        "null",
                                        "http://",
                                        "https://",
                                        "http://rebound.example",
                                        "http://voxeld.example",
                                        "http://voxeld.example:80",
                                        "http://voxeld.example:8081",
                                        "http://voxeld.example:80808",
                                        "http://voxeld.example:8080/",
                                        "http://voxeld.example:8080.rebound.example",
                                        "http://x.voxeld.example:8080",
                                        "http://voxeld.example:8080, http://rebound.example",
                                        "http://voxeld.example:8080 http://rebound.example",
                                        "ftp://voxeld.example:8080",
                                        "chrome-extension://voxeld.example:8080",
                                        "voxeld.example:8080"};
  for (size_t i = 0; i < COUNT(own); i++) assert_false(page_is_foreign(own[i], NULL, host));
  for (size_t i = 0; i < COUNT(foreign); i++) assert_true(page_is_foreign(foreign[i], NULL, host));
  assert_false(page_is_foreign("http://[::1]:8080", NULL, "[::1]:8080"));
  assert_true(page_is_foreign("http://", NULL, ""));
  assert_true(page_is_foreign("http://rebound.example", NULL, ""));
}

static void a_browser_says_whose_page_asks(void **state) {
  (void)state;
  static const char origin[] = "http://localhost:8080", host[] = "localhost:8080";
  static const char *const own[] = {"same-origin", "none"};
  static const char *const foreign[] = {"cross-site", "same-site", "", "Same-Origin", "same-origin, cross-site", "x"};
  for (size_t i = 0; i < COUNT(own); i++) {
    assert_false(page_is_foreign(NULL, own[i], host));
    assert_false(page_is_foreign(origin, own[i], host));
    assert_true(page_is_foreign("http://localhost:9090", own[i], host));
  }
  for (size_t i = 0; i < COUNT(foreign); i++) {
    assert_true(page_is_foreign(NULL, foreign[i], host));
    assert_true(page_is_foreign(origin, foreign[i], host));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_option_is_a_list_of_names), cmocka_unit_test(a_host_of_this_machine),
      cmocka_unit_test(the_machines_name_is_its_own),  cmocka_unit_test(names_of_the_option),
      cmocka_unit_test(a_page_of_another_origin),      cmocka_unit_test(a_browser_says_whose_page_asks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
