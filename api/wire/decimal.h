// Reads decimal text as the nearest float32. Any thread; nothing here allocates.
#ifndef VOXELD_DECIMAL_H
#define VOXELD_DECIMAL_H

#include "api/wire/lines.h"

struct decimal {
  float value;  // nearest to the text
  double wide;  // off by less than one step of float64
};

// A number of any length as C and C++ programs print it, such as -1.5e3, inf, -nan(ind) or 1.#QNAN. A number beyond
// float32 becomes infinite. False if the text is not a number.
bool decimal_read(const struct span *word, struct decimal *out);

#endif
