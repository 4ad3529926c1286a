// What libmicrohttpd does beyond its interface; see library.h.
#include "server/http/library.h"

#include <microhttpd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The target is in the connection's memory, which is not constant.
void library_cut_query(const char *target) { strchr((char *)(uintptr_t)target, '?')[1] = '\0'; }

void library_cut_blanks(const char *value, size_t size) {
  size_t kept = size;
  while (kept > 0 && (value[kept - 1] == ' ' || value[kept - 1] == '\t')) kept--;
  if (kept < size) ((char *)(uintptr_t)value)[kept] = '\0';
}

const char *library_head_end(struct MHD_Connection *connection, const char *method) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  static const size_t unknown = (size_t)-2;  // from 0.9.72, if the empty line at the end has two bytes
  return info && info->header_size != unknown ? method + info->header_size : NULL;
}

int library_own_status(const char *text) {
  static const char start[] = "Error processing request (HTTP response code is ";  // seen from 0.9.72 to 1.0.1
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

// ---- bodies of responses --------------------------------------------------------------------------------------------

#if MHD_VERSION >= 0x00097302

struct MHD_Response *library_response(const char *data, size_t size, void (*release)(void *cls), void *cls) {
  return MHD_create_response_from_buffer_with_free_callback_cls(size, (void *)(uintptr_t)data, release, cls);
}

struct MHD_Response *library_response_of(char *data, const struct byte_range *ranges, int count,
                                         void (*release)(void *cls), void *cls) {
  struct MHD_IoVec parts[RANGES_MAX];
  if (count > RANGES_MAX) return NULL;
  for (int i = 0; i < count; i++) {
    char *begin = data + ranges[i].offset;
    parts[i] = (struct MHD_IoVec){begin, ranges[i].bytes};
  }
  return MHD_create_response_from_iovec(parts, (unsigned)count, release, cls);
}

#else  // 0.9.72 has no such calls: it reads the body in blocks, which costs a copy

struct body {
  const char *data;
  void (*release)(void *cls);
  void *cls;
};

static ssize_t read_body(void *cls, uint64_t position, char *block, size_t most) {
  memcpy(block, ((const struct body *)cls)->data + position, most);  // the library asks for no more than there is
  return (ssize_t)most;
}

static void release_body(void *cls) {
  struct body *body = cls;
  body->release(body->cls);
  free(body);
}

struct MHD_Response *library_response(const char *data, size_t size, void (*release)(void *cls), void *cls) {
  enum { BLOCK = 256 * 1024 };
  struct body *body = malloc(sizeof *body);
  if (!body) return NULL;
  *body = (struct body){data, release, cls};
  struct MHD_Response *response =
      MHD_create_response_from_callback(size, size < BLOCK ? size + 1 : BLOCK, read_body, body, release_body);
  if (!response) free(body);
  return response;
}

struct MHD_Response *library_response_of(char *data, const struct byte_range *ranges, int count,
                                         void (*release)(void *cls), void *cls) {
  return library_response(data, ranges_join(data, ranges, count), release, cls);
}

#endif
