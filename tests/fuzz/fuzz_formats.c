// Fuzzes files of points. Any bytes give either an error with a reason, or rows. Rows written over the body equal rows
// written elsewhere. One thread.
//
// The input: a byte that chooses the format and the columns, then the body.
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/gather.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 22 };

static const char *const columns_of[][2] = {
    {"num_features", "3"}, {"num_features", "4"}, {"fields", "x,y,z,intensity,ring"}, {"fields", "a,b,c"}};

static void ask(struct job_request *request, uint8_t choice) {
  struct error error;
  const char *const *columns = columns_of[choice >> 2 & 3];
  job_request_init(request, VX_TRANSFORM);
  bool good = job_request_set(request, columns[0], strlen(columns[0]), columns[1], strlen(columns[1]), &error);
  request->format = FORMAT_PCD + choice % 3;
  if (choice >> 4 & 1)
    good = good &&
           job_request_set(request, "time_field", 10, choice >> 5 & 1 ? "t" : "ring", choice >> 5 & 1 ? 1 : 4, &error);
  if (choice >> 6 & 1)
    good = good && (!request->time.field[0] || job_request_set(request, "time_origin", 11, "first", 5, &error));
  good = good && job_request_finish(request, &error);
  assert(good);
}

static void check_problem(const struct error *error) {
  assert(error->kind > ERROR_NONE && error->kind < ERROR_COUNT && error->text[0]);
}

static void check_hint(const char *body, size_t size) {
  const char *hint = format_hint(FORMAT_RAW, body, size);
  struct error error = {.kind = ERROR_BAD_BODY, .text = "it"};
  format_suggest(FORMAT_RAW, body, size, &error);
  assert(strncmp(error.text, "it", 2) == 0 && (hint != NULL) == (strlen(error.text) > 2));
}

// De-skews the points by the file's times, if it has times.
static void read_times(const struct job_request *request, const struct times *times, char *rows) {
  static const double twist[] = {0, 1, 2, 3, 0.1, 0.2, 0.3};
  static struct vx_motion motion;
  struct deskew_report report = {0};
  struct times own = *times;
  struct error error;
  int64_t points = request->job.inputs[VX_POINTS].dims[0];
  if (!own.values || !points) return;
  times_convert(request, &own, rows, NULL, &report);
  assert(motion_of_twists(twist, &(struct motion_size){1, MOTION_TWIST}, &pose_identity, 0, &motion, &error));
  struct vx_deskew moving = {.times = (const float *)(const void *)own.values, .motion = &motion};
  vx_deskew_rows(&moving, request->num_features, points, NULL, (float *)(void *)rows);
  assert(moving.moved <= points && moving.clamped <= moving.moved);
}

static void gather(const struct job_request *request, struct cloud_file *file, struct cloud_columns *columns,
                   char *body) {
  struct error error = {.kind = ERROR_NONE};
  struct cloud_loss loss, again_loss;
  size_t bytes = (size_t)file->points * job_request_row_bytes(request);
  char *rows = malloc(bytes + 1), *times = malloc((size_t)file->points * sizeof(union time_value) + 1);
  assert(rows && times);
  if (request->time.field[0]) columns->times.values = (union time_value *)(void *)times;
  const char *in_place = cloud_rows(file, columns);
  bool gathered = cloud_gather(file, columns, rows, &loss, &error);
  if (!gathered) check_problem(&error);
  assert(loss.most >= 0 && loss.most < INFINITY);
  if (in_place) assert(gathered && memcmp(in_place, rows, bytes) == 0);
  if (gathered && cloud_shrinks(file, columns)) {
    bool again = cloud_gather(file, columns, body, &again_loss, &error);
    assert(again && memcmp(body, rows, bytes) == 0 && memcmp(&loss, &again_loss, sizeof loss) == 0);
  }
  if (gathered) read_times(request, &columns->times, rows);
  free(times);
  free(rows);
}

static void read_body(const struct job_request *asked, char *body, size_t size) {
  static struct cloud_file file;
  static struct job_request request;
  struct cloud_columns columns;
  struct error error = {.kind = ERROR_NONE};
  char *unpacked = NULL;
  request = *asked;
  check_hint(body, size);
  bool good = format_open(request.format, body, size, NULL, &file, &error) &&
              cloud_choose(&file, &request, &columns, &error) && job_request_split(&request, file.points, &error);
  if (good && file.layout == CLOUD_PACKED) {
    if (file.packing.bytes > MOST_BYTES) return;  // the server has a limit too
    unpacked = malloc(file.packing.bytes + 1);
    assert(unpacked);
    good = cloud_unpack(&file, NULL, unpacked, &error);
  }
  if (good)
    gather(&request, &file, &columns, body);
  else
    check_problem(&error);
  free(unpacked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct job_request request;
  if (size == 0) return -1;
  char *body = malloc(size > 1 ? size - 1 : 1);  // of the exact size, so that a sanitizer sees a read past the end
  assert(body);
  memcpy(body, data + 1, size - 1);
  ask(&request, data[0]);
  read_body(&request, body, size - 1);
  free(body);
  return 0;
}
