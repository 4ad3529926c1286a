// Casts the rays; see scan.h.
#include "tests/support/scan/scan.h"

#include <math.h>
#include <string.h>

#include "tests/support/scan/random.h"
#include "tests/support/scan/street.h"

#define DEGREES (3.14159265358979323846 / 180.0)

enum { TRAVEL = 120 };  // metres; the vehicle drives 0..TRAVEL and starts again

static uint64_t ray_state(uint64_t seed, int64_t turn, int ring, int step) {
  uint64_t state = seed;
  state = next_u64(&state) ^ (uint64_t)turn;
  state = next_u64(&state) ^ ((uint64_t)(uint32_t)ring << 32 | (uint32_t)step);
  return next_u64(&state);
}

struct ray {
  double origin[3], direction[3];
};

struct hit {
  double range, cosine, reflectivity;  // cosine of the angle between ray and surface normal
  int label;
};

// The distances at which a ray enters and leaves an object. The meet_ functions return false if the ray misses the
// object or starts inside or beyond it.
struct span {
  double in, out, cosine;
};

static bool meet_box(const struct scan_object *object, const double origin[3], const double direction[3],
                     struct span *span) {
  *span = (struct span){-INFINITY, INFINITY, 0.0};
  for (int axis = 0; axis < 3; axis++) {
    if (direction[axis] == 0.0) {
      if (fabs(origin[axis]) > object->half[axis]) return false;
      continue;
    }
    double a = (-object->half[axis] - origin[axis]) / direction[axis],
           b = (object->half[axis] - origin[axis]) / direction[axis];
    if (fmin(a, b) > span->in) {
      span->in = fmin(a, b);
      span->cosine = fabs(direction[axis]);
    }
    span->out = fmin(span->out, fmax(a, b));
  }
  return span->in > 0.0 && span->in < span->out;
}

// A sphere or, with `axes` 2, the side of an upright cylinder, without its lids.
static bool meet_round(const struct scan_object *object, const double origin[3], const double direction[3], int axes,
                       struct span *span) {
  double a = 0.0, b = 0.0, c = -object->half[0] * object->half[0];
  for (int axis = 0; axis < axes; axis++) {
    a += direction[axis] * direction[axis];
    b += origin[axis] * direction[axis];
    c += origin[axis] * origin[axis];
  }
  double root = b * b - a * c;
  if (a == 0.0 || root <= 0.0) return false;
  span->in = (-b - sqrt(root)) / a;
  span->out = (-b + sqrt(root)) / a;
  span->cosine = sqrt(root) / object->half[0];
  return span->in > 0.0 && (axes == 3 || fabs(origin[2] + span->in * direction[2]) <= object->half[2]);
}

static bool meet(const struct scan_object *object, const struct ray *ray, struct span *span) {
  double from[3], along[3];  // the ray in the object's own axes
  double x = ray->origin[0] - object->centre[0], y = ray->origin[1] - object->centre[1];
  from[0] = object->cos_yaw * x + object->sin_yaw * y;
  from[1] = object->cos_yaw * y - object->sin_yaw * x;
  from[2] = ray->origin[2] - object->centre[2];
  along[0] = object->cos_yaw * ray->direction[0] + object->sin_yaw * ray->direction[1];
  along[1] = object->cos_yaw * ray->direction[1] - object->sin_yaw * ray->direction[0];
  along[2] = ray->direction[2];
  if (object->shape == SCAN_BOX) return meet_box(object, from, along, span);
  return meet_round(object, from, along, object->shape == SCAN_SPHERE ? 3 : 2, span);
}

static struct hit meet_ground(const struct scan_scene *scene, const struct ray *ray) {
  double above = ray->origin[2] - scan_ground_at(scene, ray->origin[0], ray->origin[1]);
  double sink = scene->slope[0] * ray->direction[0] + scene->slope[1] * ray->direction[1] - ray->direction[2];
  return (struct hit){sink > 0.0 ? above / sink : INFINITY, fmax(sink, 0.0), 0.28, 0};
}

// The nearest surface that the ray meets: the ground or a listed object. A ray may end anywhere inside a porous object.
static struct hit cast(const struct scan_scene *scene, const struct ray *ray, const int *near, int num_near,
                       uint64_t *random) {
  struct hit best = meet_ground(scene, ray);
  for (int i = 0; i < num_near; i++) {
    const struct scan_object *object = &scene->objects[near[i]];
    struct span span;
    if (!meet(object, ray, &span) || span.in >= best.range) continue;
    double range = span.in;
    if (object->porous) {
      double depth = uniform(random, 0.0, 1.2);
      if (depth > 1.0) continue;
      range += depth * depth * (span.out - span.in);
      if (range >= best.range) continue;
    }
    best = (struct hit){range, object->porous ? 0.7 : span.cosine, object->reflectivity, object->label};
  }
  return best;
}

