// A stand-in for ONNX Runtime: a library with its C interface, as far as voxeld uses it, that needs nothing and fails
// on request.
//
// A network file is text, a line each:
//   standin
//   input NAME TYPE DIMENSION...           TYPE: ONNX's number of it, 1 for float32
//   output NAME TYPE SCALE BIAS DIMENSION...
//   wait MILLISECONDS                      how long a run takes
//   fail                                   every run fails
// Value i of an output is SCALE times value i of the first input, counted around, plus BIAS. Only float32 is computed.
// A dimension -1 is that of the given tensors. A network that begins otherwise is refused, as a bad ONNX file is.
//
// Tests find the variables below by dlsym. Not for two threads at once, but for runs.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/engine/ort.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED extern atomic_int standin_fail_at, standin_calls, standin_alive, standin_threads;
EXPORTED const struct ort_base *OrtGetApiBase(void);

atomic_int standin_fail_at;  // the number of the call that fails; 0: none
atomic_int standin_calls;    // so far
atomic_int standin_alive;    // objects that were made and not released
atomic_int standin_threads;  // of the options that were last set

enum { TENSORS = 32, RANK = 6 };

struct ort_status {
  char text[256];
};
struct ort_tensor_type {
  char name[160];
  int element;
  size_t rank;
  int64_t dims[RANK];
  float scale, bias;
};
struct ort_type {
  struct ort_tensor_type tensor;
};
struct ort_session {
  size_t inputs, outputs;
  struct ort_tensor_type input[TENSORS], output[TENSORS];
  long wait_ms;
  bool fails;
};
struct ort_value {
  struct ort_tensor_type type;
  float *data;
  size_t bytes;
};

static struct ort_status *fail(const char *text, const char *detail) {
  struct ort_status *status = calloc(1, sizeof *status);
  if (!status) abort();
  snprintf(status->text, sizeof status->text, "%s%s", text, detail);
  atomic_fetch_add(&standin_alive, 1);
  return status;
}

static struct ort_status *count_call(void) {
  int number = atomic_fetch_add(&standin_calls, 1) + 1;
  return number == atomic_load(&standin_fail_at) ? fail("the stand-in fails this call", "") : NULL;
}

#define COUNT_CALL()                                                                                                   \
  do {                                                                                                                 \
    struct ort_status *refusal = count_call();                                                                         \
    if (refusal) return refusal;                                                                                       \
  } while (0)

static void *make(size_t size) {
  void *object = calloc(1, size);
  if (!object) abort();
  atomic_fetch_add(&standin_alive, 1);
  return object;
}

static void drop(void *object) {
  if (object) atomic_fetch_sub(&standin_alive, 1);
  free(object);
}

// ---- what has no content --------------------------------------------------------------------------------------------

static struct ort_status *create_env(int log_level, const char *log_name, struct ort_env **env) {
  (void)log_level, (void)log_name;
  COUNT_CALL();
  *env = make(1);
  return NULL;
}

static struct ort_status *disable_telemetry(const struct ort_env *env) {
  (void)env;
  COUNT_CALL();
  return NULL;
}

static struct ort_status *create_session_options(struct ort_session_options **options) {
  COUNT_CALL();
  *options = make(1);
  return NULL;
}

static struct ort_status *set_number(struct ort_session_options *options, int number) {
  (void)options, (void)number;
  COUNT_CALL();
  return NULL;
}
#define set_execution_mode set_number
#define set_optimization set_number
#define set_inter_op_threads set_number

static struct ort_status *set_intra_op_threads(struct ort_session_options *options, int threads) {
  atomic_store(&standin_threads, threads);
  return set_number(options, threads);
}

static struct ort_status *set_deterministic(struct ort_session_options *options, bool deterministic) {
  return set_number(options, deterministic);
}

static struct ort_status *add_session_config(struct ort_session_options *options, const char *key, const char *value) {
  (void)key, (void)value;
  return set_number(options, 0);
}

static struct ort_status *create_cpu_memory(int allocator, int kind, struct ort_memory **memory) {
  (void)allocator, (void)kind;
  COUNT_CALL();
  *memory = make(1);
  return NULL;
}

static struct ort_status *default_allocator(struct ort_allocator **allocator) {
  COUNT_CALL();
  *allocator = NULL;
  return NULL;
}

