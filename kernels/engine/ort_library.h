// What the files of this engine share.
//
// Any thread. A library does not change once it is open.
#ifndef VOXELD_ENGINE_ORT_LIBRARY_H
#define VOXELD_ENGINE_ORT_LIBRARY_H

#include <sys/stat.h>

#include "kernels/engine.h"
#include "kernels/engine/ort.h"

struct vx_engine_library {
  struct ort_api api;
  struct ort_env *env;
  struct ort_allocator *allocator;  // the library's
  struct ort_memory *memory;        // says that data lies in host memory
  const char *version;
};

struct vx_network {
  struct vx_engine_library *library;
  struct ort_session *session;
  struct ort_run_options *shrink;  // options of a run that frees memory (ort_arena.h); NULL: the memory is unbounded
  struct vx_network_shape shape;
  char *path;
  struct stat file;  // of `path` when the network was opened
};

// The library's descriptions of the tensors of a run. They point to the caller's memory.
struct ort_values {
  int count;
  const char *name[VX_NETWORK_TENSORS];
  struct ort_value *value[VX_NETWORK_TENSORS];
};

// Whether a call succeeded. If not, fills the error and releases `status`.
VX_WARN_UNUSED bool ort_did(const struct ort_api *api, struct ort_status *status, struct error *error);
// The status for an error of ort_did: VX_OUT_OF_MEMORY if its words say so, else `otherwise`.
enum vx_status ort_fault(const struct error *error, enum vx_status otherwise);

// 0 if `elements` (ort_library.c) has no ONNX element type for the dtype.
int ort_element_of(enum vx_dtype dtype);
// False if no dtype fits the ONNX element type.
VX_WARN_UNUSED bool ort_read_dtype(int element, enum vx_dtype *dtype);

// One operator runs at a time, on `threads` threads. Waiting threads sleep, so that other jobs get the processors.
VX_WARN_UNUSED bool ort_set_options(const struct ort_api *api, struct ort_session_options *options, int threads,
                                    struct error *error);
// Opens a session of the network's file. Checks before and after that the file is still network->file.
// The caller releases *session if it is not NULL, even after a failure.
VX_WARN_UNUSED bool ort_open_session(const struct vx_network *network, const struct ort_session_options *options,
                                     struct ort_session **session, struct error *error);
// Whether the path leads to a regular file; the library would wait for a FIFO's writer. Fills *file.
VX_WARN_UNUSED bool ort_look_at(const char *path, struct stat *file, struct error *error);

// Describes `count` tensors, whose data is where `memory` says. `values` must be all zero. Call ort_unwrap afterwards,
// even after a failure.
VX_WARN_UNUSED bool ort_wrap(const struct vx_engine_library *library, const struct ort_memory *memory,
                             const struct vx_network_value *from, int count, struct ort_values *values,
                             struct error *error);
void ort_unwrap(const struct ort_api *api, struct ort_values *values);
// Runs the network on the CPU. The options may be NULL.
VX_WARN_UNUSED bool ort_run(const struct vx_network *network, const struct ort_run_options *options,
                            const struct ort_values *in, struct ort_values *out, struct error *error);

#endif
