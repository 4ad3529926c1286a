// Workers that help others; see hands.h.
#include "server/jobs/hands.h"

#include "server/base/clock.h"
#include "server/base/lock.h"

enum { MOST_HELPERS = 64 };  // of one job
#define AWAKE_NS INT64_C(50000)

// The tasks of one job, while they are done.
struct shared_tasks {
  struct shared_tasks *next;
  const struct vx_worker *own;
  const struct vx_tasks *tasks;
  int32_t taken;       // of those never begun before
  atomic_int helpers;  // at work
  int32_t given_up;
  int32_t again[MOST_HELPERS];  // tasks that were given up; with a place for what each helper has in hand
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
  const struct shared_tasks *shared;
  int before;
};

static bool has_helper_changed(const void *ctx) {
  const struct await_helper *await = ctx;
  return atomic_load(&await->shared->helpers) != await->before;
}

// Releases the lock meanwhile. Returns whether a helper has joined or left.
static bool await_helper(struct hands *hands, struct shared_tasks *shared) HOLDS(hands->lock) {
  struct await_helper await = {shared, atomic_load(&shared->helpers)};
  lock_release(&hands->lock);
  awake_until(clock_ns() + AWAKE_NS, has_helper_changed, &await);
  lock_acquire_awake(&hands->lock);
  return has_helper_changed(&await);
}

struct await_tasks {
  const struct hands *hands;
  const struct queue *queue;
  unsigned before;
};

static bool has_work_come(const void *ctx) {
  const struct await_tasks *await = ctx;
  return atomic_load(&await->hands->showings) != await->before || queue_depth(await->queue) > 0;
}

// Likewise. Returns whether tasks were shown meanwhile.
static bool await_tasks(struct hands *hands, const struct queue *queue) HOLDS(hands->lock) {
  struct await_tasks await = {hands, queue, atomic_load(&hands->showings)};
  hands->awake++;
  lock_release(&hands->lock);
  awake_until(clock_ns() + AWAKE_NS, has_work_come, &await);
  lock_acquire_awake(&hands->lock);
  hands->awake--;
  return atomic_load(&hands->showings) != await.before;
}

// ---- tasks and helpers ----------------------------------------------------------------------------------------------

// How many more may work.
static int64_t room(const struct hands *hands) HOLDS(hands->lock) {
  int64_t at_work = hands->use.at_work;
  for (int use = 0; use < VX_LANE_USES; use++) at_work += atomic_load(&hands->running[use]);
  return hands->most - at_work;
}

static bool take(struct shared_tasks *shared, int32_t *task) {
  if (shared->given_up > 0)
    *task = shared->again[--shared->given_up];
  else if (shared->taken < shared->tasks->count)
    *task = shared->taken++;
  else
    return false;
  return true;
}

// A task that a helper may do, of the oldest job that has one; NULL if there is none.
static struct shared_tasks *take_to_help(struct hands *hands, int32_t *task) HOLDS(hands->lock) {
  struct shared_tasks *shared = hands->first;
  while (shared && (shared->helpers + shared->given_up == MOST_HELPERS || !take(shared, task))) shared = shared->next;
  return shared;
}

// False once all tasks are done. Waits if the last ones are in the hands of helpers, who may give them up.
static bool take_as_owner(struct hands *hands, struct shared_tasks *shared, int32_t *task) HOLDS(hands->lock) {
  bool taken;
  for (bool changes = true; !(taken = take(shared, task)) && shared->helpers > 0;)
    if (changes)
      changes = await_helper(hands, shared);
    else
      lock_wait(&hands->lock, &shared->changed);
  return taken;
}

static void show(struct hands *hands, struct shared_tasks *shared) HOLDS(hands->lock) {
  struct shared_tasks **last = &hands->first;
  while (*last) last = &(*last)->next;
  *last = shared;
  atomic_fetch_add(&hands->showings, 1);
}

