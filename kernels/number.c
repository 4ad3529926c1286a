// The table of types; see number.h.
#include "kernels/number.h"

const char *const vx_float_words[] = {"float32", "float16", NULL};

const struct vx_number vx_numbers[VX_DTYPES] = {
    [VX_FLOAT32] = {"float32", "F32", "FP32", "<f4"},
    [VX_FLOAT16] = {"float16", "F16", "FP16", "<f2"},
    [VX_INT32] = {"int32", "I32", "INT32", "<i4"},
    [VX_UINT8] = {"uint8", "U8", "UINT8", "|u1"},
};
