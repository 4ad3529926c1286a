// Uploads; see uploads.h.
#include "server/jobs/uploads.h"

#include <string.h>

#include "server/base/clock.h"

enum upload_state {
  UPLOAD_NONE,       // it is not in the list
  UPLOAD_OPEN,       // it may be preempted
  UPLOAD_LOCKED,     // its I/O thread writes to it, or has paused it
  UPLOAD_PREEMPTED,  // it has lost what it held
};

// An upload that takes less for its whole body is not preempted, unless its client is greedy. Two seconds are promised;
// a rate is only a guess.
static const double patience_s = 3;
// Bytes a second that every upload is trusted with at first, so that a small body may come in pieces.
static const double first_rate = 64 * 1024;

void uploads_init(struct uploads *uploads) {
  uploads->first = NULL;
  atomic_init(&uploads->refused, false);
  atomic_init(&uploads->ended, 0);
  pthread_mutex_init(&uploads->lock, NULL);
}

void uploads_destroy(struct uploads *uploads) { pthread_mutex_destroy(&uploads->lock); }

void uploads_tick(struct uploads *uploads, int64_t now_ns) {
  pthread_mutex_lock(&uploads->lock);
  for (struct upload *upload = uploads->first; upload; upload = upload->next)
    pace_note(&upload->pace, atomic_load(&upload->bytes), now_ns);
  pthread_mutex_unlock(&uploads->lock);
}

bool uploads_were_refused(struct uploads *uploads) { return atomic_exchange(&uploads->refused, false); }

// ---- who is preempted; with the lock held ---------------------------------------------------------------------------

// Room that a request needs, and for which others may be preempted.
struct need {
  struct job_means *means;
  struct client *client;
  struct shortage shortage;
  int64_t more;        // bytes of the request's body that come beyond what it lacks now
  double slower_than;  // seconds: an upload that takes no longer is spared
  bool whole;          // the request's body is here
};

static bool is_over_share(const struct need *need) { return need->shortage.grant == OVER_CLIENT_SHARE; }

// Seconds that so many bytes take at that rate.
static double seconds(double bytes, double rate) { return bytes / (rate > 1 ? rate : 1); }

static double rate_of(const struct upload *upload, int64_t now_ns) {
  return pace_rate(&upload->pace, atomic_load(&upload->bytes), now_ns);
}

// If the server is late in reading, the rate says nothing of the upload.
static bool moves(const struct upload *upload, int64_t now_ns) {
  return rate_of(upload, now_ns) >= PACE_SLOW || upload->calls->has_unread(upload);
}

// Seconds that the whole body takes or, if its length is unknown, as much as its memory holds.
static double slowness(const struct upload *upload, int64_t now_ns) {
  int64_t whole = upload->expected ? upload->expected : atomic_load(&upload->memory);
  return seconds((double)whole, rate_of(upload, now_ns));
}

static bool is_memory(enum share share) {
  return share == SHARE_BYTES || share == SHARE_LONG_BYTES || share == SHARE_DETECTION_BYTES;
}

static bool has(const struct upload *upload, enum share share) {
  if (!is_memory(share)) return atomic_load(&upload->placed) && share == share_of_place(upload->use);
  return atomic_load(&upload->memory) > 0 && (share == SHARE_BYTES || share == share_of_input(upload->use));
}

// What the client would hold if the request got all that it lacks, the rest of its body too.
static int64_t would_hold(const struct need *need) {
  return client_held(need->means->clients, need->client, need->shortage.share) + need->shortage.amount + need->more;
}

// What the client of the upload holds without it.
static int64_t others_hold(const struct upload *upload, enum share share, int64_t held) {
  return held - (is_memory(share) ? atomic_load(&upload->memory) : 1);
}

// The slowest that has what is lacking and is slower than `slower_than`, or whose client is greedy: it holds
// GREEDY_TIMES what the request's client would, even without this upload. NULL if there is none.
//
// A flood costs those nothing who hold less. A request of a client over its share takes nothing from clients that hold
// less than it does. No request takes an upload that moves from a client that holds less than the request wants.
static struct upload *slowest(const struct need *need, int64_t now_ns) {
  struct clients *clients = need->means->clients;
  enum share share = need->shortage.share;
  int64_t fewest = is_over_share(need) ? client_held(clients, need->client, share) : 0;
  int64_t wanted = need->shortage.amount + need->more, greedy = GREEDY_TIMES * would_hold(need);
  struct upload *found = NULL;
  double most = 0;
  for (struct upload *upload = need->means->uploads->first; upload; upload = upload->next) {
    if (atomic_load(&upload->state) != UPLOAD_OPEN || !has(upload, share)) continue;
    double own = slowness(upload, now_ns);
    int64_t held = client_held(clients, upload->client, share);
    bool spared = own <= need->slower_than && others_hold(upload, share, held) < greedy;
    if (own <= most || held < fewest || spared || (held < wanted && moves(upload, now_ns))) continue;
    found = upload;
    most = own;
  }
  return found;
}

