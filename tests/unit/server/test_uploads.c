// Reservations of uploads. If memory or slots run out, the slowest upload is preempted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/jobs/held.h"
#include "server/jobs/run.h"
#include "server/net/connections.h"
#include "tests/support/job_room.h"
#include "tests/support/moved_clock.h"

enum { MB = 1 << 20, UPLOADS = 26, COME = 70000 };  // after COME bytes, an upload of 4 MB has all its memory

// Memory for four bodies of 4 MB. The last sixteenth of the memory is for clients that hold little.
static struct options options = {.workers = 1,
                                 .long_workers = 1,
                                 .queue_depth = 12,
                                 .max_response_bytes = 16 * MB,
                                 .memory_budget_bytes = 16 * MB + 8 * MB / 7};
static struct peer peers[UPLOADS];  // the server's ends of the sockets
static int ends[UPLOADS];           // the clients' ends
static struct job owns[UPLOADS];    // the uploads' jobs
static struct client *owners[UPLOADS];
static struct trace trace;
static struct error error;

static int open_room(void **state) {
  (void)state;
  open_job_room(&options);
  watcher.peers = peers;
  watcher.peers_used = UPLOADS;
  trace_begin(&trace, NULL);
  for (int i = 0; i < UPLOADS; i++) {
    char address[32];
    int pair[2];
    snprintf(address, sizeof address, "192.0.2.%d", i + 1);
    owners[i] = clients_acquire(&clients, "", address);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    peers[i] = (struct peer){.fd = pair[0], .open = true};
    ends[i] = pair[1];
  }
  return 0;
}

static int close_room(void **state) {
  (void)state;
  for (int i = 0; i < UPLOADS; i++) {
    if (owns[i].services) upload_release(&peers[i], &owns[i]);
    if (owns[i].services) job_release(&owns[i]);
    close(peers[i].fd);
    close(ends[i]);
  }
  for (int i = 0; i < UPLOADS; i++) pool_release(&owns[i].asked.pool);
  memset(owns, 0, sizeof owns);
  for (int i = 0; i < UPLOADS; i++) clients_release(&clients, owners[i]);
  (void)close_job_room(NULL);
  return 0;
}

static bool is_preempted(int index) { return atomic_load(&peers[index].phase) == PEER_PREEMPTED; }

// The number of preempted uploads of this client; NULL: of all clients.
static int preempted_of(const struct client *owner) {
  int count = 0;
  for (int i = 0; i < UPLOADS; i++)
    count += is_preempted(i) && (!owner || atomic_load(&peers[i].upload.client) == owner);
  return count;
}

static void assert_preempted(int count) { assert_int_equal(preempted_of(NULL), count); }

static const struct buffer *input(int index) { return peers[index].upload.input; }

// Begins upload `index`, whose headers have come. Each upload has its own client.
static bool announce_op(int index, enum vx_op op, size_t bytes) {
  struct job *job = &owns[index];
  job_init(job, &jobs.services);
  job->client = owners[index];
  job->spec.gone = &gone;
  job_request_init(&job->asked, op);
  if (op == VX_FPS) assert_true(job_request_set(&job->asked, "num_samples", 11, "8", 1, &error));
  if (op != VX_VOXELIZE && !job_request_finish(&job->asked, &error)) fail_msg("%s", error.text);
  return upload_begin(&peers[index], job, bytes, &error) &&
         peer_upload_begin(&peers[index], "r", PROBLEM_STYLE_HTTP, &trace, true, clock_ns());
}

static bool announce(int index, size_t bytes) { return announce_op(index, VX_VOXELIZE, bytes); }

static bool receive_text(int index, const char *data, size_t bytes) {
  atomic_fetch_add(&peers[index].upload.bytes, bytes);
  return upload_write(&peers[index], &owns[index], data, bytes, &error);
}

static bool receive(int index, size_t bytes) {
  static const char zeros[8 * MB];
  return receive_text(index, zeros, bytes);
}

static bool commit(int index) {
  return upload_commit(&peers[index], &owns[index], &error) && peer_upload_end(&peers[index]);
}

static void resume(int index) { assert_true(connection_go_on(&watcher, &peers[index])); }

