// rows_widen, which uses the vector instructions of this processor, gives the same bytes as rows_widen_any.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "api/wire/loss.h"
#include "api/wire/widen.h"

enum { COLUMNS = VX_SENT_TYPES, MOST_ROWS = 3000 };

static uint64_t state_of_random = 1;

static uint32_t next_random(void) {
  state_of_random = state_of_random * 6364136223846793005U + 1442695040888963407U;
  return (uint32_t)(state_of_random >> 32);
}

// Random bytes. With `most` < 256, only every fourth run of `rows` bytes is not 0: in a shuffled body of int32, the
// lowest bytes. So differences are small, as in a sensor's numbers. Near 0, the guesses of the filter direction are
// often midway between two integers.
static void make_body(const struct job_request *request, char *body, int64_t rows, uint32_t most) {
  size_t size = (size_t)rows * job_request_row_bytes(request);
  for (size_t i = 0; i < size; i++) {
    bool low = most == 256 || (int64_t)i / rows % 4 == 0;
    body[i] = (char)(low ? next_random() % most : 0);
  }
}

static void make_request(struct job_request *request, const char *filter, int columns, int64_t rows) {
  static double scales[COLUMNS] = {0.001, 0.001, 0.001, 0.01, 2.5, 3e8};
  bool integers = filter && strcmp(filter, "shuffle") != 0;
  struct error error;
  job_request_init(request, VX_TRANSFORM);
  if (filter) assert_true(job_request_set(request, "filter", 6, filter, strlen(filter), &error));
  request->columns.num_types = columns;
  request->scales = scales;
  request->columns.num_scales = columns - columns % 2;
  for (int c = 0; c < columns; c++) {
    enum vx_dtype integer = c < 3 ? VX_INT32 : VX_INT32 + (enum vx_dtype)c - 3;
    request->columns.types[c] = integers ? integer : (enum vx_dtype)c;
  }
  assert_true(job_request_finish(request, &error) && job_request_split(request, rows, &error));
}

static void check(const char *filter, int columns, int64_t rows, uint32_t most) {
  static struct job_request request;
  static char body[COLUMNS * sizeof(float) * MOST_ROWS];
  static float here[COLUMNS * MOST_ROWS], any[COLUMNS * MOST_ROWS];
  struct cloud_loss loss_here = {0}, loss_any = {0};
  make_request(&request, filter, columns, rows);
  make_body(&request, body, rows, most);
  memset(here, 0, sizeof here);
  memset(any, 1, sizeof any);
  rows_widen(&request, body, NULL, here, &loss_here);
  rows_widen_any(&request, body, NULL, any, &loss_any);
  assert_memory_equal(here, any, (size_t)(rows * columns) * sizeof *here);
  assert_true(loss_here.most == loss_any.most && loss_here.at == loss_any.at);
}

static void rows_are_the_same_on_every_processor(void **state) {
  (void)state;
  static const char *const filters[] = {NULL, "shuffle", "delta", "delta,shuffle", "direction", "direction,shuffle"};
  static const int64_t counts[] = {1, 63, 64, 255, 256, 257, MOST_ROWS};
  for (int f = 0; f < 6; f++)
    for (int columns = 3; columns <= COLUMNS; columns++)
      for (int i = 0; i < 7; i++)
        for (uint32_t most = 4; most <= 256; most *= 4) check(filters[f], columns, counts[i], most);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_the_same_on_every_processor)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
