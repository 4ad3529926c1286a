// The backbone of model.json: faults of layers and tensors, and random changes of a good description.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/detector_backbone.h"

enum { COLUMNS = 4, MUTATIONS = 5000 };
static const int32_t cells[3] = {6, 5, 8};

static const char good[] =
    "{'file':'b','shape':[9,5,6],'layers':["
    "{'name':'a','kind':'submanifold','in':4,'out':16,'kernel':[3,3,3]},"
    "{'name':'b','kind':'submanifold','in':16,'out':16,'kernel':[3,3,3]},"
    "{'name':'c','kind':'submanifold','in':16,'out':16,'kernel':[1,3,3],'adds':true},"
    "{'name':'d','kind':'strided','in':16,'out':32,'kernel':[3,3,3],'stride':[2,2,2],'padding':[0,1,1]}]}";

static json_t *read_text(const char *text) {
  char quoted[2048];
  snprintf(quoted, sizeof quoted, "%s", text);
  for (char *c = quoted; *c; c++)
    if (*c == '\'') *c = '"';
  json_t *json = json_loads(quoted, JSON_DECODE_ANY, NULL);
  if (!json) fail_msg("no JSON: %s", quoted);
  return json;
}

static bool read(json_t *object, struct backbone *backbone, struct error *error) {
  *backbone = (struct backbone){.max_rows = 0};
  return backbone_read_json(backbone, object, cells, COLUMNS, error);
}

// ---- the description ------------------------------------------------------------------------------------------------

static void layers_are_read(void **state) {
  (void)state;
  struct backbone backbone;
  struct error error;
  json_t *object = read_text(good);
  if (!read(object, &backbone, &error)) fail_msg("%s", error.text);
  assert_int_equal(backbone.layers.num_layers, 4);
  assert_int_equal(backbone.max_rows, VX_MAX_SPARSE_ROWS);
  assert_string_equal(backbone.names[3], "d");
  assert_true(backbone.layers.layers[2].adds && !backbone.layers.layers[1].adds);
  assert_true(backbone.layers.layers[0].submanifold && !backbone.layers.layers[3].submanifold);
  assert_memory_equal(backbone.layers.layers[2].kernel, ((const int32_t[]){1, 3, 3}), 12);
  assert_memory_equal(backbone.layers.layers[3].stride, ((const int32_t[]){2, 2, 2}), 12);
  assert_memory_equal(backbone.layers.layers[3].padding, ((const int32_t[]){0, 1, 1}), 12);
  assert_memory_equal(backbone.plan.shape[1], ((const int32_t[]){4, 3, 3}), 12);
  assert_int_equal(backbone.plan.width, 32);
  json_decref(object);
}

