// See helpers.h.
#include "server/jobs/helpers.h"

#include "server/base/base.h"
#include "server/jobs/job.h"

enum { CLOSED = -1 };  // in place of the number of a slot's helpers
#define AWAKE_NS INT64_C(50000)

void helpers_init(struct helpers *helpers, const struct devices *devices, struct queue queues[VX_LANE_USES],
                  const atomic_llong running[VX_LANE_USES], int64_t most) {
  *helpers = (struct helpers){.devices = devices, .queues = queues, .running = running, .most = most};
  for (int i = 0; i < MOST_SHARED; i++) {
    atomic_init(&helpers->shared[i].helpers, CLOSED);
    (void)sem_init(&helpers->shared[i].changed, 0, 0);  // cannot fail: the first count is small
  }
  lock_init(&helpers->lock);
}

void helpers_end(struct helpers *helpers) {
  for (int i = 0; i < MOST_SHARED; i++) (void)sem_destroy(&helpers->shared[i].changed);
  lock_end(&helpers->lock);
}

static int64_t running(const struct helpers *helpers) {
  int64_t jobs = 0;
  for (int use = 0; use < VX_LANE_USES; use++) jobs += atomic_load(&helpers->running[use]);
  return jobs;
}

// How many more helpers may run. Negative: too many jobs and helpers run.
static int64_t room(const struct helpers *helpers) {
  return helpers->most - running(helpers) - atomic_load(&helpers->at_work);
}

// False: every task is taken.
static bool take(struct shared_tasks *shared, int32_t *task) {
  if (atomic_load(&shared->begun) >= shared->tasks->count) return false;
  *task = atomic_fetch_add(&shared->begun, 1);
  return *task < shared->tasks->count;
}

// ---- the job's worker -----------------------------------------------------------------------------------------------

// Workers to wake for the tasks: the job's worker runs one task itself, and spinning helpers need no wake-up.
static int64_t wanted(const struct helpers *helpers, int64_t tasks) {
  int64_t more = room(helpers);
  return (tasks - 1 < more ? tasks - 1 : more) - atomic_load(&helpers->awake);
}

// Wakes workers of quick jobs last, because quick jobs should wait least.
static void publish(struct helpers *helpers, struct shared_tasks *shared) {
  while (sem_trywait(&shared->changed) == 0)
    ;  // takes the wake-ups that helpers of an earlier job have left
  atomic_store(&shared->helpers, 0);
  atomic_fetch_add(&helpers->open, 1);
  atomic_fetch_add(&helpers->publications, 1);
  int64_t more = wanted(helpers, shared->tasks->count);
  for (int use = VX_LANE_USES - 1; use >= 0 && more > 0; use--) more -= queue_call(&helpers->queues[use], more);
}

// `alone` if a GPU works or no slot is free.
static struct shared_tasks *find_slot(struct helpers *helpers, struct shared_tasks *alone) {
  if (atomic_load(&helpers->devices->working) > 0) return alone;
  for (int i = 0; i < MOST_SHARED; i++)
    if (!atomic_exchange(&helpers->shared[i].taken, true)) return &helpers->shared[i];
  return alone;
}

// A helper has given up a task, or no helper is left.
static bool has_changed(const void *ctx) {
  const struct shared_tasks *shared = ctx;
  return atomic_load(&shared->helpers) <= 0 || atomic_load(&shared->given_up) > shared->repeated;
}

static void await_change(struct shared_tasks *shared) {
  spin_until(clock_ns() + AWAKE_NS, has_changed, shared);
  while (!has_changed(shared)) (void)sem_wait(&shared->changed);
}

// Waits while helpers run the last tasks, because they may give up a task. False: all tasks are done.
static bool take_as_owner(struct shared_tasks *shared, int32_t *task) {
  if (take(shared, task)) return true;
  await_change(shared);
  if (atomic_load(&shared->given_up) == shared->repeated) return false;
  *task = shared->again[shared->repeated++];
  return true;
}

// Waits until no helper is in the slot, and closes it. No further task begins.
static void withdraw(struct helpers *helpers, struct shared_tasks *shared) {
  int none = 0;
  atomic_store(&shared->begun, shared->tasks->count);
  for (; !atomic_compare_exchange_strong(&shared->helpers, &none, CLOSED); none = 0) {
    shared->repeated = atomic_load(&shared->given_up);
    await_change(shared);
  }
  atomic_fetch_sub(&helpers->open, 1);
  atomic_store(&shared->taken, false);
}

int32_t helpers_idle(const struct helpers *helpers) {
  int64_t more = atomic_load(&helpers->devices->working) ? 0 : room(helpers);
  return more > 0 ? (int32_t)more : 0;
}

