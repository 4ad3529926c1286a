// See streams.h.
#include "server/streams/streams.h"

#include <string.h>

#include "api/base/json_write.h"
#include "server/base/base.h"

bool streams_refuse_name(const char *name, struct error *error) {
  return error_refuse(error, ERROR_NOT_FOUND, NULL,
                      "there is no stream '%.80s' of this client; see /v1/streams. Streams end with the server", name);
}

static void write_sweeps(const struct stream *stream, int64_t now_ns, struct text *out) {
  json_printf(out, "sweeps:[");
  for (int32_t i = 0; i < stream->count; i++) {
    const struct sweep *sweep = stream->sweeps[i];
    json_printf(out, "{time:%g points:%ld memory_bytes:%zu kept_s:%.3f}", sweep->time, sweep->points, sweep->bytes,
                (double)(now_ns - sweep->came_ns) / NS_PER_S);
  }
  json_printf(out, "]");
}

static void write_stream(const struct stream *stream, struct text *out) {
  int64_t points = 0, bytes = 0;
  for (int32_t i = 0; i < stream->count; i++) {
    points += stream->sweeps[i]->points;
    bytes += (int64_t)stream->sweeps[i]->bytes;
  }
  json_printf(out, "{name:%s num_features:%d dtype:%s mount:%i asked:%d points:%ld", stream->name,
              stream->shape.columns, vx_float_words[stream->shape.dtype], stream->mounted, stream->terms.sweeps,
              points);
  for (const struct stream_tracks *each = stream->tracks; each; each = each->next) bytes += (int64_t)each->bytes;
  json_printf(out, "memory_bytes:%ld waiting:%d kept:%d time:%g", bytes, stream->waiting_count, stream->count,
              stream->sweeps[0]->time);
}

// A stream whose first request still runs has nothing to show.
static bool is_shown(const struct stream *stream, const struct client *client) {
  return stream->client == client && stream->count > 0;
}

// Without the single sweeps: a client may have ten thousand, and the I/O thread serves other connections too.
static void write_all(const struct streams *streams, const struct client *client, struct text *out) {
  json_printf(out, "{streams:[");
  for (const struct stream *stream = streams->first; stream; stream = stream->next) {
    if (!is_shown(stream, client)) continue;
    write_stream(stream, out);
    json_printf(out, "}");
  }
  json_printf(out, "]}");
}

bool streams_write(struct streams *streams, const struct client *client, const char *name, struct text *out,
                   struct error *error) {
  int64_t now_ns = clock_ns();
  lock_acquire(&streams->lock);
  streams_expire(streams, now_ns);
  const struct stream *stream = name ? streams_find(streams, client, name) : NULL;
  bool shown = stream && is_shown(stream, client);
  if (shown) {
    write_stream(stream, out);
    write_sweeps(stream, now_ns, out);
    json_printf(out, "}");
  }
  if (!name) write_all(streams, client, out);
  streams_lock_release(streams);
  text_put(out, "\n");
  return shown || !name || streams_refuse_name(name, error);
}

bool streams_delete(struct streams *streams, const struct client *client, const char *name, struct error *error) {
  lock_acquire(&streams->lock);
  struct stream *stream = streams_find(streams, client, name);
  bool there = stream && stream->count > 0;
  if (there) {
    stream->dropped = true;
    stream->mounted = false;
    streams_cut(streams, stream, 0);
    streams_tell(streams, stream, EVENT_DELETED, 0);
    streams_prune(streams, stream);
  }
  streams_lock_release(streams);
  return there || streams_refuse_name(name, error);
}

// ---- subscribers ----------------------------------------------------------------------------------------------------

static struct event opening(const struct streams *streams, const struct client *client, const char *name) {
  struct event open = {.kind = EVENT_OPEN};
  memcpy(open.stream, name, strlen(name) + 1);
  for (const struct stream *stream = streams->first; stream; stream = stream->next) {
    if (!is_shown(stream, client)) continue;
    open.streams++;
    if (strcmp(stream->name, name) != 0) continue;
    open.sweeps = stream->count;
    open.time = stream->sweeps[0]->time;
  }
  return open;
}

bool streams_subscribe(struct streams *streams, struct client *client, const char *name, struct subscriber *subscriber,
                       struct error *error) {
  if (!streams_allow(streams, error)) return false;
  if (name[0] && !stream_name_is_sound(name, strlen(name))) return streams_refuse_name(name, error);
  memcpy(subscriber->stream, name, strlen(name) + 1);
  lock_acquire(&streams->lock);
  streams_expire(streams, clock_ns());
  const struct event open = opening(streams, client, name);
  bool good = events_subscribe(&streams->events, client, &open, subscriber, error);
  streams_lock_release(streams);
  return good;
}
