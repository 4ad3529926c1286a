// See detector.h.
#include "api/detector.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"
#include "api/detector_files.h"
#include "api/ops/model_params.h"
#include "api/params/values.h"

struct detector {
  struct vx_detector core;  // the first member, since jobs point to it
  atomic_int holders;
  char name[DETECTOR_NAME_SIZE];
  atomic_bool serves;  // false: the fault says why, and does not change again
  struct error fault;
  struct detector_files files;
  char engine[96];      // name and version of the engine
  size_t memory_bytes;  // maximum host memory of the network; 0 = no limit
  struct sessions sessions;
};

// A hint for a network file that also contains the encoder and the scatter, as exporters write it.
#define CUT_NETWORK "; voxeld-convert onnx cuts the file after the scatter"

// ---- the network ----------------------------------------------------------------------------------------------------

static const struct vx_network_tensor *find(const struct vx_network_tensor *tensors, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
  return NULL;
}

static void write_dtypes(uint32_t dtypes, struct text *out) {
  for (int dtype = 0; dtype < VX_DTYPES; dtype++)
    if (dtypes & VX_DTYPE_BIT(dtype))
      text_printf(out, "%s%s", out->length ? " or " : "", vx_dtype_name((enum vx_dtype)dtype));
}

// `dtypes`: VX_DTYPE_BITs; -1 in `dims` matches any length.
static bool check_tensor(struct detector *detector, const struct vx_network_tensor *tensor, const char *field,
                         uint32_t dtypes, const int64_t dims[4]) {
  bool fits = tensor->rank == 4 && dtypes & VX_DTYPE_BIT(tensor->dtype);
  for (int i = 0; fits && i < 4; i++) fits = tensor->dims[i] == -1 || dims[i] == -1 || tensor->dims[i] == dims[i];
  if (fits) return true;
  char is[128], should[128], types[32];
  struct text given = text_over(is, sizeof is), wanted = text_over(should, sizeof should);
  struct text allowed = text_over(types, sizeof types);
  write_dtypes(dtypes, &allowed);
  json_put_integers(&given, tensor->dims, tensor->rank);
  json_put_integers(&wanted, dims, 4);
  return error_set(&detector->fault, "%s: %s (%s) is %s %s; expected %s %s, where -1 is any length",
                   detector->files.network_file, field, tensor->name, vx_dtype_name(tensor->dtype), is, types, should);
}

// dims[0] is -1, for any number of clouds, or 1. If it is 1 in any tensor, the network runs once for each cloud.
static bool check_clouds(struct detector *detector, const struct vx_network_tensor *tensor, const char *field) {
  int64_t clouds = tensor->dims[0];
  detector->core.one_by_one = detector->core.one_by_one || clouds == 1;
  return clouds == -1 || clouds == 1 ||
         error_set(&detector->fault, "%s: %s is for %lld clouds; allowed: any number, or 1",
                   detector->files.network_file, field, (long long)clouds);
}

static bool check_input(struct detector *detector, const struct vx_network_shape *shape) {
  const struct detector_files *files = &detector->files;
  const struct vx_network_tensor *input = find(shape->input, shape->inputs, files->input);
  struct vx_grid grid;
  if (!input || shape->inputs != 1)
    return error_set(&detector->fault, "%s: its only input must be %s (network.input); it has %d input%s",
                     files->network_file, files->input, shape->inputs,
                     shape->inputs == 1 ? " of another name" : "s" CUT_NETWORK);
  if (vx_grid_of(&detector->core.voxelize, 1, &grid, &detector->fault) != VX_OK) return false;
  const struct vx_sparse_plan *plan = &detector->core.plan;
  const int32_t *last = plan->shape[plan->num_levels ? plan->num_levels - 1 : 0];
  const int64_t pillars[] = {-1, (int64_t)files->width * grid.cells[2], grid.cells[1], grid.cells[0]},
                sparse[] = {-1, (int64_t)plan->width * last[0], last[1], last[2]};
  uint32_t dtypes = VX_DTYPE_BIT(detector->core.voxelize.feature_dtype);
  bool backbone = vx_has_backbone(&detector->core);
  if (!check_tensor(detector, input, "network.input", dtypes, backbone ? sparse : pillars)) return false;
  return check_clouds(detector, input, "network.input");
}

