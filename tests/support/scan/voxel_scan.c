// voxel-scan: writes one simulated lidar scan as raw little-endian float32 rows, the body of a voxelize request. One
// thread. With --points the last turn is thinned evenly, so a cloud of any size keeps a scan's density pattern.
#include "tests/support/scan/scan.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
  const struct scan_sensor *sensor;
  uint64_t seed;
  int columns;
  int64_t points;  // -1: one turn
  const char *output;
  bool traffic;
  const char *labels;  // file name
};

static void usage(FILE *to) {
  fputs("usage: voxel-scan [--sensor NAME] [--seed N] [--columns N] [--points N] [--traffic]\n"
        "                  [--labels FILE] [--output FILE]\n"
        "Writes a simulated lidar scan as raw float32 rows: x y z intensity ring time, then meaningless features.\n"
        "  --sensor NAME   one of these; default: the first\n",
        to);
  for (const struct scan_sensor *sensor = scan_sensors; sensor->name; sensor++)
    fprintf(to, "                    %-9s %s\n", sensor->name, sensor->description);
  fprintf(to,
          "  --seed N        the street and its noise; the same seed gives the same bytes (default 1)\n"
          "  --columns N     floats of a row, %d to %d (default 4)\n"
          "  --points N      exactly N points: a thinned turn, or several turns (default: one whole turn)\n"
          "  --traffic       a street of any width with cars, pedestrians and cyclists of every heading\n"
          "  --labels FILE   with --traffic: each object's box and number of points in the first turn, as CSV\n"
          "  --output FILE   default: standard output\n",
          SCAN_MIN_COLUMNS, SCAN_MAX_COLUMNS);
}

static bool parse_integer(const char *option, const char *text, int64_t low, int64_t high, int64_t *value) {
  char *end;
  errno = 0;
  long long parsed = strtoll(text, &end, 10);
  if (errno || end == text || *end || parsed < low || parsed > high) {
    fprintf(stderr, "voxel-scan: %s is '%s', but must be an integer from %" PRId64 " to %" PRId64 "\n", option, text,
            low, high);
    return false;
  }
  *value = parsed;
  return true;
}

static bool parse_sensor(const char *text, const struct scan_sensor **sensor) {
  *sensor = scan_sensor_named(text);
  if (!*sensor) fprintf(stderr, "voxel-scan: unknown --sensor '%s'; see --help\n", text);
  return *sensor != NULL;
}

// Returns -1 to go on, or the exit status.
static int parse_options(int argc, char **argv, struct options *options) {
  enum { SENSOR = 1, SEED, COLUMNS, POINTS, TRAFFIC, LABELS, OUTPUT, HELP };
  static const struct option table[] = {
      {"sensor", required_argument, NULL, SENSOR},
      {"seed", required_argument, NULL, SEED},
      {"columns", required_argument, NULL, COLUMNS},
      {"points", required_argument, NULL, POINTS},
      {"traffic", no_argument, NULL, TRAFFIC},
      {"labels", required_argument, NULL, LABELS},
      {"output", required_argument, NULL, OUTPUT},
      {"help", no_argument, NULL, HELP},
      {NULL, 0, NULL, 0},
  };
  for (int option; (option = getopt_long(argc, argv, "", table, NULL)) != -1;) {
    int64_t value = 0;
    bool ok = true;
    switch (option) {
      case SENSOR: ok = parse_sensor(optarg, &options->sensor); break;
      case SEED:
        ok = parse_integer("--seed", optarg, 0, INT64_MAX, &value);
        options->seed = (uint64_t)value;
        break;
      case COLUMNS:
        ok = parse_integer("--columns", optarg, SCAN_MIN_COLUMNS, SCAN_MAX_COLUMNS, &value);
        options->columns = (int)value;
        break;
      case POINTS: ok = parse_integer("--points", optarg, 0, INT64_MAX, &options->points); break;
      case TRAFFIC: options->traffic = true; break;
      case LABELS: options->labels = optarg; break;
      case OUTPUT: options->output = optarg; break;
      case HELP: usage(stdout); return EXIT_SUCCESS;
      default: ok = false; break;
    }
    if (!ok) return 2;
  }
  if (optind == argc && options->labels && !options->traffic) {
    fputs("voxel-scan: --labels needs --traffic; see --help\n", stderr);
    return 2;
  }
  if (optind == argc) return -1;
  fprintf(stderr, "voxel-scan: unexpected argument '%s'; see --help\n", argv[optind]);
  return 2;
}

