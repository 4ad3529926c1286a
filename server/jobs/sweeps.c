// See sweeps.h.
#include "server/jobs/sweeps.h"

#include <string.h>

#include "api/ops/deskew.h"
#include "api/ops/stream.h"
#include "server/jobs/held.h"

static struct streams *streams_of(const struct job *job) { return job->services->streams; }

static struct sweep_shape shape_of(const struct job *job) {
  return (struct sweep_shape){job->asked.num_features, job_request_rows_dtype(&job->asked)};
}

// Bytes of this many rows of the opened body.
static size_t bytes_of(const struct job *job, int64_t points) {
  const struct sweep_shape shape = shape_of(job);
  return (size_t)points * (size_t)shape.columns * vx_dtype_size(shape.dtype);
}

// ---- turns ----------------------------------------------------------------------------------------------------------

static struct job *job_of(struct stream_turn *turn) {
  return ((struct job_stream *)(void *)((char *)turn - offsetof(struct job_stream, turn)))->job;
}

static void on_begin(struct stream_turn *turn) {
  struct job *job = job_of(turn);
  job->services->requeue(job->services->jobs, job);
}

static bool is_chosen(struct stream_turn *turn, void *cls) {
  struct job_choice *choice = cls;
  return !choice->takes || choice->takes(job_of(turn), choice);
}

struct job *sweeps_take_waiting(struct streams *streams, struct job_choice *choice) {
  struct job *jobs = NULL, **end = &jobs;
  for (struct stream_turn *turn = streams_take_waiting(streams, is_chosen, choice); turn; turn = turn->next) {
    *end = job_of(turn);
    end = &(*end)->next;
  }
  *end = NULL;
  return jobs;
}

static struct job_stream *begin_stream(struct job *job) {
  struct job_stream *stream = job->stream = pool_take(&job->asked.pool, sizeof *stream);
  if (!stream) (void)pool_refuse(&job->result.error);
  if (!stream) return NULL;
  memset(stream, 0, offsetof(struct job_stream, points));
  stream->job = job;
  return stream;
}

enum stream_entry sweeps_begin(struct job *job, bool may_wait) {
  struct job_stream *stream = job->stream ? job->stream : begin_stream(job);
  if (!stream) return STREAM_REFUSED;
  if (stream->turn.stream) return STREAM_TURN;
  if (!job_may_use_state(job, &job->result.error)) return STREAM_REFUSED;
  stream->turn.time = stream_time(&job->asked);
  stream->turn.listed = job->asked.sent.count > 0;
  stream->turn.begin = on_begin;
  return turn_acquire(streams_of(job), job->client, job->asked.stream.name, &stream->turn, may_wait,
                      &job->result.error);
}

// ---- joining --------------------------------------------------------------------------------------------------------

int64_t sweeps_rows(const struct gathered *gathered) {
  int64_t rows = 0;
  for (int32_t i = 0; i < gathered->count; i++) rows += gathered->list[i].sweep->points;
  return rows;
}

void sweeps_write(const struct gathered *gathered, const struct stream_terms *terms, const struct sweep_shape *shape,
                  struct vx_stop *stop, float *out, struct join_report *report) {
  const struct sweep *newest = gathered->newest;
  const struct join_terms join = {shape->dtype, shape->columns, terms->time_column, terms->remove_close};
  report->count = gathered->count;
  report->now = newest->time;
  report->wanted = gathered->wanted;
  report->evicted = gathered->evicted;
  report->expired = gathered->expired;
  report->begun = gathered->begun;
  report->repeated = gathered->repeated;
  for (int32_t i = 0; i < gathered->count; i++) {
    const struct sweep *sweep = gathered->list[i].sweep;
    struct join_sweep rows = {.rows = sweep->rows,
                              .points = sweep->points,
                              .moved = sweep != newest,
                              .age = (float)(newest->time - sweep->time)};
    if (rows.moved) pose_motion(&newest->place, &sweep->place, rows.matrix);
    report->sweeps[i].stream = gathered->list[i].stream;
    report->sweeps[i].time = sweep->time;
    report->sweeps[i].age = rows.age;
    report->sweeps[i].sent = gathered->list[i].sent;
    report->sweeps[i].points = join_rows(&rows, &join, stop, &out);
  }
}