static void what_is_wrong_with_the_layers(void **state) {
  (void)state;
  static const struct {
    int layer;                   // -1: the backbone itself
    const char *member, *value;  // NULL: without the member
    const char *fault;           // without "model.json: "
  } rows[] = {
      {-1, "colour", "1", "backbone has a member 'colour' that has no meaning there"},
      {-1, "shape", "[9,5]", "backbone.shape is not a list of three numbers from 1 to 32768, along z, y and x"},
      {-1, "shape", "[9,0,6]", "backbone.shape is not a list of three numbers from 1 to 32768, along z, y and x"},
      {-1, "shape", "[8,5,6]", "backbone.shape is [8,5,6]; with these voxels it must be [9,5,6]"},
      {-1, "layers", NULL, "backbone.layers is not a list of 1 to 32 layers"},
      {-1, "layers", "[]", "backbone.layers is not a list of 1 to 32 layers"},
      {-1, "layers", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33]",
       "backbone.layers is not a list of 1 to 32 layers"},
      {-1, "layers", "[5]", "backbone.layers[0] is not an object"},
      {-1, "max_rows", "0", "backbone.max_rows is not a whole number from 1 to 134217728"},
      {-1, "max_rows", "134217729", "backbone.max_rows is not a whole number from 1 to 134217728"},
      {1, "add", "0", "backbone.layers[1] has a member 'add' that has no meaning there"},
      {1, "name", NULL, "backbone.layers[1].name is not a string of 1 to 63 bytes"},
      {2, "name", "'b'", "backbone.layers[2].name is 'b', which is also the name of layers[1]"},
      {1, "kind", "'sparse'", "backbone.layers[1].kind is 'sparse'; allowed: submanifold, strided"},
      {1, "in", "0", "backbone.layers[1].in is not a whole number from 1 to 128"},
      {1, "in", "32", "layer 1 of the backbone takes 32 channels; it gets 16, and a layer takes 1 to 128"},
      {1, "out", "0", "backbone.layers[1].out is not a whole number from 16 to 128 in steps of 16"},
      {1, "out", "24", "backbone.layers[1].out is not a whole number from 16 to 128 in steps of 16"},
      {1, "out", "144", "backbone.layers[1].out is not a whole number from 16 to 128 in steps of 16"},
      {1, "out", "'16'", "backbone.layers[1].out is not a whole number from 16 to 128 in steps of 16"},
      {0, "in", "5", "backbone.layers[0].in is 5; voxelize.num_features is 4"},
      {1, "kernel", "[3,3]", "backbone.layers[1].kernel is not a list of three numbers from 1 to 3, along z, y and x"},
      {1, "kernel", "[3,3,2.5]",
       "backbone.layers[1].kernel is not a list of three numbers from 1 to 3, along z, y and x"},
      {1, "kernel", "[3,2,3]", "layer 1 of the backbone has a kernel of 2 along y; a submanifold layer takes 1 or 3"},
      {3, "kernel", "[3,3,5]",
       "backbone.layers[3].kernel is not a list of three numbers from 1 to 3, along z, y and x"},
      {1, "stride", "[1,1,1]", "backbone.layers[1].stride is given; a submanifold layer has none"},
      {3, "kernel", "[0,3,3]",
       "backbone.layers[3].kernel is not a list of three numbers from 1 to 3, along z, y and x"},
      {3, "stride", NULL, "backbone.layers[3].stride is not a list of three numbers from 1 to 2, along z, y and x"},
      {3, "stride", "[2,2,3]",
       "backbone.layers[3].stride is not a list of three numbers from 1 to 2, along z, y and x"},
      {3, "stride", "[0,2,2]",
       "backbone.layers[3].stride is not a list of three numbers from 1 to 2, along z, y and x"},
      {3, "padding", "[0,-1,1]",
       "backbone.layers[3].padding is not a list of three numbers from 0 to 1, along z, y and x"},
      {3, "padding", "[0,2,1]",
       "backbone.layers[3].padding is not a list of three numbers from 0 to 1, along z, y and x"},
      {0, "adds", "true", "layer 0 of the backbone adds the input of the layer before; there is no layer before"},
      {2, "adds", "1", "backbone.layers[2].adds is neither true nor false"},
      {3, "adds", "true",
       "layer 3 of the backbone adds the input of the layer before, which has other rows or channels"},
      {1, "adds", "true",
       "layer 1 of the backbone adds the input of the layer before, which has other rows or channels"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct backbone backbone;
    struct error error;
    char expected[256];
    json_t *object = read_text(good), *part = object;
    if (rows[i].layer >= 0) part = json_array_get(json_object_get(object, "layers"), (size_t)rows[i].layer);
    if (rows[i].value)
      json_object_set_new(part, rows[i].member, read_text(rows[i].value));
    else
      json_object_del(part, rows[i].member);
    assert_false(read(object, &backbone, &error));
    snprintf(expected, sizeof expected, "model.json: %s", rows[i].fault);
    assert_string_equal(error.text, expected);
    json_decref(object);
  }
}

// ---- random changes -------------------------------------------------------------------------------------------------

static uint32_t noise = 1;

static uint32_t below(uint32_t limit) {
  noise = noise * 1664525 + 1013904223;
  return (noise >> 8) % limit;
}

// Changes or removes a random member of the object or of one of its layers, or adds `adds`.
static void change(json_t *object) {
  static const char *const values[] = {
      "null",        "true", "-1",  "0",     "1",  "2",       "3",  "16",      "128",  "129",       "32768",  "1e300",
      "99999999999", "''",   "'a'", "'..x'", "[]", "[1,1,1]", "{}", "[2,2,2]", "[[]]", "[3,3,3,3]", "{'a':1}"};
  json_t *layers = json_object_get(object, "layers"), *part = object;
  if (below(8) && json_array_size(layers) > 0) part = json_array_get(layers, below((uint32_t)json_array_size(layers)));
  if (!json_is_object(part)) return;
  uint32_t number = below((uint32_t)json_object_size(part) + 1);
  const char *name = "adds";
  for (void *at = json_object_iter(part); at; at = json_object_iter_next(part, at))
    if (number-- == 0) name = json_object_iter_key(at);
  char own[16];
  snprintf(own, sizeof own, "%s", name);
  if (below(6) == 0)
    json_object_del(part, own);
  else
    json_object_set_new(part, own, read_text(values[below(sizeof values / sizeof *values)]));
}

