// The table of the sensors. Constant; any thread.
#include <math.h>
#include <string.h>

#include "tests/support/scan/scan.h"

// Velodyne HDL-64E: an upper block of 32 lasers a third of a degree apart, a lower block of 32 half a degree apart.
static double hdl64_elevation(int beam, int beams) {
  int half = beams / 2;
  return beam < half ? 2.0 - beam * (10.33 / (half - 1)) : -8.83 - (beam - half) * (15.97 / (half - 1));
}

// Velodyne HDL-32E: 4/3 degree apart; its files begin with the lowest laser.
static double hdl32_elevation(int beam, int beams) { return -30.67 + beam * (41.34 / (beams - 1)); }

// A 128-laser sensor from +15 to -25 degrees, a ninth of a degree apart near the horizon and wider outwards.
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
  for (const struct scan_sensor *sensor = scan_sensors; sensor->name; sensor++)
    if (strcmp(sensor->name, name) == 0) return sensor;
  return NULL;
}