// The sweeps lie in the memory of the job's body. Leaves out older sweeps without points.
static bool make_sweeps(struct job *job) {
  const char *rows = job->points;
  struct sweep **link = &job->stream->sweep;
  for (int32_t i = 0; i < stream_sweeps(&job->asked); i++) {
    struct body_sweep body = stream_sweep(&job->asked, i);
    if (i > 0 && body.points == 0) continue;
    struct sweep *sweep = *link = sweep_new(streams_of(job));
    if (!sweep) return error_refuse(&job->result.error, ERROR_MEMORY_FULL, NULL, "there is no memory for a sweep now");
    sweep->time = body.time;
    sweep->place = body.pose;
    sweep->points = body.points;
    sweep->rows = rows;
    rows += bytes_of(job, body.points);
    link = &sweep->next;
  }
  return true;
}

// Copies each of several sweeps into its own memory, so that each can be evicted alone. Releases the body.
static bool part_sweeps(struct job *job) {
  if (!job->stream->sweep->next) return true;
  for (struct sweep *sweep = job->stream->sweep; sweep; sweep = sweep->next) {
    size_t bytes = bytes_of(job, sweep->points);
    if (bytes == 0) continue;
    if (!job_acquire_rows(job, bytes)) return false;
    vx_copy(&job->stop, job->held.rows->data, sweep->rows, bytes);
    sweep->rows = job->held.rows->data;
    sweep->memory = job->held.rows;
    sweep->bytes = job->held.rows->capacity;
    job->held.rows = NULL;
  }
  job_release_buffer(&job->held.input);
  return true;
}

static bool acquire_rows(struct job *job, int64_t rows) {
  size_t row = (size_t)job_request_columns(&job->asked) * sizeof(float), most = job->services->max_body_bytes;
  if ((uint64_t)rows > most / row)
    return error_refuse(&job->result.error, ERROR_BODY_TOO_LARGE, "sweeps",
                        "the joined sweeps have %lld points of %zu bytes; allowed: up to %zu bytes", (long long)rows,
                        row, most);
  return rows == 0 || job_acquire_rows(job, (size_t)rows * row);
}

static bool motion_of(const struct job *job, const struct sweep *sweep, const struct pose *mount,
                      struct vx_motion *motion, struct error *error) {
  const struct job_request *asked = &job->asked;
  if (asked->deskew.mode != DESKEW_STREAM) return deskew_motion(asked, mount, motion, error);
  motion->count = 0;
  return !sweep->follows || motion_between(&sweep->before, &sweep->place, sweep->time - sweep->before_time,
                                           asked->deskew.reference, motion, error);
}

// Moves the points of the job's own sweeps.
static bool deskew(struct job *job, const struct gathered *gathered) {
  const struct buffer *times = job->held.times;
  struct vx_deskew *moving = &job->deskewed.points;
  if (!times || !job_request_deskews(&job->asked)) return true;
  moving->times = (const float *)(const void *)times->data;
  for (struct sweep *sweep = job->stream->sweep; sweep; sweep = sweep->next) {
    struct vx_motion motion;
    char *rows = sweep->memory ? sweep->memory->data : job->held.input ? job->held.input->data : NULL;
    if (!motion_of(job, sweep, &gathered->mount, &motion, &job->result.error)) return false;
    if (rows && !sweep->memory) rows += (const char *)sweep->rows - rows;
    moving->motion = &motion;
    vx_deskew_rows(moving, job->asked.num_features, sweep->points, &job->stop, (float *)(void *)rows);
    job->deskewed.still = job->deskewed.still || motion.count == 0;
    moving->times += sweep->points;
  }
  moving->motion = NULL;
  job_release_buffer(&job->held.times);
  return true;
}

