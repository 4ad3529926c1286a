// The street; see street.h.
#include "tests/support/scan/street.h"

#include <math.h>
#include <string.h>

#include "tests/support/scan/random.h"

double scan_ground_at(const struct scan_scene *scene, double x, double y) {
  return scene->ground + scene->slope[0] * x + scene->slope[1] * y;
}

enum { STREET_BEGIN = -140, STREET_END = 260 };  // metres

void scan_put(struct scan_scene *scene, struct scan_object object, double x, double y, double lift) {
  if (scene->num_objects == SCAN_MAX_OBJECTS) return;
  object.centre[0] = x;
  object.centre[1] = y;
  object.centre[2] = scan_ground_at(scene, x, y) + lift + object.half[2];
  scene->objects[scene->num_objects++] = object;
}

struct scan_object scan_box(double length, double width, double height, double yaw, double reflectivity) {
  return (struct scan_object){.shape = SCAN_BOX,
                              .half = {length / 2, width / 2, height / 2},
                              .cos_yaw = cos(yaw),
                              .sin_yaw = sin(yaw),
                              .reflectivity = reflectivity};
}

struct scan_object scan_cylinder(double radius, double height, double reflectivity) {
  return (struct scan_object){
      .shape = SCAN_CYLINDER, .half = {radius, radius, height / 2}, .cos_yaw = 1.0, .reflectivity = reflectivity};
}

static void put_car(struct scan_scene *scene, uint64_t *random, double x, double y) {
  double yaw = uniform(random, -0.05, 0.05);
  double length = uniform(random, 3.7, 4.8), width = uniform(random, 1.65, 1.9), paint = uniform(random, 0.1, 0.7);
  scan_put(scene, scan_box(length, width, 0.65, yaw, paint), x, y, 0.2);
  scan_put(scene, scan_box(length * 0.55, width * 0.85, 0.6, yaw, 0.15), x - 0.1 * length, y, 0.85);
}

static void put_tree(struct scan_scene *scene, uint64_t *random, double x, double y) {
  double trunk = uniform(random, 1.8, 2.6), radius = uniform(random, 1.2, 2.6);
  scan_put(scene, scan_cylinder(uniform(random, 0.1, 0.3), trunk + radius, 0.25), x, y, 0.0);
  struct scan_object crown = {.shape = SCAN_SPHERE,
                              .half = {radius, radius, radius},
                              .cos_yaw = 1.0,
                              .reflectivity = uniform(random, 0.3, 0.5),
                              .porous = true};
  scan_put(scene, crown, x, y, trunk - 0.4 * radius);
}

static void put_houses(struct scan_scene *scene, uint64_t *random, const struct scan_sensor *sensor, double side) {
  double x = STREET_BEGIN;
  while (x < STREET_END) {
    double length = uniform(random, 8.0, 20.0), depth = uniform(random, 8.0, 12.0);
    double front = uniform(random, sensor->facade_min, sensor->facade_max);
    scan_put(
        scene,
        scan_box(length, depth, uniform(random, 4.0, 11.0), uniform(random, -0.03, 0.03), uniform(random, 0.2, 0.5)),
        x + length / 2, side * (front + depth / 2), 0.0);
    x += length + uniform(random, 1.0, 7.0);
  }
}

// Puts hedges, trees and poles between the kerb and the houses. Unless `bare`, also puts people there, and parked cars
// on the street.
static void put_roadside(struct scan_scene *scene, uint64_t *random, const struct scan_sensor *sensor, double side,
                         bool bare) {
  double kerb = sensor->facade_min - 2.6;
  double x = STREET_BEGIN;
  while (x < STREET_END) {
    if (!bare && uniform(random, 0.0, 1.0) < 0.55)
      put_car(scene, random, x, side * (kerb - 1.0 + uniform(random, -0.2, 0.2)));
    double kind = uniform(random, 0.0, 1.0);
    if (kind < 0.35) {
      struct scan_object hedge =
          scan_box(uniform(random, 2.0, 6.0), uniform(random, 0.5, 1.0), uniform(random, 0.7, 1.9), 0.0, 0.4);
      hedge.porous = true;
      scan_put(scene, hedge, x, side * (kerb + uniform(random, 1.4, 2.0)), 0.0);
    } else if (kind < 0.65) {
      put_tree(scene, random, x, side * (kerb + uniform(random, 0.8, 2.0)));
    } else if (kind < 0.8) {
      scan_put(scene, scan_cylinder(uniform(random, 0.06, 0.15), uniform(random, 4.0, 8.0), 0.6), x,
               side * (kerb + 0.4), 0.0);
    } else if (!bare && kind < 0.87) {
      scan_put(scene, scan_cylinder(0.25, uniform(random, 1.5, 1.9), 0.3), x, side * (kerb + 0.9), 0.0);
    }
    x += uniform(random, 5.2, 8.0);
  }
}

uint64_t scan_street_make(const struct scan_sensor *sensor, uint64_t seed, bool bare, struct scan_scene *scene) {
  uint64_t random = seed;
  memset(scene, 0, sizeof *scene);
  scene->seed = seed;
  scene->ground = -sensor->height;
  scene->slope[0] = uniform(&random, -0.015, 0.015);
  scene->slope[1] = uniform(&random, -0.01, 0.01);
  for (int side = -1; side <= 1; side += 2) {
    put_houses(scene, &random, sensor, side);
    put_roadside(scene, &random, sensor, side, bare);
  }
  return random;
}

void scan_scene_make(const struct scan_sensor *sensor, uint64_t seed, struct scan_scene *scene) {
  uint64_t random = scan_street_make(sensor, seed, false, scene);
  put_car(scene, &random, uniform(&random, 12.0, 25.0), -0.4);
  put_car(scene, &random, uniform(&random, -30.0, -15.0), 1.2);
}
