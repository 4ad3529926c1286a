// Sparse convolution on the CPU. tests/oracle/test_sparse.py compares every bit with numpy.
#include <limits.h>

#include "kernels/cpu/sparse/fused.h"
#include "kernels/cpu/sparse/sparse.h"
#include "tests/support/sparse_cases.h"
#include "tests/unit/kernels/kernels_reference.h"

enum { CASES = 30 / PART, MOST_TASKS = 4096 };

static struct vx_lane *helper;

static int open_lanes(void **state) {
  struct error error;
  return open_backend(state) || backend->lane_open(device, VX_LANE_QUICK, &helper, &error) != VX_OK;
}

static int close_lanes(void **state) {
  backend->lane_close(helper);
  return close_backend(state);
}

struct result {
  enum vx_status status;
  struct error error;
  float *map;
  int64_t level_rows[VX_MAX_SPARSE_LEVELS];
};

static struct result run_case(const struct sparse_case *made, cpu_convolve *convolve, const struct vx_caller *caller,
                              void *ctx) {
  struct vx_stop stop = {caller ? caller->stopped : NULL, ctx, 0, false};
  struct vx_job job = {.stop = &stop, .caller = caller, .ctx = ctx};
  size_t bytes = (size_t)made->values * sizeof(float);
  struct result result = {.map = malloc(bytes + 1)};
  assert_non_null(result.map);
  memset(result.map, 0xA5, bytes);
  struct vx_sparse_result rows = {.map = result.map};
  result.status = cpu_sparse(lane, &job, &made->backbone, &made->rows, convolve, &rows, &result.error);
  memcpy(result.level_rows, rows.level_rows, sizeof rows.level_rows);
  return result;
}

static void assert_equal(const struct sparse_case *made, const struct result *a, const struct result *b) {
  assert_int_equal(a->status, VX_OK);
  assert_int_equal(b->status, VX_OK);
  assert_memory_equal(a->map, b->map, (size_t)made->values * sizeof(float));
  assert_memory_equal(a->level_rows, b->level_rows, sizeof a->level_rows);
}

static cpu_convolve *plain_way(void) { return cpu_convolve_ways[cpu_num_convolve_ways - 1].convolve; }

static void every_way(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= CASES; seed++) {
    struct sparse_case made = make_sparse_case(seed, 3, 8);
    struct result plain = run_case(&made, plain_way(), NULL, NULL);
    for (int w = 0; w < cpu_num_convolve_ways - 1; w++) {
      const struct cpu_convolve_way *way = &cpu_convolve_ways[w];
      if (!way->runs()) continue;
      struct result result = run_case(&made, way->convolve, NULL, NULL);
      assert_equal(&made, &result, &plain);
      free(result.map);
    }
    free(plain.map);
    free_sparse_case(&made);
  }
}

static void fastest_is_taken(void **state) {
  (void)state;
  int w = 0;
  while (!cpu_convolve_ways[w].runs()) w++;
  assert_ptr_equal(cpu_convolve_here(), cpu_convolve_ways[w].convolve);
  assert_string_equal(cpu_convolve_ways[cpu_num_convolve_ways - 1].name, "plain");
}

// ---- tasks ----------------------------------------------------------------------------------------------------------

// Does the tasks from last to first, every second on the helper's lane, every third twice.
static enum vx_status do_backwards(void *ctx, const struct vx_worker *own, const struct vx_tasks *tasks,
                                   struct error *error) {
  struct vx_stop stop = {0};
  const struct vx_worker other = {helper, &stop};
  enum vx_status status = VX_OK;
  (void)ctx;
  for (int32_t task = tasks->count - 1; task >= 0 && status == VX_OK; task--) {
    const struct vx_worker *worker = task % 2 == 0 ? own : &other;
    status = tasks->run(tasks->ctx, worker, task, error);
    if (task % 3 == 0 && status == VX_OK) status = tasks->run(tasks->ctx, worker, task, error);
  }
  return status;
}

static void any_order_of_tasks(void **state) {
  (void)state;
  const struct vx_caller caller = {.parallel_for = do_backwards};
  for (uint64_t seed = 1; seed <= CASES; seed++) {
    struct sparse_case made = make_sparse_case(seed, 3, 8);
    struct result alone = run_case(&made, cpu_convolve_here(), NULL, NULL);
    struct result together = run_case(&made, cpu_convolve_here(), &caller, NULL);
    assert_equal(&made, &together, &alone);
    free(alone.map);
    free(together.map);
    free_sparse_case(&made);
  }
}

