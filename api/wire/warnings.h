// Warnings in the metadata: the request was answered, but probably is not what the client meant. Each kind is a row of
// a table. Any thread; nothing here allocates.
#ifndef VOXELD_WARNINGS_H
#define VOXELD_WARNINGS_H

#include "api/base/text.h"
#include "api/wire/inspect.h"
#include "kernels/kernels.h"

enum warning {
  WARNING_EMPTY,
  WARNING_MAX_VOXELS,
  WARNING_OUT_OF_RANGE,
  WARNING_STEP_EMPTY,
  WARNING_RINGS_MOVED,
  WARNING_NOT_FINITE,
  WARNING_NUM_FEATURES,
  WARNING_OTHER_COLUMNS,
  WARNING_STRIPPED_BODY,
  WARNING_FORMAT,
  WARNING_ROUNDED,
  WARNING_INTENSITY,
  WARNING_GROUND_Z,
  WARNING_TIME,
  WARNING_FEATURES,
  WARNING_NOT_SCATTERED,
  WARNING_TIMES_EQUAL,
  WARNING_TIMES_CLAMPED,
  WARNING_NO_MOTION,
  WARNING_FEWER_SWEEPS,
  WARNING_CLOCK_AHEAD,
  WARNING_KINDS
};

const char *warning_kind(enum warning warning);

// The warnings of a finished job: bit i stands for warning i.
uint32_t warnings_of(const struct vx_job *job, const struct inspection *inspected);

// Writes a JSON array of objects.
void warnings_write(const struct vx_job *job, const struct inspection *inspected, struct text *out);

// Writes all kinds with their meaning, as a JSON array.
void warnings_describe(struct text *out);

#endif
