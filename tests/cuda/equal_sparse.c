// See equal.h: sparse convolution with random backbones over random cells, also with float16, and what is refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/sparse/sparse.h"
#include "kernels/cuda/sparse/sparse.h"
#include "tests/cuda/equal.h"
#include "tests/support/sparse_cases.h"

struct result {
  enum vx_status status;
  struct error error;
  float *map;
  int64_t level_rows[VX_MAX_SPARSE_LEVELS];
};

static size_t map_bytes(const struct sparse_case *made) { return (size_t)made->values * sizeof(float); }

static struct result run_on_cpu(const struct side *side, const struct sparse_case *made, float *map) {
  struct result result = {.map = map};
  struct vx_stop stop = {0};
  const struct vx_job job = {.stop = &stop};
  struct vx_sparse_result rows = {.map = map};
  result.status = cpu_sparse(side->lane, &job, &made->backbone, &made->rows, cpu_convolve_here(), &rows, &result.error);
  memcpy(result.level_rows, rows.level_rows, sizeof rows.level_rows);
  return result;
}

// Memory of the host that the GPU reads and writes; `used`: bytes from its beginning.
struct room {
  unsigned char *memory;
  size_t bytes, used;
};

static void *copy_into(struct room *room, const void *from, size_t bytes) {
  void *to = room->memory + room->used;
  room->used += (bytes + 255) / 256 * 256;
  if (room->used > room->bytes) abort();
  if (from) memcpy(to, from, bytes);
  return to;
}

static size_t weight_bytes(const struct vx_sparse_layer *layer) {
  return (size_t)(vx_sparse_offsets(layer) * layer->inputs) * (size_t)layer->width * sizeof(float);
}

// A copy of the case, with its arrays in `room`.
static struct sparse_case move_case(const struct sparse_case *made, struct room *room) {
  struct sparse_case moved = *made;
  size_t rows = (size_t)made->rows.num_rows;
  for (int32_t i = 0; i < made->backbone.num_layers; i++) {
    struct vx_sparse_layer *layer = &moved.backbone.layers[i];
    layer->weight = copy_into(room, layer->weight, weight_bytes(layer));
    layer->bias = copy_into(room, layer->bias, (size_t)layer->width * sizeof(float));
  }
  moved.rows.coords = copy_into(room, made->coords, rows * 4 * sizeof(int32_t));
  moved.rows.features = copy_into(room, made->features, rows * (size_t)made->backbone.layers[0].inputs * sizeof(float));
  return moved;
}

static size_t room_for(const struct sparse_case *made) {
  size_t bytes = map_bytes(made) + ((size_t)made->rows.num_rows + 64) * 4096;
  for (int32_t i = 0; i < made->backbone.num_layers; i++) bytes += weight_bytes(&made->backbone.layers[i]) + 4096;
  return bytes;
}

static struct result run_on_gpu(const struct side *side, const struct sparse_case *moved, float *map) {
  struct result result = {.map = map};
  memset(map, 0xA5, map_bytes(moved));
  struct vx_sparse_result rows = {.map = map};
  result.status = cuda_sparse(side->lane, &moved->backbone, &moved->rows, &rows, &result.error);
  memcpy(result.level_rows, rows.level_rows, sizeof rows.level_rows);
  struct error unread;
  enum vx_status waited = cuda_sparse_wait(side->lane, result.status == VX_OK ? &result.error : &unread);
  if (result.status == VX_OK) result.status = waited;
  return result;
}

static bool are_equal(const struct sparse_case *made, const struct result *a, const struct result *b) {
  if (a->status != b->status) return false;
  if (a->status != VX_OK) return strcmp(a->error.text, b->error.text) == 0;
  return memcmp(a->map, b->map, map_bytes(made)) == 0 &&
         memcmp(a->level_rows, b->level_rows, sizeof a->level_rows) == 0;
}

