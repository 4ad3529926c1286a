// See uploads.h.
#include "server/jobs/uploads.h"

#include <string.h>

#include "server/base/base.h"

// Seconds. An upload is not preempted if its whole body takes at most this long. The documentation promises 2 s; the
// rest is for errors in the rate.
static const double patience_s = 3;

// ---- who is preempted; with the lock held ---------------------------------------------------------------------------

struct need {
  struct job_services *services;
  struct client *client;
  struct shortage shortage;
  int64_t more;        // bytes that the rest of the request's body will need
  double slower_than;  // seconds: an upload that takes no longer is not preempted
  bool whole;          // the request's body has arrived
};

static bool is_over_share(const struct need *need) { return need->shortage.grant == OVER_CLIENT_SHARE; }

static double seconds(double bytes, double rate) { return bytes / (rate > 1 ? rate : 1); }

// Seconds for the whole body or, if its length is unknown, for as many bytes as its memory holds.
static double slowness(const struct peer *peer, int64_t now_ns) {
  int64_t expected = atomic_load(&peer->upload.expected);
  return seconds((double)(expected ? expected : atomic_load(&peer->upload.memory)), peer_rate(peer, now_ns));
}

static enum vx_lane_use use_of(const struct upload *upload) { return (enum vx_lane_use)atomic_load(&upload->use); }

static bool has(const struct upload *upload, enum share share) {
  if (!share_is_memory(share))
    return atomic_load(&upload->slot_reserved) && share == share_of_queue_slot(use_of(upload));
  return atomic_load(&upload->memory) > 0 && (share == SHARE_BYTES || share == share_of_body(use_of(upload)));
}

// The phase of an upload that may be preempted. PEER_PREEMPTED: the upload may not be preempted now.
static int phase_to_preempt(const struct peer *peer) {
  int phase = atomic_load(&peer->phase);
  bool may = phase == PEER_UPLOAD || (phase == PEER_HELD && !atomic_load(&peer->upload.bytes));
  return peer->open && may ? phase : PEER_PREEMPTED;
}

// The slowest upload that takes longer than `slower_than` seconds and holds some of the share that ran short. NULL:
// there is none.
//
// Clients that hold little are safe from a flood. A request of a client over its share preempts no upload of a client
// that holds less. An upload at PACE_SLOW or faster is safe if its client holds less than the request wants. An upload
// whose socket has bytes that the server has not read does not count as slow: the server is behind, not the client. At
// the gate, where the server reads nothing, such an upload may still lose its reservation.
static struct peer *slowest(const struct need *need, int64_t now_ns) {
  struct clients *clients = need->services->clients;
  struct watcher *watcher = need->services->uploads->watcher;
  enum share share = need->shortage.share;
  int64_t fewest = is_over_share(need) ? client_held(clients, need->client, share) : 0;
  int64_t wanted = need->shortage.amount + need->more;
  struct peer *found = NULL;
  double most = 0;
  for (size_t fd = 0; fd < watcher->peers_used; fd++) {
    struct peer *peer = &watcher->peers[fd];
    const struct upload *upload = &peer->upload;
    int phase = phase_to_preempt(peer);
    if (!has(upload, share) || phase == PEER_PREEMPTED) continue;
    double own = slowness(peer, now_ns);
    int64_t held = client_held(clients, atomic_load(&upload->client), share);
    if (own <= most || own <= need->slower_than || held < fewest) continue;
    if (held < wanted && peer_rate(peer, now_ns) >= PACE_SLOW) continue;
    if (phase == PEER_UPLOAD && peer_has_unread(peer)) continue;
    found = peer;
    most = own;
  }
  return found;
}

// The upload to preempt: the slowest. While the request's own body is incomplete, it does not preempt an upload of its
// own client that has begun to arrive and whose rate is not yet known; then NULL.
static struct peer *peer_to_preempt(const struct need *need, int64_t now_ns) {
  struct peer *peer = slowest(need, now_ns);
  bool begun = peer && atomic_load(&peer->upload.client) == need->client && atomic_load(&peer->upload.bytes) > 0 &&
               !peer->pace.is_known;
  return begun && !need->whole ? NULL : peer;
}

// Forgets the slot and the input, which the caller passes on or releases.
static void clear(struct upload *upload) {
  upload->input = NULL;
  atomic_store(&upload->memory, 0);
  atomic_store(&upload->slot_reserved, false);
}

static void release(struct upload *upload, const struct job_services *services) {
  struct buffer *input = upload->input;
  bool slot_reserved = atomic_load(&upload->slot_reserved);
  clear(upload);
  if (slot_reserved)
    share_release(services->clients, atomic_load(&upload->client), share_of_queue_slot(use_of(upload)), 1);
  if (input) buffer_release(input);
}

// False: the upload has moved on meanwhile. An upload that has received nothing continues without its reservation.
static bool preempt(struct peer *peer, const struct job_services *services) {
  int phase = phase_to_preempt(peer);
  if (phase == PEER_PREEMPTED || !peer_move(peer, phase, PEER_PREEMPTED)) return false;
  release(&peer->upload, services);
  if (atomic_load(&peer->upload.bytes))
    atomic_fetch_add(&services->uploads->preempted, 1);
  else
    (void)peer_move(peer, PEER_PREEMPTED, phase);
  return true;
}

