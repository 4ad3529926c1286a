// Traffic: cars, pedestrians and cyclists on a street, each with its box; see scan.h.
//
// Each thing is made of boxes, cylinders and spheres. No call has two random numbers among its arguments, since C
// leaves the order of evaluation open.
#include <math.h>

#include "tests/support/scan/random.h"
#include "tests/support/scan/street.h"

#define PI 3.14159265358979323846

enum { TRIES = 20, REACH = 62 };  // REACH: metres along the street, either way

static const char *const class_names[SCAN_CLASSES] = {
    [SCAN_CAR] = "Car", [SCAN_PEDESTRIAN] = "Pedestrian", [SCAN_CYCLIST] = "Cyclist"};

const char *scan_class_name(enum scan_class kind) { return class_names[kind]; }

// The position of a thing.
struct stand {
  struct scan_scene *scene;
  double x, y, heading;
  int label;
};

// Puts a part of a thing at an offset along the thing's axes.
static void part(const struct stand *stand, struct scan_object object, double forward, double left, double lift) {
  double cosine = cos(stand->heading), sine = sin(stand->heading);
  object.label = stand->label;
  scan_put(stand->scene, object, stand->x + forward * cosine - left * sine, stand->y + forward * sine + left * cosine,
           lift);
}

static void box_part(const struct stand *stand, const double size[3], double reflectivity, double forward,
                     double lift) {
  part(stand, scan_box(size[0], size[1], size[2], stand->heading, reflectivity), forward, 0.0, lift);
}

static struct scan_object sphere(double radius, double reflectivity) {
  return (struct scan_object){
      .shape = SCAN_SPHERE, .half = {radius, radius, radius}, .cos_yaw = 1.0, .reflectivity = reflectivity};
}

// Adds the label of a thing. Returns false if the scene has no room for a label.
static bool name(struct stand *stand, enum scan_class kind, const double size[3]) {
  struct scan_scene *scene = stand->scene;
  if (scene->num_labels == SCAN_MAX_LABELS) return false;
  double z = scan_ground_at(scene, stand->x, stand->y) + size[2] / 2;
  scene->labels[scene->num_labels++] = (struct scan_label){
      .kind = kind, .centre = {stand->x, stand->y, z}, .size = {size[0], size[1], size[2]}, .heading = stand->heading};
  stand->label = scene->num_labels;
  return true;
}

static void put_car(struct stand *stand, uint64_t *random) {
  double length = uniform(random, 3.4, 5.0), width = uniform(random, 1.55, 1.95), height = uniform(random, 1.4, 1.75);
  double paint = uniform(random, 0.1, 0.8), hood = uniform(random, 0.75, 0.95), cabin = uniform(random, 0.45, 0.7);
  double back = uniform(random, 0.0, 0.12);
  if (!name(stand, SCAN_CAR, (double[]){length, width, height})) return;
  box_part(stand, (double[]){length, width, hood - 0.22}, paint, 0.0, 0.22);
  box_part(stand, (double[]){cabin * length, 0.85 * width, height - hood}, 0.12, -back * length, hood);
  for (int side = -1; side <= 1; side += 2)
    for (int end = -1; end <= 1; end += 2)
      part(stand, scan_box(0.62, 0.2, 0.6, stand->heading, 0.08), end * 0.31 * length, side * (width / 2 - 0.12), 0.0);
}

static void put_lorry(struct stand *stand, uint64_t *random) {
  double length = uniform(random, 6.0, 11.0), height = uniform(random, 2.8, 3.6), paint = uniform(random, 0.2, 0.8);
  box_part(stand, (double[]){length, 2.4, height - 0.5}, paint, 0.0, 0.5);
  box_part(stand, (double[]){1.8, 2.3, height - 0.9}, paint, length / 2 + 1.0, 0.5);
}

static void put_pedestrian(struct stand *stand, uint64_t *random) {
  double height = uniform(random, 1.5, 1.95), stride = uniform(random, 0.0, 0.3), cloth = uniform(random, 0.1, 0.6);
  double girth = uniform(random, 0.17, 0.25), legs = 0.47 * height, head = 0.11;
  double length = fmax(2 * girth, stride + 0.2) + 0.1;
  if (!name(stand, SCAN_PEDESTRIAN, (double[]){length, 2 * girth + 0.2, height})) return;
  for (int side = -1; side <= 1; side += 2) {
    part(stand, scan_cylinder(0.08, legs, cloth), side * stride / 2, side * 0.1, 0.0);
    part(stand, scan_cylinder(0.05, 0.36 * height, cloth), -side * stride / 3, side * (girth + 0.04), 0.45 * height);
  }
  part(stand, scan_cylinder(girth, height - legs - 2 * head, cloth), 0.0, 0.0, legs);
  part(stand, sphere(head, 0.35), 0.0, 0.0, height - 2 * head);
}

