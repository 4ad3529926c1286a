// See workers.h.
#include "server/jobs/workers.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends.h"
#include "server/base/base.h"
#include "server/base/log.h"
#include "server/jobs/sweeps.h"

// ---- standing by ----------------------------------------------------------------------------------------------------

static bool is_needed(const struct worker *worker, struct devices *devices) {
  if (worker->lanes.gpu && device_is_open(devices, worker->lanes.gpu, clock_ns())) return true;
  return worker->on_cpu && atomic_load(&devices->working) == 0;
}

static bool takes_jobs(const struct worker *worker, struct devices *devices) {
  return worker->beside || is_needed(worker, devices);
}

// False: the service stops.
static bool stand_by(struct worker *worker, struct workers *workers) {
  if (takes_jobs(worker, workers->devices)) return true;
  lock_acquire(&workers->lock);
  while (!workers->stopping && !takes_jobs(worker, workers->devices)) lock_wait(&workers->lock, &workers->needed);
  bool stopping = workers->stopping;
  lock_release(&workers->lock);
  return !stopping;
}

void workers_wake(struct workers *workers) {
  lock_acquire(&workers->lock);
  pthread_cond_broadcast(&workers->needed);
  lock_release(&workers->lock);
}

int64_t workers_at_work(const struct workers *workers, enum vx_lane_use use) {
  int64_t at_work = 0;
  for (int64_t i = 0; i < workers->count; i++)
    at_work += workers->worker[i].use == use && takes_jobs(&workers->worker[i], workers->devices);
  return at_work;
}

int64_t workers_steady(const struct workers *workers, enum vx_lane_use use) {
  int64_t steady = 0;
  for (int64_t i = 0; i < workers->count; i++)
    steady += workers->worker[i].use == use && is_needed(&workers->worker[i], workers->devices);
  return steady;
}

// ---- the use of processors ------------------------------------------------------------------------------------------

static int64_t processor_ns(clockid_t clock) {
  struct timespec used;
  return clock_gettime(clock, &used) == 0 ? used.tv_sec * NS_PER_S + used.tv_nsec : 0;
}

// The lock keeps threads from being joined meanwhile.
static int64_t used_by_others_ns(const struct workers *workers) HOLDS(workers->lock) {
  int64_t used_ns = processor_ns(CLOCK_PROCESS_CPUTIME_ID);
  for (int64_t i = 0; i < workers->count; i++) {
    clockid_t clock;
    if (workers->worker[i].beside && pthread_getcpuclockid(workers->worker[i].thread, &clock) == 0)
      used_ns -= processor_ns(clock);
  }
  return used_ns;
}

void workers_tick(struct workers *workers, int64_t now_ns) {
  lock_acquire(&workers->lock);
  if (!workers->stopping && now_ns > workers->since_ns) {
    int64_t used_ns = used_by_others_ns(workers);
    placement_note_used(workers->placement, (used_ns - workers->used_ns) * 1000 / (now_ns - workers->since_ns));
    workers->used_ns = used_ns;
    workers->since_ns = now_ns;
  }
  lock_release(&workers->lock);
}

// ---- threads --------------------------------------------------------------------------------------------------------

// If the job's turn has begun meanwhile, the job goes back into a queue.
static enum job_step await_turn(struct job *job) {
  enum stream_entry entry = sweeps_begin(job, true);
  if (entry == STREAM_REFUSED) job_release(job);
  return entry == STREAM_WAITS ? JOB_WAITS : entry == STREAM_TURN ? JOB_ELSEWHERE : JOB_RAN;
}

// False: the job waits in its stream or in a queue.
static bool do_job(struct worker *worker, struct job *job) {
  struct workers *workers = worker->workers;
  struct queue *queue = &workers->queues[worker->use];
  // If a device's state changed while the worker waited, the worker may have to stand by. Then another does the job.
  if (!takes_jobs(worker, workers->devices) && queue_requeue(queue, &worker->waiter, job)) return false;
  atomic_fetch_add(&workers->running[worker->use], 1);
  enum job_step step = job_run(job, &worker->lanes, worker->use);
  atomic_fetch_sub(&workers->running[worker->use], 1);
  queue_done(queue, &worker->waiter, job);
  if (step == JOB_WAITS) step = await_turn(job);
  if (step == JOB_ELSEWHERE) job->services->requeue(job->services->jobs, job);
  if (step != JOB_RAN) return false;
  job->spec.done(job);  // from here on the maker owns the job
  return true;
}

bool workers_run(struct workers *workers, struct job *job) {
  struct queue *queue = &workers->queues[VX_LANE_QUICK];
  struct queue_waiter *waiter = queue_acquire(queue, job);
  if (!waiter) return false;
  struct worker *worker = (struct worker *)((char *)waiter - offsetof(struct worker, waiter));
  lock_acquire(&worker->busy);
  (void)do_job(worker, job);
  lock_release(&worker->busy);
  queue_release(queue, waiter);
  return true;
}

static void *worker_main(void *argument) {
  struct worker *worker = argument;
  struct workers *workers = worker->workers;
  struct queue *queue = &workers->queues[worker->use];
  struct job *job;
  while (stand_by(worker, workers) && ((job = queue_pop(queue, &worker->waiter)) || worker->waiter.called)) {
    lock_acquire(&worker->busy);
    if (!job || do_job(worker, job)) helpers_help(workers->helpers, worker->lanes.on_cpu, queue);
    lock_release(&worker->busy);
  }
  return NULL;
}

