// The floating types (number.h) as tags for kernels: how 16 bytes of each type become float32, and the reverse.
#ifndef VOXELD_CUDA_NUMBER_CUH
#define VOXELD_CUDA_NUMBER_CUH

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/number.h"

struct cuda_float32 {
  typedef float stored;
  enum { PER_PART = 4 };
  static __device__ float load(float value) { return value; }
  static __device__ float store(float value) { return value; }
  static __device__ void unpack(uint4 part, float (&values)[PER_PART]) {
    values[0] = __uint_as_float(part.x);
    values[1] = __uint_as_float(part.y);
    values[2] = __uint_as_float(part.z);
    values[3] = __uint_as_float(part.w);
  }
  static __device__ uint4 pack(const float (&values)[PER_PART]) {
    return make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
                      __float_as_uint(values[3]));
  }
};

// A narrow type of 2 bytes. `type` has widen and narrow.
template <typename type> struct cuda_short_float {
  typedef uint16_t stored;
  enum { PER_PART = 8 };
  static __device__ float load(uint16_t value) { return type::widen(value); }
  static __device__ uint16_t store(float value) { return type::narrow(value); }
  static __device__ void unpack(uint4 part, float (&values)[PER_PART]) {
    const uint32_t words[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      values[2 * i] = load((uint16_t)(words[i] & 0xFFFF));
      values[2 * i + 1] = load((uint16_t)(words[i] >> 16));
    }
  }
  static __device__ uint4 pack(const float (&values)[PER_PART]) {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = store(values[2 * i]) | (uint32_t)store(values[2 * i + 1]) << 16;
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

struct cuda_half {
  static __device__ float widen(uint16_t bits) { return vx_half_to_float(bits); }
  static __device__ uint16_t narrow(float value) {
    return value == value ? __half_as_ushort(__float2half_rn(value)) : (uint16_t)VX_HALF_NAN;
  }
};
typedef struct cuda_short_float<struct cuda_half> cuda_float16;

// Calls `use` with the tag of a floating type.
template <typename function> static __device__ inline void cuda_with_float(enum vx_dtype dtype, const function &use) {
  switch (dtype) {
    case VX_FLOAT16: use(cuda_float16()); break;
    default: use(cuda_float32());
  }
}

// Calls `use` with an integer of the floating type's size, to move values without converting them.
template <typename function> static __device__ inline void cuda_with_bits(enum vx_dtype dtype, const function &use) {
  if (vx_dtype_size(dtype) == sizeof(uint16_t))
    use((uint16_t)0);
  else
    use((uint32_t)0);
}

static __device__ inline uint32_t cuda_per_part(enum vx_dtype dtype) { return 16 / (uint32_t)vx_dtype_size(dtype); }

static __device__ inline void cuda_store(enum vx_dtype dtype, void *values, uint64_t index, float value) {
  cuda_with_float(
      dtype,
      [&](auto number) {
        typedef decltype(number) type;
        ((typename type::stored *)values)[index] = type::store(value);
      });
}

#endif