// Runs the first num_rows / part rows of a case on both sides, which write to `map` and to `moved_map`.
static bool compare_part(const struct side sides[2], const struct sparse_case *made, const struct sparse_case *moved,
                         int32_t part, float *map, float *moved_map, const char *name) {
  struct sparse_case ours = *made, theirs = *moved;
  ours.rows.num_rows = theirs.rows.num_rows = made->rows.num_rows / part;
  struct result expected = run_on_cpu(&sides[0], &ours, map), found = run_on_gpu(&sides[1], &theirs, moved_map);
  bool equal = are_equal(made, &found, &expected);
  if (!equal)
    printf("sparse %s: %d %s, on the GPU %d %s\n", name, (int)expected.status,
           expected.status == VX_OK ? "" : expected.error.text, (int)found.status,
           found.status == VX_OK ? "" : found.error.text);
  atomic_fetch_add(&jobs_run, 1);
  atomic_fetch_add(&jobs_equal, equal);
  atomic_fetch_add(&jobs_refused, expected.status != VX_OK);
  atomic_fetch_add(&bytes_compared, (long long)map_bytes(made));
  return equal;
}

// After a quarter of the rows, the lane has too little room for all of them and must grow. At the end, a quarter runs
// again in memory where all rows have left their values.
static void compare_case(const struct side sides[2], const struct sparse_case *made, const char *name, uint64_t seed) {
  static const int32_t parts[] = {4, 1, 1, 4};
  size_t bytes = room_for(made);
  struct room room = {sides[1].backend->host_alloc(sides[1].device, bytes), bytes, 0};
  float *map = malloc(map_bytes(made) + 1);
  if (!room.memory || !map) abort();
  struct sparse_case moved = move_case(made, &room);
  float *moved_map = copy_into(&room, NULL, map_bytes(made));
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!compare_part(sides, made, &moved, parts[i], map, moved_map, name))
      printf("sparse %s %llu: run %zu\n", name, (unsigned long long)seed, i);
  free(map);
  sides[1].backend->host_release(sides[1].device, room.memory, bytes);
}

// ---- float16 --------------------------------------------------------------------------------------------------------

// The error that float16 may have, as a share of the largest value.
static const float MOST_ERROR = 2e-3f;

static bool is_close(const struct sparse_case *made, const float *found, const float *expected) {
  float largest = 0, most = 0;
  for (int64_t i = 0; i < made->values; i++) {
    largest = fmaxf(largest, fabsf(expected[i]));
    most = fmaxf(most, isfinite(found[i]) ? fabsf(found[i] - expected[i]) : INFINITY);
  }
  if (most > MOST_ERROR * largest) printf("sparse float16: error %g of %g\n", (double)most, (double)largest);
  return most <= MOST_ERROR * largest;
}

// Whether the first cloud alone gives the same bytes as in the batch. Overwrites the rows of `moved` with the rows of
// this cloud.
static bool is_equal_alone(const struct side *gpu, const struct sparse_case *moved, const float *batch, float *map) {
  struct sparse_case alone = *moved;
  size_t inputs = (size_t)moved->backbone.layers[0].inputs, count = 0;
  int32_t *coords = (int32_t *)(uintptr_t)moved->rows.coords;
  float *features = (float *)(uintptr_t)moved->rows.features;
  for (size_t i = 0; i < (size_t)moved->rows.num_rows; i++) {
    if (coords[4 * i] != 0) continue;
    memmove(coords + 4 * count, coords + 4 * i, 4 * sizeof *coords);
    memmove(features + inputs * count++, features + inputs * i, inputs * sizeof *features);
  }
  alone.rows.num_clouds = 1;
  alone.rows.num_rows = (int32_t)count;
  alone.values = moved->values / moved->rows.num_clouds;
  return run_on_gpu(gpu, &alone, map).status == VX_OK && memcmp(map, batch, map_bytes(&alone)) == 0;
}

