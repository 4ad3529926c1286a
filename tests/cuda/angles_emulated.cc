// cuda-angles-emulated: the angles that kernels find with fewer operations (base/cylinder.cuh, image/pixels.cuh), for
// many points. The angle of a cylinder's row must have the bits of vx_cylinder_phi; columns and rows of an image must
// equal those of range_image.h. The errors in float32 must be at most half of those that the kernels assume. One
// thread. Exit code 1 if something differs.
#include <cstdio>
#include <cstring>

#include "fibres.h"
#include "kernels/cuda/base/cylinder.cuh"
#include "kernels/cuda/image/pixels.cuh"

static uint64_t next_random() {
  static uint64_t state = 1;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return state >> 32;
}

// Mostly a coordinate of a scan; sometimes 0 of either sign, a whole number, or any finite float.
static float random_coordinate() {
  static const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, 1e-30f, -1e30f, 3e38f};
  uint64_t kind = next_random() % 16;
  if (kind == 0) return special[next_random() % 8];
  if (kind == 1) return (float)(next_random() % 9) - 4;
  if (kind == 2) {
    float any = vx_bits_float((uint32_t)next_random());
    return vx_is_finite(any) ? any : 1.0f;
  }
  return (float)((double)next_random() / 4294967296.0 - 0.5) * 160;
}

// How many of the three results differ.
static int differing(const struct vx_range_image *params, const struct cuda_view_of_image &view, float x, float y,
                     float z) {
  float quick = cuda_phi(x, y), exact = vx_cylinder_phi(x, y);
  double row = vx_row_in_image(&view.exact, params->outside, vx_image_row(&view.exact, x, y, z));
  return (memcmp(&quick, &exact, sizeof quick) != 0) +
         (cuda_image_column(view, x, y) != (int32_t)vx_image_column(&view.exact, x, y)) +
         (cuda_image_row(view, params->outside, x, y, z) != (int32_t)row);
}

// Whether the errors for a point of a scan are at most half of what the kernels assume.
static bool is_near(const struct cuda_view_of_image &view, float x, float y, float z) {
  float square = x * x + y * y;
  if (!(square > 1e-30f && square < 1e30f)) return true;
  double turns = vx_atan2(y, x) / (2 * VX_PI), pitch = vx_atan2(z, sqrt((double)x * x + (double)y * y));
  double column = (0.5 - turns) * view.width, row = (view.exact.up - pitch) / view.exact.span * view.exact.height;
  return fabs((0.5f - cuda_turns(y, x)) * view.width - column) <= view.column_error / 2 &&
         fabs((view.up - cuda_turns(z, sqrtf(square))) * view.scale - row) <= view.row_error / 2;
}

int main() {
  enum { POINTS = 400000 };
  struct vx_range_image images[3] = {};
  images[0].height = 64, images[0].width = 2048, images[0].fov_up = 3, images[0].fov_down = -25;
  images[1].height = 1024, images[1].width = 65536, images[1].fov_up = 90, images[1].fov_down = -90;
  images[2].height = 32, images[2].width = 7, images[2].fov_up = 10, images[2].fov_down = 9.999;
  images[2].outside = VX_OUTSIDE_DROP;
  int different = 0, far = 0;
  for (int i = 0; i < POINTS; i++) {
    float x = random_coordinate(), y = random_coordinate(), z = random_coordinate();
    for (const struct vx_range_image &image : images) {
      const struct cuda_view_of_image view = cuda_view_of_image(&image);
      different += differing(&image, view, x, y, z);
      far += !is_near(view, x, y, z);
    }
  }
  printf("%d points, %d results differ, %d errors are too large\n", POINTS, different, far);
  return different != 0 || far != 0;
}
