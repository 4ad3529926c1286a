// Fuzzes the bodies of inference requests: any bytes give either a request with its points, all of them inside of the
// body or written from its JSON, or a problem with a reason. Reading takes no more memory than was charged for it. The
// body is also read as a request for the list of models. One thread.
//
// The input: a byte that chooses the model and how long the JSON is, then the body.
#include <assert.h>
#include <sanitizer/allocator_interface.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/infer.h"
#include "api/wire/infer_answer.h"
#include "api/wire/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_VALUES = 1 << 20 };

// ---- memory ---------------------------------------------------------------------------------------------------------

// Of this thread: libFuzzer has one of its own.
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

static void check_problem(const struct problem *problem) {
  assert(problem->kind > PROBLEM_NONE && problem->kind < PROBLEM_COUNT && problem->detail[0]);
}

// A preset, or an operation with its defaults.
static void choose_model(uint8_t choice, struct infer *infer, struct job_request *request) {
  static const enum vx_op ops[] = {VX_VOXELIZE, VX_FPS, VX_TRANSFORM};
  enum vx_op op = ops[choice % 3];
  struct problem problem;
  job_request_init(request, op);
  *infer = (struct infer){.model = vx_operation_of(op)->name, .preset = choice & 16, .head_bytes = -1};
  bool good = !infer->preset || op != VX_TRANSFORM || job_request_finish(request, &problem);
  assert(good);
}

// All of it, up to the first end of a line, none, or more than there is.
static int64_t head_bytes(uint8_t choice, const char *body, size_t size) {
  const char *end = memchr(body, '\n', size);
  switch (choice >> 2 & 3) {
    case 0: return -1;
    case 1: return end ? end + 1 - body : -1;
    case 2: return 0;
    default: return (int64_t)size + 1;
  }
}

static void check_points(const struct infer_body *body, const struct job_request *request, const char *bytes,
                         size_t size) {
  struct problem problem;
  int64_t values = body->rows * body->columns;
  assert(body->rows >= 0 && body->columns == request->num_features && !body->data + !body->points == 1);
  if (body->points) {
    size_t needed = (size_t)body->rows * job_request_row_bytes(request);
    assert(body->points >= bytes && needed <= size - (size_t)(body->points - bytes));
  } else if (values <= MOST_VALUES) {
    float *rows = malloc((size_t)values * sizeof *rows + 1);
    assert(rows);
    if (!infer_write_rows(body, rows, &problem)) check_problem(&problem);
    free(rows);
  }
}

static void read_body(uint8_t choice, const char *bytes, size_t size) {
  static struct job_request request;
  struct infer infer;
  struct infer_body body;
  struct problem problem = {.kind = PROBLEM_NONE};
  choose_model(choice, &infer, &request);
  infer.head_bytes = head_bytes(choice, bytes, size);
  size_t before = most_in_use = in_use, cost = infer_json_cost(&infer, bytes, size);
  bool good = infer_read(&body, bytes, size, &infer, &request, &problem);
  assert(counted && most_in_use - before <= cost);
  if (good) {
    check_points(&body, &request, bytes, size);
    assert(memchr(infer.id, '\0', sizeof infer.id));
    assert(infer_answer_kind(&infer, &request));
    if (!job_request_split(&request, body.rows, &problem)) check_problem(&problem);
  } else {
    check_problem(&problem);
  }
  infer_end(&body);
  assert(in_use == before);
}

static void read_index(const char *bytes, size_t size) {
  bool ready;
  struct problem problem;
  if (!model_read_index(bytes, size, &ready, &problem)) check_problem(&problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!counted) counted = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
  if (size == 0) return -1;
  char *body = malloc(size > 1 ? size - 1 : 1);  // of the exact size, so that a read past its end is seen
  assert(body);
  memcpy(body, data + 1, size - 1);
  read_body(data[0], body, size - 1);
  read_index(body, size - 1);
  free(body);
  return 0;
}