// The objects that rays of one azimuth from `origin` can touch.
static int objects_in(const struct scan_scene *scene, const double origin[3], double cosine, double sine,
                      double max_range, int near[SCAN_MAX_OBJECTS]) {
  int count = 0;
  for (int i = 0; i < scene->num_objects; i++) {
    const struct scan_object *object = &scene->objects[i];
    double x = object->centre[0] - origin[0], y = object->centre[1] - origin[1];
    double reach = object->shape == SCAN_BOX ? hypot(object->half[0], object->half[1]) : object->half[0];
    double along = x * cosine + y * sine;
    if (fabs(x * sine - y * cosine) <= reach && along > -reach && along < max_range + reach) near[count++] = i;
  }
  return count;
}

// Whether the light returns. Adds noise to the range. More returns are lost from far surfaces and at grazing angles.
static bool returned(const struct scan_sensor *sensor, struct hit *hit, uint64_t *random) {
  if (!(hit->range <= sensor->max_range)) return false;
  double far = hit->range / sensor->max_range;
  double loss = sensor->loss + 0.6 * far * far + 0.35 * exp(-hit->cosine / 0.05);
  if (uniform(random, 0.0, 1.0) < loss) return false;
  hit->range += sensor->noise * normal(random);
  return hit->range > 0.3;
}

static float intensity_of(const struct scan_sensor *sensor, const struct hit *hit, uint64_t *random) {
  double share = hit->reflectivity * (0.5 + 0.6 * hit->cosine) + 0.08 * normal(random);
  float level = floorf((float)(fmin(fmax(share, 0.0), 0.999) * sensor->intensity_levels));
  return level * sensor->intensity_unit;
}

static float rounded(double metres, double resolution) { return (float)(rint(metres / resolution) * resolution); }

// Casts one ray. Returns false if it leaves no row. A lost ray may leave a point at or near the sensor's mount
// (mount_echo).
static bool fire(const struct scan_sensor *sensor, const struct scan_scene *scene, const struct ray *ray,
                 const int *near, int num_near, uint64_t random, struct scan_point *point) {
  static const double mount[3] = {-0.0005, -0.45, -0.0145};
  struct hit hit = cast(scene, ray, near, num_near, &random);
  double at_mount = 0.0;
  if (!returned(sensor, &hit, &random)) {
    if (!(uniform(&random, 0.0, 1.0) < sensor->mount_echo)) return false;
    hit = (struct hit){uniform(&random, 0.1, 1.1), 0.5, 0.1, 0};
    at_mount = uniform(&random, 0.0, 1.0) < 0.3 ? 1.0 : 0.0;
  }
  float *out[3] = {&point->x, &point->y, &point->z};
  for (int axis = 0; axis < 3; axis++) {
    double offset = at_mount > 0.0 ? mount[axis] : hit.range * ray->direction[axis];
    *out[axis] = rounded(ray->origin[axis] + offset, sensor->resolution);
  }
  point->intensity = intensity_of(sensor, &hit, &random);
  point->noise = next_u64(&random);
  point->label = hit.label;
  return true;
}

// Removes the places with ring < 0 from the points of one turn, [beams][steps] or [steps][beams].
static size_t compact(const struct scan_sensor *sensor, struct scan_point *points) {
  size_t places = (size_t)sensor->beams * (size_t)sensor->steps, count = 0;
  for (size_t i = 0; i < places; i++)
    if (points[i].ring >= 0) points[count++] = points[i];
  return count;
}

size_t scan_turn(const struct scan_sensor *sensor, const struct scan_scene *scene, int64_t turn,
                 struct scan_point *points) {
  double travel = (double)(turn % TRAVEL);
  struct ray ray = {.origin = {travel, 0.0, scene->slope[0] * travel}};
  int near[SCAN_MAX_OBJECTS];
  for (int step = 0; step < sensor->steps; step++) {
    double azimuth = 360.0 * DEGREES * step / sensor->steps;
    double cosine = cos(azimuth), sine = sin(azimuth);
    int num_near = objects_in(scene, ray.origin, cosine, sine, sensor->max_range, near);
    for (int beam = 0; beam < sensor->beams; beam++) {
      uint64_t tolerance = ray_state(scene->seed, -1, beam, 0);  // lasers are mounted slightly unevenly
      double elevation = (sensor->elevation(beam, sensor->beams) + uniform(&tolerance, -0.03, 0.03)) * DEGREES;
      ray.direction[0] = cos(elevation) * cosine;
      ray.direction[1] = cos(elevation) * sine;
      ray.direction[2] = sin(elevation);
      size_t place = sensor->ring_major ? (size_t)beam * (size_t)sensor->steps + (size_t)step
                                        : (size_t)step * (size_t)sensor->beams + (size_t)beam;
      struct scan_point *point = &points[place];
      bool kept = fire(sensor, scene, &ray, near, num_near, ray_state(scene->seed, turn, beam, step), point);
      point->ring = kept ? beam : -1;
      point->time = (float)(sensor->turn_seconds * ((double)turn + (double)step / sensor->steps));
    }
  }
  return compact(sensor, points);
}

void scan_row(const struct scan_point *point, int columns, float *row) {
  const float known[] = {point->x, point->y, point->z, point->intensity, (float)point->ring, point->time};
  const int num_known = (int)(sizeof known / sizeof known[0]);
  uint64_t noise = point->noise;
  for (int i = 0; i < columns; i++) row[i] = i < num_known ? known[i] : (float)uniform(&noise, -1.0, 1.0);
}
