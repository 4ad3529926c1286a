// A client of voxeld in one header, over libcurl (7.66 or later), jansson and zlib, for processes that post scans: C99,
// C11 and C++, POSIX.
//
//   #define VOXELD_CLIENT_IMPLEMENTATION  // in one source file, so that curl.h and jansson.h stay out of all others
//   #include <voxeld_client.h>            // -std=gnu11 or -D_POSIX_C_SOURCE=200809L; pkg-config libcurl jansson zlib
//
//   struct voxeld_options options = voxeld_defaults("http://localhost:8080");
//   struct voxeld_client *client = voxeld_open(&options);
//   struct voxeld_result result = {0};
//   if (voxeld_voxelize(client, "preset=kitti_second", rows, bytes, &result) == VOXELD_OK)
//     use(voxeld_find(&result, "voxel_features"));
//   else
//     complain(result.error);
//
// Threads: use a client and a result from one thread at a time; threads that each have their own client need no lock.
// If libcurl is older than 7.84, open the first client before other threads run. A process made by fork must open its
// own client. With TLS the program should ignore SIGPIPE.
//
// Memory: a result keeps its buffer for the next call. The rows are sent without a copy. Connections are kept and
// reused.
#ifndef VOXELD_CLIENT_H
#define VOXELD_CLIENT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VOXELD_MAX_TENSORS 32
#define VOXELD_MAX_DIMENSIONS 4

enum voxeld_status {
  VOXELD_OK,
  VOXELD_REFUSED,     // result.problem says why
  VOXELD_NO_ANSWER,   // nobody listens, the connection broke, or the time ran out
  VOXELD_BAD_ANSWER,  // the answer does not come from voxeld, or is damaged
  VOXELD_STOPPED,     // *options.stop was set
  VOXELD_FAILED       // out of memory; or a bad argument, file or certificate
};

// Memory of a GPU that a service on this machine reads and writes in place: one block of cudaMalloc. Rows that begin in
// the block stay there; complete them before the call (cudaStreamSynchronize). Other rows are sent. Answers go to the
// block from byte `answers`, a multiple of 64, to its end. The `data` of their tensors are addresses of the GPU, and
// the next call overwrites them. The first call registers the block, and voxeld_close unregisters it; free the block
// after that. After VOXELD_NO_ANSWER or VOXELD_STOPPED the service may still write to the block: the next call waits
// for the end of that writing or, if it takes too long, is VOXELD_REFUSED as region-busy.
struct voxeld_cuda {
  unsigned char handle[64];  // of cudaIpcGetMemHandle
  int device;                // number of the GPU
  void *block;
  size_t bytes, answers;
};

struct voxeld_options {
  const char
      *url;  // http://HOST:PORT or https://HOST:PORT, with an optional path prefix; or unix:PATH. No user or password
  const char *token;        // sent as Authorization: Bearer; or NULL
  const char *ca_file;      // PEM file of the authorities to trust; NULL = the authorities that the system trusts
  const char *certificate;  // PEM files of the client's certificate and its key; or NULL
  const char *key;
  double timeout_s;   // limit for connecting and, in whole seconds, for a pause in the transfer; up to a million
  double deadline_s;  // limit for a call with all its attempts and pauses; up to a million
  int retries;        // limit of further attempts after 429, 503, a broken connection, or 502 or 504 with Retry-After
  double backoff_s;   // pause before attempt 2; doubles each time, up to 10 s; less a random part, up to half
  size_t max_answer_bytes;  // a larger answer is VOXELD_BAD_ANSWER
  const char *encoding;     // gzip, deflate or zstd: the encoding that the caller has applied to the rows; NULL = none
  const volatile sig_atomic_t *stop;  // a call ends within 0.1 s once *stop is not 0; or NULL
  const struct voxeld_cuda *cuda;     // memory for rows and answers, without `encoding`; or NULL
};

enum voxeld_dtype { VOXELD_F32, VOXELD_F16, VOXELD_I32, VOXELD_U8, VOXELD_I64 };

struct voxeld_tensor {
  const char *name;
  enum voxeld_dtype dtype;
  size_t dimensions;
  size_t shape[VOXELD_MAX_DIMENSIONS];
  void *data;  // starts on a multiple of 64 bytes; row-major, without gaps; with options.cuda an address of the GPU
  size_t bytes;
};

struct voxeld_problem {
  int status;     // HTTP status; 0 = the service did not refuse the request
  char kind[64];  // such as queue-full; "" if a load balancer refused
  char title[128];
  char detail[512];
  char parameter[64];    // the parameter at fault, or ""
  double retry_after_s;  // 0 = immediately, or the answer has no Retry-After
};

struct voxeld_buffer {   // private: an answer's bytes and the JSON in them
  void *block;           // as malloc returned it
  unsigned char *bytes;  // the first address in the block that is a multiple of 64
  size_t size, room;
  struct json_t *header, *metadata;
};

// The result of a call. Zero it before its first use: struct voxeld_result result = {0}. It owns what its pointers
// point to; that memory is valid until the result's next use or voxeld_result_free.
struct voxeld_result {
  size_t tensor_count;
  struct voxeld_tensor tensors[VOXELD_MAX_TENSORS];
  const char *metadata;  // as JSON
  char request_id[129];  // as in the service's log
  struct voxeld_problem problem;
  char error[768];  // one line; set unless the call returned VOXELD_OK
  bool temporary;   // the same request may succeed later; the client retries such requests
  int attempts;
  struct voxeld_buffer buffer;  // private
};

struct voxeld_options voxeld_defaults(const char *url);

// Opens a client. NULL if there is no memory or an option is bad. Strings of the options are copied; `stop` must
// outlive the client.
struct voxeld_client *voxeld_open(const struct voxeld_options *options);
void voxeld_close(struct voxeld_client *client);  // client may be NULL

// POST /v1/voxelize, /v1/fps, /v1/points, /v1/transform, /v1/detect, /v1/backbone, /v1/serialize and /v1/range_image.
// `query` has the parameters, URL-encoded; a '+' means a space, so write 1e20 or 1e%2B20 for 1e+20. `rows` has the
// points, little-endian, row by row; with options.encoding, these bytes compressed.
//
// With max_age_ms in the query, a problem may have the kind too-old; with latest, the kind superseded. The client does
// not repeat calls with latest, since they would supersede newer calls.
enum voxeld_status voxeld_voxelize(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                   struct voxeld_result *result);
enum voxeld_status voxeld_fps(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                              struct voxeld_result *result);
enum voxeld_status voxeld_points(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                 struct voxeld_result *result);
enum voxeld_status voxeld_transform(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                    struct voxeld_result *result);
enum voxeld_status voxeld_detect(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                 struct voxeld_result *result);
enum voxeld_status voxeld_backbone(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                   struct voxeld_result *result);
enum voxeld_status voxeld_serialize(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                    struct voxeld_result *result);
enum voxeld_status voxeld_range_image(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                      struct voxeld_result *result);

// Points made small for slow links. Zero it before its first use: struct voxeld_packed packed = {0}. It owns what its
// pointers point to, and keeps the memory for the next call.
struct voxeld_packed {
  unsigned char *body;  // for voxeld_voxelize and the like, with a client that has options.encoding = "deflate"
  size_t bytes;
  char *query;           // the caller's query, with dtype, scale and filter
  double largest_error;  // the largest difference between a given number and the number that the service restores
  char error[160];       // one line; set unless the call returned true
  void *block;           // private: the memory, and its size
  size_t room;
};

// Packs rows of little-endian float32. The query must have num_features, and no dtype, scale or filter. No point is
// dropped. False if an argument or a parameter is unfit, if int32 cannot hold a number in units of the resolution, or
// if there is no memory.
//
// With the resolution 0 nothing is lost: a column is sent in whole units of 1, 0.1, ... or 0.000001 if one of these
// units restores every bit, else as it is. Times are sent as they are. To tell their column, the query must have
// time_field and fields if the request has time_field, even from its preset or model.
//
// With any other resolution, a column is sent in one of these units if the unit is not below the resolution and
// restores every number; otherwise the column is rounded to the resolution. This also holds for times.
//
// Units are sent as int32, in which -0.0 becomes 0.0; or as float32, if a number of the column is not finite or, with
// the resolution 0, is -0.0.
bool voxeld_pack_points(const char *query, const void *rows, size_t bytes, double resolution,
                        struct voxeld_packed *packed);
void voxeld_packed_free(struct voxeld_packed *packed);

// Writes a safetensors file into `file`, and returns its whole size; if that is more than `room`, call again with a
// buffer of that size. Returns 0 if a tensor cannot be sent: its name is longer than 63 characters or has characters
// other than letters, digits and _, or its `bytes` do not match its shape. The data need not be aligned.
size_t voxeld_pack(const struct voxeld_tensor *tensors, size_t count, void *file, size_t room);

// POST /v1/nms and /v1/decode. `file` was written by voxeld_pack, and still belongs to the caller.
enum voxeld_status voxeld_nms(struct voxeld_client *client, const char *query, const void *file, size_t bytes,
                              struct voxeld_result *result);
enum voxeld_status voxeld_decode(struct voxeld_client *client, const char *query, const void *file, size_t bytes,
                                 struct voxeld_result *result);

// Appends the time and the pose of a sweep to a query that names its stream, such as
// "preset=kitti_second&stream=roof_lidar&sweeps=10". The time is in seconds of any clock that never goes back; the pose
// is x, y, z, qw, qx, qy, qz. voxeld_voxelize and the like then join the sweep with earlier sweeps; a call with the
// same time may be repeated. False if `text` has fewer than VOXELD_SWEEP_ROOM bytes in addition to the query's. With
// "track=yes", voxeld_detect also gives the tensor `track_ids`, [N] int64.
#define VOXELD_SWEEP_ROOM 256
bool voxeld_sweep_query(const char *query, double time, const double pose[7], char *text, size_t room);

struct voxeld_sent_sweep {
  size_t points;
  double time, pose[7];
};

// The same for several sweeps in one body, the newest first, such as sweeps that the service has lost (voxeld_begun,
// voxeld_joined). `text` needs VOXELD_SWEEP_ROOM bytes for each sweep in addition to the query's. False if it has
// fewer, or without a sweep. The service takes up to 32 sweeps, and no more than it joins.
bool voxeld_sweeps_query(const char *query, const struct voxeld_sent_sweep *sweeps, size_t count, char *text,
                         size_t room);

// GET /v1/streams/NAME/last: the tensor `points` has the points that the stream's last request joined, in host memory
// even with options.cuda. The metadata has the `pose` of their frame.
enum voxeld_status voxeld_last(struct voxeld_client *client, const char *stream, struct voxeld_result *result);

