// The model of where a job ends first; see sites.h.
#include "server/jobs/sites.h"

#include <string.h>

#include "server/base/clock.h"

enum {
  RUNS_TO_KNOW = 2,  // the first warms the site up
  MOST_POINTS = 17,  // the class, so less than 2^18: their scratch is mostly within VX_SCRATCH_KEPT
  MOST_TRIED = 30,   // the sum of the classes of points and samples: 2^32 pairs, mostly a few ten ms of a CPU
  OLDEST_HALF = 60,  // seconds after which an estimate from many runs counts half; one from few does sooner
};
static const int64_t longest_on_cpu_ns = 100 * NS_PER_MS, trials_apart_ns = NS_PER_S, never_ns = INT64_MAX / 4;

static int class_of(int64_t number) {
  int class = number > 1 ? 63 - __builtin_clzll((unsigned long long)number) : 0;
  return class < SITE_CLASSES ? class : SITE_CLASSES - 1;
}

struct site_kind site_kind_of(enum site_sampled sampled, int64_t points, int64_t samples) {
  return (struct site_kind){sampled, class_of(points), class_of(samples)};
}

void sites_init(struct sites *sites, const atomic_int *gpus, const atomic_llong running[VX_LANE_USES],
                int64_t processors) {
  memset(sites, 0, sizeof *sites);
  sites->gpus = gpus;
  sites->running = running;
  sites->processors = processors;
}

static const struct site_time *time_of(const struct sites *sites, const struct site_kind *kind, enum site site) {
  return &sites->times[kind->sampled][kind->points][kind->samples][site];
}

// ---- what is expected -----------------------------------------------------------------------------------------------

static double trust_in(const struct site_time *time, int64_t now_ns) {
  if (time->runs < RUNS_TO_KNOW) return 0;
  double half_ns = (double)((time->runs < OLDEST_HALF ? time->runs : OLDEST_HALF) * NS_PER_S);
  return half_ns / (half_ns + (double)(now_ns - time->as_of_ns));
}

// An old estimate shrinks until the site looks worth a trial; nothing known is nothing expected.
static int64_t expected_ns(const struct site_time *time, int64_t now_ns) {
  return (int64_t)(trust_in(time, now_ns) * (double)time->ns);
}

bool sites_have_room(const struct sites *sites) {
  int64_t on_cpu = sites->at_work[SITE_CPU], used = (atomic_load(&sites->used) + 999) / 1000;
  int64_t others = sites->at_work[SITE_GPU] + atomic_load(&sites->running[VX_LANE_QUICK]) +
                   atomic_load(&sites->running[VX_LANE_DETECT]);
  return (others > used ? others : used) + on_cpu + 1 < sites->processors;
}

// Measured 20 times a second. A rise counts at once, a fall bit by bit.
void sites_note_used(struct sites *sites, int64_t used) {
  int64_t before = atomic_load(&sites->used) * 3 / 4;
  atomic_store(&sites->used, used > before ? used : before);
}

static bool may_run_on_cpu(const struct sites *sites, const struct site_kind *kind, int64_t now_ns) {
  const struct site_time *time = time_of(sites, kind, SITE_CPU);
  bool unknown = time->runs < RUNS_TO_KNOW, tried = now_ns - time->as_of_ns < trials_apart_ns;
  return kind->sampled != SITE_OTHERS && kind->points <= MOST_POINTS && kind->points + kind->samples <= MOST_TRIED &&
         !(unknown && tried) && expected_ns(time, now_ns) <= longest_on_cpu_ns && sites_have_room(sites);
}

// How long a run still takes. One that has outrun what was expected may take as long again.
static int64_t rest_ns(const struct site_run *run, int64_t now_ns) {
  int64_t gone_ns = now_ns - run->began_ns;
  return gone_ns < run->expected_ns ? run->expected_ns - gone_ns : gone_ns;
}

// Until a site all of whose workers are busy has worked off what runs and what is ahead, but for the job itself. Jobs
// that wait are started in their turns; if the last of a client would end sooner elsewhere, they all end sooner if the
// first goes there. A worker of a GPU without a run is between two; of the CPU there may be none.
static int64_t wait_ns(const struct sites *sites, const struct site_job *job, double ahead, enum site site,
                       int64_t now_ns) {
  int64_t first_ns = never_ns;
  if (!sites->runs[site]) return site == SITE_GPU ? 0 : never_ns;
  for (const struct site_run *run = sites->runs[site]; run; run = run->next)
    if (rest_ns(run, now_ns) < first_ns) first_ns = rest_ns(run, now_ns);
  int64_t ahead_ns = (int64_t)(ahead * (double)sites->waiting_ns[site]) - job->expected_ns[site];
  return first_ns + (ahead_ns > 0 ? ahead_ns : 0) / sites->at_work[site];
}

