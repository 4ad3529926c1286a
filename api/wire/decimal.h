// Reads decimal text as the nearest float32.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_DECIMAL_H
#define VOXELD_DECIMAL_H

#include "api/wire/lines.h"

struct decimal {
  float value;  // the nearest
  double wide;  // within a float64's step of the number
};

// Reads a number of any length as C and C++ programs print it: digits with a point and an exponent, or what is not
// finite, such as inf, -nan(ind) or 1.#QNAN. A number beyond float32 is infinite. False if it is none.
bool decimal_read(const struct span *word, struct decimal *out);

#endif