// DELETE /v1/streams/NAME: the next sweep begins the stream anew. VOXELD_REFUSED with 404 if there is no such stream.
enum voxeld_status voxeld_delete_stream(struct voxeld_client *client, const char *stream, struct voxeld_result *result);

struct voxeld_sweep {
  const char *stream;
  double time, age_s;  // age: seconds from this sweep to the newest of the first stream; below 0: this sweep is newer
  double received, removed_close, joined, not_finite;
};

// Number 0 is the newest sweep of the first stream. False if fewer sweeps were joined.
bool voxeld_joined(const struct voxeld_result *result, size_t number, struct voxeld_sweep *sweep);

// Whether the service had no earlier sweep of the stream: the stream is new, its sweeps were dropped, or the service
// was restarted or replaced.
bool voxeld_begun(const struct voxeld_result *result);

void voxeld_result_free(struct voxeld_result *result);

const struct voxeld_tensor *voxeld_find(const struct voxeld_result *result, const char *name);  // NULL: none

// For example voxeld_number(result, "points", "kept"); -1 if the metadata has no such number.
double voxeld_number(const struct voxeld_result *result, const char *group, const char *name);

// NULL if there is no such class. `label`: from the tensor `labels` of voxeld_detect.
const char *voxeld_class_name(const struct voxeld_result *result, int label);

// The detail of a warning in the metadata, numbered from 0; NULL if there are fewer. Sets *kind, such as "max_voxels",
// unless kind is NULL.
const char *voxeld_warning(const struct voxeld_result *result, size_t number, const char **kind);

#ifdef __cplusplus
}
#endif
#endif

#if defined(VOXELD_CLIENT_IMPLEMENTATION) && !defined(VOXELD_CLIENT_IMPLEMENTED)
#define VOXELD_CLIENT_IMPLEMENTED

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors and rows are little-endian, and this client does not convert them"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define VOXELD__ALIGNMENT 64
#define VOXELD__MAX_ENTRIES 64         // tensors and the padding between them
#define VOXELD__MAX_HEAD 65536         // bytes of headers, including trailers and those of interim answers
#define VOXELD__MAX_HEADER (1u << 24)  // bytes; the header of the largest batch has a hundredth of it
#define VOXELD__MAX_BACKOFF_S 10.0
#define VOXELD__DIRECT_HEAD 4096     // bytes of a request on the direct connection
#define VOXELD__DIRECT_ANSWER 65536  // bytes of an answer there, with its head
#define VOXELD__SPIN_S 0.0002        // waiting there without sleeping
#define VOXELD__DELETE "DELETE"
#define VOXELD__URN "urn:voxeld:problem:"

enum voxeld__answer { VOXELD__FILE, VOXELD__IN_BLOCK, VOXELD__NO_BODY };

struct voxeld_client {
  CURL *curl;  // the options that all transfers share
  CURL *transfer;
  CURLM *connections;
  struct curl_slist *headers;
  double timeout_s, deadline_s, backoff_s;
  int retries;
  size_t max_answer_bytes;
  const volatile sig_atomic_t *stop;
  char *base;  // the URL in front of all paths
  char *url;   // of the current call
  size_t url_room;
  uint64_t random;
  char curl_error[CURL_ERROR_SIZE];
  struct voxeld_result *result;  // of the current call
  const char *method;            // of the current call
  enum voxeld__answer answer;
  struct voxeld_cuda cuda;  // block NULL: none
  char region[40];          // the name of the block's region
  bool registered;          // whether the region is registered, as far as the client knows
  char *query;              // the call's query with output_region and points_region
  size_t query_room;
  CURL *direct;                                // has the direct connection; NULL: there is none
  curl_socket_t socket;                        // of the direct connection
  bool bodiless;                               // the current call sends no body
  bool no_memory;                              // there was no memory for the answer
  bool in_head;                                // the answer has begun, and more headers follow
  size_t head_bytes;                           // of the head of the answer
  const char *wrong;                           // what is wrong with the head of the answer; or NULL
  char retry_after[64], date[64], length[24];  // headers of the answer
};

static double voxeld__now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool voxeld__stopped(const struct voxeld_client *client) { return client->stop && *client->stop; }

#ifdef __GNUC__
__attribute__((format(printf, 3, 4)))
#endif
static enum voxeld_status
voxeld__fail(struct voxeld_result *result, enum voxeld_status status, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(result->error, sizeof result->error, format, arguments);
  va_end(arguments);
  return status;
}

// ---- the result -----------------------------------------------------------------------------------------------------

// Zeros the result, but keeps the memory of the buffer.
static void voxeld__forget(struct voxeld_result *result) {
  struct voxeld_buffer buffer = result->buffer;
  json_decref(buffer.header);
  json_decref(buffer.metadata);
  memset(result, 0, sizeof *result);
  result->buffer.block = buffer.block;
  result->buffer.bytes = buffer.bytes;
  result->buffer.room = buffer.room;
}

void voxeld_result_free(struct voxeld_result *result) {
  voxeld__forget(result);
  free(result->buffer.block);
  memset(result, 0, sizeof *result);
}

const struct voxeld_tensor *voxeld_find(const struct voxeld_result *result, const char *name) {
  for (size_t i = 0; i < result->tensor_count; i++)
    if (strcmp(result->tensors[i].name, name) == 0) return &result->tensors[i];
  return NULL;
}

static double voxeld__member(const json_t *object, const char *name) {
  const json_t *number = json_object_get(object, name);
  return json_is_number(number) ? json_number_value(number) : -1;
}

// A member of the metadata. Parses them if the answer is in the block and this is their first use.
static const json_t *voxeld__told(const struct voxeld_result *result, const char *name) {
  struct voxeld_buffer *buffer = (struct voxeld_buffer *)&result->buffer;  // a result belongs to one thread at a time
  if (!buffer->metadata && result->metadata)
    buffer->metadata = json_loads(result->metadata, JSON_REJECT_DUPLICATES, NULL);
  return json_object_get(buffer->metadata, name);
}

double voxeld_number(const struct voxeld_result *result, const char *group, const char *name) {
  return voxeld__member(voxeld__told(result, group), name);
}

const char *voxeld_class_name(const struct voxeld_result *result, int label) {
  const json_t *names = voxeld__told(result, "class_names");
  return label < 0 ? NULL : json_string_value(json_array_get(names, (size_t)label));
}

const char *voxeld_warning(const struct voxeld_result *result, size_t number, const char **kind) {
  const json_t *warning = json_array_get(voxeld__told(result, "warnings"), number);
  const char *name = json_string_value(json_object_get(warning, "kind"));
  if (!name) return NULL;
  if (kind) *kind = name;
  return json_string_value(json_object_get(warning, "detail"));
}

bool voxeld_joined(const struct voxeld_result *result, size_t number, struct voxeld_sweep *sweep) {
  const json_t *sweeps = json_object_get(voxeld__told(result, "stream"), "sweeps");
  const json_t *told = json_array_get(sweeps, number), *points = json_object_get(told, "points");
  sweep->stream = json_string_value(json_object_get(told, "stream"));
  sweep->time = voxeld__member(told, "time");
  sweep->age_s = voxeld__member(told, "age_s");
  sweep->received = voxeld__member(points, "received");
  sweep->removed_close = voxeld__member(points, "removed_close");
  sweep->joined = voxeld__member(points, "joined");
  sweep->not_finite = voxeld__member(points, "not_finite");
  return sweep->stream != NULL;
}

bool voxeld_begun(const struct voxeld_result *result) {
  return json_is_true(json_object_get(voxeld__told(result, "stream"), "begun"));
}

// Appends `before`, then the number.
static char *voxeld__number(char *text, const char *before, double value) {
  char number[40];
  while (*before) *text++ = *before++;
  snprintf(number, sizeof number, "%.17g", value);
  for (const char *c = number; *c; c++)
    if (strchr("0123456789-einfa", *c))
      *text++ = *c;
    else if (*c != '+' && text[-1] != '.')  // the service would read a plus as a space
      *text++ = '.';                        // some locales have another decimal point
  *text = 0;
  return text;
}

bool voxeld_sweep_query(const char *query, double time, const double pose[7], char *text, size_t room) {
  size_t used = strlen(query);
  if (room < VOXELD_SWEEP_ROOM || used > room - VOXELD_SWEEP_ROOM) return false;
  while (*query) *text++ = *query++;
  text = voxeld__number(text, "&time=", time);
  for (int i = 0; i < 7; i++) text = voxeld__number(text, i ? "," : "&pose=", pose[i]);
  return true;
}

bool voxeld_sweeps_query(const char *query, const struct voxeld_sent_sweep *sweeps, size_t count, char *text,
                         size_t room) {
  size_t used = strlen(query);
  if (count == 0 || used > room || count > (room - used) / VOXELD_SWEEP_ROOM) return false;
  while (*query) *text++ = *query++;
  for (size_t i = 0; i < count; i++) text = voxeld__number(text, i ? "," : "&point_counts=", (double)sweeps[i].points);
  for (size_t i = 0; i < count; i++) text = voxeld__number(text, i ? "," : "&times=", sweeps[i].time);
  for (size_t i = 0; i < 7 * count; i++) text = voxeld__number(text, i ? "," : "&poses=", sweeps[i / 7].pose[i % 7]);
  return true;
}

// Keeps the bytes already there.
static bool voxeld__reserve(struct voxeld_buffer *buffer, size_t room) {
  if (room <= buffer->room) return true;
  if (room > SIZE_MAX - VOXELD__ALIGNMENT) return false;
  void *block = malloc(room + VOXELD__ALIGNMENT);
  if (!block) return false;
  unsigned char *bytes = (unsigned char *)block;
  bytes += (VOXELD__ALIGNMENT - (uintptr_t)block % VOXELD__ALIGNMENT) % VOXELD__ALIGNMENT;
  if (buffer->size) memcpy(bytes, buffer->bytes, buffer->size);
  free(buffer->block);
  buffer->block = block;
  buffer->bytes = bytes;
  buffer->room = room;
  return true;
}

// ---- the safetensors file -------------------------------------------------------------------------------------------

struct voxeld__entry {
  struct voxeld_tensor tensor;
  uint64_t first, last;
};

static const struct {
  const char *name;
  size_t bytes;
} voxeld__dtypes[] = {{"F32", 4}, {"F16", 2}, {"I32", 4}, {"U8", 1}, {"I64", 8}};  // enum voxeld_dtype

static int voxeld__by_offset(const void *a, const void *b) {
  const struct voxeld__entry *x = (const struct voxeld__entry *)a, *y = (const struct voxeld__entry *)b;
  if (x->first != y->first) return x->first < y->first ? -1 : 1;
  return x->last < y->last ? -1 : x->last > y->last;
}