enum vx_status helpers_parallel_for(void *ctx, const struct vx_worker *own, const struct vx_tasks *tasks,
                                    struct error *error) {
  const struct job *job = ctx;
  struct helpers *helpers = job->services->helpers;
  struct shared_tasks alone = {.helpers = CLOSED}, *shared = find_slot(helpers, &alone);
  enum vx_status status = VX_OK;
  int32_t task;
  shared->own = own;
  shared->tasks = tasks;
  shared->repeated = 0;
  atomic_store(&shared->given_up, 0);
  atomic_store(&shared->begun, 0);
  if (shared != &alone) publish(helpers, shared);
  while (status == VX_OK && take_as_owner(shared, &task)) {
    status = tasks->run(tasks->ctx, own, task, error);
    if (status == VX_OK) atomic_fetch_add(&helpers->tasks, 1);
  }
  if (shared != &alone) withdraw(helpers, shared);
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
static bool run_task(const struct shared_tasks *shared, int32_t task, struct vx_lane *lane, struct queue *queue) {
  struct helper helper = {shared->own, queue};
  struct error error;
  struct vx_stop stop = {has_other_work, &helper, 0, false};
  const struct vx_worker worker = {lane, &stop};
  return shared->tasks->run(shared->tasks->ctx, &worker, task, &error) == VX_OK;
}

// Adds 1 if 0 <= *count < most.
static bool count_in(atomic_int *count, int64_t most) {
  for (int before = atomic_load(count); before >= 0 && before < most;)
    if (atomic_compare_exchange_weak(count, &before, before + 1)) return true;
  return false;
}

// Whether `again` has room if each helper in the slot gives up a task. Reads `helpers` first: a helper that gives up a
// task adds to `given_up` before it leaves, so the sum counts its task.
static bool has_room_to_repeat(const struct shared_tasks *shared) {
  int inside = atomic_load(&shared->helpers);
  return inside + atomic_load(&shared->given_up) <= MOST_HELPERS;
}

// Between the two calls, the job may end and another job may take the slot. The other job's worker then wakes once for
// nothing.
static void release_slot(struct shared_tasks *shared) {
  atomic_fetch_sub(&shared->helpers, 1);
  (void)sem_post(&shared->changed);
}

static void repeat_later(struct helpers *helpers, struct shared_tasks *shared, int32_t task) {
  lock_acquire(&helpers->lock);
  shared->again[atomic_load(&shared->given_up)] = task;
  atomic_fetch_add(&shared->given_up, 1);
  lock_release(&helpers->lock);
  atomic_fetch_add(&helpers->given_up, 1);
}

// Helps until no task is left, a job waits, too many jobs and helpers run, or the helper gives up its task. False: it
// did no task, or gave up.
static bool help(struct helpers *helpers, struct shared_tasks *shared, struct vx_lane *lane, struct queue *queue) {
  int32_t task;
  bool helped = false, done = true;
  if (!count_in(&shared->helpers, MOST_HELPERS)) return false;
  bool at_work = has_room_to_repeat(shared) && count_in(&helpers->at_work, helpers->most - running(helpers));
  while (at_work && done && atomic_load(&queue->depth) == 0 && room(helpers) >= 0 && take(shared, &task)) {
    done = run_task(shared, task, lane, queue);
    atomic_fetch_add(&helpers->tasks, done);
    atomic_fetch_add(&helpers->helped, done);
    helped = done;
  }
  if (!done) repeat_later(helpers, shared, task);
  atomic_fetch_sub(&helpers->at_work, at_work);
  release_slot(shared);
  return helped;
}

struct await {
  struct helpers *helpers;
  const struct queue *queue;
  int before;
};

static bool has_come(const void *ctx) {
  const struct await *await = ctx;
  return atomic_load(&await->helpers->publications) != await->before || atomic_load(&await->queue->depth) > 0;
}

void helpers_help(struct helpers *helpers, struct vx_lane *lane, struct queue *queue) {
  struct await await = {helpers, queue, 0};
  for (bool helped = true; helped && atomic_load(&helpers->open) > 0;) {
    helped = false;
    await.before = atomic_load(&helpers->publications);
    for (int i = 0; i < MOST_SHARED; i++) helped |= help(helpers, &helpers->shared[i], lane, queue);
    if (!helped) return;
    atomic_fetch_add(&helpers->awake, 1);
    spin_until(clock_ns() + AWAKE_NS, has_come, &await);
    // The loop looks at `open` again: publish() adds to it before it counts on the helpers that are awake.
    atomic_fetch_sub(&helpers->awake, 1);
  }
}
