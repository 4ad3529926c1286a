// A scatter on a GPU.
//
//   place  Brings the rows from the host; finds the slot of each row's cell. The slot gets the number of its first row.
//   write  Counts the rows that are first in their cells and tells the host. Other blocks look up the row of each cell,
//          tile by tile, and write the cells in all channels, values and zeros.
//
// So each byte of the map is written once, in order. Only the map itself is as large as the grid.
#include "kernels/cuda/scatter/scatter.cuh"

#include "kernels/cuda/base/host.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/publish.cuh"
#include "kernels/cuda/base/table.cuh"
#include "kernels/cuda/base/transfer.cuh"

enum { BLOCK = 256, WARP = 32, COORDS = 4, TILE = 512 };  // TILE: cells
enum : uint64_t { PART = sizeof(uint4) };

struct scatter {
  const unsigned char *source;  // the features as the client sent them
  unsigned char *features;      // [num_rows, planes.channels]: a copy with the same alignment within 16 bytes
  uint64_t feature_bytes;
  const int32_t *coords;  // [num_rows, 4]: batch, z, y, x
  bool whole;             // a row of coords can be read at once
  uint32_t limits[COORDS];
  struct cuda_planes planes;
  unsigned char *map;
  uint32_t count_blocks;  // the first blocks of write_kernel, which count
};

// ---- place ----------------------------------------------------------------------------------------------------------

// False if the row is outside. `cell` counts over all clouds.
static __device__ bool find_cell(const struct scatter &s, uint64_t row, uint64_t *cell) {
  int4 at;
  if (s.whole) {
    at = __ldcs((const int4 *)s.coords + row);
  } else {
    const int32_t *from = s.coords + row * COORDS;
    at = make_int4(from[0], from[1], from[2], from[3]);
  }
  const uint32_t values[COORDS] = {(uint32_t)at.x, (uint32_t)at.y, (uint32_t)at.z, (uint32_t)at.w};
  bool inside = true;
  *cell = 0;
#pragma unroll
  for (int i = 0; i < COORDS; i++) {
    inside = inside & (values[i] < s.limits[i]);  // as an unsigned number, a negative value is large
    *cell = *cell * s.limits[i] + values[i];
  }
  return inside;
}

// The slot of a row's cell. Of the warp's threads with that cell, the first, which has the first row, looks up the slot
// for all. `inside`: the threads whose rows have a cell.
static __device__ uint32_t place(const struct cuda_view &v, uint32_t inside, uint32_t row, uint64_t cell) {
  uint32_t leader = __ffs(__match_any_sync(inside, (unsigned long long)cell)) - 1, slot = CUDA_NO_SLOT;
  if (threadIdx.x % WARP == leader) {
    slot = cuda_slot_of(v.table, cell);
    if (slot != CUDA_NO_SLOT) atomicMin(&v.cells[slot].first, row);
  }
  return __shfl_sync(inside, slot, leader);
}

static __device__ void place_rows(const struct cuda_view &v, const struct scatter &s) {
  uint32_t outside = 0;
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)gridDim.x * BLOCK) {
    uint64_t row = first + threadIdx.x, cell;
    bool here = row < v.clouds.num_points, inside = here && find_cell(s, row, &cell);
    uint32_t all_inside = __ballot_sync(~0u, inside);
    if (inside) {
      v.slots[row] = place(v, all_inside, (uint32_t)row, cell);
    } else if (here) {
      v.slots[row] = CUDA_NO_SLOT;
      outside++;
    }
    __syncwarp();
  }
  outside = cuda_warp_add(outside);
  if (threadIdx.x % WARP == 0 && outside != 0) atomicAdd(&v.counters->out_of_range, outside);
}

static __device__ void bring_features(const struct scatter &s) {
  uint64_t head = min((uint64_t)(-(uintptr_t)s.source % PART), s.feature_bytes);
  uint64_t parts = (s.feature_bytes - head) / PART, tail = head + parts * PART;
  uint64_t begin = (uint64_t)blockIdx.x * BLOCK + threadIdx.x, step = (uint64_t)gridDim.x * BLOCK;
  for (uint64_t i = begin; i < parts; i += step)
    ((uint4 *)(s.features + head))[i] = __ldcs((const uint4 *)(s.source + head) + i);
  if (begin < head) s.features[begin] = s.source[begin];
  if (begin < s.feature_bytes - tail) s.features[tail + begin] = s.source[tail + begin];
}

