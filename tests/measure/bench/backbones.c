// See backbones.h.
#include "tests/measure/bench/backbones.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct backbone_setup {
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

// Appends a layer whose random weights keep the features' magnitude.
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

static bool make_backbone(const struct backbone_setup *setup, struct vx_sparse *backbone) {
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

static enum vx_status give_block(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct backbone_bench *bench = ctx;
  bench->layout = *layout;
  *block = bench->block =
      aligned_alloc(VX_TENSOR_ALIGNMENT, layout->bytes + VX_TENSOR_ALIGNMENT - layout->bytes % VX_TENSOR_ALIGNMENT);
  return bench->block ? VX_OK : vx_fail(error, VX_OUT_OF_MEMORY, "no memory for the voxels");
}

static enum vx_status voxelize(struct backbone_bench *bench, struct error *error) {
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

static bool load(struct backbone_bench *bench, const char *path) {
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

bool backbone_open(struct backbone_bench *bench, const char *name, const char *scan) {
  *bench = (struct backbone_bench){0};
  for (int i = 0; i < SETUPS; i++)
    if (strcmp(name, setups[i].name) == 0) bench->setup = &setups[i];
  struct error error = {.text = "no such backbone or scan, or no memory"};
  struct vx_grid grid;
  bool ok = bench->setup && load(bench, scan) && make_backbone(bench->setup, &bench->backbone) &&
            vx_grid_of(&bench->setup->voxelize, 1, &grid, &error) == VX_OK;
  // As in the code that trains it, a backbone's grid has one more plane in z than the grid of the voxels.
  for (int axis = 0; ok && axis < 3; axis++) bench->backbone.shape[axis] = grid.cells[2 - axis] + (axis == 0);
  ok = ok && vx_sparse_plan_of(&bench->backbone, &bench->plan, &error) == VX_OK &&
       vx_cpu_backend.open(0, &bench->device, &error) == VX_OK &&
       vx_cpu_backend.lane_open(bench->device, VX_LANE_QUICK, &bench->lane, &error) == VX_OK &&
       voxelize(bench, &error) == VX_OK;
  if (!ok) fprintf(stderr, "backbones: %s\n", error.text);
  return ok;
}

void backbone_close(struct backbone_bench *bench) {
  if (bench->lane) vx_cpu_backend.lane_close(bench->lane);
  if (bench->device) vx_cpu_backend.close(bench->device);
  free_backbone(&bench->backbone);
  free(bench->points);
  free(bench->block);
}

void backbone_print_rows(const struct backbone_bench *bench, const int64_t *level_rows) {
  printf("rows of the levels:");
  for (int32_t i = 0; i < bench->plan.num_levels; i++) printf(" %lld", (long long)level_rows[i]);
  printf("\n");
}
