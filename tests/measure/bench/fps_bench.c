// fps-bench: how long exact farthest point sampling takes on one thread of the CPU, compared with the plain loop.
//
// Each case is a number of points, strided evenly from a scan, and a number of samples. --worst uses clouds that are
// made to be hard. With --plain, the exit status is 1 if results disagree.
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/fps/fps.h"
#include "tests/measure/bench/bench_run.h"
#include "tests/measure/bench/plain_sampler.h"
#include "tests/measure/bench/samples.h"

enum { MAX_CASES = 16, WARM_UP = 2 };

struct options {
  int32_t points[MAX_CASES], samples[MAX_CASES];  // 0 points: the whole scan
  int cases, columns, start, repeat, plain_repeat;
  bool plain, worst;
  const char *output;  // file for the indices of the last case
};

struct fps_bench {
  struct options options;
  struct cpu_arena arena;
  bool disagreed;
};

static void usage(FILE *to) {
  fprintf(to,
          "usage: fps-bench [OPTION]... FILE...\n"
          "Times exact farthest point sampling of raw float32 scans, one thread.\n"
          "  --case POINTS:SAMPLES  points, evenly strided (0 = all), and samples of them; may be repeated\n"
          "                         (default 16384:2048, 0:2048, 0:16384)\n"
          "  --start N              the first sample (default 0)\n"
          "  --columns N            columns of the scans (default 4)\n"
          "  --worst                clouds that are made to be hard, in place of files\n"
          "  --plain                also the plain loop over all points; results must agree\n"
          "  --repeat N             runs measured for each case, up to %d (default 15)\n"
          "  --plain-repeat N       the same for the plain loop (default 1)\n"
          "  --output FILE          write the indices of the last case, int32\n",
          BENCH_MAX_REPEAT);
}

// ---- Options -------------------------------------------------------------------------------------------------------

static bool add_case(struct options *options, const char *text) {
  char *colon, *end;
  long points = strtol(text, &colon, 10), samples = *colon == ':' ? strtol(colon + 1, &end, 10) : 0;
  if (samples < 1 || *end || points < 0 || samples > INT32_MAX || points > INT32_MAX || options->cases == MAX_CASES) {
    fprintf(stderr, "fps-bench: --case is '%s', but must be POINTS:SAMPLES, at most %d times\n", text, MAX_CASES);
    return false;
  }
  options->points[options->cases] = (int32_t)points;
  options->samples[options->cases++] = (int32_t)samples;
  return true;
}

static bool parse_count(const char *option, const char *text, long low, long high, int *value) {
  char *end;
  long parsed = strtol(text, &end, 10);
  *value = (int)parsed;
  if (end != text && !*end && parsed >= low && parsed <= high) return true;
  fprintf(stderr, "fps-bench: --%s is '%s', but must be an integer from %ld to %ld\n", option, text, low, high);
  return false;
}

// Returns -1 to go on, else the exit status.
static int parse_options(int argc, char **argv, struct options *options) {
  enum { CASE = 256, START, COLUMNS, WORST, PLAIN, REPEAT, PLAIN_REPEAT, OUTPUT, HELP };
  static const struct option known[] = {
      {"case", required_argument, NULL, CASE},
      {"start", required_argument, NULL, START},
      {"columns", required_argument, NULL, COLUMNS},
      {"worst", no_argument, NULL, WORST},
      {"plain", no_argument, NULL, PLAIN},
      {"repeat", required_argument, NULL, REPEAT},
      {"plain-repeat", required_argument, NULL, PLAIN_REPEAT},
      {"output", required_argument, NULL, OUTPUT},
      {"help", no_argument, NULL, HELP},
      {0},
  };
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    bool ok = true;
    switch (option) {
      case CASE: ok = add_case(options, optarg); break;
      case START: ok = parse_count("start", optarg, 0, INT32_MAX, &options->start); break;
      case COLUMNS: ok = parse_count("columns", optarg, VX_MIN_FEATURES, VX_MAX_FEATURES, &options->columns); break;
      case WORST: options->worst = true; break;
      case PLAIN: options->plain = true; break;
      case REPEAT: ok = parse_count("repeat", optarg, 1, BENCH_MAX_REPEAT, &options->repeat); break;
      case PLAIN_REPEAT: ok = parse_count("plain-repeat", optarg, 1, BENCH_MAX_REPEAT, &options->plain_repeat); break;
      case OUTPUT: options->output = optarg; break;
      case HELP: usage(stdout); return EXIT_SUCCESS;
      default: usage(stderr); return 2;
    }
    if (!ok) return 2;
  }
  if ((optind == argc) != options->worst) {
    usage(stderr);
    return 2;
  }
  if (options->cases > 0) return -1;
  bool ok = add_case(options, "16384:2048") && add_case(options, "0:2048") && add_case(options, "0:16384");
  return ok ? -1 : 2;
}

