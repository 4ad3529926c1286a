// Serialize: orders points along curves through their cells, as Point Transformer V3 does, and pools cells in stages.
//
// A point is in the cell c[a] = floor(p[a] / size[a]) in float32 (lattice.h). Its row of grid_coord is c - m, where m
// is the cell of `origin` if that is fixed, else the least cell of the point's cloud along each axis. A point beyond
// the lattice, or below a fixed origin along some axis, has the fate out_of_lattice. The operation drops such a point
// after the last step of the chain, with 0 in point_steps. So the point has no row in `points` or in the tensors below.
//
// Let `most` be the largest value in grid_coord of all clouds. If no depth is given, the depth is the number of bits of
// (most + 1). A given depth must be at least the number of bits of `most`. The depth is 1 to VX_MAX_SERIAL_DEPTH.
//
// The code of a row on a curve is cloud << 3 * depth | key:
//   z              bit 3 * i + 2 of the key is bit i of x, bit 3 * i + 1 is bit i of y, bit 3 * i is bit i of z
//   hilbert        vx_hilbert_key, below
//   z-trans, hilbert-trans    the same with x and y swapped
// serialized_order has the rows by ascending (code, row); serialized_inverse has the place of each row in that order.
//
// The first stage of pooling joins the rows of the points into new rows, each later stage the new rows of the stage
// before. The stride of a stage is 1 << b; if the depth before the stage is less than b, then b = 0 instead. Rows with
// the same code >> 3 * b on the first curve become one new row. The new rows ascend by this code:
//   pool_cluster       [rows before]      for each row, the new row that it joins
//   pool_indices       [rows before]      the rows by ascending (new row, row)
//   pool_indptr        [new rows + 1]     where each new row begins in pool_indices; last, the number of rows before
//   pool_head_indices  [new rows]         the first row of each new row
//   pool_grid_coord    [new rows, 3]      the head's grid_coord >> b
//   pool_serialized_code [orders, new rows]  the head's codes >> 3 * b; two more tensors have the orders and inverses
// The depth becomes depth - b. The tensors of all stages are joined along their last dimension, pool_grid_coord along
// its rows. Pure functions, some of them for C and CUDA.
#ifndef VOXELD_SERIALIZE_H
#define VOXELD_SERIALIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/error.h"
#include "kernels/host_device.h"
#include "kernels/lattice.h"
#include "kernels/tensor.h"

enum {
  VX_MAX_SERIAL_DEPTH = 16,
  VX_MAX_POOLS = 8,
};

enum vx_curve { VX_CURVE_Z, VX_CURVE_Z_TRANS, VX_CURVE_HILBERT, VX_CURVE_HILBERT_TRANS, VX_CURVES };

struct vx_serialize {
  float size[3];
  bool fixed;  // the grid begins at `origin`
  float origin[3];
  int32_t depth;                  // 0: computed, as above
  int32_t num_orders;             // 1..VX_CURVES
  int32_t orders[VX_CURVES];      // enum vx_curve, each once
  int32_t num_pools;              // 0..VX_MAX_POOLS
  int32_t strides[VX_MAX_POOLS];  // powers of two
};

#define VX_SERIAL_TENSORS                                                                                              \
  (VX_TENSOR_BIT(VX_GRID_COORD) | VX_TENSOR_BIT(VX_SERIALIZED_CODE) | VX_TENSOR_BIT(VX_SERIALIZED_ORDER) |             \
   VX_TENSOR_BIT(VX_SERIALIZED_INVERSE))
#define VX_POOL_TENSORS                                                                                                \
  (VX_TENSOR_BIT(VX_POOL_CLUSTER) | VX_TENSOR_BIT(VX_POOL_INDICES) | VX_TENSOR_BIT(VX_POOL_INDPTR) |                   \
   VX_TENSOR_BIT(VX_POOL_HEAD_INDICES) | VX_TENSOR_BIT(VX_POOL_GRID_COORD) | VX_TENSOR_BIT(VX_POOL_SERIALIZED_CODE) |  \
   VX_TENSOR_BIT(VX_POOL_SERIALIZED_ORDER) | VX_TENSOR_BIT(VX_POOL_SERIALIZED_INVERSE))