// Moves the clock, and notes the rates every 50 ms.
static void pass_ms(int ms) {
  for (; ms > 0; ms -= 50) {
    clock_move_ms(50);
    for (int i = 0; i < UPLOADS; i++) peer_note_rate(&peers[i], clock_ns());
  }
}

// Begins uploads `first` to `last` of 4 MB, which receive `come` bytes each.
static void fill(int first, int last, size_t come) {
  for (int i = first; i <= last; i++) {
    assert_true(announce(i, 4 * MB));
    if (come) assert_true(receive(i, come));
  }
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static void an_upload_without_bytes_loses_its_memory_silently(void **state) {
  (void)state;
  assert_true(announce(0, 4 * MB) && announce(1, 4 * MB));
  for (int i = 2; i < 4; i++) assert_true(announce(i, 4 * MB) && receive(i, 4 * MB));
  pass_ms(100);  // two bodies are whole, two have sent nothing
  assert_true(announce(4, 4 * MB) && receive(4, 4 * MB));
  assert_preempted(0);
  assert_int_equal((input(0) != NULL) + (input(1) != NULL), 1);
  assert_true(receive(input(0) ? 1 : 0, 4 * MB));  // the upload without memory takes the memory of the other
  assert_preempted(0);
}

static void memory_follows_the_bytes_once_half_is_in_use(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) assert_true(announce(i, 4 * MB));
  assert_int_equal(input(2)->capacity, 4 * MB);
  assert_true(announce(3, 4 * MB));
  assert_null(input(3));
  assert_true(receive(3, 1));
  assert_int_equal(input(3)->capacity, 65536);
  peers[3].upload.input->data[0] = 42;
  assert_true(receive(3, 4095));
  assert_int_equal(input(3)->capacity, 262144);
  assert_true(receive(3, 65536));
  assert_int_equal(input(3)->capacity, 4 * MB);
  assert_int_equal(input(3)->data[0], 42);
}

static void slowest_gives_up_and_is_told(void **state) {
  (void)state;
  fill(0, 3, COME);
  for (int i = 0; i < 10; i++) {
    pass_ms(100);
    for (int upload = 0; upload < 4; upload++) assert_true(receive(upload, upload == 2 ? 1000 : 20000));
  }
  assert_true(announce(4, 2 * MB));
  assert_true(receive(4, 1 * MB));
  assert_preempted(1);
  assert_true(is_preempted(2));
  assert_null(input(2));
  assert_false(atomic_load(&peers[2].upload.slot_reserved));
  assert_false(receive(2, 1000));
  assert_int_equal(error.kind, ERROR_MEMORY_FULL);
  assert_int_equal(atomic_load(&jobs.uploads.preempted), 1);
}

static void one_that_was_preempted_cannot_commit(void **state) {
  (void)state;
  fill(0, 3, COME);
  pass_ms(1000);
  assert_true(announce(4, 4 * MB) && receive(4, 4 * MB));
  for (int i = 0; i < 4; i++) {
    bool preempted = is_preempted(i);
    assert_int_equal(commit(i), !preempted);
  }
}

static void fast_paused_and_whole_are_not_preempted(void **state) {
  (void)state;
  fill(0, 3, 3 * MB);
  pass_ms(100);
  assert_true(receive(0, 900000));  // 9 MB a second
  peer_upload_hold(&peers[1]);
  peer_upload_hold(&peers[2]);
  assert_true(receive(3, MB) && commit(3));
  pass_ms(300);
  assert_false(announce(4, 4 * MB));
  assert_int_equal(error.kind, ERROR_MEMORY_FULL);
  assert_preempted(0);
  pass_ms(3000);  // upload 0 has sent nothing since, so it is slow
  assert_true(announce(4, 4 * MB) && receive(4, 4 * MB) && commit(4));
  assert_true(is_preempted(0));
  assert_false(announce(5, 4 * MB));
  for (int i = 1; i < 3; i++) resume(i);
  assert_false(announce(5, 4 * MB));  // a resumed upload is not slow yet
  pass_ms(3000);
  assert_true(announce(5, 4 * MB) && receive(5, 4 * MB));
  assert_true(is_preempted(1) || is_preempted(2));
}

