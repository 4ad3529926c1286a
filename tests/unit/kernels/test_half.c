// float16 <-> float32.
#include "kernels/half.h"
#include "tests/unit/kernels/kernels_reference.h"

static void widens_every_half_exactly(void **state) {
  (void)state;
  for (uint32_t half = 0; half < 0x10000; half++)
    assert_int_equal(bits_of(vx_half_to_float((uint16_t)half)), bits_of(model_widen((uint16_t)half)));
}

static void round_trip(void **state) {
  (void)state;
  for (uint32_t half = 0; half < 0x10000; half++) {
    bool is_nan = (half & 0x7FFF) > 0x7C00;
    assert_int_equal(vx_float_to_half(vx_half_to_float((uint16_t)half)), is_nan ? 0x7E00 : half);
  }
}

static void rounds_to_nearest_even(void **state) {
  (void)state;
  for (uint32_t half = 0; half < 0x7C00; half++) {
    double next = half + 1 == 0x7C00 ? 65536.0 : half_value((uint16_t)(half + 1));
    float middle = (float)((half_value((uint16_t)half) + next) / 2);
    uint32_t even = half + (half & 1);
    for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
      float flip = sign ? -1.0f : 1.0f;
      assert_int_equal(vx_float_to_half(flip * middle), sign | even);
      assert_int_equal(vx_float_to_half(flip * nextafterf(middle, 0.0f)), sign | half);
      assert_int_equal(vx_float_to_half(flip * nextafterf(middle, INFINITY)), sign | (half + 1));
    }
  }
}

static void agrees_with_the_model_everywhere(void **state) {
  (void)state;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 4099) {
    float value = float_of((uint32_t)bits);
    assert_int_equal(vx_float_to_half(value), model_narrow(value));
  }
}

static void overflow_becomes_infinity(void **state) {
  (void)state;
  assert_int_equal(vx_float_to_half(65504.0f), 0x7BFF);
  assert_int_equal(vx_float_to_half(nextafterf(65520.0f, 0.0f)), 0x7BFF);
  assert_int_equal(vx_float_to_half(65520.0f), 0x7C00);
  assert_int_equal(vx_float_to_half(-3.4e38f), 0xFC00);
  assert_int_equal(vx_float_to_half(INFINITY), 0x7C00);
}

static void underflow_keeps_the_sign(void **state) {
  (void)state;
  assert_int_equal(vx_float_to_half(float_of(1)), 0);
  assert_int_equal(vx_float_to_half(-float_of(1)), 0x8000);
  assert_int_equal(vx_float_to_half(-0.0f), 0x8000);
}

static void any_nan_becomes_one_nan(void **state) {
  (void)state;
  const uint32_t nans[] = {0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC12345, 0xFFFFFFFF};
  for (size_t i = 0; i < sizeof nans / sizeof *nans; i++) {
    assert_int_equal(vx_float_to_half(float_of(nans[i])), 0x7E00);
    assert_int_equal(bits_of(vx_canonical(float_of(nans[i]))), 0x7FC00000);
  }
  assert_int_equal(bits_of(vx_canonical(-0.0f)), 0x80000000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(widens_every_half_exactly), cmocka_unit_test(round_trip),
      cmocka_unit_test(rounds_to_nearest_even),    cmocka_unit_test(agrees_with_the_model_everywhere),
      cmocka_unit_test(overflow_becomes_infinity), cmocka_unit_test(underflow_keeps_the_sign),
      cmocka_unit_test(any_nan_becomes_one_nan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
