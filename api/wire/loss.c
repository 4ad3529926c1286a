// See loss.h.
#include "api/wire/loss.h"

#include <math.h>

// A number that became infinite is no loss. A number beyond 10^9 m is no coordinate: writers use such numbers for "no
// return".
void cloud_note_loss(struct cloud_loss *loss, double wide, float value) {
  const double farthest = 1e9;
  double moved = fabs(wide - (double)value);
  if (!(fabs(wide) < farthest && moved > loss->most)) return;
  loss->most = moved;
  loss->at = wide;
}