static void many_repeats(void **state) {
  (void)state;
  struct sparse_case made = make_full_sparse_case(7, 3, 5, 100);
  struct result first = run_case(&made, cpu_convolve_here(), NULL, NULL);
  for (int i = 0; i < 1000 / PART; i++) {
    struct result again = run_case(&made, cpu_convolve_here(), NULL, NULL);
    assert_equal(&made, &again, &first);
    free(again.map);
  }
  free(first.map);
  free_sparse_case(&made);
}

// ---- stops and scratch ----------------------------------------------------------------------------------------------

// One layer over a grid whose cells are all occupied.
static struct sparse_case solid_case(void) {
  struct sparse_case made = {.random = 5, .backbone = {.shape = {8, 32, 40}, .num_layers = 1}};
  made.backbone.layers[0] =
      (struct vx_sparse_layer){.inputs = 16, .width = 64, .kernel = {3, 3, 3}, .submanifold = true};
  made.rows = (struct vx_sparse_rows){.num_clouds = 1, .max_rows = VX_MAX_SPARSE_ROWS};
  made.values = (int64_t)64 * 8 * 32 * 40;
  sparse_case_fill(&made);
  sparse_case_cells(&made, 256);
  assert_int_equal(made.rows.num_rows, 8 * 32 * 40);
  return made;
}

static bool count_down(void *ctx) {
  int *left = ctx;
  return (*left)-- <= 0;
}

// Stopped at any of its calls of `stopped`, a job ends with VX_STOPPED.
static void stops(void **state) {
  (void)state;
  const struct vx_caller caller = {.stopped = count_down};
  struct sparse_case made = solid_case();
  int asked = 1 << 20;
  struct result whole = run_case(&made, cpu_convolve_here(), &caller, &asked);
  asked = (1 << 20) - asked;
  assert_int_equal(whole.status, VX_OK);
  assert_true(asked >= 3);
  free(whole.map);
  for (int after = 0; after < asked; after += PART) {
    int left = after;
    struct result result = run_case(&made, cpu_convolve_here(), &caller, &left);
    assert_int_equal(result.status, VX_STOPPED);
    free(result.map);
  }
  free_sparse_case(&made);
}

// The calls of count_down since `left` was INT_MAX. Resets `left`.
static int64_t asks_of(struct vx_stop *stop) {
  int *left = stop->ctx;
  int64_t asks = INT_MAX - *left;
  *left = INT_MAX;
  return asks;
}

// Two levels of one shape, whose lines have few rows but many words.
static void passes_over_long_lines_ask(void **state) {
  (void)state;
  enum { LINES = 520, WORDS = VX_MAX_SPARSE_SIDE / 32 + 1, STRIDES = (int)(LINES * WORDS / VX_STRIDE) };
  static struct cpu_word words[2][LINES * WORDS + 1];
  static int32_t first[2][LINES + 1], x[2 * LINES], coords[LINES][4];
  const int32_t last = VX_MAX_SPARSE_SIDE - 1;
  struct cpu_level from = {{1, LINES, last + 1}, 1, WORDS, 0, first[0], words[0], x}, to = from;
  const struct vx_sparse_layer layer = {.kernel = {1, 3, 3}, .stride = {1, 1, 1}, .padding = {0, 1, 1}};
  int left = INT_MAX;
  struct vx_stop stop = {count_down, &left, 0, false};
  struct error error;
  to.first = first[1];
  to.word = words[1];
  for (int32_t i = 0; i < LINES; i++) memcpy(coords[i], ((const int32_t[]){0, 0, i, last}), sizeof coords[i]);
  const struct vx_sparse_rows rows = {.num_clouds = 1, .num_rows = LINES, .coords = coords[0]};
  assert_int_equal(cpu_level_mark(&from, &rows, &stop, &error), VX_OK);
  assert_true(asks_of(&stop) >= STRIDES + 1);  // counting the words; and clearing them, where 64 bytes count as a row
  cpu_level_stride(&to, &from, &layer, &stop);
  assert_int_equal(to.num_rows, 2 * LINES);
  assert_true(asks_of(&stop) >= 5 * STRIDES);  // passes: three to merge lines, one to stride, one to count
  cpu_level_list(&to, &stop);
  assert_true(asks_of(&stop) >= STRIDES);
  left = 0;
  cpu_level_stride(&to, &from, &layer, &stop);
  assert_int_equal(vx_stop_status(&stop, &error), VX_STOPPED);
}

