// See jobs.h.
#include "server/jobs/jobs.h"

#include <string.h>

#include "server/base/base.h"
#include "server/jobs/held.h"
#include "server/jobs/run.h"
#include "server/jobs/sweeps.h"

static const char too_late[] = "the deadline passed before the job began";

static void refuse(struct job *list, enum error_kind kind, const char *what) {
  while (list) {
    struct job *next = list->next;
    (void)job_refuse_after(list, kind, what);
    job_release(list);
    list->spec.done(list);
    list = next;
  }
}

// Takes the lock of each queue even if no job waits there: a thread that has just taken the last job may still hold the
// lock. That thread releases the job's slot before the lock, so the slot is free when this function returns.
static void refuse_waiting(struct jobs *jobs, struct job_choice *choice, enum error_kind kind, const char *what) {
  refuse(sweeps_take_waiting(&jobs->streams, choice), kind, what);
  for (int use = 0; use < VX_LANE_USES; use++) refuse(queue_take(&jobs->queues[use], choice), kind, what);
}

static bool is_stale(struct job *job, struct job_choice *choice) { return job_is_stale(job, choice->now_ns); }

// ---- the newest of a name -------------------------------------------------------------------------------------------

// Releases the job's queue slot with the lock held, so that a newer job finds it free. A superseded job with a stream
// stays where it waits until a worker gives its sweep to the stream.
static bool is_superseded(struct job *job, struct job_choice *choice) {
  if (job->spared || job->client != choice->client || strcmp(job->asked.latest, choice->latest) != 0) return false;
  if (job->queued_ns > choice->newest_ns) choice->newest_ns = job->queued_ns;
  if (job->queued_ns >= choice->before_ns) return false;
  choice->count++;
  if (sweeps_are_joined(job)) job->spared = ERROR_SUPERSEDED;
  job_release_queue_slot(job);
  return !job->spared;
}

static struct job_choice choice_of(const struct job *job, int64_t before_ns) {
  struct job_choice choice = {.takes = is_superseded, .client = job->client, .before_ns = before_ns};
  memcpy(choice.latest, job->asked.latest, sizeof choice.latest);
  return choice;
}

// Refuses all waiting jobs with this `latest` but the newest. A thread calls it after its own job has begun to wait. So
// if two jobs come at once, the second call sees both.
static bool supersede_older(struct jobs *jobs, struct job_choice *choice) {
  bool missed = choice->latest[0];
  while (missed) {
    refuse_waiting(jobs, choice, ERROR_SUPERSEDED, "a newer request with the same latest came");
    missed = choice->newest_ns > choice->before_ns;
    choice->before_ns = choice->newest_ns;
  }
  return choice->count > 0;
}

// A job that is not submitted yet is newer than all waiting jobs.
static bool supersede(struct jobs *jobs, const struct job *job) {
  struct job_choice choice = choice_of(job, job->queued_ns ? job->queued_ns : clock_ns());
  return supersede_older(jobs, &choice);
}

// Makes the choice first, because the job may end as soon as it is in the queue.
static void requeue(struct jobs *jobs, struct job *job) {
  struct job_choice choice = choice_of(job, job->queued_ns);
  job->next = NULL;
  if (queue_push(&jobs->queues[job_lane_use(job)], job))
    (void)supersede_older(jobs, &choice);
  else
    refuse(job, ERROR_DRAINING, DRAIN_IS_OVER);
}

// ---- the start ------------------------------------------------------------------------------------------------------

static void gpu_changed(struct jobs *jobs, bool lost) {
  if (lost) jobs->gpu_lost(jobs->gpu_lost_cls);
  workers_wake(&jobs->workers);
}

bool jobs_start(struct jobs *jobs, const struct options *options, struct clients *clients, struct counters *counters,
                struct watcher *watcher, void (*gpu_lost)(void *cls), void *gpu_lost_cls, struct error *error) {
  if (!devices_open(&jobs->devices, options, error)) return false;
  jobs->gpu_lost = gpu_lost;
  jobs->gpu_lost_cls = gpu_lost_cls;
  jobs->services = (struct job_services){.uploads = &jobs->uploads,
                                         .devices = &jobs->devices,
                                         .buffers = &jobs->buffers,
                                         .coders = &jobs->coders,
                                         .helpers = &jobs->helpers,
                                         .regions = &jobs->regions,
                                         .streams = &jobs->streams,
                                         .clients = clients,
                                         .counters = counters,
                                         .max_body_bytes = (size_t)options->max_body_bytes,
                                         .max_response_bytes = (size_t)options->max_response_bytes,
                                         .jobs = jobs,
                                         .gpu_changed = gpu_changed,
                                         .requeue = requeue,
                                         .supersede = supersede};
  lock_init(&jobs->latest);
  jobs->uploads.watcher = watcher;
  buffers_init(&jobs->buffers, &jobs->devices, (size_t)options->memory_budget_bytes, clients);
  coders_init(&jobs->coders);
  streams_init(&jobs->streams, options, clients, buffer_release);
  for (enum vx_lane_use use = 0; use < VX_LANE_USES; use++) queue_init(&jobs->queues[use], use);
  struct placement *placement = jobs->devices.count > 0 ? &jobs->placement : NULL;
  if (placement) placement_init(placement, &jobs->devices.working, jobs->workers.running, options->workers);
  jobs->queues[VX_LANE_LONG].placement = placement;
  helpers_init(&jobs->helpers, &jobs->devices, jobs->queues, jobs->workers.running, options->workers);
  return regions_init(&jobs->regions, options, &jobs->devices, clients, error) &&
         small_start(&jobs->small, options, &jobs->devices, error) &&
         workers_start(&jobs->workers, options, &jobs->devices, jobs->queues, placement, &jobs->helpers, error);
}

