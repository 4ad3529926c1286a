// Listeners.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/net/listener.h"

static struct error error;

// Checks without binding, as --check-config does.
static bool check(const char *list, bool may_expose) {
  struct listeners listeners = {.count = 0};
  const struct listen_rules rules = {.unix_mode = 0600, .may_expose = may_expose};
  error.text[0] = '\0';
  bool good = listeners_check(&listeners, list, &rules, &error);
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
             {"0.0.0.0:1,127.0.0.1:1", "it cannot be bound together with 0.0.0.0:1, which is listed too"},
             {"127.0.0.1:1,0.0.0.0:1", "it cannot be bound together with 127.0.0.1:1, which is listed too"},
             {"127.0.0.1", "127.0.0.1"},
             {"127.0.0.1:", "expected ADDRESS:PORT"},
             {":1", "expected ADDRESS:PORT"},
             {"127.0.0.1:1x", "expected ADDRESS:PORT"},
             {"127.0.0.1:65536", "expected ADDRESS:PORT"},
             {"127.0.0.1:000001", "expected ADDRESS:PORT"},
             {"::1:1", "expected ADDRESS:PORT"},
             {"127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,"
              "127.0.0.1:0",
              "allowed: up to 8 listeners"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(check(bad[i].list, true));
    if (!strstr(error.text, bad[i].reason)) fail_msg("no '%s' in '%s'", bad[i].reason, error.text);
  }
  assert_false(check(long_path, false));
  assert_non_null(strstr(error.text, "1 to 107 bytes"));
  long_path[strlen(long_path) - 1] = '\0';
  assert_true(check(long_path, false));
  assert_true(check("127.0.0.1:1,127.0.0.1:2,unix:/tmp/voxeld-none", false));
  static const char *const near[] = {
      "127.0.0.1:65535",        "127.1.2.3:00001", "[::1]:1", "[::ffff:127.0.0.1]:1", "127.0.0.1:0,127.0.0.1:0,systemd",
      "127.0.0.1:1,127.0.0.2:1"};
  static const char *const exposed[] = {"0.0.0.0:1", "[::]:1", "[::ffff:192.0.2.1]:1", "192.0.2.1:1,127.0.0.1:1"};
  for (size_t i = 0; i < sizeof near / sizeof *near; i++)
    if (!check(near[i], false)) fail_msg("%s", error.text);
  for (size_t i = 0; i < sizeof exposed / sizeof *exposed; i++) {
    assert_false(check(exposed[i], false));
    assert_non_null(strstr(error.text, "without credentials"));
    assert_true(check(exposed[i], true));
  }
}

// ---- binding --------------------------------------------------------------------------------------------------------

static char folder[] = "/tmp/voxeld-listener-XXXXXX", socket_path[64], unix_item[80];
static struct listener_group group;
static struct listeners listeners;

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(socket_path, sizeof socket_path, "%s/socket", folder);
  snprintf(unix_item, sizeof unix_item, "unix:%s", socket_path);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  unlink(socket_path);
  return rmdir(folder);
}

static int open_descriptors(void) {
  DIR *all = opendir("/proc/self/fd");
  assert_non_null(all);
  int count = 0;
  while (readdir(all)) count++;
  return closedir(all) == 0 ? count : -1;
}

static bool open_list(const char *list, bool may_expose) {
  const struct listen_rules rules = {.unix_mode = 0640, .may_expose = may_expose, .group = &group};
  error.text[0] = '\0';
  return listeners_open(&listeners, list, &rules, &error);
}

// The list is refused for this reason, and no descriptor stays open.
static void refused(const char *list, bool may_expose, const char *reason) {
  int before = open_descriptors();
  assert_false(open_list(list, may_expose));
  if (!strstr(error.text, reason)) fail_msg("no '%s' in '%s'", reason, error.text);
  assert_int_equal(listeners.count, 0);
  assert_int_equal(open_descriptors(), before);
}

