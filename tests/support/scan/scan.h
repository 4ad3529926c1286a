// A simulated spinning lidar. Its scans stand in for real ones, which may not be distributed.
//
// One seed makes one street. The same sensor, seed and turn always give the same points: each ray draws its noise from
// a generator seeded only by (seed, turn, ring, step).
//
// No shared state: many threads may read a scene. The caller owns the scene and the points.
#ifndef VOXELD_TESTS_SCAN_H
#define VOXELD_TESTS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  SCAN_MIN_COLUMNS = 3,
  SCAN_MAX_COLUMNS = 64,
  SCAN_MAX_OBJECTS = 1024,
  SCAN_MAX_LABELS = 128,
};

struct scan_sensor {
  const char *name;
  const char *description;
  int beams, steps;        // elevations; azimuth steps of one turn
  double height;           // above the ground, metres
  double max_range;        // metres
  double noise;            // standard deviation of the range, metres
  double loss;             // least share of returns that are lost; range and grazing angle add to it
  double mount_echo;       // share of lost rays that the driver reports as returns from the sensor's own mount
  double resolution;       // metres; coordinates are multiples of it
  double turn_seconds;     // duration of one turn
  float intensity_levels;  // intensity is one of 0 .. levels-1, times intensity_unit
  float intensity_unit;
  bool ring_major;                           // file order: ring by ring (KITTI) or firing by firing (nuScenes)
  double facade_min, facade_max;             // metres from the middle of the street to the houses
  double (*elevation)(int beam, int beams);  // degrees; beam 0 comes first in the file
};

struct scan_point {
  float x, y, z, intensity;
  float time;      // seconds since the first turn began
  uint64_t noise;  // seed of the columns after `time`
  int ring;
  int label;  // number of its label in the scene, from 1; 0: none
};

enum scan_shape { SCAN_BOX, SCAN_CYLINDER, SCAN_SPHERE };

// half[]: metres along the object's own axes; half[0] is the radius of a cylinder or a sphere.
struct scan_object {
  enum scan_shape shape;
  double centre[3], half[3], cos_yaw, sin_yaw;
  double reflectivity;  // 0..1
  bool porous;          // such as leaves: a ray ends anywhere inside, or passes
  int label;            // number of its label in the scene, from 1; 0: none
};

enum scan_class { SCAN_CAR, SCAN_PEDESTRIAN, SCAN_CYCLIST, SCAN_CLASSES };

struct scan_label {
  enum scan_class kind;
  double centre[3], size[3];  // metres along the box's own axes
  double heading;             // of its length, counter-clockwise from x
};

struct scan_scene {
  uint64_t seed;
  double slope[2];  // of the ground, along x and y
  double ground;    // height of the ground under the sensor, metres
  int num_objects;
  struct scan_object objects[SCAN_MAX_OBJECTS];
  int num_labels;
  struct scan_label labels[SCAN_MAX_LABELS];
};

// The last sensor has no name. The function returns NULL if no sensor has the name.
extern const struct scan_sensor scan_sensors[];
const struct scan_sensor *scan_sensor_named(const char *name);

void scan_scene_make(const struct scan_sensor *sensor, uint64_t seed, struct scan_scene *scene);

// Makes a street that is up to 32 m wider, with labelled cars, pedestrians and cyclists, and unlabelled lorries.
void scan_traffic_make(const struct scan_sensor *sensor, uint64_t seed, struct scan_scene *scene);

const char *scan_class_name(enum scan_class kind);

// Turns the sensor once. Fills `points`, which has room for beams * steps, in the order of the sensor's files. Returns
// the number of points. The vehicle begins at the origin in turn 0, moves a metre per turn, and is back at the origin
// every 120 turns. All points are in the frame of turn 0.
size_t scan_turn(const struct scan_sensor *sensor, const struct scan_scene *scene, int64_t turn,
                 struct scan_point *points);

// Fills one row of the file: x y z intensity ring time, then random numbers in [-1, 1).
void scan_row(const struct scan_point *point, int columns, float *row);

#endif