// ---- making room ----------------------------------------------------------------------------------------------------

// Sweeps are evicted before uploads are preempted. If the client is over its share, only its own sweeps are evicted.
static bool evict_sweep(const struct need *need) {
  return need->shortage.share == SHARE_BYTES &&
         streams_evict(need->services->streams, is_over_share(need) ? need->client : NULL);
}

static bool make_room(const struct need *need) {
  struct watcher *watcher = need->services->uploads->watcher;
  int64_t now_ns = clock_ns();
  struct peer *peer;
  if (need->shortage.share == SHARES) return false;  // no other request can make room
  if (evict_sweep(need)) return true;
  lock_acquire(&watcher->lock);
  do {
    peer = peer_to_preempt(need, now_ns);
  } while (peer && !preempt(peer, need->services));
  lock_release(&watcher->lock);
  if (!peer && share_is_memory(need->shortage.share)) atomic_store(&need->services->uploads->refused, true);
  return peer;
}

bool uploads_make_room(struct job_services *services, struct client *client, const struct shortage *shortage) {
  const struct need need = {services, client, *shortage, 0, patience_s, true};
  return make_room(&need);
}

static bool could_make_room(const struct need *need) {
  struct watcher *watcher = need->services->uploads->watcher;
  if (need->shortage.share == SHARES) return false;
  lock_acquire(&watcher->lock);
  bool there = peer_to_preempt(need, clock_ns());
  lock_release(&watcher->lock);
  return there;
}

// ---- reserving ------------------------------------------------------------------------------------------------------

// While more than half of the memory is in use, an upload gets 64 times the bytes that have arrived. If that is more
// than an eighth of the body, the upload gets memory for the whole body, because a growing buffer needs the old and the
// new memory at once.
enum { MEMORY_PER_BYTE = 64, LARGEST_STEP = 8 };

// `written`: bytes that had arrived before the latest ones.
struct reserving {
  struct peer *peer;
  struct upload *upload;
  const struct job *job;
  int64_t written;
};

static int64_t whole_body(const struct upload *upload, int64_t come) {
  int64_t expected = atomic_load(&upload->expected);
  return expected > come ? expected : come;
}

static size_t capacity_of(const struct upload *upload) { return upload->input ? upload->input->capacity : 0; }

// A job with `latest` acquires its slot when it is submitted: it may then have the slot of the job that it supersedes.
static bool has_slot(const struct reserving *it) {
  return atomic_load(&it->upload->slot_reserved) || it->job->asked.latest[0];
}

static bool has_all(const struct reserving *it, int64_t come) {
  return has_slot(it) && capacity_of(it->upload) >= it->job->spec.lead + (size_t)whole_body(it->upload, come);
}

// Bytes of the body to reserve when `come` bytes have arrived.
static size_t due(const struct reserving *it, int64_t come) {
  const struct buffers *buffers = it->job->services->buffers;
  int64_t expected = whole_body(it->upload, come);
  bool all = buffers->in_use <= buffers->budget / 2 || come * MEMORY_PER_BYTE > expected / LARGEST_STEP;
  return (size_t)(all ? expected : come * MEMORY_PER_BYTE);
}

static bool reserve_slot(const struct reserving *it, struct shortage *shortage, struct error *error) {
  if (has_slot(it)) return true;
  if (!queue_slot_acquire(it->job->services->clients, it->job->client, use_of(it->upload), shortage, error))
    return false;
  atomic_store(&it->upload->slot_reserved, true);
  return true;
}

// Keeps the bytes that have arrived.
static bool reserve_input(const struct reserving *it, size_t bytes, struct shortage *shortage, struct error *error) {
  struct upload *upload = it->upload;
  size_t mine = capacity_of(upload), lead = it->job->spec.lead;
  if (lead + bytes <= mine) return true;
  struct buffer *larger = buffer_acquire(it->job->services->buffers, it->job->client, share_of_body(use_of(upload)),
                                         lead + bytes, mine, shortage);
  if (!larger) return shortage_refuse(shortage, "a body", error);
  if (upload->input) {
    memcpy(larger->data + lead, upload->input->data + lead, (size_t)it->written);
    buffer_release(upload->input);
  }
  upload->input = larger;
  atomic_store(&upload->memory, (int64_t)larger->capacity);
  return true;
}

// Acquires nothing.
static bool may_reserve_input(const struct reserving *it, size_t bytes, struct shortage *shortage,
                              struct error *error) {
  size_t mine = capacity_of(it->upload), all = it->job->spec.lead + bytes;
  return all <= mine ||
         buffer_may_acquire(it->job->services->buffers, it->job->client, share_of_body(use_of(it->upload)), all, mine,
                            shortage) ||
         shortage_refuse(shortage, "a body", error);
}