// The upload that is to make room, or NULL. If the request's own body is still to come, that is no upload of its client
// that has only begun: its rate is not known yet. No other client has to make room in its place.
static struct upload *giver(const struct need *need, int64_t now_ns) {
  struct upload *upload = slowest(need, now_ns);
  bool begun = upload && upload->client == need->client && atomic_load(&upload->bytes) > 0 && !upload->pace.is_known;
  return begun && !need->whole ? NULL : upload;
}

// Gives back place and input.
static void release(struct upload *upload) {
  struct buffer *input = upload->input;
  upload->input = NULL;
  upload->written = 0;
  atomic_store(&upload->memory, 0);
  if (atomic_exchange(&upload->placed, false))
    client_give(upload->means->clients, upload->client, share_of_place(upload->use), 1);
  if (input) buffer_give(input);
}

static void preempt(struct uploads *uploads, struct upload *upload) {
  release(upload);
  if (!atomic_load(&upload->bytes)) {
    atomic_store(&upload->state, UPLOAD_OPEN);
    return;
  }
  atomic_fetch_add(&uploads->ended, 1);
  upload->calls->preempted(upload);
}

// ---- making room ----------------------------------------------------------------------------------------------------

// Sweeps of streams go before uploads: those of the request's client, if that is over its share.
static bool evict_sweep(const struct need *need) {
  return need->shortage.share == SHARE_BYTES &&
         streams_evict(need->means->streams, is_over_share(need) ? need->client : NULL);
}

// Somebody gives up what is lacking. False if there is nobody who should.
static bool make_room(const struct need *need) {
  struct uploads *uploads = need->means->uploads;
  int64_t now_ns = clock_ns();
  struct upload *upload;
  int open;
  if (need->shortage.share == SHARES) return false;  // nobody could give that up
  if (evict_sweep(need)) return true;
  pthread_mutex_lock(&uploads->lock);
  do {
    upload = giver(need, now_ns);
    open = UPLOAD_OPEN;
  } while (upload && !atomic_compare_exchange_strong(&upload->state, &open, UPLOAD_PREEMPTED));
  if (upload) preempt(uploads, upload);
  pthread_mutex_unlock(&uploads->lock);
  if (!upload && is_memory(need->shortage.share)) atomic_store(&uploads->refused, true);
  return upload;
}

// Whether somebody could be preempted for it.
static bool could_make_room(const struct need *need) {
  struct uploads *uploads = need->means->uploads;
  if (need->shortage.share == SHARES) return false;
  pthread_mutex_lock(&uploads->lock);
  bool there = giver(need, clock_ns());
  pthread_mutex_unlock(&uploads->lock);
  return there;
}

// ---- reserving ------------------------------------------------------------------------------------------------------

// Once half of the memory is in use, memory follows the bytes: an upload gets this many times what has come of it. If
// that is more than an eighth of the whole, it gets the whole, since it needs both while it grows.
enum { MEMORY_PER_BYTE = 64, LARGEST_STEP = 8 };

static int64_t whole_body(const struct upload *upload, int64_t come) {
  return upload->expected > come ? upload->expected : come;
}

static bool has_all(const struct upload *upload, int64_t come) {
  return atomic_load(&upload->placed) && upload->input &&
         upload->input->capacity - upload->lead >= (size_t)whole_body(upload, come);
}

// Bytes of body to reserve for when so many have come; no fewer than that.
static size_t due(const struct upload *upload, int64_t come) {
  struct buffers_use use = buffers_use(upload->means->buffers);
  int64_t expected = whole_body(upload, come);
  bool all = use.in_use <= use.budget / 2 || come * MEMORY_PER_BYTE > expected / LARGEST_STEP;
  return (size_t)(all ? expected : come * MEMORY_PER_BYTE);
}

static size_t capacity_of(const struct upload *upload) { return upload->input ? upload->input->capacity : 0; }

static bool reserve_place(struct upload *upload, struct shortage *shortage, struct problem *problem) {
  if (atomic_load(&upload->placed)) return true;
  if (!place_take(upload->means->clients, upload->client, upload->use, shortage, problem)) return false;
  atomic_store(&upload->placed, true);
  return true;
}

