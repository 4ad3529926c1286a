// See library.h.
#include "server/http/library.h"

#include <microhttpd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/text.h"
#include "server/base/log.h"

// ---- versions -------------------------------------------------------------------------------------------------------

// Oldest first. tests/library/test_versions.c checks the row of the installed library.
static const struct {
  int version;  // 0.9.75 is 975, 1.0.1 is 10001
  struct library library;
} tested[] = {
    {975, {.strict = false, .laid_out = true, .cut_query = true}},
    {976, {.strict = false, .laid_out = true, .cut_query = true}},
    {10000, {.strict = true, .laid_out = false, .cut_query = false}},
    {10001, {.strict = true, .laid_out = false, .cut_query = false}},
};

static int number_of(const char *version) {
  int parts[3] = {0};
  for (int i = 0; i < 3; i++) {
    char *end;
    parts[i] = (int)strtol(version, &end, 10);
    if (*end != '.') break;
    version = end + 1;
  }
  return parts[0] * 10000 + parts[1] * 100 + parts[2];
}

bool library_find(struct library *library, const char *version, struct error *error) {
  int number = number_of(version), row = (int)(sizeof tested / sizeof *tested) - 1;
  while (row >= 0 && tested[row].version > number) row--;
  if (row < 0) return error_set(error, "libmicrohttpd is %s; the oldest supported version is 0.9.75", version);
  *library = tested[row].library;
  if (tested[row].version != number)
    log_event(LOG_WARNING,
              "this version of libmicrohttpd is not tested, and may hide malformed parts of requests; a proxy in front "
              "should refuse them",
              "version", version);
  return true;
}

// ---- requests -------------------------------------------------------------------------------------------------------

void library_cut_query(const char *target) { strchr((char *)(uintptr_t)target, '?')[1] = '\0'; }

void library_cut_blanks(const char *value, size_t size) {
  size_t kept = size;
  while (kept > 0 && (value[kept - 1] == ' ' || value[kept - 1] == '\t')) kept--;
  if (kept < size) ((char *)(uintptr_t)value)[kept] = '\0';
}

const char *library_head_end(struct MHD_Connection *connection, const char *method) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  return info ? method + info->header_size : NULL;
}

int library_own_status(const char *text) {
  static const char start[] = "Error processing request (HTTP response code is ";  // 0.9.75 to 1.0.1
  return strncmp(text, start, strlen(start)) == 0 ? (int)strtol(text + strlen(start), NULL, 10) : 0;
}

bool library_tells_of_one_end(const char *text) {
  static const char *const starts[] = {
      "Application reported internal error",  // on_request returned MHD_NO: the daemon ended the connection
      "Connection was closed by remote side",
      "Connection socket is closed when reading",
      "Socket has been disconnected when reading",
      "Failed to parse `Content-Length'",
      "Failed to send the ",  // the headers, body or footers of an answer
      "Failed to send data in request",
  };
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
    if (strncmp(text, starts[i], strlen(starts[i])) == 0) return true;
  return false;
}
