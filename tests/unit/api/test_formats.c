// Files of points: what each header may contain, what is refused with which error, and which rows come out.
// oracle.formats compares whole answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/decimal.h"
#include "api/wire/gather.h"
#include "api/wire/lzf.h"

static struct job_request request;
static struct error error;

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

// Copies the body to memory of its exact size, so that a sanitizer sees a read past the end. The rows belong to the
// caller. NULL with an error.
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
    unpacked = malloc(file.unpacked_bytes + 1);
    good = cloud_unpack(&file, unpacked, &error);
  }
  if (good) rows = malloc((size_t)(file.points + 1) * job_request_row_bytes(&request));
  if (good && !cloud_gather(&file, &columns, (char *)rows, &error)) {
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

static void pcd_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"", "the PCD header ends without DATA, after line 0"},
      {"FIELDS x y z\nPINTS 3\n", "line 2: 'PINTS' is no entry of a PCD header"},
      {"SIZE 4 4 4\n" XYZ, "line 1: SIZE has 3 values; allowed: 0, one for each name of FIELDS"},
      {"FIELDS x y z\nSIZE 4 4\n", "line 2: SIZE has 2 values; allowed: 3"},
      {"FIELDS x y z\nSIZE 4 4 9\n", "line 2: SIZE has '9'; allowed: 1, 2, 4 or 8"},
      {"FIELDS x y z\nTYPE F F D\n", "line 2: TYPE has 'D'; allowed: I, U or F"},
      {"FIELDS x y z\nCOUNT 1 1 0\n", "line 2: COUNT has '0'"},
      {XYZ "WIDTH -1\n", "line 4: WIDTH has '-1'; allowed: one whole number"},
      {XYZ "POINTS 1 2\n", "line 4: POINTS has '1'; allowed: one whole number"},
      {XYZ "POINTS\n", "line 4: POINTS has ''"},
      {XYZ "DATA\n", "line 4: DATA has ''"},
      {XYZ "POINTS 1\nDATA text\n", "DATA has 'text'; allowed: ascii, binary or binary_compressed"},
      {XYZ "DATA ascii\n", "neither POINTS nor WIDTH and HEIGHT"},
      {XYZ "WIDTH 2\nHEIGHT 2\nPOINTS 3\nDATA ascii\n", "WIDTH 2 times HEIGHT 2 is not POINTS, 3"},
      {XYZ "WIDTH 9223372036854775807\nHEIGHT 2\nDATA ascii\n", "is not POINTS"},
      {"FIELDS x y z\nTYPE F F F\nPOINTS 1\nDATA ascii\n1 2 3\n", "no SIZE behind FIELDS"},
      {"FIELDS x y z\nSIZE 4 4 4\nPOINTS 1\nDATA ascii\n1 2 3\n", "no TYPE behind FIELDS"},
      {"FIELDS x y z\nSIZE 4 4 2\nTYPE F F F\nPOINTS 0\nDATA binary\n", "field z has TYPE F and SIZE 2"},
      {"FIELDS\nSIZE\nTYPE\nPOINTS 1\nDATA ascii\n1\n", "no fields"},
      {XYZ "POINTS 2\nDATA binary\n12345678901",
       "promises 2 points of 12 bytes each; it is followed by 11 bytes, too few"},
      {XYZ "POINTS 0\nDATA binary\n123456789012",
       "promises 0 points of 12 bytes each; it is followed by 12 bytes, too many"},
      {XYZ "POINTS 9223372036854775807\nDATA ascii\n1 2 3\n", "promises 9223372036854775807 points of 3 values each"},
      {TEXT "1.5 2 3\n1 2\n", "line 7 has 2 values; a point has 3"},
      {TEXT "1 2 3\n1 2 3 4\n", "line 7 has 4 values; a point has 3"},
      {TEXT "1 2 3\n1 2,5 4\n", "line 7, field y: '2,5' is not a number"},
      {TEXT "1 2 3\n\n1 0x2 4\n", "line 8, field y: '0x2' is not a number"},
      {TEXT "1 2 3           \n", "ends after line 6 with 1 points; 2 were promised"},
      {TEXT "1 2 3\n1 2 3\n1 2 3\n", "line 8 comes after the 2 points that were promised"},
      {XYZ "POINTS 1\nDATA binary_compressed\n1234567", "ends before the sizes"},
      {XYZ "POINTS 1\nDATA binary_compressed\n\2   \14   1", "bytes of compressed points are promised, but 1 follow"},
      {"ply\nformat ascii 1.0\n", "the body looks like a PLY file: add format=ply"},
      {"\x1f\x8b\x08 ", "the body looks compressed by gzip: add the header Content-Encoding: gzip"},
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
  // 12 zeros: one zero, and 11 that repeat it.
  static const char good[] = XYZ "POINTS 1\nDATA binary_compressed\n\5\0\0\0\14\0\0\0\0\0\340\2\0";
  gives(FORMAT_PCD, good, sizeof good - 1, "num_features=3", 3, row);
  static const char short_[] = XYZ "POINTS 1\nDATA binary_compressed\n\5\0\0\0\14\0\0\0\0\0\340\1\0";
  is_refused(FORMAT_PCD, short_, sizeof short_ - 1, "num_features=3", "do not unpack to the 12 bytes promised");
  static const char other[] = XYZ "POINTS 1\nDATA binary_compressed\n\5\0\0\0\15\0\0\0\0\0\340\2\0";
  is_refused(FORMAT_PCD, other, sizeof other - 1, "num_features=3",
             "are to have 13 bytes, but 1 points of 12 bytes need 12");
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

