// A bounded text builder: writes JSON, headers, log lines and metrics into memory that the caller owns.
//
// It never allocates. Past the capacity it writes nothing but goes on counting the length, so a text can be measured
// with capacity 0 before it is written. Any thread; one builder belongs to one thread.
#ifndef VOXELD_TEXT_H
#define VOXELD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH = 16 };

// Where in a JSON document the text ends; json_write.h keeps this.
struct json_place {
  // What the next value comes behind: nothing, a value, its name; or the words of a string, which it continues.
  enum { JSON_NOTHING, JSON_VALUE, JSON_NAME, JSON_WORDS } behind;
  unsigned char quotes;  // open strings: what is appended is escaped once for each
  unsigned char lines;   // levels whose members have a line each, for readers
  unsigned char depth;   // what is open; ends[depth - 1] ends the innermost
  char ends[JSON_DEPTH];
};

struct text {
  char *data;       // the caller's; NUL-terminated after every call, cut to the capacity
  size_t capacity;  // bytes of data, the NUL included
  size_t length;    // bytes of the whole text, written or not
  bool cut;         // a piece is missing that could not be written, however much room there is
  struct json_place json;
};

static inline struct text text_over(char *data, size_t capacity) {
  if (capacity) data[0] = '\0';
  return (struct text){.data = data, .capacity = capacity};
}

// True if the whole text is there.
static inline bool text_complete(const struct text *text) { return !text->cut && text->length < text->capacity; }

// Inside a JSON string, what is appended is escaped, and bytes that are not UTF-8 become U+FFFD: a client may have sent
// any. There, text_printf cuts the text if a piece has more than 511 bytes.
void text_append(struct text *text, const char *bytes, size_t length);
void text_put(struct text *text, const char *string);
__attribute__((format(printf, 2, 3))) void text_printf(struct text *text, const char *format, ...);

// units / 10^decimals, with so many decimals.
void text_fixed(struct text *text, int64_t units, int decimals);

// A number in the fewest digits that read back as the same float32, or the same double. Without a '+', which means a
// space in a query: 1e20.
void text_float(struct text *text, float value);
void text_double(struct text *text, double value);

// Bytes that need no escape, and one of them: quicker than text_append.
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
