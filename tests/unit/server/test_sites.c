// Where a job runs: what is learned from runs, what is tried again, when a job waits, and what leaves processors free.
#include "server/jobs/sites.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "server/base/clock.h"
#include "server/jobs/job.h"
#include "server/jobs/queue.h"

enum { POINTS = 100000, SAMPLES = 2000, PROCESSORS = 16 };
static const bool both[SITES] = {true, true}, gpu_only[SITES] = {true, false}, cpu_only[SITES] = {false, true},
                  none[SITES];

static struct sites sites;
static atomic_int gpus;
static atomic_llong running[VX_LANE_USES];
static int64_t now_ns;
static struct site_job job;
static double ahead;

static void ask_for(enum site_sampled sampled, int64_t points, int64_t samples) {
  job = (struct site_job){.kind = site_kind_of(sampled, points, samples)};
}

static int enter(void **state) {
  (void)state;
  atomic_store(&gpus, 1);
  for (int use = 0; use < VX_LANE_USES; use++) atomic_store(&running[use], 0);
  sites_init(&sites, &gpus, running, PROCESSORS);
  ahead = 1;
  now_ns = 1000 * NS_PER_S;
  ask_for(SITE_POINTS, POINTS, SAMPLES);
  return 0;
}

static enum site choose(const bool is_free[SITES]) { return sites_choose(&sites, &job, ahead, is_free, now_ns); }

static void begin(struct site_run *run, enum site site) { sites_begin(&sites, run, site, &job, now_ns); }

static void end(struct site_run *run, bool answered) {
  sites_end(&sites, run);
  sites_learn(&sites, run, answered, now_ns);
}

static void run(enum site site, int64_t ms) {
  struct site_run one;
  begin(&one, site);
  now_ns += ms * NS_PER_MS;
  end(&one, true);
}

static void teach(int64_t gpu_ms, int64_t cpu_ms) {
  for (int i = 0; i < 70; i++) {
    run(SITE_GPU, gpu_ms);
    run(SITE_CPU, cpu_ms);
  }
}

static int64_t known_ms(enum site site) {
  struct sites_use use = sites_look(&sites);
  for (int i = 0; i < use.kinds; i++)
    if (memcmp(&use.kind[i].kind, &job.kind, sizeof job.kind) == 0) return use.kind[i].ns[site] / NS_PER_MS;
  return 0;
}

// ---- learning -------------------------------------------------------------------------------------------------------

static void what_is_not_known_goes_to_a_gpu(void **state) {
  (void)state;
  assert_int_equal(choose(both), SITE_GPU);
  assert_int_equal(choose(gpu_only), SITE_GPU);
  assert_int_equal(choose(none), SITES);
}

static void the_first_run_of_a_kind_is_not_learned_from(void **state) {
  (void)state;
  run(SITE_GPU, 900);
  assert_int_equal(known_ms(SITE_GPU), 0);
  run(SITE_GPU, 9);
  assert_int_equal(known_ms(SITE_GPU), 9);
  run(SITE_GPU, 17);
  assert_in_range(known_ms(SITE_GPU), 10, 12);
}

static void the_cpu_is_tried_once_a_second_until_it_is_known(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) run(SITE_GPU, 9);
  for (int i = 0; i < 2; i++) {
    struct site_run trial;
    assert_int_equal(choose(both), SITE_CPU);
    begin(&trial, SITE_CPU);
    assert_int_equal(choose(both), SITE_GPU);  // another is on the way
    now_ns += 50 * NS_PER_MS;
    end(&trial, true);
    assert_int_equal(choose(both), SITE_GPU);
    now_ns += NS_PER_S;
  }
  assert_int_equal(known_ms(SITE_CPU), 50);
  assert_int_equal(choose(both), SITE_GPU);
}

static void each_kind_is_learned_apart(void **state) {
  (void)state;
  teach(9, 3);
  assert_int_equal(choose(both), SITE_CPU);
  ask_for(SITE_POINTS, 65536, 1024);
  assert_int_equal(choose(both), SITE_CPU);  // of the same powers of two
  static const struct site_kind others[] = {
      {SITE_VOXELS, 16, 10}, {SITE_POINTS, 15, 10}, {SITE_POINTS, 17, 10}, {SITE_POINTS, 16, 9}, {SITE_POINTS, 16, 11}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    job.kind = others[i];
    assert_int_equal(known_ms(SITE_CPU), 0);
    assert_int_equal(choose(both), SITE_GPU);
  }
}

