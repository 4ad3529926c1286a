// See coded.h.
#include "server/jobs/coded.h"

#include <stdio.h>
#include <string.h>

#include "server/jobs/held.h"

// A body is decoded into this many times its own bytes at first. Each time that they are full there are twice as many.
enum { FIRST_ROOM = 2, LEAST_ROOM = 64 * 1024 };
// Between two looks at the deadline, so many bytes are decoded at most, into so many. Frames that decode to nothing are
// bytes too.
enum { PART_IN = 64 * 1024, PART = 1 << 20 };

// The decoded bytes lie behind the lead, which `rows_bytes` includes.
static size_t decoded(const struct job *job) { return job->held.rows_bytes - job->spec.lead; }

static size_t room_in(const struct job *job) {
  return job->held.rows ? job->held.rows->capacity - job->held.rows_bytes : 0;
}

// Makes room behind what is decoded, unless the body may be no longer.
static bool grow(struct job *job) {
  size_t most = job->services->max_body_bytes, bytes = FIRST_ROOM * (size_t)job->held.body_bytes;
  if (room_in(job) > 0 || decoded(job) == most) return true;
  if (decoded(job) > 0) bytes = 2 * decoded(job);
  if (bytes < LEAST_ROOM) bytes = LEAST_ROOM;
  return job_acquire_rows(job, job->spec.lead + (bytes < most ? bytes : most));
}

static bool refuse_length(struct job *job) {
  return problem_set(&job->result.problem, PROBLEM_BODY_TOO_LARGE, NULL,
                     "the body is longer than %zu bytes when decoded", job->services->max_body_bytes);
}

// Decodes one part into the room there is or, once the body may be no longer, into a byte that shows whether it is.
static bool decode_part(struct job *job, struct coding_step *step, bool *more) {
  char beyond;
  size_t left = job->services->max_body_bytes - decoded(job), room = left < PART ? left : PART;
  size_t rest = step->in_size > PART_IN ? step->in_size - PART_IN : 0;
  if (room > room_in(job)) room = room_in(job);
  step->in_size -= rest;
  step->out = left ? job->held.rows->data + job->held.rows_bytes : &beyond;
  step->out_size = left ? room : 1;
  if (!decoder_run(job->held.decoder, step, &job->result.problem)) return false;
  bool is_full = step->out_size == 0;
  step->in_size += rest;
  *more = is_full || step->in_size > 0;
  if (left) job->held.rows_bytes += room - step->out_size;
  return left || !is_full || refuse_length(job);
}

// job_acquire_decoder charges what the decoder has taken in the part before.
static bool decode(struct job *job) {
  struct coding_step step = {.in = job_body(job), .in_size = (size_t)job->held.body_bytes};
  for (bool more = true; more;) {
    if (job_is_stopped(job)) return job_refuse_stopped(job, "the deadline passed while the body was decoded");
    if (!job_acquire_decoder(job) || !grow(job) || !decode_part(job, &step, &more)) return false;
  }
  return decoder_end(job->held.decoder, &job->result.problem);
}

bool coded_open(struct job *job) {
  if (job->held.body_bytes == 0)
    return problem_set(&job->result.problem, PROBLEM_BAD_BODY, NULL, "the body is empty, and so no %s stream",
                       coding_name(job->spec.coding));
  job->held.rows_bytes = job->spec.lead;
  bool good = decode(job);
  size_t bytes = decoded(job);
  job_release_decoder(job);
  if (!good) return false;
  job_use_rows(job);
  job->held.body_bytes = (int64_t)bytes;
  return true;
}
