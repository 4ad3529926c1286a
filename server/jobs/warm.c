// See warm.h.
#include "server/jobs/warm.h"

#include "kernels/decoder.h"
#include "server/base/base.h"
#include "server/base/log.h"

struct warming {
  struct jobs *jobs;
  struct detector *detector;
  struct worker *worker;
  size_t scratch_bytes;
  bool serves;         // requests may run the network meanwhile
  bool alone;          // no detection of a request ran when this run began or when it ended
  bool crowded;        // the scratch did not fit in the budget, but fits when no one else holds memory of the budget
  bool ran;            // on at least one lane
  struct error fault;  // of a run on the CPU; "": none
};

static bool allow_scratch(void *ctx, size_t bytes) {
  struct warming *warming = ctx;
  struct buffers *buffers = &warming->jobs->buffers;
  struct shortage shortage;
  if (!budget_acquire(buffers, NULL, bytes, 0, &shortage)) {
    warming->crowded = bytes <= buffers->budget - warming->scratch_bytes;
    return false;
  }
  warming->scratch_bytes += bytes;
  return true;
}

static const struct vx_caller caller = {.scratch = allow_scratch};

static bool is_alone(const struct warming *warming) {
  return !warming->serves || atomic_load(&warming->jobs->workers.running[VX_LANE_DETECT]) == 0;
}

// A job over one point in the middle of the grid. It has no tensors, so it has no output.
static enum vx_status run_once(struct warming *warming, const struct device *device, struct vx_lane *lane,
                               struct vx_session *session, struct error *error) {
  static const int32_t one = 1;
  const struct vx_detector *core = detector_core(warming->detector);
  _Alignas(VX_TENSOR_ALIGNMENT) float point[VX_MAX_FEATURES] = {0};
  int32_t rows;
  for (int axis = 0; axis < 3; axis++)
    point[axis] = core->voxelize.range_min[axis] / 2 + core->voxelize.range_max[axis] / 2;
  struct vx_job job = {
      .op = VX_DETECT,
      .params.detect = vx_detect_of(core),
      .inputs = {vx_points_of(VX_FLOAT32, 1, (int32_t)detector_columns(warming->detector), point)},
      .num_clouds = 1,
      .point_counts = &one,
      .caller = &caller,
      .ctx = warming,
      .row_counts = &rows,
  };
  job.params.detect.session = session;
  warming->scratch_bytes = 0;
  warming->crowded = false;
  lock_acquire(&warming->worker->busy);
  warming->alone = is_alone(warming);
  enum vx_status status = device->backend->run(lane, &job, error);
  warming->alone = warming->alone && is_alone(warming);
  lock_release(&warming->worker->busy);
  budget_release(&warming->jobs->buffers, NULL, warming->scratch_bytes);
  return status;
}

static void report(const struct warming *warming, const struct device *device, int64_t began_ns, const char *failure) {
  struct log_line line;
  log_begin(&line, failure ? LOG_WARNING : LOG_INFO, failure ? "a network does not run" : "a network is warm");
  log_string(&line, "model", detector_name(warming->detector));
  log_string(&line, "device", device->description.name);
  log_integer(&line, "index", device->index);
  log_milliseconds(&line, "ms", clock_ns() - began_ns);
  if (failure) log_string(&line, "error", failure);
  if (failure && device != &warming->jobs->devices.cpu) log_string(&line, "effect", "it runs on the CPU");
  log_end(&line);
}

static void mark_lost(struct jobs *jobs, struct device *gpu, const char *reason) {
  if (device_mark_lost(&jobs->devices, gpu, reason)) jobs->services.gpu_changed(jobs, true);
}

