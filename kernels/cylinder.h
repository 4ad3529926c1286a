// The cylindrical rows that a voxelization with VX_CYLINDER sees (voxelize.h). Pure functions for C and CUDA.
#ifndef VOXELD_CYLINDER_H
#define VOXELD_CYLINDER_H

#include "kernels/exact.h"
#include "kernels/half.h"

enum { VX_CYLINDER_EXTRA = 2 };  // columns of a row in addition to those of its point

// A row is rho, phi, z, x, y, then the other columns. rho = sqrt(x * x + y * y) and phi = atan2(y, x) are computed in
// binary64 and rounded once. If x < 0 and y is -0, phi is pi. A rho that is not finite becomes NaN, as does the rho
// of a row that the chain dropped, whose x is NaN (steps.h).
VX_SHARED float vx_cylinder_rho(double x, double y) { return (float)sqrt(x * x + y * y); }
VX_SHARED float vx_cylinder_phi(double x, double y) { return (float)vx_atan2(y, x); }

VX_SHARED void vx_cylinder_row(float rho, float phi, const float *point, int32_t columns, float *row) {
  row[0] = vx_are_finite(rho, rho, rho) ? rho : vx_bits_float(VX_FLOAT_NAN);
  row[1] = phi;
  row[2] = point[2];
  row[3] = point[0];
  row[4] = point[1];
  for (int32_t c = 3; c < columns; c++) row[c + VX_CYLINDER_EXTRA] = point[c];
}

VX_SHARED void vx_to_cylinder(const float *point, int32_t columns, float *row) {
  double x = (double)point[0], y = (double)point[1];
  vx_cylinder_row(vx_cylinder_rho(x, y), vx_cylinder_phi(x, y), point, columns, row);
}

#endif
