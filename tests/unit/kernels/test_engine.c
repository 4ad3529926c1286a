// Networks through ONNX Runtime's C interface: with a stand-in whose calls fail in turn, and with the real library if
// the environment has it.
#include <dlfcn.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/engine.h"

static const struct vx_engine *const engine = &vx_onnxruntime;
static char path[] = "/tmp/voxeld-engine-XXXXXX";  // the network's file

static void write_network(const void *bytes, size_t size) {
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static int make_file(void **state) {
  (void)state;
  int fd = mkstemp(path);
  return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

static struct vx_network_value value(const char *name, int64_t rows, int64_t columns, float *data) {
  return (struct vx_network_value){
      name, {VX_FLOAT32, 2, {rows, columns}, (size_t)(rows * columns) * sizeof *data}, data};
}

// ---- the stand-in ---------------------------------------------------------------------------------------------------

static const char *standin_path(void) {
  const char *found = getenv("VOXELD_ONNXRUNTIME_STANDIN");
  if (!found) fail_msg("VOXELD_ONNXRUNTIME_STANDIN has no path");
  return found;
}

// A variable of the stand-in.
static atomic_int *standin(const char *name) {
  void *object = dlopen(standin_path(), RTLD_NOW | RTLD_LOCAL), *variable = object ? dlsym(object, name) : NULL;
  if (!variable) fail_msg("%s", dlerror());
  dlclose(object);
  return variable;
}

static const char doubling[] = "standin\ninput x 1 -1 3\noutput twice 1 2 0 -1 3\noutput more 1 1 10 -1 3\n";

static size_t bound = 1 << 20;  // maximum host memory of a network

static int stream;  // its address serves as a stream
static const struct vx_device_stream place = {1, &stream, false, 1 << 20};

struct trial {
  enum vx_status status, opened;
  struct error error;
  struct vx_network_shape shape;
  const char *version;
  float twice[6], more[6];
};

// Runs the session, or without one the network.
static enum vx_status run_twice(struct vx_network *network, struct vx_session *session, struct trial *trial) {
  float x[6] = {0, 1, 2, 3, 4, -5};
  memset(trial->twice, 0, sizeof trial->twice);
  memset(trial->more, 0, sizeof trial->more);
  const struct vx_network_value in = value("x", 2, 3, x);
  const struct vx_network_value out[] = {value("more", 2, 3, trial->more), value("twice", 2, 3, trial->twice)};
  const struct vx_network_run run = {1, 2, &in, out};
  return session ? engine->session_run(session, &run, &trial->error)
                 : engine->network_run(network, &run, &trial->error);
}

static enum vx_status try_session(struct vx_network *network, struct trial *trial) {
  struct vx_session *session;
  enum vx_status status = engine->session_open(network, &place, &session, &trial->error);
  if (status != VX_OK) return status;
  status = run_twice(network, session, trial);
  engine->session_close(session);
  return status;
}

// Opens the library and a network, runs the network, then a session, and closes all. Stops at a failure.
static struct trial try_all(const char *library_path) {
  struct trial trial = {.error = {0}};
  struct vx_engine_library *library;
  struct vx_network *network;
  trial.status = engine->open(library_path, &library, &trial.error);
  if (trial.status != VX_OK) return trial;
  trial.version = engine->version(library);
  trial.status = engine->network_open(library, path, 3, bound, &network, &trial.error);
  if (trial.status == VX_OK) {
    trial.shape = *engine->network_shape(network);
    trial.status = run_twice(network, NULL, &trial);
    if (trial.status == VX_OK) trial.opened = try_session(network, &trial);
    engine->network_close(network);
  }
  engine->close(library);
  return trial;
}

static void a_network_describes_its_tensors_and_runs(void **state) {
  (void)state;
  write_network(doubling, sizeof doubling - 1);
  struct trial trial = try_all(standin_path());
  if (trial.status != VX_OK || trial.opened != VX_OK) fail_msg("%s", trial.error.text);
  assert_string_equal(trial.version, "1.17.0-standin");
  assert_int_equal(trial.shape.inputs, 1);
  assert_int_equal(trial.shape.outputs, 2);
  const struct vx_network_tensor *more = &trial.shape.output[1];
  assert_string_equal(trial.shape.input[0].name, "x");
  assert_string_equal(more->name, "more");
  assert_int_equal(more->dtype, VX_FLOAT32);
  assert_int_equal(more->rank, 2);
  assert_int_equal(more->dims[0], -1);
  assert_int_equal(more->dims[1], 3);
  assert_memory_equal(trial.twice, ((float[]){0, 2, 4, 6, 8, -10}), sizeof trial.twice);
  assert_memory_equal(trial.more, ((float[]){10, 11, 12, 13, 14, 5}), sizeof trial.more);
  assert_int_equal(atomic_load(standin("standin_alive")), 0);
}

static void a_session_is_where_it_was_asked_for(void **state) {
  (void)state;
  write_network(doubling, sizeof doubling - 1);
  assert_int_equal(try_all(standin_path()).opened, VX_OK);
  assert_int_equal(atomic_load(standin("standin_device")), 1);
  assert_int_equal(atomic_load(standin("standin_tf32")), 0);
  assert_int_equal(atomic_load((atomic_llong *)standin("standin_limit")), 1 << 20);
  assert_ptr_equal(atomic_load((void *_Atomic *)standin("standin_stream")), &stream);
  assert_int_equal(atomic_load(standin("standin_threads")), 1);  // on a GPU, more threads would be idle
}

static void assert_no_session(const char *fault, enum vx_status status, const char *reason) {
  char network[256];
  snprintf(network, sizeof network, "%ssession %s\n", doubling, fault);
  write_network(network, strlen(network));
  struct trial trial = try_all(standin_path());
  assert_int_equal(trial.status, VX_OK);  // only a session makes the call that fails
  assert_int_equal(trial.opened, status);
  if (!strstr(trial.error.text, reason)) fail_msg("'%s' has no '%s'", trial.error.text, reason);
  assert_int_equal(atomic_load(standin("standin_alive")), 0);
}

static void a_lack_of_memory_is_distinguished_from_other_failures(void **state) {
  (void)state;
  assert_no_session("open fails", VX_REFUSED, "onnxruntime: CUDNN failure");
  assert_no_session("open memory", VX_OUT_OF_MEMORY, "onnxruntime: out of memory: ");
  assert_no_session("1 fails", VX_FAILED, "onnxruntime: CUDNN failure");
  assert_no_session("1 memory", VX_OUT_OF_MEMORY, "onnxruntime: out of memory: BFCArena");
}

static void a_library_without_cuda_has_no_sessions(void **state) {
  (void)state;
  write_network(doubling, sizeof doubling - 1);
  assert_int_equal(setenv("STANDIN_NO_CUDA", "1", 1), 0);
  struct trial trial = try_all(standin_path());
  assert_int_equal(unsetenv("STANDIN_NO_CUDA"), 0);
  assert_int_equal(trial.status, VX_OK);
  assert_int_equal(trial.opened, VX_REFUSED);
  assert_string_equal(trial.error.text, "onnxruntime: Failed to load library libonnxruntime_providers_cuda.so");
}

// The file is removed, or gets another size or time.
static void a_session_is_refused_if_the_file_has_changed(void **state) {
  (void)state;
  struct vx_engine_library *library;
  struct error error = {0};
  assert_int_equal(engine->open(standin_path(), &library, &error), VX_OK);
  for (int way = 0; way < 3; way++) {
    struct vx_network *network;
    struct vx_session *session = NULL;
    write_network(doubling, sizeof doubling - 1);
    assert_int_equal(engine->network_open(library, path, 1, bound, &network, &error), VX_OK);
    if (way == 0) assert_int_equal(unlink(path), 0);
    if (way == 1) assert_int_equal(truncate(path, sizeof doubling - 2), 0);
    if (way == 2) assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){{1, 0}, {1, 0}}, 0), 0);
    assert_int_equal(engine->session_open(network, &place, &session, &error), VX_REFUSED);
    assert_string_equal(error.text,
                        way ? "the network's file has changed since it was opened" : "No such file or directory");
    engine->network_close(network);
  }
  engine->close(library);
  assert_int_equal(atomic_load(standin("standin_alive")), 0);
}

