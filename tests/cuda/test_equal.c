// Checks that the CUDA backend writes the same bytes as the CPU backend.
//
//   cuda-equal [--jobs N] [--samplings N] [--seed N] [--largest POINTS] [--no-lanes] [--no-regions]
//              [DIRECTORY]
//
// Runs every preset of voxelize, with changes, on the scans of DIRECTORY (raw float32 files, see ../shared/data). Then
// runs N random jobs of every kind, of some kinds several times as many; --samplings replaces N for the jobs that
// sample points. All run on one lane of each backend, so each job finds what the last one left. Then tests pinned
// memory and lanes. Prints a line per difference and one summary line. Exits with 1 if anything differed, with 77
// without a device.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/presets.h"
#include "kernels/backends.h"
#include "kernels/ops.h"
#include "tests/cuda/equal.h"

static const struct file {
  const char *name;
  int32_t columns;
} files[] = {{"kitti_raw_00", 4},   {"kitti_raw_03", 4},     {"kitti_raw_06", 4}, {"kitti_raw_09", 4},
             {"kitti_fov_0", 4},    {"kitti_fov_1", 4},      {"kitti_fov_2", 4},  {"kitti_fov_3", 4},
             {"nuscenes_sweep", 5}, {"nuscenes_10sweeps", 5}};
enum { NUM_FILES = sizeof files / sizeof files[0] };

static bool load(const char *directory, const struct file *file, struct scan *scan) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s.bin", directory, file->name);
  FILE *stream = fopen(path, "rb");
  if (stream == NULL) return false;
  fseek(stream, 0, SEEK_END);
  size_t bytes = (size_t)ftell(stream);
  rewind(stream);
  snprintf(scan->name, sizeof scan->name, "%s", file->name);
  scan->points = malloc(bytes);
  scan->columns = file->columns;
  scan->num_points = (int64_t)(bytes / 4 / (size_t)file->columns);
  scan->num_clouds = 1;
  scan->counts[0] = (int32_t)scan->num_points;
  bool whole = scan->points != NULL && fread(scan->points, 1, bytes, stream) == bytes;
  fclose(stream);
  return whole;
}

static struct scan scans[NUM_FILES];

static int load_all(const char *directory) {
  int loaded = 0;
  for (int i = 0; i < NUM_FILES; i++) loaded += load(directory, &files[i], &scans[loaded]);
  return loaded;
}

static struct vx_job variant_of(const struct vx_job *asked, int variant) {
  struct vx_job changed = *asked;
  struct vx_voxelize *params = &changed.params.voxelize;
  switch (variant) {
    case 1: params->feature_dtype = VX_FLOAT16; break;
    case 2: params->order = params->order == VX_ORDER_KEY ? VX_ORDER_FIRST : VX_ORDER_KEY; break;
    case 3:  // no cap
    case 5:  // all around the sensor as well
      params->range_min[0] = variant == 5 ? -params->range_max[0] : params->range_min[0];
      params->max_points_per_voxel = 0;
      changed.tensors = MEAN | BIT(VX_POINT_VOXEL_IDS);
      break;
    case 4:  // all around the sensor
      params->range_min[0] = -params->range_max[0];
      params->max_voxels = 160000;
      break;
    case 6:  // every cloud has more voxels than max_voxels
    case 7:
      params->choice = (struct vx_choice){variant == 6 ? VX_VOXELS_NEAR : VX_VOXELS_FULL, VX_POINTS_RANDOM, variant};
      params->max_voxels = 3000;
      params->max_points_per_voxel = 3;
      break;
    default: break;
  }
  return changed;
}

static void compare_presets(struct side sides[2], const struct presets *presets, int num_scans) {
  for (int i = 0; i < num_scans; i++) {
    for (size_t k = 0; k < presets_count(presets); k++) {
      if (presets_request(presets_at(presets, k))->job.op != VX_VOXELIZE) continue;
      for (int variant = 0; variant < 8; variant++) {
        // The scan's columns, so that each preset runs on each scan.
        struct vx_job asked = variant_of(&presets_request(presets_at(presets, k))->job, variant);
        asked.inputs[VX_POINTS].dims[1] = scans[i].columns;
        compare(sides, &asked, &scans[i], preset_name(presets_at(presets, k)));
      }
    }
  }
}

