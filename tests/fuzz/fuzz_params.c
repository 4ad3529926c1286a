// Fuzzes the query of both endpoints: any list of names and values must give either a request whose values keep their
// bounds, or a problem with a reason. One thread; the presets are loaded once.
//
// The input is a query string without percent-encoding: name=value&name=value.
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/params/params.h"
#include "api/presets.h"
#include "api/query.h"
#include "tests/fuzz/split_query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_grid(const struct job_request *request) {
  const struct vx_params *job = &request->job;
  for (int a = 0; a < 3; a++) {
    assert(isfinite(job->voxel_size[a]) && job->voxel_size[a] > 0);
    assert(isfinite(job->range_min[a]) && isfinite(job->range_max[a]) && job->range_min[a] < job->range_max[a]);
  }
  struct vx_grid grid;
  struct vx_error error;
  assert(vx_grid_of(job, request->num_clouds ? request->num_clouds : 1, &grid, &error) == VX_OK);
  for (int a = 0; a < 3; a++) assert(grid.cells[a] > 0);
}

// What is sampled follows from the endpoint and from whether a number was given; so do the tensors.
static void check_sampling(const struct job_request *request) {
  const struct vx_sampling_params *sampling = &request->job.sampling;
  bool sampled = request->num_sample_counts > 0;
  enum vx_sampling from = request->kind == JOB_FPS ? VX_SAMPLE_POINTS : VX_SAMPLE_VOXELS;
  assert(sampling->from == (sampled ? from : VX_SAMPLE_NONE));
  assert(request->num_sample_counts <= VX_MAX_CLOUDS && sampling->start >= 0);
  assert(sampling->stacked == (request->num_sample_counts > 1));
  if (request->kind == JOB_FPS) assert(sampled && !(request->job.tensors & VX_VOXEL_TENSORS));
  if (!sampled) assert(!(request->job.tensors & VX_SAMPLED_TENSORS));
  for (int32_t i = 0; i < request->num_sample_counts; i++) assert(request->sample_counts[i] >= 0);
}

static void check_request(const struct job_request *request) {
  const struct vx_params *job = &request->job;
  assert(job->num_features >= VX_MIN_FEATURES && job->num_features <= VX_MAX_FEATURES);
  assert(request->num_clouds >= 0 && request->num_clouds <= VX_MAX_CLOUDS);
  assert(request->timeout_ms >= 0);
  assert(job->tensors && job->tensors < VX_TENSOR_BIT(VX_TENSOR_COUNT));
  check_sampling(request);
  if (request->kind == JOB_FPS) return;
  assert(job->max_points_per_voxel >= 0 && job->max_points_per_voxel <= VX_MAX_POINTS_PER_VOXEL);
  assert(job->max_voxels >= 1 && job->max_voxels <= VX_MAX_VOXELS);
  check_grid(request);
}

// The clouds have all rows, and of a request for points as many samples as they can have.
static void check_split(const struct job_request *request, int64_t rows) {
  for (int32_t i = 0; i < request->num_clouds; i++) {
    rows -= request->point_counts[i];
    if (request->kind == JOB_FPS) assert(request->sample_counts[i] <= request->point_counts[i]);
  }
  assert(rows == 0 && request->num_clouds > 0);
}

// What is written back reads as the same request: measured first, then written into exactly that room.
static void check_rendering(const struct job_request *request) {
  struct text measure = text_over(NULL, 0);
  job_request_write(request, &measure);
  char *json = malloc(measure.length + 1);
  assert(json);
  struct text out = text_over(json, measure.length + 1);
  job_request_write(request, &out);
  assert(text_complete(&out) && out.length == measure.length && json[0] == '{' && json[out.length - 1] == '}');
  free(json);
}

static void check_problem(const struct problem *problem) {
  char memory[8192];
  struct text out = text_over(memory, sizeof memory);
  assert(problem->kind > PROBLEM_NONE && problem->kind < PROBLEM_COUNT && problem->detail[0]);
  problem_render(problem, "", &out);
  assert(text_complete(&out));
}

static void check_query(enum job_kind kind, const struct query *query, const struct presets *presets, int64_t rows) {
  static struct job_request request;
  struct problem problem = {.kind = PROBLEM_NONE};
  if (!job_request_from_query(&request, kind, query, presets, &problem)) {
    check_problem(&problem);
    return;
  }
  check_request(&request);
  check_rendering(&request);
  request.job.sampling.max_work = 1000;
  if (job_request_split(&request, rows, &problem))
    check_split(&request, rows);
  else
    check_problem(&problem);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct presets *presets;
  static struct query query;
  char error[512];
  if (!presets) presets = presets_load("", error, sizeof error);
  assert(presets);

  query_split((const char *)data, (const char *)data + size, &query);
  for (int kind = 0; kind < JOB_KINDS; kind++) check_query((enum job_kind)kind, &query, presets, (int64_t)size);
  query_free(&query);
  return 0;
}