static void only_regular_files_are_opened(void **state) {
  (void)state;
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  struct trial trial = try_all(standin_path());
  assert_int_equal(unlink(path), 0);
  write_network(doubling, sizeof doubling - 1);
  assert_int_equal(trial.status, VX_REFUSED);
  assert_string_equal(trial.error.text, "it is not a regular file");
}

static void each_call_that_fails_is_an_error_and_leaks_nothing(void **state) {
  (void)state;
  write_network(doubling, sizeof doubling - 1);
  atomic_int *calls = standin("standin_calls"), *fail_at = standin("standin_fail_at");
  atomic_store(calls, 0);
  assert_int_equal(try_all(standin_path()).status, VX_OK);
  int count = atomic_load(calls);
  assert_in_range(count, 50, 200);
  for (int i = 1; i <= count; i++) {
    atomic_store(calls, 0);
    atomic_store(fail_at, i);
    struct trial trial = try_all(standin_path());
    enum vx_status status = trial.status == VX_OK ? trial.opened : trial.status;
    assert_true(status == VX_REFUSED || status == VX_FAILED);
    assert_string_equal(trial.error.text, "onnxruntime: the stand-in fails this call");
    assert_int_equal(atomic_load(standin("standin_alive")), 0);
  }
  atomic_store(fail_at, 0);
}

