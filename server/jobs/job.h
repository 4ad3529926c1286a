// A job: one computation. held.h acquires what it holds; uploads.h reserves memory while its body arrives.
//
// The maker fills the job and owns it until jobs_submit. Then the queue or the stream owns it, then a worker. The last
// owner returns the job to its maker by calling `done`. The maker keeps a small job (small_run).
#ifndef VOXELD_JOB_H
#define VOXELD_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/detector.h"
#include "api/ops/ops.h"
#include "api/wire/coding.h"
#include "api/wire/gather.h"
#include "api/wire/infer_answer.h"
#include "api/wire/times.h"
#include "kernels/kernels.h"
#include "server/base/counters.h"
#include "server/clients/clients.h"
#include "server/jobs/buffers.h"
#include "server/jobs/coders.h"
#include "server/jobs/devices.h"
#include "server/jobs/placement.h"
#include "server/jobs/regions.h"
#include "server/streams/streams.h"

struct jobs;
struct uploads;
struct helpers;
struct job;

struct job_services {
  struct uploads *uploads;
  struct devices *devices;
  struct buffers *buffers;
  struct coders *coders;
  struct helpers *helpers;
  struct regions *regions;
  struct streams *streams;
  struct clients *clients;
  struct counters *counters;
  size_t max_body_bytes, max_response_bytes;
  atomic_bool hurry;  // running jobs stop
  // Functions of jobs.c, for any thread. gpu_changed: a GPU is lost or paused, or works again. requeue: a job that
  // waited in its stream may run, or a job needs other lanes. supersede: a job with a whole body needs an older job's
  // queue slot; false if no older job waits.
  struct jobs *jobs;
  void (*gpu_changed)(struct jobs *jobs, bool lost);
  void (*requeue)(struct jobs *jobs, struct job *job);
  bool (*supersede)(struct jobs *jobs, const struct job *job);
};

// Constant facts that the maker sets in addition to the request. `local` and `cross_origin` are set for pages and for
// requests that may name streams or regions.
struct job_spec {
  const char *id, *trace_id;  // trace_id: NULL if the client sent none
  const struct answer_kind *kind;
  enum coding coding;                     // of the body; CODINGS: an unsupported one
  enum coding answer_coding;              // that the client prefers
  bool local;                             // the client is on this machine, without a proxy
  bool form;                              // the body came as application/x-www-form-urlencoded
  const char *cross_origin;               // why a web page of another site may have sent the request; NULL: none has
  unsigned long long regions_registered;  // struct regions.registered when its request began
  size_t lead;                            // bytes of padding before the body in the input
  int64_t started_ns;                     // when its request began
  const atomic_bool *gone;                // the client cannot read an answer any more
  void (*done)(struct job *job);          // returns the job to its maker, with a result
  // For a job without points: a worker calls it instead of a run. It writes the answer to the output. False with the
  // result's error. NULL: the job runs.
  bool (*make)(struct job *job);
};

// job_release (run.h) releases all but the answer.
struct job_held {
  enum share queue_slot;    // the share of its queue slot; SHARES: it has none
  struct buffer *input;     // the body; later the tensors, if the answer is a file made from them
  int64_t body_bytes;       // of the input, after the lead
  struct buffer *rows;      // made from the input; they become the input
  size_t rows_bytes;        // of `rows`, written so far
  struct buffer *times;     // of the points, if the request reads them
  struct buffer *output;    // the answer or its tensors
  struct decoder *decoder;  // of a coded body, while the worker decodes the body
  size_t decoder_bytes;     // acquired for the decoder
  size_t scratch_bytes;
  struct detector *detector;  // of the request; NULL: none
};

struct job_result {
  bool begun;
  bool answered;  // the output has the answer; false: `error` has the reason
  struct error error;
  struct device *device;  // ran it last
  struct answer answer;   // the source of its metadata
  const struct answer_kind *kind;
  enum coding coding;
  size_t length;  // bytes of the answer
  int ranges;     // parts of the output that make up the answer; 0: the answer is the first `length` bytes
  struct byte_range range[INFER_RANGES_MAX];
};

// The part of a job that has a stream (sweeps.h).
struct job_stream {
  struct job *job;  // has this job_stream
  struct stream_turn turn;
  struct sweep *sweep;    // the sweeps of its body, linked by `next`, the newest first
  int32_t lost_sweeps;    // sweeps of its body without room to be kept
  size_t gathered_bytes;  // of the stream's sweeps, while the job reads them
  struct join_report joined;
  struct pose frame;                           // of the joined points
  int32_t points[JOINED_SWEEPS_MAX];           // in each section of the joined cloud
  struct vx_counts counts[JOINED_SWEEPS_MAX];  // of each section
};

// A part of a region that a tensor, or the whole answer, goes to.
enum { WHOLE_ANSWER = -1 };
struct sink {
  int tensor;  // or WHOLE_ANSWER
  struct region_part part;
};

// The part of a job that uses regions of shared memory (shared.h).
struct job_shared {
  const struct device *gpu;    // in whose memory some regions are; NULL: no region is in GPU memory
  struct vx_lane *lane;        // that runs the job
  struct region_part source;   // of the points, until they are copied
  int sinks, in_place;         // in_place: how many of them a GPU writes: all that get bytes, or 0
  int copied;                  // parts copied from or to regions
  struct view_sample *sample;  // of the points, while the GPU reads it; NULL: there is none
  struct sink sink[VX_TENSOR_COUNT];
  void *output_ptrs[VX_TENSOR_COUNT];  // where a GPU writes the tensors of sinks
};

