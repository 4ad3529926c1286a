// voxel-bench: how long the kernels and a plain sequential voxelizer take on a folder of scans, without HTTP.
//
// Prints device information, the average time per scan and the speed-up, for every backend that has a device.
// Parameters are the service's (api/ops/ops.h) and start from the preset voxelize_cuda. --all prints no averages but
// the times of each scan, for every preset whose rows have --columns columns. One thread. The exit status is 1 if
// results disagree.
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/presets.h"
#include "api/query.h"
#include "tests/measure/bench/bench_run.h"
#include "tests/measure/bench/samples.h"

enum { MAX_BACKENDS = 4, MAX_SETTINGS = QUERY_MAX_ITEMS, WARM_UP = 3, PLAIN_WARM_UP = 1 };

// A program option for a parameter of the service.
static const struct {
  const char *option, *parameter;
} aliases[] = {
    {"preset", "preset"},
    {"columns", "num_features"},
    {"range", "point_cloud_range"},
    {"voxel-size", "voxel_size"},
    {"max-points", "max_points_per_voxel"},
    {"max-voxels", "max_voxels"},
    {"feature", "feature"},
    {"feature-dtype", "feature_dtype"},
};
enum { NUM_ALIASES = sizeof aliases / sizeof *aliases };

struct options {
  struct query query;  // given parameters, by the service's names
  int repeat, plain_repeat;
  int64_t plain_memory;  // maximum bytes of the plain voxelizer's grid
  bool verbose, plain, all;
};

struct bench {
  struct options options;
  struct presets *presets;
  struct bench_backend open[MAX_BACKENDS];
  int num_open;
  struct bench_scan *scans;
  int num_scans;
  bool disagreed;
};

// The times of one set of parameters on one scan. A negative median means not measured.
struct row {
  struct bench_result backend[MAX_BACKENDS], plain;
};

static void usage(FILE *to) {
  fprintf(to,
          "usage: voxel-bench [OPTION]... FILE_OR_FOLDER...\n"
          "Times the voxelization of raw float32 scans (a folder stands for its *.bin files), one thread, no HTTP.\n"
          "  --preset NAME            parameters to start from (default voxelize_cuda)\n");
  for (int i = 1; i < NUM_ALIASES; i++)
    fprintf(to, "  --%-13s VALUE    parameter %s\n", aliases[i].option, aliases[i].parameter);
  fprintf(to,
          "  --set NAME=VALUE         any other parameter of the service\n"
          "  --all                    every preset of --columns columns (default 4), one table\n"
          "  --cpu                    also the plain sequential voxelizer, as the baseline; results must agree\n"
          "  --plain-memory-mb N      no plain voxelizer if its dense grid is larger (default 4096)\n"
          "  --repeat N               runs measured for each scan, up to %d (default 20)\n"
          "  --plain-repeat N         the same for the plain voxelizer (default 3)\n"
          "  --verbose                a line for each file, with the time of each stage\n",
          BENCH_MAX_REPEAT);
}

// ---- Options --------------------------------------------------------------------------------------------------------

static bool add_setting(struct options *options, const char *name, size_t name_length, const char *value) {
  if (options->query.count == MAX_SETTINGS) {
    fprintf(stderr, "voxel-bench: more than %d parameters\n", MAX_SETTINGS);
    return false;
  }
  options->query.items[options->query.count++] =
      (struct query_item){.name = name, .name_length = name_length, .value = value, .value_length = strlen(value)};
  return true;
}

static bool add_assignment(struct options *options, const char *text) {
  const char *equals = strchr(text, '=');
  if (equals) return add_setting(options, text, (size_t)(equals - text), equals + 1);
  fprintf(stderr, "voxel-bench: --set is '%s', but must be NAME=VALUE\n", text);
  return false;
}

