// See sessions.h.
#include "api/sessions.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/base/json_write.h"

struct session {
  _Atomic(struct session *) next;
  const struct vx_lane *lane;
  struct vx_device_stream stream;
  struct vx_session *session;  // NULL if it could not be opened
  atomic_int state;            // enum use
  char reason[640];            // of a VACANT session
};

// LEAVING: a thread is writing the reason. VACANT: any thread may read it.
enum use { IN_USE, LEAVING, VACANT };

static struct session *next_of(const struct session *session) { return atomic_load(&session->next); }

static struct session *find(const struct sessions *sessions, const struct vx_lane *lane) {
  struct session *session = atomic_load(&sessions->first);
  while (session && session->lane != lane) session = next_of(session);
  return session;
}

static void append(struct sessions *sessions, struct session *session) {
  _Atomic(struct session *) *end = &sessions->first;
  for (struct session *last = atomic_load(end); last; last = atomic_load(end)) end = &last->next;
  atomic_store(end, session);
}

static void vacate(struct session *session, const char *reason) {
  int expected = IN_USE;
  if (!atomic_compare_exchange_strong(&session->state, &expected, LEAVING)) return;
  snprintf(session->reason, sizeof session->reason, "%s", reason);
  atomic_store(&session->state, VACANT);
}

enum vx_status sessions_open(struct sessions *sessions, const struct vx_engine *engine, struct vx_network *network,
                             const struct vx_lane *lane, const struct vx_device_stream *stream, struct error *error) {
  struct session *made = calloc(1, sizeof *made);
  if (!made) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a session of a network");
  made->lane = lane;
  made->stream = *stream;
  enum vx_status status = engine->session_open(network, stream, &made->session, error);
  if (status != VX_OK) {
    made->session = NULL;
    vacate(made, error->text);
  }
  append(sessions, made);
  return status;
}

struct vx_session *sessions_on(const struct sessions *sessions, const struct vx_lane *lane) {
  const struct session *session = lane ? find(sessions, lane) : NULL;
  return session && atomic_load(&session->state) == IN_USE ? session->session : NULL;
}

void sessions_vacate(struct sessions *sessions, const struct vx_lane *lane, const char *reason) {
  struct session *session = find(sessions, lane);
  if (session) vacate(session, reason);
}

void sessions_vacate_device(struct sessions *sessions, int device) {
  for (struct session *session = atomic_load(&sessions->first); session; session = next_of(session))
    if (session->stream.device == device) vacate(session, "the GPU is lost");
}

int sessions_count(const struct sessions *sessions, int device) {
  int count = 0;
  for (const struct session *session = atomic_load(&sessions->first); session; session = next_of(session))
    count += session->stream.device == device && atomic_load(&session->state) != VACANT;
  return count;
}

void sessions_write(const struct sessions *sessions, struct text *out) {
  json_printf(out, "[");
  for (const struct session *session = atomic_load(&sessions->first); session; session = next_of(session)) {
    bool vacant = atomic_load(&session->state) == VACANT;
    json_printf(out, "{device:'cuda:%d' memory_limit_bytes:%zu tf32:%i in_use:%i", session->stream.device,
                session->stream.memory_bytes, session->stream.tf32, !vacant);
    if (vacant) json_printf(out, "reason:%s", session->reason);
    json_printf(out, "}");
  }
  json_printf(out, "]");
}

void sessions_close(struct sessions *sessions, const struct vx_engine *engine) {
  for (struct session *session = atomic_exchange(&sessions->first, NULL), *next; session; session = next) {
    next = next_of(session);
    if (session->session) engine->session_close(session->session);
    free(session);
  }
}
