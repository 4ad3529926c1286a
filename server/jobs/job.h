// A job: one computation. It has what was asked (struct job_spec, struct job_request), what it holds (struct job_held)
// and its result. held.h has how it acquires what it holds, uploads.h what is reserved while its body comes.
//
// Its maker fills it and owns it until jobs_submit. Then the queue owns it, then a worker. Either hands it back by
// calling `done`, as its last act. A small job stays its maker's (jobs_run_small). A job knows neither requests nor
// connections.
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
#include "api/wire/infer_answer.h"
#include "kernels/kernels.h"
#include "server/base/counters.h"
#include "server/clients/clients.h"
#include "server/jobs/buffers.h"
#include "server/jobs/coders.h"
#include "server/jobs/devices.h"
#include "server/jobs/placement.h"
#include "server/jobs/regions.h"
#include "server/streams/gather.h"

struct uploads;
struct helpers;
struct job;

// What all jobs share.
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
  // Called with `owner`. A worker says that its GPU is lost, or is paused or works again. Any thread says that a job
  // which waited in its stream may run.
  void *owner;
  void (*gpu_lost)(void *owner);
  void (*gpu_changed)(void *owner);
  void (*turn_came)(void *owner, struct job *job);
};

// What its maker says of a job beside its request. It does not change.
struct job_spec {
  const char *id, *trace_id;              // of the request; trace_id: NULL if the client sent none
  const struct answer_kind *kind;         // of the answer
  enum coding coding;                     // of the body; CODINGS: one that is not taken
  enum coding answer_coding;              // that its client prefers
  bool local;                             // its client is on this machine, and no proxy is between
  bool form;                              // the body came as application/x-www-form-urlencoded
  const char *cross_origin;               // why a web page of another site may have sent it; NULL: none has
  unsigned long long regions_registered;  // when its request began (struct region_user)
  size_t lead;                            // bytes of the input in front of the body, which align what matters of it
  int64_t started_ns;                     // when its request began
  const atomic_bool *gone;                // true once nobody can read an answer any more
  void (*done)(struct job *job);          // called when it has a result; from the call on it is its maker's again
  // Makes the answer, into the output, in place of a run: the job has no points. Called on the worker's thread. False
  // with the result's problem set. NULL: the job runs.
  bool (*make)(struct job *job);
};

// What it holds. job_release (run.h) releases all but the answer.
struct job_held {
  enum share queue_slot;      // the share of its slot in a queue; SHARES: it has none
  struct buffer *input;       // the body; then the tensors, if the answer is a file that they are copied into
  int64_t body_bytes;         // of the input, behind the lead
  struct buffer *rows;        // made of the input, until they become the input
  size_t rows_bytes;          // of `rows` that are there so far; kept if these grow
  struct buffer *output;      // the answer, or the tensors until they are its input
  struct decoder *decoder;    // of a coded body, while the worker decodes it
  size_t decoder_bytes;       // acquired for it
  size_t scratch_bytes;       // likewise
  struct detector *detector;  // that the request points to; NULL: none
};

// What became of it.
struct job_result {
  bool begun;     // its run has begun
  bool answered;  // the output has the answer; else `error` says why not
  struct error error;
  struct device *device;  // that ran it last
  struct answer answer;   // what its metadata is made of
  const struct answer_kind *kind;
  enum coding coding;
  size_t length;  // bytes of the answer
  int ranges;     // of the output that are the answer; 0: the answer is its first `length` bytes
  struct byte_range range[INFER_RANGES_MAX];
};

// What a job of a stream has (sweeps.h).
struct job_stream {
  struct job *job;  // whose it is
  struct stream_turn turn;
  struct sweep *sweep;    // what its body became: the newest, those before it behind it
  int32_t lost_sweeps;    // of these: joined, but there was no room to keep them
  size_t gathered_bytes;  // of the sweeps that it reads to join them
  struct join_report joined;
  int32_t points[JOINED_SWEEPS_MAX];  // the sections of the joined cloud
  struct vx_counts counts[JOINED_SWEEPS_MAX];
};

// A part of a region that a tensor, or the whole answer, goes to.
enum { WHOLE_ANSWER = -1 };
struct sink {
  int tensor;  // that goes there, or WHOLE_ANSWER
  struct region_part part;
};

