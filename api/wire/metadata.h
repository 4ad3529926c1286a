// The metadata of an answer as JSON, and its times as the Server-Timing header.
//
// The job's operation decides which members there are. Any thread; only answer_begin_facts and
// answer_keep_facts take memory.
#ifndef VOXELD_METADATA_H
#define VOXELD_METADATA_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/text.h"
#include "api/ops/ops.h"
#include "api/wire/join.h"
#include "api/wire/warnings.h"
#include "kernels/kernels.h"

// The parts of a request's time. The stages of the kernels come between queue and total.
enum { TIMING_RECEIVE, TIMING_QUEUE, TIMING_STAGES, TIMING_TOTAL = TIMING_STAGES + VX_STAGE_COUNT, TIMING_COUNT };

// The fates of voxels: each voxel is counted under one fate.
extern const char *const voxel_fates[VX_VOXEL_FATES];

struct infer;

// What the metadata is made from. Everything pointed to belongs to the caller.
struct answer {
  const char *request_id;
  const char *backend, *device;
  const struct job_request *request;
  const struct vx_job *job;  // counts, row_counts and stage times, once run
  int64_t receive_ns, queue_ns, total_ns;
  int64_t encode_ns;            // time to make a file from the tensors and to encode the answer; 0 = no such stage
  int64_t began_ns;             // when the request began, since 1970; set only for files; 0 for stable metadata
  const char *trace_id;         // NULL if the client sent none
  struct inspection inspected;  // of the body and the points
  size_t region_bytes;          // bytes written to the request's output_region
  size_t region_head;           // bytes before the tensors in output_region; 0 if it has no safetensors file
  struct infer *infer;          // for a request by KServe's protocol, else NULL
  struct text facts;            // the metadata up to its times, begun or kept
  bool facts_kept;              // `facts` is complete; else each text writes the facts anew
  bool untimed;                 // the times are not known yet, so the metadata has none
  struct text header;           // the safetensors header, kept when measured if it has no times; else without memory
  struct vx_stop *stop;         // the writer of a file checks it; if stopped, the file is incomplete
};

// Whether the answer has no ids, times, devices and regions.
static inline bool answer_is_stable(const struct answer *answer) {
  return answer->request->metadata == METADATA_STABLE;
}

const char *answer_timing_name(int timing);                         // receive, queue, the stages, total
int64_t answer_timing_ns(const struct answer *answer, int timing);  // -1: a stage that the operation does not have

// The facts are the metadata without the times. An answer may have its metadata twice, and each text is measured before
// it is written. To write the facts once for all these texts, call answer_keep_facts when all facts are known. It keeps
// them in memory of the pool; without memory nothing is kept. Before a voxelization runs, answer_begin_facts may write
// the facts that are known then.
void answer_begin_facts(struct answer *answer, struct pool *pool);
void answer_keep_facts(struct answer *answer, struct pool *pool);

// Writes the metadata as one JSON object. `widest` writes the longest possible times, to measure the text.
void answer_metadata(const struct answer *answer, bool widest, struct text *out);

// Writes the value of the Server-Timing header, in milliseconds: less than SERVER_TIMING_SIZE bytes.
enum { SERVER_TIMING_SIZE = 48 * (TIMING_COUNT + 1) + VX_MAX_STEPS * (STEP_TAG_SIZE + 32) };
void answer_server_timing(const struct answer *answer, struct text *out);

#endif
