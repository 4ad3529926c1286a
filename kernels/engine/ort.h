// The used part of ONNX Runtime's C interface.
//
// The library's function OrtGetApiBase leads to a table of functions. New releases only append to the table, so a
// function keeps its place. The functions copy names, options and shapes; a tensor refers to the caller's data.
#ifndef VOXELD_ENGINE_ORT_H
#define VOXELD_ENGINE_ORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORT_API_VERSION = 17 };  // 1.17 and later have the functions below

struct ort_status;  // NULL: success
struct ort_env;
struct ort_session;
struct ort_session_options;
struct ort_value;
struct ort_type;
struct ort_tensor_type;
struct ort_allocator;
struct ort_memory;
struct ort_run_options;
struct ort_binding;
struct ort_cuda_options;
struct ort_arena_options;

enum { ORT_LOG_FATAL = 4 };
enum { ORT_SEQUENTIAL };
enum { ORT_ALL_OPTIMIZATIONS = 99 };
enum { ORT_DEVICE_ALLOCATOR, ORT_ARENA_ALLOCATOR };
enum { ORT_DEFAULT_MEMORY };
enum { ORT_SAME_AS_REQUESTED = 1 };
#define ORT_CUDA_MEMORY "Cuda"  // the name of a GPU's memory
enum { ORT_FLOAT = 1, ORT_UINT8 = 2, ORT_INT32 = 6, ORT_FLOAT16 = 10 };

typedef void (*ort_function)(void);

struct ort_base {
  const ort_function *(*get_api)(uint32_t version);  // NULL if the library is older
  const char *(*get_version)(void);
};

