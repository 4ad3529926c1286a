// The metadata of an answer as JSON, and its times as the Server-Timing header. The operation of the job decides the
// members. Any thread; answer_begin_facts and answer_keep_facts take memory from a pool.
#ifndef VOXELD_METADATA_H
#define VOXELD_METADATA_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/text.h"
#include "api/ops/ops.h"
#include "api/wire/join.h"
#include "api/wire/warnings.h"
#include "kernels/kernels.h"

// Parts of a request's time. The stages of kernels are between queue and total.
enum { TIMING_RECEIVE, TIMING_QUEUE, TIMING_STAGES, TIMING_TOTAL = TIMING_STAGES + VX_STAGE_COUNT, TIMING_COUNT };

// Each voxel has one fate.
extern const char *const voxel_fates[VX_VOXEL_FATES];

struct infer;

// The source of the metadata. All pointers belong to the caller.
struct answer {
  const char *request_id;
  const char *backend, *device;
  const struct job_request *request;
  const struct vx_job *job;  // finished
  int64_t receive_ns, queue_ns, total_ns;
  int64_t encode_ns;            // to make and to encode the answer's file; 0 = no such stage
  int64_t began_ns;             // since 1970; set for files only; 0 for stable metadata
  const char *trace_id;         // NULL = the client sent none
  struct inspection inspected;  // of the body and the points
  size_t region_bytes;          // written to output_region
  size_t region_head;           // before the tensors in output_region; 0 = no safetensors file there
  struct infer *infer;          // of KServe's protocol, else NULL
  struct text facts;            // the metadata without times, begun or complete
  bool facts_kept;              // `facts` is complete; else each text writes the facts anew
  bool untimed;                 // the times are not known yet: the metadata has none
  struct text header;    // of a safetensors file; answer_header_reserve keeps it here if `untimed` and if it fits
  struct vx_stop *stop;  // checked while a file is written; if stopped, the file is incomplete
};

// Without ids, times, devices and regions.
static inline bool answer_is_stable(const struct answer *answer) {
  return answer->request->metadata == METADATA_STABLE;
}

const char *answer_timing_name(int timing);                         // receive, queue, the stages, total
int64_t answer_timing_ns(const struct answer *answer, int timing);  // -1: the operation has no such stage

// The facts are the metadata without times. The metadata is written several times: to measure, and maybe twice in an
// answer. answer_keep_facts, called when all facts are known, keeps them in the pool, if it has memory.
// Before a voxelization, answer_begin_facts may write the facts that are known by then.
void answer_begin_facts(struct answer *answer, struct pool *pool);
void answer_keep_facts(struct answer *answer, struct pool *pool);

// Writes a JSON object. `widest`: with the longest possible times, to measure.
void answer_metadata(const struct answer *answer, bool widest, struct text *out);

// Milliseconds; less than SERVER_TIMING_SIZE bytes.
enum { SERVER_TIMING_SIZE = 48 * (TIMING_COUNT + 1) + VX_MAX_STEPS * (STEP_TAG_SIZE + 32) };
void answer_server_timing(const struct answer *answer, struct text *out);

#endif