static void an_upload_that_slows_down_is_preempted(void **state) {
  (void)state;
  fill(0, 3, 3 * MB);
  assert_false(announce(4, 4 * MB));
  for (int i = 0; i < 20; i++) {
    pass_ms(50);
    for (int upload = 0; upload < 4; upload++) assert_true(receive(upload, 1000));
  }
  pass_ms(50);
  assert_true(announce(4, 4 * MB) && receive(4, 4 * MB));
  assert_preempted(1);
}

// A busy server reads late: three of four uploads that seem slow have unread bytes.
static void an_upload_that_waits_for_the_server_is_not_preempted(void **state) {
  (void)state;
  fill(0, 3, 100000);
  for (int i = 0; i < 3; i++) assert_int_equal(write(ends[i], "unread", 6), 6);
  pass_ms(5000);
  assert_true(announce(4, 4 * MB) && receive(4, 4 * MB));
  assert_preempted(1);
  assert_true(is_preempted(3));
  assert_false(announce(5, 4 * MB));
}

static void a_slower_upload_preempts_no_faster_one(void **state) {
  (void)state;
  fill(0, 3, 100000);
  for (int i = 0; i < 20; i++) {
    pass_ms(50);
    for (int upload = 0; upload < 4; upload++) assert_true(receive(upload, 50000));  // 1 MB a second
  }
  assert_true(announce(4, 4 * MB));
  assert_false(receive(4, 5000));
  assert_int_equal(error.kind, ERROR_MEMORY_FULL);
  assert_preempted(0);
  assert_true(atomic_load(&jobs.uploads.refused));
}

// Three clients hold 4 MB each. A fourth holds 1 MB and sends 200 KB a second.
static void a_client_that_holds_less_loses_only_a_slow_upload_to_a_flood(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) assert_true(announce(i, 4 * MB) && receive(i, 4 * MB) && commit(i));
  assert_true(announce(3, MB));
  for (int i = 0; i < 20; i++) {
    assert_true(receive(3, 10000));
    pass_ms(50);
  }
  assert_false(announce(4, 4 * MB) && receive(4, 4 * MB));
  assert_int_equal(error.kind, ERROR_MEMORY_FULL);
  assert_preempted(0);
  pass_ms(2000);
  assert_int_equal(send(ends[3], "x", 1, 0), 1);  // a byte that the server does not read
  assert_false(announce(4, 4 * MB) && receive(4, 4 * MB));
  assert_int_equal(recv(peers[3].fd, &(char){0}, 1, 0), 1);  // no unread byte is left: the client is slow
  assert_true(announce(4, 4 * MB) && receive(4, 4 * MB));
  assert_true(is_preempted(3));
}

static void answer_takes_what_an_upload_does_not_fill(void **state) {
  (void)state;
  fill(0, 3, COME);
  pass_ms(1000);
  struct job *job = &owns[4];
  job_init(job, &jobs.services);
  job->client = owners[4];
  assert_true(job_acquire_output(job, 3 * MB));
  assert_int_equal(error.kind, ERROR_NONE);
  assert_preempted(1);
  assert_true(job_acquire_scratch(job, 4 * MB));
  assert_preempted(2);
  job_release_scratch(job);
  job_release_buffer(&job->held.output);
}

static void slots_are_reserved_by_lanes(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) assert_true(announce_op(i, VX_FPS, 1000) && receive(i, 10));
  for (int i = 12; i < 23; i++) assert_true(announce(i, 1000) && receive(i, 10));
  pass_ms(3000);
  assert_true(announce_op(23, VX_FPS, 1000) && receive(23, 1000));
  assert_preempted(1);
  for (int i = 12; i < 23; i++) assert_false(is_preempted(i));
  assert_true(announce(24, 1000) && receive(24, 1000));
  assert_preempted(1);  // a queue slot was free
  assert_true(announce(25, 1000) && receive(25, 1000));
  assert_preempted(2);
  int quick = 0;
  for (int i = 12; i < 23; i++) quick += is_preempted(i);
  assert_int_equal(quick, 1);
}

