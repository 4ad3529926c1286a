// See inject.h.
#include "tests/support/standin/inject.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_llong calls, chosen_call;
static atomic_int chosen_status, chosen_repeat;
static atomic_bool chosen_real;
static pthread_mutex_t looking = PTHREAD_MUTEX_INITIALIZER;

void inject_set(enum vx_status status, int64_t call, enum inject_repeat repeat) {
  atomic_store(&chosen_status, (int)status);
  atomic_store(&chosen_repeat, (int)repeat);
  atomic_store(&chosen_call, call);
  atomic_store(&calls, 0);
}

bool inject_is_real(void) { return atomic_load(&chosen_real); }

int64_t inject_calls(void) { return atomic_load(&calls); }

static void read_request(const char *text) {
  static const struct {
    const char *name;
    enum vx_status status;
    bool real;
  } classes[] = {{"refused@", VX_REFUSED, false},
                 {"memory@", VX_OUT_OF_MEMORY, false},
                 {"lost@", VX_DEVICE_LOST, false},
                 {"dead@", VX_DEVICE_LOST, true}};
  for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
    size_t length = strlen(classes[i].name);
    if (strncmp(text, classes[i].name, length) == 0) {
      char *end;
      long long call = strtoll(text + length, &end, 10);
      atomic_store(&chosen_real, classes[i].real);
      inject_set(classes[i].status, call, *end == '+' ? INJECT_FROM_THERE : *end == '%' ? INJECT_EVERY : INJECT_ONCE);
    }
  }
}

// Renames the file before it is read, so that a newer file is not removed with it.
static void take_file(const char *path) {
  char taken[512], text[64] = "";
  snprintf(taken, sizeof taken, "%s.taken", path);
  if (access(path, F_OK) != 0 || rename(path, taken) != 0) return;
  FILE *file = fopen(taken, "re");
  if (file != NULL) {
    if (fgets(text, sizeof text, file) != NULL) read_request(text);
    fclose(file);
  }
  (void)unlink(taken);
}

// One thread reads the file at a time. The others wait, since the fault may be meant for their calls.
static void look_for_file(void) {
  const char *path = getenv("VOXELD_INJECT");
  if (path != NULL) {
    pthread_mutex_lock(&looking);
    take_file(path);
    pthread_mutex_unlock(&looking);
  }
}

static bool is_hit(long long call) {
  long long chosen = atomic_load(&chosen_call);
  if (chosen <= 0) return false;
  switch ((enum inject_repeat)atomic_load(&chosen_repeat)) {
    case INJECT_ONCE: return call == chosen;
    case INJECT_FROM_THERE: return call >= chosen;
    case INJECT_EVERY: return call % chosen == 0;
  }
  return false;
}

enum vx_status inject_next(void) {
  look_for_file();
  return is_hit(atomic_fetch_add(&calls, 1) + 1) ? (enum vx_status)atomic_load(&chosen_status) : VX_OK;
}
