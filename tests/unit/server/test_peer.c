// One connection: its phases, the probe of its client, an error written past the library.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/peer.h"

static struct peer peer;
static int client_fd;
static struct trace trace;

static int open_peer(void **state) {
  int pair[2];
  (void)state;
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return -1;
  peer = (struct peer){.fd = pair[0]};
  client_fd = pair[1];
  trace_begin(&trace, NULL);
  return 0;
}

static int close_peer(void **state) {
  (void)state;
  return close(peer.fd) + close(client_fd);
}

// The bytes received since the last call.
static const char *written(void) {
  static char text[2 * PROBLEM_TEXT_SIZE];
  ssize_t got = recv(client_fd, text, sizeof text - 1, MSG_DONTWAIT);
  text[got > 0 ? got : 0] = '\0';
  assert_true(got <= 0 || strlen(text) == (size_t)got);
  return text;
}

static void take_request(bool takes_interim) {
  assert_true(peer_upload_begin(&peer, "r1", PROBLEM_STYLE_HTTP, &trace, takes_interim, 0));
  assert_true(peer_upload_end(&peer));
}

static void a_request_is_probed_once(void **state) {
  (void)state;
  for (int requests = 0; requests < 2; requests++) {
    take_request(true);
    peer_probe(&peer);
    assert_string_equal(written(), "HTTP/1.1 100 Continue\r\n\r\n");
    peer_probe(&peer);
    peer_probe(&peer);
    assert_string_equal(written(), "");
    peer_reply_end(&peer, 0);
  }
}

static void only_a_whole_request_is_probed(void **state) {
  (void)state;
  peer.takes_interim = true;
  for (int phase = PEER_IDLE; phase <= PEER_FAILED; phase++) {
    atomic_store(&peer.phase, phase);
    peer.probed = false;
    peer_probe(&peer);
    assert_int_equal(atomic_load(&peer.phase), phase);
    assert_int_equal(written()[0] != '\0', phase == PEER_WHOLE || phase == PEER_JOB);
  }
}

static void a_client_without_interim_answers_is_not_probed(void **state) {
  (void)state;
  take_request(false);
  peer_probe(&peer);
  assert_string_equal(written(), "");
  peer_reply_end(&peer, 0);
  take_request(true);
  peer.tls = (struct tls_session *)(void *)&peer;  // never dereferenced
  peer_probe(&peer);
  assert_string_equal(written(), "");
}

static void *end_probe(void *argument) {
  usleep(10000);
  return peer_move(argument, PEER_PROBED, PEER_JOB) ? argument : NULL;
}

static void a_reply_begins_after_the_probe(void **state) {
  (void)state;
  pthread_t watcher;
  void *ended;
  take_request(true);
  peer_job_begin(&peer);
  assert_true(peer_move(&peer, PEER_JOB, PEER_PROBED));
  assert_int_equal(pthread_create(&watcher, NULL, end_probe, &peer), 0);
  peer_reply_begin(&peer, 100, 7);
  assert_int_equal(pthread_join(watcher, &ended), 0);
  assert_non_null(ended);
  assert_int_equal(atomic_load(&peer.phase), PEER_REPLY);
  assert_int_equal(atomic_load(&peer.answer), 100);
  assert_int_equal(atomic_load(&peer.since_ns), 7);
}

static void an_answer_that_rests_is_not_late(void **state) {
  (void)state;
  take_request(true);
  peer_reply_begin(&peer, 0, 7);
  peer_reply_rest(&peer);
  assert_int_equal(atomic_load(&peer.phase), PEER_RESTING);
  peer_reply_go_on(&peer, 9);
  assert_int_equal(atomic_load(&peer.phase), PEER_REPLY);
  assert_int_equal(atomic_load(&peer.since_ns), 9);
  peer_reply_rest(&peer);
  peer_reply_end(&peer, 11);
  assert_int_equal(atomic_load(&peer.phase), PEER_IDLE);
  atomic_store(&peer.phase, PEER_FAILED);
  peer_reply_go_on(&peer, 13);
  assert_true(peer_is_failed(&peer));
}

static void each_upload_has_its_own_time(void **state) {
  (void)state;
  take_request(true);
  atomic_fetch_add(&peer.upload.bytes, 7);
  atomic_fetch_add(&peer.upload.bytes, 5);
  assert_int_equal(atomic_load(&peer.upload.bytes), 12);
  peer_reply_end(&peer, 0);
  assert_true(peer_upload_begin(&peer, "r2", PROBLEM_STYLE_HTTP, &trace, true, 77));
  assert_int_equal(atomic_load(&peer.since_ns), 77);
}

