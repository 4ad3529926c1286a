// See queue.h.
#include "server/jobs/queue.h"

#include "server/base/base.h"
#include "server/base/lock.h"
#include "server/jobs/held.h"

void queue_init(struct queue *queue, enum vx_lane_use use) {
  *queue = (struct queue){.use = use, .most = 1};
  lock_init(&queue->lock);
}

void queue_end(struct queue *queue) { lock_end(&queue->lock); }

void queue_waiter_init(struct queue_waiter *waiter, int device, atomic_llong *load) {
  *waiter = (struct queue_waiter){.device = device, .load = load};
  (void)sem_init(&waiter->wake, 0, 0);  // cannot fail: the first count is small
}

void queue_waiter_end(struct queue_waiter *waiter) { (void)sem_destroy(&waiter->wake); }

// ---- the list of clients --------------------------------------------------------------------------------------------

static void append_client(struct queue *queue, struct client *client) HOLDS(queue->lock) {
  client->jobs[queue->use].next = NULL;
  queue->clients++;
  if (queue->last)
    queue->last->jobs[queue->use].next = client;
  else
    queue->first = client;
  queue->last = client;
}

static bool may_run(const struct queue *queue, const struct client *client, int64_t now_ns) HOLDS(queue->lock) {
  return client->jobs[queue->use].running < queue->most || queue->stopped ||
         !recency_others(&queue->served, client, now_ns);
}

// Either may be NULL.
static struct queue_waiter *less_loaded(struct queue_waiter *a, struct queue_waiter *b) {
  return !a || (b && atomic_load(b->load) < atomic_load(a->load)) ? b : a;
}

// The fraction of the waiting work that is done when the client's last job is. Each round does one job of each client.
static double part_ahead(const struct queue *queue, const struct client *client) HOLDS(queue->lock) {
  int64_t ahead = client->jobs[queue->use].waiting * queue->clients, all = atomic_load(&queue->depth);
  return ahead < all ? (double)ahead / (double)all : 1;
}

// Whether workers of the CPU work beside workers of GPUs.
static bool has_targets(const struct queue *queue) {
  return queue->placement && atomic_load(queue->placement->gpus) > 0;
}

static enum target target_of(const struct queue_waiter *waiter) {
  return waiter->device == QUEUE_CPU ? TARGET_CPU : TARGET_GPU;
}

static bool needs_gpu(const struct job *job) { return job_gpu(job) && device_state(job_gpu(job)) == DEVICE_WORKING; }

// The waiter of the least loaded GPU, or of the GPU that the job needs. NULL: none sleeps.
static struct queue_waiter *choose_on_gpu(const struct queue *queue, const struct job *job) HOLDS(queue->lock) {
  const atomic_llong *load = needs_gpu(job) ? &job_gpu(job)->load : NULL;
  struct queue_waiter *chosen = NULL, *idle;
  for (int device = QUEUE_GPU; device < queue->devices; device++)
    if ((idle = queue->idle[device]) && (!load || idle->load == load)) chosen = less_loaded(chosen, idle);
  return chosen;
}

// The waiter that should get the job. NULL: the job should wait.
static struct queue_waiter *choose(const struct queue *queue, const struct client *client, const struct job *job)
    HOLDS(queue->lock) {
  struct queue_waiter *on_gpu = choose_on_gpu(queue, job), *on_cpu = queue->idle[QUEUE_CPU];
  if (needs_gpu(job)) return on_gpu;
  if (!has_targets(queue)) return less_loaded(on_gpu, on_cpu);
  const bool is_free[TARGETS] = {[TARGET_GPU] = on_gpu, [TARGET_CPU] = on_cpu};
  enum target target = placement_choose(queue->placement, &job->cost, part_ahead(queue, client), is_free);
  return target == TARGET_GPU ? on_gpu : target == TARGET_CPU ? on_cpu : NULL;
}

