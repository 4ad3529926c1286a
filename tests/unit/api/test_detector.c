// Detectors from files that the test writes, with an engine of the test. Checks the whole fault of each bad file or
// network, and the page of a detector.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/detectors.h"
#include "api/query.h"

// ---- an engine ------------------------------------------------------------------------------------------------------

static struct vx_network_shape shape;
static bool opens;
static int networks;  // open networks

static const char *version_of(const struct vx_engine_library *library) {
  (void)library;
  return "1.2";
}

static enum vx_status network_open(struct vx_engine_library *library, const char *path, int threads,
                                   size_t memory_bytes, struct vx_network **network, struct error *error) {
  (void)library;
  assert_int_equal(threads, 3);
  assert_int_equal(memory_bytes, 4096);
  assert_non_null(strstr(path, "/one/net.onnx"));
  snprintf(error->text, sizeof error->text, "%s", opens ? "" : "it is torn");
  *network = opens ? (struct vx_network *)(void *)&shape : NULL;
  networks += opens;
  return opens ? VX_OK : VX_FAILED;
}

static void network_close(struct vx_network *network) {
  assert_ptr_equal(network, &shape);
  networks--;
}

static const struct vx_network_shape *network_shape(const struct vx_network *network) {
  (void)network;
  return &shape;
}

static const struct vx_engine engine = {.name = "test",
                                        .version = version_of,
                                        .network_open = network_open,
                                        .network_close = network_close,
                                        .network_shape = network_shape};

// ---- files ----------------------------------------------------------------------------------------------------------

static char folder[] = "/tmp/voxeld-detector-XXXXXX", one[64];

static const char model[] =
    "{'format':1,'description':'a model','class_names':['car','van'],'voxelize':{'num_features':4,"
    "'point_cloud_range':[0,0,0,3,2,1],'voxel_size':[1,1,1],'max_points_per_voxel':4,'max_voxels':100},"
    "'encoder':{'file':'encoder','features':'pillar10','width':5},"
    "'network':{'file':'net.onnx','input':'in','layout':'nhwc','outputs':{'cls_preds':'c','box_preds':'b'}},"
    "'decode':{'point_cloud_range':[0,0,0,3,2,1],'anchor_sizes':[1,1,1,2,2,2],'anchor_bottoms':[0,0]}}";

static void write_file(const char *name, const void *bytes, size_t size) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", one, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static json_t *read_json(const char *text) {
  char quoted[2048];
  snprintf(quoted, sizeof quoted, "%s", text);
  for (char *c = quoted; *c; c++)
    if (*c == '\'') *c = '"';
  json_t *json = json_loads(quoted, JSON_DECODE_ANY, NULL);
  if (!json) fail_msg("no JSON: %s", quoted);
  return json;
}

// Writes model.json with `value` at `where` ("member" or "part.member"). `value` NULL: without that member.
static void write_model(const char *where, const char *value) {
  json_t *root = read_json(model), *part = root;
  const char *dot = where ? strchr(where, '.') : NULL, *member = dot ? dot + 1 : where;
  char first[32];
  snprintf(first, sizeof first, "%.*s", dot ? (int)(dot - where) : 0, where ? where : "");
  if (dot) part = json_object_get(root, first);
  if (where && value) assert_int_equal(json_object_set_new(part, member, read_json(value)), 0);
  if (where && !value) assert_int_equal(json_object_del(part, member), 0);
  char *text = json_dumps(root, 0);
  write_file("model.json", text, strlen(text));
  free(text);
  json_decref(root);
}

// Writes the file of the encoder's weights: the header, its ' replaced by ", then the floats 0, 1, 2, ...
static void write_encoder(const char *header, int floats) {
  static char bytes[4096];
  uint64_t length = strlen(header);
  memcpy(bytes, &length, sizeof length);
  for (size_t i = 0; i < length; i++) bytes[8 + i] = (char)(header[i] == '\'' ? '"' : header[i]);
  for (int i = 0; i < floats; i++) {
    float value = (float)i;
    memcpy(bytes + 8 + length + sizeof value * (size_t)i, &value, sizeof value);
  }
  write_file("encoder", bytes, 8 + length + sizeof(float) * (size_t)floats);
}

