// A lane and its scratch, reused for jobs of all kinds.
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernels/cpu/base/base.h"
#include "kernels/cpu/base/cell_index.h"
#include "tests/unit/kernels/kernels_reference.h"

enum { MOST = 4000 };
static float points[MOST][4];

static void scatter(struct random *random, float low, float high) {
  for (int i = 0; i < MOST; i++)
    for (int c = 0; c < 4; c++) points[i][c] = random_in(random, low, high);
}

static void assert_as_on_fresh_lane(const struct vx_job *asked, int32_t count) {
  struct error error;
  struct vx_lane *fresh;
  assert_int_equal(backend->lane_open(device, VX_LANE_QUICK, &fresh, &error), VX_OK);
  struct outcome used = run_scan(asked, points, count), expected = run_on(fresh, asked, points, 1, &count);
  assert_int_equal(used.status, VX_OK);
  assert_memory_equal(&used.counts, &expected.counts, sizeof used.counts);
  assert_int_equal(used.layout.bytes, expected.layout.bytes);
  assert_memory_equal(used.block, expected.block, expected.layout.bytes);
  free(used.block);
  free(expected.block);
  backend->lane_close(fresh);
}

// All pairs of kinds and sizes of jobs, one after the other on one lane.
static void slot_reuse(void **state) {
  (void)state;
  struct random random = {14};
  struct vx_job kinds[5];
  for (int i = 0; i < 5; i++) kinds[i] = plain_params(12);
  kinds[1] = plain_params(2000);  // too many cells for a dense table
  kinds[2].params.voxelize.order = VX_ORDER_KEY;
  kinds[3].params.voxelize.block_filter = (struct vx_block_filter){true, 2, 4, 0.5f, 9};
  kinds[4].params.voxelize.voxel_size[0] = 0.5f;
  kinds[4].params.voxelize.max_points_per_voxel = 0;
  kinds[4].tensors = UNCAPPED_TENSORS;
  const int32_t counts[] = {7, MOST, 0, 300};
  for (int first = 0; first < 5 * 4; first++) {
    for (int second = 0; second < 5 * 4; second++) {
      scatter(&random, -1, 13);
      free(run_scan(&kinds[first % 5], points, counts[first / 5]).block);
      scatter(&random, -1, 13);
      assert_as_on_fresh_lane(&kinds[second % 5], counts[second / 5]);
    }
  }
}

static void small_after_large(void **state) {
  (void)state;
  struct random random = {15};
  struct vx_job asked = plain_params(10);
  scatter(&random, 0, 10);
  free(check_scan(&asked, points, MOST).block);
  free(check_scan(&asked, points + 100, 3).block);
}

static void dense_after_hash(void **state) {
  (void)state;
  struct random random = {16};
  scatter(&random, 0, 64);
  struct vx_job hash = plain_params(1024), dense = plain_params(64);
  hash.params.voxelize.max_voxels = dense.params.voxelize.max_voxels = MOST;
  for (int i = 0; i < 3; i++) {
    free(check_scan(&hash, points, MOST).block);
    free(check_scan(&dense, points, MOST).block);
  }
}

static void rubbish_in_scratch(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
  struct random random = {17};
  scatter(&random, -1, 13);
  struct vx_job asked[2] = {plain_params(12), plain_params(2000)};
  for (int round = 0; round < 20; round++) {
    struct cpu_arena *scratch = &lane->scratch;
    scratch->used = 0;
    unsigned char *bytes = cpu_arena_take(scratch, scratch->bytes - 64, 1);
    for (size_t i = 0; bytes != NULL && i < scratch->bytes - 64; i++)
      bytes[i] = round == 0 ? 0xFF : (unsigned char)(next_random(&random) & (round % 2 ? 0xFF : 3));
    // A table stores base + number. With base 0, small values in the scratch look like stored numbers; with the other
    // base, base + number wraps around.
    lane->base = round % 3 == 2 ? UINT32_MAX - 100 : 0;
    assert_as_on_fresh_lane(&asked[round / 2 % 2], MOST);
  }
}