// Whether the waiter may get the job. If `*waiter` is NULL, sets it to the waiter that should get the job.
static bool suits(const struct queue *queue, const struct client *client, const struct job *job,
                  struct queue_waiter **waiter) HOLDS(queue->lock) {
  if (!*waiter) return (*waiter = choose(queue, client, job));
  return queue->stopped || !needs_gpu(job) || (*waiter)->load == &job_gpu(job)->load;
}

// Sets `*job` to the client's first job that can run now (NULL: none). Returns the job before it in the client's list
// (NULL: none). Jobs that wait for their GPU let others pass.
static struct job *find_job(const struct queue *queue, const struct client *client, struct queue_waiter **waiter,
                            struct job **job) HOLDS(queue->lock) {
  struct job *before = NULL;
  *job = client->jobs[queue->use].head;
  while (*job && !suits(queue, client, *job, waiter)) {
    before = *job;
    *job = needs_gpu(before) ? before->next : NULL;
  }
  return before;
}

// Removes from the list the first client that may run a job, and returns it. NULL: there is none. Sets `*waiter` as in
// suits.
static struct client *take_client(struct queue *queue, int64_t now_ns, struct queue_waiter **waiter,
                                  struct job **job_before, struct job **job) HOLDS(queue->lock) {
  struct client *before = NULL, *client = queue->first;
  while (client && !(may_run(queue, client, now_ns) && (*job_before = find_job(queue, client, waiter, job), *job))) {
    before = client;
    client = client->jobs[queue->use].next;
  }
  if (!client) return NULL;
  struct client *after = client->jobs[queue->use].next;
  *(before ? &before->jobs[queue->use].next : &queue->first) = after;
  if (!after) queue->last = before;
  queue->clients--;
  return client;
}

// Some jobs over one cloud do not count as single. The size of a stream's cloud is unknown until its sweeps are joined.
// A GPU reads points of a region in place, but the CPU needs a copy. The points of an inference request may be in a
// region.
static struct placement_cost cost_of(const struct queue *queue, const struct job *job) {
  const struct job_request *asked = &job->asked;
  bool in_region = asked->points_region.name[0] || job->infer, samples = vx_sampling_of(&asked->job);
  bool single = samples && asked->job.num_clouds == 1 && !asked->stream.name[0] && !in_region;
  return placement_cost(queue->placement, single, asked->job.num_clouds > 0 ? asked->job.inputs[0].dims[0] : 0,
                        samples ? asked->sample_counts[0] : 0);
}

static void append(struct queue *queue, struct job *job) HOLDS(queue->lock) {
  struct client_jobs *jobs = &job->client->jobs[queue->use];
  job->next = NULL;
  if (jobs->head)
    jobs->tail->next = job;
  else {
    jobs->head = job;
    append_client(queue, job->client);
  }
  jobs->tail = job;
  jobs->waiting++;
  queue->depth++;
  if (!queue->placement) return;
  job->cost = cost_of(queue, job);
  placement_wait_begin(queue->placement, &job->cost);
}

static void end_wait(struct queue *queue, const struct job *job) HOLDS(queue->lock) {
  job->client->jobs[queue->use].waiting--;
  queue->depth--;
  if (queue->placement) placement_wait_end(queue->placement, &job->cost);
}

// Takes the next job, or NULL. A client with jobs left goes to the end of the list. Sets `*waiter` as in suits.
static struct job *take_first(struct queue *queue, int64_t now_ns, struct queue_waiter **waiter) HOLDS(queue->lock) {
  struct job *before, *job;
  struct client *client = take_client(queue, now_ns, waiter, &before, &job);
  if (!client) return NULL;
  struct client_jobs *jobs = &client->jobs[queue->use];
  *(before ? &before->next : &jobs->head) = job->next;
  if (!job->next) jobs->tail = before;
  if (jobs->head) append_client(queue, client);
  (*waiter)->counted = !has_targets(queue) || target_of(*waiter) == TARGET_GPU;
  jobs->running += (*waiter)->counted;
  end_wait(queue, job);
  job_release_queue_slot(job);  // before its worker wakes, so that a newer job finds it free
  return job;
}

