// Traps in the life of a connection: its end, suspend and resume, time, answers, closing. One thread.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/library/stage.h"

#define HEAD_OF_4 "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
#define HEAD_OF_100000 "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"

static bool alive(const struct stage *stage) { return !stage_called(stage, 'e') && !stage->ended && !stage->reset; }

static char last_call(const struct stage *stage) { return stage->calls[atomic_load(&stage->letters) - 1]; }

// ---- the end of a client --------------------------------------------------------------------------------------------

static enum outcome fin_unnoticed(void) {
  struct stage stage = {.handle = NULL};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_4 "bo");
  shutdown(stage.client, SHUT_WR);
  stage_run(&stage);
  return outcome(alive(&stage) && stage_called(&stage, 'b'));
}

// The remedy for fin_unnoticed: shutting the reading side makes epoll report the connection again.
static int connection_fd = -1;

static enum MHD_Result remember_fd(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  connection_fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  return handle_whole(stage, connection, size);
}

static enum outcome shut_noticed(void) {
  struct stage stage = {.handle = remember_fd};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_4 "bo");
  stage_run(&stage);
  if (!alive(&stage)) return OUTCOME_NO;
  shutdown(connection_fd, SHUT_RD);
  stage_run(&stage);
  return outcome(stage_called(&stage, 'c') && stage_called(&stage, 'e'));
}

static enum MHD_Result suspend_head(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  if (last_call(stage) == 'h') return stage_suspend(stage, connection);
  return handle_whole(stage, connection, size);
}