// From now on nobody joins. Waits for those who help.
static void hide(struct hands *hands, struct shared_tasks *shared) HOLDS(hands->lock) {
  struct shared_tasks **link = &hands->first;
  while (*link && *link != shared) link = &(*link)->next;
  if (*link) *link = shared->next;
  while (shared->helpers > 0) lock_wait(&hands->lock, &shared->changed);
}

// ---- the job's worker -----------------------------------------------------------------------------------------------

// Workers to be woken for the tasks beside the first. One that is awake may still go to another job.
static int64_t wanted(const struct hands *hands, int64_t tasks) HOLDS(hands->lock) {
  int64_t more = room(hands);
  return (tasks - 1 < more ? tasks - 1 : more) - hands->awake;
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

enum vx_status hands_parallel_for(struct hands *hands, const struct vx_worker *own, const struct vx_tasks *tasks,
                                  struct error *error) {
  struct shared_tasks shared = {.own = own, .tasks = tasks, .changed = PTHREAD_COND_INITIALIZER};
  bool shown = atomic_load(&hands->devices->working) == 0;
  enum vx_status status = VX_OK;
  int32_t task;
  lock_acquire_awake(&hands->lock);
  int64_t more = wanted(hands, tasks->count);
  if (shown) show(hands, &shared);
  lock_release(&hands->lock);
  if (shown) call(hands, more);
  lock_acquire_awake(&hands->lock);
  while (status == VX_OK && take_as_owner(hands, &shared, &task)) {
    lock_release(&hands->lock);
    status = tasks->run(tasks->ctx, own, task, error);
    lock_acquire_awake(&hands->lock);
    hands->use.tasks += status == VX_OK;
  }
  hide(hands, &shared);
  lock_release(&hands->lock);
  pthread_cond_destroy(&shared.changed);
  return status;
}

// ---- helpers --------------------------------------------------------------------------------------------------------

struct helper {
  const struct vx_worker *own;  // of the job
  struct queue *queue;          // of the helper
};

static bool has_other_work(void *ctx) {
  const struct helper *helper = ctx;
  const struct vx_stop *own = helper->own->stop;
  return queue_depth(helper->queue) > 0 || (own->stopped && own->stopped(own->ctx));
}

// The error is heard by nobody: the job's own worker comes to it too, if it is not the helper's alone.
static bool help_with(const struct shared_tasks *shared, int32_t task, struct vx_lane *lane, struct queue *queue) {
  struct helper helper = {shared->own, queue};
  struct error error;
  struct vx_stop stop = {has_other_work, &helper, 0, false};
  const struct vx_worker worker = {lane, &stop};
  return shared->tasks->run(shared->tasks->ctx, &worker, task, &error) == VX_OK;
}

// Does a task if there is one and nothing else to do, and releases the lock meanwhile. False also if the task was
// given up: the helper then takes none of those that are left, since what was in its way may be so again.
static bool help_once(struct hands *hands, struct vx_lane *lane, struct queue *queue) HOLDS(hands->lock) {
  int32_t task;
  struct shared_tasks *shared = queue_depth(queue) == 0 && room(hands) > 0 ? take_to_help(hands, &task) : NULL;
  if (!shared) return false;
  atomic_fetch_add(&shared->helpers, 1);
  hands->use.at_work++;
  lock_release(&hands->lock);
  bool done = help_with(shared, task, lane, queue);
  lock_acquire_awake(&hands->lock);
  hands->use.at_work--;
  hands->use.tasks += done;
  hands->use.helped += done;
  hands->use.given_up += !done;
  if (!done) shared->again[shared->given_up++] = task;
  if (atomic_fetch_sub(&shared->helpers, 1) == 1 || !done) pthread_cond_signal(&shared->changed);
  return done;
}

void hands_help(struct hands *hands, struct vx_lane *lane, struct queue *queue) {
  lock_acquire_awake(&hands->lock);
  bool helped;
  do {
    for (helped = false; help_once(hands, lane, queue); helped = true)
      ;
  } while (helped && await_tasks(hands, queue));
  lock_release(&hands->lock);
}