static bool parse_count(const char *option, const char *text, long high, long *value) {
  char *end;
  errno = 0;
  *value = strtol(text, &end, 10);
  if (!errno && end != text && !*end && *value >= 1 && *value <= high) return true;
  fprintf(stderr, "voxel-bench: --%s is '%s', but must be an integer from 1 to %ld\n", option, text, high);
  return false;
}

static const char *setting(const struct options *options, const char *name) {
  for (size_t i = 0; i < options->query.count; i++) {
    const struct query_item *item = &options->query.items[i];
    if (item->name_length == strlen(name) && memcmp(item->name, name, item->name_length) == 0) return item->value;
  }
  return NULL;
}

// Returns -1 to go on, or the exit status.
static int parse_options(int argc, char **argv, struct options *options) {
  enum { SET = NUM_ALIASES, ALL, CPU, PLAIN_MEMORY, REPEAT, PLAIN_REPEAT, VERBOSE, HELP, NUM_OPTIONS };
  struct option table[NUM_OPTIONS + 1] = {
      [SET] = {"set", required_argument, NULL, SET},
      [ALL] = {"all", no_argument, NULL, ALL},
      [CPU] = {"cpu", no_argument, NULL, CPU},
      [PLAIN_MEMORY] = {"plain-memory-mb", required_argument, NULL, PLAIN_MEMORY},
      [REPEAT] = {"repeat", required_argument, NULL, REPEAT},
      [PLAIN_REPEAT] = {"plain-repeat", required_argument, NULL, PLAIN_REPEAT},
      [VERBOSE] = {"verbose", no_argument, NULL, VERBOSE},
      [HELP] = {"help", no_argument, NULL, HELP},
  };
  for (int i = 0; i < NUM_ALIASES; i++) table[i] = (struct option){aliases[i].option, required_argument, NULL, i};
  for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
    long value = 0;
    bool ok = true;
    switch (option) {
      case SET: ok = add_assignment(options, optarg); break;
      case ALL: options->all = true; break;
      case CPU: options->plain = true; break;
      case VERBOSE: options->verbose = true; break;
      case PLAIN_MEMORY:
        ok = parse_count("plain-memory-mb", optarg, 1L << 24, &value);
        options->plain_memory = (int64_t)value << 20;
        break;
      case REPEAT:
        ok = parse_count("repeat", optarg, BENCH_MAX_REPEAT, &value);
        options->repeat = (int)value;
        break;
      case PLAIN_REPEAT:
        ok = parse_count("plain-repeat", optarg, BENCH_MAX_REPEAT, &value);
        options->plain_repeat = (int)value;
        break;
      case HELP: usage(stdout); return EXIT_SUCCESS;
      case '?': return 2;
      default: ok = add_setting(options, aliases[option].parameter, strlen(aliases[option].parameter), optarg); break;
    }
    if (!ok) return 2;
  }
  if (optind < argc) return -1;
  usage(stderr);
  return 2;
}

// ---- Scans ----------------------------------------------------------------------------------------------------------

static bool add_scan(struct bench *bench, const char *path, size_t row_bytes) {
  struct bench_scan *grown = realloc(bench->scans, (size_t)(bench->num_scans + 1) * sizeof *grown);
  if (!grown) {
    perror("voxel-bench");
    return false;
  }
  bench->scans = grown;
  return bench_load(path, row_bytes, &bench->scans[bench->num_scans]) && ++bench->num_scans;
}

static int is_scan(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return length > 4 && strcmp(entry->d_name + length - 4, ".bin") == 0;
}

static bool add_folder(struct bench *bench, const char *folder, size_t row_bytes) {
  struct dirent **entries;
  int count = scandir(folder, &entries, is_scan, alphasort);
  if (count < 0) {
    fprintf(stderr, "voxel-bench: %s: %s\n", folder, strerror(errno));
    return false;
  }
  bool ok = true;
  for (int i = 0; i < count; i++) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    ok = ok && length < (int)sizeof path && add_scan(bench, path, row_bytes);
    free(entries[i]);
  }
  free(entries);
  return ok;
}