#define WEIGHT "'weight':{'dtype':'F32','shape':[10,5],'data_offsets':[0,200]}"
#define BIAS "'bias':{'dtype':'F32','shape':[5],'data_offsets':[200,220]}"

static struct vx_network_tensor tensor(const char *name, int64_t height, int64_t width, int64_t channels) {
  struct vx_network_tensor made = {.dtype = VX_FLOAT32, .rank = 4, .dims = {-1, height, width, channels}};
  snprintf(made.name, sizeof made.name, "%s", name);
  return made;
}

static int reset(void **state) {
  (void)state;
  write_model(NULL, NULL);
  write_encoder("{" WEIGHT "," BIAS "}", 55);
  shape = (struct vx_network_shape){.inputs = 1, .outputs = 3};
  shape.input[0] = tensor("in", 5, 2, 3);
  shape.output[0] = tensor("more", -1, -1, -1);
  shape.output[1] = tensor("c", 2, 3, 8);
  shape.output[2] = tensor("b", 2, 3, 28);
  opens = true;
  return 0;
}

static int make_folder(void **state) {
  (void)state;
  if (!mkdtemp(folder)) return -1;
  snprintf(one, sizeof one, "%s/one", folder);
  return mkdir(one, 0700);
}

static int remove_folder(void **state) {
  (void)state;
  char path[128];
  const char *const names[] = {"model.json", "encoder"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", one, names[i]);
    if (unlink(path) != 0) return -1;
  }
  return rmdir(one) | rmdir(folder);
}

static struct detectors *load(void) {
  const struct detector_means means = {
      .engine = &engine, .library = (struct vx_engine_library *)(void *)&shape, .threads = 3, .memory_bytes = 4096};
  struct error error;
  struct detectors *detectors = detectors_load(folder, &means, &error);
  if (!detectors) fail_msg("%s", error.text);
  assert_int_equal(detectors_count(detectors), 1);
  return detectors;
}

