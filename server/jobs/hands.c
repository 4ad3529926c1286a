// Workers that help others; see hands.h.
#include "server/jobs/hands.h"

#include "server/base/awake.h"
#include "server/base/clock.h"

enum { MOST_HELPERS = 64 };  // of one job
#define AWAKE_NS INT64_C(50000)

// The pieces of one job, while they are done.
struct spread {
  struct spread *next;
  const struct vx_hand *own;
  const struct vx_pieces *pieces;
  int32_t taken;       // of those never begun before
  atomic_int helpers;  // at work
  int32_t given_up;
  int32_t again[MOST_HELPERS];  // pieces that were given up; with a place for what each helper has in hand
  pthread_cond_t changed;       // a helper has left
};

void hands_init(struct hands *hands, const struct devices *devices, struct queue queues[VX_LANE_USES],
                const atomic_llong running[VX_LANE_USES], int64_t most) {
  *hands = (struct hands){.devices = devices, .queues = queues, .running = running, .most = most};
  lock_init(&hands->lock);
}

void hands_destroy(struct hands *hands) { lock_destroy(&hands->lock); }

struct hands_use hands_use(struct hands *hands) {
  lock_acquire_awake(&hands->lock);
  struct hands_use use = hands->use;
  lock_release(&hands->lock);
  return use;
}

// ---- waiting awake --------------------------------------------------------------------------------------------------

struct await_helper {
  const struct spread *spread;
  int before;
};

static bool has_helper_changed(const void *ctx) {
  const struct await_helper *await = ctx;
  return atomic_load(&await->spread->helpers) != await->before;
}

// Releases the lock meanwhile. Returns whether a helper has joined or left.
static bool await_helper(struct hands *hands, struct spread *spread) HOLDS(hands->lock) {
  struct await_helper await = {spread, atomic_load(&spread->helpers)};
  lock_release(&hands->lock);
  awake_until(clock_ns() + AWAKE_NS, has_helper_changed, &await);
  lock_acquire_awake(&hands->lock);
  return has_helper_changed(&await);
}

struct await_pieces {
  const struct hands *hands;
  const struct queue *queue;
  unsigned before;
};

static bool has_work_come(const void *ctx) {
  const struct await_pieces *await = ctx;
  return atomic_load(&await->hands->showings) != await->before || queue_depth(await->queue) > 0;
}

// Likewise. Returns whether pieces were shown meanwhile.
static bool await_pieces(struct hands *hands, const struct queue *queue) HOLDS(hands->lock) {
  struct await_pieces await = {hands, queue, atomic_load(&hands->showings)};
  hands->awake++;
  lock_release(&hands->lock);
  awake_until(clock_ns() + AWAKE_NS, has_work_come, &await);
  lock_acquire_awake(&hands->lock);
  hands->awake--;
  return atomic_load(&hands->showings) != await.before;
}

// ---- pieces and helpers ---------------------------------------------------------------------------------------------

// How many more may work.
static int64_t room(const struct hands *hands) HOLDS(hands->lock) {
  int64_t at_work = hands->use.at_work;
  for (int use = 0; use < VX_LANE_USES; use++) at_work += atomic_load(&hands->running[use]);
  return hands->most - at_work;
}

static bool take(struct spread *spread, int32_t *piece) {
  if (spread->given_up > 0)
    *piece = spread->again[--spread->given_up];
  else if (spread->taken < spread->pieces->count)
    *piece = spread->taken++;
  else
    return false;
  return true;
}

// A piece that a helper may do, of the oldest job that has one; NULL if there is none.
static struct spread *take_to_help(struct hands *hands, int32_t *piece) HOLDS(hands->lock) {
  struct spread *spread = hands->first;
  while (spread && (spread->helpers + spread->given_up == MOST_HELPERS || !take(spread, piece))) spread = spread->next;
  return spread;
}

// False once all pieces are done. Waits if the last ones are in the hands of helpers, who may give them up.
static bool take_as_owner(struct hands *hands, struct spread *spread, int32_t *piece) HOLDS(hands->lock) {
  bool taken;
  for (bool changes = true; !(taken = take(spread, piece)) && spread->helpers > 0;)
    if (changes)
      changes = await_helper(hands, spread);
    else
      lock_wait(&hands->lock, &spread->changed);
  return taken;
}

static void show(struct hands *hands, struct spread *spread) HOLDS(hands->lock) {
  struct spread **last = &hands->first;
  while (*last) last = &(*last)->next;
  *last = spread;
  atomic_fetch_add(&hands->showings, 1);
}

