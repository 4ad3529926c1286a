// See head_trace.h.
#include "server/http/head_trace.h"

#include <string.h>

enum { LINE_END = 2 };  // CR LF

void head_trace_begin(struct head_trace *trace, const char *target_end, const char *version) {
  trace->broken = version != target_end + 1;
  trace->next = version + strlen(version) + LINE_END;
}

// The library moves a folded header, to append its second line, so its `name` is not at `next`.
void head_trace_header(struct head_trace *trace, const char *name, size_t name_size, const char *value,
                       size_t value_size) {
  if (name != trace->next || value <= name + name_size) trace->broken = true;
  trace->next = value + value_size + LINE_END;
}

bool head_trace_end(const struct head_trace *trace, const char *end) {
  return !trace->broken && end == trace->next + LINE_END;
}

// The last LF of the bytes, or NULL. Searches the last bytes first: for many chunks of one byte, memrchr of all bytes
// would take quadratic time.
static const char *last_line_end(const char *start, size_t size) {
  enum { NEAR = 64 };
  size_t near = size < NEAR ? size : NEAR;
  const char *found = memrchr(start + size - near, '\n', near);
  return found ? found : memrchr(start, '\n', size - near);
}

// A tab is allowed.
static bool has_control(const char *begin, const char *end) {
  for (; begin < end; begin++)
    if (((unsigned char)*begin < ' ' && *begin != '\t') || *begin == 0x7f) return true;
  return false;
}

bool head_trace_chunk_is_sound(const char *start, const char *data) {
  if (data <= start) return true;  // `data` is the rest of a chunk, or came without the line before it
  size_t shown = (size_t)(data - start);
  if (shown <= LINE_END || data[-2] != '\r' || data[-1] != '\n') return false;
  const char *before = last_line_end(start, shown - LINE_END);
  if (before && (before == start || before[-1] != '\r')) return false;
  return !has_control(before ? before + 1 : start, data - LINE_END);
}
