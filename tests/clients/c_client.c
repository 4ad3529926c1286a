// The program through which tests call the C client. It posts its standard input once or several times, each time with
// the same struct for the result, and prints a JSON line for each call. It writes the tensors of the last call, one
// after the other, into a file. With -s the standard input has the data of tensors, one after the other; the program
// posts them as a safetensors file. One thread.
#define VOXELD_CLIENT_IMPLEMENTATION
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <voxeld_client.h>

static const char *const statuses[] = {"OK", "REFUSED", "NO_ANSWER", "BAD_ANSWER", "STOPPED", "FAILED"};
static const char *const dtypes[] = {"float32", "float16", "int32", "uint8", "int64"};

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

static json_t *classes_of(const struct voxeld_result *result) {
  json_t *names = json_array();
  const char *name;
  for (int label = 0; (name = voxeld_class_name(result, label)); label++)
    json_array_append_new(names, json_string(name));
  if (voxeld_class_name(result, -1)) abort();
  return names;
}

static json_t *sweeps_of(const struct voxeld_result *result) {
  json_t *sweeps = json_array();
  struct voxeld_sweep sweep;
  for (size_t i = 0; voxeld_joined(result, i, &sweep); i++) {
    json_array_append_new(sweeps, json_pack("[s, f, f, f, f, f, f]", sweep.stream, sweep.time, sweep.age_s,
                                            sweep.received, sweep.removed_close, sweep.joined, sweep.not_finite));
  }
  return sweeps;
}

