// Prints the boxes that a model finds in a scan.
//
//   detect URL MODEL SCAN.bin
//
// The scan has up to 200,000 rows of x, y, z and intensity, float32. The exit status is 0, or 1 with a reason. One
// thread.
#define VOXELD_CLIENT_IMPLEMENTATION
#include "voxeld_client.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROWS_MAX = 200000 };

static void print_boxes(const struct voxeld_result *result) {
  const struct voxeld_tensor *boxes = voxeld_find(result, "boxes");
  const float *box = (const float *)boxes->data;
  const float *scores = (const float *)voxeld_find(result, "scores")->data;
  const int *labels = (const int *)voxeld_find(result, "labels")->data;
  for (size_t i = 0; i < boxes->shape[0]; i++, box += boxes->shape[1])
    printf("%s %.2f at %.1f, %.1f\n", voxeld_class_name(result, labels[i]), scores[i], box[0], box[1]);
}

// Returns the number of rows, or -1 with the reason on stderr.
static long read_rows(const char *name, float rows[ROWS_MAX][4]) {
  FILE *file = fopen(name, "rb");
  if (!file) {
    perror(name);
    return -1;
  }
  size_t bytes = fread(rows, 1, ROWS_MAX * sizeof *rows, file);
  const char *wrong = NULL;
  if (fgetc(file) != EOF) wrong = "it has more than 200,000 rows";
  if (bytes % sizeof *rows != 0) wrong = "its last row is incomplete";
  if (ferror(file)) wrong = "it cannot be read";
  fclose(file);
  if (wrong) fprintf(stderr, "%s: %s\n", name, wrong);
  return wrong ? -1 : (long)(bytes / sizeof *rows);
}

int main(int argc, char **argv) {
  static float rows[ROWS_MAX][4];
  if (argc != 4) {
    fprintf(stderr, "usage: detect URL MODEL SCAN.bin\n");
    return EXIT_FAILURE;
  }
  long count = read_rows(argv[3], rows);
  if (count < 0) return EXIT_FAILURE;
  char query[256];
  snprintf(query, sizeof query, "model=%s", argv[2]);
  struct voxeld_options options = voxeld_defaults(argv[1]);
  struct voxeld_client *client = voxeld_open(&options);
  struct voxeld_result result = {0};
  int status = EXIT_FAILURE;
  if (!client) {
    fprintf(stderr, "no memory for a client, or a bad URL\n");
  } else if (voxeld_detect(client, query, rows, (size_t)count * sizeof *rows, &result) != VOXELD_OK) {
    fprintf(stderr, "%s\n", result.error);
  } else {
    print_boxes(&result);
    status = EXIT_SUCCESS;
  }
  voxeld_result_free(&result);
  voxeld_close(client);
  return status;
}
