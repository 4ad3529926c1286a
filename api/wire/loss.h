// What coordinates lose when they become float32.
//
// Any thread; nothing here allocates.
#ifndef VOXELD_LOSS_H
#define VOXELD_LOSS_H

#include <stdint.h>

// How far rounding to float32 moved the coordinates, which are the first three columns, and a file's 64-bit numbers in
// other columns.
struct cloud_loss {
  double most;          // metres
  double at;            // the coordinate that moved the most
  int64_t column;       // the column of 64-bit numbers that lost the largest part of its range; 0: none lost anything
  double moved, range;  // of that column: how far its values moved at most, and its range
};

// Records how far a coordinate moved when it became a float32.
void cloud_note_loss(struct cloud_loss *loss, double wide, float value);

#endif
