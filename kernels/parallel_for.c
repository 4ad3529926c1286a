// See parallel_for.h.
#include "kernels/parallel_for.h"

enum { TASK_ROWS = 1 << 10 };  // rows that each task counts for `stop` in addition to those of its passes

static enum vx_status run_task(void *ctx, const struct vx_worker *worker, int32_t task, struct error *error) {
  const struct vx_tasks *tasks = ctx;
  return vx_stopped(worker->stop, TASK_ROWS) ? vx_stop_status(worker->stop, error)
                                             : tasks->run(tasks->ctx, worker, task, error);
}

static enum vx_status do_in_turn(const struct vx_worker *own, const struct vx_tasks *tasks, struct error *error) {
  enum vx_status status = VX_OK;
  for (int32_t task = 0; task < tasks->count && status == VX_OK; task++)
    status = tasks->run(tasks->ctx, own, task, error);
  return status;
}

enum vx_status vx_parallel_for(const struct vx_job *job, struct vx_lane *lane, const struct vx_tasks *tasks,
                               struct error *error) {
  const struct vx_caller *caller = job->caller;
  const struct vx_worker own = {lane, job->stop};
  struct vx_tasks given = *tasks;
  const struct vx_tasks asking = {tasks->count, run_task, &given};
  bool alone = tasks->count < 2 || !caller || !caller->parallel_for;
  return alone ? do_in_turn(&own, &asking, error) : caller->parallel_for(job->ctx, &own, &asking, error);
}
