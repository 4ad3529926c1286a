// Fuzzes the bodies of inference requests, and of requests for the list of models. Any bytes give either an error with
// a reason, or a request with inputs. Reading takes no more memory than infer_json_cost says. One thread.
//
// The input: a byte that chooses the model and how long the JSON is, then the body.
#include <assert.h>
#include <sanitizer/allocator_interface.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/infer.h"
#include "api/wire/infer_answer.h"
#include "api/wire/infer_inputs.h"
#include "api/wire/model.h"
#include "api/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 4 << 20 };

// ---- memory ---------------------------------------------------------------------------------------------------------

// Memory that this thread has allocated. libFuzzer has another thread.
static _Thread_local size_t in_use, most_in_use;
static bool counted;

static void on_malloc(const volatile void *memory, size_t size) {
  (void)memory;
  in_use += size;
  if (in_use > most_in_use) most_in_use = in_use;
}

static void on_free(const volatile void *memory) {
  if (memory) in_use -= __sanitizer_get_allocated_size((const void *)memory);
}

// ---- bodies ---------------------------------------------------------------------------------------------------------

static void check_problem(const struct error *error) {
  assert(error->kind > ERROR_NONE && error->kind < ERROR_COUNT && error->text[0]);
  assert(error->kind != ERROR_MEMORY_FULL);  // the charged memory is enough
}

static void choose_model(uint8_t choice, struct infer *infer, struct job_request *request) {
  static const enum vx_op ops[] = {VX_VOXELIZE, VX_FPS, VX_TRANSFORM};
  enum vx_op op = choice & 64 ? VX_NMS : choice & 32 ? VX_DECODE : ops[choice % 3];
  struct error error;
  job_request_init(request, op);
  *infer = (struct infer){.model = vx_operations[op].name, .version = "1", .preset = choice & 16, .head_bytes = -1};
  bool good = !infer->preset || op != VX_TRANSFORM || job_request_finish(request, &error);
  assert(good);
}

// The length of the JSON: the whole body (-1), its first line, 0, or more than the body.
static int64_t head_bytes(uint8_t choice, const char *body, size_t size) {
  const char *end = memchr(body, '\n', size);
  switch (choice >> 2 & 3) {
    case 0: return -1;
    case 1: return end ? end + 1 - body : -1;
    case 2: return 0;
    default: return (int64_t)size + 1;
  }
}

// Reads the values of all inputs, so that a sanitizer sees a read past an end.
static void check_values(const struct job_request *request) {
  static volatile unsigned char sum;
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    const struct vx_input *input = &request->job.inputs[i];
    size_t bytes = vx_dtype_size(input->dtype);
    for (int d = 0; d < input->rank; d++) bytes *= (size_t)input->dims[d];
    for (size_t j = 0; input->rank && j < bytes; j++) sum += ((const unsigned char *)input->data)[j];
  }
}

// Stands in for shared memory: all bytes are 1, and at odd offsets there is none.
static bool read_shared(void *cls, const struct region_ref *ref, char *out, struct error *error) {
  (void)cls;
  if (ref->offset % 2) return error_refuse(error, ERROR_BAD_BODY, NULL, "there is no such region");
  memset(out, 1, ref->bytes);
  return true;
}

static const struct infer_memory memory = {read_shared, NULL, NULL};

// Takes the inputs as a worker does.
static void take_inputs(const struct infer_body *body, struct job_request *request) {
  struct error error = {.kind = ERROR_NONE};
  size_t bytes = infer_inputs_bytes(&body->inputs);
  char *copy = NULL;
  bool good = infer_inputs_bind(&body->inputs, request);
  if (!good && bytes <= MOST_BYTES) {
    assert(posix_memalign((void **)&copy, VX_TENSOR_ALIGNMENT, bytes) == 0);
    good = infer_inputs_copy(&body->inputs, &memory, copy, request, &error);
    if (!good) check_problem(&error);
  }
  if (good) check_values(request);
  if (good && !job_request_split(request, vx_sizes_of(&request->job).rows, &error)) check_problem(&error);
  free(copy);
}

static void read_body(uint8_t choice, const char *bytes, size_t size) {
  static struct job_request request;
  struct infer infer;
  struct infer_body body;
  struct error error = {.kind = ERROR_NONE};
  size_t without = in_use;
  choose_model(choice, &infer, &request);
  infer.head_bytes = head_bytes(choice, bytes, size);
  size_t before = most_in_use = in_use, cost = infer_json_cost(bytes, infer_json_bytes(&infer, size));
  bool good = infer_read(&body, bytes, size, &memory, &infer, &request, &error);
  assert(counted && most_in_use - before <= cost + POOL_KEPT);  // the request's lists are not in the cost
  if (good) {
    assert(memchr(infer.id, '\0', sizeof infer.id));
    assert(infer_answer_kind(&infer, &request));
    take_inputs(&body, &request);
  } else {
    check_problem(&error);
  }
  infer_end(&body);
  pool_release(&request.pool);
  assert(in_use == without);
}

static void read_index(const char *bytes, size_t size) {
  bool ready;
  struct error error;
  if (!model_read_index(bytes, size, &ready, &error)) check_problem(&error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!counted) counted = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (size == 0) return -1;
  char *body = malloc(size > 1 ? size - 1 : 1);  // of the exact size, so that a sanitizer sees a read past the end
  assert(body);
  memcpy(body, data + 1, size - 1);
  read_body(data[0], body, size - 1);
  read_index(body, size - 1);
  free(body);
  return 0;
}