// Two lanes put the same cells into different slots.
static void tables_are_seeded(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
  struct random random = {22};
  struct error error;
  struct vx_lane *lanes[2];
  struct outcome outcomes[2];
  struct vx_job asked = plain_params(2000);
  int32_t count = MOST;
  scatter(&random, 0, 100);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(backend->lane_open(device, VX_LANE_QUICK, &lanes[i], &error), VX_OK);
    outcomes[i] = run_on(lanes[i], &asked, points, 1, &count);
  }
  uint64_t slots = cpu_cell_index_slots(MOST, 33);
  assert_memory_not_equal(lanes[0]->scratch.memory, lanes[1]->scratch.memory, slots * sizeof(int32_t));
  assert_memory_equal(outcomes[0].block, outcomes[1].block, outcomes[0].layout.bytes);
  for (int i = 0; i < 2; i++) {
    free(outcomes[i].block);
    backend->lane_close(lanes[i]);
  }
}

static void scratch_grows(void **state) {
  (void)state;
  struct random random = {18};
  struct vx_job asked = plain_params(10);
  scatter(&random, 0, 10);
  struct error error;
  struct vx_lane *growing;
  assert_int_equal(backend->lane_open(device, VX_LANE_QUICK, &growing, &error), VX_OK);
  for (int32_t count = 1; count <= MOST; count *= 3) free(check_batch_on(growing, &asked, points, 1, &count).block);
  backend->lane_close(growing);
}

static void no_allocation_after_warm_up(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
  struct random random = {19};
  struct vx_job asked = plain_params(2000);
  scatter(&random, 0, 100);
  free(run_scan(&asked, points, MOST).block);
  const void *memory = lane->scratch.memory;
  for (int32_t count = MOST; count > 0; count /= 2) {
    free(run_scan(&asked, points, count).block);
    assert_ptr_equal(lane->scratch.memory, memory);
  }
}

static void huge_scratch_is_given_back(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
  enum { COUNT = 2000000 };
  float *flat = calloc((size_t)COUNT * 3, sizeof *flat);
  struct vx_job asked = plain_params(4);
  asked.inputs[VX_POINTS].dims[1] = 3;
  struct outcome outcome = run_scan(&asked, flat, COUNT);
  assert_int_equal(outcome.status, VX_OK);
  assert_int_equal(outcome.counts.kept, 4);
  assert_true(lane->scratch.bytes <= (size_t)64 << 20);
  free(outcome.block);
  free(flat);
  free(check_scan(&asked, points, 100).block);
}

static enum vx_status refuse_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  (void)layout;
  (void)block;
  strcpy(error->text, "no room for the answer");
  return *(const enum vx_status *)ctx;
}

static void output_failure_propagates(void **state) {
  (void)state;
  struct random random = {20};
  scatter(&random, 0, 10);
  enum vx_status statuses[] = {VX_REFUSED, VX_OUT_OF_MEMORY, VX_DEVICE_LOST};
  for (int i = 0; i < 3; i++) {
    struct error error = {0};
    int32_t count = 50, voxels;
    const struct vx_job asked = plain_params(10);
    struct vx_job job = job_over(&asked, points, 1, &count);
    job.caller = &(const struct vx_caller){.output = refuse_output};
    job.ctx = &statuses[i];
    job.row_counts = &voxels;
    assert_int_equal(backend->run(lane, &job, &error), statuses[i]);
    assert_string_equal(error.text, "no room for the answer");
    assert_int_equal(job.counts.received, 50);
    assert_int_equal(job.counts.voxels_kept, voxels);
  }
  struct vx_job asked = plain_params(10);
  free(check_scan(&asked, points, 50).block);
}

static void impossible_grid_is_refused(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  asked.params.voxelize.voxel_size[0] = 1e-9f;
  struct outcome outcome = run_scan(&asked, points, 10);
  assert_int_equal(outcome.status, VX_REFUSED);
  assert_int_equal(outcome.outputs, 0);
  assert_non_null(strstr(outcome.error.text, "along x"));
}

static void too_many_points_are_refused(void **state) {
  (void)state;
  struct vx_job asked = plain_params(10);
  const int32_t counts[2] = {INT32_MAX, 1};
  struct outcome outcome = run_on(lane, &asked, NULL, 2, counts);
  assert_int_equal(outcome.status, VX_REFUSED);
}

