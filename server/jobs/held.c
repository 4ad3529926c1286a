// See held.h.
#include "server/jobs/held.h"

#include <string.h>

#include "server/jobs/uploads.h"

// Bytes that the job holds when it acquires more memory, with the sweeps of its body and of its stream.
static size_t bytes_held(const struct job *job) {
  const struct job_held *held = &job->held;
  size_t bytes = held->decoder_bytes + (held->input ? held->input->capacity : 0);
  if (held->rows) bytes += held->rows->capacity;
  if (held->times) bytes += held->times->capacity;
  if (!job->stream) return bytes;
  for (const struct sweep *sweep = job->stream->sweep; sweep; sweep = sweep->next) bytes += sweep->bytes;
  return bytes + job->stream->gathered_bytes;
}

// Refuses a job that would be too large for the budget even alone.
static bool refuse_size(struct job *job, size_t bytes, size_t left, const char *what, struct shortage *shortage) {
  *shortage = (struct shortage){OVER_SERVER_LIMIT, SHARES, (int64_t)bytes};
  return error_refuse(&job->result.error, ERROR_IMPOSSIBLE, NULL,
                      "%s %zu bytes; memory_budget_bytes leaves %zu beside the body", what, bytes, left);
}

// ---- attempts -------------------------------------------------------------------------------------------------------

// NULL with the shortage and an error. `needs` begins the error of a job that is too large, `what` is for a shortage.
static struct buffer *try_buffer(struct job *job, enum share share, size_t bytes, const char *needs, const char *what,
                                 struct shortage *shortage) {
  struct buffers *buffers = job->services->buffers;
  size_t mine = bytes_held(job), left = buffers->budget - mine;
  if (buffer_capacity(bytes) > left) return (void)refuse_size(job, bytes, left, needs, shortage), NULL;
  struct buffer *buffer = buffer_acquire(buffers, job->client, share, bytes, mine, shortage);
  if (!buffer) (void)shortage_refuse(shortage, what, &job->result.error);
  return buffer;
}

static bool try_rows(struct job *job, size_t bytes, struct shortage *shortage) {
  struct job_held *held = &job->held;
  struct buffer *larger =
      try_buffer(job, share_of_body(job_lane_use(job)), bytes, "the body's points need", "the body's points", shortage);
  if (!larger) return false;
  if (held->rows) memcpy(larger->data, held->rows->data, held->rows_bytes);
  job_release_buffer(&held->rows);
  held->rows = larger;
  return true;
}

static bool try_times(struct job *job, size_t bytes, struct shortage *shortage) {
  enum share share = share_of_body(job_lane_use(job));
  job->held.times = try_buffer(job, share, bytes, "the points' times need", "the points' times", shortage);
  return job->held.times;
}

static bool try_output(struct job *job, size_t bytes, struct shortage *shortage) {
  job->held.output = try_buffer(job, SHARE_BYTES, bytes, "the answer needs", "an answer", shortage);
  return job->held.output;
}

static bool try_scratch(struct job *job, size_t bytes, struct shortage *shortage) {
  struct buffers *buffers = job->services->buffers;
  size_t left = buffers->budget - bytes_held(job) - job->held.scratch_bytes;
  if (bytes > left) return refuse_size(job, bytes, left, "the job's working memory needs", shortage);
  if (!budget_acquire(buffers, NULL, bytes, 0, shortage))
    return shortage_refuse(shortage, "working memory", &job->result.error);
  job->held.scratch_bytes += bytes;
  return true;
}

// Takes what the decoder has allocated since the last call out of the budget.
static bool try_decoder_bytes(struct job *job, struct shortage *shortage) {
  size_t bytes = decoder_bytes(job->held.decoder), mine = job->held.decoder_bytes;
  if (bytes <= mine) return true;
  if (!budget_acquire(job->services->buffers, job->client, bytes - mine, bytes_held(job), shortage)) return false;
  job->held.decoder_bytes = bytes;
  return true;
}

