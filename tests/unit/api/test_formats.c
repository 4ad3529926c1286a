// Files of points: headers, errors, and the rows that come out. oracle.formats compares whole answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/decimal.h"
#include "api/wire/gather.h"
#include "api/wire/lzf.h"
#include "kernels/half.h"

static struct job_request request;
static struct error error;
static struct cloud_loss loss;

static void ask(enum body_format format, const char *parameters) {
  job_request_init(&request, VX_TRANSFORM);
  for (const char *at = parameters; *at; at += strcspn(at, "&"), at += *at == '&') {
    const char *equals = strchr(at, '=');
    if (!job_request_set(&request, at, (size_t)(equals - at), equals + 1, strcspn(equals + 1, "&"), &error))
      fail_msg("%s", error.text);
  }
  request.format = format;
  if (!job_request_finish(&request, &error)) fail_msg("%s", error.text);
}

// The rows of the file, which the caller frees; NULL with an error. The body is copied into memory of its exact size,
// so that a sanitizer sees a read past the end.
static float *read_file(enum body_format format, const char *bytes, size_t size, const char *parameters) {
  static struct cloud_file file;
  struct cloud_columns columns;
  char *body = malloc(size ? size : 1), *unpacked = NULL;
  float *rows = NULL;
  assert_non_null(body);
  memcpy(body, bytes, size);
  ask(format, parameters);
  error = (struct error){.kind = ERROR_NONE};
  bool good = format_open(format, body, size, NULL, &file, &error) && cloud_choose(&file, &request, &columns, &error) &&
              job_request_split(&request, file.points, &error);
  if (good && file.layout == CLOUD_PACKED) {
    unpacked = malloc(file.packing.bytes + 1);
    good = cloud_unpack(&file, NULL, unpacked, &error);
  }
  if (good) rows = malloc((size_t)(file.points + 1) * job_request_row_bytes(&request));
  if (good && !cloud_gather(&file, &columns, (char *)rows, &loss, &error)) {
    free(rows);
    rows = NULL;
  }
  assert_int_equal(rows != NULL, error.kind == ERROR_NONE);
  if (rows && request.intensity_scale != 0) cloud_scale(&request, columns.intensity, NULL, (char *)rows);
  free(unpacked);
  free(body);
  return rows;
}

static void gives(enum body_format format, const char *bytes, size_t size, const char *parameters, int count,
                  const float *expected) {
  float *rows = read_file(format, bytes, size, parameters);
  if (!rows) fail_msg("%s", error.text);
  assert_int_equal(request.job.inputs[VX_POINTS].dims[0] * request.num_features, count);
  assert_memory_equal(rows, expected, (size_t)count * sizeof *expected);
  free(rows);
}

static void is_refused(enum body_format format, const char *bytes, size_t size, const char *parameters,
                       const char *reason) {
  float *rows = read_file(format, bytes, size, parameters);
  if (rows) fail_msg("not refused: %.*s", (int)size, bytes);
  assert_int_equal(error.kind, ERROR_BAD_BODY);
  if (!strstr(error.text, reason)) fail_msg("'%s', not '%s'", error.text, reason);
}

// ---- PCD ------------------------------------------------------------------------------------------------------------

#define XYZ "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\n"
#define TEXT XYZ "POINTS 2\nDATA ascii\n"

