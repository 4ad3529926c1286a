// The simulated lidar: the sensors' table, the street, and the casting of rays. See scan.h.
#include "tests/support/scan/scan.h"

#include <math.h>
#include <string.h>

#define DEGREES (3.14159265358979323846 / 180.0)

// --- Sensors
// ---------------------------------------------------------------------------------------------------------------

// Velodyne HDL-64E: an upper block of 32 lasers a third of a degree apart, a lower block of 32 half a degree apart.
static double hdl64_elevation(int beam, int beams) {
  int half = beams / 2;
  return beam < half ? 2.0 - beam * (10.33 / (half - 1)) : -8.83 - (beam - half) * (15.97 / (half - 1));
}

// Velodyne HDL-32E: 4/3 degree apart; its files begin with the lowest laser.
static double hdl32_elevation(int beam, int beams) { return -30.67 + beam * (41.34 / (beams - 1)); }

// A 128-laser sensor that looks from +15 to -25 degrees, a ninth of a degree apart near the horizon and wider outwards.
static double alpha128_elevation(int beam, int beams) {
  double u = 2.0 * beam / (beams - 1) - 1.0;
  return 7.0 * u + (u > 0.0 ? 8.0 : 18.0) * pow(u, 5.0);
}

const struct scan_sensor scan_sensors[] = {
    {.name = "hdl64",
     .description = "64 beams, +2 to -24.8 degrees, narrow street (as KITTI)",
     .beams = 64,
     .steps = 2000,
     .height = 1.73,
     .max_range = 80.0,
     .noise = 0.015,
     .loss = 0.07,
     .mount_echo = 0.0,
     .resolution = 1e-3,
     .turn_seconds = 0.1,
     .intensity_levels = 100.0F,
     .intensity_unit = 0.01F,
     .ring_major = true,
     .facade_min = 7.6,
     .facade_max = 11.5,
     .elevation = hdl64_elevation},
    {.name = "hdl32",
     .description = "32 beams, +10.67 to -30.67 degrees, wide street (as nuScenes)",
     .beams = 32,
     .steps = 1084,
     .height = 1.84,
     .max_range = 105.0,
     .noise = 0.02,
     .loss = 0.05,
     .mount_echo = 1.0,
     .resolution = 1.0 / 65536,
     .turn_seconds = 0.05,
     .intensity_levels = 256.0F,
     .intensity_unit = 1.0F,
     .ring_major = false,
     .facade_min = 13.0,
     .facade_max = 26.0,
     .elevation = hdl32_elevation},
    {.name = "alpha128",
     .description = "128 beams, +15 to -25 degrees, long range, wide street",
     .beams = 128,
     .steps = 1800,
     .height = 1.9,
     .max_range = 245.0,
     .noise = 0.02,
     .loss = 0.03,
     .mount_echo = 0.0,
     .resolution = 1.0 / 65536,
     .turn_seconds = 0.1,
     .intensity_levels = 256.0F,
     .intensity_unit = 1.0F,
     .ring_major = false,
     .facade_min = 13.0,
     .facade_max = 26.0,
     .elevation = alpha128_elevation},
    {.name = NULL},
};

const struct scan_sensor *scan_sensor_named(const char *name) {
  for (const struct scan_sensor *sensor = scan_sensors; sensor->name; sensor++) {
    if (strcmp(sensor->name, name) == 0) return sensor;
  }
  return NULL;
}

// --- Random numbers: SplitMix64 (Steele, Lea and Flood, 2014): one 64-bit word of state, so a ray can have its own
// ------------

