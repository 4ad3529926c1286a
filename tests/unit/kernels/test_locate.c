// Finding the cells of points: every implementation that this processor can run, compared with a plain model.
#include <float.h>

#include "kernels/cpu/voxelize/locate.h"
#include "tests/unit/kernels/kernels_reference.h"

// In and around the grid, bounds and floats just below them, huge values, NaN.
static float coordinate(const struct vx_cell_map *map, int axis, struct random *random) {
  float min = map->min[axis], max = min + map->size[axis] * map->limit[axis];
  const float odd[] = {min,
                       max,
                       nextafterf(min, -INFINITY),
                       nextafterf(max, -INFINITY),
                       -0.0f,
                       1e30f,
                       -1e30f,
                       NAN,
                       INFINITY,
                       -INFINITY,
                       FLT_MAX,
                       -FLT_MAX};
  uint32_t pick = next_random(random) % 48;
  return pick < sizeof odd / sizeof *odd ? odd[pick]
                                         : random_in(random, min - 0.1f * (max - min), max + 0.1f * (max - min));
}

static bool is_finite_point(const float *point) {
  return isfinite(point[0]) && isfinite(point[1]) && isfinite(point[2]);
}

// The key of a point; -1: out of range.
static int64_t model_key(const struct vx_cell_map *map, const float *point) {
  const int shift[3] = {map->key.yz_bits, map->key.z_bits, 0};
  int64_t key = 0;
  for (int axis = 0; axis < 3; axis++) {
    float place = (point[axis] - map->min[axis]) / map->size[axis];
    place = place < map->least[axis] ? map->least[axis] : place > map->most[axis] ? map->most[axis] : place;
    float cell = floorf(place);
    if (!(cell >= 0.0f && cell < map->limit[axis])) return -1;
    key |= (int64_t)cell << shift[axis];
  }
  return key;
}

static void check_chunk(const struct cpu_locate_way *way, const struct vx_cell_map *map, int32_t columns, int32_t count,
                        struct random *random) {
  float *points = malloc((size_t)count * (size_t)columns *
                         sizeof *points);  // the exact size, so that a sanitizer sees a read past the end
  assert_non_null(points);
  for (int32_t i = 0; i < count * columns; i++)
    points[i] = i % columns < 3 ? coordinate(map, i % columns, random) : NAN;
  struct cpu_located located;
  way->locate(map, points, columns, count, &located);
  int32_t inside = 0, not_finite = 0;
  for (int32_t i = 0; i < count; i++) {
    const float *point = points + i * columns;
    int64_t key = model_key(map, point);
    not_finite += !is_finite_point(point);
    if (key >= 0) {
      assert_true(inside < located.num_inside);
      assert_int_equal(located.at[inside], i);
      assert_int_equal(located.key[inside], key);
      inside++;
    }
  }
  assert_int_equal(located.num_inside, inside);
  assert_int_equal(located.not_finite, not_finite);
  free(points);
}

// Grids whose keys have few bits, more than 32, and 61.
static const struct vx_voxelize grids[] = {
    {.range_min = {-54, -54, -5}, .range_max = {54, 54, 3}, .voxel_size = {0.2f, 0.2f, 0.2f}},
    {.range_min = {0, -40, -3}, .range_max = {70.4f, 40, 1}, .voxel_size = {0.05f, 0.05f, 0.1f}},
    {.range_min = {1, 1, 1}, .range_max = {2, 2, 2}, .voxel_size = {1, 1, 1}},
    {.range_min = {-100, -100, -100}, .range_max = {100, 100, 100}, .voxel_size = {1e-3f, 1e-3f, 1e-2f}},
    {.range_min = {0, 0, 0}, .range_max = {2e9f, 1e6f, 1e3f}, .voxel_size = {1, 1, 1}},
    {.range_min = {0, -3, -4},
     .range_max = {50, 3, 2},
     .voxel_size = {0.25f, 0.5f, 0.5f},
     .coordinates = VX_CYLINDER,
     .grid_shape = {201, 13, 13}},
};

static void every_way(void **state) {
  (void)state;
  struct random random = {1};
  for (int w = 0; w < cpu_num_locate_ways; w++) {
    const struct cpu_locate_way *way = &cpu_locate_ways[w];
    if (!way->runs()) {
      print_message("%s does not run on this processor\n", way->name);
      continue;
    }
    for (size_t g = 0; g < sizeof grids / sizeof *grids; g++) {
      struct vx_grid grid;
      struct error error;
      assert_int_equal(vx_grid_of(&grids[g], 1, &grid, &error), VX_OK);
      struct vx_cell_map map = vx_cell_map_of(&grids[g], &grid);
      for (int32_t count = 1; count <= CPU_CHUNK; count++) {
        check_chunk(way, &map, 3 + count % (VX_MAX_FEATURES - 2), count, &random);
        check_chunk(way, &map, 4, count, &random);
      }
    }
  }
}

static void plain_runs_everywhere(void **state) {
  (void)state;
  assert_true(cpu_locate_ways[cpu_num_locate_ways - 1].runs());
  assert_string_equal(cpu_locate_ways[cpu_num_locate_ways - 1].name, "plain");
}

static void fastest_is_taken(void **state) {
  (void)state;
  int w = 0;
  while (!cpu_locate_ways[w].runs()) w++;
  assert_ptr_equal(cpu_locate_here(), cpu_locate_ways[w].locate);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way),
      cmocka_unit_test(plain_runs_everywhere),
      cmocka_unit_test(fastest_is_taken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
