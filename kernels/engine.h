// The one C interface to networks.
//
// An engine is a table of function pointers (struct vx_engine) around a library that runs networks. kernels/engine
// has the table for ONNX Runtime, which it loads at run time.
//
// A network runs on the host's processors. A session runs the same network on a GPU, in the stream of a lane. Close a
// session before its network and before the stream.
//
// Threads: any. Several threads may run a network at once. One thread at a time may use a session, and one at a time
// may open networks of a library. A call that can fail returns a vx_status and fills the caller's struct error.
#ifndef VOXELD_ENGINE_H
#define VOXELD_ENGINE_H

#include "kernels/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  VX_NETWORK_TENSORS = 16,     // maximum number of inputs, and of outputs
  VX_NETWORK_NAME_SIZE = 128,  // bytes of a tensor's name, with the terminating zero
};

// As the network's file declares it.
struct vx_network_tensor {
  char name[VX_NETWORK_NAME_SIZE];
  enum vx_dtype dtype;
  int rank;                   // 0..VX_MAX_RANK
  int64_t dims[VX_MAX_RANK];  // outermost first; -1: each run chooses it
};

// Constant.
struct vx_network_shape {
  int inputs, outputs;
  struct vx_network_tensor input[VX_NETWORK_TENSORS], output[VX_NETWORK_TENSORS];
};

// A tensor of one run: dense, outermost dimension first; in the host's memory or, for a session, in the device's.
struct vx_network_value {
  const char *name;
  struct vx_shape shape;  // shape.bytes is the size of the memory
  void *data;
};

struct vx_network_run {
  int inputs, outputs;
  const struct vx_network_value *input;   // [inputs]
  const struct vx_network_value *output;  // [outputs]: memory for each, with the shape that the network gives
};

// Where and how a session runs.
struct vx_device_stream {
  int device;           // the GPU's number in CUDA
  void *handle;         // cudaStream_t
  bool tf32;            // float32 products may use 10-bit mantissas
  size_t memory_bytes;  // maximum device memory of the session; 0: no limit
};

struct vx_engine_library;
struct vx_network;
struct vx_session;

struct vx_engine {
  const char *name;  // "onnxruntime"

  // Loads the library at `path`; if `path` is "", the first usual name that the system finds. On success *library
  // belongs to the caller until close.
  VX_WARN_UNUSED enum vx_status (*open)(const char *path, struct vx_engine_library **library, struct error *error);
  // Call this after the last network is closed.
  void (*close)(struct vx_engine_library *library);
  const char *(*version)(const struct vx_engine_library *library);  // as the library reports it

  // Opens the network in a file on the CPU. A run uses `threads` threads, the caller's included. All simultaneous runs
  // together take at most `memory_bytes` of host memory (0: no limit). Whether the weights count depends on the
  // library's version. On success *network belongs to the caller until network_close. VX_REFUSED, for example, if the
  // network has more than VX_NETWORK_TENSORS inputs or outputs, or a tensor that does not fit vx_network_tensor.
  VX_WARN_UNUSED enum vx_status (*network_open)(struct vx_engine_library *library, const char *path, int threads,
                                                size_t memory_bytes, struct vx_network **network, struct error *error);
  // Call this when no thread runs the network.
  void (*network_close)(struct vx_network *network);
  const struct vx_network_shape *(*network_shape)(const struct vx_network *network);
  // Computes the named outputs. VX_OUT_OF_MEMORY if the library says so, or if the network's memory is used up.
  // VX_FAILED for other errors, such as a name or a shape that does not fit.
  VX_WARN_UNUSED enum vx_status (*network_run)(struct vx_network *network, const struct vx_network_run *run,
                                               struct error *error);

  // Opens the network on a stream. VX_REFUSED, for example, if a part of the library is missing, or if the file has
  // changed since network_open. On success *session belongs to the caller until session_close.
  VX_WARN_UNUSED enum vx_status (*session_open)(struct vx_network *network, const struct vx_device_stream *stream,
                                                struct vx_session **session, struct error *error);
  // Call this when all enqueued work is done, or when the device is lost.
  void (*session_close)(struct vx_session *session);
  // Like network_run, in memory of the device. Enqueues the work in the stream, so some errors appear later.
  VX_WARN_UNUSED enum vx_status (*session_run)(struct vx_session *session, const struct vx_network_run *run,
                                               struct error *error);
};

extern const struct vx_engine vx_onnxruntime;  // in every build

#ifdef __cplusplus
}
#endif
#endif