static bool voxeld__size(const json_t *value, uint64_t *size) {
  if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
  *size = (uint64_t)json_integer_value(value);
  return true;
}

// False if the type or the shape is malformed.
static bool voxeld__read_shape(const char *name, const json_t *described, struct voxeld_tensor *tensor) {
  const json_t *dtype = json_object_get(described, "dtype"), *shape = json_object_get(described, "shape");
  tensor->name = name;
  tensor->dimensions = json_array_size(shape);
  if (json_object_size(described) != 3 || !json_is_string(dtype) || !json_is_array(shape) ||
      tensor->dimensions > VOXELD_MAX_DIMENSIONS)
    return false;
  uint64_t bytes = 0;
  for (size_t i = 0; i < sizeof voxeld__dtypes / sizeof *voxeld__dtypes; i++) {
    if (strcmp(voxeld__dtypes[i].name, json_string_value(dtype)) != 0) continue;
    tensor->dtype = (enum voxeld_dtype)i;
    bytes = voxeld__dtypes[i].bytes;
  }
  if (!bytes) return false;
  for (size_t i = 0; i < tensor->dimensions; i++) {
    uint64_t size;
    if (!voxeld__size(json_array_get(shape, i), &size) || size >> 48 || size > SIZE_MAX) return false;
    tensor->shape[i] = (size_t)size;
    if (size && bytes > UINT64_MAX / size) return false;
    bytes *= size;
  }
  tensor->bytes = (size_t)bytes;
  return true;
}

// False if the entry is malformed.
static bool voxeld__read_entry(const char *name, const json_t *described, struct voxeld__entry *entry) {
  const json_t *offsets = json_object_get(described, "data_offsets");
  return json_array_size(offsets) == 2 && voxeld__size(json_array_get(offsets, 0), &entry->first) &&
         voxeld__size(json_array_get(offsets, 1), &entry->last) && entry->last >= entry->first &&
         voxeld__read_shape(name, described, &entry->tensor) && entry->tensor.bytes == entry->last - entry->first;
}

// The tensors must fill the file after the header, without gaps.
static const char *voxeld__place_tensors(struct voxeld_result *result, size_t start) {
  struct voxeld__entry entries[VOXELD__MAX_ENTRIES];
  size_t count = 0;
  const char *name;
  json_t *described;
  memset(entries, 0, sizeof entries);
  json_object_foreach(result->buffer.header, name, described) {
    if (strcmp(name, "__metadata__") == 0) continue;
    if (count == VOXELD__MAX_ENTRIES) return "it has too many tensors";
    if (!voxeld__read_entry(name, described, &entries[count++])) return "the entry of a tensor is not valid";
  }
  qsort(entries, count, sizeof *entries, voxeld__by_offset);
  uint64_t end = 0, size = result->buffer.size - start;
  for (size_t i = 0; i < count; i++) {
    if (entries[i].first != end || entries[i].last > size) return "its tensors do not directly follow each other";
    end = entries[i].last;
    if (strncmp(entries[i].tensor.name, "_padding_", 9) == 0) continue;
    if ((start + entries[i].first) % VOXELD__ALIGNMENT) return "a tensor does not start on 64 bytes";
    if (result->tensor_count == VOXELD_MAX_TENSORS) return "it has too many tensors";
    entries[i].tensor.data = result->buffer.bytes + start + entries[i].first;
    result->tensors[result->tensor_count++] = entries[i].tensor;
  }
  return end == size ? NULL : "its tensors do not fill it";
}

// NULL, or what is wrong with the file in the buffer.
static const char *voxeld__read_tensors(struct voxeld_result *result) {
  struct voxeld_buffer *buffer = &result->buffer;
  uint64_t length = 0;
  if (buffer->size < sizeof length) return "it is too short";
  memcpy(&length, buffer->bytes, sizeof length);
  if (length > buffer->size - sizeof length) return "its header is longer than the file";
  if (length > VOXELD__MAX_HEADER) return "its header is too long";
  const char *text = (const char *)buffer->bytes + sizeof length;
  buffer->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, NULL);
  if (!json_is_object(buffer->header)) return "its header is not a JSON object";
  json_t *metadata = json_object_get(json_object_get(buffer->header, "__metadata__"), "voxeld");
  if (!json_is_string(metadata)) return "it has no metadata of voxeld";
  result->metadata = json_string_value(metadata);
  buffer->metadata = json_loads(result->metadata, JSON_REJECT_DUPLICATES, NULL);
  if (!json_is_object(buffer->metadata)) return "its metadata is not a JSON object";
  return voxeld__place_tensors(result, sizeof length + (size_t)length);
}

// NULL, or what is wrong with the answer.
static const char *voxeld__find_in_block(const struct voxeld_cuda *cuda, struct voxeld_result *result,
                                         const json_t *places) {
  const char *name;
  json_t *described;
  size_t room = cuda->bytes - cuda->answers;
  if (!json_is_object(places)) return "it does not say where its tensors are";
  json_object_foreach((json_t *)places, name, described) {
    struct voxeld_tensor tensor;
    uint64_t offset = 0;
    memset(&tensor, 0, sizeof tensor);
    if (!voxeld__size(json_object_get(described, "offset"), &offset) || !voxeld__read_shape(name, described, &tensor))
      return "a tensor is not described";
    if (offset > room || tensor.bytes > room - offset) return "a tensor is not in the block";
    if (result->tensor_count == VOXELD_MAX_TENSORS) return "it has too many tensors";
    tensor.data = (char *)cuda->block + cuda->answers + offset;
    result->tensors[result->tensor_count++] = tensor;
  }
  return NULL;
}

static bool voxeld__pass(char **at, const char *text) {
  size_t length = strlen(text);
  if (strncmp(*at, text, length) != 0) return false;
  *at += length;
  return true;
}

static bool voxeld__pass_number(char **at, uint64_t *number) {
  char *first = *at;
  for (*number = 0; **at >= '0' && **at <= '9' && *at - first < 18; (*at)++)
    *number = *number * 10 + (uint64_t)(**at - '0');
  return *at > first;
}

// Passes a string without escapes. Returns its first character, or NULL.
static char *voxeld__pass_string(char **at) {
  char *text = *at + 1;
  if (**at != '"') return NULL;
  size_t length = strcspn(text, "\"\\");
  *at = text + length + 1;
  return text[length] == '"' ? text : NULL;
}

// Passes "NAME":{"dtype":"F32","shape":[1,2],"offset":3}.
static bool voxeld__pass_tensor(char **at, const struct voxeld_cuda *cuda, struct voxeld_tensor *tensor) {
  size_t room = cuda->bytes - cuda->answers, dtype = 0, dtypes = sizeof voxeld__dtypes / sizeof *voxeld__dtypes;
  uint64_t offset, size, bytes;
  memset(tensor, 0, sizeof *tensor);
  tensor->name = voxeld__pass_string(at);
  if (!tensor->name || !voxeld__pass(at, ":{\"dtype\":\"")) return false;
  while (dtype < dtypes && !voxeld__pass(at, voxeld__dtypes[dtype].name)) dtype++;
  if (dtype == dtypes || !voxeld__pass(at, "\",\"shape\":")) return false;
  tensor->dtype = (enum voxeld_dtype)dtype;
  bytes = voxeld__dtypes[dtype].bytes;
  while (voxeld__pass(at, tensor->dimensions ? "," : "[")) {
    if (tensor->dimensions == VOXELD_MAX_DIMENSIONS || !voxeld__pass_number(at, &size) || size > room) return false;
    if (size && bytes > room / size) return false;
    tensor->shape[tensor->dimensions++] = (size_t)size;
    bytes *= size;
  }
  if (!voxeld__pass(at, "],\"offset\":") || !voxeld__pass_number(at, &offset) || !voxeld__pass(at, "}")) return false;
  if (offset > room || bytes > room - offset) return false;
  tensor->bytes = (size_t)bytes;
  tensor->data = (char *)cuda->block + cuda->answers + offset;
  return true;
}

// Reads output_region as voxeld writes it, ten times as fast as jansson. Returns the end of the object; NULL if it has
// another form or is not valid.
static char *voxeld__scan_block(const struct voxeld_cuda *cuda, struct voxeld_result *result, char *at) {
  uint64_t unread;
  if (!voxeld__pass(&at, "{\"name\":") || !voxeld__pass_string(&at) || !voxeld__pass(&at, ",\"offset\":") ||
      !voxeld__pass_number(&at, &unread) || !voxeld__pass(&at, ",\"bytes\":") || !voxeld__pass_number(&at, &unread) ||
      !voxeld__pass(&at, ",\"tensors\":"))
    return NULL;
  while (voxeld__pass(&at, result->tensor_count ? "," : "{")) {
    if (result->tensor_count == VOXELD_MAX_TENSORS ||
        !voxeld__pass_tensor(&at, cuda, &result->tensors[result->tensor_count]))
      return NULL;
    result->tensor_count++;
  }
  if (!voxeld__pass(&at, "}}")) return NULL;
  for (size_t i = 0; i < result->tensor_count; i++) *strchr((char *)result->tensors[i].name, '"') = 0;
  return at;
}

// NULL, or what is wrong with the JSON that says what is in the block. Parsing the metadata would take as long as the
// rest of the call, so they are parsed at their first use.
static const char *voxeld__read_in_block(const struct voxeld_cuda *cuda, struct voxeld_result *result) {
  static const char first[] = "{\"output_region\":", second[] = ",\"metadata\":";
  struct voxeld_buffer *buffer = &result->buffer;
  json_error_t read;
  if (!voxeld__reserve(buffer, buffer->size + 1)) return "there is no memory for it";
  char *text = (char *)buffer->bytes, *scanned, *end;
  text[buffer->size] = 0;
  if (strncmp(text, first, sizeof first - 1) != 0) return "it does not say where its tensors are";
  text += sizeof first - 1;
  scanned = voxeld__scan_block(cuda, result, text);
  if (!scanned) {
    result->tensor_count = 0;
    buffer->header = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &read);
    if (!buffer->header) return "it is not JSON";
  }
  text = scanned ? scanned : text + read.position;
  end = strrchr(text, '}');
  if (strncmp(text, second, sizeof second - 1) != 0 || text[sizeof second - 1] != '{' || !end)
    return "it has no metadata";
  *end = 0;  // the brace of the whole object, whose last member are the metadata
  result->metadata = text + sizeof second - 1;
  return scanned ? NULL : voxeld__find_in_block(cuda, result, json_object_get(buffer->header, "tensors"));
}

