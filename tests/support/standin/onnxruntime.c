// A stand-in for ONNX Runtime: a library with the part of its C interface that voxeld uses. It fails on request.
//
// A network file is text, with these lines:
//   standin                                the first line
//   input NAME TYPE DIMENSION...           TYPE: ONNX's number, 1 for float32, 10 for float16
//   output NAME TYPE SCALE BIAS DIMENSION...
//   wait MILLISECONDS                      how long a run takes
//   memory WEIGHTS RUN                     bytes that the network takes from a bounded arena: once, and for each row of
//                                          the first input; what a run took is kept for later runs that need no more
//   fail [NUMBER]                          the run with that number and later ones fail; without a number every run
//   session CALL WHAT                      for sessions on a GPU: what fails. CALL: `open`, or the number of the first
//                                          run that fails; WHAT: `memory`, for a lack of memory, or `fails`
// output[i] = SCALE * input[i % N] + BIAS in float32, where `input` is the first input, of N values. A dimension of -1
// takes any size. A file without the first line is refused, like a bad ONNX file.
//
// Sessions on a GPU compute in the same way, in memory of the host, but their tensors must be described as memory of
// the device. With STANDIN_NO_CUDA the library has no CUDA provider.
//
// Tests find the variables below with dlsym. Two threads must not call the library at once, except to run networks.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/engine/ort.h"
#include "kernels/half.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED extern atomic_int standin_fail_at, standin_calls, standin_alive, standin_threads;
EXPORTED extern atomic_int standin_device, standin_tf32;
EXPORTED extern atomic_llong standin_limit;
EXPORTED extern void *_Atomic standin_stream;
EXPORTED const struct ort_base *OrtGetApiBase(void);