static void arena_sizes_are_checked(void **state) {
  (void)state;
  struct cpu_arena measured = {0}, arena = {0};
  const struct vx_job job = {.num_clouds = 1};
  struct error error = {0};
  cpu_arena_take(&measured, UINT64_MAX / 2, 4);
  assert_true(measured.used == SIZE_MAX);
  cpu_arena_take(&measured, 1, 1);
  assert_true(measured.used == SIZE_MAX);
  assert_int_equal(cpu_arena_reserve(&arena, &measured, &job, &error), VX_OUT_OF_MEMORY);
  assert_non_null(strstr(error.text, "scratch"));
}

static size_t scratch_allowed, scratch_asked;

static bool allow(void *ctx, size_t bytes) {
  (void)ctx;
  scratch_asked = bytes;
  return bytes <= scratch_allowed;
}

static void a_lane_asks_before_it_takes_much_scratch(void **state) {
  (void)state;
  struct cpu_arena little = {.used = VX_SCRATCH_KEPT / 2}, much = {.used = 2 * VX_SCRATCH_KEPT}, arena = {0};
  const struct vx_caller caller = {.scratch = allow};
  const struct vx_job job = {.caller = &caller};
  struct error error = {0};
  scratch_allowed = scratch_asked = 0;
  assert_int_equal(cpu_arena_reserve(&arena, &little, &job, &error), VX_OK);
  assert_int_equal(scratch_asked, 0);
  assert_int_equal(cpu_arena_reserve(&arena, &much, &job, &error), VX_OUT_OF_MEMORY);
  assert_null(arena.memory);
  const size_t allowed[] = {much.used, SIZE_MAX};  // the least that the job needs; any amount
  for (int i = 0; i < 2; i++) {
    scratch_allowed = allowed[i];
    assert_int_equal(cpu_arena_reserve(&arena, &much, &job, &error), VX_OK);
    assert_int_equal(scratch_asked, arena.bytes);
    assert_true(i ? scratch_asked > much.used : scratch_asked == much.used);
    cpu_arena_trim(&arena, 0);
  }
}

// The pages of VX_SCRATCH_KEPT bytes stay, so that the next job has fewer page faults.
static void a_lane_keeps_the_scratch_that_it_may_keep(void **state) {
  (void)state;
  struct cpu_arena much = {.used = 2 * VX_SCRATCH_KEPT}, arena = {0};
  const struct vx_job job = {0};
  struct error error;
  const size_t places[] = {0, VX_SCRATCH_KEPT - 1, VX_SCRATCH_KEPT, 2 * VX_SCRATCH_KEPT - 1};
  assert_int_equal(cpu_arena_reserve(&arena, &much, &job, &error), VX_OK);
  unsigned char *memory = cpu_arena_take(&arena, much.used, 1);
  for (int i = 0; i < 4; i++) memory[places[i]] = 7;
  cpu_arena_trim(&arena, VX_SCRATCH_KEPT);
  assert_int_equal(arena.bytes, VX_SCRATCH_KEPT);
  assert_int_equal(cpu_arena_reserve(&arena, &much, &job, &error), VX_OK);
  memory = cpu_arena_take(&arena, much.used, 1);
  for (int i = 0; i < 4; i++) assert_int_equal(memory[places[i]], i < 2 ? 7 : 0);
  cpu_arena_trim(&arena, 0);
  assert_null(arena.memory);
  assert_int_equal(arena.bytes, 0);
}

static bool is_busy(void *ctx) { return *(const bool *)ctx; }

// If a task is too large, or comes too late, the helper's scratch is unchanged.
static void a_helper_that_does_nothing_keeps_its_scratch(void **state) {
  (void)state;
  const struct cpu_arena little = {.used = VX_SCRATCH_KEPT / 4}, most = {.used = VX_SCRATCH_KEPT},
                         much = {.used = VX_SCRATCH_KEPT + 1};
  bool busy = false;
  struct vx_lane helper = {.seed = {0}};
  struct vx_stop stop = {is_busy, &busy, 0, false};
  const struct vx_worker worker = {&helper, &stop};
  struct error error;
  assert_int_equal(cpu_reserve_for_help(&worker, &little, &error), VX_OK);
  const struct cpu_arena before = helper.scratch;
  assert_int_equal(cpu_reserve_for_help(&worker, &much, &error), VX_OUT_OF_MEMORY);
  assert_ptr_equal(helper.scratch.memory, before.memory);
  assert_int_equal(helper.scratch.bytes, before.bytes);
  busy = true;
  assert_int_equal(cpu_reserve_for_help(&worker, &most, &error), VX_STOPPED);
  assert_int_equal(helper.scratch.bytes, before.bytes);
  busy = stop.has_stopped = false;
  assert_int_equal(cpu_reserve_for_help(&worker, &most, &error), VX_OK);
  assert_int_equal(helper.scratch.bytes, VX_SCRATCH_KEPT);
  cpu_arena_trim(&helper.scratch, 0);
}

