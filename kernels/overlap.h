// The overlap of two rotated boxes, seen from above. Pure functions for C and CUDA.
//
// Box b is clipped by the four sides of box a (Sutherland-Hodgman), in the frame of a. All arithmetic is IEEE binary64,
// in the order written here. Compile it with -ffp-contract=off or --fmad=false.
#ifndef VOXELD_OVERLAP_H
#define VOXELD_OVERLAP_H

#include "kernels/boxes.h"
#include "kernels/exact.h"

struct vx_rectangle {
  double x, y;          // of the centre
  double hx, hy;        // half the sides
  double sine, cosine;  // of the heading
  double area, radius;  // the radius of the circle through the corners
};

// The box must be valid.
VX_SHARED struct vx_rectangle vx_rectangle_of(const float box[VX_BOX_VALUES]) {
  struct vx_rectangle r;
  r.x = box[0];
  r.y = box[1];
  r.hx = (double)box[3] / 2;
  r.hy = (double)box[4] / 2;
  vx_sincos(box[6], &r.sine, &r.cosine);
  r.area = (double)box[3] * (double)box[4];
  r.radius = sqrt(r.hx * r.hx + r.hy * r.hy);
  return r;
}

// The most corners of an intersection. Rounding adds corners only if the area is 0.
enum { VX_OVERLAP_CORNERS = 8 };

struct vx_polygon {
  int count;
  double at[VX_OVERLAP_CORNERS][2];
};

VX_SHARED void vx_polygon_add(struct vx_polygon *polygon, double a, double b, int axis) {
  if (polygon->count < VX_OVERLAP_CORNERS) {
    polygon->at[polygon->count][axis] = a;
    polygon->at[polygon->count][1 - axis] = b;
    polygon->count++;
  }
}

// Keeps the part where sign * coordinate <= bound on the axis. Computes each crossing from the inner end of its edge,
// so both directions of an edge give the same point.
VX_SHARED void vx_polygon_cut(const struct vx_polygon *from, int axis, double sign, double bound,
                              struct vx_polygon *to) {
  to->count = 0;
  for (int i = 0; i < from->count; i++) {
    const double *here = from->at[i], *next = from->at[i + 1 < from->count ? i + 1 : 0];
    double d = bound - sign * here[axis], e = bound - sign * next[axis];
    if (d >= 0) vx_polygon_add(to, here[axis], here[1 - axis], axis);
    if ((d >= 0) != (e >= 0)) {
      const double *in = d >= 0 ? here : next, *out = d >= 0 ? next : here;
      double inner = d >= 0 ? d : e, outer = d >= 0 ? e : d;
      double t = inner / (inner - outer);
      vx_polygon_add(to, sign * bound, in[1 - axis] + t * (out[1 - axis] - in[1 - axis]), axis);
    }
  }
}

VX_SHARED double vx_polygon_area(const struct vx_polygon *polygon) {
  const double *at = polygon->at[0];
  double sum = 0;
  for (int i = 1; i + 1 < polygon->count; i++) {
    const double *b = polygon->at[i], *c = polygon->at[i + 1];
    sum = sum + ((b[0] - at[0]) * (c[1] - at[1]) - (b[1] - at[1]) * (c[0] - at[0]));
  }
  return sum / 2;
}

// Whether the circles through the boxes' corners are apart.
VX_SHARED bool vx_are_apart(const struct vx_rectangle *a, const struct vx_rectangle *b) {
  double x = b->x - a->x, y = b->y - a->y, reach = a->radius + b->radius;
  return x * x + y * y > reach * reach;
}

// The area of the intersection. `a` must be the box that ranks first: swapping the boxes changes the last bits.
VX_SHARED double vx_overlap(const struct vx_rectangle *a, const struct vx_rectangle *b) {
  if (vx_are_apart(a, b)) return 0;
  double x = b->x - a->x, y = b->y - a->y;
  double px = a->cosine * x + a->sine * y, py = a->cosine * y - a->sine * x;
  double c = a->cosine * b->cosine + a->sine * b->sine, s = b->sine * a->cosine - b->cosine * a->sine;
  double ux = c * b->hx, uy = s * b->hx, vx = -s * b->hy, vy = c * b->hy;
  struct vx_polygon one = {4,
                           {{(px - ux) - vx, (py - uy) - vy},
                            {(px + ux) - vx, (py + uy) - vy},
                            {(px + ux) + vx, (py + uy) + vy},
                            {(px - ux) + vx, (py - uy) + vy}}};
  struct vx_polygon other;
  vx_polygon_cut(&one, 0, 1, a->hx, &other);
  vx_polygon_cut(&other, 0, -1, a->hx, &one);
  vx_polygon_cut(&one, 1, 1, a->hy, &other);
  vx_polygon_cut(&other, 1, -1, a->hy, &one);
  double area = vx_polygon_area(&one), least = a->area < b->area ? a->area : b->area;
  area = area > 0 ? area : 0;  // NaN becomes 0 too
  return area < least ? area : least;
}

VX_SHARED bool vx_are_near(const struct vx_rectangle *a, const struct vx_rectangle *b, float radius) {
  double x = b->x - a->x, y = b->y - a->y;
  return x * x + y * y <= (double)radius * (double)radius;
}

// Whether `a`, which is kept and ranks before `b`, suppresses `b`. Labels are ignored.
VX_SHARED bool vx_suppresses(const struct vx_rectangle *a, const struct vx_rectangle *b, const struct vx_nms *nms) {
  if (nms->circle) return vx_are_near(a, b, nms->radius);
  double overlap = vx_overlap(a, b);
  return overlap > 0 && overlap > (double)nms->iou_threshold * ((a->area + b->area) - overlap);
}

#endif