atomic_int standin_fail_at;               // number of the call that fails; 0: none
atomic_int standin_calls;                 // so far
atomic_int standin_alive;                 // objects that exist
atomic_int standin_threads;               // of the session options set last
atomic_int standin_device, standin_tf32;  // of the GPU options set last, like the next two
atomic_llong standin_limit;
void *_Atomic standin_stream;

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
  bool on_gpu;
  bool bounded;  // by `limit`
  long long limit, weights, run_bytes;
  atomic_llong kept, used;  // used: the part that runs in progress use
  long fails_at;            // number of the first run that fails; 0: none
  char session_fault[16];   // of the line `session`, if the session is on a GPU
  long session_call;        // number of the first run that fails; 0: the opening fails
  atomic_long runs;
};
struct ort_memory {
  bool on_gpu;
};
struct ort_session_options {
  bool on_gpu, with_arena;
};
struct ort_run_options {
  bool ends, shrinks;
};
struct ort_arena_options {
  long long limit;
};
struct ort_env {
  bool has_arena;
  long long limit;  // of the arena
};
struct ort_allocator {
  const struct ort_session *session;
};
struct ort_value {
  struct ort_tensor_type type;
  void *data;
  size_t bytes;
  bool on_gpu;
};
struct bound {
  size_t count;
  const char *name[TENSORS];
  struct ort_value *value[TENSORS];
};
struct ort_binding {
  struct bound inputs, outputs;
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

// ---- environments, options and memory -------------------------------------------------------------------------------

static struct ort_status *create_env(int log_level, const char *log_name, struct ort_env **env) {
  (void)log_level, (void)log_name;
  COUNT_CALL();
  *env = make(sizeof **env);
  return NULL;
}

static struct ort_status *disable_telemetry(const struct ort_env *env) {
  (void)env;
  COUNT_CALL();
  return NULL;
}

static struct ort_status *create_session_options(struct ort_session_options **options) {
  COUNT_CALL();
  *options = make(sizeof **options);
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
  if (strcmp(key, "session.use_env_allocators") == 0) options->with_arena = strcmp(value, "1") == 0;
  return set_number(options, 0);
}

static struct ort_status *create_cpu_memory(int allocator, int kind, struct ort_memory **memory) {
  (void)allocator, (void)kind;
  COUNT_CALL();
  *memory = make(sizeof **memory);
  return NULL;
}

static struct ort_status *create_memory(const char *name, int allocator, int device, int kind,
                                        struct ort_memory **memory) {
  (void)allocator, (void)kind;
  COUNT_CALL();
  if (strcmp(name, ORT_CUDA_MEMORY) != 0 || device != atomic_load(&standin_device)) return fail("No such memory", name);
  *memory = make(sizeof **memory);
  (*memory)->on_gpu = true;
  return NULL;
}

static struct ort_status *create_run_options(struct ort_run_options **options) {
  COUNT_CALL();
  *options = make(sizeof **options);
  return NULL;
}

static struct ort_status *set_terminate(struct ort_run_options *options) {
  COUNT_CALL();
  options->ends = true;
  return NULL;
}

static struct ort_status *add_run_config(struct ort_run_options *options, const char *key, const char *value) {
  COUNT_CALL();
  options->shrinks = strcmp(key, "memory.enable_memory_arena_shrinkage") == 0 && strcmp(value, "cpu:0") == 0;
  bool known =
      options->shrinks || (strcmp(key, "disable_synchronize_execution_providers") == 0 && strcmp(value, "1") == 0);
  return known ? NULL : fail("Unknown run option ", key);
}

static struct ort_status *default_allocator(struct ort_allocator **allocator) {
  COUNT_CALL();
  *allocator = NULL;
  return NULL;
}

static struct ort_status *allocator_free(struct ort_allocator *allocator, void *memory) {
  (void)allocator;
  drop(memory);  // even if the call then fails: the caller cannot try again
  COUNT_CALL();
  return NULL;
}

// ---- arenas ---------------------------------------------------------------------------------------------------------

static struct ort_status *create_arena_options(const char *const *keys, const size_t *values, size_t count,
                                               struct ort_arena_options **arena) {
  COUNT_CALL();
  long long limit = 0;
  for (size_t i = 0; i < count; i++)
    if (strcmp(keys[i], "max_mem") == 0) limit = (long long)values[i];
  *arena = make(sizeof **arena);
  (*arena)->limit = limit;
  return NULL;
}

static struct ort_status *register_arena(struct ort_env *env, const struct ort_memory *memory,
                                         const struct ort_arena_options *arena) {
  (void)memory;
  COUNT_CALL();
  if (env->has_arena) return fail("An allocator for this device has already been registered for sharing.", "");
  env->has_arena = true;
  env->limit = arena->limit;
  return NULL;
}

static struct ort_status *unregister_arena(struct ort_env *env, const struct ort_memory *memory) {
  (void)memory;
  env->has_arena = false;  // even if the call then fails
  COUNT_CALL();
  return NULL;
}

// Like the real library, names no limit in the error, and has no limit once the weights exceed it.
static struct ort_status *take_memory(const struct ort_session *session, long long kept, long long bytes) {
  long long left = session->limit - session->weights - kept;
  bool fits = !session->bounded || left < 0 || bytes <= left;
  return fits ? NULL : fail("Available memory of 7 is smaller than requested bytes of 8", "");
}

static struct ort_status *create_allocator(const struct ort_session *session, const struct ort_memory *memory,
                                           struct ort_allocator **allocator) {
  (void)memory;
  COUNT_CALL();
  *allocator = make(sizeof **allocator);
  (*allocator)->session = session;
  return NULL;
}

static struct ort_status *allocator_take(struct ort_allocator *allocator, size_t bytes, void **memory) {
  COUNT_CALL();
  struct ort_status *refusal = take_memory(allocator->session, 0, (long long)bytes);
  if (!refusal) *memory = make(1);
  return refusal;
}

// ---- options of a GPU -----------------------------------------------------------------------------------------------

static struct ort_status *create_cuda_options(struct ort_cuda_options **cuda) {
  COUNT_CALL();
  *cuda = make(1);
  return NULL;
}

// Options that are not named get their defaults, except the device.
static struct ort_status *update_cuda_options(struct ort_cuda_options *cuda, const char *const *keys,
                                              const char *const *values, size_t count) {
  (void)cuda;
  COUNT_CALL();
  if (getenv("STANDIN_NO_CUDA"))
    return fail("/src/bridge.cc:20 Get() [ONNXRuntimeError] : 1 : FAIL : Failed to load library "
                "libonnxruntime_providers_cuda.so",
                "");
  bool by_rules = false;
  atomic_store(&standin_tf32, 1);
  atomic_store(&standin_limit, 0);
  atomic_store(&standin_stream, NULL);
  for (size_t i = 0; i < count; i++) {
    if (strcmp(keys[i], "device_id") == 0) atomic_store(&standin_device, (int)strtol(values[i], NULL, 10));
    if (strcmp(keys[i], "use_tf32") == 0) atomic_store(&standin_tf32, (int)strtol(values[i], NULL, 10));
    if (strcmp(keys[i], "gpu_mem_limit") == 0) atomic_store(&standin_limit, strtoll(values[i], NULL, 10));
    if (strcmp(keys[i], "cudnn_conv_algo_search") == 0) by_rules = strcmp(values[i], "HEURISTIC") == 0;
  }
  return by_rules ? NULL : fail("the stand-in wants convolutions that do not depend on timing", "");
}

static struct ort_status *update_cuda_pointer(struct ort_cuda_options *cuda, const char *key, void *value) {
  (void)cuda;
  COUNT_CALL();
  if (strcmp(key, "user_compute_stream") != 0) return fail("Unknown provider option ", key);
  atomic_store(&standin_stream, value);
  return NULL;
}

static struct ort_status *append_cuda(struct ort_session_options *options, const struct ort_cuda_options *cuda) {
  (void)cuda;
  COUNT_CALL();
  options->on_gpu = true;
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
  if (strncmp(line, "fail", 4) == 0) session->fails_at = line[4] == ' ' ? strtol(line + 5, NULL, 10) : 1;
  if (strncmp(line, "memory ", 7) == 0) {
    char *rest;
    session->weights = strtoll(line + 7, &rest, 10);
    session->run_bytes = strtoll(rest, NULL, 10);
  }
  if (strncmp(line, "session ", 8) == 0 && session->on_gpu) {
    char *rest;
    session->session_call = strtol(line + 8, &rest, 10);  // 0 for a word
    rest = strrchr(line, ' ');
    snprintf(session->session_fault, sizeof session->session_fault, "%.*s", (int)strcspn(rest + 1, "\n"), rest + 1);
  }
  return true;
}

// The fault of a GPU session at its opening (call 0) or at run number `call`; NULL: none.
static struct ort_status *session_fault(const struct ort_session *session, long call) {
  if (!session->session_fault[0] || (call == 0) != (session->session_call == 0) || call < session->session_call)
    return NULL;
  bool memory = strcmp(session->session_fault, "memory") == 0;
  return memory ? fail("BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 7", "")
                : fail("CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED ; GPU=0 ; the stand-in's node", "");
}

static struct ort_status *create_session(const struct ort_env *env, const char *path,
                                         const struct ort_session_options *options, struct ort_session **session) {
  COUNT_CALL();
  char line[512];
  FILE *file = fopen(path, "re");
  if (!file) return fail("Load model failed. File doesn't exist: ", path);
  struct ort_session *made = make(sizeof *made);
  made->on_gpu = options->on_gpu;
  made->bounded = options->with_arena && env->has_arena;
  made->limit = env->limit;
  bool good = fgets(line, sizeof line, file) && strcmp(line, "standin\n") == 0;
  while (good && fgets(line, sizeof line, file)) good = read_line(line, made);
  fclose(file);
  if (!good) {
    drop(made);
    return fail("Load model failed: Protobuf parsing failed: ", path);
  }
  struct ort_status *fault = session_fault(made, 0);
  if (fault)
    drop(made);
  else
    *session = made;
  return fault;
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

// Type 0: not a tensor, such as a map.
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

static size_t size_of(int type) { return type == ORT_UINT8 ? 1 : type == ORT_FLOAT16 ? 2 : 4; }

static struct ort_status *create_tensor(const struct ort_memory *memory, void *data, size_t bytes, const int64_t *sizes,
                                        size_t rank, int type, struct ort_value **value) {
  COUNT_CALL();
  size_t needed = size_of(type);
  for (size_t i = 0; i < rank; i++) needed *= (size_t)sizes[i];
  if (needed > bytes) return fail("not enough space: expected more bytes", "");
  struct ort_value *made = make(sizeof *made);
  *made = (struct ort_value){{.element = type, .rank = rank}, data, bytes, memory->on_gpu};
  memcpy(made->type.dims, sizes, rank * sizeof *sizes);
  *value = made;
  return NULL;
}

static const struct ort_tensor_type *find(const struct ort_tensor_type *tensors, size_t count, const char *name) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(tensors[i].name, name) == 0) return &tensors[i];
  return NULL;
}

