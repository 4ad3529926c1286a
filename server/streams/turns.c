// See streams.h.
#include "server/streams/streams.h"

static bool wait_in(struct stream *stream, struct stream_turn *turn, struct error *error) {
  struct stream_turn **link = &stream->waiting;
  if (stream->waiting_count == STREAM_WAITING)
    return error_refuse(error, ERROR_CLIENT_OVER_SHARE, "stream",
                        "%d requests of the stream '%s' already wait for their turn", STREAM_WAITING, stream->name);
  while (*link && (*link)->time <= turn->time) link = &(*link)->next;
  turn->next = *link;
  *link = turn;
  turn->stream = stream;
  stream->waiting_count++;
  return true;
}

static enum stream_entry enter(struct streams *streams, struct client *client, const char *name,
                               struct stream_turn *turn, bool may_wait, struct error *error) HOLDS(streams->lock) {
  struct stream *stream = streams_find(streams, client, name);
  if (!stream) stream = streams_add(streams, client, name, error);
  if (!stream) return STREAM_REFUSED;
  if (stream->turn && !may_wait) return STREAM_WAITS;
  if (stream->turn) return wait_in(stream, turn, error) ? STREAM_WAITS : STREAM_REFUSED;
  stream->turn = turn;
  turn->stream = stream;
  return STREAM_TURN;
}

enum stream_entry turn_acquire(struct streams *streams, struct client *client, const char *name,
                               struct stream_turn *turn, bool may_wait, struct error *error) {
  if (!streams_allow(streams, error)) return STREAM_REFUSED;
  turn->evicted = turn->expired = 0;
  lock_acquire(&streams->lock);
  enum stream_entry entry = enter(streams, client, name, turn, may_wait, error);
  lock_release(&streams->lock);
  return entry;
}

struct stream_turn *streams_take_waiting(struct streams *streams, bool (*chosen)(struct stream_turn *turn, void *cls),
                                         void *cls) {
  struct stream_turn *taken = NULL, **end = &taken;
  lock_acquire(&streams->lock);
  for (struct stream *stream = streams->first; stream; stream = stream->next) {
    for (struct stream_turn **link = &stream->waiting, *turn; (turn = *link);) {
      if (!chosen(turn, cls)) {
        link = &turn->next;
        continue;
      }
      *link = turn->next;
      stream->waiting_count--;
      turn->stream = NULL;
      turn->next = NULL;
      *end = turn;
      end = &turn->next;
    }
  }
  lock_release(&streams->lock);
  return taken;
}

void turn_release(struct streams *streams, struct stream_turn *turn) {
  struct stream *stream = turn->stream;
  if (!stream) return;
  lock_acquire(&streams->lock);
  struct stream_turn *next = stream->waiting;
  turn->stream = NULL;
  stream->evicted += turn->evicted;
  stream->expired += turn->expired;
  stream->turn = next;
  if (next) {
    stream->waiting = next->next;
    stream->waiting_count--;
  }
  streams_prune(streams, stream);
  streams_lock_release(streams);
  if (next) next->begin(next);
}