static void classes_of_numbers(void **state) {
  (void)state;
  static const int64_t numbers[][2] = {{0, 0}, {1, 0}, {2, 1}, {3, 1}, {4, 2}, {INT32_MAX, 30}, {INT64_MAX, 30}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct site_kind kind = site_kind_of(SITE_VOXELS, numbers[i][0], numbers[i][0]);
    assert_int_equal(kind.points, numbers[i][1]);
    assert_int_equal(kind.samples, numbers[i][1]);
  }
}

static void an_unanswered_run_tells_only_that_it_takes_no_less(void **state) {
  (void)state;
  struct site_run refused;
  begin(&refused, SITE_GPU);
  end(&refused, false);
  begin(&refused, SITE_GPU);
  end(&refused, false);
  assert_int_equal(known_ms(SITE_GPU), 0);
  teach(10, 20);
  begin(&refused, SITE_GPU);
  now_ns += NS_PER_MS;
  end(&refused, false);
  assert_int_equal(known_ms(SITE_GPU), 10);
  begin(&refused, SITE_GPU);
  now_ns += 1000 * NS_PER_MS;
  end(&refused, false);
  assert_in_range(known_ms(SITE_GPU), 200, 300);
  assert_int_equal(sites_look(&sites).answered[SITE_GPU], 70);
}

// As a trial does that misses the deadline of its job.
static void what_ends_unanswered_on_an_unknown_site_is_learned_if_it_outran_the_other(void **state) {
  (void)state;
  struct site_run late;
  for (int i = 0; i < 3; i++) run(SITE_GPU, 10);
  for (int ms = 9; ms <= 50; ms += 41)
    for (int i = 0; i < 2; i++) {
      begin(&late, SITE_CPU);
      now_ns += ms * NS_PER_MS;
      end(&late, false);
      assert_int_equal(known_ms(SITE_CPU), ms == 50 && i == 1 ? 50 : 0);
    }
}

// ---- where it ends first --------------------------------------------------------------------------------------------

static void the_faster_of_two_free_sites(void **state) {
  (void)state;
  teach(9, 10);
  assert_int_equal(choose(both), SITE_GPU);
  assert_int_equal(choose(gpu_only), SITE_GPU);
  enter(NULL);
  teach(10, 9);
  assert_int_equal(choose(both), SITE_CPU);
  assert_int_equal(choose(cpu_only), SITE_CPU);
  enter(NULL);
  teach(9, 9);
  run(SITE_GPU, 9);
  run(SITE_CPU, 9);
  assert_int_equal(choose(both), SITE_GPU);
}

static void a_busy_gpu_is_awaited_if_it_ends_first_all_the_same(void **state) {
  (void)state;
  struct site_run on_gpu[2];
  teach(10, 15);
  begin(&on_gpu[0], SITE_GPU);
  now_ns += 2 * NS_PER_MS;
  begin(&on_gpu[1], SITE_GPU);
  assert_int_equal(choose(cpu_only), SITE_CPU);  // 8 + 10 ms
  now_ns += 4 * NS_PER_MS;
  assert_int_equal(choose(cpu_only), SITES);  // 4 + 10 ms
  assert_int_equal(choose(none), SITES);
  sites_end(&sites, &on_gpu[0]);
  sites_end(&sites, &on_gpu[1]);
}

static void a_busy_cpu_is_awaited_likewise(void **state) {
  (void)state;
  struct site_run on_cpu;
  teach(50, 10);
  begin(&on_cpu, SITE_CPU);
  assert_int_equal(choose(gpu_only), SITES);
  enter(NULL);
  teach(15, 10);
  begin(&on_cpu, SITE_CPU);
  assert_int_equal(choose(gpu_only), SITE_GPU);
}

static void the_jobs_that_wait_count(void **state) {
  (void)state;
  struct site_run on_gpu[2];
  struct site_job waiting[4];
  teach(10, 35);
  for (int i = 0; i < 2; i++) begin(&on_gpu[i], SITE_GPU);
  for (int i = 0; i < 4; i++) {
    waiting[i] = job;
    sites_wait(&sites, &waiting[i], now_ns);
    job = waiting[i];
    // The last of them ends after 10 ms of what runs, 5 ms for each other that waits, and 10 ms of its own.
    assert_int_equal(choose(cpu_only), SITES);
  }
  struct site_job fifth = {.kind = job.kind};
  sites_wait(&sites, &fifth, now_ns);
  job = waiting[0];
  assert_int_equal(choose(cpu_only), SITE_CPU);
  for (int i = 0; i < 4; i++) sites_leave(&sites, &waiting[i]);
  job = fifth;
  assert_int_equal(choose(cpu_only), SITES);
  sites_leave(&sites, &fifth);
  for (int site = 0; site < SITES; site++) assert_int_equal(sites.waiting_ns[site], 0);
}

