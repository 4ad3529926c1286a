// Whether points look like those that their model was trained on: intensity, height of the ground, times in seconds.
// Also whether their features are finite.
//
// The sample of a cloud has up to EXPECT_SAMPLE rows, all samples of a batch up to EXPECT_ROWS. The cloud is cut into
// equal stretches, one for each row of the sample. From stretch i comes the row at frac(i * 0x9E3779B9 / 2^32) of its
// length. So a periodic order of rows does not bias the sample, and the rows keep their order. The same rows give the
// same result on every machine. Any thread; nothing here allocates.
#ifndef VOXELD_EXPECT_H
#define VOXELD_EXPECT_H

#include "api/ops/ops.h"
#include "api/wire/points_view.h"

enum {
  EXPECT_SAMPLE = 256,  // maximum rows sampled of a cloud
  EXPECT_LEAST = 32,    // a rule needs at least this many values
  EXPECT_ROWS = 2048,   // maximum rows sampled of a batch
};

enum intensity_fault {
  INTENSITY_GOOD,
  INTENSITY_RANGE,     // not the model's range
  INTENSITY_CONSTANT,  // one number, other than the least of the model's range
  INTENSITY_TIMES,     // change from row to row like times
  INTENSITY_RINGS,     // whole numbers that rise with the points' elevation, like ring numbers
};

// Each rule names the first cloud that breaks it.
struct points_seen {
  const struct points_expected *expected;  // NULL = the points were not inspected
  int32_t num_clouds;
  struct {
    enum intensity_fault fault;
    int32_t cloud;
    float least, most;  // of the sample
  } intensity;
  struct {
    bool off;
    int32_t cloud;
    float z;
  } ground;
  struct {
    bool off;
    int32_t cloud;
    float most;
  } time;
  struct {
    // `bad` of the sample's `rows` rows have finite x, y and z, but another value that is not finite.
    int32_t bad, rows;
    int32_t cloud;
    int32_t column;  // of the first such value
  } features;
};

// Finds no fault in rows that cannot be read.
struct points_seen points_inspect(const struct points_view *view, const struct points_expected *expected);

#endif
