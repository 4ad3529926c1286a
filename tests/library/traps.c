// Tries the traps of libmicrohttpd that docs/contribute/libmicrohttpd.md lists, on the library of this machine. Prints
// the library's version, then one line per trap: its name, whether it holds, and its description, separated by tabs.
//
// The words are "yes" and "no"; for a race "seen" and "not seen"; "untried" if this machine does not allow the try;
// "died" if the try itself failed. Each trap runs in its own process, which some traps end.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/http/library.h"
#include "tests/library/stage.h"

enum { PATIENCE_S = 60 };  // after so many seconds a try has failed

struct attempt {
  const struct trap *trap;
  const struct head_trap *head;
};

static enum outcome attempt_run(const struct attempt *attempt) {
  return attempt->head ? head_trap_attempt(attempt->head) : attempt->trap->attempt();
}

static const char *word_of(int status, bool dies, bool race) {
  bool died = WIFSIGNALED(status) && WTERMSIG(status) != SIGALRM;
  if (died && dies) return "yes";
  if (!WIFEXITED(status)) return "died";
  switch (WEXITSTATUS(status)) {
    case OUTCOME_YES: return race ? "seen" : "yes";
    case OUTCOME_NO: return race ? "not seen" : "no";
    case OUTCOME_UNTRIED: return "untried";
    default: return "died";
  }
}

static const char *try_alone(const struct attempt *attempt, bool dies, bool race) {
  const struct rlimit no_core = {0, 0};
  int status = 0;
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) return "untried";
  if (child == 0) {
    (void)setrlimit(RLIMIT_CORE, &no_core);
    int nowhere = dies ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (nowhere >= 0) (void)dup2(nowhere, STDERR_FILENO);  // hides the library's own messages
    alarm(PATIENCE_S);
    _exit((int)attempt_run(attempt));
  }
  return waitpid(child, &status, 0) == child ? word_of(status, dies, race) : "died";
}

static void try_all(const struct trap *traps, int count) {
  for (int i = 0; i < count; i++) {
    struct attempt attempt = {.trap = &traps[i]};
    printf("%s\t%s\t%s\n", traps[i].name, try_alone(&attempt, traps[i].dies, traps[i].race), traps[i].what);
  }
}

int main(void) {
  struct library library;
  struct error error;
  if (!library_find(&library, MHD_get_version(), &error)) {
    (void)fprintf(stderr, "traps: %s\n", error.text);
    return 2;
  }
  stage_strict = library.strict;
  printf("version\t%s\n", MHD_get_version());
  try_all(connection_traps, connection_trap_count);
  try_all(thread_traps, thread_trap_count);
  for (int i = 0; i < head_trap_count; i++) {
    const struct head_trap *trap = &head_traps[i];
    struct attempt attempt = {.head = trap};
    printf("%s\t%s\t%s\n", trap->name, try_alone(&attempt, false, false), trap->what);
  }
  return 0;
}