// A client with few jobs is not sent to a slower site for the sake of those that come after its own.
static void of_the_jobs_that_wait_those_ahead_count(void **state) {
  (void)state;
  struct site_run on_gpu;
  struct site_job waiting[10];
  teach(10, 35);
  begin(&on_gpu, SITE_GPU);
  for (int i = 0; i < 10; i++) {
    waiting[i] = job;
    sites_wait(&sites, &waiting[i], now_ns);
  }
  job = waiting[0];
  assert_int_equal(choose(cpu_only), SITE_CPU);
  ahead = 0.3;
  assert_int_equal(choose(cpu_only), SITE_CPU);
  ahead = 0.2;
  assert_int_equal(choose(cpu_only), SITES);
  ahead = 0;
  assert_int_equal(choose(cpu_only), SITES);
}

static void a_run_that_takes_longer_than_expected_is_not_awaited_for_ever(void **state) {
  (void)state;
  struct site_run on_gpu;
  teach(10, 15);
  begin(&on_gpu, SITE_GPU);
  now_ns += 9 * NS_PER_MS;
  assert_int_equal(choose(cpu_only), SITES);
  now_ns += 4 * NS_PER_MS;
  assert_int_equal(choose(cpu_only), SITE_CPU);
}

static void a_gpu_between_two_jobs_is_awaited_and_a_cpu_without_workers_is_not(void **state) {
  (void)state;
  teach(10, 15);
  assert_int_equal(choose(cpu_only), SITES);
  teach(90, 10);
  assert_int_equal(choose(cpu_only), SITE_CPU);
  assert_int_equal(choose(gpu_only), SITE_GPU);
}

// ---- trials ---------------------------------------------------------------------------------------------------------

static void an_old_estimate_is_tried_again(void **state) {
  (void)state;
  struct site_run trial;
  teach(10, 50);
  run(SITE_GPU, 10);
  for (int s = 0; s < 230; s += 10) {
    assert_int_equal(choose(both), SITE_GPU);
    now_ns += 10 * NS_PER_S;
    run(SITE_GPU, 10);
  }
  now_ns += 11 * NS_PER_S;
  run(SITE_GPU, 10);
  assert_int_equal(choose(both), SITE_CPU);  // 5 times as long: after 4 minutes
  begin(&trial, SITE_CPU);
  assert_int_equal(choose(both), SITE_GPU);
  now_ns += 1 * NS_PER_MS;
  end(&trial, true);
  assert_in_range(known_ms(SITE_CPU), 1, 9);  // the old one hardly counts
  assert_int_equal(choose(both), SITE_CPU);
}

static void few_runs_age_sooner(void **state) {
  (void)state;
  for (int i = 0; i < 2; i++) {
    run(SITE_GPU, 10);
    run(SITE_CPU, 50);
  }
  now_ns += 7 * NS_PER_S;
  run(SITE_GPU, 10);
  assert_int_equal(choose(both), SITE_GPU);
  now_ns += 2 * NS_PER_S;
  run(SITE_GPU, 10);
  assert_int_equal(choose(both), SITE_CPU);
}

static void a_gpu_that_gets_no_jobs_is_tried_again_too(void **state) {
  (void)state;
  teach(50, 10);
  assert_int_equal(choose(both), SITE_CPU);
  now_ns += 250 * NS_PER_S;
  run(SITE_CPU, 10);
  assert_int_equal(choose(both), SITE_GPU);
}

// ---- what others need -----------------------------------------------------------------------------------------------

static void batches_boxes_and_large_samplings_are_a_gpus(void **state) {
  (void)state;
  ask_for(SITE_OTHERS, 1000, 10);
  teach(50, 1);
  assert_int_equal(choose(both), SITE_GPU);
  assert_int_equal(choose(cpu_only), SITES);
  static const struct {
    int64_t points, samples;
    enum site tried;
  } rows[] = {{(1 << 18) - 1, (1 << 14) - 1, SITE_CPU}, {1 << 17, 1 << 14, SITE_GPU}, {1 << 18, 1, SITE_GPU}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ask_for(i % 2 ? SITE_VOXELS : SITE_POINTS, rows[i].points, rows[i].samples);
    for (int run_of_gpu = 0; run_of_gpu < 2; run_of_gpu++) run(SITE_GPU, 9);
    assert_int_equal(choose(both), rows[i].tried);
  }
}