static struct ort_status *check(const struct ort_session *session, const struct ort_tensor_type *tensor,
                                const char *name, const struct ort_value *value) {
  if (!tensor) return fail("Invalid name: ", name);
  if (session->on_gpu != value->on_gpu) return fail("the stand-in wants memory of the other kind for: ", name);
  bool same = tensor->element == value->type.element && tensor->rank == value->type.rank;
  for (size_t i = 0; same && i < tensor->rank; i++)
    same = tensor->dims[i] == -1 || tensor->dims[i] == value->type.dims[i];
  return same ? NULL : fail("Got invalid dimensions or type for: ", name);
}

static float value_at(const struct ort_value *value, size_t i) {
  return value->type.element == ORT_FLOAT16 ? vx_half_to_float(((const uint16_t *)value->data)[i])
                                            : ((const float *)value->data)[i];
}

static void compute(const struct ort_tensor_type *tensor, const struct ort_value *in, const struct ort_value *out) {
  size_t count = in->bytes / size_of(in->type.element);
  for (size_t i = 0; i < out->bytes / size_of(out->type.element); i++) {
    float value = (count ? value_at(in, i % count) * tensor->scale : 0) + tensor->bias;
    if (out->type.element == ORT_FLOAT16)
      ((uint16_t *)out->data)[i] = vx_float_to_half(value);
    else
      ((float *)out->data)[i] = value;
  }
}

