// From coordinates to cells: the arithmetic of a chunk of points, for each kind of processor.
//
// Every way computes the same bits: each operation is IEEE float32, and there is no sum whose order could differ.
#ifndef VOXELD_CPU_LOCATE_H
#define VOXELD_CPU_LOCATE_H

#include "kernels/grid.h"

enum { CPU_CHUNK = 256 };  // a multiple of every vector's length

// The points of a chunk that are in range, packed, in input order. What is behind them means nothing.
struct cpu_located {
  int32_t num_inside;
  int32_t not_finite;       // points, none of them inside
  int32_t at[CPU_CHUNK];    // which point of the chunk
  uint64_t key[CPU_CHUNK];  // its cell
};

// Locates `count` points, 1 .. CPU_CHUNK, of `columns` values each, 3 .. VX_MAX_FEATURES.
typedef void cpu_locate(const struct vx_cell_map *map, const float *points, int32_t columns, int32_t count,
                        struct cpu_located *located);

struct cpu_locate_way {
  const char *name;
  bool (*runs)(void);  // on this processor
  cpu_locate *locate;
};

// The fastest first; the last is plain C and runs everywhere.
extern const struct cpu_locate_way cpu_locate_ways[];
extern const int cpu_num_locate_ways;

// The fastest that runs here.
cpu_locate *cpu_locate_here(void);

#endif