static bool voxeld__can_send(const struct voxeld_tensor *tensor) {
  const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  size_t length = tensor->name ? strlen(tensor->name) : 0;
  if (length < 1 || length > 63 || strspn(tensor->name, plain) != length) return false;
  if ((size_t)tensor->dtype >= sizeof voxeld__dtypes / sizeof *voxeld__dtypes) return false;
  if (tensor->dimensions < 1 || tensor->dimensions > VOXELD_MAX_DIMENSIONS) return false;
  size_t bytes = voxeld__dtypes[tensor->dtype].bytes;
  for (size_t i = 0; i < tensor->dimensions; i++) {
    if (tensor->shape[i] && bytes > SIZE_MAX / tensor->shape[i]) return false;
    bytes *= tensor->shape[i];
  }
  return bytes == tensor->bytes && (tensor->data || !bytes);
}

// A file that is being written. Bytes beyond `room` are counted, not written.
struct voxeld__file {
  char *bytes;
  size_t room, size;
  bool too_large;
};

static void voxeld__put(struct voxeld__file *file, const void *bytes, size_t count) {
  if (count > SIZE_MAX - file->size) file->too_large = true;
  if (count && !file->too_large && file->size <= file->room && count <= file->room - file->size)
    memcpy(file->bytes + file->size, bytes, count);
  if (!file->too_large) file->size += count;
}

static void voxeld__put_text(struct voxeld__file *file, const char *text) { voxeld__put(file, text, strlen(text)); }

static void voxeld__put_entry(struct voxeld__file *file, const struct voxeld_tensor *tensor, size_t first) {
  char text[160];
  const char *before = file->size > 9 ? "," : "";  // after 8 bytes and a brace
  snprintf(text, sizeof text, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", before, tensor->name,
           voxeld__dtypes[tensor->dtype].name);
  voxeld__put_text(file, text);
  for (size_t i = 0; i < tensor->dimensions; i++) {
    snprintf(text, sizeof text, "%s%zu", i ? "," : "", tensor->shape[i]);
    voxeld__put_text(file, text);
  }
  snprintf(text, sizeof text, "],\"data_offsets\":[%zu,%zu]}", first, first + tensor->bytes);
  voxeld__put_text(file, text);
}

size_t voxeld_pack(const struct voxeld_tensor *tensors, size_t count, void *file, size_t room) {
  struct voxeld__file out = {(char *)file, file ? room : 0, 8, false};
  size_t first = 0;
  for (size_t i = 0; i < count; i++)
    if (!voxeld__can_send(&tensors[i])) return 0;
  voxeld__put_text(&out, "{");
  // The widest type first, so that each tensor begins at a multiple of the size of its values.
  for (size_t width = 8; width; width /= 2) {
    for (size_t i = 0; i < count; i++) {
      if (voxeld__dtypes[tensors[i].dtype].bytes != width) continue;
      voxeld__put_entry(&out, &tensors[i], first);
      first += tensors[i].bytes;
    }
  }
  voxeld__put_text(&out, "}");
  while (out.size % VOXELD__ALIGNMENT) voxeld__put_text(&out, " ");
  uint64_t header = out.size - 8;
  if (out.room >= 8) memcpy(out.bytes, &header, 8);
  for (size_t width = 8; width; width /= 2) {
    for (size_t i = 0; i < count; i++)
      if (voxeld__dtypes[tensors[i].dtype].bytes == width) voxeld__put(&out, tensors[i].data, tensors[i].bytes);
  }
  return out.too_large ? 0 : out.size;
}

// ---- small points ---------------------------------------------------------------------------------------------------

#define VOXELD__MAX_COLUMNS 64

// A column of the rows, and how it is sent.
struct voxeld__column {
  const unsigned char *first;  // its first number
  size_t count, step;          // numbers; bytes from one to the next
  bool integers;               // whether its whole units are int32, not float32
  double unit;                 // 0 = it is sent as it is
};

static float voxeld__float(const struct voxeld__column *column, size_t i) {
  float value;
  memcpy(&value, column->first + i * column->step, sizeof value);
  return value;
}

static uint32_t voxeld__bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Whether integers can stand for all numbers of the column. With `signs`, no integer stands for -0.0.
static bool voxeld__are_integers(const struct voxeld__column *column, bool signs) {
  for (size_t i = 0; i < column->count; i++) {
    float value = voxeld__float(column, i);
    if (!isfinite(value) || (signs && value == 0 && signbit(value))) return false;
  }
  return true;
}

// The nearest whole number of units, as it is sent. False if int32 cannot hold it. A number that is not finite stays.
static bool voxeld__round(const struct voxeld__column *column, float value, double unit, double *whole) {
  double units = (double)value / unit, nearest = units < 0 ? units - 0.5 : units + 0.5;
  bool fits = nearest > -2147483648.0 && nearest < 2147483648.0;
  *whole = (double)value;
  if (!isfinite(value)) return true;
  if (!fits) return false;
  *whole = (double)(int32_t)nearest;
  if (column->integers) return true;
  *whole = *whole == 0 && signbit(value) ? -0.0 : (double)(float)*whole;
  return true;
}

static float voxeld__restored(double whole, double unit) { return (float)(whole * unit); }

static bool voxeld__is_exact(const struct voxeld__column *column, double unit) {
  double whole;
  for (size_t i = 0; i < column->count; i++) {
    float value = voxeld__float(column, i);
    if (column->integers) value += 0.0F;  // -0.0 becomes 0.0
    if (!voxeld__round(column, value, unit, &whole)) return false;
    // A service may change the bits of any NaN but NAN.
    uint32_t restored = isnan(value) ? voxeld__bits(NAN) : voxeld__bits(voxeld__restored(whole, unit));
    if (restored != voxeld__bits(value)) return false;
  }
  return true;
}

// Infinity if a number in this unit does not fit int32, or the restored number float32.
static double voxeld__largest_error(const struct voxeld__column *column, double unit) {
  double largest = 0, whole;
  for (size_t i = 0; i < column->count; i++) {
    float value = voxeld__float(column, i);
    if (!voxeld__round(column, value, unit, &whole)) return (double)INFINITY;
    double error = isfinite(value) ? (double)voxeld__restored(whole, unit) - (double)value : 0;
    if (error < 0) error = -error;
    if (error > largest) largest = error;
  }
  return largest;
}

static bool voxeld__choose(struct voxeld__column *column, double resolution, double *largest_error) {
  static const double units[] = {1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6};
  column->integers = voxeld__are_integers(column, !(resolution > 0));
  for (size_t i = 0; i < sizeof units / sizeof *units && units[i] >= resolution; i++) {
    if (!voxeld__is_exact(column, units[i])) continue;
    column->unit = units[i];
    return true;
  }
  column->integers = column->integers && resolution > 0;
  if (!(resolution > 0)) return true;
  double error = voxeld__largest_error(column, resolution);
  column->unit = resolution;
  if (error > *largest_error) *largest_error = error;
  return isfinite(error);
}

static uint32_t voxeld__sent(const struct voxeld__column *column, float value) {
  double whole;
  if (!(column->unit > 0) || !voxeld__round(column, value, column->unit, &whole)) return voxeld__bits(value);
  return column->integers ? (uint32_t)(int32_t)whole : voxeld__bits((float)whole);
}

static uint32_t voxeld__zigzag(uint32_t difference) { return (difference << 1) ^ (0U - (difference >> 31)); }

// Byte k of row i stands at k * count + i.
static void voxeld__shuffle(uint32_t bits, size_t i, size_t count, unsigned char *planes) {
  for (size_t k = 0; k < 4; k++) planes[k * count + i] = (unsigned char)(bits >> 8 * k);
}

static void voxeld__write_column(const struct voxeld__column *column, bool deltas, unsigned char *planes) {
  uint32_t before = 0;
  for (size_t i = 0; i < column->count; i++) {
    uint32_t bits = voxeld__sent(column, voxeld__float(column, i));
    voxeld__shuffle(deltas ? voxeld__zigzag(bits - before) : bits, i, column->count, planes);
    before = bits;
  }
}

// With the filter direction: x, y and z of the last three rows, the newest first, and which of x and y leads.
struct voxeld__direction {
  int32_t rows[3][3];
  int lead;
};

// The service's guess of a number of the newest row, to the bit. The variables are volatile so that each operation is
// rounded once: a compiler may otherwise fuse a product and a difference, or multiply by a reciprocal.
static int32_t voxeld__guess(const struct voxeld__direction *direction, int column) {
  const int32_t(*rows)[3] = direction->rows;
  const double even = 6755399441055744.0;  // (x + even) - even is x rounded to an integer, ties to even
  volatile double now = rows[0][direction->lead], last = rows[1][direction->lead], older = rows[2][direction->lead];
  if (rows[1][direction->lead] == 0 || rows[2][direction->lead] == 0) return rows[1][column];
  volatile double near = now / last, far = now / older;
  volatile double near_guess = rows[1][column] * near, far_guess = rows[2][column] * far;
  volatile double guess = 2 * near_guess - far_guess;
  if (!(guess > -2147483648.0 && guess < 2147483648.0)) return rows[1][column];
  volatile double above = guess + even;
  double whole = above - even;
  return whole > -2147483648.0 && whole < 2147483648.0 ? (int32_t)whole : rows[1][column];
}

// Moves on to row `i` of the columns x, y and z. `first` is the first row. Writes what the filter makes of the row.
static void voxeld__turn(struct voxeld__direction *direction, const struct voxeld__column *columns, size_t first,
                         size_t i, uint32_t rest[3]) {
  int32_t(*rows)[3] = direction->rows;
  if ((i - first) % 64 == 0) direction->lead = fabs((double)rows[0][0]) < fabs((double)rows[0][1]);
  memmove(rows[1], rows[0], sizeof rows[0] * 2);
  for (int c = 0; c < 3; c++) rows[0][c] = (int32_t)voxeld__sent(&columns[c], voxeld__float(&columns[c], i));
  int order[3] = {direction->lead, 1 - direction->lead, 2};
  for (int k = 0; k < 3; k++) {
    int32_t guess = k ? voxeld__guess(direction, order[k]) : rows[1][order[k]];
    rest[k] = voxeld__zigzag((uint32_t)rows[0][order[k]] - (uint32_t)guess);
  }
}

static int voxeld__length(uint32_t bits) {
  int length = 0;
  for (; bits; bits >>= 1) length++;
  return length;
}

