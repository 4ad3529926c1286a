// Discarded bodies: their bytes count as received. A body of more than twice the limit ends its connection.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/http/http.h"
#include "server/http/request.h"

enum { LIMIT = 1000 };

static struct service service = {.options = {.max_body_bytes = LIMIT}};
static struct peer peer;
static struct request request;
static int client_fd;

static int open_request(void **state) {
  int pair[2];
  struct trace trace;
  (void)state;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return -1;
  client_fd = pair[1];
  lock_init(&service.watcher.lock);
  trace_begin(&trace, NULL);
  peer = (struct peer){.fd = pair[0]};
  request = (struct request){.service = &service, .peer = &peer, .body_bytes = -1};
  return peer_upload_begin(&peer, "r1", PROBLEM_STYLE_HTTP, &trace, true, 0) ? 0 : -1;
}

static int close_request(void **state) {
  (void)state;
  lock_end(&service.watcher.lock);
  return close(peer.fd) + close(client_fd);
}

static enum MHD_Result discard(size_t bytes) {
  size_t size = bytes;
  enum MHD_Result result = body_discard(&request, NULL, &size);
  assert_int_equal(size, 0);
  return result;
}

// Otherwise the upload of a refused request would end as too slow.
static void what_is_discarded_is_progress(void **state) {
  (void)state;
  assert_int_equal(discard(300), MHD_YES);
  assert_int_equal(atomic_load(&peer.upload.bytes), 300);
  assert_int_equal(discard(500), MHD_YES);
  assert_int_equal(atomic_load(&peer.upload.bytes), 800);
}

static void a_body_without_end_is_ended(void **state) {
  (void)state;
  char answer[2048] = "";
  assert_int_equal(discard(2 * LIMIT), MHD_YES);
  assert_false(peer_is_failed(&peer));
  assert_int_equal(discard(1), MHD_NO);
  assert_true(peer_is_failed(&peer));
  assert_true(recv(client_fd, answer, sizeof answer - 1, MSG_DONTWAIT) > 0);
  assert_non_null(strstr(answer, " 413 "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_is_discarded_is_progress, open_request, close_request),
      cmocka_unit_test_setup_teardown(a_body_without_end_is_ended, open_request, close_request),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
