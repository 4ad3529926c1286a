// cpu_sparse as a library for tests in Python. For one thread.
#include <stdio.h>
#include <string.h>

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/sparse/fused.h"
#include "kernels/cpu/sparse/sparse.h"

// The name of a way; NULL after the last. Sets `runs`: whether this processor can run it.
const char *sparse_way(int number, int *runs);

// Runs the backbone by way `number`. Returns a vx_status. `text` gets the error, and has sizeof(error.text) bytes. The
// result's rows are valid until the next run.
int sparse_run(int number, const struct vx_sparse *backbone, const struct vx_sparse_rows *rows,
               struct vx_sparse_result *result, char *text);

// result[i] = a[i] * b[i] + c[i] with one rounding, as the plain way computes it without a fused instruction.
void sparse_fuse(const float *a, const float *b, const float *c, int64_t count, float *result);

const char *sparse_way(int number, int *runs) {
  if (number >= cpu_num_convolve_ways) return NULL;
  *runs = cpu_convolve_ways[number].runs();
  return cpu_convolve_ways[number].name;
}

int sparse_run(int number, const struct vx_sparse *backbone, const struct vx_sparse_rows *rows,
               struct vx_sparse_result *result, char *text) {
  static struct vx_lane lane;
  struct vx_stop stop = {0};
  struct vx_job job = {.stop = &stop};
  struct error error = {0};
  enum vx_status status = cpu_sparse(&lane, &job, backbone, rows, cpu_convolve_ways[number].convolve, result, &error);
  memcpy(text, error.text, sizeof error.text);
  return (int)status;
}

void sparse_fuse(const float *a, const float *b, const float *c, int64_t count, float *result) {
  for (int64_t i = 0; i < count; i++) result[i] = cpu_fuse_in_double(a[i], b[i], c[i]);
}