static bool check_output(struct detector *detector, const struct vx_network_shape *shape, int number) {
  const char *name = detector->files.outputs[number];
  const struct vx_input_row *row = &vx_operations[detector->files.decode->job.op].inputs[number];
  const struct vx_network_tensor *output = find(shape->output, shape->outputs, name);
  const int64_t any[] = {-1, -1, -1, -1};
  char field[64];
  snprintf(field, sizeof field, "network.outputs.%s", row->name);
  if (!output)
    return error_set(&detector->fault, "%s: it has no output %s (%s)", detector->files.network_file, name, field);
  if (!check_tensor(detector, output, field, row->dtypes, any) || !check_clouds(detector, output, field)) return false;
  bool first = detector->core.channels_first;
  const int64_t *dims = output->dims;
  for (int i = 1; i < 4; i++)
    if (dims[i] < 1)
      return error_set(&detector->fault, "%s: %s (%s) has no fixed height, width and channels",
                       detector->files.network_file, field, name);
  int32_t values;  // the limit keeps the size of every batch from overflowing
  if (__builtin_mul_overflow(dims[1], dims[2], &values) || __builtin_mul_overflow(values, dims[3], &values))
    return error_set(&detector->fault, "%s: %s (%s) has too many values; allowed: up to %d for a cloud",
                     detector->files.network_file, field, name, INT32_MAX);
  detector->core.maps[number] =
      (struct vx_detector_map){name, dims[first ? 2 : 1], dims[first ? 3 : 2], dims[first ? 1 : 3], output->dtype};
  return true;
}

// Runs the decoder's own checks on the maps of one cloud.
static bool check_maps(struct detector *detector) {
  struct job_request *decode = detector->files.decode;
  struct error error;
  for (int i = 0; i < VX_DETECTOR_MAPS; i++) {
    const struct vx_detector_map *map = &detector->core.maps[i];
    if (map->output)
      decode->job.inputs[i] = (struct vx_input){map->dtype, 4, {1, map->height, map->width, map->channels}, NULL};
  }
  if (!job_request_split(decode, vx_sizes_of(&decode->job).rows, &error))
    return error_set(&detector->fault, "%s: network.outputs: %s", detector->files.network_file, error.text);
  detector->core.items = vx_sizes_of(&decode->job).rows;
  return true;
}

static bool open_network(struct detector *detector, const struct detector_means *means) {
  struct detector_files *files = &detector->files;
  struct vx_detector *core = &detector->core;
  char path[sizeof files->folder + sizeof files->network_file];
  snprintf(path, sizeof path, "%s/%s", files->folder, files->network_file);
  if (!means->library) return error_set(&detector->fault, "%s", means->missing.text);
  detector->memory_bytes = means->memory_bytes;
  snprintf(detector->engine, sizeof detector->engine, "%s %s", means->engine->name,
           means->engine->version(means->library));
  if (means->engine->network_open(means->library, path, means->threads, means->memory_bytes, &core->network,
                                  &detector->fault) != VX_OK) {
    if (strstr(detector->fault.text, "No Op registered")) error_suffix(&detector->fault, CUT_NETWORK);
    return error_prefix(&detector->fault, "%s: ", files->network_file);
  }
  const struct vx_network_shape *shape = means->engine->network_shape(core->network);
  if (!check_input(detector, shape)) return false;
  for (int i = 0; i < VX_DETECTOR_MAPS; i++)
    if (files->outputs[i][0] && !check_output(detector, shape, i)) return false;
  return check_maps(detector);
}

// ---- the whole ------------------------------------------------------------------------------------------------------

static void take_backbone(const struct backbone *backbone, struct vx_detector *core) {
  static atomic_uint_fast64_t backbones;
  core->backbone = backbone->layers;
  core->plan = backbone->plan;
  core->max_rows = backbone->max_rows;
  core->backbone_number = 1 + atomic_fetch_add(&backbones, 1);
}

static bool open_files(struct detector *detector, const struct detector_means *means) {
  struct detector_files *files = &detector->files;
  struct vx_detector *core = &detector->core;
  if (!detector_fits_paths(detector->name))
    return error_set(&detector->fault, "its folder's name has characters other than letters, digits, dots, _ and -");
  if (!detector_read_json(files, &detector->fault)) return false;
  core->backbone = files->backbone.layers;  // a model whose weights fail still counts as a model with a backbone
  if (!detector_read_weights(files, &detector->fault)) return false;
  core->engine = means->engine;
  core->voxelize = files->voxelize->job.params.voxelize;
  core->voxelize.encoder = files->encoder;
  take_backbone(&files->backbone, core);
  core->input = files->input;
  core->channels_first = files->channels_first;
  core->head = (int)files->decode->job.op;
  core->class_names = files->class_names;
  core->version = files->version;
  core->tracks = files->tracks;
  if (core->head == VX_DECODE)
    core->params.decode = files->decode->job.params.decode;
  else
    core->params.center = files->decode->job.params.center;
  return open_network(detector, means);
}

