// The acceptor hands each connection, with the number of its listener, to an I/O thread.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/base/base.h"
#include "server/net/acceptor.h"

enum { MOST = 64 };

static struct error error;
static struct listener_group groups[2];
static struct listeners listeners;
static struct acceptor acceptor;

// The connections that were handed over.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static struct { int index, fd, family; } taken[MOST];
static int count;

// Records each connection. Those of listener 0 reach their I/O thread; those of listener 1 do not.
static bool take(void *cls, int index, int fd, const struct sockaddr *address, socklen_t length) {
  assert_ptr_equal(cls, &acceptor);
  assert_true(length >= sizeof address->sa_family);
  pthread_mutex_lock(&lock);
  assert_true(count < MOST);
  taken[count].index = index;
  taken[count].fd = fd;
  taken[count++].family = address->sa_family;
  pthread_cond_signal(&came);
  pthread_mutex_unlock(&lock);
  if (index == 0) listener_group_came(&groups[0]);
  return index == 0;
}

static void wait_for(int number) {
  pthread_mutex_lock(&lock);
  while (count < number) pthread_cond_wait(&came, &lock);
  pthread_mutex_unlock(&lock);
}

static int taken_so_far(void) {
  pthread_mutex_lock(&lock);
  int so_far = count;
  pthread_mutex_unlock(&lock);
  return so_far;
}

static int open_both(void **state) {
  (void)state;
  const struct listen_rules rules = {.unix_mode = 0600};
  char list[128];
  snprintf(list, sizeof list, "127.0.0.1:0,unix:/tmp/voxeld-test-acceptor-%d", (int)getpid());
  count = 0;
  assert_true(listeners_open(&listeners, list, &rules, &error));
  for (int i = 0; i < 2; i++) listeners.at[i].group = &groups[i];
  assert_true(acceptor_start(&acceptor, &listeners, take, &acceptor, &error));
  return 0;
}

static int close_all(void **state) {
  (void)state;
  for (int i = 0; i < count; i++) close(taken[i].fd);
  listeners_close(&listeners);
  return 0;
}

static int connect_to(int index) {
  bool tcp;
  int fd = listener_connect(listeners.at[index].address, 5, &tcp, &error);
  assert_true(fd >= 0);
  return fd;
}

static void each_comes_with_its_listener(void **state) {
  (void)state;
  int fd[40];  // more than ACCEPTOR_MOST_COMING for each listener
  for (int i = 0; i < 40; i++) fd[i] = connect_to(i % 2);
  wait_for(40);
  acceptor_stop(&acceptor);
  assert_int_equal(count, 40);
  int local = 0;
  for (int i = 0; i < 40; i++) {
    local += taken[i].index;
    assert_int_equal(taken[i].family, taken[i].index == 1 ? AF_UNIX : AF_INET);
    close(fd[i]);
  }
  assert_int_equal(local, 20);
  for (int i = 0; i < 2; i++) assert_int_equal(atomic_load(&groups[i].coming), 0);
}

static void what_comes_after_the_stop_waits(void **state) {
  (void)state;
  char byte = 'x';
  acceptor_stop(&acceptor);
  int fd = connect_to(0);
  assert_int_equal(count, 0);
  assert_true(acceptor_start(&acceptor, &listeners, take, &acceptor, &error));
  wait_for(1);
  assert_int_equal(send(fd, &byte, 1, 0), 1);
  acceptor_stop(&acceptor);
  close(fd);
}

// Listener 0 is full: ACCEPTOR_MOST_COMING of its connections have not reached an I/O thread. After
// ACCEPTOR_PATIENCE_MS they no longer count, even if one arrives later.
static void clients_wait_while_nobody_takes_them(void **state) {
  (void)state;
  int fd[3];
  atomic_store(&groups[0].coming, ACCEPTOR_MOST_COMING);
  int64_t began_ns = clock_ns();
  for (int i = 0; i < 2; i++) fd[i] = connect_to(0);
  fd[2] = connect_to(1);
  wait_for(1);
  assert_int_equal(taken[0].index, 1);
  wait_for(3);
  assert_true(clock_ns() - began_ns >= ACCEPTOR_PATIENCE_MS * NS_PER_MS);
  acceptor_stop(&acceptor);
  assert_int_equal(atomic_load(&groups[0].coming), 0);
  listener_group_came(&groups[0]);
  assert_int_equal(atomic_load(&groups[0].coming), 0);
  for (int i = 0; i < 3; i++) close(fd[i]);
}

// Lowers the limit of descriptors so that every open fails. Returns the previous limit.
static struct rlimit take_descriptors(void) {
  struct rlimit files, none;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
  none = files;
  int lowest = dup(listeners.at[0].fd);
  assert_true(lowest >= 0 && close(lowest) == 0);
  none.rlim_cur = (rlim_t)lowest;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  return files;
}

static void connect_socket(int fd) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  assert_int_equal(getsockname(listeners.at[0].fd, (struct sockaddr *)&address, &length), 0);
  assert_int_equal(connect(fd, (const struct sockaddr *)&address, length), 0);
}

static void lack_of_descriptors_passes(void **state) {
  (void)state;
  const struct timespec pause = {.tv_nsec = 120 * NS_PER_MS};
  int fd[4];
  for (int i = 0; i < 4; i++) fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct rlimit files = take_descriptors();
  for (int i = 0; i < 4; i++) connect_socket(fd[i]);
  nanosleep(&pause, NULL);
  assert_int_equal(taken_so_far(), 0);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
  wait_for(4);
  acceptor_stop(&acceptor);
  for (int i = 0; i < 4; i++) close(fd[i]);
}

static void it_stops_without_descriptors(void **state) {
  (void)state;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct rlimit files = take_descriptors();
  connect_socket(fd);
  acceptor_stop(&acceptor);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
  assert_int_equal(count, 0);
  close(fd);
}

static void it_does_not_start_without_descriptors(void **state) {
  (void)state;
  acceptor_stop(&acceptor);
  const struct rlimit files = take_descriptors();
  bool started = acceptor_start(&acceptor, &listeners, take, &acceptor, &error);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
  assert_false(started);
  assert_non_null(strstr(error.text, "acceptor: "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_comes_with_its_listener, open_both, close_all),
      cmocka_unit_test_setup_teardown(what_comes_after_the_stop_waits, open_both, close_all),
      cmocka_unit_test_setup_teardown(clients_wait_while_nobody_takes_them, open_both, close_all),
      cmocka_unit_test_setup_teardown(lack_of_descriptors_passes, open_both, close_all),
      cmocka_unit_test_setup_teardown(it_stops_without_descriptors, open_both, close_all),
      cmocka_unit_test_setup_teardown(it_does_not_start_without_descriptors, open_both, close_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
