// Moves the channels of maps to the last dimension: [clouds, channels, cells] becomes [clouds, cells, channels].
//
// All maps share one launch. A block moves a square tile at a time, through shared memory, so that neighbouring threads
// read and write neighbouring values.
#include "kernels/cuda/detect/detect.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/number.cuh"

enum { BLOCK = 256, TILE = 32, ROWS = BLOCK / TILE };

struct moved_map {
  const void *from;
  void *to;
  enum vx_dtype dtype;
  uint32_t channels, cells;
  uint32_t across;       // tiles along the cells
  uint64_t cloud_tiles;  // tiles of a cloud
  uint64_t first_tile;   // the map's first tile, among the tiles of all maps
};

struct moved_maps {
  struct moved_map maps[VX_DETECTOR_MAPS];
  int num_maps;
  uint64_t num_tiles;
};

// Called by a whole block.
template <typename value> static __device__ void move_tile(const struct moved_map &map, uint64_t number) {
  __shared__ value tile[TILE][TILE + 1];
  uint64_t cloud = number / map.cloud_tiles, begin = cloud * map.channels * map.cells;
  uint32_t within = (uint32_t)(number % map.cloud_tiles), lane = threadIdx.x % TILE, row = threadIdx.x / TILE;
  const value *from = (const value *)map.from + begin;
  value *to = (value *)map.to + begin;
  uint32_t cell = within % map.across * TILE, channel = within / map.across * TILE;
  __syncthreads();  // all threads have read the previous tile
  for (uint32_t i = row; i < TILE; i += ROWS)
    if (channel + i < map.channels && cell + lane < map.cells)
      tile[i][lane] = from[(uint64_t)(channel + i) * map.cells + cell + lane];
  __syncthreads();
  for (uint32_t i = row; i < TILE; i += ROWS)
    if (cell + i < map.cells && channel + lane < map.channels)
      to[(uint64_t)(cell + i) * map.channels + channel + lane] = tile[lane][i];
}

static __global__ void __launch_bounds__(BLOCK) move_channels_kernel(const __grid_constant__ struct moved_maps moved) {
  cuda_wait();
  for (uint64_t number = blockIdx.x; number < moved.num_tiles; number += gridDim.x) {
    int map = moved.num_maps - 1;
    while (moved.maps[map].first_tile > number) map--;
    const struct moved_map &own = moved.maps[map];
    cuda_with_bits(own.dtype, [&](auto bits) { move_tile<decltype(bits)>(own, number - own.first_tile); });
  }
}

static void add_map(const struct vx_detection *detection, int number, struct moved_maps *moved) {
  const struct vx_detector_map *of = &detection->detector->maps[number];
  struct moved_map *map = &moved->maps[moved->num_maps++];
  map->from = detection->written[number];
  map->to = detection->last[number];
  map->dtype = of->dtype;
  map->channels = (uint32_t)of->channels;
  map->cells = (uint32_t)(of->height * of->width);
  map->across = cuda_blocks(map->cells, TILE);
  map->cloud_tiles = (uint64_t)map->across * cuda_blocks(map->channels, TILE);
  map->first_tile = moved->num_tiles;
  moved->num_tiles += map->cloud_tiles * (uint64_t)detection->job->num_clouds;
}

enum vx_status cuda_move_channels(struct vx_lane *lane, const struct vx_detection *detection, struct error *error) {
  struct cuda_run run = {};
  struct moved_maps moved = {};
  for (int i = 0; i < VX_DETECTOR_MAPS; i++)
    if (vx_detection_moves(detection, i)) add_map(detection, i, &moved);
  if (moved.num_tiles == 0) return VX_OK;
  run.lane = lane;
  run.stream = lane->stream;
  unsigned blocks = cuda_looping_blocks(&run, moved.num_tiles, 1, 8);
  return cuda_launch("move_channels_kernel", move_channels_kernel, blocks, BLOCK, 0, &run, error, moved);
}