struct detector *detector_open(const char *folder, const char *name, const struct detector_means *means) {
  struct detector *detector = calloc(1, sizeof *detector);
  if (!detector) return NULL;
  atomic_init(&detector->holders, 1);
  snprintf(detector->name, sizeof detector->name, "%s", name);
  snprintf(detector->files.folder, sizeof detector->files.folder, "%s", folder);
  atomic_init(&detector->serves, open_files(detector, means));
  return detector;
}

void detector_hold(struct detector *detector) { atomic_fetch_add(&detector->holders, 1); }

void detector_release(struct detector *detector) {
  if (!detector || atomic_fetch_sub(&detector->holders, 1) > 1) return;
  sessions_close(&detector->sessions, detector->core.engine);
  if (detector->core.network) detector->core.engine->network_close(detector->core.network);
  detector_files_release(&detector->files);
  free(detector);
}

const char *detector_name(const struct detector *detector) { return detector->name; }

const char *detector_version(const struct detector *detector) { return detector->files.version; }

const char *detector_fault(const struct detector *detector) {
  return atomic_load(&detector->serves) ? NULL : detector->fault.text;
}

void detector_refuse(struct detector *detector, const char *reason) {
  if (!atomic_load(&detector->serves)) return;
  error_set(&detector->fault, "%s", reason);
  atomic_store(&detector->serves, false);
}

bool detector_choose(const struct detector *detector, struct job_request *request) {
  snprintf(request->model, sizeof request->model, "%s", detector->name);
  model_params_choose(request, &detector->core);
  request->expected = detector->files.voxelize->expected;
  return chain_copy(&request->chain, &detector->files.voxelize->chain, &request->pool);
}

struct detector *detector_of(const struct job_request *request) {
  return (struct detector *)(void *)(uintptr_t)request->job.params.detect.detector;
}

// ---- its parts ------------------------------------------------------------------------------------------------------

const struct vx_detector *detector_core(const struct detector *detector) { return &detector->core; }

int64_t detector_columns(const struct detector *detector) {
  return detector->files.voxelize->job.inputs[VX_POINTS].dims[1];
}

enum vx_status detector_session(struct detector *detector, const struct vx_lane *lane,
                                const struct vx_device_stream *stream, struct error *error) {
  return sessions_open(&detector->sessions, detector->core.engine, detector->core.network, lane, stream, error);
}

struct sessions *detector_sessions(struct detector *detector) {
  return &detector->sessions;
}

// ---- writing --------------------------------------------------------------------------------------------------------

static void write_tensors(const char *name, const struct vx_network_tensor *tensors, int count, struct text *out) {
  json_printf(out, "%s:[", name);
  for (int i = 0; i < count; i++) {
    json_printf(out, "{name:%s dtype:%s shape:", tensors[i].name, vx_dtype_name(tensors[i].dtype));
    json_put_integers(out, tensors[i].dims, tensors[i].rank);
    json_printf(out, "}");
  }
  json_printf(out, "]");
}

static void write_parts(const struct detector *detector, struct text *out) {
  const struct detector_files *files = &detector->files;
  const struct vx_network_shape *shape = detector->core.engine->network_shape(detector->core.network);
  json_printf(out, "ready:true voxelize:");
  job_request_write(files->voxelize, out);
  if (vx_has_backbone(&detector->core)) {
    json_printf(out, "backbone:{");
    backbone_write(&files->backbone, out);
  } else {
    json_printf(out, "encoder:{channels:%d layers:%d width:%d", files->encoder.layers[0].inputs, files->layers,
                files->width);
  }
  json_printf(out, "}network:{engine:%s memory_limit_bytes:%zu", detector->engine, detector->memory_bytes);
  write_tensors("inputs", shape->input, shape->inputs, out);
  write_tensors("outputs", shape->output, shape->outputs, out);
  json_printf(out, "sessions:");
  sessions_write(&detector->sessions, out);
  json_printf(out, "}decode:");
  job_request_write(files->decode, out);
  json_printf(out, "detect:{track_max_distance:");
  value_write_floats(files->tracks.max_distance, files->tracks.num_distances, out);
  json_printf(out, "track_max_age:%d}", files->tracks.max_age);
}

void detector_write(const struct detector *detector, struct text *out) {
  json_printf(out, "name:%s version:%s description:%s", detector->name, detector->files.version,
              detector->files.description);
  if (atomic_load(&detector->serves))
    write_parts(detector, out);
  else
    json_printf(out, "ready:false reason:%s", detector->fault.text);
}
