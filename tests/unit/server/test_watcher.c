// The watcher, over socket pairs and with a moved clock.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/net/connections.h"
#include "server/net/peer.h"
#include "tests/support/moved_clock.h"

enum { MOST = 8, RATE = 1000, UPLOAD_S = 60, IDLE_S = 30, SEND_S = 20, ANSWER = 65536 };

static const struct options options = {
    .idle_timeout_s = IDLE_S, .upload_timeout_s = UPLOAD_S, .send_timeout_s = SEND_S, .upload_min_rate = RATE};
static struct watcher watcher;
static struct clients clients, page_clients;
static struct trace trace;
static sem_t ticked;
static atomic_llong ticked_ns;

static void on_tick(void *cls, int64_t now_ns) {
  (void)cls;
  atomic_store(&ticked_ns, now_ns);
  sem_post(&ticked);
}

// Moves the clock, and waits until the watcher has checked all connections.
static void pass_ms(int64_t ms) {
  clock_move_ms(ms);
  int64_t now_ns = clock_ns();
  while (atomic_load(&ticked_ns) < now_ns)
    while (sem_wait(&ticked) != 0) assert_int_equal(errno, EINTR);
}

static int open_watcher(void **state) {
  (void)state;
  struct error error;
  const int64_t most[SHARES] = {[SHARE_CONNECTIONS] = MOST, [SHARE_LINGERING] = 4};
  trace_begin(&trace, NULL);
  if (sem_init(&ticked, 0, 0) != 0 || !clients_init(&clients, 2 * MOST, most)) return -1;
  if (!clients_init(&page_clients, 2 * MOST, most)) return -1;
  if (!watcher_start(&watcher, &options, &clients, &page_clients, on_tick, NULL, &error)) return -1;
  do {  // until the watcher's thread, which may start late, has noticed a move of the clock
    clock_move_ms(WATCHER_TICK_MS);
    (void)poll(NULL, 0, 1);
  } while (sem_trywait(&ticked) != 0);
  return 0;
}

static int close_watcher(void **state) {
  (void)state;
  watcher_stop(&watcher);
  watcher_end(&watcher);
  struct clients_use use = clients_use(&clients), page_use = clients_use(&page_clients);
  clients_end(&clients);
  clients_end(&page_clients);
  sem_destroy(&ticked);
  return page_use.present == 0 && use.present == 0 && use.held[SHARE_LINGERING] == 0 && use.held[SHARE_CONNECTIONS] == 0
             ? 0
             : -1;
}

// ---- connections ----------------------------------------------------------------------------------------------------

struct end {
  int fd;
  struct peer *peer;
};

static struct end connect_at(struct listener_group *group, const char *address, bool proxy) {
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  struct end end = {pair[0], connection_opened(&watcher, group, pair[1], address, proxy, NULL)};
  assert_non_null(end.peer);
  return end;
}

static struct end connect_as(const char *address, bool proxy) { return connect_at(&watcher.group, address, proxy); }

// As libmicrohttpd closes the server's end.
static void close_here(struct end *end) {
  int fd = end->peer->fd;
  connection_closed(&watcher, end->peer);
  close(fd);
}

static void close_both(struct end *end) {
  close_here(end);
  close(end->fd);
}

static void begin_upload(struct end *end) {
  assert_true(peer_upload_begin(end->peer, "r1", PROBLEM_STYLE_HTTP, &trace, true, clock_ns()));
}

// What the client can receive now; NULL at the end.
static const char *seen(struct end *end) {
  static char text[4096];
  ssize_t got = recv(end->fd, text, sizeof text - 1, MSG_DONTWAIT);
  text[got > 0 ? got : 0] = '\0';
  return got == 0 ? NULL : text;
}

static int64_t ended(enum peer_end reason) { return atomic_load(&watcher.ended[reason]); }

// ---- uploads --------------------------------------------------------------------------------------------------------

static void an_upload_has_five_seconds_of_grace(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  pass_ms(5000);
  assert_false(peer_is_failed(end.peer));
  pass_ms(1000);
  assert_true(peer_is_failed(end.peer));
  assert_non_null(strstr(seen(&end), "408 Request Timeout"));
  close_both(&end);
}

