// What a job holds; see job.h.
#include "server/jobs/job.h"

#include <stdio.h>
#include <string.h>

#include "kernels/ops.h"

void job_init(struct job *job, struct job_means *means) {
  job->next = NULL;
  atomic_store(&job->loan.state, 0);
  job->means = means;
  job->client = NULL;
  job->coding = job->answer_coding = CODING_NONE;
  job->local = job->form = job->has_place = job->begun = job->answered = job->output_refused = job->packed = false;
  job->strange = NULL;
  job->points_reach.region = NULL;
  job->outputs_reached = job->parts_in_place = job->parts_copied = 0;
  job->kind = answer_kind_of(NULL);
  job->regions_registered = atomic_load(&means->regions->registered);
  job->id = "";
  job->trace_id = NULL;
  job->gone = NULL;
  job->done = job->outpaced = NULL;
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
  job->decoder_bytes = job->scratch_bytes = job->output_length = 0;
  job->device = NULL;
  job->problem.kind = PROBLEM_NONE;
}

enum vx_lane_use job_lane_use(const struct job *job) {
  return vx_lane_use_of(&job->asked.job, job->asked.point_counts);
}

// How large a stream's cloud is shows only once its sweeps are joined. Points in a region, which KServe's may be, are
// read in place by a GPU, but copied for the CPU.
struct site_kind job_site_kind(const struct job *job) {
  const struct job_request *asked = &job->asked;
  bool in_region = asked->points_region.name[0] || job->infer.model;
  bool known = asked->job.num_clouds > 0 && !asked->stream.name[0] && !in_region;
  int64_t rows = known ? asked->job.inputs[0].dims[0] : 0;
  if (!known || !vx_sampling_of(&asked->job)) return site_kind_of(SITE_OTHERS, rows, 0);
  enum site_sampled sampled = asked->job.op == VX_FPS ? SITE_POINTS : SITE_VOXELS;
  return site_kind_of(asked->job.num_clouds == 1 ? sampled : SITE_OTHERS, rows, asked->sample_counts[0]);
}

bool job_is_stale(const struct job *job, int64_t now_ns) { return now_ns > job->deadline_ns || atomic_load(job->gone); }

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

static void note_lack(struct job *job, enum share share, int64_t lacking, enum grant grant) {
  job->lacks = share;
  job->lacking = lacking;
  job->over_share = grant == OVER_CLIENT_SHARE;
}

static bool refuse_memory(struct job *job, const struct shortage *shortage, const char *use, size_t bytes,
                          struct problem *problem) {
  char what[64];
  snprintf(what, sizeof what, "%s of %zu bytes", use, bytes);
  note_lack(job, shortage->share, (int64_t)bytes, shortage->grant);
  return granted(shortage->grant, PROBLEM_MEMORY_FULL, what, problem);
}

static size_t input_capacity(const struct job *job) { return job->input ? job->input->capacity : 0; }

// Bytes that the job holds when it takes more memory: its input, its decoder, what became its sweeps, and the sweeps of
// its client that it reads.
static size_t holding(const struct job *job) {
  size_t bytes = input_capacity(job) + job->decoder_bytes + job->gathered_bytes;
  for (const struct sweep *sweep = job->sweep; sweep; sweep = sweep->next) bytes += sweep->bytes;
  return bytes;
}

bool job_take_place(struct job *job, struct problem *problem) {
  enum share share = SHARE_JOBS + job_lane_use(job);
  enum grant grant = client_take(job->means->clients, job->client, share, 1, 0);
  note_lack(job, share, 1, grant);
  job->has_place = grant == GRANTED;
  return granted(grant, PROBLEM_QUEUE_FULL, "another job", problem);
}

// Long jobs and detections may wait long, so their inputs get only a part of the memory.
static enum share input_share(const struct job *job) {
  static const enum share shares[VX_LANE_USES] = {SHARE_BYTES, SHARE_LONG_BYTES, SHARE_DETECTION_BYTES};
  return shares[job_lane_use(job)];
}

bool job_may_take_input(struct job *job, size_t bytes, struct problem *problem) {
  struct shortage shortage;
  bytes += job->lead;
  if (bytes <= input_capacity(job)) return true;
  if (buffer_may_take(job->means->buffers, job->client, input_share(job), bytes, holding(job), &shortage)) return true;
  return refuse_memory(job, &shortage, "a body", bytes, problem);
}

