// ONNX Runtime as an engine; see engine.h and ort.h.
//
// A library or a network belongs to the caller that opened it. Neither changes once it is open. Any threads may run an
// ort_session at once.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/engine/ort_arena.h"
#include "kernels/engine/ort_lane_session.h"
#include "kernels/engine/ort_library.h"

// ---- the library ----------------------------------------------------------------------------------------------------

static void fill_api(const ort_function *table, struct ort_api *api) {
  api->error_message = (const char *(*)(const struct ort_status *))table[ORT_ERROR_MESSAGE];
#define X(place, name, arguments) memcpy(&api->name, &table[place], sizeof api->name);
  ORT_CALLS(X)
  ORT_RELEASES(X)
#undef X
}

// NULL with an error if the library is not usable.
static const ort_function *functions_of(void *object, const char *path, const char **version, struct error *error) {
  const struct ort_base *(*get_base)(void);
  void *symbol = dlsym(object, "OrtGetApiBase");
  if (!symbol) {
    error_set(error, "%s has no OrtGetApiBase, so it is not an ONNX Runtime library", path);
    return NULL;
  }
  memcpy(&get_base, &symbol, sizeof get_base);  // POSIX gives both the same size
  const struct ort_base *base = get_base();
  const ort_function *table = base->get_api(ORT_API_VERSION);
  *version = base->get_version();
  if (!table) error_set(error, "%s is ONNX Runtime %s; 1.%d or later is needed", path, *version, ORT_API_VERSION);
  return table;
}

// RTLD_NODELETE: the library's threads may outlive its networks.
static const ort_function *find(const char *path, const char **version, struct error *error) {
  static const char *const usual[] = {"libonnxruntime.so.1", "libonnxruntime.so"};
  const int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
  if (path[0] != '\0') {
    void *object = dlopen(path, flags);
    if (object) return functions_of(object, path, version, error);
    error_set(error, "ONNX Runtime: %s", dlerror());
    return NULL;
  }
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    void *object = dlopen(usual[i], flags);
    if (object) return functions_of(object, usual[i], version, error);
  }
  error_set(error, "ONNX Runtime: the system has no %s", usual[0]);
  return NULL;
}

static bool start(struct vx_engine_library *library, struct error *error) {
  const struct ort_api *api = &library->api;
  return ort_did(api, api->create_env(ORT_LOG_FATAL, "voxeld", &library->env), error) &&
         ort_did(api, api->disable_telemetry(library->env), error) &&
         ort_did(api, api->default_allocator(&library->allocator), error) &&
         ort_did(api, api->create_cpu_memory(ORT_DEVICE_ALLOCATOR, ORT_DEFAULT_MEMORY, &library->memory), error);
}

static void close_library(struct vx_engine_library *library) {
  if (library->memory) library->api.release_memory(library->memory);
  if (library->env) library->api.release_env(library->env);
  free(library);
}

static enum vx_status open_library(const char *path, struct vx_engine_library **library, struct error *error) {
  struct vx_engine_library *made = calloc(1, sizeof *made);
  if (!made) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for an engine");
  const ort_function *functions = find(path, &made->version, error);
  if (functions) {
    fill_api(functions, &made->api);
    if (start(made, error)) {
      *library = made;
      return VX_OK;
    }
  }
  close_library(made);
  return VX_REFUSED;
}

static const char *version_of(const struct vx_engine_library *library) { return library->version; }

// ---- opening a network ----------------------------------------------------------------------------------------------

// The library's functions that describe the inputs, or the outputs.
struct side {
  const char *what;
  struct ort_status *(*count)(const struct ort_session *session, size_t *count);
  struct ort_status *(*type)(const struct ort_session *session, size_t index, struct ort_type **type);
  struct ort_status *(*name)(const struct ort_session *session, size_t index, struct ort_allocator *allocator,
                             char **name);
};

static bool read_name(const struct vx_network *network, const struct side *side, size_t index,
                      struct vx_network_tensor *tensor, struct error *error) {
  const struct vx_engine_library *library = network->library;
  const struct ort_api *api = &library->api;
  char *name;
  if (!ort_did(api, side->name(network->session, index, library->allocator, &name), error)) return false;
  int length = snprintf(tensor->name, sizeof tensor->name, "%s", name);
  if (!ort_did(api, api->allocator_free(library->allocator, name), error)) return false;
  return length < VX_NETWORK_NAME_SIZE ||
         error_set(error, "the name of the network's %s %zu has %d bytes; allowed: up to %d", side->what, index, length,
                   VX_NETWORK_NAME_SIZE - 1);
}

