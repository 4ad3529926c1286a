// Whether points look like the points that their model was trained on: intensity, the height of the ground, and seconds
// in the column of time. Also whether their features are finite.
//
// The values of a sample of rows decide. Each cloud has a sample of up to EXPECT_SAMPLE rows, spread over the cloud; a
// batch has up to EXPECT_ROWS rows of samples. The sample divides the cloud into stretches of equal length, and takes
// one row of each: the row that is frac(i * 0x9E3779B9 / 2^32) of the way through stretch i. So a periodic order of
// rows does not bias the sample, and the rows of the sample are in the order of the cloud. The same rows give the same
// result on every machine. Any thread; nothing here allocates.
#ifndef VOXELD_EXPECT_H
#define VOXELD_EXPECT_H

#include "api/ops/ops.h"
#include "api/wire/points_view.h"

enum {
  EXPECT_SAMPLE = 256,  // maximum rows of a cloud
  EXPECT_LEAST = 32,    // a rule judges at least this many values
  EXPECT_ROWS = 2048,   // maximum rows of a batch
};

// What is wrong with intensity.
enum intensity_fault {
  INTENSITY_GOOD,
  INTENSITY_RANGE,     // the range is not the model's
  INTENSITY_CONSTANT,  // all values are one number, other than the least of the model's range
  INTENSITY_TIMES,     // the values change from row to row as times do
  INTENSITY_RINGS,     // the values are whole numbers that rise with the points' elevation, as ring numbers do
};

// How the points differ from what the model expects. Each rule names the first cloud that breaks it.
struct points_seen {
  const struct points_expected *expected;  // NULL: the points were not inspected
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
    int32_t column;  // of the first value that is not finite
  } features;
};

// Reports no fault if the rows of the view cannot be read.
struct points_seen points_inspect(const struct points_view *view, const struct points_expected *expected);

#endif
