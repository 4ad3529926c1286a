// The endpoints: one row each, read by dispatch, 404, 405 with Allow, metrics, --describe and the documentation test.
#ifndef VOXELD_ROUTES_H
#define VOXELD_ROUTES_H

#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/params/params.h"
#include "kernels/kernels.h"

// X(endpoint, method, path, doc). A path that ends in * stands for any one name there.
#define ENDPOINTS(X)                                                                                                   \
  X(VOXELIZE, "POST", "/v1/voxelize", "points in, voxels out")                                                         \
  X(FPS, "POST", "/v1/fps", "points in, farthest point samples out")                                                   \
  X(PRESETS, "GET", "/v1/presets", "the named parameter sets, as JSON")                                                \
  X(PRESET, "GET", "/v1/presets/*", "one named parameter set, as JSON")                                                \
  X(STATUS, "GET", "/v1/status", "backend, device, workers, queue, memory, version and uptime, as JSON")               \
  X(HEALTHZ, "GET", "/healthz", "liveness: 200 while the process serves")                                              \
  X(READYZ, "GET", "/readyz", "readiness: 503 while starting, draining, or without a working backend")                 \
  X(METRICS, "GET", "/metrics", "Prometheus text format")                                                              \
  X(OPENAPI, "GET", "/openapi.yaml", "the description of all of this")

enum endpoint {
#define X(endpoint, method, path, doc) ENDPOINT_##endpoint,
  ENDPOINTS(X)
#undef X
      ENDPOINT_UNKNOWN,
  ENDPOINT_COUNT
};

struct route {
  const char *method, *path, *doc;
};

const struct route *route_of(enum endpoint endpoint);  // also of ENDPOINT_UNKNOWN, whose path is "unknown"

// The endpoint of a path, whose last part is `*name` where the row has a *. ENDPOINT_UNKNOWN if there is none.
enum endpoint route_find(const char *path, const char **name);

// Whether the endpoint takes the method; a GET endpoint takes HEAD too. Where not, the problem tells what it takes.
VX_WARN_UNUSED bool route_takes(enum endpoint endpoint, const char *method, struct problem *problem);

// What a request to the endpoint is to compute; JOB_KINDS where it is not for that.
enum job_kind route_job(enum endpoint endpoint);

const char *route_allow(enum endpoint endpoint);  // the value of the Allow header

void routes_describe(struct text *out);  // as a JSON array

#endif