// Writes `wanted` of the `count` points, evenly spread and in order.
static bool write_rows(FILE *file, const struct scan_point *points, size_t count, size_t wanted, int columns) {
  float row[SCAN_MAX_COLUMNS];
  for (size_t i = 0; i < count; i++) {
    if ((i + 1) * wanted / count == i * wanted / count) continue;
    scan_row(&points[i], columns, row);
    if (fwrite(row, sizeof row[0], (size_t)columns, file) != (size_t)columns) return false;
  }
  return true;
}

// Writes a line for each label, with the number of points on it.
static bool write_labels(const char *path, const struct scan_scene *scene, const struct scan_point *points,
                         size_t count) {
  int on_label[SCAN_MAX_LABELS + 1] = {0};
  for (size_t i = 0; i < count; i++) on_label[points[i].label]++;
  FILE *file = fopen(path, "w");
  if (!file) return false;
  bool ok = fputs("class,x,y,z,dx,dy,dz,heading,points\n", file) >= 0;
  for (int i = 0; i < scene->num_labels; i++) {
    const struct scan_label *label = &scene->labels[i];
    const double *c = label->centre, *s = label->size;
    ok = fprintf(file, "%s,%.4f,%.4f,%.4f,%.4f,%.4f,%.4f,%.5f,%d\n", scan_class_name(label->kind), c[0], c[1], c[2],
                 s[0], s[1], s[2], label->heading, on_label[i + 1]) >= 0 &&
         ok;
  }
  return fclose(file) == 0 && ok;
}

static bool write_scan(const struct options *options, FILE *file) {
  const struct scan_sensor *sensor = options->sensor;
  struct scan_scene *scene = malloc(sizeof *scene);
  struct scan_point *points = calloc((size_t)sensor->beams * (size_t)sensor->steps, sizeof *points);
  bool ok = scene && points;
  if (ok) (options->traffic ? scan_traffic_make : scan_scene_make)(sensor, options->seed, scene);
  int64_t left = options->points;
  for (int64_t turn = 0; ok && (turn == 0 || left > 0); turn++) {
    size_t count = scan_turn(sensor, scene, turn, points);
    if (count == 0) {  // no street gives this; without the check the loop would not end
      errno = ENODATA;
      ok = false;
      break;
    }
    if (turn == 0 && options->labels) ok = write_labels(options->labels, scene, points, count);
    size_t wanted = options->points < 0 || (uint64_t)left > count ? count : (size_t)left;
    ok = ok && write_rows(file, points, count, wanted, options->columns);
    left -= (int64_t)wanted;
  }
  free(points);
  free(scene);
  return ok;
}

int main(int argc, char **argv) {
  struct options options = {.sensor = &scan_sensors[0], .seed = 1, .columns = 4, .points = -1};
  int status = parse_options(argc, argv, &options);
  if (status >= 0) return status;

  FILE *file = options.output ? fopen(options.output, "wb") : stdout;
  bool ok = file && write_scan(&options, file);
  int error = errno;
  if (file && fclose(file) != 0 && ok) {  // fclose writes the last bytes
    error = errno;
    ok = false;
  }
  if (ok) return EXIT_SUCCESS;
  fprintf(stderr, "voxel-scan: cannot write %s: %s\n", options.output ? options.output : "standard output",
          strerror(error));
  return EXIT_FAILURE;
}