static void a_failed_upload_does_not_go_on(void **state) {
  (void)state;
  assert_true(peer_upload_begin(&peer, "r1", PROBLEM_STYLE_HTTP, &trace, true, 0));
  peer_upload_hold(&peer);
  assert_false(peer_move(&peer, PEER_UPLOAD, PEER_FAILED));  // no time limit ends a held upload
  assert_true(peer_move(&peer, PEER_HELD, PEER_UPLOAD));
  assert_true(peer_move(&peer, PEER_UPLOAD, PEER_FAILED));
  assert_true(peer_is_failed(&peer));
  assert_false(peer_upload_end(&peer));
  peer_job_begin(&peer);
  peer_reply_end(&peer, 0);
  assert_true(peer_is_failed(&peer));
}

// Another thread has taken the reservation of an upload without bytes, and moves the upload back.
static void *end_preemption(void *argument) {
  usleep(10000);
  return peer_move(argument, PEER_PREEMPTED, PEER_UPLOAD) ? argument : NULL;
}

static void an_upload_is_held_after_the_loss_of_its_reservation(void **state) {
  (void)state;
  pthread_t other;
  void *ended;
  assert_true(peer_upload_begin(&peer, "r1", PROBLEM_STYLE_HTTP, &trace, true, 0));
  assert_true(peer_move(&peer, PEER_UPLOAD, PEER_PREEMPTED));
  assert_int_equal(pthread_create(&other, NULL, end_preemption, &peer), 0);
  peer_upload_hold(&peer);
  assert_int_equal(pthread_join(other, &ended), 0);
  assert_non_null(ended);
  assert_int_equal(atomic_load(&peer.phase), PEER_HELD);
  assert_true(peer_move(&peer, PEER_HELD, PEER_PREEMPTED));
  atomic_store(&peer.upload.bytes, 1);
  peer_upload_hold(&peer);  // with bytes, an upload stays preempted, and will be refused
  assert_int_equal(atomic_load(&peer.phase), PEER_PREEMPTED);
}

static void an_error_past_the_library_is_a_whole_answer(void **state) {
  (void)state;
  assert_true(peer_upload_begin(&peer, "r1", PROBLEM_STYLE_HTTP, &trace, true, 0));
  peer_write_failure(&peer, ERROR_DRAINING, "the time is over");
  const char *answer = written(), *body = strstr(answer, "\r\n\r\n");
  assert_non_null(body);
  assert_ptr_equal(strstr(answer, "HTTP/1.1 503 Service Unavailable\r\n"), answer);
  assert_non_null(strstr(answer, "\r\nRetry-After: 1\r\n"));
  assert_non_null(strstr(answer, "\r\nX-Request-Id: r1\r\n"));
  assert_non_null(strstr(body, "\"detail\":\"the time is over\""));
  char length[64];
  snprintf(length, sizeof length, "\r\nContent-Length: %zu\r\n", strlen(body + 4));
  assert_non_null(strstr(answer, length));
  assert_int_equal(peer.failure, ERROR_DRAINING);
  assert_true(peer.linger);
}

static void an_error_of_any_length_is_a_whole_answer(void **state) {
  (void)state;
  char id[129] = "", detail[700] = "";
  memset(id, 'a', sizeof id - 1);
  memset(detail, '\x01', sizeof detail - 1);
  assert_true(peer_upload_begin(&peer, id, PROBLEM_STYLE_KSERVE, &trace, true, 0));
  peer_write_failure(&peer, ERROR_DRAINING, detail);
  const char *answer = written(), *body = strstr(answer, "\r\n\r\n");
  assert_non_null(body);
  char length[64];
  snprintf(length, sizeof length, "\r\nContent-Length: %zu\r\n", strlen(body + 4));
  assert_non_null(strstr(answer, length));
  assert_string_equal(answer + strlen(answer) - 4, "a\"}\n");
}

static void nothing_is_written_into_a_tls_stream(void **state) {
  (void)state;
  peer.tls = (struct tls_session *)(void *)&peer;
  peer_write_failure(&peer, ERROR_BODY_STALLED, "too slow");
  assert_string_equal(written(), "");
  assert_int_equal(peer.failure, ERROR_BODY_STALLED);
  assert_false(peer.linger);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_request_is_probed_once, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(only_a_whole_request_is_probed, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(a_client_without_interim_answers_is_not_probed, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(a_reply_begins_after_the_probe, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(an_answer_that_rests_is_not_late, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(each_upload_has_its_own_time, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(a_failed_upload_does_not_go_on, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(an_upload_is_held_after_the_loss_of_its_reservation, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(an_error_past_the_library_is_a_whole_answer, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(an_error_of_any_length_is_a_whole_answer, open_peer, close_peer),
      cmocka_unit_test_setup_teardown(nothing_is_written_into_a_tls_stream, open_peer, close_peer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