static bool join(struct job *job, const struct gathered *gathered) {
  const struct sweep_shape shape = shape_of(job);
  struct join_report *joined = &job->stream->joined;
  struct sweep *own = job->stream->sweep;
  int64_t rows = 0;
  if (!acquire_rows(job, sweeps_rows(gathered))) return false;
  float *out = job->held.rows ? (float *)(void *)job->held.rows->data : NULL;
  sweeps_write(gathered, &job->asked.stream, &shape, &job->stop, out, joined);
  for (int32_t i = 0; i < joined->count; i++) {
    rows += joined->sweeps[i].points.joined;
    if (gathered->list[i].sweep == own) own->counts = joined->sweeps[i].points;
  }
  return job_request_join(&job->asked, rows, &job->result.error);
}

static bool refuse_memory(struct job *job, const char *what, size_t bytes, const struct shortage *shortage) {
  enum error_kind kind = grant_error(shortage->grant, ERROR_MEMORY_FULL);
  if (bytes > (uint64_t)streams_of(job)->memory_bytes)
    return error_refuse(&job->result.error, ERROR_IMPOSSIBLE, NULL, "%s %zu bytes; stream_memory_bytes is %lld", what,
                        bytes, (long long)streams_of(job)->memory_bytes);
  return error_refuse(&job->result.error, kind, NULL, "%s %zu bytes, which stream_memory_bytes leaves no room for now",
                      what, bytes);
}

// Counts the memory, if any, towards SHARE_STREAM_BYTES. Evicts older sweeps to make room, unless the memory exceeds
// the limit.
static bool move_memory(const struct job *job, struct buffer *memory, struct shortage *shortage) {
  *shortage = (struct shortage){OVER_SERVER_LIMIT, SHARE_STREAM_BYTES, 0};
  if (!memory) return true;
  if (memory->capacity > (uint64_t)streams_of(job)->memory_bytes) return false;
  while (!buffer_move(memory, SHARE_STREAM_BYTES, shortage))
    if (!streams_evict(streams_of(job), shortage->grant == OVER_CLIENT_SHARE ? job->client : NULL)) return false;
  return true;
}

// Drops the body's older sweeps for which there is no room, and counts them as lost.
static bool keep_memory(struct job *job) {
  struct shortage shortage;
  struct sweep *last = job->stream->sweep;
  if (!move_memory(job, last->memory, &shortage))
    return refuse_memory(job, "the sweep needs", last->memory->capacity, &shortage);
  while (last->next && move_memory(job, last->next->memory, &shortage)) last = last->next;
  for (const struct sweep *lost = last->next; lost; lost = lost->next) job->stream->lost_sweeps++;
  sweeps_release(streams_of(job), last->next);
  last->next = NULL;
  return true;
}

bool sweeps_join(struct job *job) {
  static const _Alignas(VX_TENSOR_ALIGNMENT) char no_points[VX_TENSOR_ALIGNMENT];
  const struct sweep_shape shape = shape_of(job);
  struct job_stream *stream = job->stream;
  struct job_held *held = &job->held;
  struct gathered gathered;
  if (!make_sweeps(job) || !part_sweeps(job) ||
      !gather_sweeps(streams_of(job), &stream->turn, &job->asked.stream, &shape, stream->sweep, &gathered,
                     &job->result.error))
    return false;
  for (int32_t i = 0; i < gathered.count; i++)
    if (!gathered.list[i].sent) stream->gathered_bytes += gathered.list[i].sweep->bytes;
  stream->sweep->counts.received = stream->sweep->points;
  stream->frame = gathered.newest->place;
  bool good = deskew(job, &gathered) && (job->spared || join(job, &gathered));
  stream->gathered_bytes = 0;
  gathered_release(streams_of(job), &gathered);
  if (!good) return false;
  if (held->input) {  // the body of a lone sweep
    stream->sweep->memory = held->input;
    stream->sweep->bytes = held->input->capacity;
    held->input = NULL;
  }
  job_use_rows(job);
  job->points = held->input ? held->input->data : no_points;
  return keep_memory(job);
}

_Static_assert((int)JOINED_SWEEPS_MAX <= (int)VX_MAX_SECTIONS, "each joined sweep is a section of the cloud");