static bool reaches(const char *address, bool is_tcp) {
  bool tcp = !is_tcp;
  int fd = listener_connect(address, 5, &tcp, &error);
  return fd >= 0 && close(fd) == 0 && tcp == is_tcp;
}

static void sockets_are_bound_and_let_go(void **state) {
  (void)state;
  char list[128];
  int before = open_descriptors();
  struct stat status;
  snprintf(list, sizeof list, "127.0.0.1:0,%s", unix_item);
  assert_true(open_list(list, false));
  assert_int_equal(listeners.count, 2);
  const struct listener *tcp = &listeners.at[0], *local = &listeners.at[1];
  assert_true(tcp->tcp && tcp->group == &group && !tcp->path[0]);
  assert_true(!local->tcp && local->group == &group);
  assert_int_equal(strncmp(tcp->address, "127.0.0.1:", 10), 0);
  assert_string_not_equal(tcp->address, "127.0.0.1:0");
  assert_string_equal(local->address, unix_item);
  assert_int_equal(stat(socket_path, &status), 0);
  assert_int_equal(status.st_mode, S_IFSOCK | 0640);
  assert_true(reaches(tcp->address, true) && reaches(local->address, false));
  for (int i = 0; i < 2; i++) {
    assert_int_equal(fcntl(listeners.at[i].fd, F_GETFD), FD_CLOEXEC);
    assert_true(fcntl(listeners.at[i].fd, F_GETFL) & O_NONBLOCK);
  }
  listeners_close(&listeners);
  assert_int_equal(listeners.count, 0);
  assert_int_not_equal(stat(socket_path, &status), 0);
  assert_int_equal(open_descriptors(), before);
}

static void a_failure_leaves_nothing(void **state) {
  (void)state;
  char list[256], taken[128];
  struct listeners other = {.count = 0};
  const struct listen_rules rules = {.unix_mode = 0600};
  assert_true(listeners_open(&other, "127.0.0.1:0", &rules, &error));
  snprintf(taken, sizeof taken, "%s", other.at[0].address);
  snprintf(list, sizeof list, "127.0.0.1:0,%s,%s", unix_item, taken);
  refused(list, false, "bind: Address already in use");
  assert_int_not_equal(access(socket_path, F_OK), 0);
  refused("127.0.0.1:0,unix:/nowhere/socket", false, "bind: No such file or directory");
  refused("127.0.0.1:0,0.0.0.0:0", false, "without credentials");
  listeners_close(&other);
  assert_false(reaches(taken, true));
  assert_non_null(strstr(error.text, "connect: Connection refused"));
}

// Fills the queue of the listener, so that a further connect would wait.
static void crowd(const struct sockaddr_un *name) {
  int fd, waiting[16], count = 0;
  do {
    fd = waiting[count++] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0 && count < 16);
  } while (connect(fd, (const struct sockaddr *)name, sizeof *name) == 0);
  assert_int_equal(errno, EAGAIN);
  while (count) assert_int_equal(close(waiting[--count]), 0);
}

static void only_a_socket_that_nobody_listens_on_is_replaced(void **state) {
  (void)state;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof name.sun_path, "%s", socket_path);
  int left = socket(AF_UNIX, SOCK_STREAM, 0);
  assert_int_equal(bind(left, (const struct sockaddr *)&name, sizeof name), 0);
  assert_int_equal(listen(left, 1), 0);
  refused(unix_item, false, "bind: Address already in use");
  crowd(&name);
  refused(unix_item, false, "bind: Address already in use");
  assert_int_equal(close(left), 0);
  assert_true(open_list(unix_item, false));
  assert_int_equal(unlink(socket_path), 0);
  int file = open(socket_path, O_CREAT | O_EXCL | O_WRONLY, 0600);
  assert_true(file >= 0 && close(file) == 0);
  listeners_close(&listeners);  // must not remove this file, which is not its own
  assert_int_equal(access(socket_path, F_OK), 0);
  refused(unix_item, false, "bind: Address already in use");
  assert_int_equal(unlink(socket_path), 0);
}

