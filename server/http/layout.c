// How a request lies in the library's memory; see layout.h.
#include "server/http/layout.h"

#include <string.h>

enum { LINE_END = 2 };  // CR LF

void layout_begin(struct layout *layout, const char *target_end, const char *version) {
  layout->broken = !target_end || version != target_end + 1;
  layout->next = version + strlen(version) + LINE_END;
}

// The second line of a folded header was appended to its name, for which the name was moved.
void layout_header(struct layout *layout, const char *name, size_t name_size, const char *value, size_t value_size) {
  if (name != layout->next || value <= name + name_size) layout->broken = true;
  layout->next = value + value_size + LINE_END;
}

bool layout_end(const struct layout *layout, const char *end) {
  static const char line_ends[3] = {0};  // the last header has one byte of them at least, the empty line has two
  if (layout->broken) return false;
  return end ? end == layout->next + LINE_END : memcmp(layout->next - LINE_END, line_ends, sizeof line_ends) == 0;
}

bool layout_chunk_is_sound(const char *start, const char *data) {
  if (data <= start) return true;  // the rest of a chunk, or its line came earlier
  size_t shown = (size_t)(data - start);
  if (shown <= LINE_END || data[-2] != '\r' || data[-1] != '\n') return false;
  const char *before = memrchr(start, '\n', shown - LINE_END);
  return !before || (before > start && before[-1] == '\r');
}
