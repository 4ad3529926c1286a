// voxeld: reads the options, then prints, checks, probes, or serves until a signal.
//
// The exit status is 0 after success; 1 if a job does not end, or if printing or a probe fails; 2 if the options are
// bad or the service cannot start; 3 after the loss of a GPU with --on-device-lost exit.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/base/base.h"
#include "server/base/log.h"
#include "server/clients/tokens.h"
#include "server/config/options.h"
#include "server/daemon/daemon.h"
#include "server/daemon/signals.h"
#include "server/pages/pages.h"

static struct service service;
static enum options_action action;

// ---- printing instead of serving ------------------------------------------------------------------------------------

static void write_version(struct text *out) { text_put(out, "voxeld " VOXELD_VERSION "\n"); }

static int print(void (*write_text)(struct text *out)) {
  struct text text = text_over(NULL, 0);
  write_text(&text);
  size_t size = text.length + 1;
  char *memory = malloc(size);
  if (!memory) return EXIT_FAILURE;
  text = text_over(memory, size);
  write_text(&text);
  bool written = text_complete(&text) && fputs(memory, stdout) >= 0 && fflush(stdout) == 0;
  free(memory);
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void write_config(struct text *out) { options_print_config(&service.options, out); }
static void write_good(struct text *out) {
  text_put(out, "the options, presets, tokens, certificates and devices are good\n");
}

static int fail(const char *error) {
  // The stderr of --new-token is often appended to the token file, where the # makes this line a comment.
  fprintf(stderr, "%svoxeld: %s\n", action == ACTION_NEW_TOKEN ? "# " : "", error);
  return 2;
}

// For Docker a health check ends with 0 or 1; other statuses are reserved.
static int unwell(const char *error) {
  (void)fail(error);
  return EXIT_FAILURE;
}

// Opens /dev/null for each standard descriptor that is closed. Otherwise the log could go to a file or connection that
// got descriptor 2.
static void fill_standard_files(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR);  // opens the lowest free descriptor
}

// The token goes to stdout and its line for the token file to stderr, so that a shell can redirect each.
static int print_new_token(void) {
  char token[TOKEN_SIZE], line[TOKEN_LINE_SIZE];
  struct error error;
  if (!token_make(service.options.new_token, token, line, &error)) return fail(error.text);
  bool written = printf("%s\n", token) >= 0 && fflush(stdout) == 0 && fprintf(stderr, "%s\n", line) >= 0;
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

// Not an error: Kubernetes sets such variables for a service named voxeld.
static void warn_of_variables(void) {
  for (char **entry = environ; (entry = options_stray_variable(entry)); entry++) {
    char name[64], meant[64];
    struct log_line line;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
    options_suggest_variable(*entry, meant);
    log_begin(&line, LOG_WARNING, "an environment variable is not an option");
    log_string(&line, "variable", name);
    if (meant[0]) log_string(&line, "did_you_mean", meant);
    log_end(&line);
  }
}

static void say_page(void) {
  const char *scheme = service.options.tls_cert[0] ? "https" : "http";
  for (const char *address = service.address; *address;) {
    int length = (int)strcspn(address, ",");
    if (strncmp(address, "unix:", 5) != 0) printf("open %s://%.*s/ in a browser\n", scheme, length, address);
    address += length + (address[length] == ',');
  }
  (void)fflush(stdout);
}

enum { SERVES = -1 };

// Returns the exit status, or SERVES once the service has started.
static int begin(int argc, char **argv) {
  struct error error;
  service.started_ns = clock_ns();
  service.started_unix_s = time(NULL);
  service.id = (uint64_t)service.started_ns ^ (uint64_t)getpid() << 48;
  if (!options_read(argc, argv, environ, &service.options, &action, &error))
    return action == ACTION_PROBE ? unwell(error.text) : fail(error.text);
  if (action == ACTION_SERVE || action == ACTION_DEMO) {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes fails, instead of ending the process
  } else {
    signals_unblock();
  }
  log_configure((enum log_level)service.options.log_level, (enum log_format)service.options.log_format);
  switch (action) {
    case ACTION_HELP: return print(options_help);
    case ACTION_VERSION: return print(write_version);
    case ACTION_PRINT_CONFIG: return print(write_config);
    case ACTION_DESCRIBE: return print(describe_write);
    case ACTION_NEW_TOKEN: return print_new_token();
    case ACTION_PROBE: return probe(&service.options, &error) ? EXIT_SUCCESS : unwell(error.text);
    case ACTION_SERVE:
    case ACTION_DEMO:
    case ACTION_CHECK_CONFIG: break;
  }
  warn_of_variables();
  if (!service_prepare(&service, &error)) return fail(error.text);
  if (action == ACTION_CHECK_CONFIG) return service_check(&service, &error) ? print(write_good) : fail(error.text);
  if (!serve_start(&service, &error)) return fail(error.text);
  if (action == ACTION_DEMO) say_page();
  return SERVES;
}

struct start {
  int argc;
  char **argv;
  int status;  // what begin returned
};

static void *start_main(void *argument) {
  struct start *start = argument;
  start->status = begin(start->argc, start->argv);
  return NULL;
}

int main(int argc, char **argv) {
  struct start start = {.argc = argc, .argv = argv};
  pthread_t thread;
  signals_block();  // first
  fill_standard_files();
  // A thread starts the service, since files on a network mount or a GPU's driver may hang. Main handles signals
  // meanwhile.
  int code = pthread_create(&thread, NULL, start_main, &start);
  if (code != 0) {
    fprintf(stderr, "voxeld: pthread_create: %s\n", strerror(code));
    return 2;
  }
  signals_join(thread);
  return start.status == SERVES ? serve(&service) : start.status;
}
