// Writes JSON into a text builder, with the commas, quotes and escapes. One call may close what another call opened:
// the text keeps the writer's state (struct json_place). With capacity 0 the same calls measure. Any thread.
#ifndef VOXELD_JSON_WRITE_H
#define VOXELD_JSON_WRITE_H

#include "api/base/text.h"

// The format is JSON without commas. Names have no quotes; strings have single quotes. The conversions are like
// printf's:
//   %s        a string; null for NULL
//   %i        a boolean
//   %d        an integer; %ld an int64_t; %lu, %lld, %llu, %zu
//   %g, %.3f  a double in the fewest digits that read back as the same double, or with that many decimals
// Inside a name or a string, a conversion adds to that name or string.
//   json_printf(out, "{name:%s device:'cuda:%d' %s_us:%ld sizes:[", name, index, stage, ns / 1000);
__attribute__((format(printf, 2, 3))) void json_printf(struct text *out, const char *format, ...);

// Each writes one part, for loops and for names that are not constant.
void json_member(struct text *out, const char *name);
void json_put_string(struct text *out, const char *string);                  // NULL: null
void json_put_integers(struct text *out, const int64_t *values, int count);  // an array
void json_put_fixed(struct text *out, int64_t units, int decimals);          // units / 10^decimals
static inline void json_put_integer(struct text *out, int64_t value) { json_put_fixed(out, value, 0); }
void json_put_double(struct text *out, double value);
// Writes null for a number that is not finite. Writes -0.0 as -0.0, since readers would take -0 for an integer and lose
// the sign.
void json_put_float(struct text *out, float value);

// `part` is the beginning of a JSON value without newlines; what it leaves open is then open in `out`.
void json_put_part(struct text *out, const struct text *part);

// Begins a string. All that is appended before json_end, even another document, becomes part of the string.
void json_begin_string(struct text *out);
void json_end(struct text *out);

#endif