// One job fails, the next, smaller job succeeds.
static void out_of_memory(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip();  // a sanitizer reserves more address space than any limit would allow
#endif
  enum { COUNT = 4000000 };
  float *flat = calloc((size_t)COUNT * 3, sizeof *flat);
  struct vx_job asked = plain_params(4);
  asked.inputs[VX_POINTS].dims[1] = 3;
  struct rlimit before, tight, held;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  FILE *file = fopen("/proc/self/statm", "r");
  unsigned long long pages = 0;
  assert_int_equal(fscanf(file, "%llu", &pages), 1);
  fclose(file);
  tight = before;
  tight.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)16 << 20);
  assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
  assert_int_equal(getrlimit(RLIMIT_AS, &held), 0);
  if (held.rlim_cur != tight.rlim_cur) {
    free(flat);
    skip();  // qemu-user ignores the limit
  }
  struct outcome outcome = run_scan(&asked, flat, COUNT);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_int_equal(outcome.status, VX_OUT_OF_MEMORY);
  assert_non_null(strstr(outcome.error.text, "scratch"));
  assert_int_equal(outcome.outputs, 0);
  free(flat);
  free(check_scan(&asked, points, 100).block);
}

static void stage_times(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
  struct random random = {21};
  struct vx_job asked = plain_params(10);
  scatter(&random, 0, 10);
  struct outcome outcome = run_scan(&asked, points, MOST);
  assert_true(outcome.stage_ns[VX_STAGE_VOXELIZE] > 0);
  assert_true(outcome.stage_ns[VX_STAGE_FEATURES] > 0);
  assert_int_equal(outcome.stage_ns[VX_STAGE_COPY_IN], 0);
  assert_int_equal(outcome.stage_ns[VX_STAGE_SAMPLE], 0);
  assert_int_equal(outcome.stage_ns[VX_STAGE_COPY_OUT], 0);
  free(outcome.block);
}

static void description(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
  struct vx_description text;
  backend->describe(device, &text);
  assert_memory_equal(text.name, "CPU", 3);
  assert_int_equal(text.memory_bytes, 0);
  assert_int_equal(text.compute_capability, 0);
  assert_string_equal(backend->name, "cpu");
}

static void one_device(void **state) {
  (void)state;
  if (backend != &vx_cpu_backend) skip();
  struct vx_device *second;
  struct error error;
  assert_int_equal(backend->open(1, &second, &error), VX_REFUSED);
}

static void host_memory(void **state) {
  (void)state;
  const size_t sizes[] = {0, 1, 4096, 4097, 1 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    unsigned char *memory = backend->host_alloc(device, sizes[i]);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    memset(memory, 1, sizes[i]);
    backend->host_release(device, memory, sizes[i]);
  }
  assert_null(backend->host_alloc(device, SIZE_MAX / 2));
  backend->host_release(device, NULL, 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slot_reuse),
      cmocka_unit_test(small_after_large),
      cmocka_unit_test(dense_after_hash),
      cmocka_unit_test(rubbish_in_scratch),
      cmocka_unit_test(tables_are_seeded),
      cmocka_unit_test(scratch_grows),
      cmocka_unit_test(no_allocation_after_warm_up),
      cmocka_unit_test(huge_scratch_is_given_back),
      cmocka_unit_test(output_failure_propagates),
      cmocka_unit_test(impossible_grid_is_refused),
      cmocka_unit_test(too_many_points_are_refused),
      cmocka_unit_test(arena_sizes_are_checked),
      cmocka_unit_test(a_lane_asks_before_it_takes_much_scratch),
      cmocka_unit_test(a_lane_keeps_the_scratch_that_it_may_keep),
      cmocka_unit_test(a_helper_that_does_nothing_keeps_its_scratch),
      cmocka_unit_test(out_of_memory),
      cmocka_unit_test(stage_times),
      cmocka_unit_test(description),
      cmocka_unit_test(one_device),
      cmocka_unit_test(host_memory),
  };
  return cmocka_run_group_tests(tests, open_backend, close_backend);
}
