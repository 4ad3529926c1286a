// From rows to encoded features. A warp brings a row's points to shared memory, as whole_voxels.cuh does for the tensor
// pillar_features, and encodes them there.
//
// Encoders with one layer of up to 64 channels over points of 3 to 5 columns use one_layer, with the weights in
// registers. All others use all_layers, whose room (encode.cuh) is in shared memory if it fits.
#include "kernels/cuda/voxelize/voxelize.cuh"

#include "kernels/cuda/base/device.cuh"
#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/base/number.cuh"
#include "kernels/cuda/encode/encode.cuh"
#include "kernels/cuda/voxelize/short_lists.cuh"
#include "kernels/cuda/voxelize/tensor_offsets.cuh"

// SHARED_BYTES: for the chunks of all warps, and for their room if it fits. Every GPU has 48 KB per block; the lists
// take some.
enum { BLOCK = LIST_BLOCK, WARPS = LIST_WARPS, SHARED_BYTES = 44 << 10 };

struct encoding {
  struct encoder_params encoder;
  bool order_here;  // sorts the lists
  uint32_t stride;  // floats of a row of a chunk
  float *room;      // of all warps of all blocks; NULL: in shared memory, after the warp's chunk
};

// A chunk has one more row than points, for the padding.
static __host__ __device__ uint32_t chunk_floats(const struct voxel_view &v, const struct encoding &e) {
  return (v.chunk + 1) * e.stride;
}

// Called by a whole warp. Fills the rows of a chunk of the pillar. If the pillar has fewer points than the cap, a row
// of zeros (the padding) follows its last point. Returns the number of rows.
static __device__ uint32_t fill_chunk(const struct voxel_view &v, const struct encoding &e,
                                      const struct gathered_row &row, const struct pillar &pillar, uint32_t begin,
                                      bool loaded, float *chunk) {
  uint32_t lane = threadIdx.x % WARP, count = min(row.kept - begin, v.chunk);
  if (!loaded) load_chunk<WARP>(v, chunk, e.stride, row.list + begin, count);
  add_offsets<WARP>(v, chunk, e.stride, count, pillar);
  if (begin + count == row.kept && row.kept < v.cap && v.cap != CUDA_NO_CAP) {
    for (uint32_t i = lane; i < e.stride; i += WARP) chunk[count * e.stride + i] = 0.0f;
    __syncwarp();
    count++;
  }
  return count;
}

template <typename encoder>
static __device__ void encode_row(const struct voxel_view &v, const struct encoding &e, const struct gathered_row &row,
                                  float *chunk, encoder &encode) {
  struct pillar pillar = find_pillar<WARP>(v, chunk, e.stride, row);
  bool one_chunk = row.kept <= v.chunk, loaded = one_chunk && !v.means;
  uint32_t count = 0;
  encode.begin();
  for (uint32_t round = 0; round < encode.rounds(); round++) {
    for (uint32_t begin = 0; begin < row.kept; begin += v.chunk) {
      if (round == 0 || !one_chunk) count = fill_chunk(v, e, row, pillar, begin, loaded, chunk);
      encode.take(round, chunk, e.stride, count);
    }
  }
}

// Called by a whole warp.
template <typename encoder>
static __device__ void write_values(const struct voxel_view &v, const struct encoding &e, void *features,
                                    uint32_t output_row, const encoder &encode) {
  uint32_t width = e.encoder.layers[e.encoder.num_layers - 1].width;
  uint64_t begin = (uint64_t)output_row * width;
#pragma unroll 2
  for (uint32_t slot = 0, channel = threadIdx.x % WARP; channel < width; slot++, channel += WARP)
    cuda_store(v.feature_dtype, features, begin + channel, encode.value(slot));
}