static enum outcome gone_unnoticed(void) {
  struct stage stage = {.handle = suspend_head};
  stage_open(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  stage_leave(&stage);
  return outcome(stage.suspended && !stage_called(&stage, 'c'));
}

static enum outcome gone_is_reported_once(void) {
  struct stage stage = {.handle = suspend_head};
  stage_open(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  stage_leave(&stage);
  stage_resume(&stage);
  char *told = strchr(stage.calls, 'c');
  return outcome(told && !strchr(told + 1, 'c') && stage.code != MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

// ---- suspend and resume ---------------------------------------------------------------------------------------------

// Suspends in the call for the head. Then returns without an answer until four bytes have arrived.
static enum MHD_Result suspend_head_of_4(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  if (stage->body < 4 && last_call(stage) == 'w') return MHD_YES;
  return suspend_head(stage, connection, size);
}

static enum outcome head_repeated(void) {
  struct stage stage = {.handle = suspend_head_of_4};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_4 "body");
  stage_run(&stage);
  stage_resume(&stage);
  return outcome(stage.answers == 1 && strstr(stage.calls, "hwbw"));
}

static enum outcome interim_held(void) {
  struct stage stage = {.handle = suspend_head};
  stage_open(&stage);
  stage_say(&stage, "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  stage_run(&stage);
  return outcome(stage.suspended && stage.answered == 0);
}

// Suspends in the call after the whole body.
static enum MHD_Result suspend_whole(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  if (last_call(stage) == 'w' && atomic_load(&stage->suspensions) == 0) return stage_suspend(stage, connection);
  return handle_whole(stage, connection, size);
}

// Returns from the call after the whole body without an answer, and suspends in the next call.
static enum MHD_Result suspend_later(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  size_t at = strlen(stage->calls);
  bool second = at > 1 && stage->calls[at - 1] == 'w' && stage->calls[at - 2] == 'w';
  if (last_call(stage) != 'w') return handle_whole(stage, connection, size);
  if (atomic_load(&stage->suspensions)) return stage_answer(stage, connection);
  return second ? stage_suspend(stage, connection) : MHD_YES;
}

// The client finishes sending while its connection is suspended. Before the library reads from any connection, it
// checks the one that was silent the longest. That is another one, which stage_open has made.
static void half_close(struct stage *stage) {
  stage_open(stage);
  stage->client = stage_connect(stage);
  stage_say(stage, HEAD_OF_4 "body");
  stage_run(stage);
  shutdown(stage->client, SHUT_WR);
  stage_resume(stage);
}

static enum outcome resumed_reads_first(void) {
  struct stage stage = {.handle = suspend_whole};
  half_close(&stage);
  return outcome(atomic_load(&stage.suspensions) == 1 && stage.answers == 0 && stage.ended);
}

static enum outcome resumed_in_head_reads_first(void) {
  struct stage stage = {.handle = suspend_head_of_4};
  half_close(&stage);
  return outcome(atomic_load(&stage.suspensions) == 1 && stage.answers == 0 && stage.ended);
}

static enum outcome answered_if_resumed_later(void) {
  struct stage stage = {.handle = suspend_later};
  half_close(&stage);
  return outcome(atomic_load(&stage.suspensions) == 1 && stage.answers == 1);
}

static enum MHD_Result answer_third(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  size_t at = strlen(stage->calls);
  *size = 0;
  return at > 2 && strcmp(stage->calls + at - 3, "www") == 0 ? stage_answer(stage, connection) : MHD_YES;
}

static enum outcome called_again(void) {
  struct stage stage = {.handle = answer_third};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_4 "body");
  stage_run(&stage);
  return outcome(stage.answers == 1);
}

// Suspends at the first chunk. While the connection is suspended, leaves all bytes to the library.
static enum MHD_Result suspend_chunk(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  if (stage->suspended) return MHD_YES;
  if (last_call(stage) != 'b' || atomic_load(&stage->suspensions)) return handle_whole(stage, connection, size);
  *size = 0;
  return stage_suspend(stage, connection);
}

#define CHUNK_OF_2 "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n"

static void send_chunks(struct stage *stage) {
  stage_open(stage);
  stage_say(stage, CHUNK_OF_2 "2\r\ndy\r\n0\r\n\r\n");
  stage_run(stage);
}

static enum outcome called_while_suspended(void) {
  struct stage stage = {.handle = suspend_chunk};
  send_chunks(&stage);
  return outcome(stage.suspended && strstr(stage.calls, "hbb"));
}

static enum outcome left_is_kept(void) {
  struct stage stage = {.handle = suspend_chunk};
  send_chunks(&stage);
  stage_resume(&stage);
  return outcome(strstr(stage.calls, "hbbbw") && stage.answers == 1);
}

static enum outcome completed_while_suspended(void) {
  struct stage stage = {.handle = suspend_chunk};
  stage_open(&stage);
  stage_say(&stage, CHUNK_OF_2 "zz\r\n");
  stage_run(&stage);
  return outcome(stage.suspended && stage_called(&stage, 'c'));
}

static enum outcome suspended_untimed(void) {
  struct stage stage = {.handle = suspend_head, .timeout_s = 10};
  stage_open(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  stage_age(100);
  stage_run(&stage);
  return outcome(stage.suspended && alive(&stage));
}

// ---- time -----------------------------------------------------------------------------------------------------------

static enum outcome silence_timed(void) {
  struct stage stage = {.timeout_s = 10};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_4 "bo");
  stage_run(&stage);
  stage_age(100);
  stage_run(&stage);
  return outcome(!alive(&stage) && stage.answers == 0);
}

static enum outcome drip_untimed(void) {
  struct stage stage = {.timeout_s = 10};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_100000);
  for (int i = 0; i < 50; i++) {
    stage_age(8);
    stage_say(&stage, "x");
    stage_run(&stage);
  }
  return outcome(alive(&stage) && stage.body == 50);
}

// ---- answers --------------------------------------------------------------------------------------------------------

static enum outcome early_answer_closes(void) {
  struct stage stage = {.handle = handle_at_once};
  stage_open(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  return outcome(stage.answers == 1 && stage.ended);
}

static enum outcome early_answer_resets(void) {
  static const char some[10000];
  struct stage stage = {.handle = handle_at_once};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_100000);
  stage_run(&stage);
  stage_send(&stage, some, sizeof some);
  return outcome(stage.answers == 1 && stage.reset);
}

static enum MHD_Result answer_body(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  if (*size && !stage_called(stage, 'd') && !stage_called(stage, 'D')) (void)stage_answer(stage, connection);
  *size = 0;
  return MHD_YES;
}

static enum outcome body_answer_refused(void) {
  struct stage stage = {.handle = answer_body};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_4 "body");
  stage_run(&stage);
  return outcome(stage_called(&stage, 'D'));
}

static enum outcome completed_before_freed(void) {
  struct stage stage = {.handle = NULL};
  stage_open(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  return outcome(strstr(stage.calls, "cf"));
}

static enum outcome completed_without_request(void) {
  struct stage stage = {.handle = NULL};
  stage_open(&stage);
  stage_say(&stage, "GET /a HTTP/1.1\r\nrubbish\r\n\r\n");
  stage_run(&stage);
  return outcome(stage_called(&stage, 'c') && !stage_called(&stage, 'h'));
}

// The first line of the chunk has an extension that does not end.
static enum outcome completion_missing(void) {
  static char much[100000];
  struct stage stage = {.handle = NULL};
  memset(much, 'a', sizeof much);
  stage_open(&stage);
  stage_say(&stage, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4;x=");
  stage_send(&stage, much, sizeof much);
  stage_run(&stage);
  return outcome(stage_called(&stage, 'e') && !stage_called(&stage, 'c'));
}

// The status for a head that begins with `start` and is longer than the memory.
static int long_head_status(const char *start) {
  static char much[100000];
  struct stage stage = {.handle = NULL};
  memset(much, 'a', sizeof much);
  stage_open(&stage);
  stage_send(&stage, start, strlen(start));
  stage_send(&stage, much, sizeof much);
  stage_run(&stage);
  return stage_status(&stage);
}

static enum outcome long_target(void) { return outcome(long_head_status("GET /") == 414); }

static enum outcome long_header(void) { return outcome(long_head_status("GET / HTTP/1.1\r\nX: ") == 431); }

static bool info_changed;

static enum MHD_Result ask_twice(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  int before = fd->connect_fd;
  (void)MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  info_changed |= fd->connect_fd != before;
  return handle_whole(stage, connection, size);
}

static enum outcome info_shared(void) {
  struct stage stage = {.handle = ask_twice};
  stage_open(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  return stage.answers == 1 ? outcome(info_changed) : OUTCOME_UNTRIED;
}

// ---- the end of a connection ----------------------------------------------------------------------------------------

static int kept_fd = -1;

static void keep(struct stage *stage, struct MHD_Connection *connection) {
  (void)stage;
  kept_fd = dup(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
}

static enum outcome close_can_linger(void) {
  struct stage stage = {.handle = handle_at_once, .on_closed = keep};
  stage_open(&stage);
  stage_say(&stage, HEAD_OF_100000);
  stage_run(&stage);
  stage_say(&stage, "still there");
  char text[32];
  return outcome(kept_fd >= 0 && stage.ended && !stage.reset && recv(kept_fd, text, sizeof text, MSG_DONTWAIT) == 11);
}

static enum outcome limit_keeps_waiting(void) {
  struct stage stage = {.most = 1};
  stage_open(&stage);
  int first = stage.client;
  stage.client = stage_connect(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  bool waits = !stage.ended && !stage.reset && stage.answers == 0;
  close(first);
  stage_run(&stage);
  return outcome(waits && stage.answers == 1);
}

static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2) exit(OUTCOME_UNTRIED);  // NOLINT(cert-err34-c)
  (void)fclose(file);
  return resident;
}

// Each connection keeps its four megabytes after its first answer.
static enum outcome pool_stays(void) {
  enum { CLIENTS = 16, MEMORY = 4 << 20 };
  struct stage stage = {.memory = MEMORY};
  stage_open(&stage);
  long before = resident_pages();
  for (int i = 0; i < CLIENTS; i++) {
    stage.client = stage_connect(&stage);
    stage_say(&stage, PAGE);
    stage_run(&stage);
  }
  long grown = (resident_pages() - before) * sysconf(_SC_PAGESIZE);
  return stage.answers == CLIENTS ? outcome(grown > (long)CLIENTS * MEMORY / 2) : OUTCOME_UNTRIED;
}

const struct trap connection_traps[] = {
    {TRAP(fin_unnoticed),
     .what = "With epoll the library does not notice an end of file that follows a part of a body"},
    {TRAP(shut_noticed), .what = "It notices such an end of file once the reading side is shut"},
    {TRAP(gone_unnoticed), .what = "It does not notice a client that leaves while the connection is suspended"},
    {TRAP(gone_is_reported_once), .what = "It reports the end of such a client once, after the connection is resumed"},
    {TRAP(suspended_untimed), .what = "A suspended connection has no timeout"},
    {TRAP(called_while_suspended),
     .what = "After the call for a chunk has suspended the connection, the library still calls for the next chunk"},
    {TRAP(left_is_kept),
     .what = "If the daemon leaves a part of the body in that call, the library passes it again after the resume"},
    {TRAP(completed_while_suspended),
     .what = "If that next chunk is malformed, the completion call comes while the connection is suspended"},
    {TRAP(silence_timed), .what = "A body that stops coming ends by the timeout, without an answer"},
    {TRAP(drip_untimed), .what = "A body that comes byte by byte never reaches the timeout"},
    {TRAP(head_repeated), .what = "The library repeats the call for the head if that call suspended the connection"},
    {TRAP(interim_held), .what = "100 Continue is not sent while the call for the head is suspended"},
    {TRAP(resumed_in_head_reads_first),
     .what = "If the call for the head suspends the connection and the client closes its side, there is no answer"},
    {TRAP(resumed_reads_first),
     .what = "If the final call suspends the connection and the client closes its side, there is no answer"},
    {TRAP(answered_if_resumed_later),
     .what = "If a repeated final call suspends the connection and the client closes its side, there is an answer"},
    {TRAP(called_again), .what = "The library repeats the final call at once until there is an answer"},
    {TRAP(body_answer_refused), .what = "The library refuses an answer in a call that has a part of the body"},
    {TRAP(early_answer_closes),
     .what = "An answer in the call for the head ends the connection, even if there is no body"},
    {TRAP(early_answer_resets), .what = "A client that goes on sending after such an answer is reset"},
    {TRAP(close_can_linger), .what = "The connection stays open if the closing call copies its descriptor"},
    {TRAP(completed_before_freed), .what = "The completion call comes before the answer's memory is given back"},
    {TRAP(completed_without_request), .what = "The completion call comes even if the library gave the head up"},
    {TRAP(completion_missing),
     .what = "A chunk's first line is longer than the memory: the connection ends without the completion call"},
    {TRAP(info_shared), .what = "The result of MHD_get_connection_info overwrites the previous result"},
    {TRAP(long_target), .what = "A target that is longer than the memory is answered with 414"},
    {TRAP(long_header), .what = "A header that is longer than the memory is answered with 431"},
    {TRAP(limit_keeps_waiting), .what = "A client over the connection limit waits without an answer"},
    {TRAP(pool_stays), .what = "An idle connection keeps all its memory"},
};
const int connection_trap_count = sizeof connection_traps / sizeof *connection_traps;
