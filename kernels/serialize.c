// See serialize.h. Pure functions. Any thread.
#include "kernels/serialize.h"

bool vx_serial_origin_fits(const struct vx_serialize *params) {
  struct vx_serial_lattice lattice;
  return vx_serial_lattice_of(params, &lattice);
}

static bool are_orders(const struct vx_serialize *params) {
  uint32_t seen = 0;
  for (int32_t i = 0; i < params->num_orders && params->num_orders <= VX_CURVES; i++) {
    int32_t curve = params->orders[i];
    if (curve < 0 || curve >= VX_CURVES || (seen >> curve & 1u)) return false;
    seen |= 1u << curve;
  }
  return params->num_orders >= 1 && params->num_orders <= VX_CURVES;
}

static bool are_strides(const struct vx_serialize *params) {
  bool fit = params->num_pools >= 0 && params->num_pools <= VX_MAX_POOLS;
  for (int32_t i = 0; fit && i < params->num_pools; i++) {
    int32_t stride = params->strides[i];
    fit = stride >= 1 && stride <= 1 << VX_MAX_SERIAL_DEPTH && (stride & (stride - 1)) == 0;
  }
  return fit;
}

enum vx_status vx_check_serialize(const struct vx_serialize *params, struct error *error) {
  bool sizes = params->size[0] > 0 && params->size[1] > 0 && params->size[2] > 0;
  const char *wrong = !sizes                                                     ? "size"
                      : !are_orders(params)                                      ? "orders"
                      : !are_strides(params)                                     ? "strides"
                      : params->depth < 0 || params->depth > VX_MAX_SERIAL_DEPTH ? "depth"
                      : !vx_serial_origin_fits(params)                           ? "origin"
                                                                                 : NULL;
  return wrong ? vx_refuse(error, "the parameter %s of serialize is out of its bounds", wrong) : VX_OK;
}

static int32_t bits_of(uint32_t number) {
  int32_t bits = 0;
  for (; number > 0; number >>= 1) bits++;
  return bits;
}

enum vx_status vx_serial_depth(const struct vx_serialize *params, int32_t most, int32_t *depth, struct error *error) {
  int32_t needed = bits_of(params->depth == 0 ? (uint32_t)most + 1 : (uint32_t)most);
  int32_t allowed = params->depth == 0 ? VX_MAX_SERIAL_DEPTH : params->depth;
  *depth = params->depth == 0 ? needed : params->depth;
  if (needed <= allowed) return VX_OK;
  return vx_refuse(error,
                   "grid_coord reaches %d, which needs the depth %d; allowed: up to %d. Enlarge voxel_size, or drop "
                   "points far away with the step transform",
                   (int)most, (int)needed, (int)allowed);
}

int32_t vx_pool_bits(const struct vx_serialize *params, int32_t stage, int32_t depth) {
  int32_t bits = bits_of((uint32_t)params->strides[stage]) - 1;
  return bits > depth ? 0 : bits;
}