// Whether a job with `latest` may wait. It needs no slot if a newer job waits, because it will be superseded at once.
static bool acquire_slot(struct jobs *jobs, struct job *job, struct job_choice choice) {
  if (job_acquire_queue_slot(job)) return true;
  (void)supersede_older(jobs, &choice);
  return choice.newest_ns > job->queued_ns;
}

// A job of a stream waits in the stream for its turn. A refusal by the stream is ignored here: the worker gets it
// again.
static bool submit(struct jobs *jobs, struct job *job) {
  job->result.error.kind = ERROR_NONE;
  if (sweeps_are_joined(job) && sweeps_begin(job, true) == STREAM_WAITS) return true;
  job->result.error.kind = ERROR_NONE;
  if (queue_push(&jobs->queues[job_lane_use(job)], job)) return true;
  if (job->stream) sweeps_end(job);
  return error_refuse(&job->result.error, ERROR_DRAINING, NULL, "the server is stopping; try another one");
}

// Makes the choice first, because the job may end as soon as it is submitted.
bool jobs_submit(struct jobs *jobs, struct job *job) {
  if (!job->asked.latest[0]) return submit(jobs, job);
  struct job_choice choice = choice_of(job, job->queued_ns);
  lock_acquire(&jobs->latest);
  bool submitted = acquire_slot(jobs, job, choice) && submit(jobs, job);
  if (submitted) (void)supersede_older(jobs, &choice);
  lock_release(&jobs->latest);
  return submitted;
}

static void end_pauses(struct jobs *jobs, int64_t now_ns) {
  struct devices *devices = &jobs->devices;
  for (int i = 0; i < devices->count; i++)
    if (device_state(&devices->gpu[i]) == DEVICE_PAUSED && device_is_open(devices, &devices->gpu[i], now_ns))
      workers_wake(&jobs->workers);
}

// Whether a job waits in a queue, or may wait in a stream.
static bool may_wait(const struct jobs *jobs) {
  bool may = atomic_load(&jobs->streams.count) > 0;
  for (int use = 0; use < VX_LANE_USES; use++) may = may || atomic_load(&jobs->queues[use].depth) > 0;
  return may;
}

void jobs_tick(struct jobs *jobs, int64_t now_ns) {
  struct streams *streams = &jobs->streams;
  if (atomic_load(&jobs->regions.registered) > 0) regions_tick(&jobs->regions, now_ns);
  if (atomic_load(&streams->count) > 0) streams_tick(streams, now_ns);
  if (atomic_load(&streams->events.count) > 0) events_tick(&streams->events, now_ns);
  if (may_wait(jobs))
    refuse_waiting(jobs, &(struct job_choice){.takes = is_stale, .now_ns = now_ns}, ERROR_DEADLINE, too_late);
  if (jobs->devices.count > 0) {
    end_pauses(jobs, now_ns);
    workers_tick(&jobs->workers, now_ns);
  }
  for (enum vx_lane_use use = 0; use < VX_LANE_USES; use++)
    queue_tick(&jobs->queues[use], workers_steady(&jobs->workers, use), now_ns);
}

int64_t jobs_workers(struct jobs *jobs, enum vx_lane_use use) {
  int64_t steady = workers_steady(&jobs->workers, use), beside = workers_at_work(&jobs->workers, use) - steady;
  int64_t running = beside > 0 ? atomic_load(&jobs->placement.at_work[TARGET_CPU]) : 0;
  return steady + (running < beside ? running : beside);
}

int64_t jobs_memory_wanted(struct jobs *jobs) {
  size_t in_use = jobs->buffers.in_use, budget = jobs->buffers.budget;
  bool short_of_it = atomic_exchange(&jobs->uploads.refused, false) || in_use > budget / 4 * 3;
  return short_of_it && in_use > budget / 2 ? (int64_t)(in_use - budget / 2) : 0;
}

void jobs_hurry(struct jobs *jobs) {
  refuse_waiting(jobs, &(struct job_choice){.takes = NULL}, ERROR_DRAINING, DRAIN_IS_OVER);
  atomic_store(&jobs->services.hurry, true);
}

void jobs_stop(struct jobs *jobs) {
  for (int use = 0; use < VX_LANE_USES; use++) queue_stop(&jobs->queues[use]);
}

void jobs_join(struct jobs *jobs) { workers_join(&jobs->workers); }

void jobs_end(struct jobs *jobs) {
  workers_end(&jobs->workers);
  lock_end(&jobs->latest);
  small_end(&jobs->small);
  helpers_end(&jobs->helpers);
  for (int use = 0; use < VX_LANE_USES; use++) queue_end(&jobs->queues[use]);
  streams_end(&jobs->streams);
  regions_end(&jobs->regions);
  coders_end(&jobs->coders);
  buffers_end(&jobs->buffers);
  devices_close(&jobs->devices);
}
