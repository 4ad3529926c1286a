// Code that reads a body or writes an answer ends if the job is stopped.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "api/base/json.h"
#include "api/wire/answers.h"
#include "api/wire/gather.h"
#include "api/wire/infer_answer.h"
#include "api/wire/join.h"
#include "api/wire/lzf.h"
#include "api/wire/times.h"
#include "api/wire/widen.h"
#include "api/wire/wire.h"

enum { ROWS = 3 << 16, COLUMNS = 4, ROW_BYTES = COLUMNS * (int)sizeof(float) };

static float rows[ROWS][COLUMNS], out[ROWS][COLUMNS];
static struct job_request request;

static int make_rows(void **state) {
  (void)state;
  struct error error;
  for (int i = 0; i < ROWS; i++)
    for (int c = 0; c < COLUMNS; c++) rows[i][c] = (float)(i * 7 % 101) / 8;
  job_request_init(&request, VX_TRANSFORM);
  return job_request_finish(&request, &error) && job_request_split(&request, ROWS, &error) ? 0 : -1;
}

// ---- long passes ----------------------------------------------------------------------------------------------------

// Reads a file: the header, then `line` `number` times.
static bool read_file(enum body_format format, const char *header, const char *line, int number, struct vx_stop *stop) {
  static struct cloud_file file;
  struct cloud_columns columns;
  struct cloud_loss loss;
  struct error error;
  size_t head = strlen(header), each = strlen(line), size = head + each * (size_t)number;
  char *body = malloc(size + 1);  // each memcpy copies a NUL too
  assert_non_null(body);
  memcpy(body, header, head + 1);
  for (int i = 0; i < number; i++) memcpy(body + head + each * (size_t)i, line, each + 1);
  bool good = format_open(format, body, size, stop, &file, &error) && cloud_choose(&file, &request, &columns, &error) &&
              cloud_gather(&file, &columns, (char *)out, &loss, &error);
  free(body);
  return good;
}

#define FIELDS "FIELDS x y z i\nSIZE 4 4 4 4\nTYPE F F F F\n"

static bool read_text(struct vx_stop *stop) {
  return read_file(FORMAT_PCD, FIELDS "POINTS 196608\nDATA ascii\n", "1 2.5 3 4\n", ROWS, stop);
}

static bool read_comments(struct vx_stop *stop) {
  return read_file(FORMAT_PCD, FIELDS "POINTS 0\n", "# nothing\n", ROWS, stop);
}

static bool read_binary(struct vx_stop *stop) {
  return read_file(FORMAT_PCD, FIELDS "POINTS 196608\nDATA binary\n", "0123456789abcdef", ROWS, stop);
}

static const char vertices[] = "property float x\nproperty float y\nproperty float z\nproperty float i\nend_header\n";

static bool skip_faces(struct vx_stop *stop) {
  char header[300];
  snprintf(header, sizeof header,
           "ply\nformat binary_little_endian 1.0\nelement face %d\nproperty uint8 a\nelement vertex 0\n%s", ROWS,
           vertices);
  return read_file(FORMAT_PLY, header, "x", ROWS, stop);
}

static bool unpack(struct vx_stop *stop) {
  static char packed[2 * ROWS];
  for (int i = 0; i < ROWS; i++) packed[2 * i + 1] = 'x';  // each byte is a run
  return lzf_unpack(packed, sizeof packed, (char *)out, ROWS, stop);
}

static bool read_blob(struct vx_stop *stop) {
  static const char head[] = "CLOUDINI_V02\0\0\3\0\1\0\0\0\20\0\0\0\0\0\4\0";  // 196608 points
  static const char field[] = "\1\0x\0\0\0\0\7\0\0\0\0";
  static char blob[sizeof head - 1 + COLUMNS * (sizeof field - 1) + sizeof rows];
  static struct cloud_file file;
  struct error error;
  char *at = blob + sizeof head - 1;
  memcpy(blob, head, sizeof head - 1);
  for (int c = 0; c < COLUMNS; c++, at += sizeof field - 1) {
    memcpy(at, field, sizeof field - 1);
    at[2] = (char)('x' + c);
  }
  memcpy(at, rows, sizeof rows);
  return format_open(FORMAT_CLOUDINI, blob, sizeof blob, stop, &file, &error) &&
         cloud_unpack(&file, NULL, (char *)out, &error);
}

static bool widen(struct vx_stop *stop) {
  struct cloud_loss loss = {0};
  rows_widen(&request, (const char *)rows, stop, out[0], &loss);
  return !stop->has_stopped;
}

static bool scale(struct vx_stop *stop) {
  request.intensity_scale = 0.5F;
  cloud_scale(&request, 3, stop, (char *)out);
  request.intensity_scale = 0;
  return !stop->has_stopped;
}

static bool read_json(struct vx_stop *stop) {
  static char text[2 * ROWS + 2];
  const struct vx_input tensor = {VX_UINT8, 1, {ROWS}, NULL};
  struct json_document list;
  struct error error;
  for (int i = 0; i < ROWS; i++) {
    text[2 * i] = i ? ',' : '[';
    text[2 * i + 1] = '1';
  }
  text[2 * ROWS] = ']';
  bool good = json_open_sent(&list, "the list", text, 2 * ROWS + 1, stop, &error) &&
              infer_write_numbers(list.root, &tensor, ROWS, stop, (char *)out);
  json_close(&list);
  return good;
}

