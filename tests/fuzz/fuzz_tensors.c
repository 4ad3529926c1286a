// Fuzzes safetensors files as bodies. Any bytes give either a problem with a reason, or aligned inputs inside the body.
// One thread.
//
// The input: a byte that chooses the operation, then the body.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/presets.h"
#include "api/wire/wire.h"
#include "kernels/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_input(const struct vx_input *input, const char *body, size_t size, size_t alignment) {
  size_t bytes = vx_dtype_size(input->dtype);
  const char *data = input->data;
  if (input->rank == 0) return;
  for (int d = 0; d < input->rank; d++) assert(!__builtin_mul_overflow(bytes, (uint64_t)input->dims[d], &bytes));
  assert(data >= body && data <= body + size && bytes <= (size_t)(body + size - data));
  assert((uintptr_t)data % alignment == 0);
  static volatile unsigned char sum;
  for (size_t i = 0; i < bytes; i++) sum += (unsigned char)data[i];  // a sanitizer sees a read past the end
}

// Begins the request from a preset if the preset has the operation: decoding needs parameters without defaults.
static void begin(struct job_request *request, enum vx_op op) {
  static struct presets *presets;
  struct error error;
  if (!presets) presets = presets_load("", &error);
  assert(presets);
  const char *name = op == VX_DECODE_CENTER ? "nuscenes_centerpoint_voxel01" : "kitti_pointpillar";
  const struct job_request *from = presets_request_of(presets_find(presets, name), op);
  bool copied = from && job_request_copy(request, from);
  assert(copied || !from);
  if (!from) job_request_init(request, op);
}

static void read_body(enum vx_op op, char *body, size_t size) {
  static struct job_request request;
  struct error error = {.kind = ERROR_NONE};
  begin(&request, op);
  bool good = tensors_read(body, size, &request, &error);
  if (good) {
    bool points = vx_operations[op].items == VX_POINT_ITEMS;
    for (int i = 0; i < VX_MAX_INPUTS; i++) {
      const struct vx_input *input = &request.job.inputs[i];
      check_input(input, body, size, i == 0 && points ? VX_TENSOR_ALIGNMENT : vx_dtype_size(input->dtype));
    }
    good = job_request_split(&request, vx_sizes_of(&request.job).rows, &error);
  }
  if (!good) assert(error.kind > ERROR_NONE && error.kind < ERROR_COUNT && error.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const enum vx_op ops[] = {VX_NMS, VX_TRANSFORM, VX_VOXELIZE, VX_DECODE, VX_DECODE_CENTER, VX_SCATTER};
  if (size == 0) return 0;
  // The block has the exact size, so that a sanitizer sees a read past the end.
  char *block = NULL;
  if (posix_memalign((void **)&block, VX_TENSOR_ALIGNMENT, size > 1 ? size - 1 : 1) != 0) return 0;
  memcpy(block, data + 1, size - 1);
  read_body(ops[data[0] % (sizeof ops / sizeof *ops)], block, size - 1);
  free(block);
  return 0;
}