// ---- Measuring -----------------------------------------------------------------------------------------------------

static bool run_ours(struct fps_bench *bench, const struct cpu_sample_task *task, struct bench_timing *timing) {
  static double ms[BENCH_MAX_REPEAT];
  struct error error;
  for (int i = -WARM_UP; i < bench->options.repeat; i++) {
    struct cpu_sampler sampler;
    struct cpu_arena measured = {0};
    double begin = bench_now_ms();
    cpu_sampler_lay_out(&sampler, &measured, task->num_points);
    if (cpu_arena_reserve(&bench->arena, &measured, &(const struct vx_job){.num_clouds = 1}, &error) != VX_OK) {
      fprintf(stderr, "fps-bench: %s\n", error.text);
      return false;
    }
    cpu_sampler_lay_out(&sampler, &bench->arena, task->num_points);
    if (!cpu_sample(&sampler, task)) return false;
    if (i >= 0) ms[i] = bench_now_ms() - begin;
  }
  *timing = bench_timing_of(ms, bench->options.repeat);
  return true;
}

static struct bench_timing run_plain(const struct fps_bench *bench, const struct cpu_sample_task *task,
                                     float *nearest) {
  static double ms[BENCH_MAX_REPEAT];
  for (int i = 0; i < bench->options.plain_repeat; i++) {
    double begin = bench_now_ms();
    plain_sample(task->points, task->columns, task->num_points, task->num_samples, task->start, nearest, task->indices,
                 task->distances);
    ms[i] = bench_now_ms() - begin;
  }
  return bench_timing_of(ms, bench->options.plain_repeat);
}

static bool write_indices(const char *path, const struct cpu_sample_task *task) {
  FILE *file = fopen(path, "wb");
  size_t count = (size_t)task->num_samples;
  bool ok = file && fwrite(task->indices, sizeof *task->indices, count, file) == count;
  if (file && fclose(file)) ok = false;
  if (!ok) perror(path);
  return ok;
}

static bool measure(struct fps_bench *bench, const char *name, const float *points, int32_t columns, int32_t count,
                    int32_t samples) {
  size_t most = (size_t)samples;
  float *nearest = calloc((size_t)count, sizeof *nearest), *distances = calloc(2 * most, sizeof *distances);
  int32_t *indices = calloc(2 * most, sizeof *indices);
  struct vx_stop never = {0};
  struct cpu_sample_task task = {.points = points,
                                 .columns = columns,
                                 .num_points = count,
                                 .num_samples = samples,
                                 .start = bench->options.start < count ? bench->options.start : 0,
                                 .stop = &never,
                                 .indices = indices,
                                 .distances = distances};
  struct bench_timing ours;
  bool ok = nearest && distances && indices && run_ours(bench, &task, &ours);
  if (ok) printf("%-24s%10d%9d%11.3f%11.3f", name, count, samples, ours.median_ms, ours.min_ms);
  if (ok)
    samples_note(ours.ms, ours.count, "ms", (struct samples_limit){0}, "%d samples of %d points, %s", samples, count,
                 name);
  if (ok && bench->options.output) ok = write_indices(bench->options.output, &task);
  if (ok && bench->options.plain) {
    task.indices = indices + most;
    task.distances = distances + most;
    struct bench_timing plain = run_plain(bench, &task, nearest);
    bool agree = !memcmp(indices, indices + most, most * sizeof *indices) &&
                 !memcmp(distances, distances + most, most * sizeof *distances);
    bench->disagreed |= !agree;
    printf("%11.1f%9.1f  %s", plain.median_ms, plain.median_ms / ours.median_ms, agree ? "the same" : "DIFFERENT");
  }
  if (ok) puts("");
  fflush(stdout);
  free(nearest);
  free(distances);
  free(indices);
  return ok;
}

// ---- Clouds --------------------------------------------------------------------------------------------------------