// Checks the model's fault; NULL: the model serves.
static void has_fault(const char *expected) {
  struct detectors *detectors = load();
  const char *fault = detector_fault(detectors_at(detectors, 0));
  if (!expected && fault) fail_msg("it does not serve: %s", fault);
  if (expected && !fault) fail_msg("it serves; expected: %s", expected);
  if (expected) assert_string_equal(fault, expected);
  detectors_close(detectors);
  assert_int_equal(networks, 0);
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static void what_is_wrong_with_model_json(void **state) {
  (void)state;
  static const struct {
    const char *where, *value, *fault;  // fault: without "model.json: "; NULL: none
  } rows[] = {
      {"format", "2", "format is not 1, the format that this version reads"},
      {"format", "'1'", "format is not 1, the format that this version reads"},
      {"format", NULL, "format is not 1, the format that this version reads"},
      {"colour", "1", "it has a member 'colour' that has no meaning there"},
      {"#colour", "1", NULL},
      {"description", "''", "description is not a string of 1 to 511 bytes"},
      {"description", "5", "description is not a string of 1 to 511 bytes"},
      {"class_names", "'car'", "class_names is not a list of names of up to 255 bytes in all"},
      {"class_names", "[]", "class_names is not a list of names of up to 255 bytes in all"},
      {"class_names", "['car',5]", "class_names[1] is not a string"},
      {"class_names", "['car','van,bus']", "class_names[1] has a comma"},
      {"voxelize", "[]", "voxelize is not an object"},
      {"encoder", NULL, "encoder is not an object"},
      {"network", "1", "network is not an object"},
      {"decode", "null", "decode is not an object"},
      {"voxelize.fps", "5", "voxelize: fps is given; a model does not sample"},
      {"voxelize", "{'coordinates':'cylinder','point_cloud_range':[0,-3,-4,50,3,2],'grid_shape':[9,9,9]}",
       "voxelize: coordinates is cylinder; a model takes voxels in x, y and z"},
      {"encoder.size", "5", "encoder has a member 'size' that has no meaning there"},
      {"encoder.file", "''", "encoder.file is not a string of 1 to 255 bytes"},
      {"encoder.file", "'../x'", "encoder.file is '../x'; allowed: the name of a file beside it"},
      {"encoder.file", "'a/x'", "encoder.file is 'a/x'; allowed: the name of a file beside it"},
      {"encoder.file", "'.x'", "encoder.file is '.x'; allowed: the name of a file beside it"},
      {"encoder.features", "'pillar9'",
       "encoder.features is 'pillar9'; with voxelize.num_features = 4 it must be 'pillar10'"},
      {"encoder.features", NULL, "encoder.features is not a string of 1 to 31 bytes"},
      {"encoder.layers", "0", "encoder.layers is not a whole number from 1 to 4"},
      {"encoder.layers", "5", "encoder.layers is not a whole number from 1 to 4"},
      {"encoder.layers", "'1'", "encoder.layers is not a whole number from 1 to 4"},
      {"encoder.layers", "1", NULL},
      {"encoder.width", NULL, "encoder.width is not a whole number from 1 to 4096"},
      {"encoder.width", "0", "encoder.width is not a whole number from 1 to 4096"},
      {"encoder.width", "4097", "encoder.width is not a whole number from 1 to 4096"},
      {"network.more", "1", "network has a member 'more' that has no meaning there"},
      {"network.file", "5", "network.file is not a string of 1 to 255 bytes"},
      {"network.input", NULL, "network.input is not a string of 1 to 127 bytes"},
      {"network.layout", "'chw'", "network.layout is 'chw'; allowed: nhwc, nchw"},
      {"network.layout", "'0123456789abcdef'", "network.layout is not a string of 1 to 15 bytes"},
      {"network.outputs", "[]", "network.outputs is not an object"},
      {"network.outputs", "{'cls_preds':'c'}", "network.outputs has no box_preds"},
      {"network.outputs", "{'hm':'c'}", "network.outputs has 'hm', which is not an input of decode"},
      {"network.outputs", "{'cls_preds':''}", "network.outputs.cls_preds is not a string of 1 to 127 bytes"},
      {"decode.head", "'hat'", "decode.head is 'hat'; allowed: anchor, center"},
      {"decode.head", "5", "decode.head is not a string; allowed: anchor, center"},
      {"decode.head", "'anchor'", NULL},
      {"detect", "5", "detect is not an object"},
      {"detect", "{}", NULL},
      {"detect", "{'score_threshold':0.5}", "detect has a member 'score_threshold' that has no meaning there"},
      {"detect", "{'track_max_age':101}", "detect: track_max_age is '101'; allowed: a whole number from 0 to 100"},
      {"detect", "{'track_max_distance':0}", "detect: track_max_distance has 0; allowed: above 0"},
      {"detect", "{'track_max_distance':[1,2,3]}",
       "detect: track_max_distance has 3 numbers for 2 classes; allowed: one, or one for each"},
      {"detect", "{'track_max_distance':[1,2.5],'track_max_age':0}", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char expected[256];
    snprintf(expected, sizeof expected, "model.json: %s", rows[i].fault ? rows[i].fault : "");
    write_model(rows[i].where, rows[i].value);
    has_fault(rows[i].fault ? expected : NULL);
  }
  write_file("model.json", "[]", 2);
  has_fault("model.json: it is not an object");
}

static void texts_fit_to_the_last_byte(void **state) {
  (void)state;
  static const struct {
    const char *where, *before, *after, *fault;
    int most;
  } rows[] = {
      {"description", "'", "'", "model.json: description is not a string of 1 to 511 bytes", 511},
      {"class_names", "['car','", "']", "model.json: class_names is not a list of names of up to 255 bytes in all",
       251},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int more = 0; more < 2; more++) {
      char value[1024], text[513];
      memset(text, 'x', sizeof text);
      snprintf(value, sizeof value, "%s%.*s%s", rows[i].before, rows[i].most + more, text, rows[i].after);
      write_model(rows[i].where, value);
      has_fault(more ? rows[i].fault : NULL);
    }
    write_model(NULL, NULL);
  }
}

static void what_is_wrong_with_the_weights(void **state) {
  (void)state;
  static const struct {
    const char *header;
    int floats;
    const char *fault;
  } rows[] = {
      {"{" BIAS "}", 55, "it has no tensor weight"},
      {"{" WEIGHT "}", 50, "it has no tensor bias"},
      {"{'weight':{'dtype':'F32','shape':[5,10],'data_offsets':[0,200]}," BIAS "}", 55,
       "tensor weight does not have the shape [10, width]"},
      {"{'weight':{'dtype':'F32','shape':[10,5,1],'data_offsets':[0,200]}," BIAS "}", 55,
       "tensor weight does not have the shape [10, width]"},
      {"{'weight':{'dtype':'F32','shape':[10,0],'data_offsets':[0,0]}}", 0,
       "tensor weight does not have the shape [10, width]"},
      {"{'weight':{'dtype':'F32','shape':[10,4],'data_offsets':[0,160]}}", 40,
       "tensor weight has 4 columns; encoder.width is 5"},
      {"{" WEIGHT ",'bias':{'dtype':'F32','shape':[4],'data_offsets':[200,216]}}", 54,
       "tensor bias does not have the shape [5]"},
      {"{" WEIGHT ",'bias':{'dtype':'F32','shape':[1,5],'data_offsets':[200,220]}}", 55,
       "tensor bias does not have the shape [5]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char expected[256];
    snprintf(expected, sizeof expected, "encoder: %s", rows[i].fault);
    write_encoder(rows[i].header, rows[i].floats);
    has_fault(expected);
  }
}

// Each layer after the first takes twice as many columns as the layer before it makes.
static void layers_follow_each_other(void **state) {
  (void)state;
  static const char *const headers[] = {"{'weight':{'dtype':'F32','shape':[10,2],'data_offsets':[0,80]},"
                                        "'bias':{'dtype':'F32','shape':[2],'data_offsets':[80,88]},"
                                        "'weight_1':{'dtype':'F32','shape':[4,5],'data_offsets':[88,168]},"
                                        "'bias_1':{'dtype':'F32','shape':[5],'data_offsets':[168,188]}}",
                                        "{'weight':{'dtype':'F32','shape':[10,2],'data_offsets':[0,80]},"
                                        "'bias':{'dtype':'F32','shape':[2],'data_offsets':[80,88]},"
                                        "'weight_1':{'dtype':'F32','shape':[2,5],'data_offsets':[88,128]},"
                                        "'bias_1':{'dtype':'F32','shape':[5],'data_offsets':[128,148]}}"};
  write_model("encoder.layers", "2");
  write_encoder(headers[1], 37);
  has_fault("encoder: tensor weight_1 does not have the shape [4, width]");
  write_encoder(headers[0], 47);
  struct detectors *detectors = load();
  static struct job_request request;
  job_request_init(&request, VX_DETECT);
  assert_true(detector_choose(detectors_at(detectors, 0), &request));
  assert_string_equal(request.model, "one");
  assert_ptr_equal(detector_of(&request), detectors_at(detectors, 0));
  const struct vx_detector *core = request.job.params.detect.detector;
  const struct vx_encoder *encoder = &core->voxelize.encoder;
  assert_int_equal(encoder->num_layers, 2);
  assert_true(encoder->layers[0].inputs == 10 && encoder->layers[0].width == 2);
  assert_true(encoder->layers[1].inputs == 4 && encoder->layers[1].width == 5);
  assert_true(encoder->layers[0].weight[19] == 19 && encoder->layers[0].bias[1] == 21);
  assert_true(encoder->layers[1].weight[19] == 41 && encoder->layers[1].bias[4] == 46);
  detectors_close(detectors);
}

static void what_is_wrong_with_the_network(void **state) {
  (void)state;
  struct vx_network_tensor *input = &shape.input[0], *scores = &shape.output[1], *boxes = &shape.output[2];
  struct vx_network_tensor other = tensor("x", 1, 1, 1);
#define FAULT_OF(change, fault)                                                                                        \
  do {                                                                                                                 \
    (void)reset(NULL);                                                                                                 \
    change;                                                                                                            \
    has_fault(fault);                                                                                                  \
  } while (0)
  FAULT_OF(opens = false, "net.onnx: it is torn");
  FAULT_OF(shape.inputs = 2, "net.onnx: its only input must be in (network.input); it has 2 inputs; voxeld-convert "
                             "onnx cuts the file after the scatter");
  FAULT_OF(*input = other, "net.onnx: its only input must be in (network.input); it has 1 input of another name");
  FAULT_OF(input->dims[0] = 1, NULL);
  FAULT_OF(input->dims[0] = 2, "net.onnx: network.input is for 2 clouds; allowed: any number, or 1");
  FAULT_OF(input->dims[0] = 0, "net.onnx: network.input is for 0 clouds; allowed: any number, or 1");
  FAULT_OF(scores->dims[0] = 2, "net.onnx: network.outputs.cls_preds is for 2 clouds; allowed: any number, or 1");
  FAULT_OF(input->dims[1] = -1, NULL);
  FAULT_OF(input->dims[1] = 4,
           "net.onnx: network.input (in) is F32 [-1,4,2,3]; expected F32 [-1,5,2,3], where -1 is any length");
  FAULT_OF(input->rank = 3,
           "net.onnx: network.input (in) is F32 [-1,5,2]; expected F32 [-1,5,2,3], where -1 is any length");
  FAULT_OF(input->dtype = VX_FLOAT16,
           "net.onnx: network.input (in) is F16 [-1,5,2,3]; expected F32 [-1,5,2,3], where -1 is any length");
  FAULT_OF(*boxes = other, "net.onnx: it has no output b (network.outputs.box_preds)");
  FAULT_OF(scores->dtype = VX_INT32, "net.onnx: network.outputs.cls_preds (c) is I32 [-1,2,3,8]; expected F32 or F16 "
                                     "[-1,-1,-1,-1], where -1 is any length");
  for (int i = 1; i < 4; i++)
    FAULT_OF(boxes->dims[i] = -1, "net.onnx: network.outputs.box_preds (b) has no fixed height, width and channels");
  for (int bit = 30; bit < 63; bit++)
    FAULT_OF(scores->dims[1] = (int64_t)1 << bit,
             "net.onnx: network.outputs.cls_preds (c) has too many values; allowed: up to "
             "2147483647 for a cloud");
  FAULT_OF(boxes->dims[3] = 27, "net.onnx: network.outputs: the input box_preds has the shape [1,2,3,27]; allowed: "
                                "[1,2,3,28]");
}

static void maps_may_have_their_channels_first(void **state) {
  (void)state;
  write_model("network.layout", "'nchw'");
  shape.output[1] = tensor("c", 8, 2, 3);
  shape.output[2] = tensor("b", 28, 2, 3);
  struct detectors *detectors = load();
  static struct job_request request;
  job_request_init(&request, VX_DETECT);
  assert_true(detector_choose(detectors_at(detectors, 0), &request));
  const struct vx_detector *core = request.job.params.detect.detector;
  assert_true(core->channels_first && !core->one_by_one && core->items == 2 * 3 * 4);
  assert_true(core->maps[0].height == 2 && core->maps[0].width == 3 && core->maps[0].channels == 8);
  assert_true(core->maps[1].height == 2 && core->maps[1].width == 3 && core->maps[1].channels == 28);
  assert_string_equal(core->maps[0].output, "c");
  assert_null(core->maps[2].output);
  detectors_close(detectors);
}

static void one_map_for_one_cloud_is_enough_to_go_one_by_one(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    (void)reset(NULL);
    if (i == 1) shape.input[0].dims[0] = 1;
    if (i > 1) shape.output[i - 1].dims[0] = 1;
    struct detectors *detectors = load();
    assert_int_equal(detector_core(detectors_at(detectors, 0))->one_by_one, i > 0);
    detectors_close(detectors);
  }
}

static const char *written(const struct detectors *detectors) {
  static char text[8192];
  struct text out = text_over(text, sizeof text);
  detectors_write(detectors, &out);
  assert_true(text_complete(&out));
  return text;
}

static void the_page_of_a_detector(void **state) {
  (void)state;
  struct detectors *detectors = load();
  const char *text = written(detectors);
  json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(json);
  json_decref(json);
  static const char *const parts[] = {
      "{\"models\":[{\"name\":\"one\",\"version\":\"1\",\"description\":\"a model\",\"ready\":true,\"voxelize\":{",
      ",\"encoder\":{\"channels\":10,\"layers\":1,\"width\":5},"
      "\"network\":{\"engine\":\"test 1.2\",\"memory_limit_bytes\":4096,"
      "\"inputs\":[{\"name\":\"in\",\"dtype\":\"F32\",\"shape\":[-1,5,2,3]}],"
      "\"outputs\":[{\"name\":\"more\",\"dtype\":\"F32\",\"shape\":[-1,-1,-1,-1]},"
      "{\"name\":\"c\",\"dtype\":\"F32\",\"shape\":[-1,2,3,8]},"
      "{\"name\":\"b\",\"dtype\":\"F32\",\"shape\":[-1,2,3,28]}],\"sessions\":[]},\"decode\":{",
      "\"class_names\":[\"car\",\"van\"]"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(text, parts[i])) fail_msg("no '%s' in '%s'", parts[i], text);
  detectors_close(detectors);
  opens = false;
  detectors = load();
  assert_string_equal(written(detectors),
                      "{\"models\":[{\"name\":\"one\",\"version\":\"1\",\"description\":\"a model\",\"ready\":false,"
                      "\"reason\":\"net.onnx: it is torn\"}]}\n");
  struct error error;
  assert_null(detectors_need(detectors, "two", &error));
  assert_int_equal(error.kind, ERROR_BAD_PARAMETER);
  assert_null(detectors_need(detectors, "one", &error));
  assert_int_equal(error.kind, ERROR_MODEL_FAILED);
  assert_string_equal(error.text, "the model one does not serve: net.onnx: it is torn");
  detectors_close(detectors);
}

// Parses "a=1&b=2" as a request for a detection. Returns NULL, or the error; `parameter` is then the parameter at
// fault.
static const char *asks(const char *text, const char **parameter, struct job_request *request) {
  static struct error error;
  char memory[256];
  struct query query = {.count = 0};
  struct detectors *detectors = load();
  snprintf(memory, sizeof memory, "%s", text);
  for (char *item = strtok(memory, "&"); item; item = strtok(NULL, "&")) {
    char *equals = strchr(item, '=');
    assert_non_null(equals);
    query.items[query.count++] = (struct query_item){item, equals + 1, (size_t)(equals - item), strlen(equals + 1)};
  }
  bool good = job_request_from_query(request, VX_DETECT, &query, &(const struct named){NULL, detectors}, &error);
  detectors_close(detectors);  // the callers do not use the request's pointer to a detector
  *parameter = good ? NULL : error.parameter;
  return good ? NULL : error.text;
}

static void parameters_of_a_detection(void **state) {
  (void)state;
  static const struct {
    const char *query, *parameter, *reason;  // NULL if the query is accepted
  } rows[] = {
      {"model=one", NULL, NULL},
      {"model=one&num_features=4", NULL, NULL},
      {"model=one&fields=x,y,z,intensity", NULL, NULL},
      {"num_features=4", "model", "model is missing; give a name from GET /v1/models"},
      {"model=two", "model", "there is no model 'two'; allowed: a name from GET /v1/models"},
      {"model=", "model", "model is"},
      {"model=one&num_features=5", "num_features", "the points have 5 columns; the model one takes 4"},
      {"model=one&fields=x,y,z", "fields", "the points have 3 columns; the model one takes 4"},
      {"model=one&outputs=boxes,dir_cls_preds", "outputs",
       "outputs names dir_cls_preds, which the model one does not have"},
      {"model=one&outputs=boxes,cls_preds,box_preds", NULL, NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    static struct job_request request;
    const char *parameter, *reason = asks(rows[i].query, &parameter, &request);
    if (!reason != !rows[i].reason || (reason && !strstr(reason, rows[i].reason)))
      fail_msg("%s: %s", rows[i].query, reason ? reason : "taken");
    if (reason) assert_string_equal(parameter, rows[i].parameter);
    if (!reason) assert_string_equal(request.model, "one");
    if (!reason) assert_int_equal(request.num_features, 4);
  }
}

static char other_fault[256];  // the fault of the model in the other folder

// Loads the models with a further folder `name`. Returns NULL, or the error.
static const char *beside(const char *name) {
  static struct error error;
  const struct detector_means means = {.engine = &engine, .missing = {.text = "no engine"}};
  char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  assert_int_equal(mkdir(path, 0700), 0);
  error.text[0] = '\0';
  struct detectors *detectors = detectors_load(folder, &means, &error);
  if (detectors) assert_int_equal(detectors_count(detectors), name[0] == '.' ? 1 : 2);
  if (detectors) assert_string_equal(detector_fault(detectors_find(detectors, "one")), "no engine");
  const struct detector *other = detectors ? detectors_find(detectors, name) : NULL;
  if (other) snprintf(other_fault, sizeof other_fault, "%s", detector_fault(other));
  assert_int_equal(detectors != NULL, !error.text[0]);
  detectors_close(detectors);
  assert_int_equal(rmdir(path), 0);
  return error.text[0] ? error.text : NULL;
}

static void names_of_folders(void **state) {
  (void)state;
  char name[65];
  memset(name, 'n', sizeof name);
  name[64] = '\0';
  assert_string_equal(beside(name),
                      "model nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn: its name has "
                      "more than 63 bytes");
  name[63] = '\0';
  assert_null(beside(name));
  assert_null(beside(".hidden"));
  static const char *const odd[] = {"a,b", "a b", "a\nb", "\xff", "a%2F"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    assert_null(beside(odd[i]));
    assert_string_equal(other_fault, "its folder's name has characters other than letters, digits, dots, _ and -");
  }
  assert_int_equal(detectors_count(NULL), 0);
  assert_null(detectors_find(NULL, "one"));
}

// Loads all models; checks their number and order. Returns NULL, or the error.
static const char *loads(size_t models) {
  static struct error error;
  const struct detector_means means = {.engine = &engine, .missing = {.text = "no engine"}};
  error.text[0] = '\0';
  struct detectors *detectors = detectors_load(folder, &means, &error);
  if (detectors) assert_int_equal(detectors_count(detectors), models);
  for (size_t i = 1; detectors && i < models; i++)
    assert_true(strcmp(detector_name(detectors_at(detectors, i - 1)), detector_name(detectors_at(detectors, i))) < 0);
  assert_int_equal(detectors != NULL, !error.text[0]);
  detectors_close(detectors);
  return error.text[0] ? error.text : NULL;
}

static void the_number_of_models_is_limited(void **state) {
  (void)state;
  enum { MODELS = 64, ENTRIES = 4096 };
  char path[128], expected[256];
  for (int i = 1; i <= MODELS; i++) {
    snprintf(path, sizeof path, "%s/%d", folder, i * 7 % 65);
    assert_int_equal(mkdir(path, 0700), 0);
    if (i == MODELS - 1) assert_null(loads(MODELS));
  }
  snprintf(expected, sizeof expected, "models directory %s: there are more than 64 models", folder);
  assert_string_equal(loads(0), expected);
  for (int i = 1; i <= MODELS; i++) {
    snprintf(path, sizeof path, "%s/%d", folder, i);
    assert_int_equal(rmdir(path), 0);
  }
  enum { HIDDEN = ENTRIES - 3 };  // the other three: the model, "." and ".."
  for (int i = 0; i <= HIDDEN; i++) {
    if (i == HIDDEN) assert_null(loads(1));
    snprintf(path, sizeof path, "%s/.%d", folder, i);
    FILE *file = fopen(path, "w");
    assert_true(file && fclose(file) == 0);
  }
  snprintf(expected, sizeof expected, "models directory %s: it has more than 4096 entries", folder);
  assert_string_equal(loads(0), expected);
  for (int i = 0; i <= HIDDEN; i++) {
    snprintf(path, sizeof path, "%s/.%d", folder, i);
    assert_int_equal(unlink(path), 0);
  }
}

static void broken_files_keep_the_model_that_serves(void **state) {
  (void)state;
  struct detectors *first = load(), *set = NULL;
  struct detector *served = detectors_at(first, 0);
  assert_null(detectors_refused(first, "one"));
  opens = false;
  for (int i = 0; i < 2; i++) {  // two failed reloads in a row
    set = load();
    detectors_keep(set, first);
    detectors_close(first);
    assert_ptr_equal(detectors_find(set, "one"), served);
    assert_null(detector_fault(served));
    assert_string_equal(detectors_refused(set, "one")->version, "1");
    assert_string_equal(detectors_refused(set, "one")->reason.text, "net.onnx: it is torn");
    assert_ptr_equal(detectors_refusal(set, 0), detectors_refused(set, "one"));
    assert_null(detectors_refused(set, "two"));
    const char *text = written(set),
               *end = "},\"refused\":{\"version\":\"1\",\"reason\":\"net.onnx: it is torn\"}}]}\n";
    if (strlen(text) < strlen(end) || strcmp(text + strlen(text) - strlen(end), end) != 0) fail_msg("%s", text);
    assert_int_equal(networks, 1);
    first = set;
  }
  opens = true;
  set = load();
  assert_int_equal(networks, 2);
  detectors_keep(set, first);
  assert_ptr_not_equal(detectors_at(set, 0), served);
  assert_null(detectors_refused(set, "one"));
  detectors_close(first);
  detectors_close(set);
  assert_int_equal(networks, 0);
}

static void an_unusable_model_is_replaced_or_refused(void **state) {
  (void)state;
  struct detectors *first = load(), *set = load();
  detectors_refuse(set, first, 0, "it does not run");
  assert_ptr_equal(detectors_at(set, 0), detectors_at(first, 0));
  assert_null(detector_fault(detectors_at(set, 0)));
  assert_string_equal(detectors_refusal(set, 0)->reason.text, "it does not run");
  detectors_close(set);
  detectors_refuse(first, NULL, 0, "it does not run");
  detectors_refuse(first, NULL, 0, "another reason");
  assert_string_equal(detector_fault(detectors_at(first, 0)), "it does not run");
  assert_non_null(strstr(written(first), "\"ready\":false,\"reason\":\"it does not run\""));
  struct error error;
  assert_null(detectors_need(first, "one", &error));
  assert_string_equal(error.text, "the model one does not serve: it does not run");
  set = load();
  detectors_refuse(set, first, 0, "nor does this one");
  assert_null(detectors_refusal(set, 0));
  assert_string_equal(detector_fault(detectors_at(set, 0)), "nor does this one");
  detectors_close(first);
  detectors_close(set);
  assert_int_equal(networks, 0);
}

static void a_model_that_has_not_served_is_not_kept(void **state) {
  (void)state;
  opens = false;
  struct detectors *first = load(), *set = load();
  detectors_keep(set, first);
  detectors_keep(set, NULL);
  assert_ptr_not_equal(detectors_at(set, 0), detectors_at(first, 0));
  assert_null(detectors_refusal(set, 0));
  assert_null(detectors_refused(NULL, "one"));
  detectors_close(first);
  detectors_close(set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(what_is_wrong_with_model_json, reset),
      cmocka_unit_test_setup(texts_fit_to_the_last_byte, reset),
      cmocka_unit_test_setup(broken_files_keep_the_model_that_serves, reset),
      cmocka_unit_test_setup(an_unusable_model_is_replaced_or_refused, reset),
      cmocka_unit_test_setup(a_model_that_has_not_served_is_not_kept, reset),
      cmocka_unit_test_setup(what_is_wrong_with_the_weights, reset),
      cmocka_unit_test_setup(layers_follow_each_other, reset),
      cmocka_unit_test_setup(what_is_wrong_with_the_network, reset),
      cmocka_unit_test_setup(maps_may_have_their_channels_first, reset),
      cmocka_unit_test_setup(one_map_for_one_cloud_is_enough_to_go_one_by_one, reset),
      cmocka_unit_test_setup(the_page_of_a_detector, reset),
      cmocka_unit_test_setup(parameters_of_a_detection, reset),
      cmocka_unit_test_setup(names_of_folders, reset),
      cmocka_unit_test_setup(the_number_of_models_is_limited, reset),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
