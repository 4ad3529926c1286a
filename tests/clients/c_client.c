// What tests/clients/test_c.py drives the C client by: posts the standard input as many times as told, each time into
// the same result, prints a JSON line a call, and writes the last call's tensors, one after the other, into a file. One
// thread.
#define VOXELD_CLIENT_IMPLEMENTATION
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <voxeld_client.h>

static const char *const statuses[] = {"OK", "REFUSED", "NO_ANSWER", "BAD_ANSWER", "STOPPED", "FAILED"};
static const char *const dtypes[] = {"float32", "float16", "int32", "uint8"};

static json_t *describe(const struct voxeld_tensor *tensor) {
  json_t *shape = json_array();
  for (size_t i = 0; i < tensor->dimensions; i++)
    json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
  return json_pack("{s:s, s:s, s:o, s:I, s:b, s:b}", "name", tensor->name, "dtype", dtypes[tensor->dtype], "shape",
                   shape, "bytes", (json_int_t)tensor->bytes, "aligned", (uintptr_t)tensor->data % 64 == 0, "found",
                   tensor->data != NULL);
}

static json_t *warnings_of(const struct voxeld_result *result) {
  json_t *warnings = json_array();
  const char *kind, *detail;
  for (size_t i = 0; (detail = voxeld_warning(result, i, &kind)); i++)
    json_array_append_new(warnings, json_pack("{s:s, s:s}", "kind", kind, "detail", detail));
  return warnings;
}

static void print(enum voxeld_status status, const struct voxeld_result *result) {
  const struct voxeld_problem *p = &result->problem;
  json_t *tensors = json_array();
  for (size_t i = 0; i < result->tensor_count; i++) json_array_append_new(tensors, describe(&result->tensors[i]));
  json_t *problem = json_pack("{s:i, s:s, s:s, s:s, s:s, s:f}", "status", p->status, "kind", p->kind, "title", p->title,
                              "detail", p->detail, "parameter", p->parameter, "retry_after", p->retry_after_s);
  json_t *line = json_pack("{s:s, s:i, s:s, s:s, s:s?, s:f, s:I, s:o, s:o, s:o}", "status", statuses[status],
                           "attempts", result->attempts, "request_id", result->request_id, "error", result->error,
                           "metadata", result->metadata, "received", voxeld_number(result, "points", "received"),
                           "buffer", (json_int_t)(uintptr_t)result->buffer.bytes, "problem", problem, "tensors",
                           tensors, "warnings", warnings_of(result));
  json_dumpf(line, stdout, 0);
  putchar('\n');
  json_decref(line);
}

static bool write_tensors(const struct voxeld_result *result, const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) return false;
  for (size_t i = 0; i < result->tensor_count; i++) fwrite(result->tensors[i].data, 1, result->tensors[i].bytes, file);
  return fclose(file) == 0;
}

static unsigned char *read_all(size_t *size) {
  unsigned char *bytes = NULL;
  size_t room = 0, got = 1;
  for (*size = 0; got > 0; *size += got) {
    if (*size == room) bytes = realloc(bytes, room = room * 2 + 65536);
    if (!bytes) abort();
    got = fread(bytes + *size, 1, room - *size, stdin);
  }
  return bytes;
}

int main(int argc, char **argv) {
  struct voxeld_options options = voxeld_defaults(NULL);
  const char *query = "", *path = NULL;
  int calls = 1;
  bool no_rows = false;
  enum voxeld_status (*ask)(struct voxeld_client *, const char *, const void *, size_t, struct voxeld_result *) =
      voxeld_voxelize;
  for (int option; (option = getopt(argc, argv, "u:q:o:n:r:b:t:d:m:a:c:k:T:e:fpN")) != -1;) {
    switch (option) {
      case 'u': options.url = optarg; break;
      case 'q': query = optarg; break;
      case 'o': path = optarg; break;
      case 'n': calls = (int)strtol(optarg, NULL, 10); break;
      case 'r': options.retries = (int)strtol(optarg, NULL, 10); break;
      case 'b': options.backoff_s = strtod(optarg, NULL); break;
      case 't': options.timeout_s = strtod(optarg, NULL); break;
      case 'd': options.deadline_s = strtod(optarg, NULL); break;
      case 'm': options.max_answer_bytes = strtoul(optarg, NULL, 10); break;
      case 'a': options.ca_file = optarg; break;
      case 'c': options.certificate = optarg; break;
      case 'k': options.key = optarg; break;
      case 'T': options.token = optarg; break;
      case 'e': options.encoding = optarg; break;
      case 'f': ask = voxeld_fps; break;
      case 'p': ask = voxeld_transform; break;
      case 'N': no_rows = true; break;  // but their number of bytes
      default: return 2;
    }
  }
  signal(SIGPIPE, SIG_IGN);
  struct voxeld_client *client = voxeld_open(&options);
  if (!client) return 3;
  size_t size;
  unsigned char *rows = read_all(&size);
  struct voxeld_result result = {0};
  for (int i = 0; i < calls; i++) {
    print(ask(client, query, no_rows ? NULL : rows, size, &result), &result);
    fflush(stdout);
  }
  bool written = !path || write_tensors(&result, path);
  free(rows);
  voxeld_result_free(&result);
  voxeld_close(client);
  return written ? 0 : 1;
}