enum site sites_choose(const struct sites *sites, const struct site_job *job, double ahead, const bool is_free[SITES],
                       int64_t now_ns) {
  int64_t end_ns[SITES];
  for (int site = 0; site < SITES; site++)
    end_ns[site] = (is_free[site] ? 0 : wait_ns(sites, job, ahead, (enum site)site, now_ns)) +
                   expected_ns(time_of(sites, &job->kind, (enum site)site), now_ns);
  bool on_cpu = end_ns[SITE_CPU] < end_ns[SITE_GPU] && may_run_on_cpu(sites, &job->kind, now_ns);
  enum site best = on_cpu ? SITE_CPU : SITE_GPU;
  return is_free[best] ? best : SITES;
}

// ---- what happens ---------------------------------------------------------------------------------------------------

void sites_wait(struct sites *sites, struct site_job *job, int64_t now_ns) {
  for (int site = 0; site < SITES; site++) {
    job->expected_ns[site] = expected_ns(time_of(sites, &job->kind, (enum site)site), now_ns);
    sites->waiting_ns[site] += job->expected_ns[site];
  }
}

void sites_leave(struct sites *sites, const struct site_job *job) {
  for (int site = 0; site < SITES; site++) sites->waiting_ns[site] -= job->expected_ns[site];
}

void sites_begin(struct sites *sites, struct site_run *run, enum site site, const struct site_job *job,
                 int64_t now_ns) {
  struct site_time *time = &sites->times[job->kind.sampled][job->kind.points][job->kind.samples][site];
  *run = (struct site_run){.next = sites->runs[site],
                           .time = time,
                           .site = site,
                           .began_ns = now_ns,
                           .expected_ns = expected_ns(time, now_ns),
                           .trust = trust_in(time, now_ns)};
  time->as_of_ns = now_ns;  // while this one runs, no other is sent there as a trial
  sites->runs[site] = run;
  sites->at_work[site]++;
}

void sites_end(struct sites *sites, struct site_run *run) {
  struct site_run **link = &sites->runs[run->site];
  while (*link != run) link = &(*link)->next;
  *link = run->next;
  sites->at_work[run->site]--;
}

void sites_learn(struct sites *sites, struct site_run *run, bool answered, int64_t now_ns) {
  struct site_time *time = run->time;
  int64_t took_ns = now_ns - run->began_ns;
  sites->answered[run->site] += answered;
  const struct site_time *other = run->site == SITE_CPU ? time - 1 : time + 1;
  int64_t least_ns = run->expected_ns > 0 ? run->expected_ns : other->runs < RUNS_TO_KNOW ? never_ns : other->ns;
  if (!answered && took_ns < least_ns) return;
  time->as_of_ns = now_ns;
  if (++time->runs < RUNS_TO_KNOW) return;
  double weight = time->runs == RUNS_TO_KNOW ? 1 : 1 - 0.75 * run->trust;
  time->ns += (int64_t)(weight * (double)(took_ns - time->ns));
}

// ---- for people -----------------------------------------------------------------------------------------------------

static void show(const struct sites *sites, const struct site_kind *kind, struct sites_use *use) {
  bool known = false;
  if (use->kinds == SITE_KINDS_SHOWN) return;
  for (int site = 0; site < SITES; site++) {
    const struct site_time *time = time_of(sites, kind, (enum site)site);
    use->kind[use->kinds].ns[site] = time->runs < RUNS_TO_KNOW ? 0 : time->ns;
    known |= time->runs >= RUNS_TO_KNOW;
  }
  use->kind[use->kinds].kind = *kind;
  use->kinds += known;
}

struct sites_use sites_look(const struct sites *sites) {
  struct sites_use use = {.used = atomic_load(&sites->used), .room = sites_have_room(sites)};
  for (int site = 0; site < SITES; site++) {
    use.running[site] = sites->at_work[site];
    use.answered[site] = sites->answered[site];
  }
  struct site_kind kind = {SITE_POINTS, 0, 0};
  for (; kind.sampled < SITE_OTHERS; kind.sampled++)
    for (kind.points = 0; kind.points < SITE_CLASSES; kind.points++)
      for (kind.samples = 0; kind.samples < SITE_CLASSES; kind.samples++) show(sites, &kind, &use);
  return use;
}
