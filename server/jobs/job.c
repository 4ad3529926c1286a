// What a job holds; see job.h.
#include "server/jobs/job.h"

#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"
#include "server/base/clock.h"
#include "server/base/phase.h"

void job_init(struct job *job, struct job_means *means) {
  job->next = NULL;
  job->means = means;
  job->client = NULL;
  job->coding = job->answer_coding = CODING_NONE;
  job->local = job->form = job->begun = job->answered = job->output_refused = job->packed = false;
  job->strange = NULL;
  job->points_reach.region = NULL;
  job->outputs_reached = job->parts_in_place = job->parts_copied = 0;
  job->kind = answer_kind_of(NULL);
  job->regions_registered = atomic_load(&means->regions->registered);
  job->id = "";
  job->trace_id = NULL;
  job->gone = NULL;
  job->done = NULL;
  job->make = NULL;
  job->place = SHARES;
  job->started_ns = job->queued_ns = job->deadline_ns = job->input_bytes = 0;
  job->lead = 0;
  job->infer.model = NULL;
  job->detector = NULL;
  job->input = job->output = job->rows = NULL;
  job->points = NULL;
  job->turn.stream = NULL;
  job->sweep = NULL;
  job->lost_sweeps = 0;
  job->gathered_bytes = 0;
  job->decoder = NULL;
  job->rows_bytes = job->decoder_bytes = job->scratch_bytes = job->output_length = 0;
  job->device = NULL;
  job->problem.kind = PROBLEM_NONE;
}

enum vx_lane_use job_lane_use(const struct job *job) {
  return vx_lane_use_of(&job->asked.job, job->asked.point_counts);
}

bool job_is_stale(const struct job *job, int64_t now_ns) { return now_ns > job->deadline_ns || atomic_load(job->gone); }

bool job_is_stopped(const struct job *job) { return job_is_stale(job, clock_ns()) || atomic_load(&job->means->hurry); }

bool job_refuse_stopped(struct job *job, const char *what) {
  if (atomic_load(&job->means->hurry)) return problem_set(&job->problem, PROBLEM_DRAINING, NULL, DRAIN_IS_OVER);
  return problem_set(&job->problem, PROBLEM_DEADLINE, NULL, "%s, after %lld ms", what,
                     (long long)((clock_ns() - job->queued_ns) / NS_PER_MS));
}

// Until its rows are counted, a batch whose parts are not given has one cloud.
enum vx_status job_layout(const struct job *job, int64_t rows, struct vx_layout *layout, struct vx_error *error) {
  struct vx_job work = job->asked.job;
  work.tensors = job->kind->tensors(&job->asked);
  work.counts.voxels_kept = work.counts.kept = rows;
  if (work.num_clouds == 0) work.num_clouds = job->asked.num_clouds ? job->asked.num_clouds : 1;
  struct vx_sizes sizes = vx_sizes_of(&work);
  return vx_layout_of(work.tensors, &sizes, layout, error);
}

bool job_may_use_state(const struct job *job, struct problem *problem) {
  return !job->strange ||
         problem_set(problem, PROBLEM_FORBIDDEN, NULL,
                     "streams and shared memory are not for web pages of other sites: %s", job->strange);
}

bool job_may_fit(const struct job *job, struct problem *problem) {
  struct vx_layout layout;
  struct vx_error error;
  if (job_layout(job, 0, &layout, &error) != VX_OK)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, NULL, "%s", error.text);
  return layout.bytes <= job->means->max_response_bytes ||
         problem_set(problem, PROBLEM_IMPOSSIBLE, NULL, "the answer would have %zu bytes or more; allowed: up to %zu",
                     layout.bytes, job->means->max_response_bytes);
}

// ---- taking ---------------------------------------------------------------------------------------------------------

static bool granted(enum grant grant, enum problem_kind full, const char *what, struct problem *problem) {
  if (grant == GRANTED) return true;
  if (grant == OVER_SERVER_LIMIT) return problem_set(problem, full, NULL, "there is no room for %s now", what);
  return problem_set(problem, PROBLEM_CLIENT_OVER_SHARE, NULL,
                     "with %s this client would hold more than is left to others; wait until one of its requests ends",
                     what);
}

bool shortage_refuse(const struct shortage *shortage, const char *what, struct problem *problem) {
  char text[64];
  snprintf(text, sizeof text, "%s of %lld bytes", what, (long long)shortage->amount);
  return granted(shortage->grant, PROBLEM_MEMORY_FULL, text, problem);
}

static size_t input_capacity(const struct job *job) { return job->input ? job->input->capacity : 0; }

// Bytes that the job holds when it takes more memory: its input, its decoder, what became its sweeps, and the sweeps of
// its client that it reads.
static size_t holding(const struct job *job) {
  size_t bytes = input_capacity(job) + job->decoder_bytes + job->gathered_bytes;
  for (const struct sweep *sweep = job->sweep; sweep; sweep = sweep->next) bytes += sweep->bytes;
  return bytes;
}

bool place_take(struct clients *clients, struct client *client, enum vx_lane_use use, struct shortage *shortage,
                struct problem *problem) {
  enum share share = share_of_place(use);
  *shortage = (struct shortage){client_take(clients, client, share, 1, 0), share, 1};
  return granted(shortage->grant, PROBLEM_QUEUE_FULL, "another job", problem);
}