bool job_take_input(struct job *job, size_t bytes, struct problem *problem) {
  struct buffer *input = job->input;
  bytes += job->lead;
  if (bytes <= input_capacity(job)) return true;
  struct shortage shortage;
  struct buffer *larger =
      buffer_take(job->means->buffers, job->client, input_share(job), bytes, holding(job), &shortage);
  if (!larger) return refuse_memory(job, &shortage, "a body", bytes, problem);
  if (input) memcpy(larger->data + job->lead, job_body(job), (size_t)job->input_bytes);
  job_give_input(job);
  job->input = larger;
  return true;
}

bool job_take_rows(struct job *job, size_t bytes, struct problem *problem) {
  struct shortage shortage;
  size_t left = job->means->buffers->budget - holding(job);
  note_lack(job, SHARES, 0, OVER_SERVER_LIMIT);
  if (buffer_capacity(bytes) > left)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, NULL,
                       "the body's points need %zu bytes; memory_budget_bytes leaves %zu beside the body", bytes, left);
  job->rows = buffer_take(job->means->buffers, job->client, input_share(job), bytes, holding(job), &shortage);
  return job->rows || refuse_memory(job, &shortage, "the body's points", bytes, problem);
}

static bool charge_decoder(struct job *job, struct shortage *shortage) {
  size_t bytes = decoder_bytes(job->decoder), charged = job->decoder_bytes;
  if (bytes <= charged) return true;
  if (!buffers_charge_client(job->means->buffers, job->client, bytes - charged, holding(job), shortage)) return false;
  job->decoder_bytes = bytes;
  return true;
}

bool job_take_decoder(struct job *job, struct problem *problem) {
  struct shortage shortage;
  if (!job->decoder) job->decoder = coders_take_decoder(job->means->coders, job->coding);
  if (job->decoder && charge_decoder(job, &shortage)) return true;
  if (!job->decoder_bytes) {  // one that was used before may hold more than a new one
    decoder_free(job->decoder);
    job->decoder = decoder_new(job->coding);
  }
  if (!job->decoder) {
    note_lack(job, SHARES, 0, OVER_SERVER_LIMIT);
    return problem_set(problem, PROBLEM_MEMORY_FULL, NULL, "there is no memory for a decoder now");
  }
  return charge_decoder(job, &shortage) ||
         refuse_memory(job, &shortage, "a decoder", decoder_bytes(job->decoder), problem);
}

bool job_take_output(struct job *job, size_t bytes, struct problem *problem) {
  struct shortage shortage;
  size_t left = job->means->buffers->budget - holding(job);
  if (buffer_capacity(bytes) > left) {
    note_lack(job, SHARES, 0, OVER_SERVER_LIMIT);
    return problem_set(problem, PROBLEM_IMPOSSIBLE, NULL,
                       "an answer of %zu bytes does not fit the %zu that memory_budget_bytes leaves for it", bytes,
                       left);
  }
  job->output = buffer_take(job->means->buffers, job->client, SHARE_BYTES, bytes, holding(job), &shortage);
  return job->output || refuse_memory(job, &shortage, "an answer", bytes, problem);
}

bool job_take_scratch(struct job *job, size_t bytes, struct problem *problem) {
  struct buffers *buffers = job->means->buffers;
  size_t left = buffers->budget - holding(job) - job->scratch_bytes;
  note_lack(job, SHARES, 0, OVER_SERVER_LIMIT);
  if (bytes > left)
    return problem_set(problem, PROBLEM_IMPOSSIBLE, NULL,
                       "the job needs %zu bytes of working memory; memory_budget_bytes leaves %zu beside its body",
                       bytes, left);
  const struct shortage shortage = {OVER_SERVER_LIMIT, SHARE_BYTES};
  if (!buffers_charge(buffers, bytes)) return refuse_memory(job, &shortage, "working memory", bytes, problem);
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
}

// ---- giving back ----------------------------------------------------------------------------------------------------

void job_leave_place(struct job *job) {
  if (job->has_place) client_give(job->means->clients, job->client, SHARE_JOBS + job_lane_use(job), 1);
  job->has_place = false;
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
