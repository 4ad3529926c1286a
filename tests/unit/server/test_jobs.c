// Jobs through queue, worker and lane, without a socket. A job releases its body, queue slot and scratch before `done`.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "kernels/backends.h"
#include "server/base/base.h"
#include "server/jobs/held.h"
#include "server/jobs/run.h"
#include "tests/support/job_room.h"

enum { POINTS = 1000, COLUMNS = 4, POINT_BYTES = POINTS * COLUMNS * 4 };

static struct options options = {
    .workers = 2, .long_workers = 1, .queue_depth = 64, .max_response_bytes = 1 << 20, .memory_budget_bytes = 16 << 20};

// ---- waiting for `done` ---------------------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int finished;
static pthread_t finisher;

static void on_done(struct job *job) {
  assert_null(job->held.input);
  assert_int_equal(job->held.queue_slot, SHARES);
  assert_int_equal(job->held.scratch_bytes, 0);
  pthread_mutex_lock(&lock);
  finished++;
  finisher = pthread_self();
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void await(int count) {
  pthread_mutex_lock(&lock);
  while (finished < count) pthread_cond_wait(&changed, &lock);
  pthread_mutex_unlock(&lock);
}

// ---- the room -------------------------------------------------------------------------------------------------------

static int open_room(void **state) {
  (void)state;
  finished = 0;
  open_job_room(&options);
  return 0;
}

// Voxelizes POINTS points or, for VX_FPS, chooses `samples` of them.
static void make(struct job *job, enum vx_op op, const char *samples) {
  struct error error;
  job_init(job, &jobs.services);
  job->client = client;
  job->spec.id = "test";
  job->spec.gone = &gone;
  job->spec.done = on_done;
  job->spec.started_ns = job->queued_ns = clock_ns();
  job->deadline_ns = INT64_MAX;
  job_request_init(&job->asked, op);
  if (op == VX_VOXELIZE) {
    static const char range[] = "0,0,0,10,10,10", size[] = "1,1,1";
    assert_true(job_request_set(&job->asked, "point_cloud_range", 17, range, strlen(range), &error));
    assert_true(job_request_set(&job->asked, "voxel_size", 10, size, strlen(size), &error));
  } else {
    assert_true(job_request_set(&job->asked, "num_samples", 11, samples, strlen(samples), &error));
  }
  assert_true(job_request_finish(&job->asked, &error));
  assert_true(job_request_split(&job->asked, POINTS, &error));
  assert_true(job_acquire_queue_slot(job));
  assert_true(job_acquire_rows(job, POINT_BYTES));
  job_use_rows(job);
  for (int i = 0; i < POINTS * COLUMNS; i++) ((float *)(void *)job->held.input->data)[i] = (float)(i * 7 % 101) / 10.0f;
}

static void run(struct job *job) {
  int before = finished;
  assert_true(jobs_submit(&jobs, job));
  await(before + 1);
}

// ---- a GPU that refuses ---------------------------------------------------------------------------------------------

static bool runs_all(const struct vx_job *work) {
  (void)work;
  return true;
}

static enum vx_status refuse_all(struct vx_lane *lane, struct vx_job *work, struct error *error) {
  (void)lane, (void)work;
  return vx_refuse(error, "not with this GPU");
}

// The CPU runs the job with one of these functions after the GPU has failed.
static enum vx_status stop_at_once(struct vx_lane *lane, struct vx_job *work, struct error *error) {
  (void)lane, (void)work, (void)error;
  return VX_STOPPED;
}

static enum vx_status find_no_memory(struct vx_lane *lane, struct vx_job *work, struct error *error) {
  (void)lane, (void)work, (void)error;
  return VX_OUT_OF_MEMORY;
}

static int64_t running;

static enum vx_status see_running(struct vx_lane *lane, struct vx_job *work, struct error *error) {
  (void)lane, (void)work, (void)error;
  running = atomic_load(&jobs.devices.cpu.running);
  return VX_STOPPED;
}

typedef enum vx_status run_function(struct vx_lane *lane, struct vx_job *work, struct error *error);

// Runs the job on this thread, on a GPU that refuses it, then on the CPU with `cpu_run`. Returns the count of the GPU's
// failures.
static int blamed_if_cpu(run_function *cpu_run, struct job *job) {
  struct vx_backend refusing = {.name = "cuda", .runs = runs_all, .run = refuse_all}, cpu = vx_cpu_backend;
  struct device *gpu = &jobs.devices.gpu[0];
  struct lanes lanes = {.gpu = gpu};
  struct error error;
  *gpu = (struct device){.backend = &refusing};
  assert_int_equal(cpu.lane_open(jobs.devices.cpu.handle, VX_LANE_QUICK, &lanes.on_cpu, &error), VX_OK);
  if (cpu_run) cpu.run = cpu_run;
  jobs.devices.cpu.backend = &cpu;
  make(job, VX_VOXELIZE, NULL);
  assert_int_equal(job_run(job, &lanes, VX_LANE_QUICK), JOB_RAN);
  jobs.devices.cpu.backend = &vx_cpu_backend;
  cpu.lane_close(lanes.on_cpu);
  return atomic_load(&gpu->failures);
}

// ---- tests ----------------------------------------------------------------------------------------------------------

static struct job job, other;

static void answer_is_whole_and_the_workers_last_act_is_done(void **state) {
  (void)state;
  make(&job, VX_VOXELIZE, NULL);
  run(&job);
  assert_true(job.result.answered);
  assert_int_equal(job.work.counts.received, POINTS);
  assert_int_equal(job.result.length, job.head_bytes + job.tensor_layout.bytes);
  assert_memory_equal(job.held.output->data + 8, "{\"__metadata__\"", 15);
  assert_false(pthread_equal(finisher, pthread_self()));
  job_release_buffer(&job.held.output);
}

static void the_same_points_give_the_same_tensors(void **state) {
  (void)state;
  make(&job, VX_VOXELIZE, NULL);
  make(&other, VX_VOXELIZE, NULL);
  run(&job);
  run(&other);
  assert_int_equal(job.tensor_layout.bytes, other.tensor_layout.bytes);
  assert_memory_equal(job.held.output->data + job.head_bytes, other.held.output->data + other.head_bytes,
                      job.tensor_layout.bytes);
  job_release_buffer(&job.held.output);
  job_release_buffer(&other.held.output);
}

static void metadata_alone(void **state) {
  (void)state;
  make(&job, VX_FPS, "10");
  job.spec.kind = answer_kind_of("application/json");
  run(&job);
  assert_true(job.result.answered);
  assert_int_equal(job.held.output->data[0], '{');
  assert_int_equal(job.held.output->data[job.result.length - 1], '\n');
  job_release_buffer(&job.held.output);
}

// The file is made from the tensors, and needs memory of its own.
static void files(void **state) {
  (void)state;
  static const char *const beginnings[][2] = {{"application/x-npz", "PK\3\4"}, {"application/x-mcap", "\x89MCAP0"}};
  for (int i = 0; i < 2; i++) {
    make(&job, VX_VOXELIZE, NULL);
    job.spec.kind = answer_kind_of(beginnings[i][0]);
    run(&job);
    assert_true(job.result.answered);
    assert_memory_equal(job.held.output->data, beginnings[i][1], strlen(beginnings[i][1]));
    assert_true(job.result.length <= job.held.output->capacity);
    assert_true(job.result.answer.encode_ns > 0);
    job_release_buffer(&job.held.output);
  }
}

static void too_large_a_file(void **state) {
  (void)state;
  make(&job, VX_FPS, "1000");
  job.spec.kind = answer_kind_of("application/x-npz");
  jobs.services.max_response_bytes = 20 * 1024;
  run(&job);
  assert_false(job.result.answered);
  assert_int_equal(job.result.error.kind, ERROR_IMPOSSIBLE);
  assert_true(job.tensor_layout.bytes <= 20 * 1024);
  assert_null(job.held.output);
}

// Body, tensors and file take 64 KiB each. The body is released before the file's memory is acquired, so a budget for
// two suffices. A budget for one does not; another try would not help, so the status is not 503.
static void no_budget_for_a_file(void **state) {
  (void)state;
  make(&job, VX_FPS, "1000");
  job.spec.kind = answer_kind_of("application/x-npz");
  jobs.buffers.budget = 3 * 65536 - 1;
  jobs.services.max_response_bytes = 65536;
  run(&job);
  assert_true(job.result.answered);
  job_release_buffer(&job.held.output);
  make(&job, VX_FPS, "1000");
  job.spec.kind = answer_kind_of("application/x-npz");
  jobs.buffers.budget = 2 * 65536 - 1;
  run(&job);
  assert_false(job.result.answered);
  assert_int_equal(job.result.error.kind, ERROR_IMPOSSIBLE);
}

static vx_tensor_set none(const struct job_request *request) {
  (void)request;
  return 0;
}

// Two faulty kinds of answer: one writes a longer file than it measured, the other reserves too little for the head.
static bool write_more(const struct answer *answer, const struct vx_layout *layout, const char *tensors,
                       struct text *out, struct error *error) {
  (void)answer, (void)layout, (void)tensors, (void)error;
  text_put(out, out->capacity ? "longer" : "short");
  return true;
}

static size_t reserve_little(struct answer *answer, const struct vx_layout *layout) {
  (void)answer, (void)layout;
  return VX_TENSOR_ALIGNMENT;
}

static void a_cut_answer_is_refused(void **state) {
  (void)state;
  const struct answer_kind *frames = answer_kind_of("application/octet-stream");
  const struct answer_kind kinds[] = {
      {.media_type = "text/plain", .tensors = none, .write = write_more},
      {.media_type = "text/plain", .tensors = frames->tensors, .reserve = reserve_little, .frame = frames->frame}};
  for (int i = 0; i < 2; i++) {
    make(&job, VX_VOXELIZE, NULL);
    job.spec.kind = &kinds[i];
    run(&job);
    assert_false(job.result.answered);
    assert_int_equal(job.result.error.kind, ERROR_DEFECT);
    assert_null(job.held.output);
  }
}

static void past_its_deadline_it_is_not_begun(void **state) {
  (void)state;
  make(&job, VX_VOXELIZE, NULL);
  job.deadline_ns = clock_ns() - 1;
  run(&job);
  assert_false(job.result.answered || job.result.begun);
  assert_int_equal(job.result.error.kind, ERROR_DEADLINE);
  assert_null(job.held.output);
}

static void a_job_of_a_client_that_left_is_not_begun(void **state) {
  (void)state;
  make(&job, VX_VOXELIZE, NULL);
  atomic_store(&gone, true);
  run(&job);
  assert_false(job.result.answered || job.result.begun);
}

static void what_runs_is_stopped_in_a_hurry(void **state) {
  (void)state;
  make(&job, VX_FPS, "1000");
  jobs_hurry(&jobs);
  run(&job);
  assert_false(job.result.answered);
  assert_int_equal(job.result.error.kind, ERROR_DRAINING);
}

// While `hold` is locked, the only long worker stays in the `done` of its job, and another job waits.
static pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;

static void on_done_held(struct job *held) {
  pthread_mutex_lock(&hold);
  pthread_mutex_unlock(&hold);
  on_done(held);
}

static void refuse_what_waits(void (*refuse)(void), enum error_kind kind, int64_t deadline_ns) {
  pthread_mutex_lock(&hold);
  make(&job, VX_FPS, "10");
  make(&other, VX_FPS, "10");
  job.spec.done = on_done_held;
  other.deadline_ns = deadline_ns;
  assert_true(jobs_submit(&jobs, &job));
  while (atomic_load(&jobs.queues[VX_LANE_LONG].depth) > 0) sched_yield();
  assert_true(jobs_submit(&jobs, &other));
  refuse();
  await(1);
  assert_true(pthread_equal(finisher, pthread_self()));
  assert_false(other.result.answered || other.result.begun);
  assert_int_equal(other.result.error.kind, kind);
  pthread_mutex_unlock(&hold);
  await(2);
  job_release_buffer(&job.held.output);
}

static void hurry(void) { jobs_hurry(&jobs); }
static void tick(void) { jobs_tick(&jobs, 2); }

static void what_waits_is_refused_in_a_hurry(void **state) {
  (void)state;
  refuse_what_waits(hurry, ERROR_DRAINING, INT64_MAX);
}

static void what_waits_past_its_deadline_is_refused(void **state) {
  (void)state;
  refuse_what_waits(tick, ERROR_DEADLINE, 1);
}

static void too_large_an_answer(void **state) {
  (void)state;
  make(&job, VX_VOXELIZE, NULL);
  jobs.services.max_response_bytes = 100;
  run(&job);
  assert_false(job.result.answered);
  assert_int_equal(job.result.error.kind, ERROR_IMPOSSIBLE);
  assert_null(job.held.output);
}

// The parameters give the size of a map, so a job whose map is too large never runs.
static void maps_that_cannot_fit_are_not_begun(void **state) {
  (void)state;
  static const float sizes[] = {1, 0.002f};
  for (int i = 0; i < 2; i++) {
    make(&job, VX_VOXELIZE, NULL);
    job.asked.job.params.voxelize.voxel_size[0] = job.asked.job.params.voxelize.voxel_size[1] = sizes[i];
    job.asked.outputs = job.asked.job.tensors = VX_TENSOR_BIT(VX_OCCUPANCY_PACKED);
    run(&job);
    assert_int_equal(job.result.begun, i == 0);
    assert_int_equal(job.result.answered, i == 0);
    if (job.result.answered) job_release_buffer(&job.held.output);
  }
  assert_int_equal(job.result.error.kind, ERROR_IMPOSSIBLE);
}

static void gpu_is_blamed_for_what_the_cpu_can_do_alone(void **state) {
  (void)state;
  assert_int_equal(blamed_if_cpu(NULL, &job), 1);
  assert_true(job.result.answered);
  job_release_buffer(&job.held.output);
  assert_int_equal(blamed_if_cpu(refuse_all, &job), 0);
  assert_int_equal(blamed_if_cpu(stop_at_once, &job), 0);
  assert_int_equal(blamed_if_cpu(find_no_memory, &job), 0);
}

static void a_device_counts_what_it_runs(void **state) {
  (void)state;
  (void)blamed_if_cpu(see_running, &job);
  assert_int_equal(running, 1);
  assert_int_equal(atomic_load(&jobs.devices.cpu.running), 0);
}

static void closed_room_takes_nothing(void **state) {
  (void)state;
  make(&job, VX_VOXELIZE, NULL);
  jobs_stop(&jobs);
  assert_false(jobs_submit(&jobs, &job));
  job_release_queue_slot(&job);
  job_release_buffer(&job.held.input);
}

static void many_at_once(void **state) {
  (void)state;
  static struct job all[16];
  for (int i = 0; i < 16; i++) make(&all[i], i % 2 ? VX_FPS : VX_VOXELIZE, "100");
  for (int i = 0; i < 16; i++) assert_true(jobs_submit(&jobs, &all[i]));
  await(16);
  for (int i = 0; i < 16; i++) {
    assert_true(all[i].result.answered);
    job_release_buffer(&all[i].held.output);
  }
  for (int use = 0; use < VX_LANE_USES; use++) assert_int_equal(atomic_load(&jobs.workers.running[use]), 0);
}

// After a refusal, jobs_memory_wanted returns in_use - budget / 2 once, the bytes that slow readers should give back.
static void memory_is_wanted_back_once_it_was_refused(void **state) {
  (void)state;
  enum { MB = 1 << 20 };
  struct shortage shortage;
  struct client *second = clients_acquire(&clients, "", "192.0.2.77");
  struct buffer *held[] = {buffer_acquire(&jobs.buffers, client, SHARE_BYTES, 4 * MB, 0, &shortage),
                           buffer_acquire(&jobs.buffers, second, SHARE_BYTES, 4 * MB, 0, &shortage),
                           buffer_acquire(&jobs.buffers, client, SHARE_BYTES, MB, 0, &shortage)};
  for (int i = 0; i < 3; i++) assert_non_null(held[i]);
  size_t in_use = jobs.buffers.in_use, budget = jobs.buffers.budget;
  assert_true(in_use > budget / 2);
  assert_int_equal(jobs_memory_wanted(&jobs), 0);
  atomic_store(&jobs.uploads.refused, true);
  assert_int_equal(jobs_memory_wanted(&jobs), in_use - budget / 2);
  assert_int_equal(jobs_memory_wanted(&jobs), 0);  // no refusal since the last call
  buffer_release(held[0]);
  atomic_store(&jobs.uploads.refused, true);
  assert_int_equal(jobs_memory_wanted(&jobs), 0);  // less than half is in use
  buffer_release(held[1]);
  buffer_release(held[2]);
  clients_release(&clients, second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(answer_is_whole_and_the_workers_last_act_is_done, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(the_same_points_give_the_same_tensors, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(metadata_alone, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(files, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(too_large_a_file, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(no_budget_for_a_file, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(a_cut_answer_is_refused, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(past_its_deadline_it_is_not_begun, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(a_job_of_a_client_that_left_is_not_begun, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(what_runs_is_stopped_in_a_hurry, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(what_waits_is_refused_in_a_hurry, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(what_waits_past_its_deadline_is_refused, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(too_large_an_answer, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(maps_that_cannot_fit_are_not_begun, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(gpu_is_blamed_for_what_the_cpu_can_do_alone, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(a_device_counts_what_it_runs, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(memory_is_wanted_back_once_it_was_refused, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(closed_room_takes_nothing, open_room, close_job_room),
      cmocka_unit_test_setup_teardown(many_at_once, open_room, close_job_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
