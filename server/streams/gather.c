// See gather.h.
#include "server/streams/gather.h"

#include <string.h>

#include "api/params/values.h"
#include "server/base/clock.h"
#include "server/streams/look.h"

// ---- gathering ------------------------------------------------------------------------------------------------------

// What a request sees of a stream: its own sweep, if it is one of this stream, before those that the stream has.
struct seen {
  const struct stream *stream;  // NULL: there is none
  struct sweep *own;            // NULL: of another stream
  int32_t skipped;              // the newest that the stream has: `own` takes its place
};

// The sweep of that age: 0 is the newest. NULL: there is none.
static struct sweep *sweep_at(const struct seen *seen, int32_t age) {
  if (seen->own && age == 0) return seen->own;
  int32_t number = age - (seen->own != NULL) + seen->skipped;
  return seen->stream && number < seen->stream->count ? seen->stream->sweeps[number] : NULL;
}

static const char *dtype_word(enum vx_dtype dtype) { return dtype == VX_FLOAT16 ? "float16" : "float32"; }

static bool check_shape(const struct stream *stream, const struct sweep_shape *shape, struct problem *problem) {
  const struct sweep_shape *own = &stream->shape;
  return !stream->count || (own->columns == shape->columns && own->dtype == shape->dtype) ||
         problem_set(problem, PROBLEM_STREAM_SHAPE, own->columns == shape->columns ? "dtype" : "num_features",
                     "the sweep has %d columns of %s; those of the stream '%s' have %d of %s", (int)shape->columns,
                     dtype_word(shape->dtype), stream->name, (int)own->columns, dtype_word(own->dtype));
}

// Whether the sweep may be the newest of its stream: it is later than that, or has the same time and takes its place.
static bool check_time(const struct stream *stream, double time, struct problem *problem) {
  char own[40], newest[40];
  struct text given = text_over(own, sizeof own), had = text_over(newest, sizeof newest);
  if (!stream->count || time >= stream->sweeps[0]->time) return true;
  value_write_double(time, &given);
  value_write_double(stream->sweeps[0]->time, &had);
  return problem_set(problem, PROBLEM_STREAM_TIME, "time",
                     "time is %s, but the stream '%s' has a sweep of %s; times must rise", own, stream->name, newest);
}

// With the lock held: where the sensor was. The mount is that of the request or, if it has none, that of the stream.
static struct pose place_of(const struct stream *stream, const struct stream_terms *terms) {
  bool given = terms->mount_numbers.count > 0;
  if (!given && !stream->mounted) return terms->pose;
  return pose_compose(&terms->pose, given ? &terms->mount : &stream->mount);
}

// With the lock held: lists the sweeps of all streams that are seen. The first has one.
static void list(const struct seen *seen, int32_t streams, int32_t sweeps, struct gathered *gathered) {
  gathered->newest = sweep_at(&seen[0], 0);
  gathered->wanted = (int64_t)streams * sweeps;
  for (int32_t age = 0; age < sweeps; age++) {
    for (int32_t number = 0; number < streams; number++) {
      struct sweep *sweep = sweep_at(&seen[number], age);
      if (!sweep) continue;
      sweep->users++;
      gathered->list[gathered->count].sweep = sweep;
      gathered->list[gathered->count++].stream = number;
    }
  }
}

static void tell_losses(struct stream *stream, struct gathered *gathered) {
  gathered->evicted += stream->evicted;
  gathered->expired += stream->expired;
  stream->evicted = stream->expired = 0;
}