void sweeps_count(struct job *job) {
  struct job_stream *stream = job->stream;
  const struct join_report *joined = &stream->joined;
  if (!vx_operations[job->work.op].sectioned && !job->work.chain) return;
  for (int32_t i = 0; i < joined->count; i++) stream->points[i] = (int32_t)joined->sweeps[i].points.joined;
  job->work.sections = (struct vx_sections){joined->count, stream->points, stream->counts};
}

// ---- tracks ---------------------------------------------------------------------------------------------------------

// NULL: there are none.
static struct vx_tracks *tracks_before(const struct job *job) {
  const struct stream_tracks *tracks = job->stream->turn.stream->tracks;
  while (tracks && strcmp(tracks->model, job->asked.model) != 0) tracks = tracks->next;
  return tracks ? tracks->tracks : NULL;
}

// NULL with an error.
static struct vx_tracks *acquire_tracks(struct job *job, int64_t count) {
  struct shortage shortage;
  if (!job_acquire_rows(job, sizeof(struct stream_tracks) + vx_tracks_bytes(count))) return NULL;
  struct buffer *memory = job->held.rows;
  struct stream_tracks *tracks = job->stream->turn.tracks = (void *)memory->data;
  job->held.rows = NULL;
  *tracks = (struct stream_tracks){.memory = memory, .bytes = memory->capacity, .tracks = (void *)(tracks + 1)};
  memcpy(tracks->model, job->asked.model, sizeof tracks->model);
  if (move_memory(job, memory, &shortage)) return tracks->tracks;
  (void)refuse_memory(job, "the sweep and its tracks need", job->stream->sweep->bytes + memory->capacity, &shortage);
  return NULL;
}

bool sweeps_track(struct job *job) {
  if ((job->work.tensors & VX_TRACK_TENSORS) == 0) return true;
  char *tensors = job->held.output->data + job->head_bytes;
  struct vx_sweep_boxes boxes = vx_sweep_boxes_of(&job->tensor_layout, tensors);
  boxes.time = job->stream->joined.now;
  boxes.repeated = job->stream->joined.repeated;
  boxes.rotation = job->stream->frame.rotation;
  boxes.translation = job->stream->frame.translation;
  if (boxes.count > VX_MAX_TRACKS)
    return error_refuse(&job->result.error, ERROR_IMPOSSIBLE, "track",
                        "there are %lld boxes; track=yes takes up to %d; raise score_threshold", (long long)boxes.count,
                        VX_MAX_TRACKS);
  struct vx_tracks none = {.next_id = 0}, *before = tracks_before(job);
  if (!before) before = &none;
  struct vx_tracks *after = acquire_tracks(job, vx_tracks_most(before, boxes.count));
  if (!after) return false;
  vx_follow(&job->work.params.detect.tracks, &boxes, before, &job->stop, after,
            (void *)(tensors + job->tensor_layout.offset[VX_TRACK_IDS]), &job->work.tracked);
  return true;
}

// ---- the end --------------------------------------------------------------------------------------------------------

// The job's sweeps that the stream keeps: all, but not the newest if it has no points. NULL: none.
static struct sweep *kept_of(const struct job *job) {
  struct sweep *newest = job->stream->sweep;
  return newest && newest->points == 0 ? newest->next : newest;
}

void sweeps_end(struct job *job) {
  struct job_stream *stream = job->stream;
  if (!stream->turn.stream && !stream->sweep) return;
  const struct sweep_shape shape = shape_of(job);
  struct sweep *kept = kept_of(job);
  stream->turn.superseded = job->result.error.kind == ERROR_SUPERSEDED;
  if (kept && (job->result.answered || (job->spared && job->result.error.kind == (int)job->spared)))
    keep_sweeps(streams_of(job), &stream->turn, &job->asked.stream, &shape, kept, stream->lost_sweeps);
  sweeps_release(streams_of(job), stream->sweep);
  stream->sweep = NULL;
  if (stream->turn.tracks) buffer_release(stream->turn.tracks->memory);
  stream->turn.tracks = NULL;
  turn_release(streams_of(job), &stream->turn);
}