static bool add_path(struct bench *bench, const char *path, size_t row_bytes) {
  struct stat status;
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) return add_folder(bench, path, row_bytes);
  return add_scan(bench, path, row_bytes);
}

// ---- Measuring ------------------------------------------------------------------------------------------------------

// Opens the plain voxelizer for `asked`. Returns false without --cpu. Returns false with the reason on standard error
// if the plain voxelizer does not support `asked` or its grid needs more than --plain-memory-mb.
static bool open_plain(const struct bench *bench, const struct vx_job *asked, struct plain_voxelizer *plain) {
  if (!bench->options.plain) return false;
  int64_t bytes = plain_grid_bytes(asked);
  if (bytes > bench->options.plain_memory) {
    fprintf(stderr, "voxel-bench: no plain voxelizer here: its grid needs %" PRId64 " MB, over --plain-memory-mb\n",
            bytes >> 20);
    return false;
  }
  struct error error;
  if (plain_open(asked, plain, &error)) return true;
  fprintf(stderr, "voxel-bench: no plain voxelizer here: %s\n", error.text);
  return false;
}

static void note(const struct bench_result *result, const struct bench_result *plain, const char *first,
                 const struct bench_scan *scan, const char *who) {
  const struct bench_timing *times[] = {&result->wall, &result->processor},
                            *plain_times[] = {&plain->wall, &plain->processor};
  static const char *const kinds[] = {"", ", processor time"};
  for (int i = 0; i < 2; i++) {
    struct samples_limit limit = {plain == result ? 0.0 : plain_times[i]->median_ms, "plain voxelizer"};
    samples_note(times[i]->ms, times[i]->count, "ms", limit, "%s on %s, %s%s", first, scan->name, who, kinds[i]);
  }
}

static bool measure_scan(struct bench *bench, const char *first, const struct vx_job *asked,
                         struct plain_voxelizer *plain, const struct bench_scan *scan, struct row *row) {
  row->plain.wall.median_ms = row->plain.processor.median_ms = -1.0;
  if (plain && !bench_plain_run(plain, scan, PLAIN_WARM_UP, bench->options.plain_repeat, &row->plain)) return false;
  if (plain) note(&row->plain, &row->plain, first, scan, "plain");
  for (int b = 0; b < bench->num_open; b++) {
    struct bench_backend *backend = &bench->open[b];
    if (plain && !bench_agree(backend, plain, scan)) bench->disagreed = true;
    if (!bench_backend_run(backend, asked, scan, WARM_UP, bench->options.repeat, &row->backend[b])) return false;
    note(&row->backend[b], &row->plain, first, scan, backend->table->name);
  }
  return true;
}

// Measures one set of parameters on every scan. `first` is the set's name in tables and reports. `rows`: one per scan.
static bool measure(struct bench *bench, const char *first, const struct vx_job *asked, struct row *rows) {
  struct plain_voxelizer memory, *plain = open_plain(bench, asked, &memory) ? &memory : NULL;
  bool ok = true;
  for (int s = 0; ok && s < bench->num_scans; s++)
    ok = measure_scan(bench, first, asked, plain, &bench->scans[s], &rows[s]);
  if (plain) plain_close(plain);
  return ok;
}

// ---- Tables ---------------------------------------------------------------------------------------------------------

static void print_number(double value, const char *format) {
  if (value >= 0.0)
    printf(format, value);
  else
    printf("%12s", "-");
}

static void print_head(const struct bench *bench, const char *first) {
  printf("%-31s%-26s%9s%9s", first, "scan", "points", "voxels");
  for (int b = 0; b < bench->num_open; b++) {
    char title[64];
    snprintf(title, sizeof title, "%s ms", bench->open[b].table->name);
    printf("%12s%12s", title, "min");
  }
  if (bench->options.plain) printf("%12s%12s", "plain ms", "min");
  for (int b = 0; bench->options.plain && b < bench->num_open; b++)
    printf("%7s/%-4s", "plain", bench->open[b].table->name);
  putchar('\n');
}