static __global__ void __launch_bounds__(BLOCK)
    place_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct scatter s) {
  cuda_wait_alone();
  if (blockIdx.x == 0 && threadIdx.x == 0) v.counters->moments[CUDA_BEGUN] = cuda_now();
  for (uint32_t cloud = threadIdx.x; blockIdx.x == 0 && cloud < (uint32_t)v.clouds.count; cloud += BLOCK)
    v.control->cloud_rows[cloud] = 0;
  place_rows(v, s);
  bring_features(s);
  __syncthreads();
  cuda_let_next();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ARRIVED], cuda_now());
}

static enum vx_status place(const struct cuda_run *run, const struct scatter *scatter, struct error *error) {
  uint64_t parts = scatter->feature_bytes / PART, rows = run->clouds.num_points;
  unsigned blocks = cuda_looping_blocks(run, parts > rows ? parts : rows, BLOCK, 2);
  return cuda_launch("place_kernel", place_kernel, blocks, BLOCK, 0, run, error, *run, *scatter);
}

// ---- write ----------------------------------------------------------------------------------------------------------

static __device__ bool is_kept(const struct cuda_view &v, uint64_t row, uint32_t *slot) {
  *slot = v.slots[row];
  return *slot != CUDA_NO_SLOT && v.cells[*slot].first == (uint32_t)row;
}

// Counts the kept rows, and lists their slots, which are freed later.
static __device__ void count_rows(const struct cuda_view &v, const struct scatter &s) {
  uint32_t lane = threadIdx.x % WARP;
  for (uint64_t first = (uint64_t)blockIdx.x * BLOCK; first < v.clouds.num_points;
       first += (uint64_t)s.count_blocks * BLOCK) {
    uint64_t row = first + threadIdx.x;
    uint32_t slot = CUDA_NO_SLOT, number = 0;
    bool kept = row < v.clouds.num_points && is_kept(v, row, &slot);
    uint32_t all_kept = __ballot_sync(~0u, kept), before = all_kept & ((1u << lane) - 1);
    if (lane == 0 && all_kept != 0) number = atomicAdd(&v.counters->num_cells, __popc(all_kept));
    number = __shfl_sync(~0u, number, 0) + __popc(before);
    if (kept) {
      *(uint4 *)&v.records[number] = make_uint4((uint32_t)row, 1, 0, slot);
      uint32_t cloud = (uint32_t)(v.table.keys[slot] / s.planes.cells), peers = __match_any_sync(all_kept, cloud);
      if (lane == __ffs(peers) - 1) atomicAdd(&v.control->cloud_rows[cloud], __popc(peers));
    }
    __syncwarp();
  }
}

// Values of a few consecutive cells in one channel.
template <typename value, int count> struct alignas(sizeof(value) * count) several { value of[count]; };

// 16 bytes bypass the cache: only the copy to the host reads the map again.
template <typename value, int count> static __device__ void put(value *to, const struct several<value, count> &values) {
  if (sizeof values == sizeof(uint4)) {
    uint4 whole;
    memcpy(&whole, &values, sizeof values);
    __stcs((uint4 *)to, whole);
  } else {
    memcpy(to, &values, sizeof values);
  }
}

// Called by a whole block. Finds the rows of a tile's cells; CUDA_NO_ROW for cells without a row or after the end.
static __device__ void look_up(const struct cuda_view &v, uint64_t cells, uint64_t cloud, uint64_t first,
                               uint32_t rows[TILE]) {
  __syncthreads();  // the last tile is written
  for (uint32_t i = threadIdx.x; i < TILE; i += BLOCK) {
    uint32_t slot = first + i < cells ? cuda_look_up(v.table, cloud * cells + first + i) : CUDA_NO_SLOT;
    rows[i] = slot == CUDA_NO_SLOT ? CUDA_NO_ROW : v.cells[slot].first;
  }
  __syncthreads();
}

