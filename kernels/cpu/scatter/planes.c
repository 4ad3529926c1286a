// Writes a map one channel at a time: a plane is still in the cache from its clearing when the rows write to it.
#include "kernels/cpu/scatter/scatter.h"

#include <string.h>

// With a constant value size, the compiler turns a copy into one load and one store.
static inline void fill(const struct cpu_planes *planes, struct vx_stop *stop, size_t value_bytes, int64_t channel,
                        const struct cpu_placed *placed, int64_t count, unsigned char *plane) {
  const unsigned char *features = (const unsigned char *)planes->features + (size_t)channel * value_bytes;
  size_t row_bytes = (size_t)planes->channels * value_bytes;
  VX_EACH_ROW(stop, i, 0, count)
    memcpy(plane + (size_t)placed[i].cell * value_bytes, features + (size_t)placed[i].row * row_bytes, value_bytes);
}

void cpu_write_planes(const struct cpu_planes *planes, struct vx_stop *stop, const struct cpu_placed *placed,
                      int64_t count, void *map) {
  size_t plane_bytes = (size_t)planes->cells * vx_dtype_size(planes->dtype);
  unsigned char *plane = map;
  for (int64_t channel = 0; channel < planes->channels; channel++, plane += plane_bytes) {
    vx_fill(stop, plane, 0, plane_bytes);
    if (vx_dtype_size(planes->dtype) == sizeof(uint16_t))
      fill(planes, stop, sizeof(uint16_t), channel, placed, count, plane);
    else
      fill(planes, stop, sizeof(float), channel, placed, count, plane);
  }
}