// With the lock held.
static bool gather(struct streams *streams, struct stream *stream, const struct stream_terms *terms,
                   const struct sweep_shape *shape, struct sweep *own, struct gathered *gathered,
                   struct problem *problem) {
  struct seen seen[STREAMS_JOINED_MAX] = {{NULL, NULL, 0}};
  char name[STREAM_NAME_SIZE];
  int32_t count = 0;
  stream->dropped = false;
  if (!check_time(stream, own->time, problem)) return false;
  own->place = place_of(stream, terms);
  gathered->begun = stream->count == 0;
  gathered->repeated = stream->count > 0 && stream->sweeps[0]->time == own->time;
  for (size_t cursor = 0; count < STREAMS_JOINED_MAX && stream_next(terms, &cursor, name); count++) {
    struct stream *other = streams_find(streams, stream->client, name);
    bool is_own = other == stream;
    seen[count] = (struct seen){other, is_own ? own : NULL, is_own && gathered->repeated};
    if (other && !check_shape(other, shape, problem)) return false;
    if (other) tell_losses(other, gathered);
  }
  if (!sweep_at(&seen[0], 0)) {
    size_t cursor = 0;
    (void)!stream_next(terms, &cursor, name);
    return problem_set(problem, PROBLEM_IMPOSSIBLE, "streams",
                       "there is no sweep of '%s', whose frame all are to be moved into; send one first", name);
  }
  list(seen, count, terms->sweeps, gathered);
  return true;
}

bool gather_sweeps(struct streams *streams, const struct stream_turn *turn, const struct stream_terms *terms,
                   const struct sweep_shape *shape, struct sweep *own, struct gathered *gathered,
                   struct problem *problem) {
  *gathered = (struct gathered){.count = 0};
  pthread_mutex_lock(&streams->lock);
  streams_expire(streams, clock_ns());
  bool good = gather(streams, turn->stream, terms, shape, own, gathered, problem);
  streams_unlock(streams);
  return good;
}

bool gather_last(struct streams *streams, const struct client *client, const char *name, struct gathered *gathered,
                 struct stream_terms *terms, struct sweep_shape *shape, struct problem *problem) {
  *gathered = (struct gathered){.count = 0};
  pthread_mutex_lock(&streams->lock);
  streams_expire(streams, clock_ns());
  const struct stream *stream = streams_find(streams, client, name);
  bool there = stream && stream->count > 0;
  if (there) {
    const struct seen seen = {stream, NULL, 0};
    *terms = stream->terms;
    terms->num_joined = 0;  // other streams' sweeps are not among these
    *shape = stream->shape;
    list(&seen, 1, terms->sweeps, gathered);
  }
  streams_unlock(streams);
  return there || streams_refuse_name(name, problem);
}

void gathered_release(struct streams *streams, struct gathered *gathered) {
  pthread_mutex_lock(&streams->lock);
  for (int32_t i = 0; i < gathered->count; i++) streams_let_go(streams, gathered->list[i].sweep);
  streams_unlock(streams);
}

// ---- keeping --------------------------------------------------------------------------------------------------------

// With the lock held: puts the sweep before all others; one of the same time makes room for it.
static void put_first(struct streams *streams, struct stream *stream, struct sweep *sweep) {
  if (stream->count > 0 && stream->sweeps[0]->time == sweep->time) {
    struct sweep *same = stream->sweeps[0];
    streams->use.bytes -= (int64_t)same->bytes;
    streams->use.repeated++;
    streams_let_go(streams, same);
  } else {
    if (stream->count == STREAM_SWEEPS_MAX) streams_cut(streams, stream, STREAM_SWEEPS_MAX - 1);
    memmove(stream->sweeps + 1, stream->sweeps, (size_t)stream->count * sizeof *stream->sweeps);
    stream->count++;
    streams->use.sweeps++;
    streams->use.kept++;
  }
  stream->sweeps[0] = sweep;
  streams->use.bytes += (int64_t)sweep->bytes;
  sweep->users++;
}

// With the lock held.
static void put(struct streams *streams, struct stream *stream, const struct stream_terms *terms,
                const struct sweep_shape *shape, struct sweep *own) {
  put_first(streams, stream, own);
  streams_cut(streams, stream, terms->sweeps);
  stream->shape = *shape;
  stream->terms = *terms;
  if (terms->mount_numbers.count > 0) {
    stream->mounted = true;
    stream->mount = terms->mount;
  }
}

void keep_sweep(struct streams *streams, const struct stream_turn *turn, const struct stream_terms *terms,
                const struct sweep_shape *shape, struct sweep *own) {
  struct stream *stream = turn->stream;
  own->came_ns = clock_ns();
  pthread_mutex_lock(&streams->lock);
  if (!stream->dropped) put(streams, stream, terms, shape, own);
  streams_unlock(streams);
}
