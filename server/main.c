// voxeld: reads its options and does what they ask for: prints, checks, or serves until a signal, drains, and exits.
//
// Only main exits: with 0 after a clean stop, 1 if a job would not end, 2 if it could not start, 3 after the loss of a
// GPU.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/clients/tokens.h"
#include "server/daemon/probe.h"
#include "server/daemon/serve.h"
#include "server/daemon/server.h"
#include "server/daemon/signals.h"
#include "server/pages/describe.h"

static struct server server;
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
  bool written = fputs(memory, stdout) >= 0 && fflush(stdout) == 0;
  free(memory);
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void write_config(struct text *out) { options_print_config(&server.options, out); }
static void write_good(struct text *out) {
  text_put(out, "the options, presets, tokens, certificates and devices are good\n");
}

static int fail(const char *error) {
  // What --new-token says often goes to the end of the token file, where this is a comment.
  fprintf(stderr, "%svoxeld: %s\n", action == ACTION_NEW_TOKEN ? "# " : "", error);
  return 2;
}

// A health check knows no other failure than 1.
static int unwell(const char *error) {
  (void)fail(error);
  return EXIT_FAILURE;
}

// A descriptor that the process was started without would be taken by its next file or connection, and the log written
// to that.
static void fill_standard_files(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)open("/dev/null", O_RDWR);  // takes the lowest that is free
}

// The token goes to stdout and its line to stderr, so that each can be sent where it belongs.
static int print_new_token(void) {
  char token[TOKEN_SIZE], line[TOKEN_LINE_SIZE], error[256];
  if (!token_make(server.options.new_token, token, line, error, sizeof error)) return fail(error);
  bool written = printf("%s\n", token) >= 0 && fflush(stdout) == 0 && fprintf(stderr, "%s\n", line) >= 0;
  return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

// Not an error: others set such variables too, as Kubernetes does for a service of that name.
static void warn_of_variables(void) {
  for (char **entry = environ; (entry = options_stray_variable(entry)); entry++) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
    log_event(LOG_WARNING, "an environment variable is no option", "variable", name);
  }
}

int main(int argc, char **argv) {
  char error[512];
  fill_standard_files();
  server.started_ns = clock_ns();
  server.started_unix_s = time(NULL);
  if (!options_read(argc, argv, environ, &server.options, &action, error, sizeof error))
    return action == ACTION_PROBE ? unwell(error) : fail(error);
  log_configure((enum log_level)server.options.log_level, (enum log_format)server.options.log_format);
  switch (action) {
    case ACTION_HELP: return print(options_help);
    case ACTION_VERSION: return print(write_version);
    case ACTION_PRINT_CONFIG: return print(write_config);
    case ACTION_DESCRIBE: return print(describe_write);
    case ACTION_NEW_TOKEN: return print_new_token();
    case ACTION_PROBE: return probe(&server.options, error, sizeof error) ? EXIT_SUCCESS : unwell(error);
    case ACTION_SERVE: signals_block(); break;
    case ACTION_CHECK_CONFIG: break;
  }
  warn_of_variables();
  if (!server_prepare(&server, error, sizeof error)) return fail(error);
  if (action == ACTION_CHECK_CONFIG)
    return server_check(&server, error, sizeof error) ? print(write_good) : fail(error);
  int status = serve(&server, error, sizeof error);
  return status < 0 ? fail(error) : status;
}