// ---- sockets from systemd -------------------------------------------------------------------------------------------

enum { FIRST = 3, HELD = 2 };  // FIRST: the first descriptor from systemd; HELD: the most that a test hands over

// Moves `fd` to the number that systemd would use.
static void hand_over(int fd, int number) {
  assert_true(fd > FIRST + HELD);
  assert_int_equal(dup2(fd, number), number);
  assert_int_equal(close(fd), 0);
}

static int tcp_socket(int type, uint32_t host, bool listens) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host)};
  int low = socket(AF_INET, type, 0), fd = fcntl(low, F_DUPFD, FIRST + HELD + 1);
  assert_int_equal(close(low), 0);
  assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
  if (listens) assert_int_equal(listen(fd, 1), 0);
  return fd;
}

static void announce(long process, const char *count) {
  char number[32];
  snprintf(number, sizeof number, "%ld", process);
  assert_int_equal(setenv("LISTEN_PID", number, 1) | setenv("LISTEN_FDS", count, 1), 0);
}

// Copies, made before the test, of the descriptors from FIRST on.
static int kept[HELD];

static int keep(void **state) {
  (void)state;
  for (int i = 0; i < HELD; i++) kept[i] = fcntl(FIRST + i, F_DUPFD_CLOEXEC, 100);
  for (int i = 0; i < HELD; i++) (void)close(FIRST + i);
  return 0;
}

static int restore(void **state) {
  (void)state;
  for (int i = 0; i < HELD; i++) {
    (void)close(FIRST + i);
    if (kept[i] >= 0 && (dup2(kept[i], FIRST + i) < 0 || close(kept[i]) != 0)) return -1;
  }
  return unsetenv("LISTEN_PID") | unsetenv("LISTEN_FDS");
}

static void nothing_is_handed_over(void **state) {
  (void)state;
  static const char reason[] = "no socket was handed over";
  refused("systemd", true, reason);
  announce(getpid(), "0");
  refused("systemd", true, reason);
  announce(getpid() + 1, "1");
  refused("systemd", true, reason);
  announce(getpid(), "9");
  refused("systemd", true, "allowed: up to 8 listeners");
  announce(getpid(), "1");
  refused("systemd", true, "descriptor 3: Bad file descriptor");
}

static void listening_streams_are_taken(void **state) {
  (void)state;
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  snprintf(name.sun_path, sizeof name.sun_path, "%s", socket_path);
  int low = socket(AF_UNIX, SOCK_STREAM, 0), local = fcntl(low, F_DUPFD, FIRST + HELD + 1);
  assert_int_equal(close(low), 0);
  assert_int_equal(bind(local, (const struct sockaddr *)&name, sizeof name), 0);
  assert_int_equal(listen(local, 1), 0);
  hand_over(tcp_socket(SOCK_STREAM, INADDR_LOOPBACK, true), FIRST);
  hand_over(local, FIRST + 1);
  announce(getpid(), "2");
  assert_true(open_list("systemd", false));
  assert_int_equal(listeners.count, 2);
  for (int i = 0; i < 2; i++) {
    const struct listener *listener = &listeners.at[i];
    assert_true(listener->group == &group && !listener->path[0]);
    assert_int_equal(listener->fd, FIRST + i);
    assert_int_equal(fcntl(FIRST + i, F_GETFD), FD_CLOEXEC);
    assert_true(fcntl(FIRST + i, F_GETFL) & O_NONBLOCK);
    assert_int_equal(listener->tcp, i == 0);
    assert_true(reaches(listener->address, i == 0));
  }
  assert_string_equal(listeners.at[1].address, unix_item);
  listeners_close(&listeners);
  assert_int_equal(unlink(socket_path), 0);  // listeners_close left the file, which systemd made
}