static void what_takes_the_cpu_too_long_is_a_gpus(void **state) {
  (void)state;
  teach(200, 99);
  assert_int_equal(choose(both), SITE_CPU);
  enter(NULL);
  teach(200, 102);
  assert_int_equal(choose(both), SITE_GPU);
}

static void jobs_that_run_leave_no_room(void **state) {
  (void)state;
  teach(50, 10);
  atomic_store(&running[VX_LANE_QUICK], PROCESSORS - 2);
  assert_true(sites_have_room(&sites));
  atomic_fetch_add(&running[VX_LANE_DETECT], 1);
  assert_false(sites_have_room(&sites));
  assert_int_equal(choose(both), SITE_GPU);
  assert_int_equal(choose(cpu_only), SITES);
}

static void nor_do_those_on_the_cpu(void **state) {
  (void)state;
  struct site_run on_cpu[3];
  atomic_store(&running[VX_LANE_QUICK], PROCESSORS - 4);
  for (int i = 0; i < 3; i++) {
    assert_true(sites_have_room(&sites));
    begin(&on_cpu[i], SITE_CPU);
    atomic_fetch_add(&running[VX_LANE_LONG], 1);
  }
  assert_false(sites_have_room(&sites));
  sites_end(&sites, &on_cpu[0]);
  atomic_fetch_sub(&running[VX_LANE_LONG], 1);
  assert_true(sites_have_room(&sites));
}

static void nor_do_other_threads(void **state) {
  (void)state;
  sites_note_used(&sites, (PROCESSORS - 2) * 1000);
  assert_true(sites_have_room(&sites));
  sites_note_used(&sites, (PROCESSORS - 2) * 1000 + 1);
  assert_false(sites_have_room(&sites));
  sites_note_used(&sites, 0);  // a fall counts bit by bit
  assert_in_range(atomic_load(&sites.used), 10000, 11000);
  for (int i = 0; i < 20; i++) sites_note_used(&sites, 0);
  assert_in_range(atomic_load(&sites.used), 0, 100);
}

// ---- the queue ------------------------------------------------------------------------------------------------------

static struct queue queue;
static struct clients clients;
static struct client *client;
static struct device devices[SITES];

struct popper {
  pthread_t thread;
  struct queue_waiter waiter;
  struct job *job;
};

static struct popper poppers[SITES];

static void *pop(void *argument) {
  struct popper *popper = argument;
  popper->job = queue_pop(&queue, &popper->waiter);
  return NULL;
}

static void start(enum site site) {
  struct popper *popper = &poppers[site];
  const int device = popper->waiter.device;
  atomic_store(&popper->waiter.job, NULL);
  assert_int_equal(pthread_create(&popper->thread, NULL, pop, popper), 0);
  for (bool asleep = false; !asleep; sched_yield()) {
    pthread_mutex_lock(&queue.lock);
    asleep = queue.idle[device] == &popper->waiter || popper->waiter.job;
    pthread_mutex_unlock(&queue.lock);
  }
}

static struct job *join(enum site site) {
  pthread_join(poppers[site].thread, NULL);
  return poppers[site].job;
}

static int open_queue(void **state) {
  static const int64_t limits[SHARES] = {[SHARE_LONG_JOBS] = 64};
  enter(state);
  queue_init(&queue, VX_LANE_LONG, 0);
  queue_tick(&queue, 100, 0);
  queue.sites = &sites;
  now_ns = clock_ns() - 10 * NS_PER_S;  // what is taught has been by then
  for (int site = 0; site < SITES; site++) {
    devices[site].load = 0;
    queue_waiter_init(&poppers[site].waiter, site == SITE_CPU ? MAX_DEVICES : 0, &devices[site].load);
  }
  if (!clients_init(&clients, 4, limits)) return -1;
  client = clients_join(&clients, "", "192.0.2.1");
  return 0;
}

static int close_queue(void **state) {
  (void)state;
  clients_leave(&clients, client);
  clients_destroy(&clients);
  for (int site = 0; site < SITES; site++) queue_waiter_destroy(&poppers[site].waiter);
  queue_destroy(&queue);
  return 0;
}

