// See inject.h.
#include "tests/standin/inject.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong calls, chosen_call;
static atomic_int chosen_status, chosen_repeat;
static atomic_bool read_environment;

void inject_set(enum vx_status status, int64_t call, enum inject_repeat repeat) {
  atomic_store(&read_environment, true);
  atomic_store(&chosen_status, (int)status);
  atomic_store(&chosen_repeat, (int)repeat);
  atomic_store(&chosen_call, call);
  atomic_store(&calls, 0);
}

int64_t inject_calls(void) { return atomic_load(&calls); }

static void from_environment(void) {
  static const struct {
    const char *name;
    enum vx_status status;
  } classes[] = {{"refused@", VX_REFUSED}, {"memory@", VX_OUT_OF_MEMORY}, {"lost@", VX_DEVICE_LOST}};
  const char *text = getenv("VOXELD_INJECT");
  for (size_t i = 0; text != NULL && i < sizeof classes / sizeof classes[0]; i++) {
    size_t length = strlen(classes[i].name);
    if (strncmp(text, classes[i].name, length) == 0) {
      char *end;
      long long call = strtoll(text + length, &end, 10);
      inject_set(classes[i].status, call, *end == '+' ? INJECT_FROM_THERE : *end == '%' ? INJECT_EVERY : INJECT_ONCE);
    }
  }
}

static bool is_hit(long long call) {
  long long chosen = atomic_load(&chosen_call);
  if (chosen <= 0) {
    return false;
  }
  switch ((enum inject_repeat)atomic_load(&chosen_repeat)) {
    case INJECT_ONCE: return call == chosen;
    case INJECT_FROM_THERE: return call >= chosen;
    case INJECT_EVERY: return call % chosen == 0;
  }
  return false;
}

enum vx_status inject_next(void) {
  if (!atomic_exchange(&read_environment, true)) {
    from_environment();
  }
  return is_hit(atomic_fetch_add(&calls, 1) + 1) ? (enum vx_status)atomic_load(&chosen_status) : VX_OK;
}