static void assert_refused(const char *network, enum vx_status status, const char *reason) {
  write_network(network, strlen(network));
  struct trial trial = try_all(standin_path());
  assert_int_equal(trial.status, status);
  if (!strstr(trial.error.text, reason)) fail_msg("'%s' has no '%s'", trial.error.text, reason);
  assert_int_equal(atomic_load(standin("standin_alive")), 0);
}

static void networks_that_do_not_fit_are_refused(void **state) {
  (void)state;
  char many[512] = "standin\n", wide[256];
  for (int i = 0; i <= VX_NETWORK_TENSORS; i++) strcat(many, "input x 1 3\n");
  snprintf(wide, sizeof wide, "standin\ninput %0*d 1 3\n", VX_NETWORK_NAME_SIZE, 1);
  assert_refused("", VX_REFUSED, "onnxruntime: Load model failed");
  assert_refused(many, VX_REFUSED, "the network has 17 inputs; allowed: up to 16");
  assert_refused(wide, VX_REFUSED, "the name of the network's input 0 has 128 bytes; allowed: up to 127");
  assert_refused("standin\ninput x 1 3\noutput y 7 1 0 3\n", VX_REFUSED,
                 "output y has the ONNX element type 7; allowed: float32");
  assert_refused("standin\ninput x 1 1 2 3 4 5\n", VX_REFUSED, "input x has 5 dimensions; allowed: up to 4");
  assert_refused("standin\ninput x 0\n", VX_REFUSED, "input x is not a tensor");
}

static void runs_that_do_not_fit_are_refused(void **state) {
  (void)state;
  assert_refused("standin\ninput x 1 -1 4\noutput twice 1 1 0 2 3\noutput more 1 1 0 2 3\n", VX_FAILED,
                 "Got invalid dimensions");
  assert_refused("standin\ninput x 1 2 3\noutput twice 1 1 0 2 3\n", VX_FAILED, "Invalid name: more");
  assert_refused("standin\ninput x 1 2 3\noutput more 1 1 0 2 3\nfail\n", VX_FAILED, "Non-zero status code");
}

static void a_run_of_too_many_tensors_is_refused(void **state) {
  (void)state;
  struct vx_engine_library *library;
  struct vx_network *network;
  struct error error;
  struct vx_network_value values[VX_NETWORK_TENSORS + 1];
  float x[3] = {0};
  for (int i = 0; i <= VX_NETWORK_TENSORS; i++) values[i] = value("x", 1, 3, x);
  const struct vx_network_run run = {VX_NETWORK_TENSORS + 1, 1, values, values};
  write_network(doubling, sizeof doubling - 1);
  assert_int_equal(engine->open(standin_path(), &library, &error), VX_OK);
  assert_int_equal(engine->network_open(library, path, 1, bound, &network, &error), VX_OK);
  assert_int_equal(engine->network_run(network, &run, &error), VX_FAILED);
  assert_string_equal(error.text, "a run has 17 tensors; allowed: up to 16");
  engine->network_close(network);
  engine->close(library);
}

