// sparse-bench: how long sparse convolution takes on the CPU, one thread, by every way that runs here.
//
//   sparse-bench [--plain] BACKBONE SCAN [ROUNDS]
//
// BACKBONE is `second` (rows of 4 columns, the grid of kitti_second) or `centerpoint` (rows of 5, the grid of
// nuscenes_centerpoint_voxel0075), with random weights. The scan is voxelized first, without caps on voxels, and each
// voxel's mean is its feature. Prints the rows of each level, the arithmetic, and the median and the least time of each
// way; `plain` only if it is asked for, since it is slow. All ways must write the same bytes; otherwise the program
// ends with 1.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/backends.h"
#include "kernels/cpu/sparse/sparse.h"
#include "tests/measure/bench/timing.h"

enum { MOST_ROUNDS = 1000 };

static const struct setup {
  const char *name;
  int32_t columns, blocks;  // residual blocks of a level; 0: a plain backbone
  struct vx_voxelize voxelize;
} setups[] = {
    {"second",
     4,
     0,
     {.range_min = {0, -40, -3},
      .range_max = {70.4f, 40, 1},
      .voxel_size = {0.05f, 0.05f, 0.1f},
      .max_points_per_voxel = 5,
      .max_voxels = 40000}},
    {"centerpoint",
     5,
     2,
     {.range_min = {-54, -54, -5},
      .range_max = {54, 54, 3},
      .voxel_size = {0.075f, 0.075f, 0.2f},
      .max_points_per_voxel = 10,
      .max_voxels = 160000}},
};
enum { SETUPS = sizeof setups / sizeof *setups };

// ---- the backbone ---------------------------------------------------------------------------------------------------

static float random_unit(void) {
  static uint64_t state = 1;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(int32_t)(state >> 32) * 0x1p-31f;
}

// Appends a layer. The weights keep the features' size from layer to layer.
static bool append(struct vx_sparse *backbone, struct vx_sparse_layer layer) {
  int32_t number = backbone->num_layers++, offsets = vx_sparse_offsets(&layer);
  layer.inputs = layer.inputs ? layer.inputs : backbone->layers[number - 1].width;
  int32_t count = offsets * layer.inputs * layer.width;
  float *weight = malloc((size_t)(count + layer.width) * sizeof *weight);
  if (!weight) return false;
  float scale = sqrtf(12.0f / (float)(offsets * layer.inputs));
  for (int32_t i = 0; i < count + layer.width; i++) weight[i] = scale * random_unit();
  layer.weight = weight;
  layer.bias = weight + count;
  backbone->layers[number] = layer;
  return true;
}

static bool append_flat(struct vx_sparse *backbone, int32_t inputs, int32_t width, bool adds) {
  return append(backbone,
                (struct vx_sparse_layer){
                    .inputs = inputs, .width = width, .kernel = {3, 3, 3}, .submanifold = true, .adds = adds});
}

static bool make_backbone(const struct setup *setup, struct vx_sparse *backbone) {
  const int32_t widths[] = {16, 32, 64, setup->blocks ? 128 : 64};
  bool ok = append_flat(backbone, setup->columns, 16, false);
  for (int level = 0; ok && level < 4; level++) {
    int32_t width = widths[level], flat = setup->blocks ? 2 * setup->blocks : level == 0 ? 1 : 2;
    if (level > 0) {
      ok =
          append(backbone, (struct vx_sparse_layer){
                               .width = width, .kernel = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {level < 3, 1, 1}});
    }
    for (int i = 0; ok && i < flat; i++) ok = append_flat(backbone, 0, width, setup->blocks && i % 2 == 1);
  }
  return ok && append(backbone, (struct vx_sparse_layer){.width = 128, .kernel = {3, 1, 1}, .stride = {2, 1, 1}});
}

static void free_backbone(struct vx_sparse *backbone) {
  for (int32_t i = 0; i < backbone->num_layers; i++) free((void *)(uintptr_t)backbone->layers[i].weight);
}

// ---- the rows -------------------------------------------------------------------------------------------------------

struct bench {
  const struct setup *setup;
  struct vx_sparse backbone;
  struct vx_sparse_plan plan;
  struct vx_device *device;
  struct vx_lane *lane;
  float *points;
  int32_t num_points, row_count;
  struct vx_layout layout;
  unsigned char *block;  // of the voxels
  struct vx_sparse_rows rows;
};

static enum vx_status give_block(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct bench *bench = ctx;
  bench->layout = *layout;
  *block = bench->block =
      aligned_alloc(VX_TENSOR_ALIGNMENT, layout->bytes + VX_TENSOR_ALIGNMENT - layout->bytes % VX_TENSOR_ALIGNMENT);
  return bench->block ? VX_OK : vx_fail(error, VX_OUT_OF_MEMORY, "no memory for the voxels");
}

static enum vx_status voxelize(struct bench *bench, struct error *error) {
  const struct vx_caller caller = {.output = give_block};
  struct vx_job job = {.op = VX_VOXELIZE, .num_clouds = 1, .point_counts = &bench->num_points, .caller = &caller};
  job.params.voxelize = bench->setup->voxelize;
  job.inputs[VX_POINTS] = vx_points_of(VX_FLOAT32, bench->num_points, bench->setup->columns, bench->points);
  job.tensors = VX_TENSOR_BIT(VX_VOXEL_COORDS) | VX_TENSOR_BIT(VX_VOXEL_FEATURES);
  job.ctx = bench;
  job.row_counts = &bench->row_count;
  enum vx_status status = vx_cpu_backend.run(bench->lane, &job, error);
  if (status == VX_OK) {
    bench->rows = (struct vx_sparse_rows){
        .num_clouds = 1,
        .num_rows = bench->row_count,
        .coords = (const int32_t *)(const void *)(bench->block + bench->layout.offset[VX_VOXEL_COORDS]),
        .features = (const float *)(const void *)(bench->block + bench->layout.offset[VX_VOXEL_FEATURES]),
        .max_rows = VX_MAX_SPARSE_ROWS};
  }
  return status;
}