static void print_row(const struct bench *bench, const char *first, const struct bench_scan *scan,
                      const struct row *row) {
  printf("%-31s%-26s%9d%9" PRId64, first, scan->name, scan->rows, row->backend[0].voxels);
  for (int b = 0; b < bench->num_open; b++)
    printf("%12.3f%12.3f", row->backend[b].wall.median_ms, row->backend[b].wall.min_ms);
  if (bench->options.plain) {
    double median = row->plain.wall.median_ms;
    print_number(median, "%12.3f");
    print_number(median < 0.0 ? -1.0 : row->plain.wall.min_ms, "%12.3f");
    for (int b = 0; b < bench->num_open; b++)
      print_number(median < 0.0 ? -1.0 : median / row->backend[b].wall.median_ms, "%12.1f");
  }
  putchar('\n');
}

static void print_stages(const struct bench *bench, const struct row *row) {
  for (int b = 0; b < bench->num_open; b++) {
    printf("  %s stages, ms:", bench->open[b].table->name);
    for (int s = 0; s < VX_STAGE_COUNT; s++) printf(" %s %.3f", vx_stage_names[s], row->backend[b].stage_ms[s]);
    putchar('\n');
  }
}

// The averages of one backend's medians and minima over all scans.
static struct bench_timing backend_average(const struct bench *bench, const struct row *rows, int b) {
  struct bench_timing sum = {0};
  for (int s = 0; s < bench->num_scans; s++) {
    sum.median_ms += rows[s].backend[b].wall.median_ms / bench->num_scans;
    sum.min_ms += rows[s].backend[b].wall.min_ms / bench->num_scans;
  }
  return sum;
}

// The average of the plain voxelizer's medians; -1 if it was not measured.
static double plain_average(const struct bench *bench, const struct row *rows) {
  double sum = 0.0;
  for (int s = 0; s < bench->num_scans; s++) {
    if (rows[s].plain.wall.median_ms < 0.0) return -1.0;
    sum += rows[s].plain.wall.median_ms / bench->num_scans;
  }
  return sum;
}

// One line per competitor. The speed-up is relative to the plain voxelizer or, without it, to the last backend, the
// CPU.
static void print_average(const struct bench *bench, const struct row *rows) {
  double plain = plain_average(bench, rows),
         base = plain > 0.0 ? plain : backend_average(bench, rows, bench->num_open - 1).median_ms;
  printf("\naverage of %d scans, one thread: medians and minima of %d runs\n", bench->num_scans, bench->options.repeat);
  printf("%-12s%12s%12s%12s\n", "", "ms a scan", "min", "speed-up");
  if (plain > 0.0) printf("%-12s%12.3f%12s%12.1f\n", "plain", plain, "", 1.0);
  for (int b = 0; b < bench->num_open; b++) {
    struct bench_timing average = backend_average(bench, rows, b);
    printf("%-12s%12.3f%12.3f%12.1f\n", bench->open[b].table->name, average.median_ms, average.min_ms,
           base / average.median_ms);
  }
}

static void print_devices(const struct bench *bench) {
  for (int b = 0; b < bench->num_open; b++) {
    const struct vx_description *device = &bench->open[b].description;
    printf("%s: %s", bench->open[b].table->name, device->name);
    if (device->memory_bytes > 0) printf(", %" PRId64 " MB", device->memory_bytes >> 20);
    if (device->compute_capability > 0)
      printf(", compute capability %d.%d", device->compute_capability / 10, device->compute_capability % 10);
    putchar('\n');
  }
}

static void print_parameters(const struct job_request *request) {
  char memory[8192];
  struct text text = text_over(memory, sizeof memory);
  job_request_write(request, &text);
  printf("parameters: %s\n\n", memory);
}

// ---- The two ways to run --------------------------------------------------------------------------------------------

