// The endpoints, one row each. Dispatch, 404, 405 with Allow, metrics, --describe and the documentation test read them.
#ifndef VOXELD_ROUTES_H
#define VOXELD_ROUTES_H

#include "api/base/problem.h"
#include "api/base/text.h"
#include "kernels/kernels.h"

enum { OP_OF_MODEL = VX_OPS + 1 };  // the operation of an endpoint whose path names a model, which knows it

// X(endpoint, method, path, operation, doc). The operation is VX_OPS if the endpoint computes nothing. A * in a path
// matches any one name. A model has one version: in a path of KServe's protocol, /versions/1 may follow its name.
#define ENDPOINTS(X)                                                                                                   \
  X(VOXELIZE, "POST", "/v1/voxelize", VX_VOXELIZE, "points in, voxels out")                                            \
  X(FPS, "POST", "/v1/fps", VX_FPS, "points in, farthest point samples out")                                           \
  X(TRANSFORM, "POST", "/v1/transform", VX_TRANSFORM, "points in, moved and filtered points out")                      \
  X(NMS, "POST", "/v1/nms", VX_NMS, "boxes in, those that no better one covers out")                                   \
  X(DECODE, "POST", "/v1/decode", VX_DECODE, "a detection head's maps in, boxes out")                                  \
  X(PRESETS, "GET", "/v1/presets", VX_OPS, "the named parameter sets, as JSON")                                        \
  X(PRESET, "GET", "/v1/presets/*", VX_OPS, "one named parameter set, as JSON")                                        \
  X(STATUS, "GET", "/v1/status", VX_OPS, "backend, device, workers, queue, memory, version and uptime, as JSON")       \
  X(HEALTHZ, "GET", "/healthz", VX_OPS, "liveness: 200 while the process serves")                                      \
  X(READYZ, "GET", "/readyz", VX_OPS, "readiness: 503 while starting or draining")                                     \
  X(METRICS, "GET", "/metrics", VX_OPS, "Prometheus text format")                                                      \
  X(OPENAPI, "GET", "/openapi.yaml", VX_OPS, "the OpenAPI description of this API")                                    \
  X(KSERVE, "GET", "/v2", VX_OPS, "KServe v2: the server's name, version and extensions")                              \
  X(KSERVE_LIVE, "GET", "/v2/health/live", VX_OPS, "KServe v2: liveness")                                              \
  X(KSERVE_READY, "GET", "/v2/health/ready", VX_OPS, "KServe v2: readiness; 503 while starting or draining")           \
  X(MODELS, "GET", "/v2/models", VX_OPS, "KServe v2: the names of the models")                                         \
  X(MODELS_STATS, "GET", "/v2/models/stats", VX_OPS, "KServe v2: the statistics of all models")                        \
  X(MODEL, "GET", "/v2/models/*", VX_OPS, "KServe v2: a model's inputs and default outputs")                           \
  X(MODEL_CONFIG, "GET", "/v2/models/*/config", VX_OPS, "KServe v2: a model's config, as Triton has it")               \
  X(MODEL_STATS, "GET", "/v2/models/*/stats", VX_OPS, "KServe v2: a model's requests so far, and their times")         \
  X(MODEL_READY, "GET", "/v2/models/*/ready", VX_OPS, "KServe v2: whether a model takes requests")                     \
  X(INFER, "POST", "/v2/models/*/infer", OP_OF_MODEL, "KServe v2: points in, tensors out")                             \
  X(MODEL_INDEX, "POST", "/v2/repository/index", VX_OPS, "KServe v2: the models, each with its state")                 \
  X(MODEL_LOAD, "POST", "/v2/repository/models/*/load", VX_OPS, "KServe v2: is refused")                               \
  X(MODEL_UNLOAD, "POST", "/v2/repository/models/*/unload", VX_OPS, "KServe v2: is refused")

enum endpoint {
#define X(endpoint, method, path, op, doc) ENDPOINT_##endpoint,
  ENDPOINTS(X)
#undef X
      ENDPOINT_UNKNOWN,
  ENDPOINT_COUNT
};

struct route {
  const char *method, *path;
  int op;  // an enum vx_op, VX_OPS if it computes nothing, or OP_OF_MODEL
  const char *doc;
};

const struct route *route_of(enum endpoint endpoint);  // also of ENDPOINT_UNKNOWN, whose path is "unknown"

enum { ROUTE_NAME_SIZE = 128 };

// The endpoint of a path; ENDPOINT_UNKNOWN if there is none. `name` gets what matches the row's *, or "".
enum endpoint route_find(const char *path, char name[ROUTE_NAME_SIZE]);

// How clients of that path are told of problems. The path may be one without an endpoint.
enum problem_style route_style(const char *path);

// Whether the endpoint tells probes of its health, for which they need no credentials.
bool route_is_probe(enum endpoint endpoint);

// The refusal of a path without an endpoint: names it and the paths that there are, or where they are listed. Returns
// false.
bool route_missing(const char *path, struct problem *problem);

// Whether the endpoint takes the method; a GET endpoint takes HEAD too. If not, the problem names those it takes.
VX_WARN_UNUSED bool route_takes(enum endpoint endpoint, const char *method, struct problem *problem);

// Whether a request to the endpoint is a job.
static inline bool route_computes(enum endpoint endpoint) { return route_of(endpoint)->op != VX_OPS; }

const char *route_allow(enum endpoint endpoint);  // the value of the Allow header

void routes_describe(struct text *out);  // as a JSON array

#endif