static bool reserve(const struct reserving *it, size_t bytes, struct shortage *shortage, struct error *error) {
  return reserve_slot(it, shortage, error) && (!bytes || reserve_input(it, bytes, shortage, error));
}

// An upload preempts only slower uploads.
static struct need need_of(const struct reserving *it, size_t bytes) {
  struct need need = {
      .services = it->job->services, .client = it->job->client, .slower_than = patience_s, .whole = !bytes};
  if (!bytes) return need;
  struct watcher *watcher = need.services->uploads->watcher;
  int64_t expected = atomic_load(&it->upload->expected);
  lock_acquire(&watcher->lock);
  double own = seconds((double)(expected ? expected : (int64_t)bytes), peer_rate(it->peer, clock_ns()));
  lock_release(&watcher->lock);
  if (own > patience_s) need.slower_than = own;
  return need;
}

static void want_rest(struct need *need, const struct upload *upload) {
  int64_t rest = atomic_load(&upload->expected) - need->shortage.amount;
  need->more = share_is_memory(need->shortage.share) && rest > 0 ? rest : 0;
}

static bool reserve_from_others(const struct reserving *it, size_t bytes, struct error *error) {
  struct shortage shortage;
  if (reserve(it, bytes, &shortage, error)) return true;
  struct need need = need_of(it, bytes);
  do {
    need.shortage = shortage;
    want_rest(&need, it->upload);
    if (!make_room(&need)) return false;
  } while (!reserve(it, bytes, &shortage, error));
  error->kind = ERROR_NONE;
  return true;
}

// ---- an upload ------------------------------------------------------------------------------------------------------

// Reserves the first part, if there is room for it and the whole body would be allowed. If not, but an upload could be
// preempted, reserves nothing and returns true: upload_write then reserves when bytes arrive.
bool upload_begin(struct peer *peer, const struct job *job, size_t bytes, struct error *error) {
  struct upload *upload = &peer->upload;
  const struct reserving it = {peer, upload, job, 0};
  atomic_store(&upload->client, job->client);
  atomic_store(&upload->use, (int)job_lane_use(job));
  atomic_store(&upload->expected, (int64_t)bytes);
  struct need need = {.services = job->services, .client = job->client, .slower_than = patience_s};
  while (!reserve(&it, due(&it, 0), &need.shortage, error) || !may_reserve_input(&it, bytes, &need.shortage, error)) {
    want_rest(&need, upload);
    if (evict_sweep(&need)) continue;
    release(upload, job->services);
    if (!could_make_room(&need)) return false;
    break;
  }
  error->kind = ERROR_NONE;
  return true;
}

// Locks the reservation against preemption. False: the upload was preempted, or its connection has ended.
static bool lock_reservation(struct peer *peer, const struct job *job, struct error *error) {
  struct watcher *watcher = job->services->uploads->watcher;
  while (!peer_move(peer, PEER_UPLOAD, PEER_LOCKED)) {
    lock_acquire(&watcher->lock);  // waits until the thread that preempts the upload has finished
    bool preempted = peer_move(peer, PEER_PREEMPTED, PEER_UPLOAD), failed = peer_is_failed(peer);
    lock_release(&watcher->lock);
    if (preempted || failed) return error_refuse(error, ERROR_MEMORY_FULL, NULL, PREEMPTED);
  }
  return true;
}

static void release_lock(struct peer *peer) { (void)peer_move(peer, PEER_LOCKED, PEER_UPLOAD); }

bool upload_write(struct peer *peer, const struct job *job, const char *data, size_t size, struct error *error) {
  struct upload *upload = &peer->upload;
  int64_t come = atomic_load(&upload->bytes);
  const struct reserving it = {peer, upload, job, come - (int64_t)size};
  if (!lock_reservation(peer, job, error)) return false;
  bool good = has_all(&it, come) || reserve_from_others(&it, due(&it, come), error);
  if (good) memcpy(upload->input->data + job->spec.lead + it.written, data, size);
  release_lock(peer);
  return good;
}

bool upload_commit(struct peer *peer, struct job *job, struct error *error) {
  struct upload *upload = &peer->upload;
  int64_t bytes = atomic_load(&upload->bytes);
  const struct reserving it = {peer, upload, job, bytes};
  if (!lock_reservation(peer, job, error)) return false;
  bool good = has_slot(&it) || reserve_from_others(&it, 0, error);
  if (good) {
    if (atomic_load(&upload->slot_reserved)) job->held.queue_slot = share_of_queue_slot(use_of(upload));
    job->held.input = upload->input;
    job->held.body_bytes = upload->input ? bytes : 0;
    clear(upload);
  } else {
    release(upload, job->services);
  }
  release_lock(peer);
  return good;
}

// Other threads access the reservation with the watcher's lock held.
void upload_release(struct peer *peer, const struct job *job) {
  struct upload *upload = &peer->upload;
  if (!atomic_load(&upload->memory) && !atomic_load(&upload->slot_reserved)) return;
  struct watcher *watcher = job->services->uploads->watcher;
  lock_acquire(&watcher->lock);
  release(upload, job->services);
  lock_release(&watcher->lock);
}