static bool try_decoder(struct job *job, size_t number, struct shortage *shortage) {
  struct job_held *held = &job->held;
  enum coding coding = (enum coding)number;
  if (!held->decoder) held->decoder = coders_acquire_decoder(job->services->coders, coding);
  if (held->decoder && try_decoder_bytes(job, shortage)) return true;
  if (!held->decoder_bytes) {  // a used decoder may hold more memory than a new one
    decoder_close(held->decoder);
    held->decoder = decoder_new(coding);
  }
  if (!held->decoder) {
    *shortage = (struct shortage){OVER_SERVER_LIMIT, SHARES, 0};
    return error_refuse(&job->result.error, ERROR_MEMORY_FULL, NULL, "there is no memory for a decoder now");
  }
  return try_decoder_bytes(job, shortage) || shortage_refuse(shortage, "a decoder", &job->result.error);
}

// Repeats the attempt until it succeeds, or nothing can make room any more.
static bool acquire(struct job *job, size_t bytes, bool (*attempt)(struct job *, size_t, struct shortage *)) {
  struct shortage shortage;
  while (!attempt(job, bytes, &shortage))
    if (!uploads_make_room(job->services, job->client, &shortage)) return false;
  job->result.error.kind = ERROR_NONE;
  return true;
}

// ---- acquiring ------------------------------------------------------------------------------------------------------

static bool try_queue_slot(struct job *job, size_t bytes, struct shortage *shortage) {
  (void)bytes;
  return queue_slot_acquire(job->services->clients, job->client, job_lane_use(job), shortage, &job->result.error);
}

bool job_acquire_queue_slot(struct job *job) {
  struct shortage shortage;
  enum vx_lane_use use = job_lane_use(job);
  if (job->held.queue_slot == share_of_queue_slot(use)) return true;
  if (!try_queue_slot(job, 0, &shortage)) {  // the job that this one supersedes may have the slot
    if (!job->asked.latest[0]) return false;
    (void)job->services->supersede(job->services->jobs, job);
    if (!acquire(job, 0, try_queue_slot)) return false;
  }
  job_release_queue_slot(job);
  job->held.queue_slot = share_of_queue_slot(use);
  return true;
}

bool job_acquire_rows(struct job *job, size_t bytes) { return acquire(job, bytes, try_rows); }

bool job_acquire_times(struct job *job, size_t bytes) { return acquire(job, bytes, try_times); }

bool job_acquire_output(struct job *job, size_t bytes) { return acquire(job, bytes, try_output); }

bool job_acquire_decoder(struct job *job, enum coding coding) { return acquire(job, coding, try_decoder); }

bool job_acquire_scratch(struct job *job, size_t bytes) { return acquire(job, bytes, try_scratch); }

void job_acquire_detector(struct job *job) {
  if (!vx_operations[job->asked.job.op].needs_detector) return;
  job->held.detector = detector_of(&job->asked);
  detector_hold(job->held.detector);
}

void job_use_rows(struct job *job) {
  job_release_buffer(&job->held.input);
  job->held.input = job->held.rows;
  job->held.rows = NULL;
  job->held.rows_bytes = 0;
}

// ---- releasing ------------------------------------------------------------------------------------------------------

void job_release_queue_slot(struct job *job) {
  if (job->held.queue_slot != SHARES) share_release(job->services->clients, job->client, job->held.queue_slot, 1);
  job->held.queue_slot = SHARES;
}

void job_release_buffer(struct buffer **buffer) {
  if (*buffer) buffer_release(*buffer);
  *buffer = NULL;
}

// Frees a decoder that grew beyond what it was granted: the next job might be refused for its size.
void job_release_decoder(struct job *job) {
  struct job_held *held = &job->held;
  if (held->decoder && decoder_bytes(held->decoder) > held->decoder_bytes)
    decoder_close(held->decoder);
  else if (held->decoder)
    coders_release_decoder(job->services->coders, held->decoder);
  if (held->decoder_bytes) budget_release(job->services->buffers, job->client, held->decoder_bytes);
  held->decoder = NULL;
  held->decoder_bytes = 0;
}

void job_release_scratch(struct job *job) {
  if (job->held.scratch_bytes) budget_release(job->services->buffers, NULL, job->held.scratch_bytes);
  job->held.scratch_bytes = 0;
}