static void an_upload_that_was_preempted_ends(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  assert_true(peer_move(end.peer, PEER_UPLOAD, PEER_PREEMPTED));
  pass_ms(50);
  assert_true(peer_is_failed(end.peer));
  const char *answer = seen(&end);
  assert_non_null(strstr(answer, "503 Service Unavailable"));
  assert_non_null(strstr(answer, PREEMPTED));
  close_both(&end);
  assert_int_equal(ended(PEER_END_PREEMPTED), 1);
}

static void the_rate_counts_from_the_end_of_the_grace(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  atomic_fetch_add(&end.peer->upload.bytes, RATE);
  pass_ms(6000);  // RATE bytes in one second after the grace
  assert_false(peer_is_failed(end.peer));
  atomic_fetch_add(&end.peer->upload.bytes, RATE);
  pass_ms(1000);
  assert_false(peer_is_failed(end.peer));
  pass_ms(50);
  assert_true(peer_is_failed(end.peer));
  assert_non_null(strstr(seen(&end), "upload_min_rate"));
  close_both(&end);
}

static void a_fast_upload_ends_at_its_time_limit(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  atomic_fetch_add(&end.peer->upload.bytes, 1000 * RATE);
  pass_ms(UPLOAD_S * 1000);
  assert_false(peer_is_failed(end.peer));
  pass_ms(50);
  assert_true(peer_is_failed(end.peer));
  assert_non_null(strstr(seen(&end), "upload_timeout_s"));
  close_both(&end);
}

static void a_body_that_is_not_read_is_not_late(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  peer_upload_hold(end.peer);
  pass_ms(2 * UPLOAD_S * 1000);
  assert_false(peer_is_failed(end.peer));
  assert_true(connection_go_on(&watcher, end.peer));
  pass_ms(5000);
  assert_false(peer_is_failed(end.peer));
  close_both(&end);
}

// ---- lingering closes -----------------------------------------------------------------------------------------------

static int64_t lingering(const struct client *client) { return client_held(&clients, client, SHARE_LINGERING); }

// A connection that lingers. Returns its client.
static struct client *linger(struct end *end, enum error_kind failure) {
  *end = connect_as("192.0.2.1", false);
  struct client *client = clients_acquire(&clients, "", "192.0.2.1");
  begin_upload(end);
  if (failure)
    connection_fail(&watcher, end->peer, failure, "over");
  else
    connection_linger(&watcher, end->peer);
  close_here(end);
  assert_int_equal(lingering(client), 1);
  return client;
}

static void leave(struct end *end, struct client *client) {
  close(end->fd);
  pass_ms(50);
  assert_int_equal(lingering(client), 0);
  clients_release(&clients, client);
}

static void send_some(struct end *end) {
  char bytes[1000] = {0};
  assert_int_equal(send(end->fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL), sizeof bytes);
}

static void a_close_lingers_while_its_client_sends(void **state) {
  (void)state;
  struct end end;
  struct client *client = linger(&end, ERROR_NONE);
  for (int i = 0; i < 9; i++) {
    pass_ms(500);  // the client sends after every other pause
    assert_int_equal(lingering(client), 1);
    if (i % 2) send_some(&end);
  }
  leave(&end, client);
}

static void a_close_lingers_five_seconds_at_most(void **state) {
  (void)state;
  struct end end;
  struct client *client = linger(&end, ERROR_NONE);
  pass_ms(5000);
  assert_int_equal(lingering(client), 1);
  pass_ms(50);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
}

// The server has shut the reading side, so an end of file does not mean that the client left.
static void a_close_lingers_if_the_server_shut_the_reading_side(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  struct client *client = clients_acquire(&clients, "", "192.0.2.1");
  begin_upload(&end);
  pass_ms(UPLOAD_S * 1000 + 50);
  assert_true(peer_is_failed(end.peer));
  close_here(&end);
  pass_ms(1000);
  assert_int_equal(lingering(client), 1);
  pass_ms(50);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
}