static void compare_random(struct side sides[2], struct random *random, int count, int64_t largest) {
  for (int i = 0; i < count; i++) {
    struct vx_job asked;
    static struct scan scan;
    random_job(random, largest, &asked, &scan);
    snprintf(scan.name, sizeof scan.name, "%d", i);
    random_deskew(random, &scan, &asked);
    compare(sides, &asked, &scan, "random");
    free(scan.points);
  }
}

struct options {
  const char *directory;
  int jobs, samplings;
  int64_t largest;
  uint64_t seed;
  bool no_lanes, no_regions;
};

static void parse(int argc, char **argv, struct options *options) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
      options->jobs = atoi(argv[++i]);
    else if (strcmp(argv[i], "--samplings") == 0 && i + 1 < argc)
      options->samplings = atoi(argv[++i]);
    else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
      options->seed = strtoull(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--largest") == 0 && i + 1 < argc)
      options->largest = atoll(argv[++i]);
    else if (strcmp(argv[i], "--no-lanes") == 0)
      options->no_lanes = true;
    else if (strcmp(argv[i], "--no-regions") == 0)
      options->no_regions = true;
    else
      options->directory = argv[i];
  options->samplings = options->samplings < 0 ? options->jobs : options->samplings;
}

// The backend runs all jobs, except detections without a session.
static bool takes_its_jobs(void) {
  bool good = true;
  for (enum vx_op op = 0; op < VX_OPS; op++) {
    const struct vx_job job = {.op = op, .tensors = vx_operations[op].tensors};
    good = good && vx_cuda_backend.runs(&job) == (op != VX_DETECT);
  }
  if (!good) printf("the CUDA backend takes a job without kernels, or declines a job with kernels\n");
  return good;
}

int main(int argc, char **argv) {
  struct options options = {.directory = "../shared/data", .jobs = 300, .samplings = -1, .largest = 2000000, .seed = 1};
  static struct side sides[2];
  struct error error;
  parse(argc, argv, &options);
  struct presets *presets = presets_load("", &error);
  if (presets == NULL) {
    fprintf(stderr, "%s\n", error.text);
    return 2;
  }
  side_open(&sides[0], &vx_cpu_backend);
  side_open(&sides[1], &vx_cuda_backend);
  places_open(&sides[1]);
  int loaded = load_all(options.directory);
  struct random random = {options.seed};
  compare_presets(sides, presets, loaded);
  compare_random(sides, &random, options.jobs, options.largest);
  test_lists(sides, options.seed, options.jobs);
  test_samples(sides, options.seed, scans, loaded, options.samplings, options.largest);
  test_steps(sides, options.seed, options.jobs, options.largest);
  test_serialize(sides, options.seed, options.jobs, options.largest);
  test_range_images(sides, options.seed, options.jobs, options.largest);
  test_maps(sides, presets, options.seed, options.jobs, options.largest);
  test_encoders(sides, options.seed, options.jobs, options.largest);
  test_nms(sides, options.seed, options.jobs, options.largest);
  test_decode(sides, options.seed, options.jobs, options.largest);
  test_detect(sides, options.seed, options.jobs);
  test_sparse(sides, options.seed, options.jobs, options.largest);
  if (!options.no_regions) test_regions(sides, options.seed);
  if (!options.no_lanes) test_lanes(options.seed);
  printf("%d scans, %d jobs, %d equal (%d of them refused by both), %d unequal, %.1f MB compared\n", loaded, jobs_run,
         jobs_equal, jobs_refused, jobs_run - jobs_equal, (double)bytes_compared / 1e6);
  places_close(&sides[1]);
  side_close(&sides[0]);
  side_close(&sides[1]);
  presets_close(presets);
  return jobs_run != jobs_equal || !takes_its_jobs();
}