static void ply_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"", "line 0: a PLY file begins with the line 'ply', not with ''"},
      {"plyx\n", "not with 'plyx'"},
      {"ply\nelement vertex 1\n", "line 2: the format must come first, not 'element'"},
      {"ply\nformat binary 1.0\n",
       "line 2: format is not ascii, binary_little_endian or binary_big_endian but 'binary'"},
      {ASCII "format ascii 1.0\n", "line 3: there is a second 'format'"},
      {ASCII "property float x\n", "line 3: there is no element for the property 'x'"},
      {ASCII "element vertex\n", "line 3: an element needs a name and a whole number"},
      {ASCII "element vertex -1\n", "line 3: an element needs a name and a whole number, not '-1'"},
      {ASCII "element vertex 1\nproperty half x\n", "line 4: there is no type of a property 'half'"},
      {ASCII "element vertex 1\nproperty float\n", "line 4: a property has no name behind 'float'"},
      {ASCII "element vertex 1\nproperty list uchar int i\n", "line 4: a vertex cannot have a list, such as 'i'"},
      {ASCII "element face 1\nproperty list float int i\n", "line 4: there is no type of a property"},
      {ASCII "elements vertex 1\n", "line 3: no entry of a PLY header is 'elements'"},
      {ASCII VERTEX, "the PLY header ends without end_header, after line 6"},
      {ASCII "end_header\n", "no element vertex"},
      {ASCII "element vertex 1\nend_header\n1\n", "no fields"},
      {ASCII VERTEX "end_header\n1 2\n3\n", "line 8 has 2 values; a point has 3"},
      {ASCII VERTEX "end_header\n1 2 3\n4 5 6\n", "line 9 comes after the 1 points"},
      {ASCII "element a 2\nproperty int i\n" VERTEX "end_header\n1\n", "ends at byte 129, within the elements"},
      {"ply\nformat binary_little_endian 1.0\n" VERTEX "end_header\n12345678901", "followed by 11 bytes, too few"},
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

// x, y, z of one point and its data. The comments count offsets from the beginning.
static const unsigned char message[] = {
    0, 1, 0,   0,                                                           // 0: little-endian
    1, 0, 0,   0,  2,   0, 0, 0,  2,  0, 0,  0,  'f', 0, 0, 0,              // 4: stamp; 12: frame_id and padding
    1, 0, 0,   0,  1,   0, 0, 0,  3,  0, 0,  0,                             // 20: height; 24: width; 28: fields
    2, 0, 0,   0,  'x', 0, 0, 0,  0,  0, 0,  0,  7,   0, 0, 0, 1, 0, 0, 0,  // 32
    2, 0, 0,   0,  'y', 0, 0, 0,  4,  0, 0,  0,  7,   0, 0, 0, 1, 0, 0, 0,  // 52
    2, 0, 0,   0,  'z', 0, 0, 0,  8,  0, 0,  0,  7,   0, 0, 0, 0, 0, 0, 0,  // 72: with a count of 0
    0, 0, 0,   0,  12,  0, 0, 0,  12, 0, 0,  0,  12,  0, 0, 0,  // 92: is_bigendian; 96: point_step; 100, 104
    0, 0, 128, 63, 0,   0, 0, 64, 0,  0, 64, 64, 1,             // 108: data; 120: is_dense
};

