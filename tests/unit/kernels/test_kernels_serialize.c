// The parts of serialize (kernels/serialize.h). tests/oracle/test_serialize.py compares every bit of the operation.
#include "kernels/cpu/base/base.h"
#include "kernels/cpu/serialize/serialize.h"
#include "kernels/grid.h"
#include "kernels/ops.h"
#include "tests/unit/kernels/kernels_reference.h"

static const struct vx_chain no_steps;

static struct vx_job job_of(void) {
  struct vx_job job = {.op = VX_SERIALIZE,
                       .inputs = {vx_points_of(VX_FLOAT32, 0, 3, NULL)},
                       .tensors = VX_SERIAL_TENSORS,
                       .chain = &no_steps};
  job.params.serialize = (struct vx_serialize){.size = {1, 1, 1}, .num_orders = 1, .orders = {VX_CURVE_Z}};
  return job;
}

static void test_keys(void **state) {
  (void)state;
  assert_int_equal(vx_z_key(0xFFFF, 0, 0), UINT64_C(0x924924924924));
  assert_int_equal(vx_z_key(0, 0xFFFF, 0), UINT64_C(0x492492492492));
  assert_int_equal(vx_z_key(0, 0, 0xFFFF), UINT64_C(0x249249249249));
  assert_int_equal(vx_z_key(1, 0, 1), 5);
  // The order of the Hilbert curve of depth 1: a Gray code.
  static const uint32_t cells[8][3] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 1}, {0, 1, 0},
                                       {1, 1, 0}, {1, 1, 1}, {1, 0, 1}, {1, 0, 0}};
  for (uint64_t i = 0; i < 8; i++) assert_int_equal(vx_hilbert_key(1, cells[i][0], cells[i][1], cells[i][2]), i);
}

// The curve visits every cell once, and goes from a cell to a neighbour.
static void test_hilbert(void **state) {
  (void)state;
  enum { DEPTH = 4, SIDE = 1 << DEPTH, CELLS = SIDE * SIDE * SIDE };
  static int32_t at[CELLS][3];
  memset(at, 0xFF, sizeof at);
  for (int32_t cell = 0; cell < CELLS; cell++) {
    const int32_t place[3] = {cell % SIDE, cell / SIDE % SIDE, cell / SIDE / SIDE};
    uint64_t key = vx_hilbert_key(DEPTH, (uint32_t)place[0], (uint32_t)place[1], (uint32_t)place[2]);
    assert_true(key < CELLS && at[key][0] < 0);
    memcpy(at[key], place, sizeof place);
  }
  for (int i = 1; i < CELLS; i++) {
    int steps = 0;
    for (int axis = 0; axis < 3; axis++) steps += abs(at[i][axis] - at[i - 1][axis]);
    assert_int_equal(steps, 1);
  }
}

static uint64_t key_of(int32_t curve, int32_t depth, const int32_t *cell) {
  bool swap = vx_is_transposed(curve);
  uint32_t x = (uint32_t)cell[swap], y = (uint32_t)cell[!swap], z = (uint32_t)cell[2];
  return vx_is_hilbert(curve) ? vx_hilbert_key(depth, x, y, z) : vx_z_key(x, y, z);
}

// Keys of blocks equal those of single cells, for every curve and depth.
static void every_processor_finds_the_same_keys(void **state) {
  (void)state;
  int32_t grid[CPU_KEYS][3];
  uint64_t here[CPU_KEYS], any[CPU_KEYS];
  struct random random = {5};
  for (int32_t depth = 1; depth <= VX_MAX_SERIAL_DEPTH; depth++)
    for (int32_t curve = 0; curve < VX_CURVES; curve++) {
      int32_t count = depth % 2 == 0 ? CPU_KEYS : 1 + 13 * depth;
      for (int32_t i = 0; i < 3 * count; i++)
        grid[i / 3][i % 3] = (int32_t)(next_random(&random) & ((1u << depth) - 1));
      cpu_find_keys(curve, depth, grid[0], count, here);
      cpu_find_keys_any(curve, depth, grid[0], count, any);
      for (int32_t i = 0; i < count; i++) {
        assert_int_equal(here[i], key_of(curve, depth, grid[i]));
        assert_int_equal(any[i], here[i]);
      }
    }
}

