// The types of numbers in tensors: sizes, names, and how floating values are read and written. Functions for C and
// CUDA.
//
// A floating type is float32 or a narrow type. Narrow values are widened exactly when they are read, and rounded when
// they are written. A new narrow type needs a value of enum vx_dtype after the last narrow type, conversions like those
// in half.h, a case in each function here, a row in number.c, and a tag in cuda/base/number.cuh. Values are aligned to
// their size.
#ifndef VOXELD_NUMBER_H
#define VOXELD_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/half.h"

#ifdef __cplusplus
extern "C" {
#endif

// The floating types come first. VX_INT8 to VX_UINT32 occur only in points as they are sent, before they are widened.
// VX_INT64 occurs only in answers.
enum vx_dtype { VX_FLOAT32, VX_FLOAT16, VX_INT32, VX_UINT8, VX_INT8, VX_INT16, VX_UINT16, VX_UINT32, VX_INT64 };
enum { VX_FLOAT_TYPES = VX_FLOAT16 + 1, VX_DTYPES = VX_INT64 + 1 };
#define VX_DTYPE_BIT(dtype) (1u << (dtype))
#define VX_SENT_TYPES VX_INT64                        // points may be sent in any type below this value
#define VX_FLOATS (VX_DTYPE_BIT(VX_FLOAT_TYPES) - 1)  // the VX_DTYPE_BITs of the floating types

struct vx_number {
  const char *word;         // name in parameters, documents and texts
  const char *safetensors;  // the value of `dtype` in safetensors files
  const char *kserve;       // the value of `datatype` in KServe
  const char *numpy;        // the value of `descr` in npy files
};
extern const struct vx_number vx_numbers[VX_DTYPES];
extern const char *const vx_float_words[];  // of the floating types, then NULL
extern const char *const vx_dtype_words[];  // of the types of points as they are sent, then NULL

static inline const char *vx_dtype_name(enum vx_dtype dtype) { return vx_numbers[dtype].safetensors; }

#ifdef __cplusplus
}
#endif

VX_SHARED bool vx_is_float(enum vx_dtype dtype) { return (VX_DTYPE_BIT(dtype) & VX_FLOATS) != 0; }

VX_SHARED bool vx_is_narrow(enum vx_dtype dtype) {
  return (VX_DTYPE_BIT(dtype) & VX_FLOATS & ~VX_DTYPE_BIT(VX_FLOAT32)) != 0;
}

VX_SHARED size_t vx_dtype_size(enum vx_dtype dtype) {
  switch (dtype) {
    case VX_FLOAT32:
    case VX_INT32:
    case VX_UINT32: return 4;
    case VX_FLOAT16:
    case VX_INT16:
    case VX_UINT16: return 2;
    case VX_INT64: return 8;
    case VX_UINT8:
    case VX_INT8: break;
  }
  return 1;
}

// Reads one value of a floating type.
VX_SHARED float vx_load(enum vx_dtype dtype, const void *values, uint64_t index) {
  switch (dtype) {
    case VX_FLOAT16: return vx_half_to_float(((const uint16_t *)values)[index]);
    default: return ((const float *)values)[index];
  }
}

// Reads `count` values of a floating type from index `first` on.
static inline void vx_widen(enum vx_dtype dtype, const void *values, int64_t first, int64_t count, float *to) {
  switch (dtype) {
    case VX_FLOAT16:
      for (int64_t i = 0; i < count; i++) to[i] = vx_half_to_float(((const uint16_t *)values)[first + i]);
      break;
    default: memcpy(to, (const float *)values + first, (size_t)count * sizeof *to);
  }
}

// Writes values as a floating type.
static inline void vx_narrow(enum vx_dtype dtype, const float *values, int64_t count, void *to) {
  switch (dtype) {
    case VX_FLOAT16:
      for (int64_t i = 0; i < count; i++) ((uint16_t *)to)[i] = vx_float_to_half(values[i]);
      break;
    default: memcpy(to, values, (size_t)count * sizeof *values);
  }
}

#endif