static void a_lingering_close_ends_with_its_client(void **state) {
  (void)state;
  struct end end;
  struct client *client = linger(&end, ERROR_BODY_TOO_LARGE);
  assert_int_equal(shutdown(end.fd, SHUT_WR), 0);
  pass_ms(50);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
}

static void a_lingering_close_reads_up_to_its_limit(void **state) {
  (void)state;
  struct end end;
  struct client *client = linger(&end, ERROR_NONE);
  lock_acquire(&watcher.lock);
  watcher.lingering[0].bytes_left = 1500;
  lock_release(&watcher.lock);
  send_some(&end);
  pass_ms(50);
  assert_int_equal(lingering(client), 1);
  send_some(&end);
  pass_ms(50);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
}

static void a_lingering_close_shows_its_client_the_end(void **state) {
  (void)state;
  struct end end;
  struct client *client = linger(&end, ERROR_NONE);
  char byte;
  assert_int_equal(recv(end.fd, &byte, 1, MSG_DONTWAIT), 0);
  leave(&end, client);
}

// The client has read nothing of the answer.
static struct client *answer(struct end *end) {
  *end = connect_as("192.0.2.1", false);
  end->peer->asked = true;
  assert_int_equal(send(end->peer->fd, "answer", 6, MSG_DONTWAIT | MSG_NOSIGNAL), 6);
  return clients_acquire(&clients, "", "192.0.2.1");
}

static void a_close_lingers_while_an_answer_is_on_its_way(void **state) {
  (void)state;
  struct end end;
  struct client *client = answer(&end);
  close_here(&end);
  assert_int_equal(lingering(client), 1);
  assert_string_equal(seen(&end), "answer");
  leave(&end, client);
}

static void a_close_lingers_if_bytes_are_unread(void **state) {
  (void)state;
  struct end end;
  struct client *client = answer(&end);
  assert_string_equal(seen(&end), "answer");
  send_some(&end);
  close_here(&end);
  assert_int_equal(lingering(client), 1);
  leave(&end, client);
}

static void a_close_does_not_linger_if_no_answer_can_be_lost(void **state) {
  (void)state;
  struct end end;
  struct client *client = answer(&end);  // the client has read the answer
  assert_string_equal(seen(&end), "answer");
  close_here(&end);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
  client = answer(&end);  // the client has left
  assert_int_equal(shutdown(end.fd, SHUT_WR), 0);
  close_here(&end);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
  client = answer(&end);  // the client did not take the answer in time
  end.peer->cut = PEER_END_SEND_TIMEOUT;
  close_here(&end);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
}

// No descriptor is free for the lingering close.
static void a_close_that_cannot_linger_holds_nothing(void **state) {
  (void)state;
  struct rlimit files, none;
  struct end end = connect_as("192.0.2.1", false);
  struct client *client = clients_acquire(&clients, "", "192.0.2.1");
  connection_linger(&watcher, end.peer);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
  none = files;
  none.rlim_cur = 0;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  close_here(&end);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
  assert_int_equal(lingering(client), 0);
  leave(&end, client);
}

// ---- making room ----------------------------------------------------------------------------------------------------

enum { SHARE = MOST / 2 };  // the connections that a lone client may have

static bool is_ended(struct end *end) { return peer_is_failed(end->peer) && !seen(end); }

static bool is_proxy(const char *address) { return strcmp(address, "192.0.2.9") == 0; }

static const char *other_address(int index) {
  static char address[32];
  snprintf(address, sizeof address, "198.51.100.%d", index);
  return address;
}

static struct end connect_idle(const char *address, int64_t idle_ms) {
  struct end end = connect_as(address, is_proxy(address));
  assert_false(peer_is_failed(end.peer));
  atomic_store(&end.peer->since_ns, clock_ns() - idle_ms * NS_PER_MS);
  return end;
}

