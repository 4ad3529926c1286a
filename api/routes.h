// The endpoints, one row each. The table is constant. Any thread.
#ifndef VOXELD_ROUTES_H
#define VOXELD_ROUTES_H

#include "api/base/problem.h"
#include "api/base/text.h"
#include "kernels/kernels.h"

// What an endpoint does, if the row names no operation.
enum {
  OP_OF_MODEL = VX_OPS,  // computes: the path names a model, whose operation it is
  ROUTE_PLAIN,           // shows or changes something of the service
  ROUTE_STATE,           // shows or changes what the service keeps for a client: streams, regions of shared memory
  ROUTE_PUBLIC,          // a page for browsers; needs no credentials, since it reveals nothing about the service
  ROUTE_PROBE            // a health check; needs no credentials
};

// X(endpoint, method, path, operation or ROUTE_, doc). A * matches one name. After /v2/models/* a path may go on with
// /versions/VERSION.
#define ENDPOINTS(X)                                                                                                   \
  X(VOXELIZE, "POST", "/v1/voxelize", VX_VOXELIZE, "points in, voxels out")                                            \
  X(FPS, "POST", "/v1/fps", VX_FPS, "points in, farthest point samples out")                                           \
  X(POINTS, "POST", "/v1/points", VX_POINTS_OP, "points in, steps applied, points out")                                \
  X(TRANSFORM, "POST", "/v1/transform", VX_TRANSFORM, "points in, moved and filtered points out")                      \
  X(NMS, "POST", "/v1/nms", VX_NMS, "boxes in, non-maximum suppression applied, boxes out")                            \
  X(DECODE, "POST", "/v1/decode", VX_DECODE, "a detection head's maps in, boxes out")                                  \
  X(SCATTER, "POST", "/v1/scatter", VX_SCATTER, "voxels' features in, a dense map out")                                \
  X(DETECT, "POST", "/v1/detect", VX_DETECT, "points in; boxes detected by a model out")                               \
  X(BACKBONE, "POST", "/v1/backbone", VX_BACKBONE, "points in; features of a model's backbone out")                    \
  X(SERIALIZE, "POST", "/v1/serialize", VX_SERIALIZE, "points in, codes and orders along curves out")                  \
  X(RANGE_IMAGE, "POST", "/v1/range_image", VX_RANGE_IMAGE_OP, "points in; images of the sensor's view out")           \
  X(DETECTORS, "GET", "/v1/models", ROUTE_PLAIN, "the detection models, as JSON")                                      \
  X(DETECTOR, "GET", "/v1/models/*", ROUTE_PLAIN, "one detection model, as JSON")                                      \
  X(PRESETS, "GET", "/v1/presets", ROUTE_PLAIN, "the named parameter sets, as JSON")                                   \
  X(PRESET, "GET", "/v1/presets/*", ROUTE_PLAIN, "one named parameter set, as JSON")                                   \
  X(STREAMS, "GET", "/v1/streams", ROUTE_STATE, "the client's streams, as JSON")                                       \
  X(STREAM, "GET", "/v1/streams/*", ROUTE_STATE, "one stream, as JSON")                                                \
  X(STREAM_DELETE, "DELETE", "/v1/streams/*", ROUTE_STATE, "drops the sweeps of a stream")                             \
  X(STREAM_LAST, "GET", "/v1/streams/*/last", ROUTE_STATE, "the points that the stream's last request joined")         \
  X(STREAM_EVENTS, "GET", "/v1/streams/*/events", ROUTE_STATE, "events of the stream, as server-sent events")          \
  X(EVENTS, "GET", "/v1/events", ROUTE_STATE, "events of all streams of the client, as server-sent events")            \
  X(STATUS, "GET", "/v1/status", ROUTE_PLAIN, "backend, device, workers, queue, memory, version and uptime, as JSON")  \
  X(HEALTHZ, "GET", "/healthz", ROUTE_PROBE, "liveness: 200 while the process serves")                                 \
  X(READYZ, "GET", "/readyz", ROUTE_PROBE, "readiness: 503 while starting or draining")                                \
  X(METRICS, "GET", "/metrics", ROUTE_PLAIN, "Prometheus text format")                                                 \
  X(OPENAPI, "GET", "/openapi.yaml", ROUTE_PLAIN, "the OpenAPI description of this API")                               \
  X(DESCRIBE, "GET", "/v1/describe", ROUTE_PLAIN,                                                                      \
    "the tables of `voxeld --describe`, such as the parameters, as JSON")                                              \
  X(VIEWER, "GET", "/", ROUTE_PUBLIC, "a page that shows scans and their voxels, in a browser")                        \
  X(DASHBOARD, "GET", "/status", ROUTE_PUBLIC, "a page that shows the state of the service, in a browser")             \
  X(REFERENCE, "GET", "/docs", ROUTE_PUBLIC, "a page that shows the OpenAPI description, in a browser")                \
  X(WEB, "GET", "/ui/*", ROUTE_PUBLIC, "the files of the pages")                                                       \
  X(KSERVE, "GET", "/v2", ROUTE_PLAIN, "KServe v2: the server's name, version and extensions")                         \
  X(KSERVE_LIVE, "GET", "/v2/health/live", ROUTE_PROBE, "KServe v2: liveness")                                         \
  X(KSERVE_READY, "GET", "/v2/health/ready", ROUTE_PROBE, "KServe v2: readiness; 503 while starting or draining")      \
  X(MODELS, "GET", "/v2/models", ROUTE_PLAIN, "KServe v2: the names of the models")                                    \
  X(MODELS_STATS, "GET", "/v2/models/stats", ROUTE_PLAIN, "KServe v2: the statistics of all models")                   \
  X(MODEL, "GET", "/v2/models/*", ROUTE_PLAIN, "KServe v2: a model's inputs and default outputs")                      \
  X(MODEL_CONFIG, "GET", "/v2/models/*/config", ROUTE_PLAIN, "KServe v2: a model's config, in Triton's form")          \
  X(MODEL_STATS, "GET", "/v2/models/*/stats", ROUTE_PLAIN, "KServe v2: a model's requests so far, and their times")    \
  X(MODEL_READY, "GET", "/v2/models/*/ready", ROUTE_PLAIN, "KServe v2: whether a model takes requests")                \
  X(INFER, "POST", "/v2/models/*/infer", OP_OF_MODEL, "KServe v2: tensors in, tensors out")                            \
  X(MODEL_INDEX, "POST", "/v2/repository/index", ROUTE_PLAIN, "KServe v2: the models, each with its state")            \
  X(MODEL_LOAD, "POST", "/v2/repository/models/*/load", ROUTE_PLAIN, "KServe v2: always refused")                      \
  X(MODEL_UNLOAD, "POST", "/v2/repository/models/*/unload", ROUTE_PLAIN, "KServe v2: always refused")                  \
  X(REGIONS, "GET", "/v2/systemsharedmemory/status", ROUTE_STATE,                                                      \
    "KServe v2: the shared-memory regions of the client")                                                              \
  X(REGION, "GET", "/v2/systemsharedmemory/region/*/status", ROUTE_STATE,                                              \
    "KServe v2: one shared-memory region of the client")                                                               \
  X(REGION_REGISTER, "POST", "/v2/systemsharedmemory/region/*/register", ROUTE_STATE,                                  \
    "KServe v2: opens POSIX shared memory as a region of the client")                                                  \
  X(REGION_UNREGISTER, "POST", "/v2/systemsharedmemory/region/*/unregister", ROUTE_STATE,                              \
    "KServe v2: closes a region")                                                                                      \
  X(REGIONS_UNREGISTER, "POST", "/v2/systemsharedmemory/unregister", ROUTE_STATE,                                      \
    "KServe v2: closes all regions of the client")                                                                     \
  X(CUDA_REGIONS, "GET", "/v2/cudasharedmemory/status", ROUTE_STATE,                                                   \
    "KServe v2: the GPU-memory regions of the client")                                                                 \
  X(CUDA_REGION, "GET", "/v2/cudasharedmemory/region/*/status", ROUTE_STATE,                                           \
    "KServe v2: one GPU-memory region of the client")                                                                  \
  X(CUDA_REGION_REGISTER, "POST", "/v2/cudasharedmemory/region/*/register", ROUTE_STATE,                               \
    "KServe v2: opens CUDA memory as a region of the client")                                                          \
  X(CUDA_REGION_UNREGISTER, "POST", "/v2/cudasharedmemory/region/*/unregister", ROUTE_STATE,                           \
    "KServe v2: closes a region of GPU memory")                                                                        \
  X(CUDA_REGIONS_UNREGISTER, "POST", "/v2/cudasharedmemory/unregister", ROUTE_STATE,                                   \
    "KServe v2: closes all GPU-memory regions of the client")