static void a_missing_library_is_named(void **state) {
  (void)state;
  struct vx_engine_library *library;
  struct error error;
  assert_int_equal(engine->open("/nowhere/libonnxruntime.so", &library, &error), VX_REFUSED);
  assert_non_null(strstr(error.text, "/nowhere/libonnxruntime.so"));
  assert_int_equal(engine->open("libm.so.6", &library, &error), VX_REFUSED);
  assert_string_equal(error.text, "libm.so.6 has no OrtGetApiBase, so it is not an ONNX Runtime library");
  if (engine->open("", &library, &error) == VX_OK)
    engine->close(library);  // the system has the library
  else
    assert_string_equal(error.text, "ONNX Runtime: the system has no libonnxruntime.so.1");
}

// ---- the real library -----------------------------------------------------------------------------------------------

// A network in ONNX's format: protobuf messages. Each field is a tag and a value, or a tag, a length and bytes.
struct message {
  size_t size;
  unsigned char bytes[1024];
};

static void put_byte(struct message *message, size_t byte) {
  assert_in_range(byte, 0, 255);
  assert_true(message->size < sizeof message->bytes);
  message->bytes[message->size++] = (unsigned char)byte;
}

static void put_number(struct message *message, int field, int number) {
  put_byte(message, (size_t)field << 3);
  assert_in_range(number, 0, 127);
  put_byte(message, (size_t)number);
}

static void put_bytes(struct message *message, int field, const void *bytes, size_t size) {
  put_byte(message, (size_t)field << 3 | 2);
  put_byte(message, size % 128 | (size > 127 ? 128 : 0));
  if (size > 127) put_byte(message, size / 128);
  for (size_t i = 0; i < size; i++) put_byte(message, ((const unsigned char *)bytes)[i]);
}

static void put_text(struct message *message, int field, const char *text) {
  put_bytes(message, field, text, strlen(text));
}

static void put(struct message *message, int field, const struct message *part) {
  put_bytes(message, field, part->bytes, part->size);
}

static void put_node(struct message *graph, const char *kind, const char *a, const char *b, const char *out) {
  struct message node = {0};
  put_text(&node, 1, a);
  put_text(&node, 1, b);
  put_text(&node, 2, out);
  put_text(&node, 4, kind);
  put(graph, 1, &node);
}

// float32 [n, 3]
static void put_tensor(struct message *graph, int field, const char *name) {
  struct message rows = {0}, columns = {0}, shape = {0}, tensor = {0}, type = {0}, info = {0};
  put_text(&rows, 2, "n");
  put_number(&columns, 1, 3);
  put(&shape, 1, &rows);
  put(&shape, 1, &columns);
  put_number(&tensor, 1, 1);
  put(&tensor, 2, &shape);
  put(&type, 1, &tensor);
  put_text(&info, 1, name);
  put(&info, 2, &type);
  put(graph, field, &info);
}

static struct message model_of(const struct message *graph) {
  struct message model = {0}, version = {0};
  put_number(&version, 2, 13);
  put_number(&model, 1, 7);
  put(&model, 7, graph);
  put(&model, 8, &version);
  return model;
}

// twice = x + x; more = twice + x
static struct message real_network(void) {
  struct message graph = {0};
  put_node(&graph, "Add", "x", "x", "twice");
  put_node(&graph, "Add", "twice", "x", "more");
  put_text(&graph, 2, "sums");
  put_tensor(&graph, 11, "x");
  put_tensor(&graph, 12, "twice");
  put_tensor(&graph, 12, "more");
  return model_of(&graph);
}

// A network with an operator of a plug-in.
static struct message plugged_network(void) {
  struct message graph = {0};
  put_node(&graph, "PPScatterPlugin", "x", "x", "y");
  put_text(&graph, 2, "scatter");
  put_tensor(&graph, 11, "x");
  put_tensor(&graph, 12, "y");
  return model_of(&graph);
}

// The path of ONNX Runtime in the environment; NULL if there is none. NULL under a sanitizer, which does not see the
// locks of ONNX Runtime's threads.
static const char *real_path(void) {
  static char found[1024];
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const char *venv = getenv("VOXELD_VENV");
  char pattern[512];
  glob_t paths;
  snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*",
           venv ? venv : "/nowhere");
  if (glob(pattern, 0, NULL, &paths) == 0) snprintf(found, sizeof found, "%s", paths.gl_pathv[0]);
  globfree(&paths);
#endif
  return found[0] ? found : NULL;
}