static void other_descriptors_are_refused(void **state) {
  (void)state;
  static const struct {
    int type;
    uint32_t host;
    bool listens, may_expose;
    const char *list, *reason;  // NULL: accepted
  } rows[] = {{SOCK_STREAM, INADDR_LOOPBACK, false, true, "systemd", "descriptor 3 is not a listening stream socket"},
              {SOCK_DGRAM, INADDR_LOOPBACK, false, true, "systemd", "descriptor 3 is not a listening stream socket"},
              {SOCK_STREAM, INADDR_ANY, true, false, "systemd", "without credentials"},
              {SOCK_STREAM, INADDR_ANY, true, true, "systemd", NULL},
              {SOCK_STREAM, INADDR_LOOPBACK, true, false, "systemd,systemd", "it is listed twice"},
              {SOCK_STREAM, INADDR_LOOPBACK, true, false, "systemd,127.0.0.1:0", NULL}};
  announce(getpid(), "1");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    hand_over(tcp_socket(rows[i].type, rows[i].host, rows[i].listens), FIRST);
    assert_int_equal(open_list(rows[i].list, rows[i].may_expose), !rows[i].reason);
    if (rows[i].reason && !strstr(error.text, rows[i].reason)) fail_msg("no '%s' in '%s'", rows[i].reason, error.text);
    listeners_close(&listeners);
  }
}

static void there_are_too_many_with_those_handed_over(void **state) {
  (void)state;
  hand_over(tcp_socket(SOCK_STREAM, INADDR_LOOPBACK, true), FIRST);
  hand_over(tcp_socket(SOCK_STREAM, INADDR_LOOPBACK, true), FIRST + 1);
  announce(getpid(), "2");
  int before = open_descriptors();
  assert_false(
      open_list("systemd,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0", false));
  assert_non_null(strstr(error.text, "allowed: up to 8 listeners"));
  assert_int_equal(open_descriptors(), before - 2);  // the handed-over sockets are closed too
}

// ---- clients --------------------------------------------------------------------------------------------------------

static void a_client_is_told_why_it_cannot_connect(void **state) {
  (void)state;
  bool tcp = false;
  error.text[0] = '\0';
  assert_int_equal(listener_connect("systemd", 1, &tcp, &error), -1);
  assert_non_null(strstr(error.text, "systemd gives the address of its socket only to the service"));
  assert_int_equal(listener_connect("unix:/tmp/voxeld-none/there,127.0.0.1:1", 1, &tcp, &error), -1);
  assert_false(tcp);
  assert_non_null(strstr(error.text, "unix:/tmp/voxeld-none/there: connect: No such file or directory"));
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
  bool tcp;
  assert_true(open_list("127.0.0.1:0", false));
  int client = listener_connect(listeners.at[0].address, 5, &tcp, &error);
  listener_peer(client, address);
  assert_string_equal(address, "127.0.0.1");
  assert_int_equal(close(client), 0);
  listeners_close(&listeners);
}

static void who_is_on_this_machine(void **state) {
  (void)state;
  assert_true(address_is_local("unix:0") && address_is_local("127.3.2.1") && address_is_local("::1"));
  assert_false(address_is_local("unix") || address_is_local("12.7.0.1") || address_is_local("::11") ||
               address_is_local("1.127.0.1") || address_is_local("unknown"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_are_checked),
      cmocka_unit_test(sockets_are_bound_and_let_go),
      cmocka_unit_test(a_failure_leaves_nothing),
      cmocka_unit_test(only_a_socket_that_nobody_listens_on_is_replaced),
      cmocka_unit_test_setup_teardown(nothing_is_handed_over, keep, restore),
      cmocka_unit_test_setup_teardown(listening_streams_are_taken, keep, restore),
      cmocka_unit_test_setup_teardown(other_descriptors_are_refused, keep, restore),
      cmocka_unit_test_setup_teardown(there_are_too_many_with_those_handed_over, keep, restore),
      cmocka_unit_test(a_client_is_told_why_it_cannot_connect),
      cmocka_unit_test(who_is_at_the_other_end),
      cmocka_unit_test(who_is_on_this_machine),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
