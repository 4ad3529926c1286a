// See equal.h: a backend on one lane, and the comparison of two.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/equal.h"

atomic_int jobs_run, jobs_equal, jobs_refused;
atomic_llong bytes_compared;

static void *room(struct side *side, void **memory, size_t *bytes, size_t need) {
  if (need > *bytes || *memory == NULL) {
    side->backend->host_release(side->device, *memory, *bytes);
    *bytes = need + need / 4 + 4096;
    *memory = side->backend->host_alloc(side->device, *bytes);
    if (*memory == NULL) {
      fprintf(stderr, "%s: no memory for %zu bytes\n", side->backend->name, *bytes);
      exit(2);
    }
  }
  return *memory;
}

static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct side *side = ctx;
  side->layout = *layout;
  if (side->refuse_output || layout->bytes > (size_t)6 << 30) return vx_refuse(error, "refused by the test");
  *block = room(side, &side->output, &side->output_bytes, layout->bytes);
  places_give(side, layout);
  return VX_OK;
}

static bool is_stopped(void *ctx) {
  struct side *side = ctx;
  atomic_store(&side->asked, true);
  return atomic_load(&side->stop);
}

void side_open(struct side *side, const struct vx_backend *backend) {
  struct error error;
  memset(side, 0, sizeof *side);
  side->backend = backend;
  if (backend->open(0, &side->device, &error) != VX_OK ||
      backend->lane_open(side->device, VX_LANE_QUICK, &side->lane, &error) != VX_OK) {
    fprintf(stderr, "%s: %s\n", backend->name, error.text);
    exit(77);
  }
}

void side_close(struct side *side) {
  side->backend->host_release(side->device, side->input, side->input_bytes);
  side->backend->host_release(side->device, side->output, side->output_bytes);
  side->backend->lane_close(side->lane);
  side->backend->close(side->device);
}

static const struct vx_caller caller = {.output = give_output, .stopped = is_stopped};

static void set_sections(struct side *side, const struct scan *scan) {
  int64_t points = side->job.inputs[VX_POINTS].dims[0], begin = 0;
  bool counted = vx_operations[side->job.op].sectioned || side->job.chain;
  if (!counted || scan->num_clouds != 1 || scan->num_sections == 0) return;
  for (int32_t i = 0; i < scan->num_sections; i++) {
    int64_t end = points * scan->section_ends[i] / SECTION_PARTS;
    side->section_points[i] = (int32_t)(end - begin);
    begin = end;
  }
  side->job.sections = (struct vx_sections){scan->num_sections, side->section_points, side->section_counts};
}

void side_set_job(struct side *side, const struct vx_job *asked, const struct scan *scan) {
  side->job = job_over(asked, scan->points, scan->num_clouds, scan->counts);
  side->job.sample_counts = scan->samples;
  side->job.caller = &caller;
  side->job.ctx = side;
  side->job.row_counts = side->row_counts;
  side->job.report = &side->report;
  if (asked->deskew) side->deskew = *asked->deskew;
  if (asked->deskew) side->job.deskew = &side->deskew;
  set_sections(side, scan);
}

static size_t bytes_of(const struct vx_input *input) {
  size_t bytes = input->rank == 0 ? 0 : vx_dtype_size(input->dtype);
  for (int i = 0; i < input->rank; i++) bytes *= (size_t)input->dims[i];
  return bytes;
}

// Whether move_inputs moves the times of the points too.
static bool times_are_seen(const struct side *side) { return side->job.deskew && side->deskew.motion->count % 3 != 0; }

// Moves the job's inputs into memory that the device sees: the first to `offset`, the others behind it, with no more
// alignment than their types need.
static void move_inputs(struct side *side, size_t offset) {
  size_t times = times_are_seen(side) ? (size_t)side->job.inputs[VX_POINTS].dims[0] * sizeof(float) : 0;
  size_t bytes = offset + times + sizeof(float);
  for (int i = 0; i < VX_MAX_INPUTS; i++) bytes += bytes_of(&side->job.inputs[i]) + sizeof(float);
  unsigned char *to = (unsigned char *)room(side, &side->input, &side->input_bytes, bytes) + offset;
  for (int i = 0; i < VX_MAX_INPUTS; i++) {
    struct vx_input *input = &side->job.inputs[i];
    if (input->rank == 0) continue;
    to += -(uintptr_t)to % vx_dtype_size(input->dtype);
    memcpy(to, input->data, bytes_of(input));
    input->data = to;
    to += bytes_of(input);
  }
  if (times == 0) return;
  to += -(uintptr_t)to % sizeof(float);
  side->deskew.times = memcpy(to, side->deskew.times, times);
}

