// How the rows of points that a client sends are written; api/wire/widen.h reads such rows.
//
// The value types below are constant. Any thread.
#ifndef VOXELD_PARAMS_COLUMNS_H
#define VOXELD_PARAMS_COLUMNS_H

#include "api/params/params.h"
#include "kernels/kernels.h"

// What a sender does with the rows, in this order.
enum filter { FILTER_DELTA, FILTER_DIRECTION, FILTER_SHUFFLE };
#define FILTER_BIT(filter) (1u << (filter))

struct column_terms {
  int32_t num_types;               // 1: all columns have the first type; 0: the operation has no points
  uint8_t types[VX_MAX_FEATURES];  // enum vx_dtype
  int32_t num_scales;              // the first num_scales columns are multiplied
  uint32_t filters;                // FILTER_BITs; delta and direction exclude each other
};

extern const char *const filter_words[];  // enum filter

extern const struct value_type value_dtypes;   // struct column_terms: its types, up to `most`
extern const struct value_type value_scales;   // as value_doubles, each above 0
extern const struct value_type value_filters;  // uint32: FILTER_BITs, named in the order of `words`

enum vx_dtype column_dtype(const struct column_terms *terms, int column);

#endif