static const char *need_real_library(void) {
  const char *found = real_path();
  if (!found) {
    print_message("the environment has no ONNX Runtime to try\n");
    skip();
  }
  return found;
}

static void the_real_library_runs_a_network(void **state) {
  (void)state;
  const char *library = need_real_library();
  struct message network = real_network();
  write_network(network.bytes, network.size);
  struct trial trial = try_all(library);
  if (trial.status != VX_OK) fail_msg("%s", trial.error.text);
  assert_int_equal(strtol(trial.version, NULL, 10), 1);
  assert_int_equal(trial.shape.inputs, 1);
  assert_int_equal(trial.shape.outputs, 2);
  assert_string_equal(trial.shape.output[0].name, "twice");
  assert_int_equal(trial.shape.output[0].dims[0], -1);
  assert_int_equal(trial.shape.output[0].dims[1], 3);
  assert_memory_equal(trial.twice, ((float[]){0, 2, 4, 6, 8, -10}), sizeof trial.twice);
  assert_memory_equal(trial.more, ((float[]){0, 3, 6, 9, 12, -15}), sizeof trial.more);
  assert_int_equal(trial.opened, VX_REFUSED);  // this library has no CUDA
  assert_non_null(strstr(trial.error.text, "CUDA"));
}

static void the_real_library_refuses_what_does_not_fit(void **state) {
  (void)state;
  const char *library_path = need_real_library();
  struct vx_engine_library *library;
  struct vx_network *network = NULL;
  struct error error;
  float x[8] = {0}, y[8];
  struct message good = real_network();
  assert_int_equal(engine->open(library_path, &library, &error), VX_OK);
  write_network("no network", 10);
  assert_int_equal(engine->network_open(library, path, 1, bound, &network, &error), VX_REFUSED);
  assert_ptr_equal(strstr(error.text, "onnxruntime: "), error.text);
  assert_null(strstr(error.text, path));
  struct message plugged = plugged_network();
  write_network(plugged.bytes, plugged.size);
  assert_int_equal(engine->network_open(library, path, 1, bound, &network, &error), VX_REFUSED);
  assert_ptr_equal(strstr(error.text, "onnxruntime: "), error.text);
  assert_null(strstr(error.text, path));
  assert_non_null(strstr(error.text, "No Op registered for PPScatterPlugin"));
  write_network(good.bytes, good.size);
  assert_int_equal(engine->network_open(library, path, 1, bound, &network, &error), VX_OK);
  const struct vx_network_value in[] = {value("x", 2, 3, x), value("x", 2, 4, x), value("z", 2, 3, x)};
  const struct vx_network_value out[] = {value("more", 2, 3, y), value("more", 1, 3, y), value("less", 2, 3, y)};
  const struct vx_network_run runs[] = {
      {1, 1, &in[0], &out[0]}, {1, 1, &in[1], &out[0]}, {1, 1, &in[2], &out[0]},
      {1, 1, &in[0], &out[1]}, {1, 1, &in[0], &out[2]},
  };
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
    assert_int_equal(engine->network_run(network, &runs[i], &error), i == 0 ? VX_OK : VX_FAILED);
  engine->network_close(network);
  engine->close(library);
}

// more = kind(x, weights) + x; kind: "Add" or "MatMul"; weights: [rows, 3], all zeros.
static struct message network_with_weights(const char *kind, int rows) {
  static const unsigned char zeros[64];
  struct message graph = {0}, weights = {0};
  put_node(&graph, kind, "x", "weights", "inner");
  put_node(&graph, "Add", "inner", "x", "more");
  put_text(&graph, 2, "sums");
  put_number(&weights, 1, rows);
  put_number(&weights, 1, 3);
  put_number(&weights, 2, 1);
  put_text(&weights, 8, "weights");
  put_bytes(&weights, 9, zeros, (size_t)rows * 3 * sizeof(float));
  put(&graph, 5, &weights);
  put_tensor(&graph, 11, "x");
  put_tensor(&graph, 12, "more");
  return model_of(&graph);
}

