// The types of values for parameters of any operation, and functions to build further types. The types are constant.
// Any thread.
#ifndef VOXELD_VALUES_H
#define VOXELD_VALUES_H

#include "api/params/params.h"

extern const struct value_type value_int;      // int32, from least to most
extern const struct value_type value_word;     // int32: the index in `words`
extern const struct value_type value_words;    // uint32: a set of `words`, each once
extern const struct value_type value_float;    // float, within the row's bounds if it has any
extern const struct value_type value_floats;   // float[least], exactly that many
extern const struct value_type value_rows;     // float[up to most][least]; second: int32, the number of rows
extern const struct value_type value_counts;   // int32[up to most], each 0 or more; second: int32, their number
extern const struct value_type value_clouds;   // the same, int32 * in the record's pool
extern const struct value_type value_text;     // char[64]
extern const struct value_type value_factor;   // float, not 0
extern const struct value_type value_length;   // float, above 0
extern const struct value_type value_double;   // double
extern const struct value_type value_doubles;  // double * in the record's pool, up to most; second: int32, their number
// char[VALUE_NAMES_SIZE]: from least to most names, each once, separated by commas; second: int32, their number
extern const struct value_type value_names;
extern const struct value_type
    value_tensors;  // vx_tensor_set, the given names; second: vx_tensor_set, the tensors that the answer will have

enum { VALUE_NAMES_SIZE = 256 };

// Copies the next item of the list, with a NUL. False at the end, or if the item is empty or too long.
PARAM_WARN_UNUSED bool value_next(const char **cursor, const char *end, char *item, size_t size);
// Skips blanks after a comma or a semicolon.
const char *value_after(const char *separator, const char *end);
// Whether the cursor is at the end of the list. If not, value_next refused an item, or items are left.
PARAM_WARN_UNUSED bool value_ended(const char *cursor, const char *end);
PARAM_WARN_UNUSED bool value_is_off(const char *value, const char *end);

PARAM_WARN_UNUSED bool value_parse_int(const char *item, int64_t least, int64_t most, int64_t *out);
// Reads the next `count` items of a list, and moves the cursor past them.
PARAM_WARN_UNUSED bool value_take_floats(const char **cursor, const char *end, float *out, int64_t count);
// Reads one length for all axes, or one for each, above 0, to the end of the text.
PARAM_WARN_UNUSED bool value_read_size(const char *value, const char *end, float size[3]);
PARAM_WARN_UNUSED bool value_take_double(const char **cursor, const char *end, double *out);
// Takes memory for up to `most` items from the record's pool. NULL if there is none.
PARAM_WARN_UNUSED void *value_take_list(void *record, const char *value, const char *end, char separator, int64_t most,
                                        size_t item_bytes);
// Reads up to `most` whole numbers, each 0 or more, into the record's pool.
PARAM_WARN_UNUSED bool value_read_clouds(const char *cursor, const char *end, int64_t most, void *record, int32_t **out,
                                         int32_t *length);

// The place of a name in a list that value_names has read; -1 if the name is not there.
int value_find_name(const char *names, const char *name, size_t length);

// Write JSON arrays.
void value_write_floats(const float *values, int64_t count, struct text *out);
void value_write_doubles(const double *values, int32_t count, struct text *out);
void value_write_counts(const int32_t *values, int32_t count, struct text *out);
void value_write_names(const char *names, struct text *out);  // a list that value_names has read
// The words that a value or the items of a list may be; null if they are not words.
void value_write_words(const struct param *param, struct text *out);

#endif
