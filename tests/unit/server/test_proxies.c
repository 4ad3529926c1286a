// Trusted proxies, and the client that X-Forwarded-For names.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/config/proxies.h"

static void lists_are_read_or_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool good;
  } cases[] = {
      {"", true},
      {"192.0.2.1", true},
      {"192.0.2.1,10.0.0.0/8,2001:db8::/32,unix", true},
      {"0.0.0.0/0", true},
      {"::/0", true},
      {"::ffff:192.0.2.1", true},
      {"192.0.2.1,", false},
      {",192.0.2.1", false},
      {"192.0.2.1 ", false},
      {"10.0.0.0/33", false},
      {"10.0.0.0/", false},
      {"10.0.0.0/-1", false},
      {"10.0.0.0/8x", false},
      {"10.0.0.0/0008", false},
      {"2001:db8::/129", false},
      {"::ffff:192.0.2.1/96", false},
      {"proxy.example", false},
      {"10.0.0", false},
      {"unix:0", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct proxies proxies;
    print_message("'%s'\n", cases[i].text);
    assert_int_equal(proxies_read(cases[i].text, &proxies), cases[i].good);
  }
}

static void no_more_than_there_is_room_for(void **state) {
  (void)state;
  char text[PROXIES_MAX * 16] = "10.0.0.0";
  struct proxies proxies;
  for (int i = 1; i < PROXIES_MAX; i++) snprintf(text + strlen(text), sizeof text - strlen(text), ",10.0.0.%d", i);
  assert_true(proxies_read(text, &proxies));
  assert_int_equal(proxies.count, PROXIES_MAX);
  strcat(text, ",10.1.0.0");
  assert_false(proxies_read(text, &proxies));
}

static void addresses_are_of_the_list_or_not(void **state) {
  (void)state;
  static const struct {
    const char *list, *address;
    bool have;
  } cases[] = {
      {"", "127.0.0.1", false},
      {"127.0.0.1", "127.0.0.1", true},
      {"127.0.0.1", "127.0.0.2", false},
      {"127.0.0.0/8", "127.255.0.3", true},
      {"10.0.0.0/9", "10.127.0.0", true},
      {"10.0.0.0/9", "10.128.0.0", false},
      {"0.0.0.0/0", "203.0.113.9", true},
      {"0.0.0.0/0", "2001:db8::1", false},
      {"2001:db8::/33", "2001:db8:7fff::1", true},
      {"2001:db8::/33", "2001:db8:8000::1", false},
      {"::ffff:192.0.2.1", "192.0.2.1", true},
      {"127.0.0.1", "unix:1000", false},
      {"unix", "unix:1000", true},
      {"unix", "127.0.0.1", false},
      {"127.0.0.1", "", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct proxies proxies;
    assert_true(proxies_read(cases[i].list, &proxies));
    print_message("'%s' of '%s'\n", cases[i].address, cases[i].list);
    assert_int_equal(proxies_have(&proxies, cases[i].address), cases[i].have);
  }
}

static void the_last_that_is_no_proxy_is_the_client(void **state) {
  (void)state;
  static const struct {
    const char *forwarded, *client;  // NULL: no client
  } cases[] = {
      {"203.0.113.9", "203.0.113.9"},
      {" 203.0.113.9\t", "203.0.113.9"},
      {"192.0.2.7, 203.0.113.9", "203.0.113.9"},  // the client may have invented the entries before the last
      {"203.0.113.9, 10.0.0.1", "203.0.113.9"},   // two trusted proxies in a row
      {"203.0.113.9,10.0.0.1,10.0.0.2", "203.0.113.9"},
      {"10.0.0.3, 10.0.0.1", "10.0.0.3"},  // the client is a trusted proxy
      {"rubbish, 203.0.113.9", "203.0.113.9"},
      {"203.0.113.9:4711", "203.0.113.9"},
      {"2001:DB8:0::1", "2001:db8::1"},
      {"[2001:db8::1]", "2001:db8::1"},
      {"[2001:db8::1]:4711", "2001:db8::1"},
      {"::ffff:203.0.113.9", "203.0.113.9"},
      {"", NULL},
      {",", NULL},
      {"203.0.113.9,", NULL},
      {"rubbish, 10.0.0.1", NULL},
      {"unknown", NULL},
      {"203.0.113.9, unknown", NULL},
      {"[2001:db8::1", NULL},
      {"[2001:db8::1]x", NULL},
      {"203.0.113.9.203.0.113.9.203.0.113.9.203.0.113.9.203.0.113.9.203.0.113.9", NULL},
  };
  struct proxies proxies;
  assert_true(proxies_read("10.0.0.0/24", &proxies));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char client[ADDRESS_SIZE] = "as it was";
    print_message("'%s'\n", cases[i].forwarded);
    assert_int_equal(proxies_client(&proxies, &cases[i].forwarded, 1, client), cases[i].client != NULL);
    assert_string_equal(client, cases[i].client ? cases[i].client : "as it was");
  }
}

static void lines_are_one_list(void **state) {
  (void)state;
  const char *const lines[] = {"203.0.113.9", "203.0.113.10, 10.0.0.2", "10.0.0.3,10.0.0.1", "10.0.0.4"};
  struct proxies proxies;
  char client[ADDRESS_SIZE] = "as it was";
  assert_true(proxies_read("10.0.0.0/24", &proxies));
  assert_false(proxies_client(&proxies, lines, 0, client));
  assert_string_equal(client, "as it was");
  assert_true(proxies_client(&proxies, lines, 4, client));
  assert_string_equal(client, "203.0.113.10");
  assert_true(proxies_client(&proxies, lines, 1, client));
  assert_string_equal(client, "203.0.113.9");
  assert_true(proxies_client(&proxies, lines + 2, 2, client));  // all are proxies: the first is the client
  assert_string_equal(client, "10.0.0.3");
  const char *const broken[] = {"203.0.113.9", "rubbish", "10.0.0.1"};
  assert_false(proxies_client(&proxies, broken, 3, client));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_read_or_refused),
      cmocka_unit_test(no_more_than_there_is_room_for),
      cmocka_unit_test(addresses_are_of_the_list_or_not),
      cmocka_unit_test(the_last_that_is_no_proxy_is_the_client),
      cmocka_unit_test(lines_are_one_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