static bool load(struct bench *bench, const char *path) {
  FILE *file = fopen(path, "rb");
  size_t row_bytes = (size_t)bench->setup->columns * sizeof *bench->points;
  bool ok = file && fseek(file, 0, SEEK_END) == 0;
  if (ok) {
    bench->num_points = (int32_t)((size_t)ftell(file) / row_bytes);
    rewind(file);
    bench->points = malloc((size_t)bench->num_points * row_bytes + 1);
    ok = bench->points && fread(bench->points, row_bytes, (size_t)bench->num_points, file) == (size_t)bench->num_points;
  }
  if (file) fclose(file);
  return ok;
}

// ---- measuring ------------------------------------------------------------------------------------------------------

static bool measure(struct bench *bench, const struct cpu_convolve_way *way, int rounds, float *map, float **first) {
  static double ms[MOST_ROUNDS];
  int64_t level_rows[VX_MAX_SPARSE_LEVELS];
  struct error error;
  struct vx_stop stop = {0};
  const struct vx_job job = {.stop = &stop};
  for (int round = -1; round < rounds; round++) {
    double began = timing_processor_us();
    enum vx_status status =
        cpu_sparse(bench->lane, &job, &bench->backbone, &bench->rows, way->convolve, map, level_rows, &error);
    if (status != VX_OK) {
      fprintf(stderr, "sparse-bench: %s\n", error.text);
      return false;
    }
    if (round >= 0) ms[round] = (timing_processor_us() - began) / 1e3;
  }
  if (!*first) {
    printf("rows of the levels:");
    for (int32_t i = 0; i < bench->plan.num_levels; i++) printf(" %lld", (long long)level_rows[i]);
    printf("\n%-10s%12s%12s\n", "way", "median ms", "least ms");
  }
  double median = timing_median(ms, rounds);
  printf("%-10s%12.1f%12.1f\n", way->name, median, ms[0]);
  size_t bytes = (size_t)vx_sparse_map_values(&bench->plan, 1) * sizeof *map;
  bool same = !*first || memcmp(map, *first, bytes) == 0;
  if (!*first && (*first = malloc(bytes))) memcpy(*first, map, bytes);
  if (!same) fprintf(stderr, "sparse-bench: %s: the bytes differ\n", way->name);
  return same;
}

static bool run(struct bench *bench, bool plain, int rounds) {
  float *map = malloc((size_t)vx_sparse_map_values(&bench->plan, 1) * sizeof *map), *first = NULL;
  bool ok = map != NULL;
  for (int w = 0; ok && w < cpu_num_convolve_ways; w++) {
    bool is_last = w == cpu_num_convolve_ways - 1;
    if (cpu_convolve_ways[w].runs() && (plain || !is_last))
      ok = measure(bench, &cpu_convolve_ways[w], rounds, map, &first);
  }
  free(map);
  free(first);
  return ok;
}

static bool begin(struct bench *bench, const char *path) {
  struct error error = {.text = "no memory, or no such scan"};
  struct vx_grid grid;
  bool ok = load(bench, path) && make_backbone(bench->setup, &bench->backbone) &&
            vx_grid_of(&bench->setup->voxelize, 1, &grid, &error) == VX_OK;
  // The grid of a backbone has one more plane than the grid of the voxels, as its training code has it.
  for (int axis = 0; ok && axis < 3; axis++) bench->backbone.shape[axis] = grid.cells[2 - axis] + (axis == 0);
  ok = ok && vx_sparse_plan_of(&bench->backbone, &bench->plan, &error) == VX_OK &&
       vx_cpu_backend.open(0, &bench->device, &error) == VX_OK &&
       vx_cpu_backend.lane_open(bench->device, VX_LANE_QUICK, &bench->lane, &error) == VX_OK &&
       voxelize(bench, &error) == VX_OK;
  if (!ok) fprintf(stderr, "sparse-bench: %s\n", error.text);
  return ok;
}

static void end(struct bench *bench) {
  if (bench->lane) vx_cpu_backend.lane_close(bench->lane);
  if (bench->device) vx_cpu_backend.close(bench->device);
  free_backbone(&bench->backbone);
  free(bench->points);
  free(bench->block);
}

int main(int argc, char **argv) {
  bool plain = argc > 1 && strcmp(argv[1], "--plain") == 0;
  static struct bench bench;
  argc -= plain;
  argv += plain;
  int rounds = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 10;
  for (int i = 0; argc > 2 && i < SETUPS; i++)
    if (strcmp(argv[1], setups[i].name) == 0) bench.setup = &setups[i];
  if (!bench.setup || argc > 4 || rounds < 1 || rounds > MOST_ROUNDS) {
    fprintf(stderr,
            "usage: sparse-bench [--plain] second|centerpoint SCAN [ROUNDS]   (raw float32 rows; 10 if not given)\n");
    return 2;
  }
  bool ok = begin(&bench, argv[2]) && run(&bench, plain, rounds);
  end(&bench);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