enum vx_status side_run(struct side *side, const struct vx_job *asked, const struct scan *scan, struct error *error) {
  if (side->output != NULL) {
    size_t poisoned = side->output_bytes < (size_t)64 << 20 ? side->output_bytes : (size_t)64 << 20;
    memset(side->output, 0xA5, poisoned);
  }
  memset(&side->layout, 0, sizeof side->layout);
  memset(side->row_counts, 0x5A, sizeof side->row_counts);
  memset(side->section_counts, 0x5A, sizeof side->section_counts);
  side_set_job(side, asked, scan);
  bool writes = side->job.deskew && side->backend == &vx_cpu_backend;  // the CPU de-skews the points in place
  if (!scan->unseen || writes) move_inputs(side, scan->offset);
  enum vx_status status = side->backend->run(side->lane, &side->job, error);
  if (status != VX_OK || side->job.output_ptrs == NULL || places_gather(side)) return status;
  return vx_fail(error, VX_FAILED, "bytes beside a tensor's place were written");
}

// ---- comparison -----------------------------------------------------------------------------------------------------

static bool gaps_are_zero(const struct side *side) {
  size_t end = 0;
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    if ((side->layout.tensors & BIT(t)) != 0) {
      for (; end < side->layout.offset[t]; end++)
        if (((unsigned char *)side->output)[end] != 0) return false;
      end = side->layout.offset[t] + side->layout.shape[t].bytes;
    }
  }
  return true;
}

static void describe_counts(const struct vx_counts *x, const struct vx_counts *y, char *text, size_t size) {
  int length = snprintf(text, size, "counts: voxels %lld %lld dropped %lld %lld", (long long)x->voxels_kept,
                        (long long)y->voxels_kept, (long long)x->voxels_dropped, (long long)y->voxels_dropped);
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT && (size_t)length < size; fate++) {
    long long one = x->fates[fate], other = y->fates[fate];
    if (one == other) continue;
    length += snprintf(text + length, size - (size_t)length, " %s %lld %lld", vx_fate_names[fate], one, other);
  }
}

// The counts of the sections must add up to the job's counts.
static bool adds_up(const struct vx_job *job) {
  int64_t received = 0;
  for (int32_t i = 0; i < job->sections.count; i++) received += job->sections.counts[i].received;
  bool good = job->sections.count == 0 || received == job->counts.received;
  for (enum vx_fate fate = 0; fate < VX_FATE_COUNT && job->sections.count > 0; fate++) {
    int64_t sum = 0;
    if (!(vx_fates_of_job(job) & VX_FATE_BIT(fate))) continue;
    for (int32_t i = 0; i < job->sections.count; i++) sum += job->sections.counts[i].fates[fate];
    good = good && sum == job->counts.fates[fate];
  }
  return good;
}

static bool same_sections(const struct side *a, const struct side *b, char *text, size_t size) {
  for (int32_t i = 0; i < a->job.sections.count; i++) {
    if (memcmp(&a->section_counts[i], &b->section_counts[i], sizeof *a->section_counts) != 0) {
      int length = snprintf(text, size, "section %d of %d: ", i, a->job.sections.count);
      describe_counts(&a->section_counts[i], &b->section_counts[i], text + length, size - (size_t)length);
      return false;
    }
  }
  snprintf(text, size, "the sections do not add up");
  return adds_up(&a->job);
}

// A time is negative if the device has not published its begin or its end.
static bool has_times(const struct vx_job *job) {
  for (int i = 0; i < VX_STAGE_COUNT; i++)
    if (job->stage_ns[i] < 0) return false;
  return true;
}

// Whether a float32 tensor is without the NaN that x86 processors make and GPUs do not. On an emulated GPU both sides
// would make it. No input has it.
static bool nans_are_canonical(const struct side *side, int tensor) {
  const unsigned char *bytes = (unsigned char *)side->output + side->layout.offset[tensor];
  if (side->layout.shape[tensor].dtype != VX_FLOAT32) return true;
  for (size_t at = 0; at < side->layout.shape[tensor].bytes; at += sizeof(uint32_t)) {
    uint32_t bits;
    memcpy(&bits, bytes + at, sizeof bits);
    if (bits == 0xFFC00000u) return false;
  }
  return true;
}