static bool run_file(struct fps_bench *bench, const char *path) {
  struct bench_scan scan;
  size_t row = (size_t)bench->options.columns * sizeof(float);
  if (!bench_load(path, row, &scan)) return false;
  bool ok = true;
  for (int i = 0; ok && i < bench->options.cases; i++) {
    int32_t wanted = bench->options.points[i], count = wanted && wanted < scan.rows ? wanted : scan.rows;
    int32_t samples = bench->options.samples[i] < count ? bench->options.samples[i] : count;
    unsigned char *strided = malloc(row * (size_t)count + 1);
    for (int32_t p = 0; strided && p < count; p++)
      memcpy(strided + row * (size_t)p, (char *)scan.points + row * (size_t)((int64_t)scan.rows * p / count), row);
    ok = strided && count > 0 &&
         measure(bench, scan.name, (float *)(void *)strided, bench->options.columns, count, samples);
    free(strided);
  }
  bench_unload(&scan);
  return ok;
}

struct noise {
  uint64_t state;
};

static float noise(struct noise *noise) {
  noise->state = noise->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(noise->state >> 40) / (1 << 24);
}

// Each function fills one point of a cloud.
static void fill_equal(float *p, int32_t i, struct noise *state) { (void)i, (void)state, p[0] = p[1] = p[2] = 1; }
static void fill_line(float *p, int32_t i, struct noise *state) { (void)state, p[0] = (float)i, p[1] = p[2] = 0; }
static void fill_diagonal(float *p, int32_t i, struct noise *state) { (void)i, p[0] = p[1] = p[2] = noise(state); }
static void fill_grid(float *p, int32_t i, struct noise *state) {
  int32_t layer = i / (48 * 48), row = i / 48 % 48;
  (void)state, p[0] = (float)(i % 48), p[1] = (float)row, p[2] = (float)layer;
}
static void fill_cube(float *p, int32_t i, struct noise *state) {
  (void)i;
  for (int a = 0; a < 3; a++) p[a] = noise(state);
}
static void fill_sphere(float *p, int32_t i, struct noise *state) {
  double z = 2 * noise(state) - 1, angle = 6.283185307 * noise(state), r = sqrt(1 - z * z);
  (void)i, p[0] = (float)(r * cos(angle)), p[1] = (float)(r * sin(angle)), p[2] = (float)z;
}
// A few far points, and the rest in one place: almost all points have nearly the same distance from a far sample.
static void fill_outliers(float *p, int32_t i, struct noise *state) {
  for (int a = 0; a < 3; a++) p[a] = noise(state) * (i % 50 == 0 ? 1e6f : 1.0f);
}
// Scales from 1e-18 to 1e18.
static void fill_scales(float *p, int32_t i, struct noise *state) {
  float scale = powf(10, 36 * noise(state) - 18);
  (void)i;
  for (int a = 0; a < 3; a++) p[a] = noise(state) * scale;
}
static void fill_duplicates(float *p, int32_t i, struct noise *state) {
  for (int a = 0; a < 3; a++) p[a] = i % 10 ? 0.5f : noise(state);
}

static const struct {
  const char *name;
  void (*fill)(float *p, int32_t i, struct noise *state);
} clouds[] = {
    {"all equal", fill_equal},   {"line", fill_line},     {"diagonal", fill_diagonal},
    {"grid", fill_grid},         {"cube", fill_cube},     {"sphere", fill_sphere},
    {"outliers", fill_outliers}, {"scales", fill_scales}, {"nine of ten equal", fill_duplicates},
};

static bool run_worst(struct fps_bench *bench) {
  const int32_t sizes[][2] = {{110592, 16}, {110592, 2048}, {2000000, 64}, {20000, 20000}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    for (size_t c = 0; c < sizeof clouds / sizeof *clouds; c++) {
      struct noise state = {1};
      float *points = calloc((size_t)sizes[s][0], 3 * sizeof *points);
      for (int32_t i = 0; points && i < sizes[s][0]; i++) clouds[c].fill(points + (size_t)i * 3, i, &state);
      bool ok = points && measure(bench, clouds[c].name, points, 3, sizes[s][0], sizes[s][1]);
      free(points);
      if (!ok) return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  static struct fps_bench bench = {.options = {.columns = 4, .repeat = 15, .plain_repeat = 1}};
  int status = parse_options(argc, argv, &bench.options);
  if (status >= 0) return status;
  printf("%-24s%10s%9s%11s%11s", "cloud", "points", "samples", "median ms", "min ms");
  puts(bench.options.plain ? "   plain ms    ratio  results" : "");
  bool ok = !bench.options.worst || run_worst(&bench);
  for (int i = optind; ok && i < argc; i++) ok = run_file(&bench, argv[i]);
  cpu_arena_trim(&bench.arena, 0);
  return ok && !bench.disagreed ? EXIT_SUCCESS : EXIT_FAILURE;
}