static void changed_layers_are_read_or_refused(void **state) {
  (void)state;
  int refused = 0;
  for (int i = 0; i < MUTATIONS; i++) {
    struct backbone backbone;
    struct error error = {.text = ""};
    json_t *object = read_text(good);
    for (uint32_t changes = below(3); changes > 0; changes--) change(object);
    if (read(object, &backbone, &error)) {
      struct vx_sparse_plan plan;
      assert_int_equal(vx_sparse_plan_of(&backbone.layers, &plan, &error), VX_OK);
      assert_memory_equal(&plan, &backbone.plan, sizeof plan);
    } else {
      assert_int_equal(strncmp(error.text, "model.json: ", 12), 0);
      refused++;
    }
    json_decref(object);
  }
  assert_true(refused > MUTATIONS / 4 && refused < MUTATIONS);
}

// ---- weights --------------------------------------------------------------------------------------------------------

enum { WEIGHTS = 27 * COLUMNS * 16, LENGTH = 256 };

// Checks a backbone of one layer. `header` describes the tensors of its weights; `last` is the last float.
static void check_weights(const char *header, float last, const char *fault) {
  static const char one[] = "{'file':'b','shape':[9,5,6],'layers':["
                            "{'name':'a','kind':'submanifold','in':4,'out':16,'kernel':[3,3,3]}]}";
  static char bytes[8 + LENGTH + sizeof(float) * (WEIGHTS + 16)];
  const uint64_t length = LENGTH;
  memset(bytes, ' ', sizeof bytes);
  memcpy(bytes, &length, sizeof length);
  for (size_t i = 0; header[i]; i++) bytes[8 + i] = (char)(header[i] == '\'' ? '"' : header[i]);
  for (int i = 0; i < WEIGHTS + 16; i++) {
    float value = i == WEIGHTS + 15 ? last : (float)i;
    memcpy(bytes + 8 + LENGTH + sizeof value * (size_t)i, &value, sizeof value);
  }
  struct backbone backbone;
  struct tensor_file tensors;
  struct error error = {.text = ""};
  json_t *object = read_text(one);
  assert_true(read(object, &backbone, &error));
  assert_true(tensor_file_open("the file", bytes, sizeof bytes, &tensors, &error));
  assert_int_equal(backbone_read_weights(&backbone, &tensors, &error), !fault);
  if (fault) assert_string_equal(error.text, fault);
  if (!fault) assert_true(backbone.layers.layers[0].weight[5] >= 5 && backbone.layers.layers[0].bias[0] >= WEIGHTS);
  tensor_file_close(&tensors);
  backbone_release(&backbone);
  json_decref(object);
}

#define WEIGHT "'a.weight':{'dtype':'F32','shape':[27,4,16],'data_offsets':[0,6912]}"
#define BIAS "'a.bias':{'dtype':'F32','shape':[16],'data_offsets':[6912,6976]}"

static void weights_are_read_or_refused(void **state) {
  (void)state;
  check_weights("{" WEIGHT "," BIAS "}", 1, NULL);
  check_weights("{" WEIGHT "," BIAS "}", INFINITY, "tensor a.bias has values that are not finite");
  check_weights("{'__metadata__':{'a':'b'}," WEIGHT "," BIAS "}", 1, NULL);
  check_weights("{" WEIGHT "," BIAS ",'a.weights':{}}", 1, "it has a tensor a.weights, which no layer uses");
  check_weights("{" WEIGHT "," BIAS ",'weight':{}}", 1, "it has a tensor weight, which no layer uses");
  check_weights("{" WEIGHT "," BIAS ",'aa.bias':{}}", 1, "it has a tensor aa.bias, which no layer uses");
  check_weights("{" BIAS "}", 1, "it has no tensor a.weight");
  check_weights("{" WEIGHT "}", 1, "it has no tensor a.bias");
  check_weights("{'a.weight':{'dtype':'F32','shape':[3,3,3,4,16],'data_offsets':[0,6912]}," BIAS "}", 1,
                "tensor a.weight has no shape of 1 to 4 dimensions");
  check_weights("{'a.weight':{'dtype':'F32','shape':[16,27,4],'data_offsets':[0,6912]}," BIAS "}", 1,
                "tensor a.weight does not have the shape [27, 4, 16]");
  check_weights("{'a.weight':{'dtype':'I32','shape':[27,4,16],'data_offsets':[0,6912]}," BIAS "}", 1,
                "tensor a.weight has the dtype I32; allowed: F32");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_are_read),
      cmocka_unit_test(what_is_wrong_with_the_layers),
      cmocka_unit_test(changed_layers_are_read_or_refused),
      cmocka_unit_test(weights_are_read_or_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
