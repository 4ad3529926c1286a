// From points to voxels: the one pass over a cloud that looks at coordinates.
//
// Points are handled in chunks. The arithmetic of a chunk is one loop that the compiler vectorises. Then the slots of
// all its cells are prefetched, and after that looked up, so the cache misses of a chunk overlap.
#include "kernels/cpu/voxelize/points.h"

#include <math.h>

enum { CHUNK = 256 };

struct chunk {
  float xyz[3][CHUNK];
  int32_t cell[3][CHUNK];
  int32_t inside[CHUNK];
  int32_t count;       // points of the chunk; all but the last of a cloud are full
  int32_t not_finite;  // of them

  // The points inside, packed.
  int32_t num_inside;
  int32_t at[CHUNK];  // which point of the chunk
  uint64_t key[CHUNK];
  uint32_t home[CHUNK];
};

static void load(struct chunk *chunk, const float *points, int32_t columns, int32_t count) {
  chunk->count = count;
  for (int32_t i = 0; i < count; i++) {
    const float *point = points + (int64_t)i * columns;
    chunk->xyz[0][i] = point[0];
    chunk->xyz[1][i] = point[1];
    chunk->xyz[2][i] = point[2];
  }
  for (int32_t i = count; i < CHUNK; i++) {
    chunk->xyz[0][i] = chunk->xyz[1][i] = chunk->xyz[2][i] = 0.0f;
  }
}

// Always computes a whole chunk: the vectoriser needs a constant trip count.
static void locate(struct chunk *chunk, const struct vx_cell_map *map) {
  int32_t not_finite = 0;
  for (int32_t i = 0; i < CHUNK; i++) {
    float x = chunk->xyz[0][i], y = chunk->xyz[1][i], z = chunk->xyz[2][i];
    int32_t cell[3];
    chunk->inside[i] = vx_cell_of_point(map, x, y, z, cell);
    chunk->cell[0][i] = cell[0];
    chunk->cell[1][i] = cell[1];
    chunk->cell[2][i] = cell[2];
    not_finite += !((fabsf(x) < INFINITY) & (fabsf(y) < INFINITY) & (fabsf(z) < INFINITY));
  }
  chunk->not_finite = not_finite;
}

static void pack(struct chunk *chunk, struct vx_key_format format, const struct cpu_cell_index *index) {
  int32_t inside = 0;
  for (int32_t i = 0; i < chunk->count; i++) {
    uint64_t key = vx_key(format, chunk->cell[0][i], chunk->cell[1][i], chunk->cell[2][i]);
    uint32_t home = cpu_cell_index_home(index, key);
    __builtin_prefetch(&index->table[home]);
    chunk->at[inside] = i;
    chunk->key[inside] = key;
    chunk->home[inside] = home;
    inside += chunk->inside[i];  // a point outside is overwritten by the next
  }
  chunk->num_inside = inside;
}

static void look_up(const struct chunk *chunk, struct cpu_run *run, int32_t begin) {
  struct cpu_cell_index index = run->cells;  // a copy, which the compiler can keep in registers
  int32_t *inside = run->inside + run->num_inside, *voxel_of = run->voxel_of + run->num_inside;
  for (int32_t i = 0; i < chunk->num_inside; i++) {
    inside[i] = begin + chunk->at[i];
    voxel_of[i] = cpu_cell_index_add(&index, chunk->key[i], chunk->home[i]);
  }
  run->num_inside += chunk->num_inside;
  run->cells.count = index.count;
}

void cpu_index_points(struct cpu_run *run, const struct cpu_cloud *cloud) {
  struct vx_counts *counts = &run->job->counts;
  struct chunk chunk;
  run->num_inside = 0;
  cpu_cell_index_start(&run->cells, cloud->end - cloud->begin, run->map.key.bits);
  for (int32_t begin = cloud->begin; begin < cloud->end; begin += chunk.count) {
    int32_t left = cloud->end - begin;
    load(&chunk, run->points + (int64_t)begin * run->columns, run->columns, left < CHUNK ? left : CHUNK);
    locate(&chunk, &run->map);
    pack(&chunk, run->map.key, &run->cells);
    look_up(&chunk, run, begin);
    counts->not_finite += chunk.not_finite;
    counts->out_of_range += chunk.count - chunk.num_inside - chunk.not_finite;
  }
}
