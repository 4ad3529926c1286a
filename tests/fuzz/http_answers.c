// See http_answers.h.
#include "tests/fuzz/http_answers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *line_end(const char *cursor, const char *end) {
  const char *stop = memmem(cursor, (size_t)(end - cursor), "\r\n", 2);
  assert(stop);
  return stop;
}

struct head {
  int status;
  long long length;  // Content-Length; -1 without
  bool own;          // the daemon wrote it, not libmicrohttpd
};

// Returns the bytes after the head.
static const char *read_head(const char *cursor, const char *end, struct head *head) {
  static const char version[] = "HTTP/1.1 ", length[] = "Content-Length: ", id[] = "X-Request-Id: ";
  const char *stop = line_end(cursor, end);
  assert((size_t)(stop - cursor) > strlen(version) + 4 && memcmp(cursor, version, strlen(version)) == 0);
  *head = (struct head){.status = atoi(cursor + strlen(version)), .length = -1};
  assert(head->status >= 100 && head->status <= 505 && cursor[strlen(version) + 3] == ' ');
  for (cursor = stop + 2; (stop = line_end(cursor, end)) != cursor; cursor = stop + 2) {
    assert(memchr(cursor, ':', (size_t)(stop - cursor)));
    if (strncasecmp(cursor, length, strlen(length)) == 0) {
      assert(head->length < 0);
      head->length = atoll(cursor + strlen(length));
    }
    head->own = head->own || strncasecmp(cursor, id, strlen(id)) == 0;
  }
  return stop + 2;
}

// An answer to HEAD has a length without a body. A refusal by libmicrohttpd, which may send its head twice, is the last
// answer, so the check ends there.
void answers_check(const struct caller *caller) {
  bool heads_asked = memmem(caller->requests, caller->sent, "HEAD ", 5);
  const char *cursor = caller->answers, *end = cursor + caller->received;
  while (cursor < end) {
    struct head head;
    cursor = read_head(cursor, end, &head);
    if (head.status == 100) continue;
    assert(head.length >= 0);
    if (!head.own) {
      assert(head.status >= 400);
      return;
    }
    if (heads_asked && (cursor == end || strncmp(cursor, "HTTP/1.1 ", 9) == 0)) continue;
    assert(head.length <= end - cursor);
    cursor += head.length;
  }
}