// False: the network does not run on the worker's GPU, or the worker has none.
static bool warm_on_gpu(struct warming *warming, const struct options *options) {
  const struct lanes *lanes = &warming->worker->lanes;
  struct vx_device_stream stream = {.tf32 = options->network_tf32,
                                    .memory_bytes = (size_t)options->network_memory_bytes};
  struct error error = {0};
  int64_t began_ns = clock_ns();
  if (!lanes->on_gpu || !lanes->gpu->backend->device_stream || device_state(lanes->gpu) == DEVICE_LOST) return false;
  struct sessions *sessions = detector_sessions(warming->detector);
  lanes->gpu->backend->device_stream(lanes->on_gpu, &stream);
  enum vx_status status = detector_session(warming->detector, lanes->on_gpu, &stream, &error);
  if (status == VX_OK)
    status = run_once(warming, lanes->gpu, lanes->on_gpu, sessions_on(sessions, lanes->on_gpu), &error);
  report(warming, lanes->gpu, began_ns, status == VX_OK ? NULL : error.text);
  if (status == VX_FAILED) sessions_vacate(sessions, lanes->on_gpu, error.text);
  if (status == VX_DEVICE_LOST) mark_lost(warming->jobs, lanes->gpu, error.text);
  return status == VX_OK;
}

static void warm_on_cpu(struct warming *warming) {
  const struct device *cpu = &warming->jobs->devices.cpu;
  struct error error = {0};
  int64_t began_ns = clock_ns();
  enum vx_status status = run_once(warming, cpu, warming->worker->lanes.on_cpu, NULL, &error);
  report(warming, cpu, began_ns, status == VX_OK ? NULL : error.text);
  if (status == VX_OK) warming->ran = true;
  // A network that lacks memory for one cloud, although it is alone, will always lack it.
  if (status == VX_FAILED || (status == VX_OUT_OF_MEMORY && !warming->crowded && warming->alone))
    warming->fault = error;
}

// Workers that stand by until the last GPU is lost are not warmed.
static bool takes_detections(const struct jobs *jobs, const struct worker *worker) {
  return worker->use == VX_LANE_DETECT && (worker->lanes.gpu || jobs->devices.count == 0);
}

// Detectors kept instead of newer files are warm.
static bool is_cold(const struct detectors *detectors, size_t index) {
  return !detector_fault(detectors_at(detectors, index)) && !detectors_refusal(detectors, index);
}

static void warm_detector(struct warming *warming, const struct options *options, struct warm_progress *progress,
                          const atomic_int *phase) {
  struct workers *workers = &warming->jobs->workers;
  for (int64_t i = 0; i < workers->count && atomic_load(phase) <= PHASE_READY; i++) {
    warming->worker = &workers->worker[i];
    if (!takes_detections(warming->jobs, warming->worker)) continue;
    if (warm_on_gpu(warming, options))
      warming->ran = true;
    else
      warm_on_cpu(warming);
    atomic_fetch_add(&progress->done, 1);
  }
}

static void judge(const struct warming *warming, struct detectors *detectors, const struct detectors *before,
                  size_t index) {
  struct error fault = warming->fault;
  if (warming->ran || !fault.text[0]) return;
  error_prefix(&fault, "the network does not run: ");
  detectors_refuse(detectors, before, index, fault.text);
}

void warm_up(struct jobs *jobs, const struct options *options, struct detectors *detectors,
             const struct detectors *before, const atomic_int *phase, struct warm_progress *progress) {
  long long lanes = 0, cold = 0;
  for (int64_t i = 0; i < jobs->workers.count; i++) lanes += takes_detections(jobs, &jobs->workers.worker[i]);
  for (size_t i = 0; i < detectors_count(detectors); i++) cold += is_cold(detectors, i);
  atomic_store(&progress->done, 0);
  atomic_store(&progress->all, lanes * cold);
  for (size_t i = 0; i < detectors_count(detectors); i++) {
    struct warming warming = {.jobs = jobs, .detector = detectors_at(detectors, i), .serves = !before};
    if (!is_cold(detectors, i)) continue;
    warm_detector(&warming, options, progress, phase);
    judge(&warming, detectors, before, i);
  }
}

// ---- a sampling -----------------------------------------------------------------------------------------------------

// Enough runs for one without disturbance, and enough time for a GPU to raise its clock rate.
enum { MEASURE_RUNS = 5 };
#define MEASURE_NS (50 * NS_PER_MS)

struct sampling {
  int32_t samples[PLACEMENT_SAMPLES];
  float rows[PLACEMENT_POINTS][3];
};

static void make_rows(struct sampling *sampling) {
  static const float size[3] = {100, 100, 4};
  uint32_t noise = 1;
  for (int i = 0; i < PLACEMENT_POINTS; i++)
    for (int axis = 0; axis < 3; axis++) {
      noise = noise * 1664525 + 1013904223;
      sampling->rows[i][axis] = size[axis] * (float)(noise >> 8) / (1 << 24);
    }
}