static void pcd_is_read(void **state) {
  (void)state;
  const float plain[] = {1, 2, 3, -4, 5e-3f, 6};
  const float turned[] = {2, 3, 1, 9};
  static const char *const texts[] = {
      TEXT "1 2 3\n-4 5e-3 6\n", TEXT "1 2 3\n\n \t\n-4 5e-3 6",
      "# .PCD v.7\r\nVERSION .7\r\nCOLUMNS x y z\r\nSIZE 4 4 4\r\nTYPE F F F\r\nCOUNT 1 1 1\r\nWIDTH 2\r\nHEIGHT 1\r\n"
      "VIEWPOINT 0 0 0 1 0 0 0\r\nDATA ascii\r\n1 2 3\r\n-4\t5e-3  6\r\n",
      "FIELDS a _ x y z\nSIZE 4 1 4 4 4\nTYPE F U F F F\nCOUNT 2 1 1 1 1\nPOINTS 2\nDATA ascii\n"
      "7 7 7 1 2 3\n7 7 7 -4 5e-3 6\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    gives(FORMAT_PCD, texts[i], strlen(texts[i]), "num_features=3", 6, plain);
  static const char other[] = "FIELDS z i x y\nSIZE 8 2 4 1\nTYPE F U I I\nPOINTS 1\nDATA ascii\n1 9 2 3\n";
  gives(FORMAT_PCD, other, sizeof other - 1, "num_features=4", 4, turned);
  static const char none[] = XYZ "WIDTH 0\nHEIGHT 1\nPOINTS 0\nDATA binary_compressed\n\0\0\0\0\0\0\0\0";
  gives(FORMAT_PCD, none, sizeof none - 1, "num_features=3", 0, plain);
}

// Headers as different writers make them; each gives the same two points.
static void pcd_of_many_writers_is_read(void **state) {
  (void)state;
  const float points[] = {1, 2, 3, 4, 5, 6};
  static const char *const texts[] = {"FIELDS x y z\nPOINTS 2\nDATA ascii\n1 2 3\n4 5 6\n",
                                      "FIELDS x y z\nWIDTH 2\nDATA ascii\n1 2 3\n4 5 6\n",
                                      "FIELDS x y z\nTYPE f u i\nPOINTS 2\nDATA ascii\n1 2 3\n4 5 6\n",
                                      "fields X Y Z\nSize 8 8 8\nPoints 2\ndata ASCII\n1 2 3\n4 5 6\n",
                                      "FIELDS x y X z _\nCOUNT 1 1 1 1 0\nPOINTS 2\nDATA ascii\n1 2 9 3\n4 5 9 6\n",
                                      "FIELDS x y z\rPOINTS 2\rDATA ascii\r1 2 3\r4 5 6\r",
                                      "FIELDS x y z\rPOINTS 2\rDATA ascii\r1 2 3\n4 5 6\n",
                                      "FIELDS x y z\nPOINTS 2\nDATA ascii\n1 2 3\r\r\n4 5 6\r\r\n",
                                      "FIELDS x y z\r\r\nPOINTS 2\r\r\nDATA ascii\r\r\n1 2 3\r\r\n4 5 6\r\r\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    gives(FORMAT_PCD, texts[i], strlen(texts[i]), "num_features=3", 6, points);
  gives(FORMAT_PCD, texts[3], strlen(texts[3]), "fields=X,Y,Z", 6, points);
  static const char nuls[] = "FIELDS x y z\nPOINTS 2\nDATA ascii\n1 2 3\n4 5 6\n\0\0\0";
  gives(FORMAT_PCD, nuls, sizeof nuls, "num_features=3", 6, points);
  static const char padded[] = "FIELDS _ x _ y z\nSIZE 1 1 2 1 1\nTYPE U U U U U\nCOUNT 2 1 0 1 1\nPOINTS 2\n"
                               "DATA binary\n\7\7\1\2\3\7\7\4\5\6";
  gives(FORMAT_PCD, padded, sizeof padded - 1, "num_features=3", 6, points);
  // If the header's lines end in CR alone, a LF after the header belongs to a point.
  static const char back[] = "FIELDS x y z\rSIZE 1 1 1\rTYPE U U U\rPOINTS 2\rDATA binary\r\n\2\3\4\5\6";
  const float first[] = {10, 2, 3, 4, 5, 6};
  gives(FORMAT_PCD, back, sizeof back - 1, "num_features=3", 6, first);
  // CR CR LF is one end of line, as after converting the ends of lines twice.
  static const char twice[] =
      "FIELDS x y z\r\r\nSIZE 1 1 1\r\r\nTYPE U U U\r\r\nPOINTS 2\r\r\nDATA binary\r\r\n\n\2\3\4\5\6";
  gives(FORMAT_PCD, twice, sizeof twice - 1, "num_features=3", 6, first);
}

// The Point Cloud Library fills the last page with zeros.
static void zeros_after_the_points_are_ignored(void **state) {
  (void)state;
  const float points[] = {1, 2, 3, 4, 5, 6};
  static const char *const heads[][2] = {
      {"FIELDS x y z\nSIZE 1 1 1\nTYPE U U U\nPOINTS 2\nDATA binary\n", "FIELDS x y z\nPOINTS 0\nDATA binary\n"},
      {"ply\nformat binary_little_endian 1.0\nelement vertex 2\nproperty uchar x\nproperty uchar y\n"
       "property uchar z\nend_header\n",
       "ply\nformat binary_big_endian 1.0\nelement vertex 0\nproperty int x\nproperty int y\nproperty int z\n"
       "end_header\n"}};
  static char body[4096];
  for (int format = 0; format < 2; format++)
    for (int none = 0; none < 2; none++) {
      size_t head = strlen(heads[format][none]);
      memset(body, 0, sizeof body);
      snprintf(body, sizeof body, "%s", heads[format][none]);
      for (int value = 1; value <= 6 && !none; value++) body[head + (size_t)value - 1] = (char)value;
      gives(FORMAT_PCD + format, body, sizeof body, "num_features=3", none ? 0 : 6, points);
      gives(FORMAT_PCD + format, body, head + (none ? 0 : 6), "num_features=3", none ? 0 : 6, points);
      body[sizeof body - 1] = 1;
      is_refused(FORMAT_PCD + format, body, sizeof body, "num_features=3", "are too many");
    }
}

static void pcd_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"", "the body is empty"},
      {"\n", "the PCD header ends without DATA, after line 1"},
      {"FIELDS x y z\nPINTS 3\n", "line 2: 'PINTS' is not an entry of a PCD header"},
      {"SIZE 4 4 4\n" XYZ, "line 1: SIZE has 3 values; allowed: 0, one for each name in the line FIELDS"},
      {"FIELDS x y z\nSIZE 4 4\n", "line 2: SIZE has 2 values; allowed: 3"},
      {"FIELDS x y z\nSIZE 4 4 9\n", "line 2: SIZE has '9'; allowed: 1, 2, 4 or 8"},
      {"FIELDS x y z\nTYPE F F D\n", "line 2: TYPE has 'D'; allowed: I, U or F"},
      {"FIELDS x y z\nCOUNT 1 1 -1\n", "line 2: COUNT has '-1'; allowed: a whole number"},
      {"FIELDS x y z\nCOUNT 1 1 0\nPOINTS 1\nDATA ascii\n1 2\n", "no field z of one value; it has x, y, z (0 values)"},
      {XYZ "HEIGHT 2\nDATA ascii\n", "neither POINTS nor WIDTH"},
      {XYZ "WIDTH 2\nPOINTS 3\nDATA ascii\n", "WIDTH 2 times HEIGHT 1 is not POINTS, 3"},
      {XYZ "WIDTH -1\n", "line 4: WIDTH has '-1'; allowed: one whole number"},
      {XYZ "POINTS 1 2\n", "line 4: POINTS has '1'; allowed: one whole number"},
      {XYZ "POINTS\n", "line 4: POINTS has ''"},
      {XYZ "DATA\n", "line 4: DATA has ''"},
      {XYZ "POINTS 1\nDATA text\n", "DATA has 'text'; allowed: ascii, binary or binary_compressed"},
      {XYZ "DATA ascii\n", "neither POINTS nor WIDTH"},
      {XYZ "WIDTH 2\nHEIGHT 2\nPOINTS 3\nDATA ascii\n", "WIDTH 2 times HEIGHT 2 is not POINTS, 3"},
      {XYZ "WIDTH 9223372036854775807\nHEIGHT 2\nDATA ascii\n", "is not POINTS"},
      {"FIELDS x y z\nSIZE 4 4 2\nPOINTS 0\nDATA binary\n", "field z has TYPE F and SIZE 2"},
      {"FIELDS x y z\nSIZE 4 4 2\nTYPE F F F\nPOINTS 0\nDATA binary\n", "field z has TYPE F and SIZE 2"},
      {"FIELDS\nSIZE\nTYPE\nPOINTS 1\nDATA ascii\n1\n", "no fields"},
      {XYZ "POINTS 2\nDATA binary\n12345678901",
       "promises 2 points of 12 bytes each; the 11 bytes after the header are too few"},
      {XYZ "POINTS 0\nDATA binary\n123456789012",
       "promises 0 points of 12 bytes each; the 12 bytes after the header are too many"},
      {XYZ "POINTS 9223372036854775807\nDATA ascii\n1 2 3\n", "promises 9223372036854775807 points of 3 values each"},
      {TEXT "1.5 2 3\n1 2\n", "line 7 has 2 values; a point has 3"},
      {TEXT "1 2 3\n1 2 3 4\n", "line 7 has 4 values; a point has 3"},
      {TEXT "1 2 3\n1 2,5 4\n", "line 7, field y: '2,5' is not a number"},
      {TEXT "1 2 3\n\n1 0x2 4\n", "line 8, field y: '0x2' is not a number"},
      {TEXT "1 2 3           \n", "ends after line 6 with 1 points; 2 were promised"},
      {TEXT "1 2 3\n1 2 3\n1 2 3\n", "line 8 comes after the 2 points that were promised"},
      {XYZ "POINTS 1\nDATA binary_compressed\n1234567", "ends before the sizes"},
      {XYZ "POINTS 1\nDATA binary_compressed\n\2   \14   1", "bytes of compressed points, but 1 follow"},
      {"ply\nformat ascii 1.0\n", "the body looks like a PLY file: add format=ply"},
      {"\x1f\x8b\x08\x08", "the body looks compressed by gzip: add the header Content-Encoding: gzip"},
      {"\x28\xb5\x2f\xfd ", "the body looks compressed by zstd: add the header Content-Encoding: zstd"},
      {"\x93NUMPY\1", "the body looks like a numpy .npy file"},
      {"LASF", "the body looks like a LAS or LAZ file"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    is_refused(FORMAT_PCD, cases[i].text, strlen(cases[i].text), "num_features=3", cases[i].reason);
  static const char nul[] = "FIELDS x y z\nTYPE F F \0\n";
  is_refused(FORMAT_PCD, nul, sizeof nul - 1, "num_features=3", "line 2: TYPE has '");
}

static void compressed_points_are_checked(void **state) {
  (void)state;
  const float row[] = {0, 0, 0};
  // 12 zeros: one, and 11 that repeat it.
  static const char good[] = XYZ "POINTS 1\nDATA binary_compressed\n\5\0\0\0\14\0\0\0\0\0\340\2\0";
  gives(FORMAT_PCD, good, sizeof good - 1, "num_features=3", 3, row);
  static const char short_[] = XYZ "POINTS 1\nDATA binary_compressed\n\5\0\0\0\14\0\0\0\0\0\340\1\0";
  is_refused(FORMAT_PCD, short_, sizeof short_ - 1, "num_features=3", "do not unpack to the 12 bytes promised");
  static const char other[] = XYZ "POINTS 1\nDATA binary_compressed\n\5\0\0\0\15\0\0\0\0\0\340\2\0";
  is_refused(FORMAT_PCD, other, sizeof other - 1, "num_features=3",
             "unpack to 13 bytes, but 1 points of 12 bytes need 12");
}

static void compressed_points_of_many_writers_are_read(void **state) {
  (void)state;
  const float points[] = {1, 2, 3, 4, 5, 6};
#define BYTES "FIELDS x _ y z\nSIZE 1 1 1 1\nTYPE U U U U\nPOINTS 2\nDATA binary_compressed\n"
  static const char left_out[] = BYTES "\7\0\0\0\6\0\0\0\5\1\4\2\5\3\6";
  gives(FORMAT_PCD, left_out, sizeof left_out - 1, "num_features=3", 6, points);
  static const char with_padding[] = BYTES "\11\0\0\0\10\0\0\0\7\1\4\7\7\2\5\3\6";
  gives(FORMAT_PCD, with_padding, sizeof with_padding - 1, "num_features=3", 6, points);
  static const char paged[] = BYTES "\7\0\0\0\6\0\0\0\5\1\4\2\5\3\6\0\0\0\0";
  gives(FORMAT_PCD, paged, sizeof paged - 1, "num_features=3", 6, points);
  static const char stored[] = BYTES "\6\0\0\0\6\0\0\0\1\4\2\5\3\6";
  gives(FORMAT_PCD, stored, sizeof stored - 1, "num_features=3", 6, points);
  static const char none[] = XYZ "WIDTH 0\nHEIGHT 1\nPOINTS 0\nDATA binary_compressed\n";
  gives(FORMAT_PCD, none, sizeof none - 1, "num_features=3", 0, points);
}

static void lzf_keeps_its_bounds(void **state) {
  (void)state;
  char out[64];
  assert_true(lzf_unpack("\2abc\40\2", 6, out, 6, NULL));
  assert_memory_equal(out, "abcabc", 6);
  assert_true(lzf_unpack("\0a\340\1\0", 5, out, 11, NULL));
  assert_memory_equal(out, "aaaaaaaaaaa", 11);
  assert_true(lzf_unpack("", 0, out, 0, NULL));
  static const struct {
    const char *bytes;
    size_t size, room;
  } bad[] = {{"\2ab", 3, 3},   {"\2abc", 4, 2},      {"\2abc", 4, 4},    {"\40\0", 2, 3},
             {"\0a\40", 3, 4}, {"\0a\340\1", 4, 11}, {"\0a\40\1", 4, 4}, {"\0a\40\0", 4, 3}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (lzf_unpack(bad[i].bytes, bad[i].size, out, bad[i].room, NULL)) fail_msg("case %zu was unpacked", i);
}

// ---- PLY ------------------------------------------------------------------------------------------------------------

#define ASCII "ply\nformat ascii 1.0\n"
#define VERTEX "element vertex 1\nproperty float x\nproperty float y\nproperty float z\n"

static void ply_is_read(void **state) {
  (void)state;
  const float row[] = {1, 2, 3};
  static const char text[] = ASCII "comment a\nobj_info b\nelement list 2\nproperty list uchar int i\n" VERTEX
                                   "element face 9\nproperty list uchar int i\nend_header\n0\n1 5\n1 2 3\n";
  gives(FORMAT_PLY, text, sizeof text - 1, "num_features=3", 3, row);
  static const char binary[] =
      "ply\r\nformat binary_big_endian 1.0\r\nelement list 2\r\nproperty list ushort short i\r\n"
      "element vertex 1\r\nproperty uchar y\r\nproperty double x\r\nproperty short z\r\nend_header\r\n"
      "\0\0\0\1\7\7\2\x3f\xf0\0\0\0\0\0\0\0\3";
  gives(FORMAT_PLY, binary, sizeof binary - 1, "num_features=3", 3, row);
  static const char none[] = "ply\nformat binary_little_endian 1.0\nelement vertex 0\nproperty int x\nproperty int y\n"
                             "property int z\nend_header\n";
  gives(FORMAT_PLY, none, sizeof none - 1, "num_features=3", 0, row);
}

static void ply_of_many_writers_is_read(void **state) {
  (void)state;
  const float row[] = {1, 2, 3}, first[] = {10, 2, 3};
  static const char *const texts[] = {
      "ply \t\nformat ascii 1.0 \n" VERTEX "end_header \n1 2 3\n",
      "ply\rformat ascii 1.0\relement vertex 1\rproperty float x\rproperty float y\rproperty float z\rend_header\r"
      "1 2 3\r",
      "ply\rformat ascii 1.0\relement a 1\rproperty int i\relement vertex 1\rproperty float X\rproperty float Y\r"
      "property float Z\rend_header\r\n7\n1 2 3\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    gives(FORMAT_PLY, texts[i], strlen(texts[i]), "num_features=3", 3, row);
  static const char bools[] =
      "ply\nformat binary_little_endian 1.0\nelement vertex 1\nproperty int8 x\nproperty bool b\n"
      "property uint16 y\nproperty float64 z\nend_header\n\1\1\2\0\0\0\0\0\0\0\x08\x40";
  gives(FORMAT_PLY, bools, sizeof bools - 1, "num_features=3", 3, row);
  static const char back[] = "ply\rformat binary_little_endian 1.0\relement vertex 1\rproperty uint8 x\r"
                             "property uint8 y\rproperty uint8 z\rend_header\r\n\2\3";
  gives(FORMAT_PLY, back, sizeof back - 1, "num_features=3", 3, first);
  static const char twice[] =
      "ply\r\r\nformat binary_little_endian 1.0\r\r\nelement vertex 1\r\r\nproperty uint8 x\r\r\n"
      "property uint8 y\r\r\nproperty uint8 z\r\r\nend_header\r\r\n\n\2\3";
  gives(FORMAT_PLY, twice, sizeof twice - 1, "num_features=3", 3, first);
}

static void lists_of_a_vertex_are_skipped(void **state) {
  (void)state;
  const float points[] = {1, 2, 3, 4, 5, 6};
#define LISTS                                                                                                          \
  " 1.0\nelement vertex 2\nproperty list uchar uchar a\nproperty uchar x\nproperty list ushort double b\n"             \
  "property uchar y\nproperty uchar z\nend_header\n"
  static const char text[] = "ply\nformat ascii" LISTS "2 8 8 1 0 2 3\n0 4 1 0.5 5 6\n";
  gives(FORMAT_PLY, text, sizeof text - 1, "num_features=3", 6, points);
  static const char *const bad[][2] = {{"2 8 8 1 0 2 3\n0 4 2 5 6\n", "line 11 has 3 values; a point has 5"},
                                       {"2 8 8 1 0 2 3\n0 4 3 5 6\n", "line 11 does not have a list of '3' values"},
                                       {"-1 1 0 2 3\n", "line 10 does not have a list of '-1' values"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char body[512];
    snprintf(body, sizeof body, "ply\nformat ascii" LISTS "%s           ", bad[i][0]);
    is_refused(FORMAT_PLY, body, strlen(body), "num_features=3", bad[i][1]);
  }
  is_refused(FORMAT_PLY, text, sizeof text - 1, "fields=x,y,a", "no field a of one value; it has a (a list), x, b");
  static const char binary[] = "ply\nformat binary_big_endian" LISTS "\2\7\7\1\0\0\2\3\0\4\0\1ABCDEFGH\5\6";
  const size_t head = sizeof binary - 1 - 22;
  gives(FORMAT_PLY, binary, sizeof binary - 1, "num_features=3", 6, points);
  for (size_t size = head; size < sizeof binary - 1; size++)
    is_refused(FORMAT_PLY, binary, size, "num_features=3", size < head + 12 ? "are too few" : "the body ends within");
  char longer[sizeof binary + 8] = "";
  memcpy(longer, binary, sizeof binary);
  gives(FORMAT_PLY, longer, sizeof longer, "num_features=3", 6, points);
  longer[sizeof longer - 1] = 1;
  is_refused(FORMAT_PLY, longer, sizeof longer, "num_features=3", "are too many");
}

static void ply_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"", "the body is empty"},
      {"plyx\n", "not with 'plyx'"},
      {"ply\nelement vertex 1\n", "line 2: the format must come first, not 'element'"},
      {"ply\nformat binary 1.0\n",
       "line 2: format must be ascii, binary_little_endian or binary_big_endian, not 'binary'"},
      {ASCII "format ascii 1.0\n", "line 3: there is a second 'format'"},
      {ASCII "property float x\n", "line 3: there is no element for the property 'x'"},
      {ASCII "element vertex\n", "line 3: an element needs a name and a whole number"},
      {ASCII "element vertex -1\n", "line 3: an element needs a name and a whole number, not '-1'"},
      {ASCII "element vertex 1\nproperty half x\n", "line 4: a property cannot have the type 'half'"},
      {ASCII "element vertex 1\nproperty float\n", "line 4: a property has no name after 'float'"},
      {ASCII "element vertex 1\nproperty list uchar int i\nend_header\n0 ",
       "no field x of one value; it has i (a list)"},
      {ASCII "element face 1\nproperty list float int i\n",
       "line 4: the length of a list must have a type of whole numbers, not 'float'"},
      {ASCII "elements vertex 1\n", "line 3: a PLY header cannot have the entry 'elements'"},
      {ASCII VERTEX, "the PLY header ends without end_header, after line 6"},
      {ASCII "end_header\n", "no element vertex"},
      {ASCII "element vertex 1\nend_header\n1\n", "no fields"},
      {ASCII VERTEX "end_header\n1 2\n3\n", "line 8 has 2 values; a point has 3"},
      {ASCII VERTEX "end_header\n1 2 3\n4 5 6\n", "line 9 comes after the 1 points"},
      {ASCII "element a 2\nproperty int i\n" VERTEX "end_header\n1\n", "ends at byte 129, within the elements"},
      {"ply\nformat binary_little_endian 1.0\n" VERTEX "end_header\n12345678901",
       "the 11 bytes after the header are too few"},
      {"ply\nformat binary_little_endian 1.0\n" VERTEX "end_header\n123456789012123456789012", "too many"},
      {"ply\nformat binary_little_endian 1.0\nelement a 9223372036854775807\nproperty int i\n" VERTEX
       "end_header\n1234",
       "within the elements"},
      {"ply\nformat binary_little_endian 1.0\nelement a 1\nproperty list uint double i\n" VERTEX
       "end_header\n\xff\xff\xff\xff 12345678",
       "within the elements"},
      {XYZ "POINTS 0\n", "the body looks like a PCD file: add format=pcd"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    is_refused(FORMAT_PLY, cases[i].text, strlen(cases[i].text), "num_features=3", cases[i].reason);
}

// ---- PointCloud2 ----------------------------------------------------------------------------------------------------

// A message with one point and the fields x, y and z. The comments: offset in the message and what lies there.
static const unsigned char message[] = {
    0, 1, 0,   0,                                                           // 0: little-endian
    1, 0, 0,   0,  2,   0, 0, 0,  2,  0, 0,  0,  'f', 0, 0, 0,              // 4: stamp; 12: frame_id and padding
    1, 0, 0,   0,  1,   0, 0, 0,  3,  0, 0,  0,                             // 20: height; 24: width; 28: fields
    2, 0, 0,   0,  'x', 0, 0, 0,  0,  0, 0,  0,  7,   0, 0, 0, 1, 0, 0, 0,  // 32
    2, 0, 0,   0,  'y', 0, 0, 0,  4,  0, 0,  0,  7,   0, 0, 0, 1, 0, 0, 0,  // 52
    2, 0, 0,   0,  'z', 0, 0, 0,  8,  0, 0,  0,  7,   0, 0, 0, 0, 0, 0, 0,  // 72: with a count of 0
    0, 0, 0,   0,  12,  0, 0, 0,  12, 0, 0,  0,  12,  0, 0, 0,  // 92: is_bigendian; 96, 100: steps; 104: size
    0, 0, 128, 63, 0,   0, 0, 64, 0,  0, 64, 64, 1,             // 108: data; 120: is_dense
};

static void pointcloud2_is_read(void **state) {
  (void)state;
  const float row[] = {1, 2, 3};
  gives(FORMAT_POINTCLOUD2, (const char *)message, sizeof message, "num_features=3", 3, row);
  static const struct {
    size_t place;
    unsigned char value;
  } same[] = {{1, 7}, {100, 0}, {100, 99}};  // XCDR2; row_step, which one row does not need
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    char body[sizeof message];
    memcpy(body, message, sizeof message);
    body[same[i].place] = (char)same[i].value;
    gives(FORMAT_POINTCLOUD2, body, sizeof body, "num_features=3", 3, row);
  }
}

// XCDR2 has the size of the list of fields, in bytes, before the number of fields.
static void xcdr2_is_read(void **state) {
  (void)state;
  const float row[] = {1, 2, 3};
  char body[sizeof message + 4] = "";
  memcpy(body, message, 28);
  body[1] = 7;
  body[28] = 64;  // bytes from the number of fields to the end of the last field
  memcpy(body + 32, message + 28, sizeof message - 28);
  gives(FORMAT_POINTCLOUD2, body, sizeof body, "num_features=3", 3, row);
  body[28] = 63;
  is_refused(FORMAT_POINTCLOUD2, body, sizeof body, "num_features=3", "");
}

static void an_empty_frame_may_have_no_nul(void **state) {
  (void)state;
  const float row[] = {1, 2, 3};
  char body[sizeof message - 4];
  memcpy(body, message, 16);
  body[12] = 0;
  memcpy(body + 16, message + 20, sizeof message - 20);
  gives(FORMAT_POINTCLOUD2, body, sizeof body, "num_features=3", 3, row);
}

// The message as ROS 1 serializes it, with any number in the header.
static void ros1_is_named(void **state) {
  (void)state;
  static const char *const numbers[] = {"\0\0\0\0", "\0\1\0\0", "\1\2\3\4"};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    char body[128];
    size_t size = 0;
#define PUT(bytes) memcpy(body + size, bytes, sizeof(bytes) - 1), size += sizeof(bytes) - 1
    memcpy(body, numbers[i], 4);
    size = 4;
    PUT("\1\0\0\0\2\0\0\0\5\0\0\0lidar\1\0\0\0\1\0\0\0\3\0\0\0");
    PUT("\1\0\0\0x\0\0\0\0\7\1\0\0\0");
    PUT("\1\0\0\0y\4\0\0\0\7\1\0\0\0");
    PUT("\1\0\0\0z\10\0\0\0\7\1\0\0\0");
    PUT("\0\14\0\0\0\14\0\0\0\14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1");
    is_refused(FORMAT_POINTCLOUD2, body, size, "num_features=3", "looks like a PointCloud2 of ROS 1");
    assert_non_null(strstr(format_hint(FORMAT_RAW, body, size), "ROS 1"));
  }
}

static void pointcloud2_is_refused(void **state) {
  (void)state;
  static const struct {
    size_t place;
    unsigned char value;
    const char *reason;
  } cases[] = {
      {0, 1, "begins with the bytes 00 00 or 00 01 (CDR), or 00 06 or 00 07 (XCDR2), not with 01 01 (unknown)"},
      {1, 2, "not with 00 02 (CDR of a mutable type)"},
      {1, 9, "not with 00 09 (XCDR2 of an appendable type)"},
      {1, 10, "not with 00 0a (XCDR2 of a mutable type)"},
      {1, 255, "not with 00 ff (unknown)"},
      {12, 1, "frame_id at byte 12 is not a string that ends in a NUL"},
      {15, 1, "ends at byte 121, within frame_id"},
      {44, 0, "field x has the datatype 0; allowed: 1 to 8"},
      {44, 9, "field x has the datatype 9"},
      {60, 9, "field y ends at byte 13 of a point, but point_step is 12"},
      {88, 9, "field z ends at byte 44 of a point"},
      {92, 1, "is_bigendian is true"},
      {96, 0, "point_step is 0"},
      {96, 13, "row_step is 12, less than width 1 times point_step 13"},
      {96, 11, "field z ends at byte 12 of a point, but point_step is 11"},
      {24, 2, "row_step is 12, less than width 2"},
      {20, 2, "data has 12 bytes, not height 2 times row_step 12"},
      {104, 13, "data has 13 bytes, not"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char body[sizeof message];
    memcpy(body, message, sizeof message);
    body[cases[i].place] = (char)cases[i].value;
    is_refused(FORMAT_POINTCLOUD2, body, sizeof body, "num_features=3", cases[i].reason);
  }
  for (size_t size = 0; size < sizeof message; size++)
    is_refused(FORMAT_POINTCLOUD2, (const char *)message, size, "num_features=3", "");
  char longer[sizeof message + 8] = "";
  memcpy(longer, message, sizeof message);
  is_refused(FORMAT_POINTCLOUD2, longer, sizeof longer, "num_features=3", "ends at byte 121, but the body has 129");
  const unsigned char empty[] = {20, 24, 96, 100, 104};  // height, width, steps and bytes of data
  char none[sizeof message];
  memcpy(none, message, sizeof message);
  for (size_t i = 0; i < sizeof empty; i++) none[empty[i]] = 0;
  gives(FORMAT_POINTCLOUD2, none, sizeof none - 12, "num_features=3", 0, &(float){0});
  is_refused(FORMAT_POINTCLOUD2,
             "\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 45,
             "num_features=3", "it has no fields");
  is_refused(FORMAT_POINTCLOUD2, "\0\1", 2, "num_features=3", "the body ends at byte 2, within the encapsulation");
}

// ---- cloudini -------------------------------------------------------------------------------------------------------

#define LE32(number) (number) & 0xff, (number) >> 8 & 0xff, (number) >> 16 & 0xff, (number) >> 24
#define MILLIMETRES 0x6f, 0x12, 0x83, 0x3a
#define NO_RESOLUTION 0, 0, 0, 0
// A field with a name of one letter, a type and a resolution.
#define FIELD_OF(letter, type, ...) 1, 0, letter, LE32(0), type, __VA_ARGS__
#define FLOATS FIELD_OF('x', 7, MILLIMETRES), FIELD_OF('y', 7, MILLIMETRES), FIELD_OF('z', 7, MILLIMETRES)
// The header of an uncompressed blob of three points whose floats are rounded to the resolutions.
#define BLOB(version, fields)                                                                                          \
  'C', 'L', 'O', 'U', 'D', 'I', 'N', 'I', '_', 'V', '0', version, LE32(3), LE32(1), LE32(0), 1, 0, fields, 0

static void cloudini_is_read(void **state) {
  (void)state;
  static const unsigned char blob[] = {BLOB('2', 3), FLOATS, 0xa5, 0x13, 0xdc, 0x58, 0x03, 0x0d, 0x04,
                                       0x04,         0xb8,   0xf2, 0x09, 0xeb, 0xe4, 0x05, 0x11};
  const float xyz[] = {1234 * 0.001f, -5678 * 0.001f,  1 * 0.001f,     1240 * 0.001f, -5680 * 0.001f,
                       -1 * 0.001f,   -79812 * 0.001f, 41733 * 0.001f, 7 * 0.001f};
  gives(FORMAT_CLOUDINI, (const char *)blob, sizeof blob, "num_features=3", 9, xyz);
  for (size_t size = 0; size < sizeof blob; size++)
    is_refused(FORMAT_CLOUDINI, (const char *)blob, size, "num_features=3", "");
}

// Version 5 has four codings for a column of integers after the points.
static void cloudini_has_columns_behind_the_points(void **state) {
  (void)state;
  static const unsigned char blob[] = {BLOB('5', 8),
                                       FLOATS,
                                       FIELD_OF('r', 4, NO_RESOLUTION),
                                       FIELD_OF('t', 6, NO_RESOLUTION),
                                       FIELD_OF('c', 4, NO_RESOLUTION),
                                       FIELD_OF('i', 3, NO_RESOLUTION),
                                       FIELD_OF('u', 2, NO_RESOLUTION),
                                       LE32(53),
                                       0xa5,
                                       0x13,
                                       0xdc,
                                       0x58,
                                       0x03,
                                       5,
                                       0x0d,
                                       0x04,
                                       0x04,
                                       6,
                                       0xb8,
                                       0xf2,
                                       0x09,
                                       0xeb,
                                       0xe4,
                                       0x05,
                                       0x11,
                                       7,  // end of the points
                                       0,
                                       0x07,
                                       0x03,
                                       0x08,  // end of column r: deltas
                                       3,
                                       LE32(2),
                                       0x01,
                                       0x01,
                                       0xd1,
                                       0x0f,
                                       0x02,  // end of column t: runs of a delta
                                       2,
                                       LE32(2),
                                       0x07,
                                       0x00,
                                       0x02,
                                       0xff,
                                       0xff,
                                       0x01,  // end of column c: runs of a value
                                       1,
                                       3,
                                       0,
                                       0xfb,
                                       0xff,
                                       0x06,
                                       0x00,
                                       0x2c,
                                       0x01,
                                       0x24};  // end of column i: a palette
  const float expected[][5] = {{3, 0, 7, -5, 5}, {4, 1000, 7, 6, 6}, {0, 2000, 65535, 300, 7}};
  float *rows = read_file(FORMAT_CLOUDINI, (const char *)blob, sizeof blob, "num_features=8");
  if (!rows) fail_msg("%s", error.text);
  for (int point = 0; point < 3; point++)
    assert_memory_equal(rows + 8 * point + 3, expected[point], sizeof expected[point]);
  free(rows);
}

// Doubles without a resolution: the first takes 64 bits, the second equals it, and of the third only a window with the
// bits that differ is stored.
static void cloudini_has_windows_of_bits(void **state) {
  (void)state;
  static const unsigned char blob[] = {BLOB('4', 3),
                                       FIELD_OF('x', 8, NO_RESOLUTION),
                                       FIELD_OF('y', 2, NO_RESOLUTION),
                                       FIELD_OF('z', 2, NO_RESOLUTION),
                                       LE32(17),
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       0xf8,
                                       0x3f,
                                       1,
                                       2,
                                       0,
                                       1,
                                       2,
                                       0x37,
                                       0x20,
                                       1,
                                       2};
  const float expected[] = {1.5f, 1, 2, 1.5f, 1, 2, 1.75f, 1, 2};
  gives(FORMAT_CLOUDINI, (const char *)blob, sizeof blob, "num_features=3", 9, expected);
  unsigned char wrong[sizeof blob];
  memcpy(wrong, blob, sizeof blob);
  wrong[sizeof blob - 4] = 0x01;  // uses a window before one is given
  is_refused(FORMAT_CLOUDINI, (const char *)wrong, sizeof wrong, "num_features=3", "used before it is given");
  wrong[sizeof blob - 4] = 0x7f;  // a window with 31 leading zeros
  wrong[sizeof blob - 3] = 0x1f;  // and 63 bits
  is_refused(FORMAT_CLOUDINI, (const char *)wrong, sizeof wrong, "num_features=3", "has more than 64");
}

// ---- columns --------------------------------------------------------------------------------------------------------

#define FIVE                                                                                                           \
  "FIELDS x y z intensity n\nSIZE 4 4 4 4 4\nTYPE F F F F F\nCOUNT 1 1 1 1 2\nPOINTS 1\nDATA ascii\n1 2 3 4 5 6\n"

static void columns_are_chosen(void **state) {
  (void)state;
  const float rows[] = {1, 2, 3, 4, 1, 2, 3, 1, 2, 4, 1, 2, 3, 2};
  gives(FORMAT_PCD, FIVE, strlen(FIVE), "", 4, rows);
  gives(FORMAT_PCD, FIVE, strlen(FIVE), "num_features=3", 3, rows + 4);
  gives(FORMAT_PCD, FIVE, strlen(FIVE), "fields=x,y,intensity", 3, rows + 7);
  gives(FORMAT_PCD, FIVE, strlen(FIVE), "fields=x,y,z,intensity&intensity_scale=0.5", 4, rows + 10);
  is_refused(FORMAT_PCD, FIVE, strlen(FIVE), "num_features=5",
             "have only 4 columns; its fields are x, y, z, intensity, n (2 values)");
  is_refused(FORMAT_PCD, FIVE, strlen(FIVE), "fields=x,y,z,ring", "no field ring of one value; it has x, y, z");
  is_refused(FORMAT_PCD, FIVE, strlen(FIVE), "fields=x,y,z,n", "no field n of one value");
  is_refused(FORMAT_PCD, FIVE, strlen(FIVE), "num_features=3&intensity_scale=2",
             "none of the first 3 columns is named intensity");
  static const char named[] = "FIELDS a b c\nSIZE 4 4 4\nTYPE F F F\nPOINTS 0\nDATA ascii\n";
  is_refused(FORMAT_PCD, named, sizeof named - 1, "num_features=3", "no field x of one value; it has a, b, c");
}

// A name that two fields have is ambiguous. A name in other case matches if no name matches exactly.
static void a_name_may_occur_once(void **state) {
  (void)state;
  const float row[] = {1, 2, 3};
  static const char twice[] = "FIELDS x y z x i i\nPOINTS 1\nDATA ascii\n1 2 3 4 5 6\n";
  is_refused(FORMAT_PCD, twice, sizeof twice - 1, "num_features=3",
             "the file has 2 fields named x, so the name is ambiguous; it has x, y, z, x, i, i");
  is_refused(FORMAT_PCD, twice, sizeof twice - 1, "fields=i,y,z", "2 fields named i");
  static const char other[] = "FIELDS x y z i i I a A\nPOINTS 1\nDATA ascii\n1 2 3 4 5 6 7 8\n";
  gives(FORMAT_PCD, other, sizeof other - 1, "num_features=3", 3, row);
  is_refused(FORMAT_PCD, other, sizeof other - 1, "num_features=4", "2 fields named i");
  gives(FORMAT_PCD, other, sizeof other - 1, "fields=x,y,I", 3, (const float[]){1, 2, 6});
  gives(FORMAT_PCD, other, sizeof other - 1, "fields=X,A,a", 3, (const float[]){1, 8, 7});
  static const char upper[] = "FIELDS X Y Z Intensity Intensity_ INTENSITY\nPOINTS 1\nDATA ascii\n1 2 3 4 5 6\n";
  is_refused(FORMAT_PCD, upper, sizeof upper - 1, "fields=x,y,z,intensity", "2 fields named intensity");
  gives(FORMAT_PLY, ASCII VERTEX "end_header\n1 2 3\n", strlen(ASCII VERTEX) + 17, "num_features=3", 3, row);
  static const char ply[] = ASCII "element vertex 1\nproperty float x\nproperty float x\nend_header\n1 2\n";
  is_refused(FORMAT_PLY, ply, sizeof ply - 1, "num_features=3", "2 fields named x");
  char body[sizeof message];
  memcpy(body, message, sizeof message);
  body[56] = 'x';
  is_refused(FORMAT_POINTCLOUD2, body, sizeof body, "num_features=3", "2 fields named x");
}

static void loses(enum body_format format, const char *bytes, size_t size, const char *parameters, double most,
                  double at) {
  free(read_file(format, bytes, size, parameters));
  if (loss.most != most || loss.at != at) fail_msg("%.17g at %.17g lost", loss.most, loss.at);
}

// How far coordinates moved when they became float32. Only coordinates within 10^9 m of 0 count.
static void losses_of_coordinates_are_known(void **state) {
  (void)state;
#define LOSS "FIELDS x y z t\nSIZE 8 8 8 8\nPOINTS 2\nDATA ascii\n"
  static const struct {
    const char *text;
    double most, at;
  } cases[] = {{LOSS "0 0.5 -1 16777217\n4320978 nan 1e300 1e15\n", 0, 0},
               {LOSS "1 2 16777217 4\n1 -16777219 4 4\n", 1, 16777217},
               {LOSS "33554435 2 3 4\n-67108870 2 3 4\n", 2, -67108870},
               {LOSS "3.40282e+38 -1e20 2147483647 4\n-2e9 2 3 4\n", 0, 0}};  // such numbers mean "no return"
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    loses(FORMAT_PCD, cases[i].text, strlen(cases[i].text), "num_features=4", cases[i].most, cases[i].at);
  static const char doubles[] = "ply\nformat binary_big_endian 1.0\nelement vertex 1\nproperty uint x\n"
                                "property double y\nproperty int64 z\nend_header\n"
                                "\x01\0\0\1\x41\x70\0\0\0\0\0\0\0\0\0\0\x02\0\0\3";
  loses(FORMAT_PLY, doubles, sizeof doubles - 1, "num_features=3", 1, 16777217);
  static const char packed[] = "FIELDS x y z\nSIZE 4 4 4\nTYPE I F F\nPOINTS 1\nDATA binary_compressed\n"
                               "\14\0\0\0\14\0\0\0\3\0\0\2\0\0\0\0\0\0\0\0";
  loses(FORMAT_PCD, packed, sizeof packed - 1, "num_features=3", 1, 33554435);
}

static void many_fields_are_refused(void **state) {
  (void)state;
  char text[4096] = "FIELDS";
  for (int i = 0; i < 257; i++) strcat(text, " f");
  is_refused(FORMAT_PCD, strcat(text, "\n"), strlen(text), "num_features=3", "more than 256 fields");
  static const char wide[] = "FIELDS x y z n\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1022\nPOINTS 0\nDATA ascii\n";
  is_refused(FORMAT_PCD, wide, sizeof wide - 1, "num_features=3", "a point has 1025 values; allowed: up to 1024");
}

// ---- numbers and hints ----------------------------------------------------------------------------------------------

static void numbers_are_read_as_text(void **state) {
  (void)state;
  static const char *const good[] = {"0",
                                     "-0",
                                     "+1.5",
                                     "1.",
                                     ".5",
                                     "1e3",
                                     "16777217",
                                     "1.00000005960464477539062",
                                     "1e39",
                                     "-inf",
                                     "7.0385307e-26",
                                     "1e-45",
                                     "0.000000000000001",
                                     "123456789012345678"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct span word = {good[i], strlen(good[i])};
    float expected = strtof(good[i], NULL);
    struct decimal number;
    if (!decimal_read(&word, &number)) fail_msg("%s is refused", good[i]);
    assert_memory_equal(&number.value, &expected, sizeof expected);
    double wide = strtod(good[i], NULL);
    assert_memory_equal(&number.wide, &wide, sizeof wide);
  }
  static const char *const bad[] = {"",    "-",  ".",   "1.2.3", "1,5", "0x10", "nan1", "1e", "1e+", "1ex",    "e1",
                                    "abc", "1-", "--1", "+-1",   "1.#", "nan(", "inf1", "+",  ".e1", "infinit"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct span word = {bad[i], strlen(bad[i])};
    struct decimal number;
    if (decimal_read(&word, &number)) fail_msg("%s is read", bad[i]);
  }
  struct span nul = {"1\0", 2};
  struct decimal number;
  assert_false(decimal_read(&nul, &number));
}

// As printed by glibc, and by Microsoft's C before and after 2015.
static void numbers_that_are_not_finite_are_read(void **state) {
  (void)state;
  static const struct {
    const char *text;
    float sign;  // of the infinity; 0: not a number
  } cases[] = {{"nan", 0},       {"-nan", 0},      {"NaN", 0},       {"NAN", 0},          {"nan(ind)", 0},
               {"-nan(ind)", 0}, {"nan(snan)", 0}, {"nan(1)", 0},    {"1.#QNAN", 0},      {"-1.#QNAN", 0},
               {"1.#SNAN", 0},   {"-1.#IND", 0},   {"-1.#IND00", 0}, {"1.#QNAN0e+00", 0}, {"1.#QO", 0},
               {"1.#J", 0},      {"1.$", 0},       {"-1.$e+000", 0}, {"1.#INF", 1},       {"-1.#INF", -1},
               {"1.#INF00", 1},  {"+1.#inf", 1},   {"inf", 1},       {"-inf", -1},        {"+Inf", 1},
               {"Infinity", 1},  {"-INFINITY", -1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct span word = {cases[i].text, strlen(cases[i].text)};
    struct decimal number;
    if (!decimal_read(&word, &number)) fail_msg("%s is refused", cases[i].text);
    bool right = cases[i].sign == 0 ? isnan(number.value) : number.value == cases[i].sign * INFINITY;
    if (!right) fail_msg("%s is %g", cases[i].text, (double)number.value);
  }
}

static void long_numbers_are_read_exactly(void **state) {
  (void)state;
  char text[4096];
  uint32_t seed = 1;
  for (int i = 0; i < 6000; i++) {
    seed = seed * 1664525u + 1013904223u;
    uint32_t bits = seed & 0x7fffffffu;
    float low, expected;
    memcpy(&low, &bits, sizeof low);
    if (!isfinite(low)) continue;
    double middle = ((double)low + (double)nextafterf(low, INFINITY)) / 2;
    int length = snprintf(text, sizeof text, i % 2 ? "%.200f" : "%.160e", i % 3 ? middle : (double)low);
    if (i % 5 == 0 && i % 2) length += snprintf(text + length, sizeof text - (size_t)length, "%0500d1", 0);
    if (i % 7 == 0) {  // just below the middle
      char *last = text + strcspn(text, "e") - 1;
      while (*last == '0' || *last == '.') last--;
      --*last;
      for (last++; *last && *last != 'e'; last++)
        if (*last == '0') *last = '9';
    }
    struct span word = {text, strlen(text)};
    struct decimal number;
    expected = strtof(text, NULL);
    if (!decimal_read(&word, &number)) fail_msg("%s is refused", text);
    if (vx_float_bits(number.value) != vx_float_bits(expected))
      fail_msg("%s is %a, not %a", text, (double)number.value, (double)expected);
  }
  snprintf(text, sizeof text, "-%f", DBL_MAX);
  struct span word = {text, strlen(text)};
  struct decimal number;
  assert_true(decimal_read(&word, &number) && number.value == -INFINITY && number.wide == -DBL_MAX);
  static const char *const huge[] = {"1e99999999999999999999999999", "0e99999999999999999999",
                                     "1e-99999999999999999999"};
  const float values[] = {INFINITY, 0, 0};
  for (size_t i = 0; i < 3; i++) {
    word = (struct span){huge[i], strlen(huge[i])};
    assert_true(decimal_read(&word, &number) && number.value == values[i]);
  }
  snprintf(text, sizeof text, "0.%02000d15e2001", 0);
  word = (struct span){text, strlen(text)};
  assert_true(decimal_read(&word, &number) && number.value == 1.5f);
  snprintf(text, sizeof text, "%s%02000d.0e-2001", "15", 0);
  word = (struct span){text, strlen(text)};
  assert_true(decimal_read(&word, &number) && number.value == 1.5f);
}

static void hints_are_given(void **state) {
  (void)state;
  static const float raw[] = {1, 2, 3, 4};
  assert_null(format_hint(FORMAT_RAW, (const char *)raw, sizeof raw));
  assert_null(format_hint(FORMAT_RAW, "", 0));
  assert_null(format_hint(FORMAT_RAW, (const char *)message, 90));
  assert_non_null(strstr(format_hint(FORMAT_RAW, (const char *)message, 108), "format=pointcloud2"));
  assert_null(format_hint(FORMAT_POINTCLOUD2, (const char *)message, sizeof message));
  assert_non_null(strstr(format_hint(FORMAT_RAW, "ply\nformat", 10), "format=ply"));
  assert_non_null(strstr(format_hint(FORMAT_RAW, "# .PCD v0.7", 11), "format=pcd"));
  assert_non_null(strstr(format_hint(FORMAT_RAW, "version 0.7", 11), "format=pcd"));
  assert_null(format_hint(FORMAT_RAW, "version https://git-lfs", 23));
  static const char safetensors[] = "xxxx\2\0\0\0\0\0\0\0{}";
  assert_non_null(strstr(format_hint(FORMAT_RAW, safetensors + 4, 10), "format=safetensors"));
  assert_null(format_hint(FORMAT_RAW, safetensors + 4, 8));
  assert_null(format_hint(FORMAT_RAW, "\2\0\0\0\0\0\0\1{}", 10));  // no header can be that long
  assert_non_null(strstr(format_hint(FORMAT_RAW, "\x89MCAP0\r\n....", 12), "MCAP"));
}

static void short_text_is_named(void **state) {
  (void)state;
  static const struct {
    const char *text, *named;
  } cases[] = {{"{\"points\":[[1,2,3,4]]}", "JSON"},
               {"[{\"x\": 1}]  ", "JSON"},
               {"[[1,2,3,4]]\n", "JSON"},
               {"1e0 2e0 3e0 5e-1", "text"},
               {"nan nan NaN inf\n", "text"},
               {"1.5;2.5;3.5;1\r\n", "text"},
               {"scan.bin", "the name of a file"},
               {"/data/velodyne/000001.bin", "the name of a file"},
               {"..\\scans\\a-b_c.pcd", "the name of a file"},
               {".bin", NULL},
               {"scan.", NULL},
               {"scan.5", NULL},
               {"my scan.bin", NULL},
               {"scan.bin\n", NULL},
               {"scan.abcdefghijkl", NULL},
               {"1 2 3 0.5\n", NULL},
               {"xyz, and more abc", NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *hint = format_hint(FORMAT_RAW, cases[i].text, strlen(cases[i].text));
    if (cases[i].named ? !hint || !strstr(hint, cases[i].named) : hint != NULL)
      fail_msg("%s: %s", cases[i].text, hint ? hint : "no hint");
  }
}

// UTF-8 is text too. Other bytes beyond ASCII are not.
static void text_of_other_languages_is_named(void **state) {
  (void)state;
  char text[128];
  memset(text, '1', sizeof text);
  static const char words[] = "h\xc3\xb6he \xe9\xab\x98 \xf0\x9f\x93\x8f";
  memcpy(text + 3, words, sizeof words - 1);
  const char *hint = format_hint(FORMAT_RAW, text, sizeof text);
  assert_true(hint && strstr(hint, "text"));
  static const char *const bad[] = {"\xc3 ", "\xa4 ", "\xe9\xab ", "\xff\xbf", "\xf0\x9f\x93 "};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    memset(text, '1', sizeof text);
    memcpy(text + 7, bad[i], strlen(bad[i]));
    assert_null(format_hint(FORMAT_RAW, text, sizeof text));
  }
  memset(text, '1', sizeof text);
  text[sizeof text - 1] = '\xc3';  // the end cuts a character off
  assert_null(format_hint(FORMAT_RAW, text, sizeof text));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(short_text_is_named),
      cmocka_unit_test(text_of_other_languages_is_named),
      cmocka_unit_test(pcd_is_read),
      cmocka_unit_test(pcd_of_many_writers_is_read),
      cmocka_unit_test(zeros_after_the_points_are_ignored),
      cmocka_unit_test(pcd_is_refused),
      cmocka_unit_test(compressed_points_are_checked),
      cmocka_unit_test(compressed_points_of_many_writers_are_read),
      cmocka_unit_test(lzf_keeps_its_bounds),
      cmocka_unit_test(ply_is_read),
      cmocka_unit_test(ply_of_many_writers_is_read),
      cmocka_unit_test(lists_of_a_vertex_are_skipped),
      cmocka_unit_test(ply_is_refused),
      cmocka_unit_test(pointcloud2_is_read),
      cmocka_unit_test(xcdr2_is_read),
      cmocka_unit_test(an_empty_frame_may_have_no_nul),
      cmocka_unit_test(ros1_is_named),
      cmocka_unit_test(cloudini_is_read),
      cmocka_unit_test(cloudini_has_columns_behind_the_points),
      cmocka_unit_test(cloudini_has_windows_of_bits),
      cmocka_unit_test(pointcloud2_is_refused),
      cmocka_unit_test(columns_are_chosen),
      cmocka_unit_test(a_name_may_occur_once),
      cmocka_unit_test(losses_of_coordinates_are_known),
      cmocka_unit_test(many_fields_are_refused),
      cmocka_unit_test(numbers_are_read_as_text),
      cmocka_unit_test(numbers_that_are_not_finite_are_read),
      cmocka_unit_test(long_numbers_are_read_exactly),
      cmocka_unit_test(hints_are_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