static void begin_run(struct queue *queue, struct queue_waiter *waiter, struct job *job) HOLDS(queue->lock) {
  if (job) atomic_fetch_add(waiter->load, 1);
  if (job && queue->placement) placement_begin(queue->placement, target_of(waiter), &job->cost);
  atomic_store(&waiter->job, job);
}

// Needs no lock.
static void end_run(struct queue *queue, struct queue_waiter *waiter, const struct job *job) {
  atomic_fetch_sub(waiter->load, 1);
  job->client->jobs[queue->use].running -= waiter->counted;
  if (queue->placement) placement_end(queue->placement, target_of(waiter), &job->cost);
}

static void wake(struct queue_waiter *waiter) { (void)sem_post(&waiter->wake); }

static struct queue_waiter *take_idle(struct queue *queue, int device) HOLDS(queue->lock) {
  struct queue_waiter *waiter = queue->idle[device];
  if (!waiter) return NULL;
  queue->idle[device] = waiter->next;
  queue->asleep--;
  return waiter;
}

static void hand_over(struct queue *queue, int64_t now_ns) HOLDS(queue->lock) {
  struct queue_waiter *waiter = NULL;
  struct job *job;
  while (queue->asleep > 0 && (job = take_first(queue, now_ns, &waiter))) {
    begin_run(queue, waiter, job);
    wake(take_idle(queue, waiter->device));
    waiter = NULL;
  }
}

// ---- in and out -----------------------------------------------------------------------------------------------------

// Whether to look for waiters now that the job has arrived. A queue with a placement does so only if a waiter may take
// this very job: other jobs are offered again when a worker begins to wait, and at each tick.
static bool is_wanted(const struct queue *queue, const struct job *job, int64_t now_ns) HOLDS(queue->lock) {
  const struct client *client = job->client;
  return !queue->placement ||
         (client->jobs[queue->use].head == job && may_run(queue, client, now_ns) && choose(queue, client, job) != NULL);
}

bool queue_push(struct queue *queue, struct job *job) {
  int64_t now_ns = clock_ns();
  lock_acquire(&queue->lock);
  bool taken = !queue->stopped;
  if (taken) {
    append(queue, job);
    recency_note(&queue->served, job->client, now_ns);
    if (is_wanted(queue, job, now_ns)) hand_over(queue, now_ns);
  }
  lock_release(&queue->lock);
  return taken;
}

void queue_done(struct queue *queue, struct queue_waiter *waiter, const struct job *job) {
  bool on_own_device = job->result.device && &job->result.device->load == waiter->load;
  end_run(queue, waiter, job);
  if (queue->placement && job->result.answered && on_own_device)
    atomic_fetch_add(&queue->placement->answered[target_of(waiter)], 1);
}

bool queue_requeue(struct queue *queue, struct queue_waiter *waiter, struct job *job) {
  lock_acquire(&queue->lock);
  bool taken = !queue->stopped;
  if (taken) {
    end_run(queue, waiter, job);
    append(queue, job);
    hand_over(queue, clock_ns());
  }
  lock_release(&queue->lock);
  return taken;
}

void queue_tick(struct queue *queue, int64_t workers, int64_t now_ns) {
  lock_acquire(&queue->lock);
  queue->most = workers > 2 ? workers - 1 : 1;
  hand_over(queue, now_ns);
  lock_release(&queue->lock);
}

static void push_idle(struct queue *queue, struct queue_waiter *waiter) HOLDS(queue->lock) {
  waiter->next = queue->idle[waiter->device];
  queue->idle[waiter->device] = waiter;
  queue->asleep++;
  if (waiter->device >= queue->devices) queue->devices = waiter->device + 1;
}

// Waits without the lock, and returns without it: many workers may wake at once.
static void wait_asleep(struct queue *queue, struct queue_waiter *waiter) RELEASES(queue->lock) {
  push_idle(queue, waiter);
  if (queue->placement) hand_over(queue, clock_ns());
  lock_release(&queue->lock);
  while (sem_wait(&waiter->wake) != 0)  // a signal came
    ;
}

