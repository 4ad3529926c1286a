// The endpoint table; see routes.h.
#include "api/routes.h"

#include <string.h>

static const struct route routes[ENDPOINT_COUNT] = {
#define X(endpoint, method, path, op, doc) {method, path, op, doc},
    ENDPOINTS(X)
#undef X
        {"", "unknown", VX_OPS, "any other path"},
};

const struct route *route_of(enum endpoint endpoint) { return &routes[endpoint]; }

enum problem_style route_style(const char *path) {
  static const char root[] = "/v2";
  size_t length = sizeof root - 1;
  bool kserve = strncmp(path, root, length) == 0 && (path[length] == '\0' || path[length] == '/');
  return kserve ? PROBLEM_STYLE_KSERVE : PROBLEM_STYLE_HTTP;
}

bool route_is_probe(enum endpoint endpoint) {
  return endpoint == ENDPOINT_HEALTHZ || endpoint == ENDPOINT_READYZ || endpoint == ENDPOINT_KSERVE_LIVE ||
         endpoint == ENDPOINT_KSERVE_READY;
}

bool route_is_public(enum endpoint endpoint) {
  return route_is_probe(endpoint) || endpoint == ENDPOINT_VIEWER || endpoint == ENDPOINT_DASHBOARD ||
         endpoint == ENDPOINT_WEB;
}

// What follows /versions/1, if that is where `path` begins; else `path`.
static const char *skip_version(const char *path) {
  static const char version[] = "/versions/1";
  size_t length = sizeof version - 1;
  bool there = strncmp(path, version, length) == 0 && (path[length] == '\0' || path[length] == '/');
  return there ? path + length : path;
}

static bool matches(const char *pattern, const char *path, char name[ROUTE_NAME_SIZE]) {
  bool versioned = route_style(pattern) == PROBLEM_STYLE_KSERVE;
  name[0] = '\0';
  for (; *pattern == *path || *pattern == '*'; pattern++, path++) {
    if (*pattern == '\0') return true;
    if (*pattern != '*') continue;
    size_t length = strcspn(path, "/");
    if (length == 0 || length >= ROUTE_NAME_SIZE) return false;
    memcpy(name, path, length);
    name[length] = '\0';
    path = (versioned ? skip_version(path + length) : path + length) - 1;
  }
  return false;
}

enum endpoint route_find(const char *path, char name[ROUTE_NAME_SIZE]) {
  int i = 0;
  while (i < ENDPOINT_UNKNOWN && !matches(routes[i].path, path, name)) i++;
  return (enum endpoint)i;
}

bool route_missing(const char *path, struct problem *problem) {
  if (route_style(path) == PROBLEM_STYLE_KSERVE)
    return problem_set(problem, PROBLEM_NOT_FOUND, NULL, "there is nothing at %.200s; /openapi.yaml lists the paths",
                       path);
  char memory[256];
  struct text paths = text_over(memory, sizeof memory);
  for (int i = 0; i < ENDPOINT_UNKNOWN; i++)
    if (route_style(routes[i].path) == PROBLEM_STYLE_HTTP)
      text_printf(&paths, "%s%s", paths.length ? ", " : "", routes[i].path);
  return problem_set(problem, PROBLEM_NOT_FOUND, NULL, "there is nothing at %.200s; the paths are %s", path,
                     paths.data);
}

const char *route_allow(enum endpoint endpoint) {
  return strcmp(routes[endpoint].method, "GET") == 0 ? "GET, HEAD" : "POST";
}

bool route_takes(enum endpoint endpoint, const char *method, struct problem *problem) {
  const char *own = routes[endpoint].method;
  if (strcmp(method, own) == 0 || (strcmp(own, "GET") == 0 && strcmp(method, "HEAD") == 0)) return true;
  return problem_set(problem, PROBLEM_METHOD_NOT_ALLOWED, NULL, "%s takes %s, not %.32s", routes[endpoint].path,
                     route_allow(endpoint), method);
}

void routes_describe(struct text *out) {
  text_put(out, "[");
  for (int i = 0; i < ENDPOINT_UNKNOWN; i++)
    text_printf(out, "%s\n    {\"method\":\"%s\",\"path\":\"%s\",\"doc\":\"%s\"}", i ? "," : "", routes[i].method,
                routes[i].path, routes[i].doc);
  text_put(out, "\n  ]");
}
