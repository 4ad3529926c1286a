// See streams.h.
#include "server/streams/streams.h"

#include <string.h>

#include "server/base/base.h"

// ---- gathering ------------------------------------------------------------------------------------------------------

// The sweeps of one stream that a request sees, the newest first.
struct seen {
  int32_t count;
  struct {
    struct sweep *sweep;
    bool sent;
  } sweeps[STREAM_SWEEPS_MAX];
};

// Merges the request's own sweeps (NULL: they are of another stream) with the stream's (NULL: none). A sweep of the
// request replaces one of the stream with the same time. Returns how many were replaced.
static int32_t see(const struct stream *stream, struct sweep *own, int32_t most, struct seen *seen) {
  int32_t next = 0, replaced = 0;
  for (seen->count = 0; seen->count < most; seen->count++) {
    struct sweep *kept = stream && next < stream->count ? stream->sweeps[next] : NULL;
    if (!own && !kept) break;
    bool sent = own && (!kept || own->time >= kept->time);
    bool same = sent && kept && own->time == kept->time;
    seen->sweeps[seen->count].sweep = sent ? own : kept;
    seen->sweeps[seen->count].sent = sent;
    if (sent) own = own->next;
    next += !sent || same;
    replaced += same;
  }
  return replaced;
}

static bool check_shape(const struct stream *stream, const struct sweep_shape *shape, struct error *error) {
  const struct sweep_shape *own = &stream->shape;
  return !stream->count || (own->columns == shape->columns && own->dtype == shape->dtype) ||
         error_refuse(error, ERROR_STREAM_SHAPE, own->columns == shape->columns ? "dtype" : "num_features",
                      "the sweep has %d columns of %s; the sweeps of the stream '%s' have %d of %s",
                      (int)shape->columns, vx_float_words[shape->dtype], stream->name, (int)own->columns,
                      vx_float_words[own->dtype]);
}

// `time`: of the request's newest sweep, which must not be older than the stream's newest sweep.
static bool check_time(const struct stream *stream, double time, bool listed, struct error *error) {
  char own[40], newest[40];
  struct text given = text_over(own, sizeof own), had = text_over(newest, sizeof newest);
  if (!stream->count || time >= stream->sweeps[0]->time) return true;
  text_double(&given, time);
  text_double(&had, stream->sweeps[0]->time);
  return error_refuse(error, ERROR_STREAM_TIME, listed ? "times" : "time",
                      "%s is %s, but the stream '%s' has a sweep of %s; times must rise",
                      listed ? "the newest of times" : "time", own, stream->name, newest);
}

// Adds the request's mount or, if it has none, the stream's to the poses. Returns the mount.
static struct pose mount(const struct stream *stream, const struct stream_terms *terms, struct sweep *own) {
  bool given = terms->mount_numbers.count > 0;
  if (!given && !stream->mounted) return pose_identity;
  struct pose mount = given ? terms->mount : stream->mount;
  for (; own; own = own->next) own->place = pose_compose(&own->place, &mount);
  return mount;
}

static void note_before(struct sweep *sweep, double time, const struct pose *place) {
  if (!(time < sweep->time) || (sweep->follows && sweep->before_time >= time)) return;
  sweep->follows = true;
  sweep->before_time = time;
  sweep->before = *place;
}

// Notes for each own sweep the time and place of the latest earlier sweep. The earlier sweep may be gone if the own
// sweep is sent again; then the kept copy of the own sweep has the time and place.
static void note_befores(const struct stream *stream, struct sweep *own) {
  for (; own; own = own->next) {
    own->follows = false;
    if (own->next) note_before(own, own->next->time, &own->next->place);
    for (int32_t i = 0; i < stream->count; i++) {
      const struct sweep *kept = stream->sweeps[i];
      note_before(own, kept->time, &kept->place);
      if (kept->time == own->time && kept->follows) note_before(own, kept->before_time, &kept->before);
    }
  }
}

// The first stream has at least one sweep.
static void list(const struct seen *seen, int32_t streams, int32_t sweeps, struct gathered *gathered) {
  gathered->newest = seen[0].sweeps[0].sweep;
  gathered->wanted = (int64_t)streams * sweeps;
  for (int32_t age = 0; age < sweeps; age++) {
    for (int32_t number = 0; number < streams; number++) {
      if (age >= seen[number].count) continue;
      struct sweep *sweep = seen[number].sweeps[age].sweep;
      sweep->users++;
      gathered->list[gathered->count].sweep = sweep;
      gathered->list[gathered->count].sent = seen[number].sweeps[age].sent;
      gathered->list[gathered->count++].stream = number;
    }
  }
}

static void take_losses(struct stream *stream, struct stream_turn *turn) {
  turn->evicted += stream->evicted;
  turn->expired += stream->expired;
  stream->evicted = stream->expired = 0;
}