// Whether the filter direction needs fewer bits for a sample of the rows than deltas do.
static bool voxeld__turns(const struct voxeld__column *columns) {
  size_t rows = columns->count < 1024 ? columns->count : 1024, first = (columns->count - rows) / 2;
  struct voxeld__direction direction = {{{0}}, 0};
  int turned = 0, deltas = 0;
  for (size_t i = first; i < first + rows; i++) {
    uint32_t rest[3];
    voxeld__turn(&direction, columns, first, i, rest);
    for (int c = 0; c < 3; c++) {
      turned += voxeld__length(rest[c]);
      deltas += voxeld__length(voxeld__zigzag((uint32_t)direction.rows[0][c] - (uint32_t)direction.rows[1][c]));
    }
  }
  return turned < deltas;
}

static void voxeld__write_turned(const struct voxeld__column *columns, unsigned char *planes) {
  size_t count = columns->count;
  struct voxeld__direction direction = {{{0}}, 0};
  for (size_t i = 0; i < count; i++) {
    uint32_t rest[3];
    voxeld__turn(&direction, columns, 0, i, rest);
    for (size_t c = 0; c < 3; c++) voxeld__shuffle(rest[c], i, count, planes + 4 * c * count);
  }
}

static const char *voxeld__write_planes(const struct voxeld__column *columns, size_t number, bool deltas,
                                        unsigned char *planes) {
#ifdef FLT_EVAL_METHOD  // which C++98 does not have
  bool doubles = FLT_EVAL_METHOD == 0 || FLT_EVAL_METHOD == 1;
#else
  bool doubles = false;  // the guesses may not be those of the service
#endif
  bool turns = deltas && doubles && number >= 3 && voxeld__turns(columns);
  if (turns) voxeld__write_turned(columns, planes);
  for (size_t i = turns ? 3 : 0; i < number; i++)
    voxeld__write_column(&columns[i], deltas, planes + 4 * i * columns[i].count);
  return turns ? "direction,shuffle" : deltas ? "delta,shuffle" : "shuffle";
}

static void voxeld__describe(const char *query, const struct voxeld__column *columns, size_t count, const char *filter,
                             bool scaled, char *text) {
  size_t types = 1;
  while (*query) *text++ = *query++;
  for (size_t i = 1; i < count; i++)
    if (columns[i].integers != columns[0].integers) types = count;
  for (size_t i = 0; i < types; i++) {
    const char *type = columns[i].integers ? "int32" : "float32";
    for (const char *c = i ? "," : "&dtype="; *c;) *text++ = *c++;
    while (*type) *text++ = *type++;
  }
  for (const char *c = "&filter="; *c;) *text++ = *c++;
  while (*filter) *text++ = *filter++;
  *text = 0;
  for (size_t i = 0; scaled && i < count; i++)
    text = voxeld__number(text, i ? "," : "&scale=", columns[i].unit > 0 ? columns[i].unit : 1.0);
}

// The value is still URL-encoded; NULL if the query does not have the parameter.
static const char *voxeld__value_of(const char *query, const char *name) {
  size_t length = strlen(name);
  for (; query; query = strchr(query, '&')) {
    if (*query == '&') query++;
    if (strncmp(query, name, length) == 0 && query[length] == '=') return query + length + 1;
  }
  return NULL;
}

// Decodes a value of the query; NULL gives "". Cuts a text longer than `room`, which the service refuses.
static void voxeld__decode(const char *value, char *text, size_t room) {
  for (; value && *value && *value != '&' && room > 1; room--, text++, value++) {
    *text = *value;
    if (*value == '+') *text = ' ';
    if (*value != '%' || !value[1] || !value[2]) continue;
    const char digits[3] = {value[1], value[2], 0};
    *text = (char)strtoul(digits, NULL, 16);
    value += 2;
  }
  *text = 0;
}

// 0 if the query has no num_features, or too many.
static size_t voxeld__columns_of(const char *query) {
  const char *value = voxeld__value_of(query, "num_features");
  unsigned long columns = value ? strtoul(value, NULL, 10) : 0;
  return columns > VOXELD__MAX_COLUMNS ? 0 : (size_t)columns;
}

// *times is the column of times; VOXELD__MAX_COLUMNS if the query has no time_field. False if `fields` lacks the name.
static bool voxeld__find_times(const char *query, size_t *times) {
  char name[64], fields[256];  // the longest that the service takes
  const char *value = voxeld__value_of(query, "time_field");
  *times = VOXELD__MAX_COLUMNS;
  if (!value) return true;
  voxeld__decode(value, name, sizeof name);
  voxeld__decode(voxeld__value_of(query, "fields"), fields, sizeof fields);
  const char *at = fields;
  for (*times = 0; strncmp(at, name, strlen(name)) != 0 || strcspn(at, ",") != strlen(name); (*times)++) {
    at = strchr(at, ',');
    if (!at) return false;
    at++;
    at += strspn(at, " ");  // the service drops spaces after a comma
  }
  return true;
}

// Returns the place of the planes; NULL if there is no memory.
static unsigned char *voxeld__make_room(struct voxeld_packed *packed, size_t bytes, size_t query) {
  if (bytes > SIZE_MAX / 4) return NULL;
  size_t body = (size_t)compressBound((uLong)bytes), room = body + bytes + query;
  if (room > packed->room) {
    free(packed->block);
    packed->block = malloc(room);
    packed->room = packed->block ? room : 0;
  }
  if (!packed->block) return NULL;
  packed->body = (unsigned char *)packed->block;
  packed->query = (char *)packed->body + body + bytes;
  return packed->body + body;
}

static bool voxeld__deflate(struct voxeld_packed *packed, const unsigned char *planes, size_t bytes) {
  uLongf size = compressBound((uLong)bytes);
  if (compress2(packed->body, &size, planes, (uLong)bytes, 1) != Z_OK) return false;
  packed->bytes = (size_t)size;
  return true;
}

#ifdef __GNUC__
__attribute__((format(printf, 2, 3)))
#endif
static bool
voxeld__cannot_pack(struct voxeld_packed *packed, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(packed->error, sizeof packed->error, format, arguments);
  va_end(arguments);
  return false;
}

// Packing appends these parameters, and the service takes each only once.
static bool voxeld__can_pack(const char *query, struct voxeld_packed *packed) {
  static const char *const ours[] = {"dtype", "scale", "filter"};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (voxeld__value_of(query, ours[i]))
      return voxeld__cannot_pack(packed, "the query has %s, but packing chooses it", ours[i]);
  if (voxeld__columns_of(query)) return true;
  return voxeld__cannot_pack(packed, "the query needs num_features, from 1 to %d", VOXELD__MAX_COLUMNS);
}

bool voxeld_pack_points(const char *query, const void *rows, size_t bytes, double resolution,
                        struct voxeld_packed *packed) {
  struct voxeld__column columns[VOXELD__MAX_COLUMNS];
  size_t count = voxeld__columns_of(query), times;
  bool deltas = true, scaled = false;
  packed->largest_error = 0;
  packed->bytes = 0;
  *packed->error = 0;
  if (!voxeld__can_pack(query, packed)) return false;
  if (bytes % (count * 4) || (bytes && !rows)) return voxeld__cannot_pack(packed, "these are not rows of float32");
  if (!(resolution >= 0) || !isfinite(resolution))
    return voxeld__cannot_pack(packed, "the resolution is not a number from 0 on");
  if (!voxeld__find_times(query, &times) && !(resolution > 0))
    return voxeld__cannot_pack(packed, "the query has time_field, but its fields do not have this name");
  unsigned char *planes = voxeld__make_room(packed, bytes, strlen(query) + 64 * (count + 1));
  if (!planes) return voxeld__cannot_pack(packed, "out of memory");
  for (size_t i = 0; i < count; i++) {
    const unsigned char *first = bytes ? (const unsigned char *)rows + 4 * i : NULL;
    struct voxeld__column column = {first, bytes / (count * 4), count * 4, false, 0};
    bool stays = i == times && !(resolution > 0);
    if (!stays && !voxeld__choose(&column, resolution, &packed->largest_error))
      return voxeld__cannot_pack(packed, "column %zu has a number that int32 cannot hold in units of %g", i,
                                 resolution);
    deltas = deltas && column.integers;
    scaled = scaled || column.unit > 0;
    columns[i] = column;
  }
  // The service takes differences of integers only.
  const char *filter = voxeld__write_planes(columns, count, deltas, planes);
  voxeld__describe(query, columns, count, filter, scaled, packed->query);
  return voxeld__deflate(packed, planes, bytes) || voxeld__cannot_pack(packed, "out of memory");
}

void voxeld_packed_free(struct voxeld_packed *packed) {
  free(packed->block);
  memset(packed, 0, sizeof *packed);
}

// ---- the problem ----------------------------------------------------------------------------------------------------

// Cuts a text that is too long for the room, but not within a character of UTF-8.
static void voxeld__copy(char *to, size_t room, const char *text) {
  size_t end = text ? strlen(text) : 0;
  if (end >= room)
    for (end = room - 1; end && ((unsigned char)text[end] & 0xc0) == 0x80;) end--;
  if (end) memcpy(to, text, end);
  to[end] = 0;
}

// Retry-After as seconds from now. A date is compared with the answer's Date or, without one, with the local clock. -1
// if the text is neither a number nor a date.
static double voxeld__retry_after(const char *text, const char *date) {
  size_t digits = strspn(text, "0123456789");
  if (digits && !text[digits]) return strtod(text, NULL);
  time_t then = curl_getdate(text, NULL), sent = curl_getdate(date, NULL);
  if (then == -1) return -1;
  double left = difftime(then, sent == -1 ? time(NULL) : sent);
  return left > 0 ? left : 0;
}

static enum voxeld_status voxeld__read_problem(struct voxeld_client *client, struct voxeld_result *result,
                                               long status) {
  struct voxeld_problem *problem = &result->problem;
  double retry_after = voxeld__retry_after(client->retry_after, client->date);
  const char *media_type = NULL;
  curl_easy_getinfo(client->transfer, CURLINFO_CONTENT_TYPE, &media_type);
  bool described = media_type && (strncmp(media_type, "application/problem+json", 24) == 0 ||
                                  strncmp(media_type, "application/json", 16) == 0);  // under /v2
  json_t *document = described ? json_loadb((const char *)result->buffer.bytes, result->buffer.size, 0, NULL) : NULL;
  const char *type = json_string_value(json_object_get(document, "type"));
  size_t prefix = strlen(VOXELD__URN);
  problem->status = (int)status;
  problem->retry_after_s = retry_after > 0 ? retry_after : 0;
  // A load balancer's 502 or 504 is temporary if it has Retry-After. If the job's deadline has passed, voxeld sends 504
  // without Retry-After.
  bool told = (status == 502 || status == 504) && retry_after >= 0;
  result->temporary = status == 429 || status == 503 || told;
  voxeld__copy(problem->kind, sizeof problem->kind,
               type && strncmp(type, VOXELD__URN, prefix) == 0 ? type + prefix : "");
  voxeld__copy(problem->title, sizeof problem->title, json_string_value(json_object_get(document, "title")));
  voxeld__copy(problem->detail, sizeof problem->detail, json_string_value(json_object_get(document, "detail")));
  voxeld__copy(problem->parameter, sizeof problem->parameter,
               json_string_value(json_object_get(document, "parameter")));
  json_decref(document);
  return voxeld__fail(result, VOXELD_REFUSED, "%ld %s: %s", status, *problem->kind ? problem->kind : "without a reason",
                      problem->detail);
}

