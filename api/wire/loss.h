// What numbers lose when they become float32. Any thread; nothing here allocates.
#ifndef VOXELD_LOSS_H
#define VOXELD_LOSS_H

#include <stdint.h>

// How far rounding moved coordinates, and 64-bit numbers of a file in other columns.
struct cloud_loss {
  double most;          // metres
  double at;            // the coordinate that moved the most
  int64_t column;       // the column of 64-bit numbers with the largest loss relative to its range; 0 = none
  double moved, range;  // of this column: the largest move, and the range
};

// Notes a coordinate `wide` that became `value`.
void cloud_note_loss(struct cloud_loss *loss, double wide, float value);

#endif
