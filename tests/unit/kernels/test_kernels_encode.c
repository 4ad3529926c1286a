// The encoder of pillars, compared bit by bit with plain loops over the model's pillars.
#include "tests/unit/kernels/kernels_reference.h"

enum { COLUMNS = 4, CHANNELS = COLUMNS + 6, MOST_WIDTH = 67, LAYERS = 3 };

#define ENCODED (VX_TENSOR_BIT(VX_ENCODED_FEATURES) | VX_TENSOR_BIT(VX_BEV_FEATURES) | VX_TENSOR_BIT(VX_VOXEL_COORDS))

static float weights[LAYERS][2 * MOST_WIDTH * MOST_WIDTH], biases[LAYERS][MOST_WIDTH];

static void make_encoder(struct vx_job *asked, int32_t width, int32_t layers) {
  struct random random = {(uint64_t)width};
  struct vx_encoder *encoder = &asked->params.voxelize.encoder;
  encoder->num_layers = layers;
  for (int32_t l = 0; l < layers; l++) {
    int32_t inputs = l == 0 ? CHANNELS : 2 * width;
    for (int i = 0; i < inputs * width; i++) weights[l][i] = random_in(&random, -1, 1);
    for (int i = 0; i < width; i++) biases[l][i] = random_in(&random, -1, 1);
    encoder->layers[l] = (struct vx_encoder_layer){weights[l], biases[l], inputs, width};
  }
  asked->tensors = ENCODED;
}

// Channel d of a layer for one row.
static float model_channel(const struct vx_encoder_layer *layer, const float *row, int32_t d) {
  volatile float sum = layer->bias[d];  // so that each operation is rounded to float
  for (int32_t c = 0; c < layer->inputs; c++) {
    volatile float product = row[c] * layer->weight[c * layer->width + d];
    sum = sum + product;
  }
  return sum > 0 ? sum : 0;
}

// All layers, over the points of a pillar and, with a cap, its rows of padding.
static void model_encoded(const struct model *model, const struct model_voxel *voxel, float *largest) {
  enum { MOST_ROWS = 300 };
  static float rows[2][MOST_ROWS][2 * MOST_WIDTH];
  const struct vx_voxelize *params = &model->asked->params.voxelize;
  int32_t count = params->max_points_per_voxel == 0 ? voxel->kept : params->max_points_per_voxel;
  assert_true(count <= MOST_ROWS);
  for (int32_t k = 0; k < count; k++)
    for (int32_t c = 0; c < CHANNELS; c++) rows[0][k][c] = k < voxel->kept ? model_pillar(model, voxel, k, c) : 0;
  for (int32_t l = 0; l < params->encoder.num_layers; l++) {
    const struct vx_encoder_layer *layer = &params->encoder.layers[l];
    float(*from)[2 * MOST_WIDTH] = rows[l % 2], (*to)[2 * MOST_WIDTH] = rows[1 - l % 2];
    for (int32_t d = 0; d < layer->width; d++) {
      largest[d] = 0;
      for (int32_t k = 0; k < count; k++) {
        to[k][d] = model_channel(layer, from[k], d);
        if (to[k][d] > largest[d]) largest[d] = to[k][d];
      }
      for (int32_t k = 0; k < count; k++) to[k][layer->width + d] = largest[d];
    }
  }
}

static struct outcome check_encoded(const struct vx_job *asked, const float *points, int32_t num_clouds,
                                    const int32_t *counts) {
  struct outcome outcome = check_batch_on(lane, asked, points, num_clouds, counts);
  struct model model = model_of(asked, points, num_clouds, counts);
  struct vx_grid grid;
  int32_t width = vx_encoder_width(&asked->params.voxelize.encoder);
  assert_int_equal(vx_grid_of(&asked->params.voxelize, 1, &grid, &outcome.error), VX_OK);
  const struct vx_shape *shapes = outcome.layout.shape;
  assert_int_equal(shapes[VX_ENCODED_FEATURES].dims[0], model.num_rows);
  assert_int_equal(shapes[VX_ENCODED_FEATURES].dims[1], width);
  assert_int_equal(shapes[VX_BEV_FEATURES].dims[1], width * grid.cells[2]);
  for (int32_t r = 0; r < model.num_rows; r++) {
    const struct model_voxel *voxel = model.rows[r];
    float expected_row[MOST_WIDTH];
    model_encoded(&model, voxel, expected_row);
    for (int32_t d = 0; d < width; d++) {
      float expected = expected_row[d];
      int64_t plane = ((int64_t)voxel->cloud * width + d) * grid.cells[2] + voxel->cell[2];
      int64_t cell = (plane * grid.cells[1] + voxel->cell[1]) * grid.cells[0] + voxel->cell[0];
      check_value(&shapes[VX_ENCODED_FEATURES], tensor(&outcome, VX_ENCODED_FEATURES),
                  (size_t)r * (size_t)width + (size_t)d, expected);
      check_value(&shapes[VX_BEV_FEATURES], tensor(&outcome, VX_BEV_FEATURES), (size_t)cell, expected);
    }
  }
  model_free(&model);
  return outcome;
}

// Widths around the block size; padding, full pillars, pillars over the cap.
static void every_bit(void **state) {
  (void)state;
  enum { POINTS = 300 };
  const int32_t widths[] = {1, 15, 16, 17, 64, MOST_WIDTH}, counts[] = {200, 0, 100}, caps[] = {3, 3, 0};
  float points[POINTS][COLUMNS];
  struct random random = {7};
  for (int i = 0; i < POINTS; i++)
    for (int c = 0; c < COLUMNS; c++) points[i][c] = random_in(&random, 0, 5);
  for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
    for (int32_t layers = 1; layers <= LAYERS; layers++) {
      struct vx_job asked = plain_params(5);
      make_encoder(&asked, widths[i], layers);
      asked.params.voxelize.max_points_per_voxel = caps[layers - 1];
      asked.params.voxelize.feature_dtype = layers == 2 ? VX_FLOAT16 : VX_FLOAT32;
      struct outcome outcome = check_encoded(&asked, points[0], 3, counts);
      assert_true((outcome.counts.over_voxel_cap > 0) == (caps[layers - 1] > 0));
      free(outcome.block);
    }
  }
}

