// Whether points look like those that their model was trained on: the range of intensity, the height of the ground, and
// seconds in the column of time.
//
// The values of up to EXPECT_SAMPLE rows decide. They are spread over all n rows: row i of the sample is
// floor(n * frac(i * 0x9E3779B9 / 2^32)), so a periodic order of rows does not bias the sample. The same rows give the
// same result on every machine, in about 10 to 40 us.
// Any thread; nothing here allocates.
#ifndef VOXELD_EXPECT_H
#define VOXELD_EXPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "api/ops/ops.h"

enum { EXPECT_SAMPLE = 256, EXPECT_LEAST = 32 };  // rows; fewer rows than EXPECT_LEAST are not judged

// How the points differ from what the model expects.
struct points_seen {
  const struct points_expected *expected;  // NULL: nothing is expected
  bool intensity_off, ground_off, time_off;
  float least_intensity, most_intensity;  // of the sample
  float ground;                           // if it is off
  float most_time;
};

// One value of points, which may lie at any byte.
float points_value(const struct vx_input *points, int64_t index);

// `points`: [N, C], all in host memory. `body_columns`: columns of the body; a stream may have added one, the time.
struct points_seen points_look(const struct vx_input *points, int32_t body_columns,
                               const struct points_expected *expected);

#endif
