// See helpers.h.
#include "server/jobs/helpers.h"

#include "server/base/base.h"

enum { MOST_HELPERS = 64 };  // of one job
#define AWAKE_NS INT64_C(50000)

// The tasks of one job, from their start until all are done.
struct shared_tasks {
  struct shared_tasks *next;
  const struct vx_worker *own;
  const struct vx_tasks *tasks;
  int32_t begun;       // tasks that were taken at least once
  atomic_int helpers;  // at work
  int32_t given_up;
  int32_t again[MOST_HELPERS];  // [given_up]: tasks that must run again; each helper may add one
  pthread_cond_t changed;       // a helper has left
};

void helpers_init(struct helpers *helpers, const struct devices *devices, struct queue queues[VX_LANE_USES],
                  const atomic_llong running[VX_LANE_USES], int64_t most) {
  *helpers = (struct helpers){.devices = devices, .queues = queues, .running = running, .most = most};
  lock_init(&helpers->lock);
}

void helpers_end(struct helpers *helpers) { lock_end(&helpers->lock); }

struct helpers_use helpers_use(struct helpers *helpers) {
  lock_acquire_awake(&helpers->lock);
  struct helpers_use use = helpers->use;
  lock_release(&helpers->lock);
  return use;
}

// ---- spinning -------------------------------------------------------------------------------------------------------

// A counter that may change, or a queue (NULL: none) that may get a job.
struct await {
  const atomic_int *counter;
  int before;
  const struct queue *queue;
};

static bool has_changed(const void *ctx) {
  const struct await *await = ctx;
  return atomic_load(await->counter) != await->before || (await->queue && atomic_load(&await->queue->depth) > 0);
}

// Spins without the lock. Returns whether the counter has changed.
static bool await_change(struct helpers *helpers, const atomic_int *counter, const struct queue *queue)
    HOLDS(helpers->lock) {
  struct await await = {counter, atomic_load(counter), queue};
  lock_release(&helpers->lock);
  awake_until(clock_ns() + AWAKE_NS, has_changed, &await);
  lock_acquire_awake(&helpers->lock);
  return atomic_load(counter) != await.before;
}

// Waits for published tasks.
static bool await_tasks(struct helpers *helpers, const struct queue *queue) HOLDS(helpers->lock) {
  helpers->awake++;
  bool published = await_change(helpers, &helpers->publications, queue);
  helpers->awake--;
  return published;
}

// ---- tasks and helpers ----------------------------------------------------------------------------------------------

// How many more jobs and helpers may run.
static int64_t room(const struct helpers *helpers) HOLDS(helpers->lock) {
  int64_t at_work = helpers->use.at_work;
  for (int use = 0; use < VX_LANE_USES; use++) at_work += atomic_load(&helpers->running[use]);
  return helpers->most - at_work;
}

static bool take(struct shared_tasks *shared, int32_t *task) {
  if (shared->given_up > 0)
    *task = shared->again[--shared->given_up];
  else if (shared->begun < shared->tasks->count)
    *task = shared->begun++;
  else
    return false;
  return true;
}

// Takes a task for a helper, from the oldest job that has one. NULL: there is none.
static struct shared_tasks *take_to_help(struct helpers *helpers, int32_t *task) HOLDS(helpers->lock) {
  struct shared_tasks *shared = helpers->first;
  while (shared && (shared->helpers + shared->given_up == MOST_HELPERS || !take(shared, task))) shared = shared->next;
  return shared;
}

// Takes a task for the job's worker. False: all tasks are done. While helpers run the last tasks, which they may give
// up, it waits.
static bool take_as_owner(struct helpers *helpers, struct shared_tasks *shared, int32_t *task) HOLDS(helpers->lock) {
  bool taken;
  for (bool changes = true; !(taken = take(shared, task)) && shared->helpers > 0;)
    if (changes)
      changes = await_change(helpers, &shared->helpers, NULL);
    else
      lock_wait(&helpers->lock, &shared->changed);
  return taken;
}

static void publish(struct helpers *helpers, struct shared_tasks *shared) HOLDS(helpers->lock) {
  struct shared_tasks **last = &helpers->first;
  while (*last) last = &(*last)->next;
  *last = shared;
  atomic_fetch_add(&helpers->shared, 1);
  atomic_fetch_add(&helpers->publications, 1);
}

