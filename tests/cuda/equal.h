// What the parts of cuda-equal share: a backend on one lane, random jobs, and the comparison of two results. Each
// thread has its own sides and random numbers; the counts at the end of this file are shared.
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
void random_choice(struct random *random, struct vx_choice *choice);

// ---- a backend at work ----------------------------------------------------------------------------------------------

struct side {
  const struct vx_backend *backend;
  struct vx_device *device;
  struct vx_lane *lane;
  void *input, *output;
  size_t input_bytes, output_bytes;
  bool refuse_output;  // the job's callback for memory refuses
  atomic_bool stop;    // the job must end early
  atomic_bool asked;   // a job has called `stopped`
  struct vx_layout layout;
  struct vx_job job;
  int32_t row_counts[VX_MAX_CLOUDS];
  struct vx_chain_report report;
  struct vx_deskew deskew;
  int32_t section_points[VX_MAX_SECTIONS];
  struct vx_counts section_counts[VX_MAX_SECTIONS];
  bool placing;              // single tensors get their own memory
  unsigned char *places_at;  // pinned; NULL: no room for places
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
  int32_t num_sections;  // of a lone cloud, for operations with sections
  int32_t
      section_ends[VX_MAX_SECTIONS];  // ascending, in units of all points / SECTION_PARTS; the last is SECTION_PARTS
  size_t offset;                      // bytes from the beginning of a page to the first input, unless `unseen`
  bool unseen;                        // the inputs stay in the test's memory, which the device cannot read
};

// Opens device 0 and a lane. Ends the program with 77 if there is no device.
void side_open(struct side *side, const struct vx_backend *backend);
void side_close(struct side *side);
// Fills side->job. Its inputs stay where they are.
void side_set_job(struct side *side, const struct vx_job *asked, const struct scan *scan);
// Runs one job over poisoned memory.
enum vx_status side_run(struct side *side, const struct vx_job *asked, const struct scan *scan, struct error *error);

// Places: random addresses, with any alignment, for most tensors of the side's jobs. Without places_open, jobs have no
// places.
void places_open(struct side *side);
void places_close(struct side *side);
// Gives the side's job its places, if it can have any.
void places_give(struct side *side, const struct vx_layout *layout);
// Copies all tensors into the side's output, in the order of its layout. False if the job also wrote outside of its
// places.
bool places_gather(struct side *side);

// Runs a job on sides[0], and twice on sides[1], the second time with places. Prints a line for each run that differs,
// and adds to the counts. Ends the program if the device is lost.
void compare(struct side sides[2], const struct vx_job *asked, const struct scan *scan, const char *name);

// ---- jobs -----------------------------------------------------------------------------------------------------------

// Any job that makes voxels, with up to `largest` points. The caller frees the scan's points.
void random_job(struct random *random, int64_t largest, struct vx_job *asked, struct scan *scan);

// A random number of points, at most `largest`, which is 1025 or more.
int64_t random_size(struct random *random, int64_t largest);
// Divides the scan's points among clouds, and calls random_sections.
void random_clouds(struct random *random, struct scan *scan);
// Gives most lone clouds sections.
void random_sections(struct random *random, struct scan *scan);
// Lets the points of some jobs move: random segments, and times for the scan's points, in memory that later jobs use
// again.
void random_deskew(struct random *random, const struct scan *scan, struct vx_job *asked);
// Most of the points are within the box.
void random_points(struct random *random, const struct vx_job *asked, const struct vx_box *within, struct scan *scan);

// Makes pillars of `size` x `size` m, with all tensors that the cap allows, from fill_scan's points.
struct vx_job pillars(float size, int32_t cap);
// Takes far more memory than a lane keeps, with 400,000 points.
struct vx_job giant_job(void);
void fill_scan(struct random *random, struct scan *scan, int64_t num_points, const char *name);

// Random steps for the points of the scan, in memory that later chains use again.
void random_chain(struct random *random, const struct scan *scan, struct vx_chain *chain);

// ---- the parts ------------------------------------------------------------------------------------------------------

// Voxels whose lists have every length at which the GPU's method changes.
void test_lists(struct side sides[2], uint64_t seed, int jobs);

// Sampled points: of scans, whole and in part, and of random clouds with up to `largest` points.
void test_samples(struct side sides[2], uint64_t seed, const struct scan *scans, int num_scans, int jobs,
                  int64_t largest);

// Points ordered along curves, with and without steps.
void test_serialize(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Chains of steps, alone, before a voxelization and before a sampling.
void test_steps(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Range images, alone and after steps.
void test_range_images(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Scattered rows, and maps: of each preset's grid, and of random clouds.
void test_maps(struct side sides[2], const struct presets *presets, uint64_t seed, int jobs, int64_t largest);

// Encoded pillars: encoders of every shape, and random encoders over random clouds.
void test_encoders(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Suppressed boxes of every kind.
void test_nms(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Decoded maps of both heads: edge cases, and random maps with up to `largest` logits.
void test_decode(struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Random detectors over random clouds, with a stand-in for the network.
void test_detect(struct side sides[2], uint64_t seed, int jobs);

// Random backbones over random cells, in larger grids if `largest` is large.
void test_sparse(const struct side sides[2], uint64_t seed, int jobs, int64_t largest);

// Points and output in pinned memory that its owner writes to and resizes while jobs run.
void test_regions(struct side sides[2], uint64_t seed);

// What a lane keeps from job to job, several lanes at the same time, and lanes that grow.
void test_lanes(uint64_t seed);
void test_growth(uint64_t seed);

extern atomic_int jobs_run, jobs_equal, jobs_refused;
extern atomic_llong bytes_compared;

#endif