struct job *queue_pop(struct queue *queue, struct queue_waiter *waiter) {
  lock_acquire(&queue->lock);
  waiter->called = false;
  // With a placement, the waiting jobs may be for other workers. Once the queue is stopped, any worker takes them.
  bool any = !queue->placement || queue->stopped;
  begin_run(queue, waiter, any ? take_first(queue, clock_ns(), &waiter) : NULL);
  if (!atomic_load(&waiter->job) && !queue->stopped)
    wait_asleep(queue, waiter);
  else
    lock_release(&queue->lock);
  return atomic_load(&waiter->job);
}

struct queue_waiter *queue_acquire(struct queue *queue, struct job *job) {
  struct queue_waiter *waiter = NULL;
  lock_acquire(&queue->lock);
  if (queue->depth == 0 && (waiter = choose_on_gpu(queue, job))) {
    take_idle(queue, waiter->device);
    waiter->counted = false;
    recency_note(&queue->served, job->client, clock_ns());
    begin_run(queue, waiter, job);
  }
  lock_release(&queue->lock);
  return waiter;
}

void queue_release(struct queue *queue, struct queue_waiter *waiter) {
  lock_acquire(&queue->lock);
  atomic_store(&waiter->job, NULL);
  push_idle(queue, waiter);
  hand_over(queue, clock_ns());
  if (queue->stopped && (waiter = take_idle(queue, waiter->device))) wake(waiter);
  lock_release(&queue->lock);
}

int64_t queue_call(struct queue *queue, int64_t most) {
  struct queue_waiter *waiters[QUEUE_CALLED_MOST];
  int64_t called = 0;
  if (queue->asleep == 0) return 0;
  if (most > QUEUE_CALLED_MOST) most = QUEUE_CALLED_MOST;
  lock_acquire(&queue->lock);
  for (int device = 0; device < queue->devices; device++)
    for (struct queue_waiter *waiter; called < most && (waiter = take_idle(queue, device)); called++) {
      waiter->called = true;
      waiters[called] = waiter;
    }
  lock_release(&queue->lock);
  for (int64_t i = 0; i < called; i++) wake(waiters[i]);
  return called;
}

// Moves the chosen jobs of one client to the end of a list. Returns the list's new end.
static struct job **take_of(struct queue *queue, struct client_jobs *jobs, struct job_choice *choice, struct job **end)
    HOLDS(queue->lock) {
  struct job **link = &jobs->head;
  while (*link) {
    struct job *job = *link;
    if (!choice->takes || choice->takes(job, choice)) {
      *link = job->next;
      job->next = NULL;
      *end = job;
      end = &job->next;
      end_wait(queue, job);
    } else {
      jobs->tail = job;
      link = &job->next;
    }
  }
  return end;
}

// Clients with jobs left stay where they are in the list.
struct job *queue_take(struct queue *queue, struct job_choice *choice) {
  struct job *taken = NULL, **end = &taken;
  lock_acquire(&queue->lock);
  struct client *client = queue->first, *next;
  queue->first = queue->last = NULL;
  queue->clients = 0;
  for (; client; client = next) {
    struct client_jobs *jobs = &client->jobs[queue->use];
    next = jobs->next;
    if (!choice->client || choice->client == client) end = take_of(queue, jobs, choice, end);
    if (jobs->head) append_client(queue, client);
  }
  lock_release(&queue->lock);
  return taken;
}

// Wakes all sleeping waiters for the last time, so they leave the stacks.
void queue_stop(struct queue *queue) {
  lock_acquire(&queue->lock);
  queue->stopped = true;
  for (int device = 0; device < queue->devices; device++)
    for (struct queue_waiter *waiter; (waiter = take_idle(queue, device));) wake(waiter);
  lock_release(&queue->lock);
}
