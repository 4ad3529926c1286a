// Finds out at start how libmicrohttpd behaves; see learn.h.
#include "server/http/learn.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/text.h"
#include "server/base/log.h"
#include "server/http/rehearsal.h"

// Versions as one number: 0.9.75 is 975, 1.0.1 is 10001.
enum {
  OLDEST = 972,         // an older one lacks calls, or was never tried
  LAST_MARKING = 999,   // the last whose texts may be read behind their end (library.c); later ones refuse NULs
  NEWEST_TRIED = 10099  // 1.0.x
};

static int version_number(void) {
  int parts[3] = {0};
  const char *at = MHD_get_version();
  for (int i = 0; i < 3; i++) {
    char *end;
    parts[i] = (int)strtol(at, &end, 10);
    if (*end != '.') break;
    at = end + 1;
  }
  return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

// ---- rehearsals -----------------------------------------------------------------------------------------------------

#define REQUEST(TEXT) .request = (TEXT), .length = sizeof(TEXT) - 1

// Decides on strictness. Some strict versions answer a head without Host twice; those are not used strictly.
static bool learn_strict(struct library *library) {
  struct rehearsal bad = {.strict = true, .library = library, REQUEST("GET / HTTP/1.1\r\n\r\n")};
  struct rehearsal good = {.strict = true, .library = library, REQUEST("GET / HTTP/1.1\r\nHost: x\r\n\r\n")};
  if (!rehearse(&bad) || !rehearse(&good)) return false;
  library->strict = !bad.reached && bad.answers == 1 && good.reached && good.answers == 1;
  return true;
}

// `seen`: the NUL was found; `false_alarm`: one was found where there is none.
static enum library_nul nul_of(bool reached, enum library_nul looking, bool seen, bool false_alarm) {
  if (!reached || (seen && looking == NUL_HIDDEN)) return NUL_REFUSED;
  return seen && !false_alarm ? NUL_MARKED : NUL_HIDDEN;
}

static bool learn_nuls(struct library *library) {
  struct library looking = {.value = NUL_HIDDEN, .target = NUL_HIDDEN};
  if (version_number() <= LAST_MARKING) looking.value = looking.target = NUL_MARKED;
  struct rehearsal whole = {.library = &looking, REQUEST("GET /a HTTP/1.1\r\nHost: x\r\nX: 12\r\nY: z\r\n\r\n")};
  struct rehearsal value = {.library = &looking, REQUEST("GET /a HTTP/1.1\r\nHost: x\r\nX: 1\0002\r\nY: z\r\n\r\n")};
  struct rehearsal target = {.library = &looking, REQUEST("GET /a\000b HTTP/1.1\r\nHost: x\r\nX: 12\r\n\r\n")};
  whole.strict = value.strict = target.strict = library->strict;
  if (!rehearse(&whole) || !rehearse(&value) || !rehearse(&target)) return false;
  library->value = nul_of(value.reached, looking.value, value.value_has_nul, whole.value_has_nul);
  library->target = nul_of(target.reached, looking.target, target.target_has_nul, whole.target_has_nul);
  return true;
}

// The memory of the answer may be given back before or after the request is completed, but both come before the end.
static bool was_handled(const struct rehearsal *rehearsal) {
  const char *completed = strchr(rehearsal->calls, 'c'), *freed = strchr(rehearsal->calls, 'f'),
             *ended = strchr(rehearsal->calls, 'e');
  return rehearsal->answers == 1 && strncmp(rehearsal->answer, "HTTP/1.1 200 ", 13) == 0 &&
         strstr(rehearsal->answer, "heard") && completed && freed && ended && completed < ended && freed < ended;
}

// Rehearses a POST that goes the way of a job: it is suspended and resumed before and after its body.
static bool check_order(const struct library *library, char *error, size_t error_size) {
  struct rehearsal job = {.strict = library->strict,
                          .held = true,
                          .library = library,
                          REQUEST("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")};
  if (!rehearse(&job)) return error_set(error, error_size, "libmicrohttpd cannot be started");
  return was_handled(&job) || error_set(error, error_size,
                                        "libmicrohttpd %s does not answer a request that is suspended and resumed (its "
                                        "calls: %s); use 0.9.72 to 1.0.x",
                                        MHD_get_version(), job.calls);
}

static void warn(const struct library *library) {
  if (version_number() > NEWEST_TRIED)
    log_event(LOG_WARNING, "libmicrohttpd is newer than the tested versions, 0.9.72 to 1.0.x", "version",
              MHD_get_version());
  if (library->value == NUL_HIDDEN || library->target == NUL_HIDDEN)
    log_event(LOG_WARNING, "libmicrohttpd hides NULs in requests; a proxy in front should refuse them", "version",
              MHD_get_version());
}

bool library_learn(struct library *library, char *error, size_t error_size) {
  *library = (struct library){.strict = false, .value = NUL_HIDDEN, .target = NUL_HIDDEN};
  if (version_number() < OLDEST)
    return error_set(error, error_size, "libmicrohttpd is %s; the oldest supported version is 0.9.72",
                     MHD_get_version());
  if (!learn_strict(library) || !learn_nuls(library))
    return error_set(error, error_size, "libmicrohttpd cannot be started");
  if (!check_order(library, error, error_size)) return false;
  warn(library);
  return true;
}