// One channel over one pillar; only the intensity has a weight.
static float encode_intensities(float with_weight, float with_bias, int32_t cap, const float *intensities,
                                int32_t count) {
  float points[4][COLUMNS];
  for (int32_t i = 0; i < count; i++) {
    for (int c = 0; c < 3; c++) points[i][c] = 0.5f;
    points[i][3] = intensities[i];
  }
  struct vx_job asked = plain_params(1);
  make_encoder(&asked, 1, 1);
  memset(weights, 0, sizeof weights);
  weights[0][3] = with_weight;
  biases[0][0] = with_bias;
  asked.params.voxelize.max_points_per_voxel = cap;
  struct outcome outcome = run_scan(&asked, points, count);
  assert_int_equal(outcome.status, VX_OK);
  float value = *(const float *)tensor(&outcome, VX_ENCODED_FEATURES);
  free(outcome.block);
  return value;
}

// Padding gives max(bias, 0), which must not count for a pillar without padding.
static void padding_takes_part(void **state) {
  (void)state;
  assert_true(encode_intensities(-1, 2, 2, (const float[]){1}, 1) == 2);
  assert_true(encode_intensities(-1, 2, 1, (const float[]){1}, 1) == 1);
  assert_true(encode_intensities(1, -2, 4, (const float[]){1, 7, 4}, 3) == 5);
  assert_int_equal(bits_of(encode_intensities(1, -2, 2, (const float[]){1}, 1)), 0);
  assert_int_equal(bits_of(encode_intensities(-0.0f, -0.0f, 2, (const float[]){1}, 1)), 0);
}

static void nan_does_not_spread(void **state) {
  (void)state;
  assert_true(encode_intensities(1, 0, 4, (const float[]){3, NAN, 2}, 3) == 3);
  assert_int_equal(bits_of(encode_intensities(1, 1, 1, (const float[]){NAN}, 1)), 0);
  assert_true(isinf(encode_intensities(1, 0, 4, (const float[]){3, INFINITY}, 2)));
}

// The sum begins with the bias. Small terms after a large term are lost.
static void sums_have_an_order(void **state) {
  (void)state;
  const float point[1][COLUMNS] = {{0.5f, 0.5f, 0.5f, 1}};
  const float cases[3][CHANNELS] = {{2, 2, -0x1p25f, 0x1p25f}, {0x1p25f, 2, 2, -0x1p24f}, {2, 2, 0, -0x1p24f}};
  const float firsts[3] = {0, 0, 0x1p24f}, expected[3] = {0x1.000002p24f, 0, 0};
  for (int i = 0; i < 3; i++) {
    struct vx_job asked = plain_params(1);
    make_encoder(&asked, 1, 1);
    memcpy(weights[0], cases[i], sizeof cases[i]);
    biases[0][0] = firsts[i];
    asked.params.voxelize.max_points_per_voxel = 1;
    struct outcome outcome = run_scan(&asked, point, 1);
    assert_true(*(const float *)tensor(&outcome, VX_ENCODED_FEATURES) == expected[i]);
    free(outcome.block);
  }
}

static void no_points(void **state) {
  (void)state;
  struct vx_job asked = plain_params(2);
  make_encoder(&asked, 16, 1);
  struct outcome outcome = run_scan(&asked, NULL, 0);
  assert_int_equal(outcome.status, VX_OK);
  const float *map = tensor(&outcome, VX_BEV_FEATURES);
  for (size_t i = 0; i < outcome.layout.shape[VX_BEV_FEATURES].bytes / sizeof *map; i++)
    assert_int_equal(bits_of(map[i]), 0);
  free(outcome.block);
}

static void assert_refused(const struct vx_job *asked, const char *reason) {
  struct outcome outcome = run_scan(asked, NULL, 0);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_non_null(strstr(outcome.error.text, reason));
}

static void refusals(void **state) {
  (void)state;
  struct vx_job asked = plain_params(2);
  make_encoder(&asked, 16, 1);
  asked.params.voxelize.encoder.num_layers = 0;
  assert_refused(&asked, "encoded_features needs an encoder");
  asked.params.voxelize.encoder.num_layers = VX_MAX_ENCODER_LAYERS + 1;
  assert_refused(&asked, "an encoder of 1 to 4 layers");
  make_encoder(&asked, 16, 2);
  asked.params.voxelize.encoder.layers[0].inputs = 11;
  assert_refused(&asked, "layer 0 of the encoder has 11 inputs and 16 channels; for points with 4 columns it needs 10");
  make_encoder(&asked, 16, 2);
  asked.params.voxelize.encoder.layers[1].inputs = 16;
  assert_refused(&asked, "layer 1 of the encoder has 16 inputs and 16 channels");
  make_encoder(&asked, 16, 1);
  asked.params.voxelize.encoder.layers[0].width = 0;
  assert_refused(&asked, "10 inputs and 0 channels");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_bit),          cmocka_unit_test(padding_takes_part), cmocka_unit_test(nan_does_not_spread),
      cmocka_unit_test(sums_have_an_order), cmocka_unit_test(no_points),          cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests_name("encode", tests, open_backend, close_backend);
}