static void samplings_preempt_only_samplings(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) assert_true(announce_op(i, VX_FPS, 4 * MB) && receive(i, 1000));
  assert_true(announce(2, 2 * MB) && receive(2, 10));  // a voxelization, slower than both samplings
  pass_ms(3000);
  assert_true(announce_op(3, VX_FPS, 4 * MB) && receive(3, 4 * MB));
  assert_preempted(1);
  assert_true(is_preempted(0) || is_preempted(1));
}

// Like `announce`, but for the client of upload `owner`.
static bool announce_of(int owner, int index, size_t bytes) {
  struct client *own = owners[index];
  owners[index] = owners[owner];
  bool begun = announce(index, bytes);
  owners[index] = own;
  return begun;
}

static void a_flood_preempts_no_client_that_holds_less(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) assert_true(announce_of(0, i, 4 * MB) && receive(i, 4 * MB) && commit(i));
  assert_true(announce(2, MB) && receive(2, COME));  // slow; 7 MB stay free
  pass_ms(3000);
  assert_false(announce_of(0, 3, 4 * MB));
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  struct job *answer = &owns[4];
  job_init(answer, &jobs.services);
  answer->client = owners[0];
  assert_false(job_acquire_output(answer, 4 * MB));
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  assert_preempted(0);
  assert_true(announce(5, MB) && receive(5, MB));  // another client has room
  assert_preempted(0);
}

static void a_client_over_its_share_preempts_clients_that_hold_more(void **state) {
  (void)state;
  fill(0, 2, COME);
  assert_true(announce(3, 65536) && receive(3, 65536));
  pass_ms(3000);
  assert_true(announce_of(3, 4, 4 * MB) && receive(4, 4 * MB));
  assert_preempted(1);
  assert_false(is_preempted(3));
}

// A client holds a third of the slots with uploads that have just begun. Its next request gets no slot.
static void upload_that_has_begun_is_not_ended_by_its_own_client(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) assert_true(announce(i, 1000) && receive(i, 1000));
  for (int i = 4; i < 8; i++) assert_true(announce_of(4, i, MB) && receive(i, 10));
  pass_ms(20);
  assert_false(announce_of(4, 8, MB));
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  pass_ms(600);  // their rates are known to be slow now
  assert_true(announce_of(4, 8, MB) && receive(8, COME));
  assert_preempted(1);
  assert_int_equal(preempted_of(owners[4]), 1);
}

// The memory is used up. Three clients send 800 KB a second. A fourth client's upload has just begun, so it seems
// slower; this client's second upload must not preempt the others.
static void others_do_not_pay_for_an_upload_that_has_begun(void **state) {
  (void)state;
  fill(0, 2, COME);
  for (int i = 0; i < 20; i++) {
    pass_ms(50);
    for (int upload = 0; upload < 3; upload++) assert_true(receive(upload, 40000));
  }
  fill(3, 3, COME);
  pass_ms(300);
  assert_false(announce_of(3, 4, 2 * MB) && receive(4, 2 * MB));
  assert_preempted(0);
}

static void whole_body_comes_before_uploads_that_have_begun(void **state) {
  (void)state;
  assert_true(announce_of(0, 0, 2 * MB) && receive(0, 2 * MB) && commit(0));
  for (int i = 1; i < 4; i++) assert_true(announce_of(0, i, 2 * MB) && receive(i, 1000));
  pass_ms(100);
  assert_true(job_acquire_output(&owns[0], MB));
  assert_preempted(1);
  assert_int_equal(preempted_of(owners[0]), 1);
}

static void an_upload_without_bytes_makes_room_for_its_own_client(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) assert_true(announce_of(0, i, 2 * MB));
  assert_true(announce_of(0, 4, 2 * MB) && receive(4, 2 * MB));
  assert_preempted(0);
}

// 5 MB are free. Growing from 2 MB to 4 MB would need 6 MB if both buffers were held at once.
static void growing_memory_fits_beside_what_it_replaces(void **state) {
  (void)state;
  static const int parts[] = {4, 4, 2, 1};
  for (int i = 0; i < 4; i++)
    assert_true(announce(i, (size_t)parts[i] * MB) && receive(i, (size_t)parts[i] * MB) && commit(i));
  assert_true(announce(4, 4 * MB) && receive(4, 30000));
  assert_true(receive(4, 4 * MB - 30000));
  assert_true(commit(4));
}