// Memory for so many bytes of body; those that are there are kept.
static bool reserve_input(struct upload *upload, size_t bytes, struct shortage *shortage, struct problem *problem) {
  size_t mine = capacity_of(upload);
  bytes += upload->lead;
  if (bytes <= mine) return true;
  struct buffer *larger =
      buffer_take(upload->means->buffers, upload->client, share_of_input(upload->use), bytes, mine, shortage);
  if (!larger) return shortage_refuse(shortage, "a body", problem);
  if (upload->input) {
    memcpy(larger->data + upload->lead, upload->input->data + upload->lead, upload->written);
    buffer_give(upload->input);
  }
  upload->input = larger;
  atomic_store(&upload->memory, (int64_t)larger->capacity);
  return true;
}

// Whether the client's shares would allow that; nothing is taken.
static bool may_reserve_input(struct upload *upload, size_t bytes, struct shortage *shortage, struct problem *problem) {
  bytes += upload->lead;
  return bytes <= capacity_of(upload) ||
         buffer_may_take(upload->means->buffers, upload->client, share_of_input(upload->use), bytes,
                         capacity_of(upload), shortage) ||
         shortage_refuse(shortage, "a body", problem);
}

// A place, and memory for so many bytes of body.
static bool reserve(struct upload *upload, size_t bytes, struct shortage *shortage, struct problem *problem) {
  return reserve_place(upload, shortage, problem) && (!bytes || reserve_input(upload, bytes, shortage, problem));
}

// An upload preempts only those that are slower than it is.
static struct need need_of(struct upload *upload, size_t bytes) {
  struct need need = {.means = upload->means, .client = upload->client, .slower_than = patience_s, .whole = !bytes};
  if (!bytes) return need;
  pthread_mutex_lock(&upload->means->uploads->lock);
  double own = seconds((double)(upload->expected ? upload->expected : (int64_t)bytes), rate_of(upload, clock_ns()));
  pthread_mutex_unlock(&upload->means->uploads->lock);
  if (own > patience_s) need.slower_than = own;
  return need;
}

static void want_rest(struct need *need, const struct upload *upload) {
  int64_t rest = upload->expected - need->shortage.amount;
  need->more = is_memory(need->shortage.share) && rest > 0 ? rest : 0;
}

static bool reserve_from_others(struct upload *upload, size_t bytes, struct problem *problem) {
  struct shortage shortage;
  if (reserve(upload, bytes, &shortage, problem)) return true;
  struct need need = need_of(upload, bytes);
  do {
    need.shortage = shortage;
    want_rest(&need, upload);
    if (!make_room(&need)) return false;
  } while (!reserve(upload, bytes, &shortage, problem));
  problem->kind = PROBLEM_NONE;
  return true;
}

// ---- an upload ------------------------------------------------------------------------------------------------------

static void list(struct upload *upload) {
  struct uploads *uploads = upload->means->uploads;
  upload->before = NULL;
  pace_begin(&upload->pace, 0, clock_ns());
  upload->pace.rate = first_rate;
  pthread_mutex_lock(&uploads->lock);
  atomic_store(&upload->state, UPLOAD_OPEN);
  upload->next = uploads->first;
  if (upload->next) upload->next->before = upload;
  uploads->first = upload;
  pthread_mutex_unlock(&uploads->lock);
}

// Returns the state that it had: UPLOAD_NONE if it was not in the list. From then on nobody else sees the upload.
static int unlist(struct upload *upload) {
  if (atomic_load(&upload->state) == UPLOAD_NONE) return UPLOAD_NONE;
  struct uploads *uploads = upload->means->uploads;
  pthread_mutex_lock(&uploads->lock);
  *(upload->before ? &upload->before->next : &uploads->first) = upload->next;
  if (upload->next) upload->next->before = upload->before;
  int state = atomic_exchange(&upload->state, UPLOAD_NONE);
  pthread_mutex_unlock(&uploads->lock);
  return state;
}

// What is known to be due at the headers; the client's shares must allow the rest too.
static bool reserve_first(struct upload *upload, size_t bytes, struct shortage *shortage, struct problem *problem) {
  return reserve(upload, due(upload, 0), shortage, problem) && may_reserve_input(upload, bytes, shortage, problem);
}

void upload_init(struct upload *upload) {
  atomic_store(&upload->state, UPLOAD_NONE);
  atomic_store(&upload->bytes, 0);
}

