// A job: one computation, and what it holds meanwhile: a place in the queue, and memory for its input, its output and
// its scratch. uploads.h has what is held while the body of its request comes.
//
// Its maker fills it and owns it until jobs_submit. Then the queue owns it, then a worker. Either hands it back by
// calling `done`, as its last act. A small job stays its maker's (jobs_run_small). A job knows neither requests nor
// connections.
#ifndef VOXELD_JOB_H
#define VOXELD_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/detector.h"
#include "api/ops/ops.h"
#include "api/wire/answers.h"
#include "api/wire/coding.h"
#include "api/wire/infer.h"
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
struct hands;
struct job;

// What all jobs share.
struct job_means {
  struct uploads *uploads;
  struct devices *devices;
  struct buffers *buffers;
  struct coders *coders;
  struct hands *hands;
  struct regions *regions;
  struct streams *streams;
  struct clients *clients;
  struct counters *counters;
  size_t max_body_bytes, max_response_bytes;
  atomic_bool hurry;               // running jobs stop
  void (*gpu_lost)(void *cls);     // called when a GPU is lost, on the thread of the worker that lost it
  void (*gpu_changed)(void *cls);  // likewise when a GPU is paused, or works again
  void *gpu_cls;
  void (*turn_came)(struct job *job);  // called when a job that waited in its stream may run, on any thread
};

struct job {
  struct job *next;            // in the queue
  struct placement_cost cost;  // likewise, if the queue has a placement

  // Filled by its maker.
  struct job_means *means;
  struct client *client;  // whose share it counts to
  struct job_request asked;
  struct infer infer;                     // of a request by KServe's protocol
  struct detector *detector;              // that `asked` points to; NULL: none
  const struct answer_kind *kind;         // of the answer
  enum coding coding;                     // of the body; CODINGS: one that is not taken
  enum coding answer_coding;              // that its client prefers, and then that of the answer
  bool local;                             // its client is on this machine, and no proxy is between
  const char *strange;                    // why it may be of a web page of strangers; NULL: it is of none
  bool form;                              // the body came as application/x-www-form-urlencoded
  unsigned long long regions_registered;  // when its request began (struct region_user)
  const char *id, *trace_id;              // of the request; trace_id: NULL if the client sent none
  const atomic_bool *gone;                // true once nobody can read an answer any more
  void (*done)(struct job *job);          // called when it has a result; from the call on it is its maker's again
  // Makes the answer, into `output` and `output_length`, in place of a run: the job has no points. Called on the
  // worker's thread. False with `problem` set. NULL: the job runs.
  bool (*make)(struct job *job);
  int64_t started_ns;  // when its request began
  int64_t queued_ns, deadline_ns;
  size_t lead;          // bytes of `input` in front of the body, so that what matters of that is aligned
  int64_t input_bytes;  // bytes of the body

  // What it holds.
  enum share place;          // that its place in a queue counts to; SHARES: it has none
  struct shortage shortage;  // what it could not take last
  struct buffer *input;      // the body; then the tensors, if the answer is a file that they are copied into
  struct buffer *output;     // the answer, or the tensors until they are its input
  struct buffer *rows;       // that are made of the input, until they become the input
  size_t rows_bytes;         // of `rows` that are there so far; kept if these grow
  struct decoder *decoder;   // of a coded body, while the worker decodes it
  size_t decoder_bytes;      // that are charged for it
  size_t scratch_bytes;
  struct stream_turn turn;                     // in its stream
  struct sweep *sweep;                         // what its body became: the newest, those before it behind it
  int32_t lost_sweeps;                         // of these: joined, but there was no room to keep them
  size_t gathered_bytes;                       // of the sweeps that it reads to join them
  struct reach points_reach;                   // the part of a region that a GPU reads itself
  int outputs_reached;                         // parts that it writes itself
  struct reach output_reach[VX_TENSOR_COUNT];  // these

  struct vx_stop stop;  // while a worker has it: asked by what it does itself