static bool run_one(struct bench *bench, struct job_request *request, struct row *rows) {
  struct error error;
  print_parameters(request);
  if (!job_request_split(request, bench->scans[0].rows, &error)) {  // binds the steps
    fprintf(stderr, "voxel-bench: %s\n", error.text);
    return false;
  }
  const struct vx_job job = job_request_job(request, NULL);
  if (!measure(bench, request->preset, &job, rows)) return false;
  if (bench->options.verbose) print_head(bench, "preset");
  for (int s = 0; bench->options.verbose && s < bench->num_scans; s++) {
    print_row(bench, request->preset, &bench->scans[s], &rows[s]);
    print_stages(bench, &rows[s]);
  }
  print_average(bench, rows);
  return true;
}

static bool run_all(struct bench *bench, int32_t columns, struct row *rows) {
  print_head(bench, "preset");
  for (size_t i = 0; i < presets_count(bench->presets); i++) {
    const struct preset *preset = presets_at(bench->presets, i);
    const struct vx_job *asked = &presets_request(preset)->job;
    if (asked->op != VX_VOXELIZE || asked->inputs[VX_POINTS].dims[1] != columns ||
        asked->inputs[VX_POINTS].dtype != VX_FLOAT32)
      continue;
    if (!measure(bench, preset_name(preset), asked, rows)) return false;
    for (int s = 0; s < bench->num_scans; s++) {
      print_row(bench, preset_name(preset), &bench->scans[s], &rows[s]);
      if (bench->options.verbose) print_stages(bench, &rows[s]);
    }
  }
  return true;
}

static bool run(struct bench *bench, int num_paths, char **paths) {
  static struct job_request request;
  struct error error;
  if (!setting(&bench->options, "preset") && !add_setting(&bench->options, "preset", 6, "voxelize_cuda")) return false;
  if (!job_request_from_query(&request, VX_VOXELIZE, &bench->options.query, &(const struct named){bench->presets, NULL},
                              &error)) {
    fprintf(stderr, "voxel-bench: %s\n", error.text);
    return false;
  }
  if (request.num_clouds > 0) {
    fprintf(stderr, "voxel-bench: point_counts has no meaning here: each file is one cloud\n");
    return false;
  }
  for (int i = 0; i < num_paths; i++)
    if (!add_path(bench, paths[i], job_request_row_bytes(&request))) return false;
  // Backends without a device are listed and skipped.
  for (int i = 0; vx_backends[i] && bench->num_open < MAX_BACKENDS; i++)
    if (bench_open(vx_backends[i], &bench->open[bench->num_open])) bench->num_open++;
  struct row *rows = calloc((size_t)bench->num_scans + 1, sizeof *rows);
  bool ok = rows && bench->num_scans > 0 && bench->num_open > 0;
  if (!ok) fprintf(stderr, "voxel-bench: %s\n", bench->num_scans == 0 ? "no *.bin file there" : "no backend to run");
  if (ok) print_devices(bench);
  if (ok) ok = bench->options.all ? run_all(bench, request.num_features, rows) : run_one(bench, &request, rows);
  free(rows);
  return ok;
}

int main(int argc, char **argv) {
  static struct bench bench = {.options = {.repeat = 20, .plain_repeat = 3, .plain_memory = INT64_C(4096) << 20}};
  int status = parse_options(argc, argv, &bench.options);
  if (status >= 0) return status;

  struct error error;
  bench.presets = presets_load("", &error);
  if (!bench.presets) fprintf(stderr, "voxel-bench: %s\n", error.text);
  bool ok = bench.presets && run(&bench, argc - optind, argv + optind) && !bench.disagreed;

  for (int b = 0; b < bench.num_open; b++) bench_close(&bench.open[b]);
  for (int s = 0; s < bench.num_scans; s++) bench_unload(&bench.scans[s]);
  free(bench.scans);
  if (bench.presets) presets_close(bench.presets);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