template <typename value, int count>
static __device__ struct several<value, count> values_of(const struct scatter &s, const uint32_t *rows,
                                                         uint64_t channel) {
  struct several<value, count> values = {};
#pragma unroll
  for (int i = 0; i < count; i++)
    if (rows[i] != CUDA_NO_ROW) values.of[i] = ((const value *)s.features)[rows[i] * s.planes.channels + channel];
  return values;
}

template <typename value, int count>
static __device__ void write_map(const struct cuda_view &v, const struct scatter &s) {
  enum { GROUPS = TILE / count, TURNS = BLOCK >= GROUPS ? BLOCK / GROUPS : 1, STEP = BLOCK < GROUPS ? BLOCK : GROUPS };
  __shared__ __align__(sizeof(uint4)) uint32_t rows[TILE];
  uint64_t tiles = (s.planes.cells + TILE - 1) / TILE;
  for (uint64_t tile = blockIdx.x - s.count_blocks; tile < (uint32_t)v.clouds.count * tiles;
       tile += gridDim.x - s.count_blocks) {
    uint64_t cloud = tile / tiles, first = tile % tiles * TILE;
    look_up(v, s.planes.cells, cloud, first, rows);
    for (uint32_t cell = threadIdx.x % STEP * count; cell < TILE && first + cell < s.planes.cells;
         cell += STEP * count) {
      value *to = (value *)s.map + cuda_place_of(s.planes, cloud, first + cell);
      for (uint64_t channel = threadIdx.x / STEP; channel < s.planes.channels; channel += TURNS)
        put(to + channel * s.planes.cells, values_of<value, count>(s, rows + cell, channel));
    }
  }
}

template <typename value, int count>
static __global__ void __launch_bounds__(BLOCK)
    write_kernel(const __grid_constant__ struct cuda_view v, const __grid_constant__ struct scatter s) {
  cuda_wait();
  if (blockIdx.x < s.count_blocks) {
    count_rows(v, s);
    if (cuda_last_block(&v.counters->order_ticket, s.count_blocks)) publish(v, v.sequence);
    return;
  }
  write_map<value, count>(v, s);
  __syncthreads();
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_GATHERED], cuda_now());
}

// Enqueues the counting, the writing of the values, or both at once.
static enum vx_status write(const struct cuda_run *run, struct scatter *scatter, bool count, bool values,
                            struct error *error) {
  uint64_t cells = scatter->planes.cells, tiles = (uint64_t)run->clouds.count * ((cells + TILE - 1) / TILE);
  size_t value = vx_dtype_size(run->dtype);
  bool wide = cells % (PART / value) == 0;
  unsigned blocks = values ? cuda_looping_blocks(run, tiles, 1, 8) : 0;
  void (*kernel)(struct cuda_view, struct scatter) =
      value == sizeof(uint16_t) ? (wide ? write_kernel<uint16_t, 8> : write_kernel<uint16_t, 1>)
                                : (wide ? write_kernel<uint32_t, 4> : write_kernel<uint32_t, 1>);
  scatter->map = run->lane->image.memory;
  scatter->count_blocks = count ? cuda_looping_blocks(run, run->clouds.num_points, BLOCK, 1) : 0;
  return cuda_launch("write_kernel", kernel, scatter->count_blocks + blocks, BLOCK, 0, run, error, *run, *scatter);
}

// ---- the job --------------------------------------------------------------------------------------------------------

static void lay_out(struct cuda_run *run, struct scatter *scatter, struct cuda_arena *arena) {
  take(arena, &run->slots, run->clouds.num_points);
  take(arena, &run->records, run->clouds.num_points);
  take(arena, &scatter->features, run->inputs[VX_FEATURES].bytes + PART);
  cuda_take_inputs(run, arena);
}

// Whether the map can be made before the host knows the counts. A large map begins only after the caller has given
// memory for it.
static bool is_eager(struct cuda_run *run, struct error *error) {
  struct vx_sizes sizes = cuda_sizes_of(run, 0);
  size_t ready = run->lane->image.bytes, most = ready > CUDA_EAGER_BYTES ? ready : CUDA_EAGER_BYTES;
  bool possible = vx_layout_of(run->tensors, &sizes, &run->layout, error) == VX_OK;
  return possible && run->tensors != 0 && run->layout.bytes <= most;
}