static struct ort_status *allocator_free(struct ort_allocator *allocator, void *memory) {
  (void)allocator;
  drop(memory);  // even if the call then fails: a caller could do no more
  COUNT_CALL();
  return NULL;
}

static struct ort_status *providers(char ***names, int *count) {
  static char name[] = "StandInProvider";
  static char *all[] = {name};
  COUNT_CALL();
  *names = all;
  *count = 1;
  return NULL;
}

static struct ort_status *release_providers(char **names, int count) {
  (void)names, (void)count;
  COUNT_CALL();
  return NULL;
}

// ---- sessions -------------------------------------------------------------------------------------------------------

// Reads "NAME TYPE [SCALE BIAS] DIMENSION...".
static bool read_tensor(char *words, bool output, struct ort_tensor_type *tensor) {
  char *rest = words, *word = strtok_r(words, " \n", &rest);
  if (!word) return false;
  snprintf(tensor->name, sizeof tensor->name, "%s", word);
  if (!(word = strtok_r(NULL, " \n", &rest))) return false;
  tensor->element = (int)strtol(word, NULL, 10);
  if (output) {
    char *scale = strtok_r(NULL, " \n", &rest), *bias = strtok_r(NULL, " \n", &rest);
    if (!scale || !bias) return false;
    tensor->scale = strtof(scale, NULL);
    tensor->bias = strtof(bias, NULL);
  }
  while (tensor->rank < RANK && (word = strtok_r(NULL, " \n", &rest)))
    tensor->dims[tensor->rank++] = strtoll(word, NULL, 10);
  return true;
}

static bool read_line(char *line, struct ort_session *session) {
  if (strncmp(line, "input ", 6) == 0 && session->inputs < TENSORS)
    return read_tensor(line + 6, false, &session->input[session->inputs++]);
  if (strncmp(line, "output ", 7) == 0 && session->outputs < TENSORS)
    return read_tensor(line + 7, true, &session->output[session->outputs++]);
  if (strncmp(line, "wait ", 5) == 0) session->wait_ms = strtol(line + 5, NULL, 10);
  if (strncmp(line, "fail", 4) == 0) session->fails = true;
  return true;
}

static struct ort_status *create_session(const struct ort_env *env, const char *path,
                                         const struct ort_session_options *options, struct ort_session **session) {
  (void)env, (void)options;
  COUNT_CALL();
  char line[512];
  FILE *file = fopen(path, "re");
  if (!file) return fail("Load model failed. File doesn't exist: ", path);
  struct ort_session *made = make(sizeof *made);
  bool good = fgets(line, sizeof line, file) && strcmp(line, "standin\n") == 0;
  while (good && fgets(line, sizeof line, file)) good = read_line(line, made);
  fclose(file);
  if (!good) {
    drop(made);
    return fail("Load model failed: Protobuf parsing failed: ", path);
  }
  *session = made;
  return NULL;
}

static struct ort_status *input_count(const struct ort_session *session, size_t *count) {
  COUNT_CALL();
  *count = session->inputs;
  return NULL;
}

static struct ort_status *output_count(const struct ort_session *session, size_t *count) {
  COUNT_CALL();
  *count = session->outputs;
  return NULL;
}

static struct ort_status *type_of(const struct ort_tensor_type *tensor, struct ort_type **type) {
  COUNT_CALL();
  *type = make(sizeof **type);
  (*type)->tensor = *tensor;
  return NULL;
}

static struct ort_status *input_type(const struct ort_session *session, size_t index, struct ort_type **type) {
  return type_of(&session->input[index], type);
}

static struct ort_status *output_type(const struct ort_session *session, size_t index, struct ort_type **type) {
  return type_of(&session->output[index], type);
}

static struct ort_status *name_of(const struct ort_tensor_type *tensor, char **name) {
  COUNT_CALL();
  *name = make(sizeof tensor->name);
  memcpy(*name, tensor->name, sizeof tensor->name);
  return NULL;
}

static struct ort_status *input_name(const struct ort_session *session, size_t index, struct ort_allocator *allocator,
                                     char **name) {
  (void)allocator;
  return name_of(&session->input[index], name);
}

static struct ort_status *output_name(const struct ort_session *session, size_t index, struct ort_allocator *allocator,
                                      char **name) {
  (void)allocator;
  return name_of(&session->output[index], name);
}