static uint64_t next_u64(uint64_t *state) {
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static double uniform(uint64_t *state, double low, double high) {
  return low + (high - low) * ((double)(next_u64(state) >> 11) * 0x1p-53);
}

// Nearly normal, by the sum of four uniforms: bounded, and free of log and cos, whose last bit differs between
// libraries.
static double normal(uint64_t *state) {
  double sum = 0.0;
  for (int i = 0; i < 4; i++) sum += uniform(state, -0.5, 0.5);
  return sum * 1.7320508075688772;  // the sum's variance is 4/12
}

static uint64_t ray_state(uint64_t seed, int64_t turn, int ring, int step) {
  uint64_t state = seed;
  state = next_u64(&state) ^ (uint64_t)turn;
  state = next_u64(&state) ^ ((uint64_t)(uint32_t)ring << 32 | (uint32_t)step);
  return next_u64(&state);
}

// --- The street, along x
// ----------------------------------------------------------------------------------------------------

enum { STREET_BEGIN = -140, STREET_END = 260, TRAVEL = 120 };  // metres; the vehicle drives 0..TRAVEL and starts again

static double ground_at(const struct scan_scene *scene, double x, double y) {
  return scene->ground + scene->slope[0] * x + scene->slope[1] * y;
}

// Puts an object of the given half sizes on the ground, `lift` metres above it. A full scene takes no more.
static void put(struct scan_scene *scene, struct scan_object object, double x, double y, double lift) {
  if (scene->num_objects == SCAN_MAX_OBJECTS) return;
  object.centre[0] = x;
  object.centre[1] = y;
  object.centre[2] = ground_at(scene, x, y) + lift + object.half[2];
  scene->objects[scene->num_objects++] = object;
}

static struct scan_object box(double length, double width, double height, double yaw, double reflectivity) {
  return (struct scan_object){.shape = SCAN_BOX,
                              .half = {length / 2, width / 2, height / 2},
                              .cos_yaw = cos(yaw),
                              .sin_yaw = sin(yaw),
                              .reflectivity = reflectivity};
}

static struct scan_object cylinder(double radius, double height, double reflectivity) {
  return (struct scan_object){
      .shape = SCAN_CYLINDER, .half = {radius, radius, height / 2}, .cos_yaw = 1.0, .reflectivity = reflectivity};
}

static void put_car(struct scan_scene *scene, uint64_t *random, double x, double y) {
  double yaw = uniform(random, -0.05, 0.05);
  double length = uniform(random, 3.7, 4.8), width = uniform(random, 1.65, 1.9), paint = uniform(random, 0.1, 0.7);
  put(scene, box(length, width, 0.65, yaw, paint), x, y, 0.2);
  put(scene, box(length * 0.55, width * 0.85, 0.6, yaw, 0.15), x - 0.1 * length, y, 0.85);
}

static void put_tree(struct scan_scene *scene, uint64_t *random, double x, double y) {
  double trunk = uniform(random, 1.8, 2.6), radius = uniform(random, 1.2, 2.6);
  put(scene, cylinder(uniform(random, 0.1, 0.3), trunk + radius, 0.25), x, y, 0.0);
  struct scan_object crown = {.shape = SCAN_SPHERE,
                              .half = {radius, radius, radius},
                              .cos_yaw = 1.0,
                              .reflectivity = uniform(random, 0.3, 0.5),
                              .porous = true};
  put(scene, crown, x, y, trunk - 0.4 * radius);
}

static void put_houses(struct scan_scene *scene, uint64_t *random, const struct scan_sensor *sensor, double side) {
  double x = STREET_BEGIN;
  while (x < STREET_END) {
    double length = uniform(random, 8.0, 20.0), depth = uniform(random, 8.0, 12.0);
    double front = uniform(random, sensor->facade_min, sensor->facade_max);
    put(scene, box(length, depth, uniform(random, 4.0, 11.0), uniform(random, -0.03, 0.03), uniform(random, 0.2, 0.5)),
        x + length / 2, side * (front + depth / 2), 0.0);
    x += length + uniform(random, 1.0, 7.0);
  }
}

// What stands between the kerb and the houses: hedges, trees, poles, people; and the cars parked before them.
static void put_roadside(struct scan_scene *scene, uint64_t *random, const struct scan_sensor *sensor, double side) {
  double kerb = sensor->facade_min - 2.6;
  double x = STREET_BEGIN;
  while (x < STREET_END) {
    if (uniform(random, 0.0, 1.0) < 0.55) put_car(scene, random, x, side * (kerb - 1.0 + uniform(random, -0.2, 0.2)));
    double kind = uniform(random, 0.0, 1.0);
    if (kind < 0.35) {
      struct scan_object hedge =
          box(uniform(random, 2.0, 6.0), uniform(random, 0.5, 1.0), uniform(random, 0.7, 1.9), 0.0, 0.4);
      hedge.porous = true;
      put(scene, hedge, x, side * (kerb + uniform(random, 1.4, 2.0)), 0.0);
    } else if (kind < 0.65) {
      put_tree(scene, random, x, side * (kerb + uniform(random, 0.8, 2.0)));
    } else if (kind < 0.8) {
      put(scene, cylinder(uniform(random, 0.06, 0.15), uniform(random, 4.0, 8.0), 0.6), x, side * (kerb + 0.4), 0.0);
    } else if (kind < 0.87) {
      put(scene, cylinder(0.25, uniform(random, 1.5, 1.9), 0.3), x, side * (kerb + 0.9), 0.0);
    }
    x += uniform(random, 5.2, 8.0);
  }
}

void scan_scene_make(const struct scan_sensor *sensor, uint64_t seed, struct scan_scene *scene) {
  uint64_t random = seed;
  memset(scene, 0, sizeof *scene);
  scene->seed = seed;
  scene->ground = -sensor->height;
  scene->slope[0] = uniform(&random, -0.015, 0.015);
  scene->slope[1] = uniform(&random, -0.01, 0.01);
  for (int side = -1; side <= 1; side += 2) {
    put_houses(scene, &random, sensor, side);
    put_roadside(scene, &random, sensor, side);
  }
  put_car(scene, &random, uniform(&random, 12.0, 25.0), -0.4);
  put_car(scene, &random, uniform(&random, -30.0, -15.0), 1.2);
}

// --- Rays
// ---------------------------------------------------------------------------------------------------------------------

struct ray {
  double origin[3], direction[3];
};

struct hit {
  double range, cosine, reflectivity;  // cosine of the angle between ray and surface normal
};

// Where a ray enters and leaves a body; false if it misses it or the body lies behind.
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

// A sphere, or with `axes` 2 the mantle of an upright cylinder; its lids are too small to matter.
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
  double above = ray->origin[2] - ground_at(scene, ray->origin[0], ray->origin[1]);
  double sink = scene->slope[0] * ray->direction[0] + scene->slope[1] * ray->direction[1] - ray->direction[2];
  return (struct hit){sink > 0.0 ? above / sink : INFINITY, fmax(sink, 0.0), 0.28};
}