static struct job *make(struct job *made, enum vx_op op, int32_t clouds) {
  static atomic_bool gone;
  memset(made, 0, sizeof *made);
  made->client = client;
  made->gone = &gone;
  made->deadline_ns = INT64_MAX;
  made->asked.job.op = op;
  made->asked.job.params.fps.sampling.enabled = op == VX_FPS;
  made->asked.job.num_clouds = clouds;
  made->asked.job.inputs[0].dims[0] = POINTS;
  made->asked.sample_counts[0] = SAMPLES;
  return made;
}

// Both sites take jobs; where is this one given?
static enum site given(struct job *one) {
  for (int site = 0; site < SITES; site++) start((enum site)site);
  assert_true(queue_push(&queue, one));
  bool on_cpu = atomic_load(&devices[SITE_CPU].load) > 0;
  assert_int_equal(atomic_load(&devices[SITE_GPU].load), !on_cpu);
  enum site site = on_cpu ? SITE_CPU : SITE_GPU, other = on_cpu ? SITE_GPU : SITE_CPU;
  assert_ptr_equal(join(site), one);
  one->device = &devices[site];
  one->answered = true;
  queue_done(&queue, &poppers[site].waiter, one);
  assert_int_equal(queue_call(&queue, 1), 1);
  assert_null(join(other));
  return site;
}

static struct job one, two;

static void the_queue_gives_a_job_to_its_site(void **state) {
  (void)state;
  teach(1, 40);
  assert_int_equal(given(make(&one, VX_FPS, 1)), SITE_GPU);
  assert_int_equal(sites_look(&sites).answered[SITE_GPU], 71);
  sites_init(&sites, &gpus, running, PROCESSORS);
  ahead = 1;
  now_ns -= 6 * NS_PER_S;
  teach(90, 1);
  assert_int_equal(given(make(&one, VX_FPS, 1)), SITE_CPU);
  assert_int_equal(sites_look(&sites).answered[SITE_CPU], 71);
  assert_int_equal(given(make(&one, VX_FPS, 2)), SITE_GPU);
  assert_int_equal(given(make(&one, VX_NMS, 1)), SITE_GPU);
  make(&one, VX_FPS, 1)->asked.stream.name[0] = 's';
  assert_int_equal(given(&one), SITE_GPU);
  make(&one, VX_FPS, 1)->asked.points_region.name[0] = 'r';
  assert_int_equal(given(&one), SITE_GPU);
  assert_int_equal(given(make(&one, VX_FPS, 0)), SITE_GPU);  // nothing is known of it
}

static void without_a_gpu_that_works_every_worker_takes_every_job(void **state) {
  (void)state;
  teach(1, 40);
  atomic_store(&gpus, 0);
  start(SITE_CPU);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)));
  assert_ptr_equal(join(SITE_CPU), &one);
  queue_done(&queue, &poppers[SITE_CPU].waiter, &one);
}

// What runs on the CPU keeps its client from no worker of a GPU, though other clients are served.
static void a_client_has_its_share_of_the_gpu_beside_the_cpu(void **state) {
  (void)state;
  struct client *other = clients_join(&clients, "", "192.0.2.2");
  queue_tick(&queue, 1, now_ns);
  recency_note(&queue.served, other, clock_ns());
  teach(90, 1);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)));
  assert_ptr_equal(queue_pop(&queue, &poppers[SITE_CPU].waiter), &one);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 0);
  assert_true(queue_push(&queue, make(&two, VX_FPS, 2)));
  assert_ptr_equal(queue_pop(&queue, &poppers[SITE_GPU].waiter), &two);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 1);
  queue_done(&queue, &poppers[SITE_CPU].waiter, &one);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 1);
  queue_done(&queue, &poppers[SITE_GPU].waiter, &two);
  assert_int_equal(client->jobs[VX_LANE_LONG].running, 0);
  assert_int_equal(queue.clients, 0);
  clients_leave(&clients, other);
}