static void connections_for_pages_have_a_group_of_their_own(void **state) {
  (void)state;
  struct end end[SHARE + 1], page[SHARE + 1];
  for (int i = 0; i <= SHARE; i++) end[i] = connect_as("192.0.2.1", false);
  for (int i = 0; i <= SHARE; i++) {  // page 0 is idle for 2 s, so it makes room
    page[i] = connect_at(&watcher.page_group, "192.0.2.1", false);
    assert_false(peer_is_failed(page[i].peer));
    atomic_store(&page[i].peer->since_ns, clock_ns() - (i == 0 ? 2 * NS_PER_S : 0));
  }
  assert_true(peer_is_failed(page[0].peer));
  for (int i = 0; i <= SHARE; i++) assert_int_equal(peer_is_failed(end[i].peer), i == SHARE);
  for (int i = 0; i <= SHARE; i++) {
    close_both(&end[i]);
    close_both(&page[i]);
  }
}

static void the_longest_idle_makes_room(void **state) {
  (void)state;
  static const int64_t idle_ms[SHARE] = {2000, 1500, 9000, 3000};
  struct end end[SHARE];
  for (int i = 0; i < SHARE; i++) end[i] = connect_idle("192.0.2.1", idle_ms[i]);
  struct end next = connect_idle("192.0.2.1", 0);  // the client already had its whole share
  for (int i = 0; i < SHARE; i++) assert_int_equal(is_ended(&end[i]), idle_ms[i] == 9000);
  for (int i = 0; i < SHARE; i++) close_both(&end[i]);
  assert_int_equal(ended(PEER_END_MADE_ROOM), 1);
  close_both(&next);
}

// If the server is full, the client with the most connections loses its longest idle connection.
static void the_client_with_the_most_makes_room_for_others(void **state) {
  (void)state;
  static const char *const address[MOST] = {"192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.1",
                                            "192.0.2.2", "192.0.2.2", "192.0.2.3", "192.0.2.4"};
  static const int64_t idle_ms[MOST] = {1200, 1400, 1300, 1100, 9000, 9000, 9000, 9000};
  struct end end[MOST];
  for (int i = 0; i < MOST; i++) end[i] = connect_idle(address[i], idle_ms[i]);
  for (int i = 0; i < MOST; i++) assert_false(peer_is_failed(end[i].peer));
  struct end next = connect_idle("192.0.2.5", 0);
  for (int i = 0; i < MOST; i++) assert_int_equal(is_ended(&end[i]), idle_ms[i] == 1400);
  for (int i = 0; i < MOST; i++) close_both(&end[i]);
  close_both(&next);
}

static void ask(struct end *end) { assert_int_equal(send(end->fd, "GET", 3, 0), 3); }

// Of the three connections idle for longest, two have unread requests. The third, which is at an end of file, ends.
static void an_unread_request_makes_no_room(void **state) {
  (void)state;
  static const int64_t idle_ms[SHARE] = {9000, 8000, 1500, 7000};
  struct end end[SHARE];
  char first[4];
  for (int i = 0; i < SHARE; i++) end[i] = connect_idle("192.0.2.1", idle_ms[i]);
  ask(&end[0]);
  ask(&end[1]);
  assert_int_equal(shutdown(end[3].fd, SHUT_WR), 0);
  struct end next = connect_idle("192.0.2.1", 0);
  for (int i = 0; i < SHARE; i++) assert_int_equal(peer_is_failed(end[i].peer), i == 3);
  assert_int_equal(recv(end[0].peer->fd, first, sizeof first, MSG_DONTWAIT), 3);  // the request is still unread
  for (int i = 0; i < SHARE; i++) close_both(&end[i]);
  close_both(&next);
}

// All idle connections have unread requests: the server reads late. So the upload may only seem slow, and does not end.
static void no_connection_ends_while_requests_are_unread(void **state) {
  (void)state;
  struct end end[MOST];
  for (int i = 0; i < MOST - 1; i++) end[i] = connect_idle(i < 2 ? "192.0.2.9" : other_address(i), 2000);
  for (int i = 0; i < MOST - 1; i++) ask(&end[i]);
  end[MOST - 1] = connect_as("198.51.100.99", false);
  begin_upload(&end[MOST - 1]);
  pass_ms(2000);  // the upload is slow
  for (int i = 0; i < MOST - 1; i++) atomic_store(&end[i].peer->since_ns, clock_ns() - 2 * NS_PER_S);
  struct end refused = connect_as("192.0.2.2", false);
  assert_true(peer_is_failed(refused.peer));
  for (int i = 0; i < MOST; i++) assert_false(peer_is_failed(end[i].peer));
  close_both(&refused);
  for (int i = 0; i < MOST; i++) close_both(&end[i]);
}