static void cells_of_full_lines_ask(void **state) {
  (void)state;
  enum { FULL = 4, SIDE = VX_MAX_SPARSE_SIDE };
  static int32_t first[FULL + 1], x[FULL * SIDE], cells[FULL * SIDE][4];
  const struct cpu_level level = {.shape = {1, FULL, SIDE}, .num_clouds = 1, .first = first, .x = x};
  int left = INT_MAX;
  struct vx_stop stop = {count_down, &left, 0, false};
  for (int32_t i = 0; i <= FULL; i++) first[i] = i * SIDE;
  cpu_level_cells(&level, &stop, cells[0]);
  assert_int_equal(cells[FULL * SIDE - 1][2], FULL - 1);
  assert_true(asks_of(&stop) >= FULL * SIDE / VX_STRIDE);
}

static bool allow_nothing(void *ctx, size_t bytes) {
  (void)ctx, (void)bytes;
  return false;
}

static void scratch_is_asked_for(void **state) {
  (void)state;
  const struct vx_caller caller = {.scratch = allow_nothing};
  struct sparse_case made = {.random = 1, .backbone = {.shape = {256, 512, 4096}, .num_layers = 1}};
  made.backbone.layers[0] =
      (struct vx_sparse_layer){.inputs = 4, .width = 16, .kernel = {1, 1, 1}, .submanifold = true};
  made.rows = (struct vx_sparse_rows){.num_clouds = 1, .max_rows = 1};
  sparse_case_fill(&made);
  struct result result = run_case(&made, cpu_convolve_here(), &caller, NULL);
  assert_int_equal(result.status, VX_OUT_OF_MEMORY);
  assert_non_null(strstr(result.error.text, "bytes of scratch are over the limit"));
  free(result.map);
  free_sparse_case(&made);
}

// ---- refusals -------------------------------------------------------------------------------------------------------

#define THREE(a)                                                                                                       \
  { a, a, a }