// An upload without bytes loses its queue slot to others, unless its I/O thread has locked the upload.
static void a_locked_upload_is_not_preempted(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) assert_true(announce(i, 1000));
  pass_ms(3000);
  for (int i = 0; i < 12; i++) assert_true(peer_move(&peers[i], PEER_UPLOAD, PEER_LOCKED));
  assert_false(announce(12, 1000));
  assert_int_equal(error.kind, ERROR_QUEUE_FULL);
  assert_true(peer_move(&peers[5], PEER_LOCKED, PEER_UPLOAD));
  peer_upload_hold(&peers[5]);
  assert_int_equal(write(ends[5], "unread", 6), 6);  // the body of an upload at the gate stays in the socket
  assert_true(announce(12, 1000) && receive(12, 1000));
  assert_preempted(0);
  assert_false(atomic_load(&peers[5].upload.slot_reserved));
}

static void empty_body_takes_its_slot_at_the_end(void **state) {
  (void)state;
  for (int i = 0; i < 12; i++) assert_true(announce(i, 1000) && receive(i, 10));
  pass_ms(3000);
  assert_true(announce(12, 0));
  assert_false(atomic_load(&peers[12].upload.slot_reserved));
  assert_true(commit(12));
  assert_int_equal(owns[12].held.queue_slot, SHARE_JOBS);
  assert_preempted(1);
}

// A job with `latest` acquires its slot when it is submitted, since an older job with this `latest` may hold the
// client's last slot.
static void an_upload_for_the_latest_reserves_no_slot(void **state) {
  (void)state;
  enum vx_lane_use use = VX_LANE_QUICK;
  struct shortage shortage;
  int taken = 0;
  while (queue_slot_acquire(&clients, owners[0], use, &shortage, &error)) taken++;
  assert_false(announce(0, COME));
  assert_true(job_request_set(&owns[0].asked, "latest", 6, "a", 1, &error));
  assert_true(upload_begin(&peers[0], &owns[0], COME, &error) &&
              peer_upload_begin(&peers[0], "r", PROBLEM_STYLE_HTTP, &trace, true, clock_ns()));
  assert_true(receive(0, COME) && !atomic_load(&peers[0].upload.slot_reserved));
  assert_int_equal(client_held(&clients, owners[0], SHARE_JOBS), taken);
  assert_true(commit(0));
  assert_int_equal(owns[0].held.queue_slot, SHARES);
  for (; taken > 0; taken--) share_release(&clients, owners[0], SHARE_JOBS, 1);
}

static void rate_is_of_this_window_or_the_one_before(void **state) {
  (void)state;
  struct pace pace;
  pace_begin(&pace, 0, 0);
  assert_int_equal(pace_rate(&pace, 1000, 0), 20000);  // the rate is taken over at least 50 ms
  assert_int_equal(pace_rate(&pace, 1000, 100 * NS_PER_MS), 10000);
  pace_note(&pace, 1000, 499 * NS_PER_MS);
  assert_int_equal(pace.since_ns, 0);
  pace_note(&pace, 1000, 500 * NS_PER_MS);
  assert_int_equal(pace_rate(&pace, 1000, 600 * NS_PER_MS), 2000);   // the rate of the window before
  assert_int_equal(pace_rate(&pace, 2000, 600 * NS_PER_MS), 10000);  // the rate of this window
  pace_note(&pace, 1000, 1000 * NS_PER_MS);
  assert_int_equal(pace_rate(&pace, 1000, 1100 * NS_PER_MS), 0);
}

// ---- the job --------------------------------------------------------------------------------------------------------

static void job_gets_slot_and_body(void **state) {
  (void)state;
  assert_true(announce(0, 8) && receive_text(0, "voxe", 4) && receive_text(0, "lise", 4) && commit(0));
  assert_int_equal(owns[0].held.queue_slot, SHARE_JOBS);
  assert_int_equal(owns[0].held.body_bytes, 8);
  assert_memory_equal(job_body(&owns[0]), "voxelise", 8);
  upload_release(&peers[0], &owns[0]);  // does nothing: the job has the reservation
  assert_int_equal(owns[0].held.queue_slot, SHARE_JOBS);
}

