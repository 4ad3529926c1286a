// What the parts of cuda-equal share: a backend at work on one lane, jobs made at random, and the comparison of two.
//
// Nothing is global but the counts at the end of this file: every thread has its own sides and its own random numbers.
#ifndef VOXELD_TESTS_CUDA_EQUAL_H
#define VOXELD_TESTS_CUDA_EQUAL_H

#include <stdatomic.h>

#include "api/presets.h"
#include "tests/support/jobs.h"

#define BIT VX_TENSOR_BIT
#define BASE (BIT(VX_VOXEL_COORDS) | BIT(VX_VOXEL_NUM_POINTS))
#define MEAN (BASE | BIT(VX_VOXEL_FEATURES))
#define PILLAR (BASE | BIT(VX_PILLAR_FEATURES))

// ---- random numbers -------------------------------------------------------------------------------------------------

struct random {
  uint64_t state;
};

uint64_t random_bits(struct random *random);
int32_t random_below(struct random *random, int32_t limit);
bool random_one_in(struct random *random, int32_t n);
float random_unit(struct random *random);

// ---- a backend at work ----------------------------------------------------------------------------------------------

struct side {
  const struct vx_backend *backend;
  struct vx_device *device;
  struct vx_lane *lane;
  void *input, *output;
  size_t input_bytes, output_bytes;
  bool refuse_output;  // the job's callback for memory does
  atomic_bool stop;    // the job is to end early
  atomic_bool asked;   // a job has asked whether to
  struct vx_layout layout;
  struct vx_job job;
  int32_t row_counts[VX_MAX_CLOUDS];
  int32_t section_points[VX_MAX_SECTIONS];
  struct vx_counts section_counts[VX_MAX_SECTIONS];
  bool placing;              // jobs get places for tensors
  unsigned char *places_at;  // pinned; NULL: there is no room for places
  size_t places_bytes;       // of the job
  void *places[VX_TENSOR_COUNT];
  struct random random;  // of the places
};

enum { SECTION_PARTS = 1000 };

struct scan {
  char name[64];
  void *points;
  int32_t columns;
  int32_t num_clouds;
  int32_t counts[VX_MAX_CLOUDS], samples[VX_MAX_CLOUDS];
  int64_t num_points;
  int32_t num_sections;                   // of a lone cloud, for operations that count them apart
  int32_t section_ends[VX_MAX_SECTIONS];  // ascending, in parts of all points; the last has SECTION_PARTS
  size_t offset;                          // bytes from the begin of a page to the first input, if it is moved
  bool unseen;                            // the inputs stay in the test's memory, which no device sees
};

// Opens device 0 and a lane. Ends the program with 77 if there is no device.
void side_open(struct side *side, const struct vx_backend *backend);
void side_close(struct side *side);
// Fills side->job; its inputs stay where they are.
void side_set_job(struct side *side, const struct vx_job *asked, const struct scan *scan);
// Runs one job over poisoned memory.
enum vx_status side_run(struct side *side, const struct vx_job *asked, const struct scan *scan, struct error *error);

// Places: random ones, aligned in any way, of most tensors of the side's jobs. Without places_open there are none.
void places_open(struct side *side);
void places_close(struct side *side);
// Gives the side's job its places, if it can have any.
void places_give(struct side *side, const struct vx_layout *layout);
// Brings all tensors together in the side's output, as its layout has them. False if anything else was written.
bool places_gather(struct side *side);

// Runs a job on sides[0], and twice on sides[1], the second time with places; prints a line for each difference and
// counts.
void compare(struct side sides[2], const struct vx_job *asked, const struct scan *scan, const char *name);

// ---- jobs -----------------------------------------------------------------------------------------------------------

// A job that makes voxels, of any kind, of up to that many points. The scan's points are the caller's to free.
void random_job(struct random *random, int64_t largest, struct vx_job *asked, struct scan *scan);

// A number of points for a job of up to that many, a kind of cloud for each, in a batch; a lone one may have sections.
int64_t random_size(struct random *random, int64_t largest);
void random_clouds(struct random *random, struct scan *scan);
void random_sections(struct random *random, struct scan *scan);
// Most of them are within the box.
void random_points(struct random *random, const struct vx_job *asked, const struct vx_box *within, struct scan *scan);

// The presets' pillars with all that there is to write, over a grid of any size, for fill_scan's points.
struct vx_job pillars(float size, int32_t cap);
// Takes far more than a lane keeps, of 400,000 points.
struct vx_job giant_job(void);
void fill_scan(struct random *random, struct scan *scan, int64_t num_points, const char *name);

// ---- the parts ------------------------------------------------------------------------------------------------------

// Voxels whose lists have every length at which a GPU takes another way.
void test_lists(struct side sides[2], uint64_t seed, int jobs);

// Points sampled: of scans whole and in part, of random clouds of up to that many points.
void test_samples(struct side sides[2], uint64_t seed, const struct scan *scans, int num_scans, int jobs,
                  int64_t largest);

// Points moved and filtered: random clouds of up to that many points.
void test_transforms(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Rows scattered, maps of each preset's grid and of random clouds of up to that many points.
void test_maps(struct side sides[2], const struct presets *presets, uint64_t seed, int jobs, int64_t largest);

// Pillars encoded: encoders of every shape, random ones over random clouds of up to that many points.
void test_encoders(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Boxes suppressed: of every kind, random ones in clouds of up to that many.
void test_nms(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Maps of both heads decoded: edge cases, and random maps of up to that many logits.
void test_decode(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Detections: random detectors over random clouds, with a stand-in for the network.
void test_detect(struct side sides[2], uint64_t seed, int jobs);

// Points and output in memory that is pinned, whose owner writes to it and resizes it while jobs run.
void test_regions(struct side sides[2], uint64_t seed);

// What one lane keeps from job to job, lanes side by side, and what those do that grow.
void test_lanes(uint64_t seed);
void test_growth(uint64_t seed);

extern atomic_int jobs_run, jobs_equal, jobs_refused;
extern atomic_llong bytes_compared;

#endif
