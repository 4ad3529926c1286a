// cores-bench: how much faster 1, 2, 4, ... workers of the daemon do one job, on the CPU and without HTTP.
//
//   cores-bench SCAN [ROUNDS]
//
// Each number of workers has its own jobs room, with its own threads. Each round runs the job once in every room, one
// room after the other, so that other work on the machine slows all rooms alike. The table has the median time, the
// median over the rounds of the ratio to one worker, and how many of the job's tasks helpers did. The exit status is 1
// if answers differ. The main thread submits each job and waits for it.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "server/base/base.h"
#include "server/jobs/held.h"
#include "server/jobs/jobs.h"
#include "tests/measure/bench/timing.h"

enum { COLUMNS = 4, MOST_ROOMS = 12, MOST_REPEAT = 1000, WARM_UP = 3 };
#define MEMORY ((int64_t)4 << 30)

struct parameter {
  const char *name, *value;
};

// A job over `clouds` clouds with `points` points each (0: the whole scan).
static const struct kind {
  const char *name;
  enum vx_op op;
  int32_t clouds, points;
  struct parameter parameters[5];
} kinds[] = {
    {"voxelize, 1 scan",
     VX_VOXELIZE,
     1,
     0,
     {{"point_cloud_range", "-54,-54,-5,54,54,3"}, {"voxel_size", "0.2,0.2,0.2"}, {"max_points_per_voxel", "10"}}},
    {"kitti_second, 1 scan",
     VX_VOXELIZE,
     1,
     0,
     {{"point_cloud_range", "0,-40,-3,70.4,40,1"},
      {"voxel_size", "0.05,0.05,0.1"},
      {"max_points_per_voxel", "5"},
      {"feature", "points"}}},
    {"kitti_pointpillar, 1 scan",
     VX_VOXELIZE,
     1,
     0,
     {{"point_cloud_range", "0,-39.68,-3,69.12,39.68,1"}, {"voxel_size", "0.16,0.16,4"}, {"feature", "pillar"}}},
    {"voxelize, 8 scans",
     VX_VOXELIZE,
     8,
     0,
     {{"point_cloud_range", "-54,-54,-5,54,54,3"}, {"voxel_size", "0.2,0.2,0.2"}, {"max_points_per_voxel", "10"}}},
    {"transform, 1 scan", VX_TRANSFORM, 1, 0, {{"crop", "-40,-40,-3,40,40,3"}}},
    {"transform, 8 scans", VX_TRANSFORM, 8, 0, {{"crop", "-40,-40,-3,40,40,3"}}},
    {"samples, 1 scan -> 2048", VX_FPS, 1, 0, {{"num_samples", "2048"}}},
    {"samples, 8 scans -> 2048", VX_FPS, 8, 0, {{"num_samples", "2048"}}},
    {"samples, 32 x 4096 -> 1024", VX_FPS, 32, 4096, {{"num_samples", "1024"}}},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct room {
  int64_t workers;
  struct options options;
  struct clients clients;
  struct client *client;
  struct counters counters;
  struct jobs jobs;
  double ms[MOST_REPEAT], ratio[MOST_REPEAT];
};

static struct room rooms[MOST_ROOMS];
static int num_rooms;

// ---- one job --------------------------------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool finished;

static void on_done(struct job *job) {
  (void)job;
  pthread_mutex_lock(&lock);
  finished = true;
  pthread_cond_signal(&changed);
  pthread_mutex_unlock(&lock);
}

static void await(void) {
  pthread_mutex_lock(&lock);
  while (!finished) pthread_cond_wait(&changed, &lock);
  finished = false;
  pthread_mutex_unlock(&lock);
}

static bool ask(struct job *job, const struct kind *kind, int64_t points, struct error *error) {
  char counts[VX_MAX_CLOUDS];
  size_t length = 0;
  job_request_init(&job->asked, kind->op);
  for (const struct parameter *row = kind->parameters; row->name; row++)
    if (!job_request_set(&job->asked, row->name, strlen(row->name), row->value, strlen(row->value), error))
      return false;
  for (int32_t cloud = 0; cloud < kind->clouds; cloud++)
    length += (size_t)snprintf(counts + length, sizeof counts - length, "%s%lld", cloud ? "," : "", (long long)points);
  return job_request_set(&job->asked, "point_counts", 12, counts, length, error) &&
         job_request_finish(&job->asked, error) && job_request_split(&job->asked, points * kind->clouds, error);
}

// Fills the body: with the scan repeated, or with points evenly strided from it.
static void fill(struct job *job, const struct kind *kind, const float *scan, int64_t rows, int64_t points) {
  size_t row_bytes = COLUMNS * sizeof *scan;
  char *body = job_body(job);
  for (int32_t cloud = 0; cloud < kind->clouds; cloud++)
    for (int64_t i = 0; i < points; i++, body += row_bytes) memcpy(body, scan + rows * i / points * COLUMNS, row_bytes);
}

static bool complain(const struct error *error) {
  fprintf(stderr, "cores-bench: %s\n", error->text);
  return false;
}

static atomic_bool gone;

// Runs the job in the room. Afterwards the caller owns the job with its output.
static bool run(struct room *room, const struct kind *kind, const float *scan, int64_t rows, struct job *job,
                double *ms) {
  struct error error;
  int64_t points = kind->points ? kind->points : rows;
  job_init(job, &room->jobs.services);
  job->client = room->client;
  job->spec.id = "bench";
  job->spec.gone = &gone;
  job->spec.done = on_done;
  job->spec.started_ns = job->queued_ns = clock_ns();
  job->deadline_ns = INT64_MAX;
  if (!ask(job, kind, points, &error)) return complain(&error);
  if (!job_acquire_queue_slot(job) || !job_acquire_rows(job, (size_t)(points * kind->clouds) * COLUMNS * sizeof *scan))
    return complain(&job->result.error);
  job_use_rows(job);
  fill(job, kind, scan, rows, points);
  double began_us = timing_now_us();
  if (!jobs_submit(&room->jobs, job)) return false;
  await();
  *ms = (timing_now_us() - began_us) / 1e3;
  return job->result.answered || complain(&job->result.error);
}

// ---- rooms ----------------------------------------------------------------------------------------------------------

static struct watcher watcher = {.lock = LOCK_INITIALIZER};  // without connections

static void on_gpu_lost(void *ctx) { (void)ctx; }

static bool open_room(struct room *room, int64_t workers) {
  struct error error;
  const int64_t limits[SHARES] = {[SHARE_JOBS] = 64,
                                  [SHARE_LONG_JOBS] = 64,
                                  [SHARE_BYTES] = MEMORY,
                                  [SHARE_QUICK_BYTES] = MEMORY,
                                  [SHARE_LONG_BYTES] = MEMORY};
  room->workers = workers;
  room->options = (struct options){.backend = BACKEND_CPU,
                                   .devices = "all",
                                   .workers = workers,
                                   .queue_depth = 64,
                                   .max_response_bytes = MEMORY,
                                   .memory_budget_bytes = MEMORY};
  options_fit(&room->options, workers);
  if (!clients_init(&room->clients, 4, limits)) return false;
  room->client = clients_acquire(&room->clients, "", "192.0.2.1");
  if (jobs_start(&room->jobs, &room->options, &room->clients, &room->counters, &watcher, on_gpu_lost, NULL, &error))
    return true;
  fprintf(stderr, "cores-bench: %s\n", error.text);
  return false;
}

static bool open_rooms(int64_t processors) {
  for (int64_t workers = 1; num_rooms < MOST_ROOMS; workers *= 2) {
    if (!open_room(&rooms[num_rooms++], workers < processors ? workers : processors)) return false;
    if (workers >= processors) break;
  }
  return true;
}

static void close_rooms(void) {
  for (int i = 0; i < num_rooms; i++) {
    jobs_stop(&rooms[i].jobs);
    jobs_join(&rooms[i].jobs);
    clients_release(&rooms[i].clients, rooms[i].client);
    jobs_end(&rooms[i].jobs);
    clients_end(&rooms[i].clients);
  }
}

// ---- measuring ------------------------------------------------------------------------------------------------------

// Runs the job once in each room. Returns false if a run fails, or if its bytes differ from those of one worker.
static bool run_round(const struct kind *kind, const float *scan, int64_t rows, int round) {
  static struct job jobs[MOST_ROOMS];
  bool ok = true;
  for (int i = 0; ok && i < num_rooms; i++) {
    double ms;
    ok = run(&rooms[i], kind, scan, rows, &jobs[i], &ms);
    if (ok && round >= 0) rooms[i].ms[round] = ms;
    if (ok && round >= 0) rooms[i].ratio[round] = rooms[0].ms[round] / ms;
    if (ok && (jobs[i].tensor_layout.bytes != jobs[0].tensor_layout.bytes ||
               memcmp(jobs[i].held.output->data + jobs[i].head_bytes, jobs[0].held.output->data + jobs[0].head_bytes,
                      jobs[0].tensor_layout.bytes) != 0)) {
      fprintf(stderr, "cores-bench: %s: the bytes differ with %lld workers\n", kind->name, (long long)rooms[i].workers);
      ok = false;
    }
  }
  for (int i = 0; i < num_rooms; i++) job_release_buffer(&jobs[i].held.output);
  return ok;
}

struct tasks_done {
  uint64_t tasks, helped;
};

static struct tasks_done tasks_of(const struct room *room) {
  return (struct tasks_done){room->jobs.helpers.tasks, room->jobs.helpers.helped};
}

static bool measure(const struct kind *kind, const float *scan, int64_t rows, int repeat) {
  struct tasks_done before[MOST_ROOMS] = {{0}};
  for (int i = 0; i < num_rooms; i++) before[i] = tasks_of(&rooms[i]);
  for (int round = -WARM_UP; round < repeat; round++)
    if (!run_round(kind, scan, rows, round)) return false;
  for (int i = 0; i < num_rooms; i++) {
    struct tasks_done use = tasks_of(&rooms[i]);
    uint64_t tasks = use.tasks - before[i].tasks, helped = use.helped - before[i].helped;
    printf("%-28s%8lld%12.3f%9.2f%10.0f %%\n", i ? "" : kind->name, (long long)rooms[i].workers,
           timing_median(rooms[i].ms, repeat), timing_median(rooms[i].ratio, repeat),
           tasks ? 100.0 * (double)helped / (double)tasks : 0.0);
  }
  fflush(stdout);
  return true;
}

static float *load(const char *path, int64_t *rows) {
  FILE *file = fopen(path, "rb");
  float *scan = NULL;
  if (file && fseek(file, 0, SEEK_END) == 0) {
    long bytes = ftell(file);
    *rows = bytes / (long)(COLUMNS * sizeof *scan);
    rewind(file);
    scan = *rows > 0 ? malloc((size_t)bytes) : NULL;
    if (scan && fread(scan, COLUMNS * sizeof *scan, (size_t)*rows, file) != (size_t)*rows) {
      free(scan);
      scan = NULL;
    }
  }
  if (file) fclose(file);
  if (!scan) fprintf(stderr, "cores-bench: %s: not read\n", path);
  return scan;
}

int main(int argc, char **argv) {
  int repeat = argc == 3 ? (int)strtol(argv[2], NULL, 10) : 30;
  if (argc < 2 || argc > 3 || repeat < 1 || repeat > MOST_REPEAT) {
    fprintf(stderr, "usage: cores-bench SCAN [ROUNDS]   (raw float32 rows of %d; 1 to %d, 30 if not given)\n", COLUMNS,
            MOST_REPEAT);
    return 2;
  }
  int64_t rows = 0;
  float *scan = load(argv[1], &rows);
  bool ok = scan && open_rooms(limits_processors(""));
  if (ok) printf("%-28s%8s%12s%9s%12s\n", "job", "workers", "median ms", "ratio", "helped");
  for (int kind = 0; ok && kind < KINDS; kind++) ok = measure(&kinds[kind], scan, rows, repeat);
  if (scan && num_rooms) close_rooms();
  free(scan);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