// ---- libcurl's callbacks --------------------------------------------------------------------------------------------

static size_t voxeld__receive(char *data, size_t one, size_t size, void *context) {
  struct voxeld_client *client = (struct voxeld_client *)context;
  struct voxeld_buffer *buffer = &client->result->buffer;
  (void)one;
  if (size > client->max_answer_bytes - buffer->size) return 0;
  if (size > buffer->room - buffer->size) {
    curl_off_t told = -1;
    curl_easy_getinfo(client->transfer, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &told);
    size_t room = (buffer->size + size) * 2;  // for an answer without a Content-Length
    if (told >= 0 && (size_t)told >= buffer->size + size) room = (size_t)told;
    client->no_memory = !voxeld__reserve(buffer, room);
    if (client->no_memory) return 0;
  }
  memcpy(buffer->bytes + buffer->size, data, size);
  buffer->size += size;
  return size;
}

// Copies the value, cut to the room. False if the line is not the header of this name.
static bool voxeld__take_header(const char *line, size_t size, const char *name, char *value, size_t room) {
  size_t at = strlen(name), used = 0;
  if (size < at || strncasecmp(line, name, at) != 0) return false;
  while (at < size && (line[at] == ' ' || line[at] == '\t')) at++;
  while (size > at && (unsigned char)line[size - 1] <= ' ') size--;
  for (; at < size && line[at] >= ' ' && used < room - 1; at++) value[used++] = line[at];
  value[used] = 0;
  return true;
}

// Forgets what an earlier answer said, such as a 103, and checks the status line. libcurl would wait for the end of a
// 101 and of an answer of HTTP/2.
static void voxeld__begin_head(struct voxeld_client *client, const char *line, size_t size) {
  const char *status = (const char *)memchr(line, ' ', size);
  client->in_head = true;
  client->result->request_id[0] = client->retry_after[0] = client->date[0] = client->length[0] = 0;
  if (status && line + size - status > 4 && strncmp(status, " 101", 4) == 0)
    client->wrong = "the answer changes the protocol";
  if (size < 7 || strncmp(line, "HTTP/1.", 7) != 0) client->wrong = "the answer is not one of HTTP/1";
}

// Checks Content-Length. libcurl reads only the last such header, and only the digits at its beginning.
static void voxeld__take_length(struct voxeld_client *client, const char *line, size_t size) {
  char length[sizeof client->length];
  if (!voxeld__take_header(line, size, "Content-Length:", length, sizeof length)) return;
  bool number = *length && !length[strspn(length, "0123456789")];
  if (!number || (*client->length && strcmp(client->length, length) != 0))
    client->wrong = "the length of the answer is not one number";
  memcpy(client->length, length, sizeof length);
}