static void pointcloud2_is_read(void **state) {
  (void)state;
  const float row[] = {1, 2, 3};
  gives(FORMAT_POINTCLOUD2, (const char *)message, sizeof message, "num_features=3", 3, row);
}

static void pointcloud2_is_refused(void **state) {
  (void)state;
  static const struct {
    size_t place;
    unsigned char value;
    const char *reason;
  } cases[] = {
      {1, 7, "begins with the bytes 00 00 or 00 01 (CDR), not with 00 07"},
      {0, 1, "not with 01 01"},
      {1, 2, "not with 00 02"},
      {12, 1, "frame_id at byte 12 is no string that ends in a NUL"},
      {12, 0, "frame_id at byte 12 is no string"},
      {15, 1, "ends at byte 121, within frame_id"},
      {31, 1, "the name of a field at byte 92 is no string"},
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
  is_refused(FORMAT_POINTCLOUD2, "\0\1", 2, "num_features=3", "the body ends at byte 2, within the encapsulation");
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
             "has only 4 fields of one value; it has x, y, z, intensity, n (2 values)");
  is_refused(FORMAT_PCD, FIVE, strlen(FIVE), "fields=x,y,z,ring", "no field ring of one value; it has x, y, z");
  is_refused(FORMAT_PCD, FIVE, strlen(FIVE), "fields=x,y,z,n", "no field n of one value");
  is_refused(FORMAT_PCD, FIVE, strlen(FIVE), "num_features=3&intensity_scale=2",
             "none of the first 3 columns is named intensity");
  static const char named[] = "FIELDS a b c\nSIZE 4 4 4\nTYPE F F F\nPOINTS 0\nDATA ascii\n";
  is_refused(FORMAT_PCD, named, sizeof named - 1, "num_features=3", "no field x of one value; it has a, b, c");
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
    float value, expected = strtof(good[i], NULL);
    if (!decimal_read(&word, &value)) fail_msg("%s is refused", good[i]);
    assert_memory_equal(&value, &expected, sizeof value);
  }
  static const char *const bad[] = {"", "-", ".", "1.2.3", "1,5", "0x10", "nan(1)", "1e", "abc", "1-", "--1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct span word = {bad[i], strlen(bad[i])};
    float value;
    if (decimal_read(&word, &value)) fail_msg("%s is read", bad[i]);
  }
  struct span nul = {"1\0", 2}, nan = {"-nan", 4};
  float value;
  assert_false(decimal_read(&nul, &value));
  assert_true(decimal_read(&nan, &value) && isnan(value));
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
  static const char safetensors[] = "xxxx\2\0\0\0\0\0\0\0{}";
  assert_non_null(strstr(format_hint(FORMAT_RAW, safetensors + 4, 10), "format=safetensors"));
  assert_null(format_hint(FORMAT_RAW, safetensors + 4, 8));
  assert_null(format_hint(FORMAT_RAW, "\2\0\0\0\0\0\0\1{}", 10));  // no header is that long
  assert_non_null(strstr(format_hint(FORMAT_RAW, "\x89MCAP0\r\n....", 12), "MCAP"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pcd_is_read),
      cmocka_unit_test(pcd_is_refused),
      cmocka_unit_test(compressed_points_are_checked),
      cmocka_unit_test(lzf_keeps_its_bounds),
      cmocka_unit_test(ply_is_read),
      cmocka_unit_test(ply_is_refused),
      cmocka_unit_test(pointcloud2_is_read),
      cmocka_unit_test(pointcloud2_is_refused),
      cmocka_unit_test(columns_are_chosen),
      cmocka_unit_test(many_fields_are_refused),
      cmocka_unit_test(numbers_are_read_as_text),
      cmocka_unit_test(hints_are_given),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
