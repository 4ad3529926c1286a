// Reads decimal text as the nearest float32.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_DECIMAL_H
#define VOXELD_DECIMAL_H

#include "api/wire/lines.h"

// Reads a number as C and C++ programs print it: digits with a point and an exponent, or inf or nan. A number beyond
// float32 is infinite. False if it is none, or longer than 63 bytes.
bool decimal_read(const struct span *word, float *out);

#endif