// word = key << NUMBER_BITS | row. Equal keys keep their order, so sorted words ascend.
static void words_are_sorted(void **state) {
  (void)state;
  enum { NUMBER_BITS = 6, COUNT = 1 << NUMBER_BITS };
  uint64_t words[COUNT], spare[COUNT];
  struct random random = {6};
  for (int key_bits = 1; key_bits + NUMBER_BITS <= 64; key_bits++) {
    uint64_t given = 0, seen = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
      uint64_t key = ((uint64_t)next_random(&random) << 32 | next_random(&random)) >> (64 - key_bits);
      words[i] = key << NUMBER_BITS | i;
      given ^= words[i];
    }
    const uint64_t *sorted = cpu_sort_words(NULL, words, spare, COUNT, NUMBER_BITS, key_bits);
    for (int i = 1; i < COUNT; i++) assert_true(sorted[i - 1] < sorted[i]);
    for (int i = 0; i < COUNT; i++) seen ^= sorted[i];
    assert_int_equal(seen, given);
  }
}

// vx_bits_for(rows): the bits of the row numbers 0 to rows - 1.
static void test_bits_of_rows(void **state) {
  (void)state;
  static const int32_t rows[][2] = {
      {0, 0},         {1, 0}, {2, 1}, {3, 2}, {1 << 24, 24}, {(1 << 24) + 1, 25}, {1 << 30, 30}, {(1 << 30) + 1, 31},
      {INT32_MAX, 31}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) assert_int_equal(vx_bits_for(rows[i][0]), rows[i][1]);
}

static void test_depths(void **state) {
  (void)state;
  struct error error;
  struct vx_serialize params = {.depth = 0};
  int32_t depth;
  static const int32_t of_most[][2] = {{0, 1}, {1, 2}, {2, 2}, {3, 3}, {4094, 12}, {4095, 13}, {65534, 16}};
  for (size_t i = 0; i < sizeof of_most / sizeof *of_most; i++) {
    assert_int_equal(vx_serial_depth(&params, of_most[i][0], &depth, &error), VX_OK);
    assert_int_equal(depth, of_most[i][1]);
  }
  assert_int_equal(vx_serial_depth(&params, 65535, &depth, &error), VX_REFUSED);
  params.depth = 3;
  assert_int_equal(vx_serial_depth(&params, 7, &depth, &error), VX_OK);
  assert_int_equal(vx_serial_depth(&params, 8, &depth, &error), VX_REFUSED);
  assert_non_null(strstr(error.text, "grid_coord reaches 8, which needs the depth 4; allowed: up to 3"));
}

static void assert_refused(const struct vx_serialize *params) {
  struct error error;
  assert_int_equal(vx_check_serialize(params, &error), VX_REFUSED);
}

static void test_refusals(void **state) {
  (void)state;
  const struct vx_serialize good = job_of().params.serialize;
  struct vx_serialize bad = good;
  struct error error;
  assert_int_equal(vx_check_serialize(&good, &error), VX_OK);
  bad.num_orders = 0, assert_refused(&bad);
  bad = good, bad.num_orders = 2, assert_refused(&bad);  // the same order twice
  bad = good, bad.orders[0] = VX_CURVES, assert_refused(&bad);
  bad = good, bad.size[1] = 0, assert_refused(&bad);
  bad = good, bad.depth = 17, assert_refused(&bad);
  bad = good, bad.num_pools = 1, bad.strides[0] = 3, assert_refused(&bad);
  bad = good, bad.num_pools = VX_MAX_POOLS + 1, assert_refused(&bad);
  bad = good, bad.fixed = true, bad.origin[2] = 2e6f, assert_refused(&bad);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keys),
      cmocka_unit_test(test_hilbert),
      cmocka_unit_test(every_processor_finds_the_same_keys),
      cmocka_unit_test(words_are_sorted),
      cmocka_unit_test(test_bits_of_rows),
      cmocka_unit_test(test_depths),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
