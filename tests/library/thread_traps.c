// Traps in stop, quiesce and threads.
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/library/stage.h"

// ---- stop -----------------------------------------------------------------------------------------------------------

static enum MHD_Result suspend_head(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  *size = 0;
  return stage_suspend(stage, connection);
}

static enum outcome stop_suspended(void) {
  struct stage stage = {.handle = suspend_head};
  stage_open(&stage);
  stage_say(&stage, PAGE);
  stage_run(&stage);
  if (!stage.suspended) return OUTCOME_UNTRIED;
  MHD_stop_daemon(stage.daemon);
  return OUTCOME_NO;
}

// Runs on an I/O thread, in the middle of a head. Returns when the listening socket refuses clients, because another
// thread has begun to stop the library.
static void await_stop(struct stage *stage, const char *target) {
  const struct timespec pause = {.tv_nsec = 1000000};
  int result = 0;
  (void)target;
  atomic_fetch_add(&stage->suspensions, 1);
  for (int i = 0; i < 5000 && result == 0; i++) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    result = connect(fd, (const struct sockaddr *)&stage->address, stage->address_size);
    close(fd);
    nanosleep(&pause, NULL);
  }
}

static enum outcome refused_in_stop(void) {
  struct stage stage = {.on_target = await_stop, .threads = MHD_USE_EPOLL_INTERNAL_THREAD, .pool = 2};
  stage_open(&stage);
  stage_say(&stage, "GET /a HTTP/1.1\r\nrubbish\r\n\r\n");
  if (!await(&stage.suspensions, 1)) return OUTCOME_UNTRIED;
  MHD_stop_daemon(stage.daemon);
  return OUTCOME_NO;
}

static const struct stage *quiesced;
static pthread_t quiescer;
static atomic_int taken_out;  // 1 + the epoll set from which its owner removed the socket

// Replaces libc's epoll_ctl. When the quiescing thread is about to remove the listening socket from an epoll set, a new
// client wakes the thread that owns the set, and the call waits until that thread has removed the socket.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's names are reserved
int epoll_ctl(int set, int operation, int fd, struct epoll_event *event) {
  bool own = quiesced && operation == EPOLL_CTL_DEL;
  const struct timespec pause = {.tv_nsec = 1000000};
  if (own && pthread_equal(pthread_self(), quiescer)) {
    (void)stage_connect(quiesced);
    for (int i = 0; i < 1000 && atomic_load(&taken_out) != set + 1; i++) nanosleep(&pause, NULL);
  }
  int result = (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
  if (own && !pthread_equal(pthread_self(), quiescer)) atomic_store(&taken_out, set + 1);
  return result;
}

static enum outcome quiesce_aborts(void) {
  static struct stage stage = {.threads = MHD_USE_EPOLL_INTERNAL_THREAD, .pool = 2};
  stage_open(&stage);
  if (!await(&stage.letters, 1)) return OUTCOME_UNTRIED;
  quiescer = pthread_self();
  quiesced = &stage;
  (void)MHD_quiesce_daemon(stage.daemon);
  return OUTCOME_NO;
}

// ---- threads --------------------------------------------------------------------------------------------------------

enum { MANY = 40 };
static _Atomic(struct MHD_Connection *) asleep[MANY];  // suspended connections, in order

static enum MHD_Result suspend_once(struct stage *stage, struct MHD_Connection *connection, size_t *size) {
  *size = 0;
  for (int i = 0; i < MANY; i++)
    if (atomic_load(&asleep[i]) == connection) return stage_answer(stage, connection);
  MHD_suspend_connection(connection);
  atomic_store(&asleep[atomic_fetch_add(&stage->suspensions, 1)], connection);
  return MHD_YES;
}

static bool is_answered(int fd) {
  struct pollfd readable = {.fd = fd, .events = POLLIN};
  return poll(&readable, 1, 3000) == 1;
}

// Resumes connections from a thread outside the library, as workers do.
static enum outcome wakeups_lost(void) {
  struct stage stage = {.handle = suspend_once,
                        .threads = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_THREAD_PER_CONNECTION};
  stage_open(&stage);
  bool lost = false;
  for (int i = 0; i < MANY && !lost; i++) {
    stage.client = stage_connect(&stage);
    stage_say(&stage, PAGE);
    if (!await(&stage.suspensions, i + 1)) return OUTCOME_UNTRIED;
    while (!atomic_load(&asleep[i])) sched_yield();
    MHD_resume_connection(atomic_load(&asleep[i]));
    lost = !is_answered(stage.client);
  }
  return outcome(lost);
}

const struct trap thread_traps[] = {
    {TRAP(stop_suspended), .what = "The library aborts if it is stopped while a connection is suspended", .dies = true},
    {TRAP(refused_in_stop), .what = "The library crashes if it refuses a request while it stops", .dies = true},
    {TRAP(quiesce_aborts), .what = "MHD_quiesce_daemon can abort", .dies = true},
    {TRAP(wakeups_lost), .what = "Resumed connections hang if each connection has a thread", .race = true},
};
const int thread_trap_count = sizeof thread_traps / sizeof *thread_traps;
