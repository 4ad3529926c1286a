// See streams.h.
#include "server/streams/streams.h"

#include <stdlib.h>
#include <string.h>

#include "server/base/base.h"

void streams_init(struct streams *streams, const struct options *options, struct clients *clients,
                  void (*release)(struct buffer *memory)) {
  *streams = (struct streams){.clients = clients,
                              .release = release,
                              .memory_bytes = options->stream_memory_bytes,
                              .ttl_ns = options->stream_ttl_s * NS_PER_S};
  lock_init(&streams->lock);
  events_init(&streams->events, clients);
}

bool streams_allow(const struct streams *streams, struct error *error) {
  return streams->memory_bytes > 0 ||
         error_refuse(error, ERROR_UNSUPPORTED, "stream",
                      "this server keeps no streams; its operator can allow that (--stream-memory-bytes)");
}

// ---- the list -------------------------------------------------------------------------------------------------------

void sweep_release(struct streams *streams, struct sweep *sweep) {
  if (--sweep->users) return;
  sweep->next = streams->ended;
  streams->ended = sweep;
}

// Releasing memory takes other locks, so this lock is released first.
void streams_lock_release(struct streams *streams) {
  struct sweep *ended = streams->ended;
  struct stream_tracks *tracks = streams->ended_tracks;
  streams->ended = NULL;
  streams->ended_tracks = NULL;
  lock_release(&streams->lock);
  while (tracks) {
    struct buffer *memory = tracks->memory;
    tracks = tracks->next;  // the memory has the struct itself
    streams->release(memory);
  }
  if (!ended) return;
  struct sweep *last = ended;
  for (struct sweep *sweep = ended; sweep; sweep = sweep->next) {
    if (sweep->memory) streams->release(sweep->memory);
    last = sweep;
  }
  lock_acquire(&streams->lock);
  last->next = streams->spare;
  streams->spare = ended;
  lock_release(&streams->lock);
}

struct stream *streams_find(const struct streams *streams, const struct client *client, const char *name) {
  struct stream *stream = streams->first;
  while (stream && !(stream->client == client && strcmp(stream->name, name) == 0)) stream = stream->next;
  return stream;
}

void streams_end_tracks(struct streams *streams, struct stream *stream) {
  while (stream->tracks) {
    struct stream_tracks *tracks = stream->tracks;
    stream->tracks = tracks->next;
    streams->use.bytes -= (int64_t)tracks->bytes;
    tracks->next = streams->ended_tracks;
    streams->ended_tracks = tracks;
  }
}

void streams_prune(struct streams *streams, struct stream *stream) {
  if (stream->count || stream->turn) return;
  streams_end_tracks(streams, stream);
  struct stream **link = &streams->first;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  streams->count--;
  share_release(streams->clients, stream->client, SHARE_STREAMS, 1);
  free(stream);
}

void streams_tell(struct streams *streams, const struct stream *stream, enum event_kind kind, int64_t dropped) {
  struct event event = {.kind = kind, .sweeps = stream->count, .count = dropped};
  memcpy(event.stream, stream->name, sizeof event.stream);
  events_tell(&streams->events, stream->client, &event);
}

void streams_cut(struct streams *streams, struct stream *stream, int32_t first) {
  while (stream->count > first) {
    struct sweep *sweep = stream->sweeps[--stream->count];
    streams->use.bytes -= (int64_t)sweep->bytes;
    streams->use.sweeps--;
    sweep_release(streams, sweep);
  }
}

// Moves expired sweeps after the others. Returns how many have not expired. A sweep that was sent again arrived later
// than its neighbours, so expired sweeps may lie between others.
static int32_t sort_out(struct stream *stream, int64_t came_before_ns) {
  struct sweep *old[STREAM_SWEEPS_MAX];
  int32_t young = 0, count = 0;
  for (int32_t i = 0; i < stream->count; i++) {
    struct sweep *sweep = stream->sweeps[i];
    if (sweep->came_ns <= came_before_ns)
      old[count++] = sweep;
    else
      stream->sweeps[young++] = sweep;
  }
  memcpy(stream->sweeps + young, old, (size_t)count * sizeof *old);
  return young;
}