// A part is one row for each warp of a block. These rows are far apart, as in the gather.
template <typename encoder>
static __global__ void __launch_bounds__(BLOCK, encoder::BLOCKS)
    encode_kernel(const __grid_constant__ struct voxel_view v, const __grid_constant__ struct cuda_image_plan plan,
                  const __grid_constant__ struct encoding e) {
  __shared__ struct short_lists<WARP> lists;
  __shared__ struct tensor_offsets offsets;
  extern __shared__ float4 chunks[];  // for each warp: its chunk, then its room
  cuda_read_plan(plan, &offsets);
  cuda_wait();
  uint32_t warp = threadIdx.x / WARP, num_rows = v.counters->num_output_rows;
  uint32_t parts = (uint32_t)(((uint64_t)num_rows + WARPS - 1) / WARPS);
  cuda_find_offsets(plan, num_rows, &offsets);
  uint64_t room = e.room ? 0 : e.encoder.room;
  float *chunk = (float *)chunks + warp * (chunk_floats(v, e) + room);
  encoder encode;
  encode.prepare(e.encoder,
                 e.room ? e.room + ((uint64_t)blockIdx.x * WARPS + warp) * e.encoder.room : chunk + chunk_floats(v, e));
  __syncthreads();
  unsigned char *features = v.features ? v.features : offsets.at[VX_ENCODED_FEATURES];
  for (uint32_t part = blockIdx.x; part < parts; part += gridDim.x) {
    uint64_t output_row = part + (uint64_t)warp * parts;
    struct gathered_row row = {};
    if (output_row < num_rows) row = find_row(v, (uint32_t)output_row);
    if (e.order_here) {
      order_short_lists<WARP>(v, row.record, &lists);
      row.list = lists.lists[warp];
    }
    if (output_row < num_rows) {
      encode_row(v, e, row, chunk, encode);
      write_values(v, e, features, row.output_row, encode);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicMax((unsigned long long *)&v.counters->moments[CUDA_ENCODED], cuda_now());
}

// ---- launches -------------------------------------------------------------------------------------------------------

static bool is_small(const struct vx_encoder *encoder) {
  return encoder->num_layers == 1 && encoder->layers[0].width <= ENCODER_SLOTS * ENCODER_LANES &&
         encoder->layers[0].inputs <= 5 + PILLAR_EXTRA;
}

static unsigned blocks_of(const struct cuda_run *run) {
  bool small = is_small(&run->params->encoder);
  unsigned each = small ? (unsigned)one_layer<3 + PILLAR_EXTRA>::BLOCKS : (unsigned)all_layers::BLOCKS;
  return cuda_looping_blocks(run, run->row_capacity, WARPS, each);
}

static struct encoding encoding_of(const struct cuda_run *run) {
  struct encoding e = {};
  e.encoder = encoder_params_of(&run->params->encoder, run->weights);
  e.encoder.room = is_small(&run->params->encoder) ? 0 : e.encoder.room;
  e.order_here = !run->whole_lists;
  e.stride = (uint32_t)encoder_round(run->columns + PILLAR_EXTRA);
  return e;
}

static bool is_shared(const struct cuda_run *run, const struct encoding &e) {
  return chunk_floats(*run, e) + e.encoder.room <= SHARED_BYTES / (WARPS * sizeof(float));
}

// The largest room is 2^35 floats, so num_rooms * room_floats (memory.cu) fits in 64 bits.
void cuda_measure_encoder(struct cuda_run *run) {
  struct encoding e = encoding_of(run);
  run->room_floats = is_shared(run, e) ? 0 : e.encoder.room;
  run->num_rooms = (uint64_t)blocks_of(run) * WARPS;
}

enum vx_status cuda_encode(const struct cuda_run *run, struct error *error) {
  struct encoding e = encoding_of(run);
  void (*kernel)(struct voxel_view, struct cuda_image_plan, struct encoding) = encode_kernel<all_layers>;
  if (is_small(&run->params->encoder)) {
    kernel = run->columns == 3   ? encode_kernel<one_layer<3 + PILLAR_EXTRA>>
             : run->columns == 4 ? encode_kernel<one_layer<4 + PILLAR_EXTRA>>
                                 : encode_kernel<one_layer<5 + PILLAR_EXTRA>>;
  }
  e.room = run->room_floats == 0 ? NULL : run->encoder_room;
  size_t shared = WARPS * sizeof(float) * (chunk_floats(*run, e) + (size_t)(e.room ? 0 : e.encoder.room));
  return cuda_launch("encode_kernel", kernel, blocks_of(run), BLOCK, shared, run, error, *run, run->plan, e);
}
