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

enum endpoint route_find(const char *path, const char **name) {
  for (int i = 0; i < ENDPOINT_UNKNOWN; i++) {
    size_t length = strlen(routes[i].path);
    bool any = routes[i].path[length - 1] == '*';
    if (any ? strncmp(path, routes[i].path, length - 1) != 0 : strcmp(path, routes[i].path) != 0) continue;
    if (any && (path[length - 1] == '\0' || strchr(path + length - 1, '/'))) continue;
    *name = any ? path + length - 1 : "";
    return (enum endpoint)i;
  }
  return ENDPOINT_UNKNOWN;
}

bool route_missing(const char *path, struct problem *problem) {
  char memory[192];
  struct text paths = text_over(memory, sizeof memory);
  for (int i = 0; i < ENDPOINT_UNKNOWN; i++) text_printf(&paths, "%s%s", i ? ", " : "", routes[i].path);
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
