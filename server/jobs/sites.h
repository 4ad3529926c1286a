// Sites: where a job that samples one cloud runs while GPUs work: on a GPU, or on the CPU beside it. The bytes are the
// same; one thread of the CPU may need as long for a cloud as a GPU. So the job goes where it ends first.
//
// How long a run takes is learned from earlier ones, for each site and each kind of job: what is sampled, and to a
// factor of two how many points and samples. An estimate that is old counts for less and less. So a site that gets no
// jobs is tried again: one that takes f times as long, once in f - 1 minutes. What is tried is a job of a client, once
// for each kind at a time.
//
// Jobs on the CPU take nothing that others need. None begins there if with it jobs, I/O threads and all else of the
// process would use all processors; if it would take longer than 0.1 s, so that processors come free again soon; or if
// it has many points, for which a CPU lane would take memory of the budget.
//
// The model knows no clock and no job, only what it is told. Its owner locks; counts of others are atomic.
#ifndef VOXELD_SITES_H
#define VOXELD_SITES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

enum site { SITE_GPU, SITE_CPU, SITES };

enum site_sampled {
  SITE_POINTS,  // one cloud, of whose points are chosen
  SITE_VOXELS,  // one cloud, of whose voxels are chosen
  SITE_OTHERS,  // batches, boxes, points in regions, bodies that are read only in the run: always a GPU's
  SITE_SAMPLED
};
enum { SITE_CLASSES = 31 };  // of numbers from 0 to 2^31 - 1, by their powers of two

struct site_kind {
  enum site_sampled sampled;
  int points, samples;  // classes
};
struct site_kind site_kind_of(enum site_sampled sampled, int64_t points, int64_t samples);

// How long runs of a kind take on a site.
struct site_time {
  int64_t ns;        // of a run; meaningful after two
  int64_t as_of_ns;  // when such a job was last sent there
  int64_t runs;      // that were seen; the first has warmed the site up, and is not learned from
};

// A job that waits.
struct site_job {
  struct site_kind kind;
  int64_t expected_ns[SITES];  // of its run, when it began to wait
};

// A job that runs.
struct site_run {
  struct site_run *next;
  struct site_time *time;  // of its kind
  enum site site;
  int64_t began_ns, expected_ns;
  double trust;  // in the time that was known when it began: 1 if that was fresh, 0 if there was none
};

struct sites {
  const atomic_int *gpus;       // that work
  const atomic_llong *running;  // [VX_LANE_USES]: jobs that run, on both sites
  int64_t processors;           // that jobs may use
  atomic_llong used;            // thousandths of processors that the process uses, but for jobs on SITE_CPU
  struct site_run *runs[SITES];
  int64_t at_work[SITES];              // number of runs
  int64_t waiting_ns[SITES];           // sum over the jobs that wait
  unsigned long long answered[SITES];  // jobs, since the start
  struct site_time times[SITE_SAMPLED][SITE_CLASSES][SITE_CLASSES][SITES];
};

void sites_init(struct sites *sites, const atomic_int *gpus, const atomic_llong running[VX_LANE_USES],
                int64_t processors);

// A job begins to wait; it ends waiting.
void sites_wait(struct sites *sites, struct site_job *job, int64_t now_ns);
void sites_leave(struct sites *sites, const struct site_job *job);

// Where a job that waits ends first, if that site has a free worker; otherwise SITES: it is to wait. Of two sites that
// are as good the GPU is taken. `ahead`: the part of the work that waits, 0..1, that its client has to wait for.
enum site sites_choose(const struct sites *sites, const struct site_job *job, double ahead, const bool is_free[SITES],
                       int64_t now_ns);

// A job that has left begins to run; it ends.
void sites_begin(struct sites *sites, struct site_run *run, enum site site, const struct site_job *job, int64_t now_ns);
void sites_end(struct sites *sites, struct site_run *run);
// Learns from a run, which took place where it was to. One that was not `answered` tells only that it takes no less,
// and if nothing is known only if it outran what the other site takes.
void sites_learn(struct sites *sites, struct site_run *run, bool answered, int64_t now_ns);

// Whether one more job may run on the CPU now.
bool sites_have_room(const struct sites *sites);
// Notes what the process used since it was last noted, in thousandths of processors.
void sites_note_used(struct sites *sites, int64_t used);

// What goes where, for /v1/status.
enum { SITE_KINDS_SHOWN = 16 };
struct sites_use {
  int64_t running[SITES];
  unsigned long long answered[SITES];
  int64_t used;  // as in struct sites
  bool room;     // for one more job on the CPU
  int kinds;
  struct {
    struct site_kind kind;
    int64_t ns[SITES];  // that a run takes; 0: not known
  } kind[SITE_KINDS_SHOWN];
};
// The first kinds of which a time is known, but not SITE_OTHERS.
struct sites_use sites_look(const struct sites *sites);

#endif