void streams_expire(struct streams *streams, int64_t now_ns) {
  struct stream *next;
  for (struct stream *stream = streams->first; stream; stream = next) {
    next = stream->next;
    int32_t before = stream->count;
    streams_cut(streams, stream, sort_out(stream, now_ns - streams->ttl_ns));
    int32_t old = before - stream->count;
    stream->expired += old;
    streams->use.expired += (unsigned long long)old;
    if (old > 0) streams_tell(streams, stream, EVENT_EXPIRED, old);
    streams_prune(streams, stream);
  }
}

void streams_tick(struct streams *streams, int64_t now_ns) {
  lock_acquire(&streams->lock);
  streams_expire(streams, now_ns);
  streams_lock_release(streams);
}

void streams_end(struct streams *streams) {
  lock_acquire(&streams->lock);
  while (streams->first) {
    streams_cut(streams, streams->first, 0);
    streams_prune(streams, streams->first);
  }
  streams_lock_release(streams);
  while (streams->spare) {
    struct sweep *next = streams->spare->next;
    free(streams->spare);
    streams->spare = next;
  }
  events_end(&streams->events);
  lock_end(&streams->lock);
}

bool streams_evict(struct streams *streams, const struct client *client) {
  struct stream *oldest = NULL;
  int64_t came_ns = INT64_MAX;
  lock_acquire(&streams->lock);
  for (struct stream *stream = streams->first; stream; stream = stream->next) {
    if (!stream->count || (client && stream->client != client)) continue;
    const struct sweep *last = stream->sweeps[stream->count - 1];
    if (last->users > 1 || last->came_ns >= came_ns) continue;
    oldest = stream;
    came_ns = last->came_ns;
  }
  bool found = oldest != NULL;
  if (found) {
    streams_cut(streams, oldest, oldest->count - 1);
    oldest->evicted++;
    streams->use.evicted++;
    streams_tell(streams, oldest, EVENT_EVICTED, 1);
    streams_prune(streams, oldest);
  }
  streams_lock_release(streams);
  return found;
}

// ---- adding ---------------------------------------------------------------------------------------------------------

static bool refuse_share(enum grant grant, struct error *error) {
  return error_refuse(
      error, grant_error(grant, ERROR_MEMORY_FULL), "stream",
      "there is no room for another stream: all clients together have up to %d, and a client up to half of "
      "what the others leave free; delete some",
      STREAMS_MAX);
}

struct stream *streams_add(struct streams *streams, struct client *client, const char *name, struct error *error) {
  enum grant grant = share_acquire(streams->clients, client, SHARE_STREAMS, 1, 0);
  if (grant != GRANTED && !refuse_share(grant, error)) return NULL;
  struct stream *stream = calloc(1, sizeof *stream);
  if (!stream) {
    share_release(streams->clients, client, SHARE_STREAMS, 1);
    error_refuse(error, ERROR_MEMORY_FULL, NULL, "there is no memory for a stream now");
    return NULL;
  }
  stream->client = client;
  stream->mount = pose_identity;
  memcpy(stream->name, name, strlen(name) + 1);
  stream->next = streams->first;
  streams->first = stream;
  streams->count++;
  return stream;
}

// ---- sweeps ---------------------------------------------------------------------------------------------------------

struct sweep *sweep_new(struct streams *streams) {
  lock_acquire(&streams->lock);
  struct sweep *sweep = streams->spare;
  if (sweep) streams->spare = sweep->next;
  lock_release(&streams->lock);
  if (!sweep) sweep = malloc(sizeof *sweep);
  if (sweep) *sweep = (struct sweep){.users = 1};
  return sweep;
}

void sweeps_release(struct streams *streams, struct sweep *first) {
  lock_acquire(&streams->lock);
  for (struct sweep *sweep = first, *next; sweep; sweep = next) {
    next = sweep->next;
    sweep_release(streams, sweep);
  }
  streams_lock_release(streams);
}

struct streams_use streams_use(struct streams *streams) {
  lock_acquire(&streams->lock);
  struct streams_use use = streams->use;
  use.streams = streams->count;
  lock_release(&streams->lock);
  return use;
}