static void refusals(void **state) {
  (void)state;
  static const struct {
    struct vx_sparse backbone;
    const char *reason;
  } cases[] = {
      {{.shape = {1, 1, 1}}, "the backbone has 0 layers; sparse convolution takes 1 to 32"},
      {{.shape = {1, 1, 1}, .num_layers = 33}, "the backbone has 33 layers; sparse convolution takes 1 to 32"},
      {{.shape = {1, 0, 1}, .num_layers = 1},
       "the backbone's grid has 0 cells along y; sparse convolution takes 1 to 32768"},
      {{.shape = {1, 1, 32769}, .num_layers = 1},
       "the backbone's grid has 32769 cells along x; sparse convolution takes 1 to 32768"},
      {{{9, 9, 9}, 1, {{.inputs = 4, .width = 16, .kernel = {3, 2, 3}, .submanifold = true}}},
       "layer 0 of the backbone has a kernel of 2 along y; a submanifold layer takes 1 or 3"},
      {{{9, 9, 9}, 1, {{.inputs = 4, .width = 16, .kernel = {4, 3, 3}, .stride = THREE(1)}}},
       "layer 0 of the backbone has a kernel of 4 along z; a layer takes 1 to 3"},
      {{{9, 9, 9}, 1, {{.inputs = 4, .width = 16, .kernel = THREE(3), .stride = {1, 1, 3}}}},
       "layer 0 of the backbone has stride 3 and padding 0 along x; a layer takes stride 1 or 2 and padding 0 or 1"},
      {{{9, 9, 9}, 1, {{.inputs = 4, .width = 16, .kernel = THREE(3), .stride = THREE(2), .padding = {2, 0, 0}}}},
       "layer 0 of the backbone has stride 2 and padding 2 along z; a layer takes stride 1 or 2 and padding 0 or 1"},
      {{{9, 9, 9}, 1, {{.inputs = 4, .width = 24, .kernel = THREE(3), .submanifold = true}}},
       "layer 0 of the backbone makes 24 channels; sparse convolution makes 16 to 128, in steps of 16"},
      {{{9, 9, 9}, 1, {{.inputs = 129, .width = 16, .kernel = THREE(3), .submanifold = true}}},
       "layer 0 of the backbone takes 129 channels; it gets 129, and a layer takes 1 to 128"},
      {{{9, 9, 9}, 1, {{.inputs = 16, .width = 16, .kernel = THREE(3), .submanifold = true, .adds = true}}},
       "layer 0 of the backbone adds the input of the layer before; there is no layer before"},
      {{{9, 9, 9},
        2,
        {{.inputs = 4, .width = 16, .kernel = THREE(3), .submanifold = true},
         {.inputs = 16, .width = 16, .kernel = THREE(3), .submanifold = true, .adds = true}}},
       "layer 1 of the backbone adds the input of the layer before, which has other rows or channels"},
      {{{2, 9, 9}, 1, {{.inputs = 4, .width = 16, .kernel = THREE(3), .stride = THREE(2)}}},
       "layer 0 of the backbone leaves no cell of 2 along z"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct vx_sparse_plan plan;
    struct error error;
    assert_int_equal(vx_sparse_plan_of(&cases[i].backbone, &plan, &error), VX_REFUSED);
    assert_string_equal(error.text, cases[i].reason);
  }
}

static void batches_are_refused(void **state) {
  (void)state;
  const struct vx_sparse_plan plan = {.num_levels = 1, .shape = {{32768, 32768, 4}}};
  struct error error;
  assert_int_equal(vx_sparse_rows_fit(&plan, &(struct vx_sparse_rows){.num_clouds = 2, .max_rows = 1}, &error),
                   VX_REFUSED);
  assert_string_equal(error.text, "2 clouds are too many for a grid of 32768 x 32768 x 4 cells");
  assert_int_equal(vx_sparse_rows_fit(&plan, &(struct vx_sparse_rows){.num_clouds = 1, .max_rows = 0}, &error),
                   VX_REFUSED);
  assert_int_equal(vx_sparse_rows_fit(&plan, &(struct vx_sparse_rows){.num_clouds = 1, .max_rows = 1}, &error), VX_OK);
}

// ---- the fused step -------------------------------------------------------------------------------------------------

static void check_step(float a, float b, float c) {
  float found = cpu_fuse_in_double(a, b, c), expected = fmaf(a, b, c);
  assert_true(bits_of(found) == bits_of(expected) || (isnan(found) && isnan(expected)));
}

// Random bits, and sums near the middle of two floats, with subnormals and overflows.
static void step_in_double(void **state) {
  (void)state;
  struct sparse_case made = {.random = 3};
  for (int i = 0; i < 300000 / PART; i++) {
    float value[3];
    for (int j = 0; j < 3; j++) {
      uint32_t bits = sparse_case_bits(&made) << 1 | (sparse_case_bits(&made) & 1);
      memcpy(&value[j], &bits, sizeof bits);
    }
    check_step(value[0], value[1], value[2]);
    check_step(value[0], value[1], -value[0] * value[1]);
    check_step(value[0], value[1], value[0] * value[1] * 0x1p24f);
    check_step(1 + 0x1p-23f, 1 - 0x1p-24f, value[2]);
    check_step(value[0], 0x1p-149f, value[2] * 0x1p-126f);
    check_step(0x1.fffffep127f, 1 + sparse_case_unit(&made) * 0x1p-20f, 0x1p102f * sparse_case_unit(&made));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way),
      cmocka_unit_test(fastest_is_taken),
      cmocka_unit_test(any_order_of_tasks),
      cmocka_unit_test(many_repeats),
      cmocka_unit_test(stops),
      cmocka_unit_test(passes_over_long_lines_ask),
      cmocka_unit_test(cells_of_full_lines_ask),
      cmocka_unit_test(scratch_is_asked_for),
      cmocka_unit_test(refusals),
      cmocka_unit_test(batches_are_refused),
      cmocka_unit_test(step_in_double),
  };
  if (setenv("VOXELD_TEST_BACKEND", "cpu", 1) != 0) return 1;
  return cmocka_run_group_tests(tests, open_lanes, close_lanes);
}