static int64_t held(enum share share) { return client_held(&clients, owners[0], share); }

// The number of boxes decides the lanes, which may change when the body is opened.
static void slot_is_given_back_where_it_was_taken(void **state) {
  (void)state;
  static int32_t boxes = 3000;
  struct job *job = &owns[0];
  assert_true(announce_op(0, VX_NMS, 0) && receive(0, 1000) && commit(0));
  assert_int_equal(held(SHARE_JOBS), 1);
  job->asked.job.num_clouds = 1;
  job->asked.point_counts = &boxes;
  job->asked.job.params.nms.pre_max = job->asked.job.params.nms.post_max = boxes;
  assert_int_equal(job_lane_use(job), VX_LANE_LONG);
  assert_true(job_acquire_queue_slot(job));
  assert_int_equal(held(SHARE_JOBS), 0);
  assert_int_equal(held(SHARE_LONG_JOBS), 1);
  job->asked.job.num_clouds = 0;
  job_release_queue_slot(job);
  assert_int_equal(held(SHARE_JOBS), 0);
  assert_int_equal(held(SHARE_LONG_JOBS), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(an_upload_without_bytes_loses_its_memory_silently, open_room, close_room),
      cmocka_unit_test_setup_teardown(memory_follows_the_bytes_once_half_is_in_use, open_room, close_room),
      cmocka_unit_test_setup_teardown(slowest_gives_up_and_is_told, open_room, close_room),
      cmocka_unit_test_setup_teardown(one_that_was_preempted_cannot_commit, open_room, close_room),
      cmocka_unit_test_setup_teardown(fast_paused_and_whole_are_not_preempted, open_room, close_room),
      cmocka_unit_test_setup_teardown(an_upload_that_slows_down_is_preempted, open_room, close_room),
      cmocka_unit_test_setup_teardown(an_upload_that_waits_for_the_server_is_not_preempted, open_room, close_room),
      cmocka_unit_test_setup_teardown(a_slower_upload_preempts_no_faster_one, open_room, close_room),
      cmocka_unit_test_setup_teardown(a_client_that_holds_less_loses_only_a_slow_upload_to_a_flood, open_room,
                                      close_room),
      cmocka_unit_test_setup_teardown(answer_takes_what_an_upload_does_not_fill, open_room, close_room),
      cmocka_unit_test_setup_teardown(slots_are_reserved_by_lanes, open_room, close_room),
      cmocka_unit_test_setup_teardown(samplings_preempt_only_samplings, open_room, close_room),
      cmocka_unit_test_setup_teardown(a_flood_preempts_no_client_that_holds_less, open_room, close_room),
      cmocka_unit_test_setup_teardown(a_client_over_its_share_preempts_clients_that_hold_more, open_room, close_room),
      cmocka_unit_test_setup_teardown(upload_that_has_begun_is_not_ended_by_its_own_client, open_room, close_room),
      cmocka_unit_test_setup_teardown(others_do_not_pay_for_an_upload_that_has_begun, open_room, close_room),
      cmocka_unit_test_setup_teardown(whole_body_comes_before_uploads_that_have_begun, open_room, close_room),
      cmocka_unit_test_setup_teardown(an_upload_without_bytes_makes_room_for_its_own_client, open_room, close_room),
      cmocka_unit_test_setup_teardown(growing_memory_fits_beside_what_it_replaces, open_room, close_room),
      cmocka_unit_test_setup_teardown(a_locked_upload_is_not_preempted, open_room, close_room),
      cmocka_unit_test_setup_teardown(empty_body_takes_its_slot_at_the_end, open_room, close_room),
      cmocka_unit_test_setup_teardown(an_upload_for_the_latest_reserves_no_slot, open_room, close_room),
      cmocka_unit_test(rate_is_of_this_window_or_the_one_before),
      cmocka_unit_test_setup_teardown(job_gets_slot_and_body, open_room, close_room),
      cmocka_unit_test_setup_teardown(slot_is_given_back_where_it_was_taken, open_room, close_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