static size_t voxeld__header(char *line, size_t one, size_t size, void *context) {
  struct voxeld_client *client = (struct voxeld_client *)context;
  char *id = client->result->request_id;
  (void)one;
  client->head_bytes += size;
  if (client->head_bytes > VOXELD__MAX_HEAD) client->wrong = "the answer has too many headers";
  if (!client->in_head && size > 5 && strncmp(line, "HTTP/", 5) == 0) voxeld__begin_head(client, line, size);
  if (!client->in_head) return client->wrong ? 0 : size;  // a trailer
  voxeld__take_header(line, size, "X-Request-Id:", id, sizeof client->result->request_id);
  voxeld__take_header(line, size, "Retry-After:", client->retry_after, sizeof client->retry_after);
  voxeld__take_header(line, size, "Date:", client->date, sizeof client->date);
  voxeld__take_length(client, line, size);
  client->in_head = size && *line != '\r' && *line != '\n';
  return client->wrong ? 0 : size;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

// Uses a new handle: with a reused one, libcurl 7.83 to 8.0 may write into freed headers.
static CURLcode voxeld__transfer(struct voxeld_client *client) {
  curl_easy_cleanup(client->transfer);
  client->transfer = curl_easy_duphandle(client->curl);
  if (!client->transfer || curl_multi_add_handle(client->connections, client->transfer) != CURLM_OK)
    return CURLE_OUT_OF_MEMORY;
  CURLcode code = CURLE_OK;
  CURLMcode state = CURLM_OK;
  int running = 1, left;
  while (running && state == CURLM_OK && !voxeld__stopped(client)) {
    state = curl_multi_perform(client->connections, &running);
    if (running && state == CURLM_OK) state = curl_multi_poll(client->connections, NULL, 0, 100, NULL);
  }
  const CURLMsg *message = running ? NULL : curl_multi_info_read(client->connections, &left);
  if (message) code = message->data.result;
  if (running) code = state == CURLM_OK ? CURLE_ABORTED_BY_CALLBACK : CURLE_OUT_OF_MEMORY;
  curl_multi_remove_handle(client->connections, client->transfer);
  return code;
}

static void voxeld__begin(struct voxeld_client *client) {
  voxeld__forget(client->result);
  client->no_memory = client->in_head = false;
  client->head_bytes = 0;
  client->wrong = NULL;
  client->curl_error[0] = client->retry_after[0] = client->date[0] = client->length[0] = 0;
}

// ---- the direct connection ------------------------------------------------------------------------------------------
//
// If rows and answer are in GPU memory, the service may need less time for a call than libcurl. Such a call has no
// body, so the client writes the request and reads the answer itself, on a connection that libcurl has opened. If the
// service has closed that connection, or answers with anything but a plain 200, libcurl makes the call again.

static void voxeld__disconnect(struct voxeld_client *client) {
  curl_easy_cleanup(client->direct);
  client->direct = NULL;
}

static bool voxeld__connect(struct voxeld_client *client) {
  const struct timeval look = {0, 100000};  // how often the client looks whether it was stopped
  client->direct = curl_easy_duphandle(client->curl);
  bool open = client->direct && curl_easy_setopt(client->direct, CURLOPT_URL, client->base) == CURLE_OK &&
              curl_easy_setopt(client->direct, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK &&
              curl_easy_perform(client->direct) == CURLE_OK &&
              curl_easy_getinfo(client->direct, CURLINFO_ACTIVESOCKET, &client->socket) == CURLE_OK &&
              fcntl(client->socket, F_SETFL, fcntl(client->socket, F_GETFL) & ~O_NONBLOCK) == 0 &&
              setsockopt(client->socket, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look) == 0;
  if (!open) voxeld__disconnect(client);
  return open;
}

// False if the socket does not take it at once.
static bool voxeld__send_head(struct voxeld_client *client) {
  char head[VOXELD__DIRECT_HEAD];
  const char *host = client->base + strlen("http://"), *target = client->url + strlen("http://");
  target += strcspn(target, "/");
  size_t used = (size_t)snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: %.*s\r\nContent-Length: 0\r\n", target,
                                 (int)strcspn(host, "/"), host);
  for (const struct curl_slist *line = client->headers; line; line = line->next)
    if (used < sizeof head && line->data[strlen(line->data) - 1] != ':')  // such a line removes a header of libcurl
      used += (size_t)snprintf(head + used, sizeof head - used, "%s\r\n", line->data);
  if (used < sizeof head) used += (size_t)snprintf(head + used, sizeof head - used, "\r\n");
  return used < sizeof head && send(client->socket, head, used, MSG_NOSIGNAL) == (ssize_t)used;
}

// Returns the length of the body; -1: the head is not plain.
static long voxeld__read_head(struct voxeld_client *client, char *head, size_t size) {
  if (strncmp(head, "HTTP/1.1 200 ", 13) != 0) return -1;
  for (char *line = head, *next; line < head + size; line = next) {
    next = strchr(line, '\n') + 1;
    bool odd = strncasecmp(line, "Transfer-Encoding:", 18) == 0 || strncasecmp(line, "Connection:", 11) == 0;
    if (odd || !voxeld__header(line, 1, (size_t)(next - line), client)) return -1;
  }
  return *client->length && strlen(client->length) < 10 ? strtol(client->length, NULL, 10) : -1;
}

// Receives more of the answer, after the first `got` bytes. Returns the number of bytes; 0 at the end of the
// connection; -1 with *code set. Does not sleep in the first VOXELD__SPIN_S: waking takes a tenth of the time of a
// call.
static ssize_t voxeld__read_more(struct voxeld_client *client, size_t got, double until, CURLcode *code) {
  double spin = voxeld__now() + VOXELD__SPIN_S;
  for (;;) {
    char *room = (char *)client->result->buffer.bytes + got;
    bool spins = voxeld__now() < spin;
    ssize_t more = recv(client->socket, room, VOXELD__DIRECT_ANSWER - 1 - got, spins ? MSG_DONTWAIT : 0);
    if (more >= 0) return more;
    if (spins && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      sched_yield();
      continue;
    }
    *code = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? CURLE_OPERATION_TIMEDOUT : CURLE_RECV_ERROR;
    if (voxeld__stopped(client)) *code = CURLE_ABORTED_BY_CALLBACK;
    if (*code != CURLE_OPERATION_TIMEDOUT || voxeld__now() >= until) return -1;
  }
}

// Reads the answer into the buffer. CURLE_AGAIN: there is no answer, or it is not plain.
static CURLcode voxeld__read_answer(struct voxeld_client *client, double until) {
  struct voxeld_buffer *buffer = &client->result->buffer;
  CURLcode code = CURLE_OK;
  size_t got = 0, head = 0, whole = 0;
  if (!voxeld__reserve(buffer, VOXELD__DIRECT_ANSWER)) return CURLE_OUT_OF_MEMORY;
  char *text = (char *)buffer->bytes;
  while (!whole || got < whole) {
    ssize_t more = voxeld__read_more(client, got, until, &code);
    if (more <= 0 && !got && code != CURLE_OPERATION_TIMEDOUT && code != CURLE_ABORTED_BY_CALLBACK) return CURLE_AGAIN;
    if (more <= 0) return more == 0 ? CURLE_PARTIAL_FILE : code;
    got += (size_t)more;
    text[got] = 0;
    const char *end = whole ? NULL : strstr(text, "\r\n\r\n");
    if (!end && !whole && got == VOXELD__DIRECT_ANSWER - 1) return CURLE_AGAIN;
    if (!end) continue;
    head = (size_t)(end + 4 - text);
    long body = voxeld__read_head(client, text, head);
    if (body < 0 || (size_t)body > client->max_answer_bytes) return CURLE_AGAIN;
    whole = head + (size_t)body;
    if (whole >= VOXELD__DIRECT_ANSWER) return CURLE_AGAIN;
  }
  if (got > whole) return CURLE_AGAIN;
  buffer->size = whole - head;
  memmove(text, text + head, buffer->size);
  return CURLE_OK;
}

// False: libcurl must make the call. A call with `latest` is never repeated, so libcurl makes it.
static bool voxeld__exchange(struct voxeld_client *client, double until, CURLcode *code) {
  char byte;
  double patience = voxeld__now() + client->timeout_s;
  if (client->answer != VOXELD__IN_BLOCK || !client->bodiless || strncmp(client->base, "http://", 7) != 0 ||
      voxeld__value_of(client->query, "latest") || (!client->direct && !voxeld__connect(client)))
    return false;
  bool quiet = recv(client->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  bool sent = quiet && voxeld__send_head(client);
  *code = sent ? voxeld__read_answer(client, patience < until ? patience : until) : CURLE_AGAIN;
  if (*code == CURLE_OK) return true;
  voxeld__disconnect(client);
  voxeld__begin(client);
  return *code != CURLE_AGAIN;
}

// ---- attempts -------------------------------------------------------------------------------------------------------

static CURLcode voxeld__transfer_until(struct voxeld_client *client, double until) {
  double left = until - voxeld__now();
  curl_easy_setopt(client->curl, CURLOPT_TIMEOUT_MS, left > 0.001 ? (long)(left * 1000) : 1L);
  return voxeld__transfer(client);
}

static enum voxeld_status voxeld__attempt(struct voxeld_client *client, struct voxeld_result *result, double until) {
  voxeld__begin(client);
  CURLcode code = CURLE_OK;
  bool direct = voxeld__exchange(client, until, &code);
  if (!direct) code = voxeld__transfer_until(client, until);
  long status = 0;
  if (code == CURLE_OK && client->in_head) code = CURLE_GOT_NOTHING;  // the connection ended within the headers
  if (client->transfer && !direct) curl_easy_getinfo(client->transfer, CURLINFO_RESPONSE_CODE, &status);
  const char *reason = *client->curl_error ? client->curl_error : curl_easy_strerror(code);
  // A refusal that came during the upload counts even if the connection broke after it.
  if (status >= 300 && (code == CURLE_OK || code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR))
    return voxeld__read_problem(client, result, status);
  switch (code) {
    case CURLE_OK: break;
    case CURLE_ABORTED_BY_CALLBACK: return voxeld__fail(result, VOXELD_STOPPED, "stopped");
    case CURLE_OUT_OF_MEMORY: return voxeld__fail(result, VOXELD_FAILED, "out of memory");
    case CURLE_URL_MALFORMAT: return voxeld__fail(result, VOXELD_FAILED, "%s: %s", reason, client->url);
    case CURLE_NOT_BUILT_IN:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION: return voxeld__fail(result, VOXELD_FAILED, "%s", reason);
    case CURLE_WRITE_ERROR:
    case CURLE_FILESIZE_EXCEEDED:
      if (client->wrong) return voxeld__fail(result, VOXELD_BAD_ANSWER, "%s", client->wrong);
      if (client->no_memory) return voxeld__fail(result, VOXELD_FAILED, "out of memory");
      return voxeld__fail(result, VOXELD_BAD_ANSWER, "the answer has more than %zu bytes", client->max_answer_bytes);
    case CURLE_UNSUPPORTED_PROTOCOL:  // an answer without a status line, as in HTTP/0.9
    case CURLE_WEIRD_SERVER_REPLY: return voxeld__fail(result, VOXELD_BAD_ANSWER, "%s", reason);
    default: result->temporary = true; return voxeld__fail(result, VOXELD_NO_ANSWER, "%s", reason);
  }
  if (client->answer == VOXELD__NO_BODY) return VOXELD_OK;
  bool in_block = client->answer == VOXELD__IN_BLOCK;
  const char *wrong = in_block ? voxeld__read_in_block(&client->cuda, result) : voxeld__read_tensors(result);
  if (!wrong) return VOXELD_OK;
  result->tensor_count = 0;
  return voxeld__fail(result, VOXELD_BAD_ANSWER, "the answer is not %s: %s",
                      in_block ? "valid" : "a valid safetensors file", wrong);
}

static double voxeld__pause(struct voxeld_client *client, const struct voxeld_result *result) {
  double backoff = client->backoff_s;
  for (int i = 1; i < result->attempts && backoff < VOXELD__MAX_BACKOFF_S; i++) backoff *= 2;
  if (backoff > VOXELD__MAX_BACKOFF_S) backoff = VOXELD__MAX_BACKOFF_S;
  client->random ^= client->random << 13;
  client->random ^= client->random >> 7;
  client->random ^= client->random << 17;
  return result->problem.retry_after_s + backoff * (1 - (double)(client->random >> 11) / 18014398509481984.0);
}

// False once stopped.
static bool voxeld__sleep(const struct voxeld_client *client, double until) {
  double left;
  while (!voxeld__stopped(client) && (left = until - voxeld__now()) > 0)
    poll(NULL, 0, left < 0.1 ? (int)(left * 1000) + 1 : 100);
  return !voxeld__stopped(client);
}

// NULL, or what is wrong with the arguments. libcurl would not notice these faults, or would misread the query.
static const char *voxeld__misuse(const char *query, const void *rows, size_t bytes) {
  if (bytes && !rows) return "there are no rows";
  for (const char *c = query; *c; c++)
    if (*c <= ' ' || *c > '~' || *c == '#') return "the query has a character that must be percent-encoded";
  return NULL;
}

static bool voxeld__make_url(struct voxeld_client *client, const char *path, const char *query) {
  size_t room = strlen(client->base) + strlen(path) + strlen(query) + 2;
  if (room > client->url_room) {
    char *url = (char *)realloc(client->url, room);
    if (!url) return false;
    client->url = url;
    client->url_room = room;
  }
  snprintf(client->url, room, "%s%s?%s", client->base, path, query);
  return curl_easy_setopt(client->curl, CURLOPT_URL, client->url) == CURLE_OK;
}

static enum voxeld_status voxeld__ask(struct voxeld_client *client, const char *method, const char *path,
                                      const char *query, struct voxeld_result *result) {
  double until = voxeld__now() + client->deadline_s;
  client->result = result;
  voxeld__forget(result);
  if (!voxeld__make_url(client, path, query))
    return voxeld__fail(result, VOXELD_FAILED, "no memory for the query, or it is too long");
  client->method = method;
  curl_easy_setopt(client->curl, CURLOPT_CUSTOMREQUEST, method);
  for (int attempts = 1;; attempts++) {
    enum voxeld_status status = voxeld__attempt(client, result, until);
    result->attempts = attempts;
    if (!result->temporary || attempts > client->retries || voxeld__value_of(query, "latest")) return status;
    double next = voxeld__now() + voxeld__pause(client, result);
    if (next >= until) return status;
    if (!voxeld__sleep(client, next)) return voxeld__fail(result, VOXELD_STOPPED, "stopped");
  }
}

static enum voxeld_status voxeld__post(struct voxeld_client *client, const char *path, const char *query,
                                       const void *rows, size_t bytes, enum voxeld__answer answer,
                                       struct voxeld_result *result) {
  client->answer = answer;
  client->bodiless = bytes == 0;
  curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)bytes);
  curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, bytes ? (const char *)rows : "");
  return voxeld__ask(client, "POST", path, query, result);
}

static void voxeld__write_base64(const unsigned char *bytes, size_t size, char *text) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    uint32_t word = (uint32_t)bytes[i] << 16;
    if (i + 1 < size) word |= (uint32_t)bytes[i + 1] << 8;
    if (i + 2 < size) word |= bytes[i + 2];
    for (size_t digit = 0; digit < 4; digit++)
      *text++ = (char)(i + digit > size ? '=' : digits[word >> (18 - 6 * digit) & 63]);
  }
  *text = 0;
}

static enum voxeld_status voxeld__unregister(struct voxeld_client *client, struct voxeld_result *result) {
  char path[96];
  snprintf(path, sizeof path, "/v2/cudasharedmemory/region/%s/unregister", client->region);
  return voxeld__post(client, path, "", NULL, 0, VOXELD__NO_BODY, result);
}

// Unregisters the block first: the service may know it from a call without an answer, and may still write to it.
static enum voxeld_status voxeld__register(struct voxeld_client *client, struct voxeld_result *result) {
  char path[96], handle[89], terms[200];
  enum voxeld_status status = voxeld__unregister(client, result);
  if (status != VOXELD_OK) return status;
  snprintf(path, sizeof path, "/v2/cudasharedmemory/region/%s/register", client->region);
  voxeld__write_base64(client->cuda.handle, sizeof client->cuda.handle, handle);
  int length = snprintf(terms, sizeof terms, "{\"raw_handle\":{\"b64\":\"%s\"},\"device_id\":%d,\"byte_size\":%zu}",
                        handle, client->cuda.device, client->cuda.bytes);
  status = voxeld__post(client, path, "", terms, (size_t)length, VOXELD__NO_BODY, result);
  client->registered = status == VOXELD_OK;
  return status;
}

static bool voxeld__is_in_block(const struct voxeld_cuda *cuda, const void *rows, size_t bytes, size_t *offset) {
  uintptr_t begin = (uintptr_t)cuda->block, at = (uintptr_t)rows;
  *offset = at - begin;
  return bytes && at >= begin && *offset < cuda->bytes;
}

