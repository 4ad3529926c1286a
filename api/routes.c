// The endpoint table; see routes.h.
#include "api/routes.h"

#include <string.h>

#include "api/base/json_write.h"

const struct route routes[ENDPOINT_COUNT] = {
#define X(endpoint, method, path, op, doc) {method, path, op, doc},
    ENDPOINTS(X)
#undef X
        {"", "unknown", ROUTE_PLAIN, "any other path"},
};

enum problem_style route_style(const char *path) {
  static const char root[] = "/v2";
  size_t length = sizeof root - 1;
  bool kserve = strncmp(path, root, length) == 0 && (path[length] == '\0' || path[length] == '/');
  return kserve ? PROBLEM_STYLE_KSERVE : PROBLEM_STYLE_HTTP;
}

// Copies the part before the next slash to `out`. Returns the rest; NULL if the part is empty or too long.
static const char *take_part(const char *path, char *out, size_t size) {
  size_t length = strcspn(path, "/");
  if (length == 0 || length >= size) return NULL;
  memcpy(out, path, length);
  out[length] = '\0';
  return path + length;
}

// If the path goes on with /versions/VERSION, copies VERSION. Returns the rest, or NULL, as take_part does.
static const char *take_version(const char *path, struct route_names *names) {
  static const char before[] = "/versions/";
  size_t length = sizeof before - 1;
  return strncmp(path, before, length) == 0 ? take_part(path + length, names->version, sizeof names->version) : path;
}

static bool matches(const char *pattern, const char *path, struct route_names *names) {
  static const char models[] = "/v2/models/";
  bool versioned = strncmp(pattern, models, sizeof models - 1) == 0;
  names->name[0] = names->version[0] = '\0';
  for (; *pattern == *path || *pattern == '*'; pattern++, path++) {
    if (*pattern == '\0') return true;
    if (*pattern != '*') continue;
    path = take_part(path, names->name, sizeof names->name);
    if (path && versioned) path = take_version(path, names);
    if (!path) return false;
    path--;
  }
  return false;
}

static bool takes(const struct route *route, const char *method) {
  return strcmp(method, route->method) == 0 || (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

// The endpoint of the same path that takes the method, else the endpoint itself.
static enum endpoint with(int endpoint, const char *method) {
  for (int i = 0; i < ENDPOINT_UNKNOWN; i++)
    if (strcmp(routes[i].path, routes[endpoint].path) == 0 && takes(&routes[i], method)) return (enum endpoint)i;
  return (enum endpoint)endpoint;
}

enum endpoint route_find(const char *path, const char *method, struct route_names *names) {
  int i = 0;
  while (i < ENDPOINT_UNKNOWN && !matches(routes[i].path, path, names)) i++;
  return with(i, method);
}

enum endpoint route_counted(enum endpoint endpoint) {
  int first = 0;
  while (strcmp(routes[first].path, routes[endpoint].path) != 0) first++;
  return (enum endpoint)first;
}

bool route_missing(const char *path, struct error *error) {
  if (route_style(path) == PROBLEM_STYLE_KSERVE)
    return error_refuse(error, ERROR_NOT_FOUND, NULL, "there is nothing at %.200s; /openapi.yaml lists the paths",
                        path);
  char memory[512];
  struct text paths = text_over(memory, sizeof memory);
  for (int i = 0; i < ENDPOINT_UNKNOWN; i++)
    if (route_style(routes[i].path) == PROBLEM_STYLE_HTTP && route_counted((enum endpoint)i) == (enum endpoint)i)
      text_printf(&paths, "%s%s", paths.length ? ", " : "", routes[i].path);
  return error_refuse(error, ERROR_NOT_FOUND, NULL, "there is nothing at %.200s; the paths are %s", path, paths.data);
}

const char *route_allow(enum endpoint endpoint) {
  bool get = takes(&routes[with(endpoint, "GET")], "GET");
  bool delete = takes(&routes[with(endpoint, "DELETE")], "DELETE");
  return get && delete ? "GET, HEAD, DELETE" : get ? "GET, HEAD" : "POST";
}

bool route_takes(enum endpoint endpoint, const char *method, struct error *error) {
  if (takes(&routes[endpoint], method)) return true;
  return error_refuse(error, ERROR_METHOD_NOT_ALLOWED, NULL, "%s takes %s, not %.32s", routes[endpoint].path,
                      route_allow(endpoint), method);
}

void routes_describe(struct text *out) {
  json_printf(out, "[");
  for (int i = 0; i < ENDPOINT_UNKNOWN; i++)
    json_printf(out, "{method:%s path:%s doc:%s}", routes[i].method, routes[i].path, routes[i].doc);
  json_printf(out, "]");
}
