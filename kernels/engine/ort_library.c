// See ort_library.h.
#include "kernels/engine/ort_library.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// ---- errors ---------------------------------------------------------------------------------------------------------

#define LOAD_FILE "Load model from "
#define LOAD_FAILED " failed:"
static const char out_of_memory[] = "onnxruntime: out of memory: ";

// The library has no error code for a lack of memory, but its arena, CUDA, cuDNN, cuBLAS and C++ report it in words.
static bool tells_of_memory(const char *text) {
  static const char *const words[] = {"Failed to allocate memory",
                                      "smaller than requested bytes",
                                      "out of memory",
                                      "CUDNN_STATUS_ALLOC_FAILED",
                                      "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
                                      "CUBLAS_STATUS_ALLOC_FAILED",
                                      "bad_alloc"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(text, words[i])) return true;
  return false;
}

// The useful part of a message: what an arena says about its memory, else the message without its beginning. The
// beginning is a place in the library's source, "[ONNXRuntimeError] : 1 : FAIL : " and the file's name. The caller
// reports the name anyway.
static const char *core_of(const char *text) {
  const char *lack = strstr(text, "Available memory of "), *core = strstr(text, "[ONNXRuntimeError]");
  if (lack) return lack;
  for (int i = 0; core && i < 3; i++) {
    core = strstr(core, " : ");
    core = core ? core + strlen(" : ") : NULL;
  }
  core = core ? core : text;
  const char *file = strncmp(core, LOAD_FILE, strlen(LOAD_FILE)) == 0 ? strstr(core, LOAD_FAILED) : NULL;
  return file ? file + strlen(LOAD_FAILED) : core;
}

bool ort_did(const struct ort_api *api, struct ort_status *status, struct error *error) {
  if (!status) return true;
  const char *text = api->error_message(status), *core = core_of(text);
  (void)vx_refuse(error, "%s%.*s", tells_of_memory(text) ? out_of_memory : "onnxruntime: ", (int)strcspn(core, "\n"),
                  core);
  api->release_status(status);
  return false;
}

enum vx_status ort_fault(const struct error *error, enum vx_status otherwise) {
  return strncmp(error->text, out_of_memory, strlen(out_of_memory)) == 0 ? VX_OUT_OF_MEMORY : otherwise;
}

// ---- sessions -------------------------------------------------------------------------------------------------------

bool ort_set_options(const struct ort_api *api, struct ort_session_options *options, int threads, struct error *error) {
  return ort_did(api, api->set_execution_mode(options, ORT_SEQUENTIAL), error) &&
         ort_did(api, api->set_optimization(options, ORT_ALL_OPTIMIZATIONS), error) &&
         ort_did(api, api->set_intra_op_threads(options, threads), error) &&
         ort_did(api, api->set_inter_op_threads(options, 1), error) &&
         ort_did(api, api->set_deterministic(options, true), error) &&
         ort_did(api, api->add_session_config(options, "session.intra_op.allow_spinning", "0"), error);
}

bool ort_look_at(const char *path, struct stat *file, struct error *error) {
  if (stat(path, file) != 0) return error_set(error, "%s", strerror(errno));
  return S_ISREG(file->st_mode) || error_set(error, "it is not a regular file");
}

static bool is_as_before(const struct vx_network *network, struct error *error) {
  const struct stat *before = &network->file;
  struct stat now;
  if (!ort_look_at(network->path, &now, error)) return false;
  return (now.st_dev == before->st_dev && now.st_ino == before->st_ino && now.st_size == before->st_size &&
          now.st_mtim.tv_sec == before->st_mtim.tv_sec && now.st_mtim.tv_nsec == before->st_mtim.tv_nsec) ||
         error_set(error, "the network's file has changed since it was opened");
}

bool ort_open_session(const struct vx_network *network, const struct ort_session_options *options,
                      struct ort_session **session, struct error *error) {
  const struct vx_engine_library *library = network->library;
  return is_as_before(network, error) &&
         ort_did(&library->api, library->api.create_session(library->env, network->path, options, session), error) &&
         is_as_before(network, error);
}

// ---- tensors --------------------------------------------------------------------------------------------------------

static const int elements[VX_DTYPES] = {
    [VX_FLOAT32] = ORT_FLOAT, [VX_FLOAT16] = ORT_FLOAT16, [VX_INT32] = ORT_INT32, [VX_UINT8] = ORT_UINT8};

int ort_element_of(enum vx_dtype dtype) { return elements[dtype]; }

bool ort_read_dtype(int element, enum vx_dtype *dtype) {
  int row = 0;
  while (row < VX_DTYPES && elements[row] != element) row++;
  *dtype = (enum vx_dtype)row;
  return row < VX_DTYPES && element != 0;  // 0: a dtype that is not in `elements`
}

bool ort_wrap(const struct vx_engine_library *library, const struct ort_memory *memory,
              const struct vx_network_value *from, int count, struct ort_values *values, struct error *error) {
  const struct ort_api *api = &library->api;
  if (count > VX_NETWORK_TENSORS)
    return error_set(error, "a run has %d tensors; allowed: up to %d", count, VX_NETWORK_TENSORS);
  for (; values->count < count; values->count++) {
    const struct vx_network_value *tensor = &from[values->count];
    const struct vx_shape *shape = &tensor->shape;
    values->name[values->count] = tensor->name;
    if (!ort_did(api,
                 api->create_tensor(memory, tensor->data, shape->bytes, shape->dims, (size_t)shape->rank,
                                    ort_element_of(shape->dtype), &values->value[values->count]),
                 error))
      return false;
  }
  return true;
}

void ort_unwrap(const struct ort_api *api, struct ort_values *values) {
  while (values->count > 0) api->release_value(values->value[--values->count]);
}

bool ort_run(const struct vx_network *network, const struct ort_run_options *options, const struct ort_values *in,
             struct ort_values *out, struct error *error) {
  const struct ort_api *api = &network->library->api;
  return ort_did(api,
                 api->run(network->session, options, in->name, (const struct ort_value *const *)in->value,
                          (size_t)in->count, out->name, (size_t)out->count, out->value),
                 error);
}