#ifdef __cplusplus
extern "C" {
#endif

// Whether the origin is in the lattice.
bool vx_serial_origin_fits(const struct vx_serialize *params);
// VX_REFUSED if a parameter is out of its bounds.
VX_WARN_UNUSED enum vx_status vx_check_serialize(const struct vx_serialize *params, struct error *error);
// Fills `depth`. `most`: the largest value in grid_coord. VX_REFUSED if it needs a larger depth than allowed.
VX_WARN_UNUSED enum vx_status vx_serial_depth(const struct vx_serialize *params, int32_t most, int32_t *depth,
                                              struct error *error);
// How many bits per axis the stage removes from codes of this depth.
int32_t vx_pool_bits(const struct vx_serialize *params, int32_t stage, int32_t depth);

#ifdef __cplusplus
}
#endif

struct vx_serial_lattice {
  float size[3];
  int32_t first[3];  // the cell of a fixed origin, else the lattice's first cell
};

// False if the origin is beyond the lattice.
VX_SHARED bool vx_serial_lattice_of(const struct vx_serialize *params, struct vx_serial_lattice *lattice) {
  bool inside = true;
  for (int axis = 0; axis < 3; axis++) {
    lattice->size[axis] = params->size[axis];
    lattice->first[axis] = 0;
    if (params->fixed)
      inside =
          vx_lattice_cell(0, params->size[axis], VX_CELLS_FLOOR, params->origin[axis], &lattice->first[axis]) && inside;
  }
  return inside;
}

// The cell of a point minus `first`. False if the point is out of the lattice or below `first`.
VX_SHARED bool vx_serial_cell(const struct vx_serial_lattice *lattice, const float *point, int32_t cell[3]) {
  bool inside = true;
  for (int axis = 0; axis < 3; axis++) {
    inside = vx_lattice_cell(0, lattice->size[axis], VX_CELLS_FLOOR, point[axis], &cell[axis]) & inside;
    cell[axis] -= lattice->first[axis];
  }
  return inside && cell[0] >= 0 && cell[1] >= 0 && cell[2] >= 0;
}

// Moves bit i of a number of up to 16 bits to bit 3 * i.
VX_SHARED uint64_t vx_spread_bits(uint32_t value) {
  uint64_t bits = value;
  bits = (bits | bits << 16) & UINT64_C(0x0000FF0000FF);
  bits = (bits | bits << 8) & UINT64_C(0x00F00F00F00F);
  bits = (bits | bits << 4) & UINT64_C(0x0C30C30C30C3);
  return (bits | bits << 2) & UINT64_C(0x249249249249);
}

VX_SHARED uint64_t vx_z_key(uint32_t x, uint32_t y, uint32_t z) {
  return vx_spread_bits(x) << 2 | vx_spread_bits(y) << 1 | vx_spread_bits(z);
}

// One step of Skilling's transformation. For x, y and z in turn: if the coordinate has the bit, inverts the bits of x
// below it. Otherwise the coordinate and x swap these bits.
VX_SHARED void vx_hilbert_step(int bit, uint32_t *x, uint32_t *y, uint32_t *z) {
  uint32_t below = (1u << bit) - 1, set, swapped;
  *x ^= below & (0u - (*x >> bit & 1u));
  set = 0u - (*y >> bit & 1u);
  swapped = (*x ^ *y) & below & ~set;
  *x ^= (below & set) | swapped;
  *y ^= swapped;
  set = 0u - (*z >> bit & 1u);
  swapped = (*x ^ *z) & below & ~set;
  *x ^= (below & set) | swapped;
  *z ^= swapped;
}

// The key after all steps: bit i is the parity of bits i and higher of the z key.
VX_SHARED uint64_t vx_hilbert_end(uint32_t x, uint32_t y, uint32_t z) {
  uint64_t key = vx_z_key(x, y, z);
  for (int shift = 1; shift < 64; shift *= 2) key ^= key >> shift;
  return key;
}

VX_SHARED uint64_t vx_hilbert_key(int32_t depth, uint32_t x, uint32_t y, uint32_t z) {
  for (int bit = depth - 1; bit > 0; bit--) vx_hilbert_step(bit, &x, &y, &z);
  return vx_hilbert_end(x, y, z);
}

VX_SHARED bool vx_is_hilbert(int32_t curve) { return curve == VX_CURVE_HILBERT || curve == VX_CURVE_HILBERT_TRANS; }
VX_SHARED bool vx_is_transposed(int32_t curve) { return curve == VX_CURVE_Z_TRANS || curve == VX_CURVE_HILBERT_TRANS; }

#endif
