// Writes JSON into a text builder. The writer puts the commas, quotes and escapes.
//
// json_printf takes a part of a document as it will look; what one call opens, another may end. The state lies in the
// text: nothing is allocated, and the calls that write a document can measure it. Any thread.
#ifndef VOXELD_JSON_WRITE_H
#define VOXELD_JSON_WRITE_H

#include "api/base/text.h"

// The format is JSON without commas, its names without quotes, its strings in single ones. Conversions are printf's:
//   %s        a string; null for NULL
//   %i        what is true or false
//   %d        an integer; %ld an int64_t; %lu, %lld, %llu, %zu
//   %g, %.3f  a double in the fewest digits that read back as the same, or with so many decimals
// Within a name or a string they are parts of it.
//   json_printf(out, "{name:%s device:'cuda:%d' %s_us:%ld sizes:[", name, index, stage, ns / 1000);
__attribute__((format(printf, 2, 3))) void json_printf(struct text *out, const char *format, ...);

// One part at a time, for loops and names that vary.
void json_member(struct text *out, const char *name);
void json_put_string(struct text *out, const char *string);  // NULL: null
void json_put_integer(struct text *out, int64_t value);
void json_put_integers(struct text *out, const int64_t *values, int count);  // an array
void json_put_fixed(struct text *out, int64_t units, int decimals);          // units / 10^decimals
void json_put_double(struct text *out, double value);
// JSON has no number that is not finite; null stands for it. -0.0 keeps its sign: readers take -0 for a whole number.
void json_put_float(struct text *out, float value);

// A string of all that is appended to the text before json_end: by text_put and the like, or another document.
void json_begin_string(struct text *out);
void json_end(struct text *out);

#endif