static void a_connection_that_was_just_used_makes_no_room(void **state) {
  (void)state;
  struct end end[SHARE];
  for (int i = 0; i < SHARE; i++) end[i] = connect_idle("192.0.2.1", 999);
  struct end next = connect_as("192.0.2.1", false);
  for (int i = 0; i < SHARE; i++) assert_false(peer_is_failed(end[i].peer));
  assert_true(peer_is_failed(next.peer));
  assert_non_null(strstr(seen(&next), "429 Too Many Requests"));
  close_both(&next);
  assert_int_equal(ended(PEER_END_OVER_SHARE), 1);
  pass_ms(100);  // after a vain search, the watcher waits 100 ms
  next = connect_idle("192.0.2.1", 0);
  for (int i = 0; i < SHARE; i++) close_both(&end[i]);
  assert_int_equal(ended(PEER_END_MADE_ROOM), 1);
  close_both(&next);
}

static void a_proxy_may_have_more_but_not_all(void **state) {
  (void)state;
  struct end end[MOST];
  for (int i = 0; i < MOST; i++) {
    end[i] = connect_as("192.0.2.9", true);
    assert_int_equal(peer_is_failed(end[i].peer), i >= MOST - MOST / 8);
  }
  struct end other = connect_idle("192.0.2.1", 0);
  for (int i = 0; i < MOST; i++) close_both(&end[i]);
  close_both(&other);
}

// A refused connection stays open until its client has sent a request. At most REFUSED_PEERS refused connections stay
// open.
static void refused_connections_are_bounded(void **state) {
  (void)state;
  static struct end refused[REFUSED_PEERS + 1];
  struct end end[SHARE];
  for (int i = 0; i < SHARE; i++) end[i] = connect_idle("192.0.2.1", 0);
  for (int round = 0; round < 2; round++) {  // closed connections make room for the second round
    for (int i = 0; i <= REFUSED_PEERS; i++) {
      refused[i] = connect_as("192.0.2.1", false);
      assert_non_null(strstr(seen(&refused[i]), "429 Too Many Requests"));
      assert_int_equal(!seen(&refused[i]), i == REFUSED_PEERS);
    }
    for (int i = 0; i <= REFUSED_PEERS; i++) close_both(&refused[i]);
  }
  for (int i = 0; i < SHARE; i++) close_both(&end[i]);
  assert_int_equal(ended(PEER_END_OVER_SHARE), 2 * (REFUSED_PEERS + 1));
}

static void a_connection_without_a_slot_is_turned_away(void **state) {
  (void)state;
  struct client *client[5 * MOST];
  int pair[2], count = 0;
  assert_null(connection_opened(&watcher, &watcher.group, -1, "192.0.2.1", false, NULL));
  assert_null(connection_opened(&watcher, &watcher.group, (int)watcher.peer_count, "192.0.2.1", false, NULL));
  assert_int_equal(ended(PEER_END_NO_ROOM), 2);
  while (count < 5 * MOST && (client[count] = clients_acquire(&clients, "", other_address(count)))) count++;
  assert_true(count < 5 * MOST);  // the client table is full
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  assert_null(connection_opened(&watcher, &watcher.group, pair[1], "192.0.2.1", false, NULL));
  assert_int_equal(ended(PEER_END_NO_ROOM), 3);
  assert_int_equal(close(pair[0]) | close(pair[1]), 0);
  while (count > 0) clients_release(&clients, client[--count]);
}

static void a_closed_connection_is_not_ended_again(void **state) {
  (void)state;
  struct end gone = connect_as("192.0.2.1", false), end = connect_as("192.0.2.2", false);
  int fd = gone.peer->fd;
  connection_closed(&watcher, gone.peer);  // the descriptor's number may be reused now
  connections_end_all(&watcher);
  assert_string_equal(seen(&gone), "");
  assert_null(seen(&end));
  assert_int_equal(close(fd) | close(gone.fd), 0);
  close_both(&end);
  struct end late = connect_as("192.0.2.2", false);
  assert_null(seen(&late));
  close_both(&late);
}