static bool gather(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                   const struct sweep_shape *shape, struct sweep *own, struct gathered *gathered, struct error *error)
    HOLDS(streams->lock) {
  struct stream *stream = turn->stream;
  struct seen seen[STREAMS_JOINED_MAX];
  seen[0].count = 0;
  char name[STREAM_NAME_SIZE];
  int32_t count = 0;
  stream->dropped = false;
  if (!check_time(stream, own->time, turn->listed, error)) return false;
  gathered->mount = mount(stream, terms, own);
  note_befores(stream, own);
  gathered->begun = stream->count == 0;
  if (gathered->begun) streams_end_tracks(streams, stream);
  gathered->repeated = stream->count > 0 && stream->sweeps[0]->time == own->time;
  for (size_t cursor = 0; count < STREAMS_JOINED_MAX && stream_next(terms, &cursor, name); count++) {
    struct stream *other = streams_find(streams, stream->client, name);
    (void)see(other, other == stream ? own : NULL, terms->sweeps, &seen[count]);
    if (other && !check_shape(other, shape, error)) return false;
    if (other) take_losses(other, turn);
  }
  if (seen[0].count == 0) {
    size_t cursor = 0;
    (void)!stream_next(terms, &cursor, name);
    return error_refuse(
        error, ERROR_IMPOSSIBLE, "streams",
        "there is no sweep of '%s' yet; send one first, since the other sweeps are moved into its frame", name);
  }
  list(seen, count, terms->sweeps, gathered);
  gathered->evicted = turn->evicted;
  gathered->expired = turn->expired;
  return true;
}

bool gather_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                   const struct sweep_shape *shape, struct sweep *own, struct gathered *gathered, struct error *error) {
  *gathered = (struct gathered){.count = 0};
  lock_acquire(&streams->lock);
  streams_expire(streams, clock_ns());
  bool good = gather(streams, turn, terms, shape, own, gathered, error);
  streams_lock_release(streams);
  return good;
}

bool gather_last(struct streams *streams, const struct client *client, const char *name, struct gathered *gathered,
                 struct stream_terms *terms, struct sweep_shape *shape, struct error *error) {
  *gathered = (struct gathered){.count = 0};
  lock_acquire(&streams->lock);
  streams_expire(streams, clock_ns());
  const struct stream *stream = streams_find(streams, client, name);
  bool there = stream && stream->count > 0;
  if (there) {
    struct seen seen;
    *terms = stream->terms;
    terms->num_joined = 0;  // without the sweeps of other streams
    *shape = stream->shape;
    (void)see(stream, NULL, terms->sweeps, &seen);
    list(&seen, 1, terms->sweeps, gathered);
  }
  streams_lock_release(streams);
  return there || streams_refuse_name(name, error);
}

void gathered_release(struct streams *streams, struct gathered *gathered) {
  lock_acquire(&streams->lock);
  for (int32_t i = 0; i < gathered->count; i++) sweep_release(streams, gathered->list[i].sweep);
  streams_lock_release(streams);
}

// ---- keeping --------------------------------------------------------------------------------------------------------

// Replaces the stream's sweeps. `replaced`: how many of the new sweeps have the time of an old sweep.
static void put(struct streams *streams, struct stream *stream, const struct seen *seen, int32_t replaced)
    HOLDS(streams->lock) {
  for (int32_t i = 0; i < seen->count; i++) seen->sweeps[i].sweep->users++;
  streams_cut(streams, stream, 0);
  for (int32_t i = 0; i < seen->count; i++) {
    stream->sweeps[i] = seen->sweeps[i].sweep;
    streams->use.bytes += (int64_t)stream->sweeps[i]->bytes;
    streams->use.kept += seen->sweeps[i].sent;
  }
  stream->count = seen->count;
  streams->use.sweeps += seen->count;
  streams->use.repeated += (unsigned long long)replaced;
  streams->use.kept -= (unsigned long long)replaced;
}

static void keep_tracks(struct streams *streams, struct stream_turn *turn) HOLDS(streams->lock) {
  struct stream_tracks *tracks = turn->tracks, **link = &turn->stream->tracks;
  if (!tracks) return;
  while (*link && strcmp((*link)->model, tracks->model) != 0) link = &(*link)->next;
  turn->tracks = *link;
  tracks->next = *link ? (*link)->next : NULL;
  streams->use.bytes += (int64_t)tracks->bytes - (*link ? (int64_t)(*link)->bytes : 0);
  *link = tracks;
}

static void keep(struct streams *streams, const struct stream_turn *turn, const struct stream_terms *terms,
                 const struct sweep_shape *shape, struct sweep *own, int32_t lost) HOLDS(streams->lock) {
  struct stream *stream = turn->stream;
  struct event event = {.kind = EVENT_SWEEP, .time = own->time, .points = own->counts, .begun = stream->count == 0};
  struct seen seen;
  event.superseded = turn->superseded;
  event.repeated = stream->count > 0 && stream->sweeps[0]->time == own->time;
  int32_t replaced = see(stream, own, terms->sweeps, &seen);
  put(streams, stream, &seen, replaced);
  stream->evicted += lost;
  streams->use.evicted += (unsigned long long)lost;
  stream->shape = *shape;
  stream->terms = *terms;
  if (terms->mount_numbers.count > 0) {
    stream->mounted = true;
    stream->mount = terms->mount;
  }
  event.sweeps = stream->count;
  memcpy(event.stream, stream->name, sizeof event.stream);
  events_tell(&streams->events, stream->client, &event);
  if (lost > 0) streams_tell(streams, stream, EVENT_EVICTED, lost);
}

void keep_sweeps(struct streams *streams, struct stream_turn *turn, const struct stream_terms *terms,
                 const struct sweep_shape *shape, struct sweep *own, int32_t lost) {
  int64_t now_ns = clock_ns();
  struct sweep *sweep = own;
  do sweep->came_ns = now_ns;
  while ((sweep = sweep->next));
  lock_acquire(&streams->lock);
  turn->evicted = turn->expired = 0;
  if (!turn->stream->dropped) {
    keep(streams, turn, terms, shape, own, lost);
    keep_tracks(streams, turn);
  }
  streams_lock_release(streams);
}