static bool read_shape(const struct ort_api *api, const struct side *side, const struct ort_type *type,
                       struct vx_network_tensor *tensor, struct error *error) {
  const struct ort_tensor_type *shape = NULL;
  int element;
  size_t rank;
  if (!ort_did(api, api->tensor_type_of(type, &shape), error)) return false;
  if (!shape) return error_set(error, "the network's %s %s is not a tensor", side->what, tensor->name);
  if (!ort_did(api, api->element_type(shape, &element), error) || !ort_did(api, api->dims_count(shape, &rank), error))
    return false;
  if (!ort_read_dtype(element, &tensor->dtype)) {
    return error_set(error, "the network's %s %s has the ONNX element type %d; allowed: float32, float16, int32, uint8",
                     side->what, tensor->name, element);
  }
  if (rank > VX_MAX_RANK) {
    return error_set(error, "the network's %s %s has %zu dimensions; allowed: up to %d", side->what, tensor->name, rank,
                     VX_MAX_RANK);
  }
  tensor->rank = (int)rank;
  return ort_did(api, api->dims(shape, tensor->dims, rank), error);
}

static bool read_tensors(const struct vx_network *network, const struct side *side, int *count,
                         struct vx_network_tensor tensors[VX_NETWORK_TENSORS], struct error *error) {
  const struct ort_api *api = &network->library->api;
  size_t found;
  if (!ort_did(api, side->count(network->session, &found), error)) return false;
  if (found > VX_NETWORK_TENSORS)
    return error_set(error, "the network has %zu %ss; allowed: up to %d", found, side->what, VX_NETWORK_TENSORS);
  *count = (int)found;
  for (size_t i = 0; i < found; i++) {
    struct ort_type *type = NULL;
    bool good = read_name(network, side, i, &tensors[i], error) &&
                ort_did(api, side->type(network->session, i, &type), error) &&
                read_shape(api, side, type, &tensors[i], error);
    if (type) api->release_type(type);
    if (!good) return false;
  }
  return true;
}

static bool read_network(struct vx_network *network, struct error *error) {
  const struct ort_api *api = &network->library->api;
  const struct side inputs = {"input", api->input_count, api->input_type, api->input_name};
  const struct side outputs = {"output", api->output_count, api->output_type, api->output_name};
  struct vx_network_shape *shape = &network->shape;
  return read_tensors(network, &inputs, &shape->inputs, shape->input, error) &&
         read_tensors(network, &outputs, &shape->outputs, shape->output, error);
}

static bool open_session(struct vx_network *network, int threads, size_t memory_bytes, struct error *error) {
  const struct ort_api *api = &network->library->api;
  struct ort_session_options *options;
  if (!ort_did(api, api->create_session_options(&options), error)) return false;
  bool good = ort_set_options(api, options, threads, error) && ort_look_at(network->path, &network->file, error) &&
              (memory_bytes == 0 ? ort_open_session(network, options, &network->session, error)
                                 : ort_open_bounded(network, options, memory_bytes, error));
  api->release_session_options(options);
  return good;
}

static void close_network(struct vx_network *network) {
  if (network->shrink) network->library->api.release_run_options(network->shrink);
  if (network->session) network->library->api.release_session(network->session);
  free(network->path);
  free(network);
}

static enum vx_status open_network(struct vx_engine_library *library, const char *path, int threads,
                                   size_t memory_bytes, struct vx_network **network, struct error *error) {
  struct vx_network *made = calloc(1, sizeof *made);
  if (made) {
    made->library = library;
    made->path = strdup(path);
  }
  if (!made || !made->path) {
    free(made);
    return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a network");
  }
  if (open_session(made, threads, memory_bytes, error) && read_network(made, error)) {
    *network = made;
    return VX_OK;
  }
  close_network(made);
  return ort_fault(error, VX_REFUSED);
}

static const struct vx_network_shape *shape_of(const struct vx_network *network) { return &network->shape; }

// ---- running it -----------------------------------------------------------------------------------------------------

// If the network's memory is used up, its arena may have free blocks of the wrong sizes for this run. Then frees these
// blocks and runs the network again.
static bool run_bounded(const struct vx_network *network, const struct ort_values *in, struct ort_values *out,
                        struct error *error) {
  if (ort_run(network, NULL, in, out, error)) return true;
  if (!network->shrink || ort_fault(error, VX_FAILED) != VX_OUT_OF_MEMORY) return false;
  ort_shrink(network, in, out);
  return ort_run(network, NULL, in, out, error);
}

static enum vx_status run_network(struct vx_network *network, const struct vx_network_run *run, struct error *error) {
  const struct vx_engine_library *library = network->library;
  const struct ort_api *api = &library->api;
  struct ort_values in = {0}, out = {0};
  bool good = ort_wrap(library, library->memory, run->input, run->inputs, &in, error) &&
              ort_wrap(library, library->memory, run->output, run->outputs, &out, error) &&
              run_bounded(network, &in, &out, error);
  ort_unwrap(api, &out);
  ort_unwrap(api, &in);
  return good ? VX_OK : ort_fault(error, VX_FAILED);
}

const struct vx_engine vx_onnxruntime = {
    .name = "onnxruntime",
    .open = open_library,
    .close = close_library,
    .version = version_of,
    .network_open = open_network,
    .network_close = close_network,
    .network_shape = shape_of,
    .network_run = run_network,
    .session_open = ort_lane_session_open,
    .session_close = ort_lane_session_close,
    .session_run = ort_lane_session_run,
};