bool job_take_place(struct job *job, struct problem *problem) {
  enum vx_lane_use use = job_lane_use(job);
  if (job->place == share_of_place(use)) return true;
  if (!place_take(job->means->clients, job->client, use, &job->shortage, problem)) return false;
  job_leave_place(job);
  job->place = share_of_place(use);
  return true;
}

// The problem of a job that is too large for the budget, however little others hold.
static bool refuse_size(struct job *job, size_t bytes, size_t left, const char *what, struct problem *problem) {
  job->shortage = (struct shortage){OVER_SERVER_LIMIT, SHARES, (int64_t)bytes};
  return problem_set(problem, PROBLEM_IMPOSSIBLE, NULL, "%s %zu bytes; memory_budget_bytes leaves %zu beside the body",
                     what, bytes, left);
}

bool job_take_rows(struct job *job, size_t bytes, struct problem *problem) {
  struct job_means *means = job->means;
  size_t mine = holding(job) + (job->rows ? job->rows->capacity : 0), left = means->buffers->budget - mine;
  if (buffer_capacity(bytes) > left) return refuse_size(job, bytes, left, "the body's points need", problem);
  struct buffer *larger =
      buffer_take(means->buffers, job->client, share_of_input(job_lane_use(job)), bytes, mine, &job->shortage);
  if (!larger) return shortage_refuse(&job->shortage, "the body's points", problem);
  if (job->rows) memcpy(larger->data, job->rows->data, job->rows_bytes);
  job_give_rows(job);
  job->rows = larger;
  return true;
}

static bool charge_decoder(struct job *job) {
  size_t bytes = decoder_bytes(job->decoder), charged = job->decoder_bytes;
  if (bytes <= charged) return true;
  if (!buffers_charge_client(job->means->buffers, job->client, bytes - charged, holding(job), &job->shortage))
    return false;
  job->decoder_bytes = bytes;
  return true;
}

bool job_take_decoder(struct job *job, struct problem *problem) {
  if (!job->decoder) job->decoder = coders_take_decoder(job->means->coders, job->coding);
  if (job->decoder && charge_decoder(job)) return true;
  if (!job->decoder_bytes) {  // one that was used before may hold more than a new one
    decoder_free(job->decoder);
    job->decoder = decoder_new(job->coding);
  }
  if (!job->decoder) {
    job->shortage = (struct shortage){OVER_SERVER_LIMIT, SHARES, 0};
    return problem_set(problem, PROBLEM_MEMORY_FULL, NULL, "there is no memory for a decoder now");
  }
  return charge_decoder(job) || shortage_refuse(&job->shortage, "a decoder", problem);
}

bool job_take_output(struct job *job, size_t bytes, struct problem *problem) {
  size_t mine = holding(job), left = job->means->buffers->budget - mine;
  if (buffer_capacity(bytes) > left) return refuse_size(job, bytes, left, "the answer needs", problem);
  job->output = buffer_take(job->means->buffers, job->client, SHARE_BYTES, bytes, mine, &job->shortage);
  return job->output || shortage_refuse(&job->shortage, "an answer", problem);
}

bool job_take_scratch(struct job *job, size_t bytes, struct problem *problem) {
  struct buffers *buffers = job->means->buffers;
  size_t left = buffers->budget - holding(job) - job->scratch_bytes;
  if (bytes > left) return refuse_size(job, bytes, left, "the job's working memory needs", problem);
  job->shortage = (struct shortage){OVER_SERVER_LIMIT, SHARE_BYTES, (int64_t)bytes};
  if (!buffers_charge(buffers, bytes)) return shortage_refuse(&job->shortage, "working memory", problem);
  job->scratch_bytes += bytes;
  return true;
}

void job_hold_detector(struct job *job) {
  if (job->asked.job.op != VX_DETECT) return;
  job->detector = detector_of(&job->asked);
  detector_hold(job->detector);
}

void job_leave_detector(struct job *job) {
  detector_release(job->detector);
  job->detector = NULL;
}

void job_keep_rows(struct job *job) {
  job_give_input(job);
  job->input = job->rows;
  job->rows = NULL;
  job->rows_bytes = 0;
}

// ---- giving back ----------------------------------------------------------------------------------------------------

void job_leave_place(struct job *job) {
  if (job->place != SHARES) client_give(job->means->clients, job->client, job->place, 1);
  job->place = SHARES;
}

void job_give_input(struct job *job) {
  if (job->input) buffer_give(job->input);
  job->input = NULL;
}

void job_give_rows(struct job *job) {
  if (job->rows) buffer_give(job->rows);
  job->rows = NULL;
}

// A decoder that grew beyond what it was granted is not kept: others would be refused for its size.
void job_give_decoder(struct job *job) {
  if (job->decoder && decoder_bytes(job->decoder) > job->decoder_bytes)
    decoder_free(job->decoder);
  else if (job->decoder)
    coders_give_decoder(job->means->coders, job->decoder);
  if (job->decoder_bytes) buffers_discharge_client(job->means->buffers, job->client, job->decoder_bytes);
  job->decoder = NULL;
  job->decoder_bytes = 0;
}

void job_give_output(struct job *job) {
  if (job->output) buffer_give(job->output);
  job->output = NULL;
}

void job_give_scratch(struct job *job) {
  buffers_discharge(job->means->buffers, job->scratch_bytes);
  job->scratch_bytes = 0;
}