// What a job that uses regions of shared memory has (shared.h).
struct job_shared {
  struct region_part source;  // of the points, until they are copied
  int sinks, in_place;        // how many there are; how many a GPU has written itself: all that get bytes, or none
  int copied;                 // parts copied from or to regions
  struct sink sink[VX_TENSOR_COUNT];
  void *output_ptrs[VX_TENSOR_COUNT];  // where a GPU writes tensors that go to sinks
};

struct job {
  struct job *next;            // in the queue
  struct placement_cost cost;  // likewise, if the queue has a placement
  struct job_services *services;
  struct client *client;           // whose share it counts to
  int64_t queued_ns, deadline_ns;  // when it was submitted, and until when it may run, which its body may shorten
  struct job_spec spec;
  struct job_held held;
  struct job_result result;

  // Parts that few jobs have, in the memory below. NULL: the job has none.
  struct infer *infer;  // of a request by KServe's protocol
  struct job_stream *stream;
  struct job_shared *shared;

  // Of its run.
  const void *points;   // rows in the input or in a region; NULL: the body is not opened yet
  struct vx_stop stop;  // asked by what the worker does itself
  bool output_refused;  // the answer is too large, or has no memory: another lane could do no better
  size_t head_bytes;    // of the output, in front of tensors that stay where they are

  // What follows is written before it is read, and never cleared.
  struct vx_job work;
  struct vx_layout tensor_layout;
  int32_t row_counts[VX_MAX_CLOUDS];  // that `work` points to
  struct job_request asked;           // which the body completes
  struct {
    struct infer infer;
    struct job_stream stream;
    struct job_shared shared;
  } memory;
};

_Static_assert(offsetof(struct job, work) <= 4096, "what is cleared for each job is small");

// Makes a job that holds nothing and has no result.
void job_init(struct job *job, struct job_services *services);

// Where the body begins.
static inline char *job_body(const struct job *job) { return job->held.input->data + job->spec.lead; }

// The kind of the answer: an inference request says it in its body.
static inline const struct answer_kind *job_answer_kind(const struct job *job) {
  return job->infer ? infer_answer_kind(job->infer, &job->asked) : job->spec.kind;
}

// The use of the lanes that the job goes to. Once its body is open it may be another: the body says how many boxes are
// to be compared.
enum vx_lane_use job_lane_use(const struct job *job);
// Whether the job needs no run any more: its deadline has passed, or its client is gone.
bool job_is_stale(const struct job *job, int64_t now_ns);
// Whether it is to stop where it is: it is stale, or the server does not wait for it any more. Long work asks now and
// then.
bool job_is_stopped(const struct job *job);
// The problem of a job that has stopped; `what` says where. Returns false.
bool job_refuse_stopped(struct job *job, const char *what);

// The layout of its tensors, if of what only its run shows there were so many rows: voxels, or points that are kept.
VX_WARN_UNUSED enum vx_status job_layout(const struct job *job, int64_t rows, struct vx_layout *layout,
                                         struct error *error);
// Whether it may use what the service keeps of its client: streams, and regions of shared memory. A web page of
// another site may not, since it looks like the user of its browser. False with an error.
VX_WARN_UNUSED bool job_may_use_state(const struct job *job, struct error *error);
// Whether the answer may be within max_response_bytes, by the tensors whose sizes the parameters and the inputs give.
// False with an error.
VX_WARN_UNUSED bool job_may_fit(const struct job *job, struct error *error);

// The share that a slot in the queue of these lanes counts to.
static inline enum share share_of_queue_slot(enum vx_lane_use use) { return SHARE_JOBS + use; }
// The share that a body counts to, beside SHARE_BYTES. Long jobs and detections may wait long, so their bodies get only
// a part of the memory.
static inline enum share share_of_body(enum vx_lane_use use) {
  return use == VX_LANE_LONG ? SHARE_LONG_BYTES : use == VX_LANE_DETECT ? SHARE_DETECTION_BYTES : SHARE_BYTES;
}
// Acquires a queue slot for the client. False with the shortage and a problem.
VX_WARN_UNUSED bool queue_slot_acquire(struct clients *clients, struct client *client, enum vx_lane_use use,
                                       struct shortage *shortage, struct error *error);
// The problem of a request that could not have the memory for `what`. Returns false.
bool shortage_refuse(const struct shortage *shortage, const char *what, struct error *error);

#endif