// The nearest surface that the ray meets among the ground and the listed objects; leaves stop it somewhere inside, or
// not.
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
    best = (struct hit){range, object->porous ? 0.7 : span.cosine, object->reflectivity};
  }
  return best;
}

// The objects that a vertical half-plane from `origin` can touch: a ray of that azimuth need look at no other.
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

// Whether the light comes back, and what the sensor says of it. Far, dark and grazing surfaces are lost more often.
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

// One ray; false if it leaves no row. A driver that keeps lost rays reports them at its own mount or close to it.
static bool fire(const struct scan_sensor *sensor, const struct scan_scene *scene, const struct ray *ray,
                 const int *near, int num_near, uint64_t random, struct scan_point *point) {
  static const double mount[3] = {-0.0005, -0.45, -0.0145};
  struct hit hit = cast(scene, ray, near, num_near, &random);
  double at_mount = 0.0;
  if (!returned(sensor, &hit, &random)) {
    if (!(uniform(&random, 0.0, 1.0) < sensor->mount_echo)) return false;
    hit = (struct hit){uniform(&random, 0.1, 1.1), 0.5, 0.1};
    at_mount = uniform(&random, 0.0, 1.0) < 0.3 ? 1.0 : 0.0;
  }
  float *out[3] = {&point->x, &point->y, &point->z};
  for (int axis = 0; axis < 3; axis++) {
    double offset = at_mount > 0.0 ? mount[axis] : hit.range * ray->direction[axis];
    *out[axis] = rounded(ray->origin[axis] + offset, sensor->resolution);
  }
  point->intensity = intensity_of(sensor, &hit, &random);
  point->noise = next_u64(&random);
  return true;
}

// Moves the points of one turn together, in the sensor's file order. `points` is [beams][steps]; ring < 0 marks an
// empty place.
static size_t compact(const struct scan_sensor *sensor, struct scan_point *points) {
  size_t places = (size_t)sensor->beams * (size_t)sensor->steps, count = 0;
  for (size_t i = 0; i < places; i++) {
    if (points[i].ring >= 0) points[count++] = points[i];
  }
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
      uint64_t tolerance = ray_state(scene->seed, -1, beam, 0);  // lasers are not mounted quite evenly
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
