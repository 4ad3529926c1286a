// What the files of this engine share: a loaded library, its errors, the options of a session, tensors over memory.
//
// A library does not change once it is open. Any thread.
#ifndef VOXELD_ENGINE_ORT_LIBRARY_H
#define VOXELD_ENGINE_ORT_LIBRARY_H

#include <sys/stat.h>

#include "kernels/engine.h"
#include "kernels/engine/ort.h"

struct vx_engine_library {
  struct ort_api api;
  struct ort_env *env;
  struct ort_allocator *allocator;  // the library's own
  struct ort_memory *memory;        // says that data is the host's
  struct vx_engine_description description;
};

struct vx_network {
  struct vx_engine_library *library;
  struct ort_session *session;
  struct ort_run_options *shrink;  // of a run that gives memory back; NULL: the memory has no bound
  struct vx_network_shape shape;
  char *path;        // of its file
  struct stat file;  // as it was when the network was opened
};

// The library's own description of the tensors of a run, which point to the caller's memory.
struct ort_values {
  int count;
  const char *name[VX_NETWORK_TENSORS];
  struct ort_value *value[VX_NETWORK_TENSORS];
};

// Refuses, as vx_refuse does, and is false.
// Whether a call did what it should. If not, the error has the library's words.
VX_WARN_UNUSED bool ort_did(const struct ort_api *api, struct ort_status *status, struct error *error);
// What an error of ort_did stands for: VX_OUT_OF_MEMORY if the words say so, else `otherwise`.
enum vx_status ort_fault(const struct error *error, enum vx_status otherwise);

// The element type of ONNX by its type here, and back: false if there is none.
int ort_element_of(enum vx_dtype dtype);
VX_WARN_UNUSED bool ort_read_dtype(int element, enum vx_dtype *dtype);

// Sets what all sessions have in common.
VX_WARN_UNUSED bool ort_set_options(const struct ort_api *api, struct ort_session_options *options, int threads,
                                    struct error *error);
// Opens a session of the network's file, which is regular and what network->file says, before and after. The caller
// releases *session, also after a failure, unless it is NULL.
VX_WARN_UNUSED bool ort_open_session(const struct vx_network *network, const struct ort_session_options *options,
                                     struct ort_session **session, struct error *error);
// Whether the path of a file leads to a regular one. The library reads others too, and would wait for a FIFO's writer.
VX_WARN_UNUSED bool ort_look_at(const char *path, struct stat *file, struct error *error);

// Describes `count` tensors, whose data is where `memory` says. ort_unwrap must follow, also after a failure; `values`
// is all zero before.
VX_WARN_UNUSED bool ort_wrap(const struct vx_engine_library *library, const struct ort_memory *memory,
                             const struct vx_network_value *from, int count, struct ort_values *values,
                             struct error *error);
void ort_unwrap(const struct ort_api *api, struct ort_values *values);
// Runs the network on the CPU. The options may be NULL.
VX_WARN_UNUSED bool ort_run(const struct vx_network *network, const struct ort_run_options *options,
                            const struct ort_values *in, struct ort_values *out, struct error *error);

#endif