// Type 0 stands for what is no tensor, such as a map.
static struct ort_status *tensor_type_of(const struct ort_type *type, const struct ort_tensor_type **tensor_type) {
  COUNT_CALL();
  *tensor_type = type->tensor.element ? &type->tensor : NULL;
  return NULL;
}

static struct ort_status *element_type(const struct ort_tensor_type *type, int *element) {
  COUNT_CALL();
  *element = type->element;
  return NULL;
}

static struct ort_status *dims_count(const struct ort_tensor_type *type, size_t *rank) {
  COUNT_CALL();
  *rank = type->rank;
  return NULL;
}

static struct ort_status *dims(const struct ort_tensor_type *type, int64_t *out, size_t rank) {
  COUNT_CALL();
  memcpy(out, type->dims, rank * sizeof *out);
  return NULL;
}

// ---- runs -----------------------------------------------------------------------------------------------------------

static struct ort_status *create_tensor(const struct ort_memory *memory, void *data, size_t bytes, const int64_t *sizes,
                                        size_t rank, int type, struct ort_value **value) {
  (void)memory;
  COUNT_CALL();
  size_t needed = sizeof(float);
  for (size_t i = 0; i < rank; i++) needed *= (size_t)sizes[i];
  if (type == ORT_FLOAT && needed > bytes) return fail("not enough space: expected more bytes", "");
  struct ort_value *made = make(sizeof *made);
  *made = (struct ort_value){{.element = type, .rank = rank}, data, bytes};
  memcpy(made->type.dims, sizes, rank * sizeof *sizes);
  *value = made;
  return NULL;
}

static const struct ort_tensor_type *find(const struct ort_tensor_type *tensors, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
  return NULL;
}

static struct ort_status *check(const struct ort_tensor_type *tensor, const char *name, const struct ort_value *value) {
  if (!tensor) return fail("Invalid name: ", name);
  bool same = tensor->element == value->type.element && tensor->rank == value->type.rank;
  for (size_t i = 0; same && i < tensor->rank; i++)
    same = tensor->dims[i] == -1 || tensor->dims[i] == value->type.dims[i];
  return same ? NULL : fail("Got invalid dimensions or type for: ", name);
}

static void compute(const struct ort_tensor_type *tensor, const struct ort_value *in, const struct ort_value *out) {
  size_t count = in->bytes / sizeof(float);
  for (size_t i = 0; i < out->bytes / sizeof(float); i++)
    out->data[i] = (count ? in->data[i % count] * tensor->scale : 0) + tensor->bias;
}

static struct ort_status *run(struct ort_session *session, const void *run_options, const char *const *input_names,
                              const struct ort_value *const *inputs, size_t num_inputs, const char *const *output_names,
                              size_t num_outputs, struct ort_value **outputs) {
  (void)run_options;
  COUNT_CALL();
  struct timespec wait = {session->wait_ms / 1000, session->wait_ms % 1000 * 1000000};
  nanosleep(&wait, NULL);
  if (session->fails) return fail("Non-zero status code returned while running the stand-in's node", "");
  struct ort_status *refusal = num_inputs == session->inputs ? NULL : fail("Missing Input", "");
  for (size_t i = 0; !refusal && i < num_inputs; i++)
    refusal = check(find(session->input, session->inputs, input_names[i]), input_names[i], inputs[i]);
  for (size_t i = 0; !refusal && i < num_outputs; i++) {
    const struct ort_tensor_type *tensor = find(session->output, session->outputs, output_names[i]);
    refusal = check(tensor, output_names[i], outputs[i]);
    if (!refusal) compute(tensor, inputs[0], outputs[i]);
  }
  return refusal;
}

// ---- the table ------------------------------------------------------------------------------------------------------

static const char *error_message(const struct ort_status *status) { return status->text; }

#define X(place, name, arguments) [place] = (ort_function)(name),
#define Y(place, name, arguments) [place] = (ort_function)drop,
static const ort_function table[] = {[ORT_ERROR_MESSAGE] = (ort_function)error_message, ORT_CALLS(X) ORT_RELEASES(Y)};
#undef X
#undef Y

static const ort_function *get_api(uint32_t version) { return version <= ORT_API_VERSION ? table : NULL; }
static const char *get_version(void) { return "1.17.0-standin"; }

const struct ort_base *OrtGetApiBase(void) {
  static const struct ort_base base = {get_api, get_version};
  return &base;
}
