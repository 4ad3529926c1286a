// From rows to tensors: how each tensor is written.
#ifndef VOXELD_CPU_WRITERS_H
#define VOXELD_CPU_WRITERS_H

#include "kernels/cpu/voxelize/run.h"

// What a piece of the work has a number of.
enum cpu_unit { CPU_ROWS, CPU_CLOUDS, CPU_TENSORS };

// A writer writes what the run has from the first byte to the last, as if that were all of the tensor: some rows, which
// lie together, or one cloud, or the tensor.
struct cpu_writer {
  void (*write)(const struct cpu_run *run, void *out);
  enum cpu_unit unit;
  enum vx_stage stage;
};

// NULL instead of `write`: another operation's tensor, or one of sampling.
extern const struct cpu_writer cpu_writers[VX_TENSOR_COUNT];
// The mean of each row: [num_rows, columns] float32.
extern const struct cpu_writer cpu_writer_of_means;

#endif
