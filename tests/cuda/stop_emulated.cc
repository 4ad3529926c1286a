// cuda-stop-emulated: on the emulated GPU, the kernels of long steps stop when the host writes lane->commands->stop.
// The test writes it before the job begins. The backend's host code does not notice, so the job succeeds, but keeps
// points that a whole search would drop. One thread. Exit code 1 if a step keeps other points.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/backends.h"
#include "kernels/cuda/base/host.cuh"

enum { COLUMNS = 3 };

static struct vx_device *device;
static struct vx_lane *lane;
static struct vx_chain_report report;

static void die(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static int64_t left_by(const struct vx_step &step, const std::vector<float> &points, bool stops) {
  int32_t count = (int32_t)(points.size() / COLUMNS), row_count;
  struct vx_chain chain = {};
  struct vx_job job = {};
  struct error error;
  chain.count = 1;
  chain.steps[0] = step;
  job.op = VX_POINTS_OP;
  job.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, count, COLUMNS, points.data());
  job.num_clouds = 1;
  job.point_counts = &count;
  job.row_counts = &row_count;
  job.chain = &chain;
  job.report = &report;
  if (stops) lane->commands->stop = cuda_next_sequence(lane);
  if (vx_cuda_backend.run(lane, &job, &error) != VX_OK) die(error.text);
  return report.left;
}

static bool looks(const char *name, const struct vx_step &step, const std::vector<float> &points, int64_t left) {
  int64_t before = left_by(step, points, false), stopped = left_by(step, points, true);
  int64_t after = left_by(step, points, false), all = (int64_t)points.size() / COLUMNS;
  bool right = before == left && stopped == all && after == left;
  if (!right)
    fprintf(stderr, "%s: left %lld, stopped %lld, then %lld of %lld points\n", name, (long long)before,
            (long long)stopped, (long long)after, (long long)all);
  return right;
}

int main() {
  struct error error;
  if (vx_cuda_backend.open(0, &device, &error) != VX_OK) die(error.text);
  if (vx_cuda_backend.lane_open(device, VX_LANE_QUICK, &lane, &error) != VX_OK) die(error.text);
  // One point is two cells from all others. A search for its neighbours visits them all.
  std::vector<float> points(COLUMNS * 5000, 0.0f);
  points[0] = 1.2f;
  struct vx_step radius = {}, statistical = {};
  radius.type = VX_STEP_RADIUS_OUTLIER;
  radius.params.radius_outlier.radius = 1;
  radius.params.radius_outlier.min_neighbors = 1;
  statistical.type = VX_STEP_STATISTICAL_OUTLIER;
  statistical.params.statistical_outlier.mean_k = 2;
  statistical.params.statistical_outlier.std_mul = 1;
  bool right = looks("radius_outlier", radius, points, 4999);
  right = looks("statistical_outlier", statistical, points, 4999) && right;
  vx_cuda_backend.lane_close(lane);
  vx_cuda_backend.close(device);
  return right ? 0 : 1;
}
