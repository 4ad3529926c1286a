// The types of numbers in tensors: how large each is, how the formats spell it, how values of floating types are read
// and written.
//
// A floating type is float32, in which everything is computed, or a narrow one: its values are widened when they are
// read, exactly, and rounded when they are written. A further narrow type is a value of enum vx_dtype behind the last
// one, its conversions (like those of half.h), a case in each function here, a row in number.c, and a tag in
// cuda/base/number.cuh. Functions for C and CUDA; values are aligned to their size.
#ifndef VOXELD_NUMBER_H
#define VOXELD_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/half.h"

#ifdef __cplusplus
extern "C" {
#endif

enum vx_dtype { VX_FLOAT32, VX_FLOAT16, VX_INT32, VX_UINT8 };
enum { VX_FLOAT_TYPES = VX_FLOAT16 + 1, VX_DTYPES = VX_UINT8 + 1 };  // the floating types are the first
#define VX_DTYPE_BIT(dtype) (1u << (dtype))
#define VX_FLOATS (VX_DTYPE_BIT(VX_FLOAT_TYPES) - 1)  // the bits of the floating types

struct vx_number {
  const char *word;         // of parameters, documents and texts
  const char *safetensors;  // its `dtype`
  const char *kserve;       // its `datatype`
  const char *numpy;        // its `descr`
};
extern const struct vx_number vx_numbers[VX_DTYPES];
extern const char *const vx_float_words[];  // of the floating types, then NULL

// As safetensors spells it: F32, F16, I32, U8.
static inline const char *vx_dtype_name(enum vx_dtype dtype) { return vx_numbers[dtype].safetensors; }

#ifdef __cplusplus
}
#endif

VX_SHARED bool vx_is_narrow(enum vx_dtype dtype) {
  return (VX_DTYPE_BIT(dtype) & VX_FLOATS & ~VX_DTYPE_BIT(VX_FLOAT32)) != 0;
}

// Bytes of a value.
VX_SHARED size_t vx_dtype_size(enum vx_dtype dtype) {
  switch (dtype) {
    case VX_FLOAT32:
    case VX_INT32: return 4;
    case VX_FLOAT16: return 2;
    case VX_UINT8: break;
  }
  return 1;
}

// The value at an index of an array of a floating type.
VX_SHARED float vx_load(enum vx_dtype dtype, const void *values, uint64_t index) {
  switch (dtype) {
    case VX_FLOAT16: return vx_half_to_float(((const uint16_t *)values)[index]);
    default: return ((const float *)values)[index];
  }
}

// The values of a floating type from `first` on, as float32.
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