static bool open_lane(const struct device *device, enum vx_lane_use use, struct vx_lane **lane, struct error *error) {
  if (device->backend->lane_open(device->handle, use, lane, error) == VX_OK) return true;
  *lane = NULL;
  return error_prefix(error, "worker on %s: ", device->description.name);
}

static void close_lanes(struct worker *worker) {
  const struct lanes *lanes = &worker->lanes;
  if (lanes->on_gpu) lanes->gpu->backend->lane_close(lanes->on_gpu);
  if (lanes->on_cpu) vx_cpu_backend.lane_close(lanes->on_cpu);
}

// If the GPU's lane cannot be opened, for lack of memory for example, the GPU counts as lost. With `must` (`--backend
// cuda`) the failure is an error instead.
static bool open_gpu_lane(struct worker *worker, bool must, struct error *error) {
  struct lanes *lanes = &worker->lanes;
  if (!lanes->gpu || device_state(lanes->gpu) == DEVICE_LOST) return true;
  if (open_lane(lanes->gpu, worker->use, &lanes->on_gpu, error)) return true;
  if (must) return false;
  log_event(LOG_WARNING, "a GPU is left out", "reason", error->text);
  (void)device_mark_lost(worker->workers->devices, lanes->gpu, error->text);
  return true;
}

static bool start_worker(struct worker *worker, bool must, struct error *error) {
  struct devices *devices = worker->workers->devices;
  struct lanes *lanes = &worker->lanes;
  if (!open_gpu_lane(worker, must, error) || !open_lane(&devices->cpu, worker->use, &lanes->on_cpu, error)) {
    close_lanes(worker);
    return false;
  }
  if (lanes->gpu)
    queue_waiter_init(&worker->waiter, QUEUE_GPU + (int)(lanes->gpu - devices->gpu), &lanes->gpu->load);
  else
    queue_waiter_init(&worker->waiter, QUEUE_CPU, &devices->cpu.load);
  lock_init(&worker->busy);
  int code = pthread_create(&worker->thread, NULL, worker_main, worker);
  if (code == 0) return true;
  error_set(error, "worker: pthread_create: %s", strerror(code));
  lock_end(&worker->busy);
  queue_waiter_end(&worker->waiter);
  close_lanes(worker);
  return false;
}

// Workers of one use: for each GPU, and on the CPU if no GPU works.
struct worker_count {
  int64_t streams, on_cpu;
};

// Without models there are no workers for detections.
static struct worker_count count_of(const struct options *options, enum vx_lane_use use) {
  int64_t detect = options->models_dir[0] ? 1 : 0;
  const struct worker_count counts[VX_LANE_USES] = {
      [VX_LANE_QUICK] = {options->gpu_streams, options->workers},
      [VX_LANE_LONG] = {options->gpu_long_streams, options->long_workers},
      [VX_LANE_DETECT] = {detect * options->gpu_detection_streams, detect * options->detection_workers},
  };
  return counts[use];
}

static int64_t workers_wanted(const struct worker_count *count, int64_t gpus) {
  int64_t on_gpus = gpus * count->streams;
  return on_gpus > count->on_cpu ? on_gpus : count->on_cpu;
}

static bool start_workers(struct workers *workers, enum vx_lane_use use, const struct worker_count *count, bool must,
                          struct error *error) {
  struct devices *devices = workers->devices;
  for (int64_t i = 0; i < workers_wanted(count, devices->count); i++) {
    struct worker *worker = &workers->worker[workers->count];
    worker->workers = workers;
    worker->use = use;
    worker->on_cpu = i < count->on_cpu;
    worker->lanes.gpu = i < devices->count * count->streams ? &devices->gpu[i % devices->count] : NULL;
    worker->beside = use == VX_LANE_LONG && workers->placement && !worker->lanes.gpu;
    if (!start_worker(worker, must, error)) return false;
    workers->count++;
  }
  return true;
}

bool workers_start(struct workers *workers, const struct options *options, struct devices *devices,
                   struct queue queues[VX_LANE_USES], struct placement *placement, struct helpers *helpers,
                   struct error *error) {
  struct worker_count counts[VX_LANE_USES];
  int64_t wanted = 0;
  for (int use = 0; use < VX_LANE_USES; use++) {
    counts[use] = count_of(options, use);
    wanted += workers_wanted(&counts[use], devices->count);
  }
  lock_init(&workers->lock);
  pthread_cond_init(&workers->needed, NULL);
  workers->devices = devices;
  workers->queues = queues;
  workers->placement = placement;
  workers->helpers = helpers;
  workers->worker = calloc((size_t)wanted, sizeof *workers->worker);
  if (!workers->worker) return error_set(error, "workers: out of memory");
  for (int use = 0; use < VX_LANE_USES; use++)
    if (!start_workers(workers, use, &counts[use], options->backend == BACKEND_CUDA, error)) return false;
  return true;
}

void workers_join(struct workers *workers) {
  lock_acquire(&workers->lock);
  workers->stopping = true;
  pthread_cond_broadcast(&workers->needed);
  lock_release(&workers->lock);
  for (int64_t i = 0; i < workers->count; i++) pthread_join(workers->worker[i].thread, NULL);
  for (int64_t i = 0; i < workers->count; i++) queue_waiter_end(&workers->worker[i].waiter);
}

void workers_end(struct workers *workers) {
  for (int64_t i = 0; i < workers->count; i++) {
    close_lanes(&workers->worker[i]);
    lock_end(&workers->worker[i].busy);
  }
  free(workers->worker);
  pthread_cond_destroy(&workers->needed);
  lock_end(&workers->lock);
}