// With float16: equal bytes in every run and alone, close to the CPU's float32. Limits the case's features to -1..1.
static void compare_half(const struct side sides[2], struct sparse_case *made, uint64_t seed) {
  size_t bytes = room_for(made) + map_bytes(made);
  struct room room = {sides[1].backend->host_alloc(sides[1].device, bytes), bytes, 0};
  float *expected = malloc(map_bytes(made) + 1), *first = malloc(map_bytes(made) + 1);
  if (!room.memory || !expected || !first) abort();
  for (int32_t i = 0; i < made->rows.num_rows * made->backbone.layers[0].inputs; i++)
    if (!(fabsf(made->features[i]) <= 1)) made->features[i] = 0.5f;
  struct sparse_case moved = move_case(made, &room);
  float *map = copy_into(&room, NULL, map_bytes(made));
  bool good = run_on_cpu(&sides[0], made, expected).status == VX_OK;
  moved.rows.half = true;
  good = good && run_on_gpu(&sides[1], &moved, map).status == VX_OK && is_close(made, map, expected);
  memcpy(first, map, map_bytes(made));
  good = good && run_on_gpu(&sides[1], &moved, map).status == VX_OK && memcmp(map, first, map_bytes(made)) == 0;
  good = good && is_equal_alone(&sides[1], &moved, first, map);
  if (!good) printf("sparse float16 %llu: wrong\n", (unsigned long long)seed);
  atomic_fetch_add(&jobs_run, 1);
  atomic_fetch_add(&jobs_equal, good);
  atomic_fetch_add(&bytes_compared, (long long)map_bytes(made));
  free(expected);
  free(first);
  sides[1].backend->host_release(sides[1].device, room.memory, bytes);
}

static void test_refused_rows(const struct side sides[2], uint64_t seed, int32_t size) {
  struct sparse_case made = make_full_sparse_case(seed, 2, size, 10);
  made.rows.max_rows = made.rows.num_rows - 1;
  compare_case(sides, &made, "too many", seed);
  made.rows.max_rows = VX_MAX_SPARSE_ROWS;
  int32_t(*cells)[4] = (int32_t(*)[4])made.coords;
  memcpy(cells[7], cells[3], sizeof *cells);
  compare_case(sides, &made, "repeated", seed);
  memcpy(cells[7], (const int32_t[]){0, 0, -1, 0}, sizeof *cells);
  memcpy(cells[9], (const int32_t[]){made.rows.num_clouds, 0, 0, 0}, sizeof *cells);
  compare_case(sides, &made, "outside", seed);
  free_sparse_case(&made);
}

// The second level has 27 times as many cells as the first, more than max_rows, so all runs are refused. The lane is
// new: a kernel that wrote all cells would write past the end of the lane's memory.
static void test_room(const struct side sides[2]) {
  enum { EACH = 15, APART = 3, ROWS = EACH * EACH * EACH, SIDE = EACH * APART };
  struct side own[2] = {sides[0], sides[1]};
  struct error error;
  struct sparse_case made = {.random = 1, .backbone = {.shape = {SIDE, SIDE, SIDE}, .num_layers = 1}};
  made.backbone.layers[0] = (struct vx_sparse_layer){
      .inputs = 1, .width = 16, .kernel = {3, 3, 3}, .stride = {1, 1, 1}, .padding = {1, 1, 1}};
  sparse_case_fill(&made);
  made.coords = calloc(ROWS, 4 * sizeof *made.coords);
  made.features = calloc(ROWS, sizeof *made.features);
  if (!made.coords || !made.features) abort();
  for (int32_t i = 0; i < ROWS; i++) {
    const int32_t at[4] = {0, i / EACH / EACH * APART + 1, i / EACH % EACH * APART + 1, i % EACH * APART + 1};
    memcpy(made.coords + 4 * i, at, sizeof at);
  }
  made.rows = (struct vx_sparse_rows){1, ROWS, made.coords, made.features, ROWS, false};
  made.values = (int64_t)SIDE * SIDE * SIDE * 16;
  if (own[1].backend->lane_open(own[1].device, VX_LANE_QUICK, &own[1].lane, &error) != VX_OK) abort();
  compare_case(own, &made, "room", 0);
  own[1].backend->lane_close(own[1].lane);
  free_sparse_case(&made);
}

void test_sparse(const struct side sides[2], uint64_t seed, int jobs, int64_t largest) {
  int32_t size = largest < 100000 ? 5 : 14;
  for (int i = 0; i < jobs; i++) {
    struct sparse_case made = make_sparse_case(seed * 1000 + (uint64_t)i, 3, size);
    compare_case(sides, &made, "random", seed * 1000 + (uint64_t)i);
    compare_half(sides, &made, seed * 1000 + (uint64_t)i);
    free_sparse_case(&made);
  }
  test_refused_rows(sides, seed, size);
  test_room(sides);
}
