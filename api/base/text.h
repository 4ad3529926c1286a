// A bounded text builder: writes JSON, headers, log lines and metrics into memory that the caller owns.
//
// It never allocates. Past the capacity it writes nothing but goes on counting the length, so a text can be measured
// with capacity 0 before it is written. Any thread; one builder belongs to one thread.
#ifndef VOXELD_TEXT_H
#define VOXELD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
  char *data;       // the caller's; NUL-terminated after every call, cut to the capacity
  size_t capacity;  // bytes of data, the NUL included
  size_t length;    // bytes of the whole text, written or not
  bool quoted;      // true inside a JSON string: what is appended is escaped
  bool cut;         // a piece is missing that could not be written, however much room there is
};

static inline struct text text_over(char *data, size_t capacity) {
  if (capacity) data[0] = '\0';
  return (struct text){.data = data, .capacity = capacity};
}

// True if the whole text is there.
static inline bool text_complete(const struct text *text) { return !text->cut && text->length < text->capacity; }

void text_append(struct text *text, const char *bytes, size_t length);
void text_put(struct text *text, const char *string);
// A piece of any length; inside a JSON string one of more than 511 bytes cuts the text.
__attribute__((format(printf, 2, 3))) void text_printf(struct text *text, const char *format, ...);

// The name of a member of a JSON object: `comma`, then "name":
void text_member(struct text *text, const char *comma, const char *name);
void text_integer(struct text *text, int64_t value);
// units / 10^decimals, with so many decimals.
void text_fixed(struct text *text, int64_t units, int decimals);

// A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD: the client may have sent anything.
void text_json_string(struct text *text, const char *bytes, size_t length);

// A float32 in the fewest digits that read back as the same float32. Without a '+', which means a space in a query:
// 1e20.
void text_float(struct text *text, float value);

// Nanoseconds as microseconds with one decimal, the unit of the metadata's timing.
void text_microseconds(struct text *text, int64_t nanoseconds);

#endif