// The GPU's next job is awaited, and what another client's may do on the CPU is not kept back meanwhile.
static void who_waits_for_a_gpu_keeps_no_other_from_the_cpu(void **state) {
  (void)state;
  struct client *other = clients_join(&clients, "", "192.0.2.2");
  teach(90, 1);
  start(SITE_CPU);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 3)));
  assert_int_equal(queue_depth(&queue), 1);
  make(&two, VX_FPS, 1)->client = other;
  assert_true(queue_push(&queue, &two));
  assert_ptr_equal(join(SITE_CPU), &two);
  queue_done(&queue, &poppers[SITE_CPU].waiter, &two);
  start(SITE_CPU);
  start(SITE_GPU);
  assert_ptr_equal(join(SITE_GPU), &one);
  assert_true(queue_return(&queue, &poppers[SITE_GPU].waiter, &one));
  assert_int_equal(queue_depth(&queue), 1);
  queue_close(&queue);
  assert_null(join(SITE_CPU));
  assert_ptr_equal(queue_pop(&queue, &poppers[SITE_CPU].waiter), &one);  // nobody else will come
  for (int site = 0; site < SITES; site++) assert_int_equal(sites.waiting_ns[site], 0);
  clients_leave(&clients, other);
}

static void jobs_that_are_taken_out_wait_no_more(void **state) {
  (void)state;
  teach(10, 10);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)) && queue_push(&queue, make(&two, VX_FPS, 1)));
  assert_true(sites.waiting_ns[SITE_GPU] > 0);
  assert_ptr_equal(queue_take_all(&queue), &one);
  for (int site = 0; site < SITES; site++) assert_int_equal(sites.waiting_ns[site], 0);
}

// A job that the GPU failed says nothing of how long that takes.
static void a_job_that_ran_elsewhere_is_not_learned_from(void **state) {
  (void)state;
  start(SITE_GPU);
  assert_true(queue_push(&queue, make(&one, VX_FPS, 1)));
  assert_ptr_equal(join(SITE_GPU), &one);
  one.device = &devices[SITE_CPU];
  one.answered = true;
  queue_done(&queue, &poppers[SITE_GPU].waiter, &one);
  for (int site = 0; site < SITES; site++) assert_int_equal(sites_look(&sites).answered[site], 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(what_is_not_known_goes_to_a_gpu, enter),
      cmocka_unit_test_setup(the_first_run_of_a_kind_is_not_learned_from, enter),
      cmocka_unit_test_setup(the_cpu_is_tried_once_a_second_until_it_is_known, enter),
      cmocka_unit_test_setup(each_kind_is_learned_apart, enter),
      cmocka_unit_test_setup(classes_of_numbers, enter),
      cmocka_unit_test_setup(an_unanswered_run_tells_only_that_it_takes_no_less, enter),
      cmocka_unit_test_setup(the_faster_of_two_free_sites, enter),
      cmocka_unit_test_setup(a_busy_gpu_is_awaited_if_it_ends_first_all_the_same, enter),
      cmocka_unit_test_setup(a_busy_cpu_is_awaited_likewise, enter),
      cmocka_unit_test_setup(the_jobs_that_wait_count, enter),
      cmocka_unit_test_setup(of_the_jobs_that_wait_those_ahead_count, enter),
      cmocka_unit_test_setup(what_ends_unanswered_on_an_unknown_site_is_learned_if_it_outran_the_other, enter),
      cmocka_unit_test_setup(a_run_that_takes_longer_than_expected_is_not_awaited_for_ever, enter),
      cmocka_unit_test_setup(a_gpu_between_two_jobs_is_awaited_and_a_cpu_without_workers_is_not, enter),
      cmocka_unit_test_setup(an_old_estimate_is_tried_again, enter),
      cmocka_unit_test_setup(few_runs_age_sooner, enter),
      cmocka_unit_test_setup(a_gpu_that_gets_no_jobs_is_tried_again_too, enter),
      cmocka_unit_test_setup(batches_boxes_and_large_samplings_are_a_gpus, enter),
      cmocka_unit_test_setup(what_takes_the_cpu_too_long_is_a_gpus, enter),
      cmocka_unit_test_setup(jobs_that_run_leave_no_room, enter),
      cmocka_unit_test_setup(nor_do_those_on_the_cpu, enter),
      cmocka_unit_test_setup(nor_do_other_threads, enter),
      cmocka_unit_test_setup_teardown(the_queue_gives_a_job_to_its_site, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(without_a_gpu_that_works_every_worker_takes_every_job, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(a_client_has_its_share_of_the_gpu_beside_the_cpu, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(who_waits_for_a_gpu_keeps_no_other_from_the_cpu, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(jobs_that_are_taken_out_wait_no_more, open_queue, close_queue),
      cmocka_unit_test_setup_teardown(a_job_that_ran_elsewhere_is_not_learned_from, open_queue, close_queue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