static void put_cyclist(struct stand *stand, uint64_t *random) {
  double length = uniform(random, 1.6, 1.9), height = uniform(random, 1.6, 1.85), cloth = uniform(random, 0.1, 0.6);
  double girth = uniform(random, 0.17, 0.23), lean = uniform(random, 0.0, 0.2), head = 0.12;
  if (!name(stand, SCAN_CYCLIST, (double[]){length, 0.6, height})) return;
  for (int end = -1; end <= 1; end += 2) {
    struct scan_object wheel = scan_box(0.64, 0.05, 0.64, stand->heading, 0.15);
    wheel.porous = true;  // spokes
    part(stand, wheel, end * (length / 2 - 0.33), 0.0, 0.0);
    part(stand, scan_cylinder(0.07, 0.55, cloth), 0.05, end * 0.12, 0.3);
  }
  box_part(stand, (double[]){0.9, 0.06, 0.25}, 0.4, 0.0, 0.5);
  box_part(stand, (double[]){0.06, 0.5, 0.08}, 0.3, length / 2 - 0.45, 0.95);
  part(stand, scan_cylinder(girth, height - 0.8 - 2 * head, cloth), lean / 2, 0.0, 0.8);
  part(stand, sphere(head, 0.35), lean, 0.0, height - 2 * head);
}

// Whether a circle of `radius` is clear of the sensor's vehicle, and of all objects but houses and the crowns of trees.
// Houses are wider than `broad`; things stand in front of them.
static bool is_free(const struct scan_scene *scene, double x, double y, double radius) {
  const double broad = 2.9, own = 3.0;
  bool clear = hypot(x, y) > own + radius;
  for (int i = 0; clear && i < scene->num_objects; i++) {
    const struct scan_object *object = &scene->objects[i];
    double reach = object->shape == SCAN_BOX ? hypot(object->half[0], object->half[1]) : object->half[0];
    bool high = object->shape == SCAN_SPHERE && object->label == 0;  // the crown of a tree
    clear = high || (reach > broad && object->label == 0 && object->half[2] > 1.9) ||
            hypot(x - object->centre[0], y - object->centre[1]) > radius + reach + 0.15;
  }
  return clear;
}

// `along`: the share of things that move along the street; the others have any heading.
static double heading_of(uint64_t *random, double along) {
  double kind = uniform(random, 0.0, 1.0), turn = uniform(random, -PI, PI), sway = uniform(random, -0.12, 0.12);
  if (kind > along) return turn;
  return kind < along / 2 ? sway : PI + sway;
}

static const struct kind {
  int least, most;  // in a scene
  double radius;    // of the free circle around it
  double margin;    // metres from the houses
  double along;     // share that moves along the street
  void (*put)(struct stand *stand, uint64_t *random);
} kinds[] = {
    {0, 2, 6.5, 3.5, 1.0, put_lorry},
    {5, 26, 2.6, 2.6, 0.75, put_car},
    {3, 14, 1.0, 1.0, 0.6, put_cyclist},
    {4, 22, 0.45, 0.6, 0.4, put_pedestrian},
};

static void put_kind(struct scan_scene *scene, uint64_t *random, const struct kind *kind, double half_width) {
  int count = (int)uniform(random, kind->least, kind->most + 1);
  for (int i = 0; i < count; i++) {
    for (int attempt = 0; attempt < TRIES; attempt++) {
      double x = uniform(random, -REACH, REACH), y = uniform(random, -1.0, 1.0) * (half_width - kind->margin);
      if (!is_free(scene, x, y, kind->radius)) continue;
      double heading = heading_of(random, kind->along);
      struct stand stand = {.scene = scene, .x = x, .y = y, .heading = remainder(heading, 2 * PI)};
      kind->put(&stand, random);
      break;
    }
  }
}

void scan_traffic_make(const struct scan_sensor *sensor, uint64_t seed, struct scan_scene *scene) {
  uint64_t state = seed ^ UINT64_C(0x7472616666696321);  // so that the streets differ from those without traffic
  struct scan_sensor wider = *sensor;
  double more = uniform(&state, 0.0, 16.0);
  wider.facade_min += more;
  wider.facade_max += more;
  uint64_t random = scan_street_make(&wider, next_u64(&state), true, scene);
  scene->seed = seed;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) put_kind(scene, &random, &kinds[i], wider.facade_min);
}