static void no_tick(void *cls, int64_t now_ns) { (void)cls, (void)now_ns; }

static void there_is_a_slot_for_each_descriptor(void **state) {
  (void)state;
  struct watcher other;
  struct rlimit files, few;
  struct error error;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
  few = files;
  few.rlim_cur = 200;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
  assert_true(watcher_start(&other, &options, &clients, &page_clients, no_tick, NULL, &error));
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
  assert_int_equal(other.peer_count, 200);
  watcher_stop(&other);
  watcher_end(&other);
}

// ---- time limits of other phases ------------------------------------------------------------------------------------

static void an_idle_connection_ends_after_its_time(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  pass_ms(IDLE_S * 1000);
  assert_string_equal(seen(&end), "");
  assert_int_equal(recv(end.peer->fd, &(char){0}, 1, MSG_DONTWAIT), -1);
  pass_ms(50);
  assert_int_equal(recv(end.peer->fd, &(char){0}, 1, MSG_DONTWAIT), 0);  // the library reads an end of file
  close_both(&end);
  assert_int_equal(ended(PEER_END_IDLE_TIMEOUT), 1);
}

static void an_answer_that_is_not_taken_ends(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  assert_true(peer_upload_end(end.peer));
  pass_ms(10 * SEND_S * 1000);  // send_timeout_s does not apply to a running job
  assert_true(peer_move(end.peer, PEER_WHOLE, PEER_REPLY));
  atomic_store(&end.peer->since_ns, clock_ns());
  pass_ms(SEND_S * 1000);
  assert_string_equal(seen(&end), "");
  pass_ms(50);
  assert_null(seen(&end));
  close_both(&end);
  assert_int_equal(ended(PEER_END_SEND_TIMEOUT), 1);
}

static void an_answer_that_rests_is_not_late(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  assert_true(peer_upload_end(end.peer));
  peer_reply_begin(end.peer, 0, clock_ns());
  peer_reply_rest(end.peer);
  pass_ms(10 * (SEND_S + IDLE_S) * 1000);
  assert_string_equal(seen(&end), "");
  peer_reply_go_on(end.peer, clock_ns());
  pass_ms(SEND_S * 1000);
  assert_string_equal(seen(&end), "");
  pass_ms(50);
  assert_null(seen(&end));
  close_both(&end);
  assert_int_equal(ended(PEER_END_SEND_TIMEOUT), 1);
}

static struct end answer_slowly(const char *address) {
  struct end end = connect_as(address, false);
  begin_upload(&end);
  assert_true(peer_upload_end(end.peer));
  peer_reply_begin(end.peer, ANSWER, clock_ns());
  return end;
}

static int swap_descriptor(struct peer *peer, int fd) {
  lock_acquire(&watcher.lock);
  int before = peer->fd;
  peer->fd = fd;
  lock_release(&watcher.lock);
  return before;
}

// The client `gone` has left, unnoticed by the library. The first call ends the answers of `gone` and `slow`. Their
// memory is not free yet, but the second call counts it, and so ends no other answer.
static void answers_end_until_enough_memory_comes_back(void **state) {
  (void)state;
  struct end gone = answer_slowly("192.0.2.1");
  pass_ms(1000);
  struct end slow = answer_slowly("192.0.2.2"), spared = answer_slowly("192.0.2.3");
  pass_ms(3000);
  int fd = swap_descriptor(gone.peer, -1);  // shutdown fails, as after a reset
  connections_end_slow_answers(&watcher, 2 * ANSWER, clock_ns());
  (void)swap_descriptor(gone.peer, fd);
  assert_int_equal(slow.peer->cut, PEER_END_PREEMPTED);
  connections_end_slow_answers(&watcher, 2 * ANSWER, clock_ns());  // the two ended answers give back enough
  assert_int_equal(spared.peer->cut, PEER_END_USUAL);
  assert_null(seen(&slow));
  close_both(&gone);
  close_both(&slow);
  close_both(&spared);
}