struct job {
  struct job *next;            // in the queue
  struct placement_cost cost;  // if the queue has a placement
  struct job_services *services;
  struct client *client;           // counts the job
  int64_t queued_ns, deadline_ns;  // when it was submitted; when it must end (its body may set an earlier time)
  struct job_spec spec;
  struct job_held held;
  struct job_result result;

  // In the pool of the request. NULL: the job has none.
  struct infer *infer;  // of a request by KServe's protocol
  struct job_stream *stream;
  struct job_shared *shared;

  const void *points;      // rows in the input or in a region; NULL: the body is not open yet
  struct vx_stop stop;     // for the worker's own passes over the points
  struct cloud_loss loss;  // of points in a file or in JSON
  struct deskew_report deskewed;
  double measured;  // when its points were measured, in seconds since 1970; unset without max_age_ms
  double age_ms;    // of its points when their computation began; 0 without max_age_ms
  // Why the job is not computed and gives only its sweep to its stream: ERROR_SUPERSEDED (set while the job waits, with
  // the lock of its queue or stream held) or ERROR_TOO_OLD. ERROR_NONE: the job is computed.
  enum error_kind spared;
  bool inspected;       // the points, for warnings
  bool output_refused;  // the answer is too large or there is no memory: another lane would fail too
  size_t head_bytes;    // of the header in front of the tensors; 0: they have none

  // job_init does not clear the members below. They are written before they are read, except the pool in `asked`.
  struct vx_job work;
  struct vx_layout tensor_layout;
  struct job_request asked;  // the body may add to it
};

_Static_assert(offsetof(struct job, work) <= 4096, "what is cleared for each job is small");

// Chooses jobs that wait, to take them out of a queue or of streams.
struct job_choice {
  // Called with the lock of the queue or the streams held. NULL: all.
  bool (*takes)(struct job *job, struct job_choice *choice);
  int64_t now_ns;
  // For superseding (jobs.c). The client is compared, not dereferenced.
  const struct client *client;
  char latest[STREAM_NAME_SIZE];
  int64_t before_ns;  // takes only jobs submitted before this time
  int64_t newest_ns;  // when the newest of the client's waiting jobs with `latest` was submitted
  int64_t count;      // superseded jobs, including those that stay because of their sweep
};

// The job then holds nothing and has no result. Before the first call its memory must be zeros; later calls keep the
// pool in `asked`.
void job_init(struct job *job, struct job_services *services);

// The GPU whose memory the job uses in place. NULL: any GPU may run the job.
static inline const struct device *job_gpu(const struct job *job) { return job->shared ? job->shared->gpu : NULL; }

static inline char *job_body(const struct job *job) { return job->held.input->data + job->spec.lead; }

// The body of an inference request decides the kind.
static inline const struct answer_kind *job_answer_kind(const struct job *job) {
  return job->infer ? infer_answer_kind(job->infer, &job->asked) : job->spec.kind;
}

// The use of the lanes that run the job. The open body may change it, by the number of boxes or by the parameters of an
// inference request.
enum vx_lane_use job_lane_use(const struct job *job);
// Whether the job need not run any more.
static inline bool job_is_stale(const struct job *job, int64_t now_ns) {
  return now_ns > job->deadline_ns || atomic_load(job->spec.gone);
}
// Whether a running job should stop: it is stale, or `hurry` is set. Long work checks regularly.
bool job_is_stopped(void *job);
// Sets the error of a stopped job; `what` says where. Returns false.
bool job_refuse_stopped(struct job *job, const char *what);
// Sets an error that says `what` happened, and how long after the job was submitted. Returns false.
bool job_refuse_after(struct job *job, enum error_kind kind, const char *what);

// `rows`: the number of voxels or of kept points, which only a run can find.
VX_WARN_UNUSED enum vx_status job_layout(const struct job *job, int64_t rows, struct vx_layout *layout,
                                         struct error *error);
// Whether the job may use its client's streams and regions. A web page of another site may not, because its request
// looks like one of the browser's user.
VX_WARN_UNUSED bool job_may_use_state(const struct job *job, struct error *error);
// Whether the tensors whose sizes are known before the run fit max_response_bytes.
VX_WARN_UNUSED bool job_may_fit(const struct job *job, struct error *error);

static inline enum share share_of_queue_slot(enum vx_lane_use use) { return SHARE_JOBS + use; }
// The share that a body counts towards in addition to SHARE_BYTES. It is a part of the memory: waiting bodies must
// leave room for the answers of running jobs.
static inline enum share share_of_body(enum vx_lane_use use) { return SHARE_QUICK_BYTES + use; }
// False with the shortage and an error.
VX_WARN_UNUSED bool queue_slot_acquire(struct clients *clients, struct client *client, enum vx_lane_use use,
                                       struct shortage *shortage, struct error *error);
// Refuses a request for lack of memory for `what`. Returns false.
bool shortage_refuse(const struct shortage *shortage, const char *what, struct error *error);

#endif