static void print(enum voxeld_status status, const struct voxeld_result *result) {
  const struct voxeld_problem *p = &result->problem;
  json_t *tensors = json_array();
  for (size_t i = 0; i < result->tensor_count; i++) json_array_append_new(tensors, describe(&result->tensors[i]));
  json_t *problem = json_pack("{s:i, s:s, s:s, s:s, s:s, s:f}", "status", p->status, "kind", p->kind, "title", p->title,
                              "detail", p->detail, "parameter", p->parameter, "retry_after", p->retry_after_s);
  json_t *line = json_pack(
      "{s:s, s:i, s:s, s:s, s:s?, s:f, s:I, s:o, s:o, s:o, s:o, s:o, s:b}", "status", statuses[status], "attempts",
      result->attempts, "request_id", result->request_id, "error", result->error, "metadata", result->metadata,
      "received", voxeld_number(result, "points", "received"), "buffer", (json_int_t)(uintptr_t)result->buffer.bytes,
      "problem", problem, "tensors", tensors, "warnings", warnings_of(result), "classes", classes_of(result), "sweeps",
      sweeps_of(result), "begun", voxeld_begun(result));
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

static bool write_body(const struct voxeld_packed *points, const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) return false;
  bool whole = fwrite(points->body, 1, points->bytes, file) == points->bytes;
  return fclose(file) == 0 && whole;
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

// `text` is name:dtype:shape, such as a:int32:3,7.
static void add_tensor(char *text, struct voxeld_tensor *tensors, size_t *count) {
  struct voxeld_tensor *tensor = &tensors[(*count)++];
  static const size_t sizes[] = {4, 2, 4, 1, 8};
  if (*count > VOXELD_MAX_TENSORS) abort();
  tensor->name = strtok(text, ":");
  const char *dtype = strtok(NULL, ":");
  for (tensor->dtype = VOXELD_F32; strcmp(dtypes[tensor->dtype], dtype) != 0;) tensor->dtype++;
  tensor->bytes = sizes[tensor->dtype];
  for (const char *size; tensor->dimensions < VOXELD_MAX_DIMENSIONS && (size = strtok(NULL, ",")) != NULL;) {
    tensor->shape[tensor->dimensions] = strtoul(size, NULL, 10);
    tensor->bytes *= tensor->shape[tensor->dimensions++];
  }
}

// A file of the tensors, whose data are in `bytes`; NULL if they cannot be packed. The block has no room to spare, so
// that a sanitizer sees a write past the end.
static unsigned char *pack(struct voxeld_tensor *tensors, size_t count, unsigned char *bytes, size_t *size) {
  for (size_t i = 0, at = 0; i < count; at += tensors[i++].bytes) tensors[i].data = bytes + at;
  *size = voxeld_pack(tensors, count, NULL, 0);
  unsigned char *file = *size ? malloc(*size) : NULL;
  if (file && voxeld_pack(tensors, count, file, *size) != *size) abort();
  return file;
}

// Adds the time and the pose to the query. `numbers` has these eight values, separated by commas. The block has no room
// to spare.
static char *sweep_query(const char *query, char *numbers) {
  double values[8] = {0};
  for (int i = 0; i < 8; i++, numbers = NULL) values[i] = strtod(strtok(numbers, ","), NULL);
  size_t room = strlen(query) + VOXELD_SWEEP_ROOM;
  char *text = malloc(room);
  if (!text || voxeld_sweep_query(query, values[0], values + 1, text, room - 1)) abort();
  setlocale(LC_NUMERIC, "");  // as graphical programs do
  if (!voxeld_sweep_query(query, values[0], values + 1, text, room)) abort();
  setlocale(LC_NUMERIC, "C");
  return text;
}

// `numbers` is points,time,pose.
static void add_sweep(char *numbers, struct voxeld_sent_sweep *sweeps, size_t *count) {
  struct voxeld_sent_sweep *sweep = &sweeps[(*count)++];
  sweep->points = strtoul(strtok(numbers, ","), NULL, 10);
  sweep->time = strtod(strtok(NULL, ","), NULL);
  for (int i = 0; i < 7; i++) sweep->pose[i] = strtod(strtok(NULL, ","), NULL);
}

static char *sweeps_query(const char *query, const struct voxeld_sent_sweep *sweeps, size_t count) {
  size_t room = strlen(query) + count * VOXELD_SWEEP_ROOM;
  char *text = malloc(room);
  if (!text || voxeld_sweeps_query(query, sweeps, count, text, room - 1) ||
      voxeld_sweeps_query(query, sweeps, 0, text, room))
    abort();
  setlocale(LC_NUMERIC, "");
  if (!voxeld_sweeps_query(query, sweeps, count, text, room)) abort();
  setlocale(LC_NUMERIC, "C");
  return text;
}

// Packs the first half of the rows, then all rows into the same struct, as a sensor packs one scan after another.
// Prints the query and the largest error.
static bool pack_points(const char *query, const unsigned char *rows, size_t bytes, double resolution,
                        struct voxeld_packed *packed) {
  if (voxeld_pack_points(query, rows, bytes / 2 / 64 * 64, resolution, packed)) setlocale(LC_NUMERIC, "");
  bool fine = voxeld_pack_points(query, bytes ? rows : NULL, bytes, resolution, packed);
  setlocale(LC_NUMERIC, "C");
  json_t *line =
      json_pack("{s:b, s:s, s:f, s:I, s:s}", "packed", fine, "query", fine ? packed->query : "", "error",
                fine ? packed->largest_error : 0.0, "bytes", (json_int_t)packed->bytes, "why", packed->error);
  json_dumpf(line, stdout, 0);
  putchar('\n');
  json_decref(line);
  return fine;
}

static enum voxeld_status last_of(struct voxeld_client *client, const char *stream, const void *rows, size_t bytes,
                                  struct voxeld_result *result) {
  (void)rows, (void)bytes;
  return voxeld_last(client, stream, result);
}

static enum voxeld_status delete_of(struct voxeld_client *client, const char *stream, const void *rows, size_t bytes,
                                    struct voxeld_result *result) {
  (void)rows, (void)bytes;
  return voxeld_delete_stream(client, stream, result);
}

// Maps a file of /dev/shm in place of a block of GPU memory; the file's name is the handle. Answers go into the second
// half.
static bool map_block(const char *name, struct voxeld_cuda *cuda) {
  char path[96];
  snprintf(path, sizeof path, "/dev/shm/%s", name);
  int file = open(path, O_RDWR);
  off_t size = file < 0 ? -1 : lseek(file, 0, SEEK_END);
  if (size <= 0 || strlen(name) >= sizeof cuda->handle) return false;
  memcpy(cuda->handle, name, strlen(name));
  cuda->bytes = (size_t)size;
  cuda->answers = cuda->bytes / 2;
  cuda->block = mmap(NULL, cuda->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return cuda->block != MAP_FAILED;
}

int main(int argc, char **argv) {
  struct voxeld_cuda cuda = {.device = 0};
  struct voxeld_options options = voxeld_defaults(NULL);
  const char *query = "", *path = NULL;
  char *made = NULL;
  int calls = 1;
  bool no_rows = false, move = false, beyond = false;
  double resolution = -1;  // 0 or more: packs the rows; with -n 0 also writes the packed body
  struct voxeld_tensor tensors[VOXELD_MAX_TENSORS] = {{0}};
  struct voxeld_sent_sweep sweeps[32];
  size_t count = 0, sent = 0;
  enum voxeld_status (*ask)(struct voxeld_client *, const char *, const void *, size_t, struct voxeld_result *) =
      voxeld_voxelize;
  for (int option; (option = getopt(argc, argv, "u:q:o:n:r:b:t:d:m:a:c:k:T:e:s:P:S:z:g:fplNMDBKLXZRGE")) != -1;) {
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
      case 'l': ask = voxeld_points; break;
      case 'M': ask = voxeld_nms; break;
      case 'D': ask = voxeld_decode; break;
      case 'B': ask = voxeld_detect; break;
      case 'K': ask = voxeld_backbone; break;
      case 'Z': ask = voxeld_serialize; break;
      case 'R': ask = voxeld_range_image; break;
      case 'L': ask = last_of; break;  // the query is the name of a stream
      case 'X': ask = delete_of; break;
      case 'P': query = made = sweep_query(query, optarg); break;
      case 'S': add_sweep(optarg, sweeps, &sent); break;
      case 's': add_tensor(optarg, tensors, &count); break;
      case 'z': resolution = strtod(optarg, NULL), options.encoding = "deflate"; break;
      case 'g':
        if (!map_block(optarg, &cuda)) return 5;
        options.cuda = &cuda;
        break;
      case 'G': move = true; break;     // moves the rows into the block
      case 'E': beyond = true; break;   // takes the rows from the block's last byte on
      case 'N': no_rows = true; break;  // passes NULL as rows, with their size
      default: return 2;
    }
  }
  if ((move || beyond) && !cuda.block) return 2;
  if (sent > 0) query = made = sweeps_query(query, sweeps, sent);
  signal(SIGPIPE, SIG_IGN);
  struct voxeld_client *client = voxeld_open(&options);
  if (!client) return 3;
  size_t size;
  unsigned char *input = read_all(&size), *file = count ? pack(tensors, count, input, &size) : NULL;
  bool packed = count == 0 || file;
  const unsigned char *rows = file ? file : input;
  struct voxeld_packed points = {0};
  if (resolution >= 0) {
    packed = pack_points(query, rows, size, resolution, &points);
    rows = points.body, size = points.bytes, query = points.query;
  }
  if (move) rows = memcpy(cuda.block, rows, size);
  if (beyond) rows = (const unsigned char *)cuda.block + cuda.bytes - 1;
  struct voxeld_result result = {0};
  for (int i = 0; packed && i < calls; i++) {
    print(ask(client, query, no_rows ? NULL : rows, size, &result), &result);
    fflush(stdout);
  }
  bool written = !path || !packed || (calls ? write_tensors(&result, path) : write_body(&points, path));
  free(input);
  free(file);
  free(made);
  voxeld_packed_free(&points);
  voxeld_result_free(&result);
  voxeld_close(client);
  if (!packed) return 4;
  return written ? 0 : 1;
}
