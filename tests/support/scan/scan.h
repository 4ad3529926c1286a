// A simulated spinning lidar: its scans resemble real ones, which may not be shipped.
//
// One seed makes one street (sloping ground, houses, hedges, parked cars, poles, trees, people); a sensor turns once in
// it and gives the points of that turn in the order in which such a sensor's files hold them. The same sensor, seed and
// turn give the same points every time: each ray draws its noise from a generator seeded by (seed, turn, ring, step)
// alone.
//
// Threads: no shared state; a scene may be read by many threads. The caller owns the scene and the points.
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

// One kind of sensor on one kind of street.
struct scan_sensor {
  const char *name;
  const char *description;
  int beams, steps;        // elevations; azimuth steps of one turn
  double height;           // above the ground, metres
  double max_range;        // metres
  double noise;            // standard deviation of the range, metres
  double loss;             // share of returns lost anywhere, before range and grazing angle take more
  double mount_echo;       // share of lost rays that the driver reports as a return from the sensor's own mount
  double resolution;       // coordinates are multiples of it, metres
  double turn_seconds;     // time of one turn
  float intensity_levels;  // intensity is one of 0 .. levels-1, times intensity_unit
  float intensity_unit;
  bool ring_major;                           // file order: ring by ring (KITTI) or firing by firing (nuScenes)
  double facade_min, facade_max;             // houses' distance from the middle of the street, metres
  double (*elevation)(int beam, int beams);  // degrees; beam 0 comes first in the file
};

struct scan_point {
  float x, y, z, intensity;
  float time;      // seconds since the first turn began
  uint64_t noise;  // seeds the columns that no sensor fills
  int ring;
  int label;  // its number in the scene, from 1; 0: none
};

enum scan_shape { SCAN_BOX, SCAN_CYLINDER, SCAN_SPHERE };

// Half sizes along the object's own axes; a cylinder stands upright, radius half[0]; a sphere has radius half[0].
struct scan_object {
  enum scan_shape shape;
  double centre[3], half[3], cos_yaw, sin_yaw;
  double reflectivity;  // 0..1
  bool porous;          // leaves: a ray ends anywhere inside, or passes
  int label;            // the number of the label that it is a part of, from 1; 0: none
};

enum scan_class { SCAN_CAR, SCAN_PEDESTRIAN, SCAN_CYCLIST, SCAN_CLASSES };

// The box around a thing of a class.
struct scan_label {
  enum scan_class kind;
  double centre[3], size[3];  // metres; size along the thing's own axes
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

// The known sensors, ended by one without a name; NULL if none has that name.
extern const struct scan_sensor scan_sensors[];
const struct scan_sensor *scan_sensor_named(const char *name);

void scan_scene_make(const struct scan_sensor *sensor, uint64_t seed, struct scan_scene *scene);

// A street of any width with labelled cars, pedestrians and cyclists, and lorries without labels.
void scan_traffic_make(const struct scan_sensor *sensor, uint64_t seed, struct scan_scene *scene);

const char *scan_class_name(enum scan_class kind);

// Turns the sensor once and returns the number of points. `points` has room for beams * steps. Turn 0 starts at the
// origin; the vehicle moves on by a metre a turn, and every turn's points are given in the frame of turn 0, as an
// aggregated cloud is.
size_t scan_turn(const struct scan_sensor *sensor, const struct scan_scene *scene, int64_t turn,
                 struct scan_point *points);

// One row of the file: x y z intensity ring time, then features in [-1, 1) that mean nothing.
void scan_row(const struct scan_point *point, int columns, float *row);

#endif