// If the service no longer knows the region, registers it once more.
static enum voxeld_status voxeld__call_in_block(struct voxeld_client *client, const char *path, const char *query,
                                                const void *rows, size_t bytes, struct voxeld_result *result) {
  const struct voxeld_cuda *cuda = &client->cuda;
  size_t room = strlen(query) + 256, offset, used;
  bool inside = voxeld__is_in_block(cuda, rows, bytes, &offset);
  if (inside && bytes > cuda->bytes - offset)
    return voxeld__fail(result, VOXELD_FAILED, "the rows go past the end of the block");
  if (room > client->query_room) {
    char *text = (char *)realloc(client->query, room);
    if (!text) return voxeld__fail(result, VOXELD_FAILED, "out of memory");
    client->query = text;
    client->query_room = room;
  }
  used = (size_t)snprintf(client->query, room, "%s%soutput_region=%s,%zu,%zu", query, *query ? "&" : "", client->region,
                          cuda->answers, cuda->bytes - cuda->answers);
  if (inside) snprintf(client->query + used, room - used, "&points_region=%s,%zu,%zu", client->region, offset, bytes);
  for (int attempt = 0;; attempt++) {
    enum voxeld_status status = client->registered ? VOXELD_OK : voxeld__register(client, result);
    if (status != VOXELD_OK) return status;
    status = voxeld__post(client, path, client->query, rows, inside ? 0 : bytes, VOXELD__IN_BLOCK, result);
    const char *parameter = result->problem.parameter;
    bool lost = status == VOXELD_REFUSED && strcmp(result->problem.kind, "bad-parameter") == 0 &&
                (strcmp(parameter, "output_region") == 0 || strcmp(parameter, "points_region") == 0);
    if (lost || status != VOXELD_REFUSED) client->registered = status == VOXELD_OK;
    if (!lost || attempt) return status;
  }
}

static enum voxeld_status voxeld__call(struct voxeld_client *client, const char *path, const char *query,
                                       const void *rows, size_t bytes, struct voxeld_result *result) {
  const char *misuse = voxeld__misuse(query, rows, bytes);
  voxeld__forget(result);
  if (misuse) return voxeld__fail(result, VOXELD_FAILED, "%s", misuse);
  if (client->cuda.block) return voxeld__call_in_block(client, path, query, rows, bytes, result);
  return voxeld__post(client, path, query, rows, bytes, VOXELD__FILE, result);
}

static enum voxeld_status voxeld__ask_stream(struct voxeld_client *client, const char *method, const char *stream,
                                             const char *rest, struct voxeld_result *result) {
  const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  size_t length = strlen(stream);
  char path[96];
  voxeld__forget(result);
  if (length < 1 || length > 63 || strspn(stream, plain) != length)
    return voxeld__fail(result, VOXELD_FAILED, "a stream cannot have this name");
  snprintf(path, sizeof path, "/v1/streams/%s%s", stream, rest);
  client->answer = strcmp(method, VOXELD__DELETE) == 0 ? VOXELD__NO_BODY : VOXELD__FILE;
  curl_easy_setopt(client->curl, CURLOPT_HTTPGET, 1L);  // without a body
  return voxeld__ask(client, method, path, "", result);
}

enum voxeld_status voxeld_last(struct voxeld_client *client, const char *stream, struct voxeld_result *result) {
  return voxeld__ask_stream(client, "GET", stream, "/last", result);
}

enum voxeld_status voxeld_delete_stream(struct voxeld_client *client, const char *stream,
                                        struct voxeld_result *result) {
  return voxeld__ask_stream(client, VOXELD__DELETE, stream, "", result);
}

enum voxeld_status voxeld_voxelize(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                   struct voxeld_result *result) {
  return voxeld__call(client, "/v1/voxelize", query, rows, bytes, result);
}

enum voxeld_status voxeld_fps(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                              struct voxeld_result *result) {
  return voxeld__call(client, "/v1/fps", query, rows, bytes, result);
}

enum voxeld_status voxeld_points(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                 struct voxeld_result *result) {
  return voxeld__call(client, "/v1/points", query, rows, bytes, result);
}

enum voxeld_status voxeld_serialize(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                    struct voxeld_result *result) {
  return voxeld__call(client, "/v1/serialize", query, rows, bytes, result);
}

enum voxeld_status voxeld_transform(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                    struct voxeld_result *result) {
  return voxeld__call(client, "/v1/transform", query, rows, bytes, result);
}

enum voxeld_status voxeld_detect(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                 struct voxeld_result *result) {
  return voxeld__call(client, "/v1/detect", query, rows, bytes, result);
}

enum voxeld_status voxeld_backbone(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                   struct voxeld_result *result) {
  return voxeld__call(client, "/v1/backbone", query, rows, bytes, result);
}

enum voxeld_status voxeld_range_image(struct voxeld_client *client, const char *query, const void *rows, size_t bytes,
                                      struct voxeld_result *result) {
  return voxeld__call(client, "/v1/range_image", query, rows, bytes, result);
}

enum voxeld_status voxeld_nms(struct voxeld_client *client, const char *query, const void *file, size_t bytes,
                              struct voxeld_result *result) {
  return voxeld__call(client, "/v1/nms", query, file, bytes, result);
}

enum voxeld_status voxeld_decode(struct voxeld_client *client, const char *query, const void *file, size_t bytes,
                                 struct voxeld_result *result) {
  return voxeld__call(client, "/v1/decode", query, file, bytes, result);
}

// ---- the client -----------------------------------------------------------------------------------------------------

struct voxeld_options voxeld_defaults(const char *url) {
  struct voxeld_options options;
  memset(&options, 0, sizeof options);
  options.url = url;
  options.timeout_s = 60;
  options.deadline_s = 120;
  options.retries = 5;
  options.backoff_s = 0.2;
  options.max_answer_bytes = (size_t)1 << 30;
  return options;
}

static bool voxeld__add_header(struct voxeld_client *client, const char *line) {
  struct curl_slist *headers = curl_slist_append(client->headers, line);
  if (headers) client->headers = headers;
  return headers != NULL;
}

// `name` has its colon.
static bool voxeld__add_value(struct voxeld_client *client, const char *name, const char *value) {
  size_t room = strlen(name) + strlen(value) + 1;
  for (const char *c = value; *c; c++)
    if (*c <= ' ' || *c > '~') return false;  // a control character could end the header line
  char *line = (char *)malloc(room);
  if (!line) return false;
  snprintf(line, room, "%s%s", name, value);
  bool added = voxeld__add_header(client, line);
  free(line);
  return added;
}

// http or https with a host, without a user, a query or a fragment.
static bool voxeld__is_address(const char *url) {
  const char *host = strstr(url, "://");
  bool known = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
  if (!known || !host[3] || strchr("/:", host[3])) return false;
  return !host[3 + strcspn(host + 3, "?# @")];
}

static bool voxeld__set_url(struct voxeld_client *client, const char *url) {
  bool local = strncmp(url, "unix:", 5) == 0;
  if (local ? !url[5] : !voxeld__is_address(url)) return false;
  if (local && curl_easy_setopt(client->curl, CURLOPT_UNIX_SOCKET_PATH, url + 5) != CURLE_OK) return false;
  const char *base = local ? "http://localhost" : url;
  size_t length = strlen(base);
  while (length && base[length - 1] == '/') length--;
  client->base = (char *)malloc(length + 1);
  if (!client->base) return false;
  memcpy(client->base, base, length);
  client->base[length] = 0;
  return true;
}

static bool voxeld__is_block(const struct voxeld_cuda *cuda) {
  return cuda->block && cuda->answers < cuda->bytes && cuda->answers % VOXELD__ALIGNMENT == 0;
}

static bool voxeld__are_sound(const struct voxeld_options *options) {
  const double most = 1e6;
  if (options->cuda && (options->encoding || !voxeld__is_block(options->cuda))) return false;
  return options->url && options->timeout_s > 0 && options->timeout_s <= most && options->deadline_s > 0 &&
         options->deadline_s <= most && options->backoff_s >= 0 && options->backoff_s <= most &&
         options->retries >= 0 && options->max_answer_bytes > 0;
}

static bool voxeld__set_up(struct voxeld_client *client, const struct voxeld_options *options) {
  CURL *curl = client->curl;
  client->timeout_s = options->timeout_s;
  client->deadline_s = options->deadline_s;
  client->backoff_s = options->backoff_s;
  client->retries = options->retries;
  client->max_answer_bytes = options->max_answer_bytes;
  client->stop = options->stop;
  client->random = ((uint64_t)(uintptr_t)client ^ (uint64_t)(voxeld__now() * 1e9)) | 1;
  if (options->cuda) client->cuda = *options->cuda;
  snprintf(client->region, sizeof client->region, "c-%ld-%016llx", (long)getpid(), (unsigned long long)client->random);
  if (!voxeld__set_url(client, options->url) ||
      (options->token && !voxeld__add_value(client, "Authorization: Bearer ", options->token)) ||
      (options->encoding && !voxeld__add_value(client, "Content-Encoding: ", options->encoding)))
    return false;
  // Expect would cost a round trip for each scan. The client reads a refusal during the upload even without it.
  if (!voxeld__add_header(client, "Accept: application/vnd.safetensors") || !voxeld__add_header(client, "Expect:") ||
      !voxeld__add_header(client, "Content-Type: application/octet-stream"))
    return false;
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, client->headers);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->curl_error);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "voxeld-c");
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);  // needed in programs with threads
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L * 1024);
  curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)(options->timeout_s * 1000));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, options->timeout_s < 1 ? 1L : (long)options->timeout_s);
  curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)options->max_answer_bytes);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, voxeld__receive);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, client);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, voxeld__header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, client);
  return (!options->ca_file || curl_easy_setopt(curl, CURLOPT_CAINFO, options->ca_file) == CURLE_OK) &&
         (!options->certificate || curl_easy_setopt(curl, CURLOPT_SSLCERT, options->certificate) == CURLE_OK) &&
         (!options->key || curl_easy_setopt(curl, CURLOPT_SSLKEY, options->key) == CURLE_OK);
}

struct voxeld_client *voxeld_open(const struct voxeld_options *options) {
  if (!voxeld__are_sound(options) || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return NULL;
  struct voxeld_client *client = (struct voxeld_client *)calloc(1, sizeof *client);
  if (client) client->curl = curl_easy_init();
  if (client) client->connections = curl_multi_init();
  if (client && client->curl && client->connections && voxeld__set_up(client, options)) return client;
  voxeld_close(client);
  return NULL;
}

// Unregisters the block, if the service answers soon.
static void voxeld__end_block(struct voxeld_client *client) {
  struct voxeld_result result;
  memset(&result, 0, sizeof result);
  client->deadline_s = 1;
  client->stop = NULL;
  (void)voxeld__unregister(client, &result);
  voxeld_result_free(&result);
}

void voxeld_close(struct voxeld_client *client) {
  if (!client) return;
  if (client->query) voxeld__end_block(client);  // a call has used the block
  curl_easy_cleanup(client->direct);
  curl_easy_cleanup(client->transfer);
  curl_easy_cleanup(client->curl);
  curl_multi_cleanup(client->connections);
  curl_slist_free_all(client->headers);
  free(client->base);
  free(client->query);
  free(client->url);
  free(client);
}

#ifdef __cplusplus
}
#endif
#endif