  // Its result.
  const void *points;             // rows in the input; NULL: the body is not opened yet
  bool begun;                     // its run has begun
  bool answered;                  // `output` has the answer; else `problem` says why not
  bool output_refused;            // the answer is too large, or has no memory: another lane could do no better
  size_t output_length;           // bytes of the answer
  int parts_in_place;             // output tensors that the GPU wrote into regions: all that go there, or none
  int parts_copied;               // points and output tensors copied from or to regions
  bool packed;                    // an answer of several parts has them together
  size_t header_reserve;          // of these, the bytes in front of tensors that stay where they are
  struct vx_layout layout;        // of the tensors
  void *places[VX_TENSOR_COUNT];  // of those that went to regions without a copy: they are in no buffer
  struct device *device;          // that ran it last
  struct problem problem;
  struct answer answer;
  struct join_report joined;  // of a stream's request
  struct vx_job work;
  int32_t row_counts[VX_MAX_CLOUDS];
  int32_t sweep_points[JOINED_SWEEPS_MAX];  // the sections of a stream's cloud
  struct vx_counts sweep_counts[JOINED_SWEEPS_MAX];
};

// Makes a job that holds nothing and has no result. Leaves the large arrays as they are: they are written before they
// are read.
void job_init(struct job *job, struct job_means *means);

// Where the body begins.
static inline char *job_body(const struct job *job) { return job->input->data + job->lead; }

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
                                         struct vx_error *error);
// Whether it may use what the service keeps of its client: streams, and regions of shared memory. A web page of
// strangers may not, since it looks like the user of its browser. False with a problem.
VX_WARN_UNUSED bool job_may_use_state(const struct job *job, struct problem *problem);
// Whether the answer may be within max_response_bytes, by the tensors whose sizes the parameters and the inputs give.
// False with a problem.
VX_WARN_UNUSED bool job_may_fit(const struct job *job, struct problem *problem);

// The share that a place in the queue of these lanes counts to.
static inline enum share share_of_place(enum vx_lane_use use) { return SHARE_JOBS + use; }
// The share that a body counts to, beside SHARE_BYTES. Long jobs and detections may wait long, so their bodies get only
// a part of the memory.
static inline enum share share_of_input(enum vx_lane_use use) {
  return use == VX_LANE_LONG ? SHARE_LONG_BYTES : use == VX_LANE_DETECT ? SHARE_DETECTION_BYTES : SHARE_BYTES;
}
// Takes a place for the client. False with the shortage and a problem.
VX_WARN_UNUSED bool place_take(struct clients *clients, struct client *client, enum vx_lane_use use,
                               struct shortage *shortage, struct problem *problem);
// The problem of a request that could not have the memory for `what`. Returns false.
bool shortage_refuse(const struct shortage *shortage, const char *what, struct problem *problem);

// Each takes something for the job, at the cost of its client's share. False with a problem.
//
// A place in the queue that it goes to now, instead of the place that it has.
VX_WARN_UNUSED bool job_take_place(struct job *job, struct problem *problem);
// Memory for `bytes` of rows that are made of the input. The `rows_bytes` that are there are kept.
VX_WARN_UNUSED bool job_take_rows(struct job *job, size_t bytes, struct problem *problem);
// Memory for `bytes` of output.
VX_WARN_UNUSED bool job_take_output(struct job *job, size_t bytes, struct problem *problem);
// A decoder for its body, and memory for what that holds by now.
VX_WARN_UNUSED bool job_take_decoder(struct job *job, struct problem *problem);
// `bytes` of the budget for scratch, at no client's cost. One job may have at most what the budget leaves beside its
// input.
VX_WARN_UNUSED bool job_take_scratch(struct job *job, size_t bytes, struct problem *problem);

// Holds the detector that the request points to, if it does; the shelf that has it does not change meanwhile.
void job_hold_detector(struct job *job);
// Once the job has ended.
void job_leave_detector(struct job *job);

// The rows become the input, which is given back.
void job_keep_rows(struct job *job);

// Each gives back what the job holds of it, if anything.
void job_leave_place(struct job *job);
void job_give_input(struct job *job);
void job_give_rows(struct job *job);
void job_give_decoder(struct job *job);
void job_give_output(struct job *job);
void job_give_scratch(struct job *job);

#endif
