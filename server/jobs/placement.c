// See placement.h.
#include "server/jobs/placement.h"

#include <string.h>

#include "server/base/base.h"

enum { MOST_POINTS = (1 << 18) - 1 };  // their scratch usually fits VX_SCRATCH_KEPT
static const int64_t longest_on_cpu_ns = 100 * NS_PER_MS;

// In nanoseconds. Measured with scans of KITTI on an H200 and on one thread of a Xeon
// (docs/contribute/measurements.md).
static const struct {
  double run, point, sample, pair;
} constants[TARGETS] = {
    [TARGET_GPU] = {.run = 98000, .point = 4.5, .sample = 528},
    [TARGET_CPU] = {.point = 24, .sample = 150, .pair = 0.0024},
};

static double by_constants(int target, int64_t points, int64_t samples) {
  double n = (double)points, k = (double)samples;
  return constants[target].run + constants[target].point * n + constants[target].sample * k +
         constants[target].pair * n * k;
}

void placement_init(struct placement *placement, const atomic_int *gpus, const atomic_llong running[VX_LANE_USES],
                    int64_t processors) {
  memset(placement, 0, sizeof *placement);
  placement->gpus = gpus;
  placement->running = running;
  placement->processors = processors;
  for (int target = 0; target < TARGETS; target++)
    atomic_store(&placement->measured_ns[target], (int64_t)by_constants(target, PLACEMENT_POINTS, PLACEMENT_SAMPLES));
}

// ---- expected times -------------------------------------------------------------------------------------------------

struct placement_cost placement_cost(const struct placement *placement, bool single, int64_t points, int64_t samples) {
  struct placement_cost cost;
  for (int target = 0; target < TARGETS; target++) {
    double measured_ns = (double)atomic_load(&placement->measured_ns[target]);
    cost.ns[target] = (int64_t)(measured_ns * by_constants(target, points, samples) /
                                by_constants(target, PLACEMENT_POINTS, PLACEMENT_SAMPLES));
  }
  if (!single || points > MOST_POINTS || cost.ns[TARGET_CPU] > longest_on_cpu_ns) cost.ns[TARGET_CPU] = INT64_MAX;
  return cost;
}

bool placement_has_room(const struct placement *placement) {
  int64_t on_cpu = atomic_load(&placement->at_work[TARGET_CPU]), used = (atomic_load(&placement->used) + 999) / 1000;
  int64_t others = atomic_load(&placement->at_work[TARGET_GPU]) + atomic_load(&placement->running[VX_LANE_QUICK]) +
                   atomic_load(&placement->running[VX_LANE_DETECT]);
  return (others > used ? others : used) + on_cpu + 1 < placement->processors;
}

void placement_note_used(struct placement *placement, int64_t used) {
  int64_t before = atomic_load(&placement->used) * 3 / 4;
  atomic_store(&placement->used, used > before ? used : before);
}

// Estimates how long the busy GPUs need for their jobs and for the work ahead of the client's last waiting job. If the
// CPU would end a job before the GPUs end this last job, all the client's jobs end sooner if the CPU takes one.
static int64_t wait_ns(const struct placement *placement, const struct placement_cost *cost, double ahead) {
  int64_t lanes = atomic_load(&placement->at_work[TARGET_GPU]);
  int64_t ahead_ns = (int64_t)(ahead * (double)placement->waiting_ns) - cost->ns[TARGET_GPU];
  return lanes == 0 ? 0 : (placement->running_ns + (ahead_ns > 0 ? ahead_ns : 0)) / lanes;
}

enum target placement_choose(const struct placement *placement, const struct placement_cost *cost, double ahead,
                             const bool is_free[TARGETS]) {
  int64_t gpu_ns = cost->ns[TARGET_GPU] + (is_free[TARGET_GPU] ? 0 : wait_ns(placement, cost, ahead));
  if (is_free[TARGET_CPU] && cost->ns[TARGET_CPU] < gpu_ns && placement_has_room(placement)) return TARGET_CPU;
  return is_free[TARGET_GPU] ? TARGET_GPU : TARGETS;
}

// ---- jobs -----------------------------------------------------------------------------------------------------------

void placement_wait_begin(struct placement *placement, const struct placement_cost *cost) {
  placement->waiting_ns += cost->ns[TARGET_GPU];
}

void placement_wait_end(struct placement *placement, const struct placement_cost *cost) {
  placement->waiting_ns -= cost->ns[TARGET_GPU];
}

void placement_begin(struct placement *placement, enum target target, const struct placement_cost *cost) {
  atomic_fetch_add(&placement->at_work[target], 1);
  if (target == TARGET_GPU) placement->running_ns += cost->ns[TARGET_GPU];
}

void placement_end(struct placement *placement, enum target target, const struct placement_cost *cost) {
  atomic_fetch_sub(&placement->at_work[target], 1);
  if (target == TARGET_GPU) placement->running_ns -= cost->ns[TARGET_GPU];
}
