// A bounded text builder: writes JSON, headers, log lines and metrics into memory that the caller owns.
//
// The builder never allocates. Beyond the capacity it still counts the length, so capacity 0 measures a text. Any
// thread; one builder belongs to one thread.
#ifndef VOXELD_TEXT_H
#define VOXELD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH = 16 };

// The place in a JSON document that the text has reached. json_write.h updates it.
struct json_place {
  // What stands before the next value: nothing, another value, the value's own name, or the beginning of the string
  // that the value continues.
  enum { JSON_NOTHING, JSON_VALUE, JSON_NAME, JSON_WORDS } behind;
  unsigned char quotes;  // number of open strings: appended text is escaped once for each
  unsigned char lines;   // number of outer levels that are written with one member per line
  unsigned char depth;   // number of open levels; ends[depth - 1] closes the innermost
  char ends[JSON_DEPTH];
};

struct text {
  char *data;       // the caller's; NUL-terminated after every call, cut to the capacity
  size_t capacity;  // bytes of data, the NUL included
  size_t length;    // bytes of the whole text, written or not
  bool cut;         // a piece is missing for a reason other than the capacity
  struct json_place json;
};

static inline struct text text_over(char *data, size_t capacity) {
  if (capacity) data[0] = '\0';
  return (struct text){.data = data, .capacity = capacity};
}

static inline bool text_complete(const struct text *text) { return !text->cut && text->length < text->capacity; }

// Inside a JSON string, appended text is escaped, and bytes that are not UTF-8 become U+FFFD. There, text_printf leaves
// out a piece of more than 511 bytes, and sets `cut`.
void text_append(struct text *text, const char *bytes, size_t length);
void text_put(struct text *text, const char *string);
__attribute__((format(printf, 2, 3))) void text_printf(struct text *text, const char *format, ...);

// Appends units / 10^decimals with `decimals` decimals.
void text_fixed(struct text *text, int64_t units, int decimals);

// Appends a number in the fewest digits that read back as the same double or, if `single`, as the same float32.
// Exponents have no '+', such as 1e20, since a '+' means a space in a query.
void text_number(struct text *text, double value, bool single);
static inline void text_float(struct text *text, float value) { text_number(text, (double)value, true); }
static inline void text_double(struct text *text, double value) { text_number(text, value, false); }

// Append bytes that need no escape, or one such byte. Faster than text_append.
void text_append_plain(struct text *text, const char *bytes, size_t length);
static inline void text_put_plain(struct text *text, char byte) {
  if (text->length + 1 >= text->capacity) {
    text_append_plain(text, &byte, 1);
  } else {
    text->data[text->length++] = byte;
    text->data[text->length] = '\0';
  }
}

#endif