static enum vx_status run_rows(struct vx_network *network, int64_t rows, struct error *error) {
  float *x = test_calloc((size_t)rows * 3, sizeof *x), *y = test_calloc((size_t)rows * 3, sizeof *y);
  x[rows * 3 - 1] = 1.5F;
  const struct vx_network_value in = value("x", rows, 3, x), out = value("more", rows, 3, y);
  enum vx_status status = engine->network_run(network, &(struct vx_network_run){1, 1, &in, &out}, error);
  if (status == VX_OK) assert_float_equal(y[rows * 3 - 1], 3, 0);
  test_free(x);
  test_free(y);
  return status;
}

// ONNX Runtime keeps a block of memory after each run, and frees the kept blocks when it has no room for a new one.
static void try_bounded_runs(struct vx_network *network) {
  struct error error = {0};
  for (int round = 0; round < 3; round++)
    for (int64_t rows = 10000; rows <= 70000; rows += 10000)
      if (run_rows(network, rows, &error) != VX_OK) fail_msg("%lld rows: %s", (long long)rows, error.text);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(run_rows(network, 100000, &error), VX_OUT_OF_MEMORY);
    const char *words = "onnxruntime: out of memory: Available memory of ";
    if (strncmp(error.text, words, strlen(words)) != 0) fail_msg("%s", error.text);
    assert_int_equal(run_rows(network, 80000, &error), VX_OK);
  }
}

static void try_bounds(const char *library_path, const char *within, size_t within_size, const char *beyond,
                       size_t beyond_size) {
  struct vx_engine_library *library;
  struct vx_network *network = NULL, *free_network = NULL;
  struct error error = {0};
  size_t usual = bound;
  assert_int_equal(engine->open(library_path, &library, &error), VX_OK);
  write_network(within, within_size);
  if (engine->network_open(library, path, 1, bound, &network, &error) != VX_OK) fail_msg("%s", error.text);
  bound = 0;
  assert_int_equal(engine->network_open(library, path, 1, bound, &free_network, &error), VX_OK);
  try_bounded_runs(network);
  assert_int_equal(run_rows(free_network, 100000, &error), VX_OK);
  engine->network_close(network);
  engine->network_close(free_network);
  write_network(beyond, beyond_size);
  enum vx_status status = engine->network_open(library, path, 1, 8, &network, &error);
  if (status != VX_OUT_OF_MEMORY)  // some versions of ONNX Runtime fail by themselves
    assert_string_equal(error.text, "its weights take more than its limit of 8 bytes");
  engine->close(library);
  bound = usual;
}

static void a_network_takes_no_more_memory_than_it_may(void **state) {
  (void)state;
  static const char within[] = "standin\nmemory 1000 12\ninput x 1 -1 3\noutput more 1 2 0 -1 3\n";
  static const char beyond[] = "standin\nmemory 9 0\ninput x 1 -1 3\noutput more 1 2 0 -1 3\n";
  try_bounds(standin_path(), within, sizeof within - 1, beyond, sizeof beyond - 1);
  assert_int_equal(atomic_load(standin("standin_alive")), 0);
}

static void the_real_library_takes_no_more_memory_than_it_may(void **state) {
  (void)state;
  const char *library = need_real_library();
  struct message within = network_with_weights("Add", 1), beyond = network_with_weights("MatMul", 3);
  try_bounds(library, (const char *)within.bytes, within.size, (const char *)beyond.bytes, beyond.size);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_network_describes_its_tensors_and_runs),
      cmocka_unit_test(each_call_that_fails_is_an_error_and_leaks_nothing),
      cmocka_unit_test(a_session_is_where_it_was_asked_for),
      cmocka_unit_test(a_lack_of_memory_is_distinguished_from_other_failures),
      cmocka_unit_test(a_library_without_cuda_has_no_sessions),
      cmocka_unit_test(a_session_is_refused_if_the_file_has_changed),
      cmocka_unit_test(only_regular_files_are_opened),
      cmocka_unit_test(networks_that_do_not_fit_are_refused),
      cmocka_unit_test(runs_that_do_not_fit_are_refused),
      cmocka_unit_test(a_run_of_too_many_tensors_is_refused),
      cmocka_unit_test(a_missing_library_is_named),
      cmocka_unit_test(the_real_library_runs_a_network),
      cmocka_unit_test(the_real_library_refuses_what_does_not_fit),
      cmocka_unit_test(a_network_takes_no_more_memory_than_it_may),
      cmocka_unit_test(the_real_library_takes_no_more_memory_than_it_may),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