// From now on nobody joins. Waits for those who help.
static void hide(struct hands *hands, struct spread *spread) HOLDS(hands->lock) {
  struct spread **link = &hands->first;
  while (*link && *link != spread) link = &(*link)->next;
  if (*link) *link = spread->next;
  while (spread->helpers > 0) lock_wait(&hands->lock, &spread->changed);
}

// ---- the job's worker -----------------------------------------------------------------------------------------------

// Workers to be woken for the pieces beside the first. One that is awake may still go to another job.
static int64_t wanted(const struct hands *hands, int64_t pieces) HOLDS(hands->lock) {
  int64_t more = room(hands);
  return (pieces - 1 < more ? pieces - 1 : more) - hands->awake;
}

// Those of quick jobs come last, as these are to wait least.
static void call(struct hands *hands, int64_t wanted) {
  for (int use = VX_LANE_USES - 1; use >= 0 && wanted > 0; use--) wanted -= queue_call(&hands->queues[use], wanted);
}

int32_t hands_count(struct hands *hands) {
  bool shown = atomic_load(&hands->devices->working) == 0;
  lock_acquire_awake(&hands->lock);
  int64_t more = shown ? room(hands) : 0;
  lock_release(&hands->lock);
  return more > 0 ? (int32_t)more + 1 : 1;
}

enum vx_status hands_spread(struct hands *hands, const struct vx_hand *own, const struct vx_pieces *pieces,
                            struct error *error) {
  struct spread spread = {.own = own, .pieces = pieces, .changed = PTHREAD_COND_INITIALIZER};
  bool shown = atomic_load(&hands->devices->working) == 0;
  enum vx_status status = VX_OK;
  int32_t piece;
  lock_acquire_awake(&hands->lock);
  int64_t more = wanted(hands, pieces->count);
  if (shown) show(hands, &spread);
  lock_release(&hands->lock);
  if (shown) call(hands, more);
  lock_acquire_awake(&hands->lock);
  while (status == VX_OK && take_as_owner(hands, &spread, &piece)) {
    lock_release(&hands->lock);
    status = pieces->run(pieces->ctx, own, piece, error);
    lock_acquire_awake(&hands->lock);
    hands->use.pieces += status == VX_OK;
  }
  hide(hands, &spread);
  lock_release(&hands->lock);
  pthread_cond_destroy(&spread.changed);
  return status;
}

// ---- helpers --------------------------------------------------------------------------------------------------------

struct helper {
  const struct vx_hand *own;  // of the job
  struct queue *queue;        // of the helper
};

static bool has_other_work(void *ctx) {
  const struct helper *helper = ctx;
  const struct vx_stop *own = helper->own->stop;
  return queue_depth(helper->queue) > 0 || (own->stopped && own->stopped(own->ctx));
}

// The error is heard by nobody: the job's own hand comes to it too, if it is not the helper's alone.
static bool help_with(const struct spread *spread, int32_t piece, struct vx_lane *lane, struct queue *queue) {
  struct helper helper = {spread->own, queue};
  struct error error;
  struct vx_stop stop = {has_other_work, &helper, 0, false};
  const struct vx_hand hand = {lane, &stop};
  return spread->pieces->run(spread->pieces->ctx, &hand, piece, &error) == VX_OK;
}

// Does a piece if there is one and nothing else to do, and releases the lock meanwhile. False also if the piece was
// given up: the helper then takes none of those that are left, since what was in its way may be so again.
static bool help_once(struct hands *hands, struct vx_lane *lane, struct queue *queue) HOLDS(hands->lock) {
  int32_t piece;
  struct spread *spread = queue_depth(queue) == 0 && room(hands) > 0 ? take_to_help(hands, &piece) : NULL;
  if (!spread) return false;
  atomic_fetch_add(&spread->helpers, 1);
  hands->use.at_work++;
  lock_release(&hands->lock);
  bool done = help_with(spread, piece, lane, queue);
  lock_acquire_awake(&hands->lock);
  hands->use.at_work--;
  hands->use.pieces += done;
  hands->use.helped += done;
  hands->use.given_up += !done;
  if (!done) spread->again[spread->given_up++] = piece;
  if (atomic_fetch_sub(&spread->helpers, 1) == 1 || !done) pthread_cond_signal(&spread->changed);
  return done;
}

void hands_help(struct hands *hands, struct vx_lane *lane, struct queue *queue) {
  lock_acquire_awake(&hands->lock);
  bool helped;
  do {
    for (helped = false; help_once(hands, lane, queue); helped = true)
      ;
  } while (helped && await_pieces(hands, queue));
  lock_release(&hands->lock);
}
