// The table of types; see number.h.
#include "kernels/number.h"

const char *const vx_float_words[] = {"float32", "float16", NULL};
const char *const vx_dtype_words[] = {"float32", "float16", "int32",  "uint8", "int8",
                                      "int16",   "uint16",  "uint32", NULL};
_Static_assert(sizeof vx_dtype_words / sizeof *vx_dtype_words == VX_SENT_TYPES + 1, "each type has a word");

const struct vx_number vx_numbers[VX_DTYPES] = {
    [VX_FLOAT32] = {"float32", "F32", "FP32", "<f4"}, [VX_FLOAT16] = {"float16", "F16", "FP16", "<f2"},
    [VX_INT32] = {"int32", "I32", "INT32", "<i4"},    [VX_UINT8] = {"uint8", "U8", "UINT8", "|u1"},
    [VX_INT8] = {"int8", "I8", "INT8", "|i1"},        [VX_INT16] = {"int16", "I16", "INT16", "<i2"},
    [VX_UINT16] = {"uint16", "U16", "UINT16", "<u2"}, [VX_UINT32] = {"uint32", "U32", "UINT32", "<u4"},
    [VX_INT64] = {"int64", "I64", "INT64", "<i8"},
};