static enum vx_status output_samples(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct sampling *sampling = ctx;
  *block = sampling->samples;
  return layout->bytes <= sizeof sampling->samples ? VX_OK : vx_refuse(error, "%zu bytes of samples", layout->bytes);
}

static enum vx_status sample(struct sampling *sampling, const struct device *device, struct vx_lane *lane,
                             struct error *error) {
  static const struct vx_caller caller = {.output = output_samples};
  static const int32_t points = PLACEMENT_POINTS, samples = PLACEMENT_SAMPLES;
  int32_t rows;
  struct vx_job job = {
      .op = VX_FPS,
      .params.fps.sampling = {.enabled = true, .max_work = INT64_MAX},
      .inputs = {vx_points_of(VX_FLOAT32, points, 3, sampling->rows)},
      .tensors = VX_TENSOR_BIT(VX_SAMPLED_INDICES),
      .num_clouds = 1,
      .point_counts = &points,
      .sample_counts = &samples,
      .caller = &caller,
      .ctx = sampling,
      .row_counts = &rows,
  };
  return device->backend->run(lane, &job, error);
}

// The first run, which may load kernels, does not count.
static enum vx_status measure(const struct device *device, struct vx_lane *lane, int64_t *least_ns,
                              struct error *error) {
  struct sampling *sampling = device->backend->host_alloc(device->handle, sizeof *sampling);
  if (!sampling) return VX_OUT_OF_MEMORY;
  make_rows(sampling);
  enum vx_status status = sample(sampling, device, lane, error);
  int64_t first_ns = clock_ns(), began_ns = first_ns;
  *least_ns = INT64_MAX;
  for (int runs = 0; status == VX_OK && (runs < MEASURE_RUNS || began_ns - first_ns < MEASURE_NS); runs++) {
    status = sample(sampling, device, lane, error);
    int64_t ended_ns = clock_ns();
    if (ended_ns - began_ns < *least_ns) *least_ns = ended_ns - began_ns;
    began_ns = ended_ns;
  }
  device->backend->host_release(device->handle, sampling, sizeof *sampling);
  return status;
}

static void measure_target(struct jobs *jobs, enum target target, struct worker *worker, struct device *device,
                           struct vx_lane *lane) {
  struct error error = {.text = "out of memory"};
  int64_t least_ns;
  lock_acquire(&worker->busy);
  enum vx_status status = measure(device, lane, &least_ns, &error);
  lock_release(&worker->busy);
  bool good = status == VX_OK;
  if (good) atomic_store(&jobs->placement.measured_ns[target], least_ns);
  if (status == VX_DEVICE_LOST) mark_lost(jobs, device, error.text);
  struct log_line line;
  log_begin(&line, good ? LOG_INFO : LOG_WARNING, good ? "a sampling was measured" : "a sampling was not measured");
  log_string(&line, "device", device->description.name);
  if (good) log_milliseconds(&line, "ms", least_ns);
  if (!good) log_string(&line, "error", error.text);
  log_end(&line);
}

// NULL: there is none.
static struct worker *find_worker(struct workers *workers, enum target target) {
  for (int64_t i = 0; i < workers->count; i++) {
    struct worker *worker = &workers->worker[i];
    bool on_gpu =
        worker->use == VX_LANE_LONG && worker->lanes.on_gpu && device_state(worker->lanes.gpu) == DEVICE_WORKING;
    if (target == TARGET_GPU ? on_gpu : worker->beside) return worker;
  }
  return NULL;
}

void warm_placement(struct jobs *jobs) {
  struct worker *on_gpu = find_worker(&jobs->workers, TARGET_GPU), *on_cpu = find_worker(&jobs->workers, TARGET_CPU);
  if (!on_gpu || !on_cpu) return;
  measure_target(jobs, TARGET_GPU, on_gpu, on_gpu->lanes.gpu, on_gpu->lanes.on_gpu);
  measure_target(jobs, TARGET_CPU, on_cpu, &jobs->devices.cpu, on_cpu->lanes.on_cpu);
}