// Stops further helpers, and waits for those at work.
static void withdraw(struct helpers *helpers, struct shared_tasks *shared) HOLDS(helpers->lock) {
  struct shared_tasks **link = &helpers->first;
  while (*link && *link != shared) link = &(*link)->next;
  if (*link) {
    *link = shared->next;
    atomic_fetch_sub(&helpers->shared, 1);
  }
  while (shared->helpers > 0) lock_wait(&helpers->lock, &shared->changed);
}

// ---- the job's worker -----------------------------------------------------------------------------------------------

// Workers to wake for the tasks: the job's worker runs one task itself, and spinning helpers need no wake-up.
static int64_t wanted(const struct helpers *helpers, int64_t tasks) HOLDS(helpers->lock) {
  int64_t more = room(helpers);
  return (tasks - 1 < more ? tasks - 1 : more) - helpers->awake;
}

// Wakes workers of quick jobs last, because quick jobs should wait least.
static void call(struct helpers *helpers, int64_t wanted) {
  for (int use = VX_LANE_USES - 1; use >= 0 && wanted > 0; use--) wanted -= queue_call(&helpers->queues[use], wanted);
}

int32_t helpers_idle(struct helpers *helpers) {
  if (atomic_load(&helpers->devices->working)) return 0;
  lock_acquire_awake(&helpers->lock);
  int64_t more = room(helpers);
  lock_release(&helpers->lock);
  return more > 0 ? (int32_t)more : 0;
}

enum vx_status helpers_parallel_for(struct helpers *helpers, const struct vx_worker *own, const struct vx_tasks *tasks,
                                    struct error *error) {
  struct shared_tasks shared = {.own = own, .tasks = tasks, .changed = PTHREAD_COND_INITIALIZER};
  bool published = atomic_load(&helpers->devices->working) == 0;
  enum vx_status status = VX_OK;
  int32_t task;
  lock_acquire_awake(&helpers->lock);
  int64_t more = published ? wanted(helpers, tasks->count) : 0;
  if (published) publish(helpers, &shared);
  for (; status == VX_OK && take_as_owner(helpers, &shared, &task); more = 0) {
    lock_release(&helpers->lock);
    call(helpers, more);
    status = tasks->run(tasks->ctx, own, task, error);
    lock_acquire_awake(&helpers->lock);
    helpers->use.tasks += status == VX_OK;
  }
  withdraw(helpers, &shared);
  lock_release(&helpers->lock);
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
  return atomic_load(&helper->queue->depth) > 0 || (own->stopped && own->stopped(own->ctx));
}

// Drops the error: the job's worker runs the task again and reports its own error.
static bool help_with(const struct shared_tasks *shared, int32_t task, struct vx_lane *lane, struct queue *queue) {
  struct helper helper = {shared->own, queue};
  struct error error;
  struct vx_stop stop = {has_other_work, &helper, 0, false};
  const struct vx_worker worker = {lane, &stop};
  return shared->tasks->run(shared->tasks->ctx, &worker, task, &error) == VX_OK;
}

// Runs one task without the lock. False: no task is left, a job waits, or the helper gave up its task.
static bool help_once(struct helpers *helpers, struct vx_lane *lane, struct queue *queue) HOLDS(helpers->lock) {
  int32_t task;
  struct shared_tasks *shared =
      atomic_load(&queue->depth) == 0 && room(helpers) > 0 ? take_to_help(helpers, &task) : NULL;
  if (!shared) return false;
  atomic_fetch_add(&shared->helpers, 1);
  helpers->use.at_work++;
  lock_release(&helpers->lock);
  bool done = help_with(shared, task, lane, queue);
  lock_acquire_awake(&helpers->lock);
  helpers->use.at_work--;
  helpers->use.tasks += done;
  helpers->use.helped += done;
  helpers->use.given_up += !done;
  if (!done) shared->again[shared->given_up++] = task;
  if (atomic_fetch_sub(&shared->helpers, 1) == 1 || !done) pthread_cond_signal(&shared->changed);
  return done;
}

void helpers_help(struct helpers *helpers, struct vx_lane *lane, struct queue *queue) {
  if (atomic_load(&helpers->shared) == 0) return;  // fast path: no lock
  lock_acquire_awake(&helpers->lock);
  bool helped;
  do {
    for (helped = false; help_once(helpers, lane, queue); helped = true)
      ;
  } while (helped && await_tasks(helpers, queue));
  lock_release(&helpers->lock);
}
