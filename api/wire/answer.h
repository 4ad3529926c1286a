// The answer to a voxelize request: the JSON metadata, the safetensors file around the tensors, the Server-Timing header.
//
// A safetensors file is an 8-byte little-endian length, a JSON header of that many bytes, and the tensors without holes
// (github.com/huggingface/safetensors). The header goes in front of the tensors but holds the times of writing them, so room is
// reserved first and filled last; spaces, which the format allows there, take up the rest. Tensors start on 64 bytes: where the
// one before ends elsewhere, a U8 tensor `_padding_N` stands between. Any thread; nothing here allocates.
#ifndef VOXELD_ANSWER_H
#define VOXELD_ANSWER_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/text.h"
#include "api/params/params.h"
#include "kernels/kernels.h"

#define SAFETENSORS_MEDIA_TYPE "application/vnd.safetensors"

// Where a request's time goes; the kernels' own stages lie between queue and total.
enum { TIMING_RECEIVE, TIMING_QUEUE, TIMING_STAGES, TIMING_TOTAL = TIMING_STAGES + VX_STAGE_COUNT, TIMING_COUNT };

// What became of the points that were received, and of the voxels that appeared: each has one fate.
struct fate {
  const char *name;
  size_t offset;  // of its number in struct vx_counts
};
enum { POINT_FATES = 6, VOXEL_FATES = 3 };
extern const struct fate point_fates[POINT_FATES], voxel_fates[VOXEL_FATES];
int64_t fate_count(const struct fate *fate, const struct vx_counts *counts);

// What the metadata tells; everything pointed to is the caller's.
struct answer {
  const char *request_id;
  const char *backend, *device;
  const struct job_request *request;
  const struct vx_job *job;  // counts, voxel_counts and stage times, once run
  int64_t receive_ns, queue_ns, total_ns;
  const char *trace_id;  // NULL where the client sent none
};

const char *answer_timing_name(int timing);  // receive, queue, the stages, total
int64_t answer_timing_ns(const struct answer *answer, int timing);

// The metadata as one JSON object.
void answer_metadata(const struct answer *answer, struct text *out);

// Bytes to reserve in front of the tensors: whatever the times turn out to be, the header fits. A multiple of 64.
size_t answer_header_reserve(const struct answer *answer, const struct vx_layout *layout);

// Writes all of the file but its tensors: length prefix and header over block[0..reserve), zeros between the tensors behind.
void answer_frame_write(const struct answer *answer, const struct vx_layout *layout, char *block, size_t reserve);

// The value of the Server-Timing header, in milliseconds.
void answer_server_timing(const struct answer *answer, struct text *out);

#endif