static void a_slow_answer_makes_room_for_a_connection(void **state) {
  (void)state;
  struct end slow = answer_slowly("192.0.2.1");
  pass_ms(3000);
  lock_acquire(&watcher.lock);
  struct peer *ended = connections_end_slowest(&watcher, slow.peer->group, NULL, clock_ns());
  lock_release(&watcher.lock);
  assert_ptr_equal(ended, slow.peer);
  assert_int_equal(slow.peer->cut, PEER_END_PREEMPTED);
  assert_null(seen(&slow));
  close_both(&slow);
}

static void the_slowest_makes_room_if_none_is_idle(void **state) {
  (void)state;
  struct end slow = answer_slowly("192.0.2.1"), end[MOST - 1];
  pass_ms(3000);
  for (int i = 0; i < MOST - 1; i++) end[i] = connect_idle(other_address(i), 0);
  struct end next = connect_as("192.0.2.2", false);
  assert_false(peer_is_failed(next.peer));
  assert_int_equal(slow.peer->cut, PEER_END_PREEMPTED);
  for (int i = 0; i < MOST - 1; i++) {
    assert_false(peer_is_failed(end[i].peer));
    close_both(&end[i]);
  }
  close_both(&slow);
  close_both(&next);
}

static void a_client_that_has_half_closed_is_probed(void **state) {
  (void)state;
  struct end end = connect_as("192.0.2.1", false);
  begin_upload(&end);
  assert_true(peer_upload_end(end.peer));
  pass_ms(50);
  assert_string_equal(seen(&end), "");
  assert_int_equal(shutdown(end.fd, SHUT_WR), 0);
  for (int i = 0; i < 100 && !*seen(&end); i++) pass_ms(50);  // the event may come one tick later
  for (int i = 0; i < 5; i++) {
    pass_ms(50);
    assert_string_equal(seen(&end), "");
  }
  assert_true(end.peer->probed);
  close_both(&end);
}

#define WATCHED(test) cmocka_unit_test_setup_teardown(test, open_watcher, close_watcher)

int main(void) {
  const struct CMUnitTest tests[] = {
      WATCHED(an_upload_has_five_seconds_of_grace),
      WATCHED(an_upload_that_was_preempted_ends),
      WATCHED(the_rate_counts_from_the_end_of_the_grace),
      WATCHED(a_fast_upload_ends_at_its_time_limit),
      WATCHED(a_body_that_is_not_read_is_not_late),
      WATCHED(a_close_lingers_while_its_client_sends),
      WATCHED(a_close_lingers_five_seconds_at_most),
      WATCHED(a_close_lingers_if_the_server_shut_the_reading_side),
      WATCHED(a_lingering_close_ends_with_its_client),
      WATCHED(a_lingering_close_reads_up_to_its_limit),
      WATCHED(a_lingering_close_shows_its_client_the_end),
      WATCHED(a_close_lingers_while_an_answer_is_on_its_way),
      WATCHED(a_close_lingers_if_bytes_are_unread),
      WATCHED(a_close_does_not_linger_if_no_answer_can_be_lost),
      WATCHED(a_close_that_cannot_linger_holds_nothing),
      WATCHED(connections_for_pages_have_a_group_of_their_own),
      WATCHED(the_longest_idle_makes_room),
      WATCHED(the_client_with_the_most_makes_room_for_others),
      WATCHED(an_unread_request_makes_no_room),
      WATCHED(no_connection_ends_while_requests_are_unread),
      WATCHED(a_connection_that_was_just_used_makes_no_room),
      WATCHED(a_proxy_may_have_more_but_not_all),
      WATCHED(refused_connections_are_bounded),
      WATCHED(a_connection_without_a_slot_is_turned_away),
      WATCHED(a_closed_connection_is_not_ended_again),
      WATCHED(there_is_a_slot_for_each_descriptor),
      WATCHED(an_idle_connection_ends_after_its_time),
      WATCHED(an_answer_that_is_not_taken_ends),
      WATCHED(an_answer_that_rests_is_not_late),
      WATCHED(answers_end_until_enough_memory_comes_back),
      WATCHED(a_slow_answer_makes_room_for_a_connection),
      WATCHED(the_slowest_makes_room_if_none_is_idle),
      WATCHED(a_client_that_has_half_closed_is_probed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
