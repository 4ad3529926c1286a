// The one C interface to networks: what an engine must do, so that a model's network can run between the operations.
//
// An engine is a table of function pointers (struct vx_engine) around a library that runs networks.
// kernels/engine fills one for ONNX Runtime. The library is loaded at run time, so a daemon without it works; its
// networks are refused with the reason.
//
// A network runs on the host's processors. It may have sessions beside: a session is the same network on a stream of a
// GPU, between the kernels of the lane that has the stream. A session ends before its network, and before the stream.
//
// Threads: any thread may call; any threads may share a network, also while it runs; one at a time may use a session,
// and one at a time may open networks of a library. Errors are values: a call that can fail returns a vx_status and
// fills the caller's struct error.
#ifndef VOXELD_ENGINE_H
#define VOXELD_ENGINE_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_NETWORK_TENSORS = 16,     // inputs of a network, and outputs
  VX_NETWORK_NAME_SIZE = 128,  // bytes of a tensor's name, with its end
};

// An input or an output of a network, as its file declares it.
struct vx_network_tensor {
  char name[VX_NETWORK_NAME_SIZE];
  enum vx_dtype dtype;
  int rank;                   // 0..VX_MAX_RANK
  int64_t dims[VX_MAX_RANK];  // outermost first; -1: as each run has it
};

// What a network takes and gives. It does not change.
struct vx_network_shape {
  int inputs, outputs;
  struct vx_network_tensor input[VX_NETWORK_TENSORS], output[VX_NETWORK_TENSORS];
};

// A tensor of one run: dense, outermost dimension first, in the host's memory; that of a session in the device's.
struct vx_network_value {
  const char *name;
  struct vx_shape shape;  // shape.bytes is that of the memory
  void *data;
};

struct vx_network_run {
  int inputs, outputs;
  const struct vx_network_value *input;   // [inputs]; not written to
  const struct vx_network_value *output;  // [outputs]: memory for each, with the shape that the network gives
};

// The stream of a GPU that a session runs in, and how.
struct vx_device_stream {
  int device;           // number of the GPU, as CUDA counts
  void *handle;         // of the stream, as CUDA has it
  bool tf32;            // float32 products may be of 10-bit mantissas
  size_t memory_bytes;  // of the device's, that the engine takes for the session at most; 0: any
};

struct vx_engine_library;
struct vx_network;
struct vx_session;

struct vx_engine_description {
  char path[512];       // what was loaded
  char version[64];     // as the library says it
  char providers[256];  // what the library can run networks on, with commas between
};

struct vx_engine {
  const char *name;  // "onnxruntime"

  // Loads the library at `path`; with "" the first of the usual names that the system finds. On success *library is the
  // caller's until close. Otherwise the error names what was tried.
  VX_WARN_UNUSED enum vx_status (*open)(const char *path, struct vx_engine_library **library, struct error *error);
  // After the last network is closed.
  void (*close)(struct vx_engine_library *library);
  void (*describe)(const struct vx_engine_library *library, struct vx_engine_description *description);

  // Opens the network of a file on the CPU; `threads` compute a run together, that of the caller included. The engine
  // takes `memory_bytes` of the host's memory at most (0: any) for all runs at the same time, and for those weights
  // that the library counts, which differ by its version. The error says what is wrong. On success *network is the
  // caller's until network_close. VX_REFUSED too if the network has more tensors than VX_NETWORK_TENSORS, or one whose
  // name, type or rank does not fit vx_network_tensor.
  VX_WARN_UNUSED enum vx_status (*network_open)(struct vx_engine_library *library, const char *path, int threads,
                                                size_t memory_bytes, struct vx_network **network, struct error *error);
  // When no thread runs it.
  void (*network_close)(struct vx_network *network);
  const struct vx_network_shape *(*network_shape)(const struct vx_network *network);
  // Computes the named outputs from the inputs. VX_FAILED for any reason that the library has, such as a name, or a
  // shape, that does not fit; VX_OUT_OF_MEMORY if it says so, or the network has no more.
  VX_WARN_UNUSED enum vx_status (*network_run)(struct vx_network *network, const struct vx_network_run *run,
                                               struct error *error);

  // Opens the network at a place. VX_REFUSED with a reason if it cannot, such as a part of the library that is missing,
  // or a file that is no more the one that network_open read. On success *session is the caller's until session_close.
  VX_WARN_UNUSED enum vx_status (*session_open)(struct vx_network *network, const struct vx_device_stream *stream,
                                                struct vx_session **session, struct error *error);
  // When all that it enqueued is done, or the device is lost.
  void (*session_close)(struct vx_session *session);
  // As network_run, over memory of the device. Only enqueues the work in the stream, so that some errors show later.
  VX_WARN_UNUSED enum vx_status (*session_run)(struct vx_session *session, const struct vx_network_run *run,
                                               struct error *error);
};

extern const struct vx_engine vx_onnxruntime;  // in every build

#ifdef __cplusplus
}
#endif
#endif