static long long needed_of(const struct ort_session *session, const struct ort_value *input) {
  return session->run_bytes * (input->type.rank ? input->type.dims[0] : 1);
}

// Takes memory for a run, unless enough kept memory is unused.
static struct ort_status *take_of_run(struct ort_session *session, long long needed) {
  long long kept = atomic_load(&session->kept);
  bool more = needed > kept - atomic_load(&session->used);
  struct ort_status *refusal = more ? take_memory(session, kept, needed) : NULL;
  if (refusal) return refusal;
  if (more) atomic_fetch_add(&session->kept, needed);
  atomic_fetch_add(&session->used, needed);
  return NULL;
}

static struct ort_status *run(struct ort_session *session, const struct ort_run_options *run_options,
                              const char *const *input_names, const struct ort_value *const *inputs, size_t num_inputs,
                              const char *const *output_names, size_t num_outputs, struct ort_value **outputs) {
  COUNT_CALL();
  if (run_options && run_options->ends) {
    if (run_options->shrinks) atomic_store(&session->kept, atomic_load(&session->used));
    return fail("Exiting due to terminate flag being set to true.", "");
  }
  long long needed = num_inputs > 0 ? needed_of(session, inputs[0]) : 0;
  struct ort_status *refusal = take_of_run(session, needed);
  if (refusal) return refusal;
  struct timespec wait = {session->wait_ms / 1000, session->wait_ms % 1000 * 1000000};
  nanosleep(&wait, NULL);
  atomic_fetch_sub(&session->used, needed);
  long number = atomic_fetch_add(&session->runs, 1) + 1;
  refusal = session_fault(session, number);
  if (refusal) return refusal;
  if (session->fails_at && number >= session->fails_at)
    return fail("Non-zero status code returned while running the stand-in's node", "");
  if (num_inputs != session->inputs) return fail("Missing Input", "");
  for (size_t i = 0; !refusal && i < num_inputs; i++)
    refusal = check(session, find(session->input, session->inputs, input_names[i]), input_names[i], inputs[i]);
  for (size_t i = 0; !refusal && i < num_outputs; i++) {
    const struct ort_tensor_type *tensor = find(session->output, session->outputs, output_names[i]);
    refusal = check(session, tensor, output_names[i], outputs[i]);
    if (!refusal) compute(tensor, inputs[0], outputs[i]);
  }
  return refusal;
}

static struct ort_status *create_binding(struct ort_session *session, struct ort_binding **binding) {
  (void)session;
  COUNT_CALL();
  *binding = make(sizeof **binding);
  return NULL;
}

static void put(struct bound *bound, const char *name, const struct ort_value *value) {
  if (bound->count == TENSORS) abort();
  bound->name[bound->count] = name;
  bound->value[bound->count++] = (struct ort_value *)(uintptr_t)value;
}

static struct ort_status *bind_input(struct ort_binding *binding, const char *name, const struct ort_value *value) {
  COUNT_CALL();
  put(&binding->inputs, name, value);
  return NULL;
}

static struct ort_status *bind_output(struct ort_binding *binding, const char *name, const struct ort_value *value) {
  COUNT_CALL();
  put(&binding->outputs, name, value);
  return NULL;
}

static struct ort_status *run_bound(struct ort_session *session, const struct ort_run_options *run_options,
                                    const struct ort_binding *binding) {
  const struct bound *in = &binding->inputs;
  struct bound out = binding->outputs;
  return run(session, run_options, in->name, (const struct ort_value *const *)in->value, in->count, out.name, out.count,
             out.value);
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