static bool join(struct vx_stop *stop) {
  const struct join_sweep sweep = {.rows = rows, .points = ROWS};
  const struct join_terms terms = {VX_FLOAT32, COLUMNS, false, 0};
  float *end = out[0];
  return join_rows(&sweep, &terms, stop, &end).joined == ROWS;
}

static union time_value times_of_rows[ROWS];

static bool take_times(struct vx_stop *stop) {
  struct times times = {.column = -1, .values = times_of_rows};
  times_from_rows(&request, 3, (const char *)rows, stop, &times);
  return !stop->has_stopped;
}

static bool convert_times(struct vx_stop *stop) {
  struct times times = {.kind = TIME_DOUBLE, .column = 3, .values = times_of_rows};
  struct deskew_report report = {0};
  request.time.origin.kind = ORIGIN_FIRST;
  times_convert(&request, &times, (char *)out, stop, &report);
  return !stop->has_stopped;
}

static bool deskew(struct vx_stop *stop) {
  static const float times[ROWS];
  static const struct vx_motion still = {.count = 1, .segments = {{.pose = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}}}};
  struct vx_deskew moving = {.times = times, .motion = &still};
  vx_deskew_rows(&moving, COLUMNS, ROWS, stop, out[0]);
  return moving.moved == ROWS;
}

static bool write_answer(const struct answer_kind *kind, struct vx_stop *stop) {
  static const int32_t counts[] = {ROWS};
  static struct infer infer = {.model = "transform", .version = "1"};
  static _Alignas(VX_TENSOR_ALIGNMENT) char tensors[ROWS * (ROW_BYTES + 4) + 128];
  struct vx_job job = job_request_job(&request, rows);
  struct answer answer = {.request_id = "id", .backend = "cpu", .device = "cpu", .request = &request, .job = &job};
  struct vx_layout layout;
  struct error error;
  struct text text = text_over(NULL, 0);
  static struct vx_chain_report report;
  job.row_counts = (int32_t *)counts;
  job.report = &report;
  job.counts.received = job.counts.kept = ROWS;
  answer.infer = kind == &infer_json ? &infer : NULL;
  struct vx_sizes sizes = vx_sizes_of(&job);
  sizes.left = ROWS;
  assert_int_equal(
      vx_layout_of(VX_TENSOR_BIT(VX_LEFT_POINTS) | VX_TENSOR_BIT(VX_POINT_INDICES), &sizes, &layout, &error), VX_OK);
  assert_true(layout.bytes <= sizeof tensors);
  assert_true(kind->write(&answer, &layout, NULL, &text, &error));
  size_t measured = text.length, room = measured + 1;
  char *file = malloc(room);
  assert_non_null(file);
  text = text_over(file, room);
  answer.stop = stop;
  assert_true(kind->write(&answer, &layout, tensors, &text, &error));
  assert_true(text.length <= measured);
  free(file);
  return !stop->has_stopped;
}

static bool write_npz(struct vx_stop *stop) { return write_answer(answer_kind_of("application/x-npz"), stop); }
static bool write_shuffled(struct vx_stop *stop) {
  return write_answer(answer_kind_of("application/x-shuffled-safetensors"), stop);
}
static bool write_mcap(struct vx_stop *stop) { return write_answer(answer_kind_of("application/x-mcap"), stop); }
static bool write_json(struct vx_stop *stop) { return write_answer(&infer_json, stop); }

// ---- stopping it ----------------------------------------------------------------------------------------------------

static const struct {
  const char *name;
  bool (*run)(struct vx_stop *stop);
  bool fails;  // fails even if not stopped
} passes[] = {
    {"text", read_text, false},
    {"comments", read_comments, true},
    {"binary rows", read_binary, false},
    {"faces", skip_faces, false},
    {"LZF", unpack, false},
    {"cloudini", read_blob, false},
    {"widening", widen, false},
    {"intensity", scale, false},
    {"JSON", read_json, false},
    {"sweeps", join, false},
    {"times", take_times, false},
    {"seconds", convert_times, false},
    {"de-skew", deskew, false},
    {"npz", write_npz, false},
    {"shuffled tensors", write_shuffled, false},
    {"MCAP", write_mcap, false},
    {"JSON answer", write_json, false},
};

struct asker {
  int asked, most;
};

static bool is_stopped(void *cls) {
  struct asker *asker = cls;
  return ++asker->asked >= asker->most;
}

static void each_ends_when_the_job_is_stopped(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    struct asker asker = {0, INT32_MAX};
    struct vx_stop stop = {is_stopped, &asker, 0, false};
    if (passes[i].run(&stop) == passes[i].fails) fail_msg("%s: the pass did not end as expected", passes[i].name);
    int questions = asker.asked;
    if (questions == 0) fail_msg("%s: `stopped` was never called", passes[i].name);
    for (int question = 1; question <= questions; question++) {
      asker = (struct asker){0, question};
      stop = (struct vx_stop){is_stopped, &asker, 0, false};
      (void)passes[i].run(&stop);  // the caller of a pass checks `stop`
      if (!stop.has_stopped || asker.asked != question)
        fail_msg("%s: not stopped at call %d of `stopped`", passes[i].name, question);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_ends_when_the_job_is_stopped)};
  return cmocka_run_group_tests(tests, make_rows, NULL);
}
