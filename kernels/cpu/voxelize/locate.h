// From coordinates to cells, a chunk of points at a time. All implementations compute the same bits.
#ifndef VOXELD_CPU_LOCATE_H
#define VOXELD_CPU_LOCATE_H

#include "kernels/grid.h"

enum { CPU_CHUNK = 256 };  // a multiple of every vector's length

// The points of a chunk that are in range, packed, in input order. The rest of each array is undefined.
struct cpu_located {
  int32_t num_inside;
  int32_t not_finite;       // points
  int32_t at[CPU_CHUNK];    // the point's number in the chunk
  uint64_t key[CPU_CHUNK];  // the point's cell
};

// Locates `count` points, 1 .. CPU_CHUNK, of `columns` values each, 3 .. VX_MAX_FEATURES.
typedef void cpu_locate(const struct vx_cell_map *map, const float *points, int32_t columns, int32_t count,
                        struct cpu_located *located);

struct cpu_locate_way {
  const char *name;
  bool (*runs)(void);  // whether this processor can run it
  cpu_locate *locate;
};

// The fastest first; plain C is last.
extern const struct cpu_locate_way cpu_locate_ways[];
extern const int cpu_num_locate_ways;

// The fastest way on this processor.
cpu_locate *cpu_locate_here(void);

#endif
