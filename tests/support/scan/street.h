// Puts objects into a scene, and makes the plain street. Writes only to the caller's scene; any thread.
#ifndef VOXELD_TESTS_SCAN_STREET_H
#define VOXELD_TESTS_SCAN_STREET_H

#include "tests/support/scan/scan.h"

double scan_ground_at(const struct scan_scene *scene, double x, double y);

struct scan_object scan_box(double length, double width, double height, double yaw, double reflectivity);
struct scan_object scan_cylinder(double radius, double height, double reflectivity);

// Puts the object at x, y, `lift` metres above the ground. Does nothing if the scene is full.
void scan_put(struct scan_scene *scene, struct scan_object object, double x, double y, double lift);

// Clears the scene and fills it with the ground, houses and roadside of a street, and, unless `bare`, with parked cars
// and people. Returns the state of the random numbers.
uint64_t scan_street_make(const struct scan_sensor *sensor, uint64_t seed, bool bare, struct scan_scene *scene);

#endif
