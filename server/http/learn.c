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
  LAST_LAID_OUT = 999,  // the last that may lie in memory as layout.h says; later ones refuse what that shows
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

#define SENT(TEXT) (TEXT), sizeof(TEXT) - 1
#define REQUEST(TEXT) .request = (TEXT), .length = sizeof(TEXT) - 1

// Decides on strictness. Some strict versions answer a head without Host twice; those are not used strictly.
static bool learn_strict(struct library *library) {
  struct rehearsal bad = {.strict = true, .library = library, REQUEST("GET / HTTP/1.1\r\n\r\n")};
  struct rehearsal good = {.strict = true, .library = library, REQUEST("GET / HTTP/1.1\r\nHost: x\r\n\r\n")};
  if (!rehearse(&bad) || !rehearse(&good)) return false;
  library->strict = !bad.reached && bad.answers == 1 && good.reached && good.answers == 1;
  return true;
}

// Requests that any server reads alike. What lies in memory must be what was sent.
static const struct sent {
  const char *text;
  size_t length;
} plain[] = {
    {SENT("GET /a?b=c%20d&e HTTP/1.1\r\nHost: x\r\nX:12\r\nY:\r\nCookie: a=b; c\r\nZ: \t z \t\r\nW: \r\n\r\n")},
    {SENT("GET / HTTP/1.0\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n03\r\ncde\r\n0\r\n\r\n")},
};

// Requests that servers read differently: each must be refused by the library, or be seen not to lie as it was sent.
static const struct sent odd[] = {
    {SENT("GET /a\0b HTTP/1.1\r\nHost: x\r\n\r\n")},
    {SENT("GET /a\0HTTP/ HTTP/1.1\r\nHost: x\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\nX: 1\0002\r\nY: z\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\nX: 12\0\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nX: 12\0\0Y\r\nHost: x\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\nX: 1\r\n 2\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\n y\r\nX: 1\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\r\n: 1\r\n\r\n")},
    {SENT("GET /a HTTP/1.1\r\nHost: x\nX: 1\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n3\r\ncde\r\n0\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\n3\r\ncde\r\n0\r\n\r\n")},
    {SENT("POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a\0b\r\nab\r\n0\r\n\r\n")},
};

enum fate { FATE_UNKNOWN, FATE_REFUSED, FATE_BROKEN, FATE_TAKEN };

static enum fate fate_of(const struct library *library, const struct sent *sent) {
  struct rehearsal rehearsal = {
      .strict = library->strict, .library = library, .request = sent->text, .length = sent->length};
  if (!rehearse(&rehearsal)) return FATE_UNKNOWN;
  if (strncmp(rehearsal.answer, "HTTP/1.", 7) != 0 || strncmp(rehearsal.answer + 8, " 200 ", 5) != 0)
    return FATE_REFUSED;
  return rehearsal.broken ? FATE_BROKEN : FATE_TAKEN;
}

// Finds out whether what servers read differently is noticed.
static bool learn_layout(struct library *library, bool *hides) {
  struct library looking = {.strict = library->strict, .laid_out = version_number() <= LAST_LAID_OUT};
  library->laid_out = looking.laid_out;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    enum fate fate = fate_of(&looking, &plain[i]);
    if (fate == FATE_UNKNOWN) return false;
    library->laid_out = library->laid_out && fate == FATE_TAKEN;
  }
  *hides = false;
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    enum fate fate = fate_of(library, &odd[i]);
    if (fate == FATE_UNKNOWN) return false;
    *hides = *hides || fate == FATE_TAKEN;
  }
  return true;
}

// Finds out whether a query for which there is no memory goes unanswered, unless it is cut. The library then also
// leaves the connection open.
static bool learn_query(struct library *library) {
  enum { MEMORY = 32 * 1024 };  // of a connection here; a parameter without a value takes more than two bytes
  static const char start[] = "GET /a?", end[] = " HTTP/1.1\r\nHost: x\r\n\r\n";
  char text[MEMORY / 2];
  memset(text, '&', sizeof text);
  memcpy(text, start, sizeof start - 1);
  memcpy(text + sizeof text - (sizeof end - 1), end, sizeof end - 1);
  const struct library cutting = {.cut_query = true}, leaving = {.cut_query = false};
  struct rehearsal left = {.library = &leaving, .strict = library->strict, .request = text, .length = sizeof text};
  struct rehearsal cut = {.library = &cutting, .strict = library->strict, .request = text, .length = sizeof text};
  if (!rehearse(&left)) return false;
  if (left.answers > 0) return true;
  if (!rehearse(&cut)) return false;
  library->cut_query = cut.reached && cut.answers == 1;
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

static void warn(bool hides) {
  if (version_number() > NEWEST_TRIED)
    log_event(LOG_WARNING, "libmicrohttpd is newer than the tested versions, 0.9.72 to 1.0.x", "version",
              MHD_get_version());
  if (hides)
    log_event(
        LOG_WARNING,
        "libmicrohttpd hides NULs, folded headers, bare LFs or control bytes in requests; a proxy in front should "
        "refuse them",
        "version", MHD_get_version());
}

bool library_learn(struct library *library, char *error, size_t error_size) {
  bool hides;
  *library = (struct library){.strict = false};
  if (version_number() < OLDEST)
    return error_set(error, error_size, "libmicrohttpd is %s; the oldest supported version is 0.9.72",
                     MHD_get_version());
  if (!learn_strict(library) || !learn_layout(library, &hides) || !learn_query(library))
    return error_set(error, error_size, "libmicrohttpd cannot be started");
  if (!check_order(library, error, error_size)) return false;
  warn(hides);
  return true;
}