enum endpoint {
#define X(endpoint, method, path, op, doc) ENDPOINT_##endpoint,
  ENDPOINTS(X)
#undef X
      ENDPOINT_UNKNOWN,
  ENDPOINT_COUNT
};

struct route {
  const char *method, *path;
  int op;  // an enum vx_op, OP_OF_MODEL, or a ROUTE_
  const char *doc;
};

extern const struct route routes[ENDPOINT_COUNT];  // the path of ENDPOINT_UNKNOWN is "unknown"

enum { ROUTE_NAME_SIZE = 128, ROUTE_VERSION_SIZE = 64 };

// The names in a path; "" = none.
struct route_names {
  char name[ROUTE_NAME_SIZE];  // the part that matches the row's *
  char version[ROUTE_VERSION_SIZE];
};

// The endpoint of the path and the method. If the path does not take the method: the first endpoint of the path. If
// there is no such path: ENDPOINT_UNKNOWN.
enum endpoint route_find(const char *path, const char *method, struct route_names *names);

// The endpoint under which requests are counted: the first with the same path.
enum endpoint route_counted(enum endpoint endpoint);

// The form of problems for clients of the path, which need not have an endpoint.
enum problem_style route_style(const char *path);

// Refuses a path without an endpoint. Returns false.
bool route_missing(const char *path, struct error *error);

// Whether the endpoint takes the method; if not, an error with the methods that it takes. GET includes HEAD.
VX_WARN_UNUSED bool route_takes(enum endpoint endpoint, const char *method, struct error *error);

// Whether a request to the endpoint is a job.
static inline bool route_computes(enum endpoint endpoint) { return routes[endpoint].op <= OP_OF_MODEL; }
static inline bool route_is_probe(enum endpoint endpoint) { return routes[endpoint].op == ROUTE_PROBE; }
static inline bool route_is_public(enum endpoint endpoint) { return routes[endpoint].op >= ROUTE_PUBLIC; }
static inline bool route_has_state(enum endpoint endpoint) { return routes[endpoint].op == ROUTE_STATE; }

const char *route_allow(enum endpoint endpoint);  // the value of the Allow header

void routes_describe(struct text *out);  // as a JSON array

#endif