// If the results of two sides differ, returns false, and says in `text` where.
static bool same(const struct side *a, const struct side *b, int32_t num_clouds, char *text, size_t size) {
  if (memcmp(&a->job.counts, &b->job.counts, sizeof a->job.counts) != 0) {
    describe_counts(&a->job.counts, &b->job.counts, text, size);
    return false;
  }
  if (a->job.deskew && (a->deskew.moved != b->deskew.moved || a->deskew.clamped != b->deskew.clamped)) {
    snprintf(text, size, "moved %lld %lld clamped %lld %lld", (long long)a->deskew.moved, (long long)b->deskew.moved,
             (long long)a->deskew.clamped, (long long)b->deskew.clamped);
    return false;
  }
  if (!same_sections(a, b, text, size)) return false;
  if (!has_times(&b->job)) {
    snprintf(text, size, "a stage ends before it begins");
    return false;
  }
  if (a->job.chain &&
      (a->report.left != b->report.left || memcmp(a->report.fates, b->report.fates, sizeof a->report.fates) != 0)) {
    snprintf(text, size, "the report of the chain");
    return false;
  }
  if (memcmp(a->row_counts, b->row_counts, (size_t)num_clouds * sizeof(int32_t)) != 0 ||
      a->layout.bytes != b->layout.bytes) {
    snprintf(text, size, "row_counts or layout");
    return false;
  }
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    bool compared = (a->layout.tensors & ~VX_TRACK_TENSORS & BIT(t)) != 0;  // no backend writes the ids of tracks
    size_t bytes = compared ? a->layout.shape[t].bytes : 0;
    const unsigned char *x = (unsigned char *)a->output + a->layout.offset[t];
    const unsigned char *y = (unsigned char *)b->output + b->layout.offset[t];
    atomic_fetch_add(&bytes_compared, (long long)bytes);
    if (bytes != 0 && memcmp(x, y, bytes) != 0) {
      size_t at = 0;
      while (x[at] == y[at]) at++;
      snprintf(text, size, "%s at byte %zu of %zu", vx_tensors[t].name, at, bytes);
      return false;
    }
    if (bytes != 0 && !nans_are_canonical(a, t)) {
      snprintf(text, size, "%s has a NaN of the processor", vx_tensors[t].name);
      return false;
    }
  }
  snprintf(text, size, "gaps are not zero");
  return gaps_are_zero(b);
}

static void describe_job(const struct vx_job *job, char *text, size_t size) {
  const struct vx_voxelize *params = &job->params.voxelize;
  const struct vx_sampling *sampling = vx_sampling_of(job);
  int length = snprintf(text, size, "%s C %d in %d tensors %llx", vx_operations[job->op].name, job_columns(job),
                        (int)job->inputs[VX_POINTS].dtype, (unsigned long long)job->tensors);
  if (job->deskew)
    length += snprintf(text + length, size - (size_t)length, " moving along %d", job->deskew->motion->count);
  if (sampling != NULL) length += snprintf(text + length, size - (size_t)length, " start %d", sampling->start);
  if (job->op != VX_VOXELIZE) return;
  snprintf(text + length, size - (size_t)length, " P %d by %d M %d by %d out %d order %d fill %d filter %d %d %d",
           params->max_points_per_voxel, (int)params->choice.points_by, params->max_voxels,
           (int)params->choice.voxels_by, (int)params->feature_dtype, (int)params->order, (int)params->fill,
           (int)params->block_filter.enabled, params->block_filter.factor, params->block_filter.size);
}

void compare(struct side sides[2], const struct vx_job *asked, const struct scan *scan, const char *name) {
  struct error errors[2] = {0};
  enum vx_status cpu = side_run(&sides[0], asked, scan, &errors[0]);
  for (int again = 0; again < 2; again++) {
    char reason[256], text[256];
    sides[1].placing = again == 1;
    enum vx_status cuda = side_run(&sides[1], asked, scan, &errors[1]);
    bool equal = cpu == cuda;
    if (!equal)
      snprintf(reason, sizeof reason, "%.200s", errors[1].text);
    else if (cpu == VX_OK)
      equal = same(&sides[0], &sides[1], scan->num_clouds, reason, sizeof reason);
    else
      atomic_fetch_add(&jobs_refused, 1);
    atomic_fetch_add(&jobs_run, 1);
    atomic_fetch_add(&jobs_equal, equal);
    if (equal) continue;
    describe_job(asked, text, sizeof text);
    printf("UNEQUAL %s %s: status %d %d: %s (N %lld B %d, %d samples of the first cloud's %d, %s)\n", name, scan->name,
           (int)cpu, (int)cuda, reason, (long long)scan->num_points, scan->num_clouds, scan->samples[0],
           scan->counts[0], text);
    if (cuda == VX_DEVICE_LOST) {
      printf("device lost: stopping\n");
      exit(1);
    }
  }
}