// clang-format off
// The place of each function, a name for it, and its arguments. CALLS return a status. RELEASES take what an earlier
// call made. (The formatter would take the arguments for products.)
#define ORT_CALLS(X)                                                                                                   \
  X(3, create_env, (int log_level, const char *log_name, struct ort_env **env))                                        \
  X(6, disable_telemetry, (const struct ort_env *env))                                                                 \
  X(7, create_session,                                                                                                 \
    (const struct ort_env *env, const char *path, const struct ort_session_options *options,                           \
     struct ort_session **session))                                                                                    \
  X(9, run,                                                                                                            \
    (struct ort_session *session, const struct ort_run_options *run_options, const char *const *input_names,           \
     const struct ort_value *const *inputs, size_t num_inputs, const char *const *output_names, size_t num_outputs,    \
     struct ort_value **outputs))                                                                                      \
  X(10, create_session_options, (struct ort_session_options **options))                                                \
  X(13, set_execution_mode, (struct ort_session_options *options, int mode))                                           \
  X(23, set_optimization, (struct ort_session_options *options, int level))                                            \
  X(24, set_intra_op_threads, (struct ort_session_options *options, int threads))                                      \
  X(25, set_inter_op_threads, (struct ort_session_options *options, int threads))                                      \
  X(30, input_count, (const struct ort_session *session, size_t *count))                                               \
  X(31, output_count, (const struct ort_session *session, size_t *count))                                              \
  X(33, input_type, (const struct ort_session *session, size_t index, struct ort_type **type))                         \
  X(34, output_type, (const struct ort_session *session, size_t index, struct ort_type **type))                        \
  X(36, input_name, (const struct ort_session *session, size_t index, struct ort_allocator *allocator, char **name))   \
  X(37, output_name, (const struct ort_session *session, size_t index, struct ort_allocator *allocator, char **name))  \
  X(39, create_run_options, (struct ort_run_options **options))                                                        \
  X(46, set_terminate, (struct ort_run_options *options))                                                              \
  X(49, create_tensor,                                                                                                 \
    (const struct ort_memory *memory, void *data, size_t bytes, const int64_t *dims, size_t rank, int type,            \
     struct ort_value **value))                                                                                        \
  X(55, tensor_type_of, (const struct ort_type *type, const struct ort_tensor_type **tensor_type))                     \
  X(60, element_type, (const struct ort_tensor_type *type, int *element))                                              \
  X(61, dims_count, (const struct ort_tensor_type *type, size_t *rank))                                                \
  X(62, dims, (const struct ort_tensor_type *type, int64_t *dims, size_t rank))                                        \
  X(68, create_memory,                                                                                                 \
    (const char *name, int allocator, int device, int kind, struct ort_memory **memory))                               \
  X(69, create_cpu_memory, (int allocator, int kind, struct ort_memory **memory))                                      \
  X(75, allocator_take, (struct ort_allocator *allocator, size_t bytes, void **memory))                                \
  X(76, allocator_free, (struct ort_allocator *allocator, void *memory))                                               \
  X(78, default_allocator, (struct ort_allocator **allocator))                                                         \
  X(130, add_session_config, (struct ort_session_options *options, const char *key, const char *value))                \
  X(131, create_allocator,                                                                                             \
    (const struct ort_session *session, const struct ort_memory *memory, struct ort_allocator **allocator))            \
  X(133, run_bound,                                                                                                    \
    (struct ort_session *session, const struct ort_run_options *run_options, const struct ort_binding *binding))       \
  X(134, create_binding, (struct ort_session *session, struct ort_binding **binding))                                  \
  X(136, bind_input, (struct ort_binding *binding, const char *name, const struct ort_value *value))                   \
  X(137, bind_output, (struct ort_binding *binding, const char *name, const struct ort_value *value))                  \
  X(144, register_arena,                                                                                               \
    (struct ort_env *env, const struct ort_memory *memory, const struct ort_arena_options *arena))                     \
  X(164, create_arena_options,                                                                                         \
    (const char *const *keys, const size_t *values, size_t count, struct ort_arena_options **arena))                   \
  X(165, add_run_config, (struct ort_run_options *options, const char *key, const char *value))                        \
  X(177, unregister_arena, (struct ort_env *env, const struct ort_memory *memory))                                     \
  X(204, append_cuda, (struct ort_session_options *options, const struct ort_cuda_options *cuda))                      \
  X(205, create_cuda_options, (struct ort_cuda_options **cuda))                                                        \
  X(206, update_cuda_options,                                                                                          \
    (struct ort_cuda_options *cuda, const char *const *keys, const char *const *values, size_t count))                 \
  X(263, update_cuda_pointer, (struct ort_cuda_options *cuda, const char *key, void *value))                           \
  X(273, set_deterministic, (struct ort_session_options *options, bool deterministic))
#define ORT_RELEASES(X)                                                                                                \
  X(92, release_env, (struct ort_env *env))                                                                            \
  X(93, release_status, (struct ort_status *status))                                                                   \
  X(94, release_memory, (struct ort_memory *memory))                                                                   \
  X(95, release_session, (struct ort_session *session))                                                                \
  X(96, release_value, (struct ort_value *value))                                                                      \
  X(97, release_run_options, (struct ort_run_options *options))                                                        \
  X(98, release_type, (struct ort_type *type))                                                                         \
  X(100, release_session_options, (struct ort_session_options *options))                                               \
  X(132, release_allocator, (struct ort_allocator *allocator))                                                         \
  X(135, release_binding, (struct ort_binding *binding))                                                               \
  X(157, release_arena_options, (struct ort_arena_options *arena))                                                     \
  X(208, release_cuda_options, (struct ort_cuda_options *cuda))
// clang-format on

enum { ORT_ERROR_MESSAGE = 2 };  // the place of error_message, which is neither a call nor a release

struct ort_api {
  // NOLINTBEGIN(bugprone-macro-parentheses): declarations
  const char *(*error_message)(const struct ort_status *status);
#define X(place, name, arguments) struct ort_status *(*name)arguments;
  ORT_CALLS(X)
#undef X
#define X(place, name, arguments) void(*name) arguments;
  ORT_RELEASES(X)
#undef X
  // NOLINTEND(bugprone-macro-parentheses)
};

#endif