static enum vx_status take_arrays(struct cuda_run *run, struct scatter *scatter, struct error *error) {
  struct vx_lane *lane = run->lane;
  struct cuda_arena measured = {}, arena = {};
  CUDA_TRY(cuda_see_inputs(run, error));
  lay_out(run, scatter, &measured);
  CUDA_TRY(cuda_reserve(lane, &lane->scratch, measured.used, error));
  arena.memory = lane->scratch.memory;
  lay_out(run, scatter, &arena);
  if (run->eager) CUDA_TRY(cuda_reserve(lane, &lane->image, run->layout.bytes, error));
  run->table.slots = cuda_cell_slots(run->clouds.num_points);
  return cuda_prepare_control(run, error);
}

static enum vx_status prepare(struct cuda_run *run, struct scatter *scatter, int64_t cells, struct error *error) {
  const struct cuda_input *features = &run->inputs[VX_FEATURES], *coords = &run->inputs[VX_COORDS];
  const int32_t *size = run->job->params.scatter.grid_size;
  run->eager = is_eager(run, error);
  CUDA_TRY(take_arrays(run, scatter, error));
  CUDA_TRY(cuda_copy_inputs(run, error));
  scatter->source = (const unsigned char *)features->data;
  scatter->features += (uintptr_t)features->data % PART;
  scatter->feature_bytes = features->bytes;
  scatter->coords = (const int32_t *)coords->data;
  scatter->whole = (uintptr_t)coords->data % sizeof(int4) == 0;
  scatter->limits[0] = (uint32_t)run->clouds.count;
  scatter->limits[1] = (uint32_t)size[2];
  scatter->limits[2] = (uint32_t)size[1];
  scatter->limits[3] = (uint32_t)size[0];
  scatter->planes = {(uint64_t)run->job->inputs[VX_FEATURES].dims[1], (uint64_t)cells};
  return VX_OK;
}

static enum vx_status read_counts(struct cuda_run *run, struct error *error) {
  struct vx_job *job = run->job;
  CUDA_TRY(cuda_read_counters(run, run->sequence, error));
  job->counts.kept = run->sizes.num_cells;
  job->counts.out_of_range = run->sizes.out_of_range;
  job->counts.duplicate = job->counts.received - job->counts.kept - job->counts.out_of_range;
  for (int32_t cloud = 0; cloud < job->num_clouds; cloud++)
    job->row_counts[cloud] = (int32_t)run->lane->status->cloud_rows[cloud];
  const uint64_t *moments = run->sizes.moments;
  job->stage_ns[VX_STAGE_COPY_IN] = (int64_t)(moments[CUDA_ARRIVED] - moments[CUDA_BEGUN]);
  job->stage_ns[VX_STAGE_SCATTER] = (int64_t)(moments[CUDA_FOUND] - moments[CUDA_ARRIVED]);
  return VX_OK;
}

enum vx_status cuda_scatter(struct cuda_run *run, struct error *error) {
  struct scatter scatter = {};
  int64_t cells;  // of one cloud's grid
  run->gathers = VX_STAGE_SCATTER;
  CUDA_TRY(vx_scatter_cells(&run->job->params.scatter, run->clouds.count, &cells, error));
  if (run->clouds.num_points == 0) return run->tensors == 0 ? VX_OK : cuda_take_zeros(run, error);
  CUDA_TRY(prepare(run, &scatter, cells, error));
  CUDA_TRY(place(run, &scatter, error));
  CUDA_TRY(write(run, &scatter, true, run->eager, error));
  CUDA_TRY(read_counts(run, error));
  if (run->tensors == 0) return cuda_clean(run, error);
  CUDA_TRY(cuda_take_output(run, error));
  if (!run->eager && run->layout.bytes > 0) {
    CUDA_TRY(cuda_reserve(run->lane, &run->lane->image, run->layout.bytes, error));
    CUDA_TRY(write(run, &scatter, false, true, error));
  }
  return cuda_finish_output(run, error);
}