bool upload_begin(struct upload *upload, const struct job *job, size_t bytes, const struct upload_calls *calls,
                  struct problem *problem) {
  upload->means = job->means;
  upload->client = job->client;
  upload->use = job_lane_use(job);
  upload->expected = (int64_t)bytes;
  upload->lead = job->lead;
  upload->calls = calls;
  atomic_store(&upload->bytes, 0);
  atomic_store(&upload->memory, 0);
  atomic_store(&upload->placed, false);
  upload->input = NULL;
  upload->written = 0;
  struct need need = {.means = upload->means, .client = upload->client, .slower_than = patience_s};
  while (!reserve_first(upload, bytes, &need.shortage, problem)) {
    want_rest(&need, upload);
    if (evict_sweep(&need)) continue;
    release(upload);
    if (!could_make_room(&need)) return false;
    break;
  }
  problem->kind = PROBLEM_NONE;
  list(upload);
  return true;
}

static bool refuse_preempted(struct problem *problem) {
  return problem_set(problem, PROBLEM_MEMORY_FULL, NULL, OUTPACED);
}

// False if it was preempted for good.
static bool lock(struct upload *upload) {
  struct uploads *uploads = upload->means->uploads;
  int state = UPLOAD_OPEN;
  while (!atomic_compare_exchange_strong(&upload->state, &state, UPLOAD_LOCKED)) {
    pthread_mutex_lock(&uploads->lock);  // whoever preempts it has finished then
    state = atomic_load(&upload->state);
    pthread_mutex_unlock(&uploads->lock);
    if (state == UPLOAD_PREEMPTED) return false;
    state = UPLOAD_OPEN;
  }
  return true;
}

static bool append(struct upload *upload, const char *data, size_t size, struct problem *problem) {
  int64_t come = (int64_t)(upload->written + size);
  atomic_store(&upload->bytes, come);
  if (!has_all(upload, come) && !reserve_from_others(upload, due(upload, come), problem)) return false;
  memcpy(upload->input->data + upload->lead + upload->written, data, size);
  upload->written += size;
  return true;
}

bool upload_write(struct upload *upload, const char *data, size_t size, struct problem *problem) {
  if (!lock(upload)) return refuse_preempted(problem);
  bool good = append(upload, data, size, problem);
  atomic_store(&upload->state, UPLOAD_OPEN);
  return good;
}

void upload_pause(struct upload *upload) {
  int open = UPLOAD_OPEN;
  if (atomic_load(&upload->bytes)) (void)!atomic_compare_exchange_strong(&upload->state, &open, UPLOAD_LOCKED);
}

void upload_resume(struct upload *upload) {
  int locked = UPLOAD_LOCKED;
  if (atomic_load(&upload->state) == UPLOAD_NONE) return;  // a refused request waits at the gate too
  pthread_mutex_lock(&upload->means->uploads->lock);
  pace_begin(&upload->pace, atomic_load(&upload->bytes), clock_ns());
  upload->pace.rate = (double)(upload->expected + atomic_load(&upload->memory));  // fast until it is seen slow
  pthread_mutex_unlock(&upload->means->uploads->lock);
  (void)!atomic_compare_exchange_strong(&upload->state, &locked, UPLOAD_OPEN);
}

bool upload_commit(struct upload *upload, struct job *job, struct problem *problem) {
  int state = unlist(upload);
  if (state == UPLOAD_NONE) return true;
  if (state == UPLOAD_PREEMPTED) return refuse_preempted(problem);
  if (!reserve_from_others(upload, 0, problem)) {
    release(upload);
    return false;
  }
  job->place = share_of_place(upload->use);
  job->input = upload->input;
  job->input_bytes = (int64_t)upload->written;
  return true;
}

void upload_cancel(struct upload *upload) {
  if (unlist(upload) != UPLOAD_NONE) release(upload);
}

// ---- a job ----------------------------------------------------------------------------------------------------------

typedef bool (*taker)(struct job *job, size_t bytes, struct problem *problem);

static bool get(taker take, struct job *job, size_t bytes, struct problem *problem) {
  while (!take(job, bytes, problem)) {
    const struct need need = {job->means, job->client, job->shortage, 0, patience_s, true};
    if (!make_room(&need)) return false;
  }
  problem->kind = PROBLEM_NONE;
  return true;
}

bool job_get_rows(struct job *job, size_t bytes, struct problem *problem) {
  return get(job_take_rows, job, bytes, problem);
}

bool job_get_output(struct job *job, size_t bytes, struct problem *problem) {
  return get(job_take_output, job, bytes, problem);
}

static bool take_decoder(struct job *job, size_t bytes, struct problem *problem) {
  (void)bytes;
  return job_take_decoder(job, problem);
}

bool job_get_decoder(struct job *job, struct problem *problem) { return get(take_decoder, job, 0, problem); }

bool job_get_scratch(struct job *job, size_t bytes, struct problem *problem) {
  return get(job_take_scratch, job, bytes, problem);
}
