// Reads a body that is a safetensors file: its tensors become an operation's inputs, by their names.
// Everything here points into the body, which is the caller's. Any thread.
#ifndef VOXELD_TENSORS_H
#define VOXELD_TENSORS_H

#include "api/ops/ops.h"

// Binds the inputs of the request's operation: their types, shapes and places. `bytes` are aligned to 64; if the
// tensors are not aligned as kernels.h wants them, they are moved over the header. False with an error.
VX_WARN_UNUSED bool tensors_read(char *bytes, size_t size, struct job_request *request, struct error *error);

#endif
