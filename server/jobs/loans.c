// Loans; see loans.h.
#include "server/jobs/loans.h"

#include "server/base/clock.h"

enum loan_state { LOAN_NONE, LOAN_LENT, LOAN_IN_HAND, LOAN_TAKEN };

// An upload that takes less for its whole body gives nothing up, unless its client is greedy. Two seconds are promised;
// a rate is only a guess.
static const double patience_s = 3;
// Bytes a second that every upload is trusted with at first, so that a small body may come in pieces.
static const double first_rate = 64 * 1024;

void loans_init(struct loans *loans) {
  loans->first = NULL;
  atomic_init(&loans->refused, false);
  atomic_init(&loans->ended, 0);
  pthread_mutex_init(&loans->lock, NULL);
}

void loans_destroy(struct loans *loans) { pthread_mutex_destroy(&loans->lock); }

void loans_tick(struct loans *loans, int64_t now_ns) {
  pthread_mutex_lock(&loans->lock);
  for (struct loan *loan = loans->first; loan; loan = loan->next)
    pace_note(&loan->pace, atomic_load(&loan->bytes), now_ns);
  pthread_mutex_unlock(&loans->lock);
}

bool loans_were_refused(struct loans *loans) { return atomic_exchange(&loans->refused, false); }

// ---- who gives up; with the lock held -------------------------------------------------------------------------------

// Seconds that so many bytes take at that rate.
static double seconds(double bytes, double rate) { return bytes / (rate > 1 ? rate : 1); }

// Seconds that the whole body takes or, if its length is unknown, as much as its memory holds.
static double slowness(const struct loan *loan, int64_t now_ns) {
  int64_t whole = loan->expected ? loan->expected : atomic_load(&loan->memory);
  return seconds((double)whole, pace_rate(&loan->pace, atomic_load(&loan->bytes), now_ns));
}

static bool has(const struct loan *loan, enum share lacks) {
  enum vx_lane_use use = job_lane_use(loan->job);
  switch (lacks) {
    case SHARE_BYTES: return atomic_load(&loan->memory) > 0;
    case SHARE_LONG_BYTES: return atomic_load(&loan->memory) > 0 && use == VX_LANE_LONG;
    case SHARE_DETECTION_BYTES: return atomic_load(&loan->memory) > 0 && use == VX_LANE_DETECT;
    case SHARE_JOBS:
    case SHARE_LONG_JOBS:
    case SHARE_DETECTION_JOBS: return atomic_load(&loan->place) && lacks == SHARE_JOBS + use;
    default: return false;
  }
}

static bool is_memory(enum share share) {
  return share == SHARE_BYTES || share == SHARE_LONG_BYTES || share == SHARE_DETECTION_BYTES;
}

// What the job's client would hold if the job got all that it lacks, the rest of its body too.
static int64_t would_hold(const struct job *job) {
  bool more = is_memory(job->lacks) && job->loan.expected > job->lacking;
  return client_held(job->means->clients, job->client, job->lacks) + (more ? job->loan.expected : job->lacking);
}

// What the client of the loan holds without it.
static int64_t others_hold(const struct loan *loan, enum share lacks, int64_t held) {
  return held - (!is_memory(lacks) ? 1 : atomic_load(&loan->memory) + atomic_load(&loan->coder));
}

// The slowest that has what the job lacks and is slower than `least`, or whose client is greedy: it holds GREEDY_TIMES
// what the job's client would, even without this upload. NULL if there is none. A job of a client over its share takes
// nothing from clients that hold less, so that a flood costs them nothing.
static struct loan *slowest(const struct job *job, double least, int64_t now_ns) {
  struct clients *clients = job->means->clients;
  int64_t fewest = job->over_share ? client_held(clients, job->client, job->lacks) : 0;
  int64_t greedy = GREEDY_TIMES * would_hold(job);
  struct loan *found = NULL;
  double most = 0;
  for (struct loan *loan = job->means->loans->first; loan; loan = loan->next) {
    if (atomic_load(&loan->state) != LOAN_LENT || !has(loan, job->lacks)) continue;
    double own = slowness(loan, now_ns);
    int64_t held = client_held(clients, loan->job->client, job->lacks);
    if (own <= most || held < fewest || (own <= least && others_hold(loan, job->lacks, held) < greedy)) continue;
    found = loan;
    most = own;
  }
  return found;
}

// The upload that is to give up what the job lacks, or NULL. If the job's own body is still to come, that is no upload
// of its client that has only begun: its rate is not known yet. No other client has to give up anything in its place.
static struct loan *giver(const struct job *job, double least, bool is_whole, int64_t now_ns) {
  struct loan *loan = slowest(job, least, now_ns);
  bool begun = loan && loan->job->client == job->client && atomic_load(&loan->bytes) > 0 && !loan->pace.is_known;
  return begun && !is_whole ? NULL : loan;
}

static void give_back(struct job *job) {
  job_leave_place(job);
  job_give_input(job);
  job_give_decoder(job);
  atomic_store(&job->loan.place, false);
  atomic_store(&job->loan.memory, 0);
  atomic_store(&job->loan.coder, 0);
}

static void take_away(struct loans *loans, struct loan *loan) {
  give_back(loan->job);
  if (!atomic_load(&loan->bytes)) {
    atomic_store(&loan->state, LOAN_LENT);
    return;
  }
  atomic_fetch_add(&loans->ended, 1);
  loan->job->outpaced(loan->job);
}

// How slow an upload must be to give up something for this job: slower than the job's own upload, if that is what
// needs the bytes.
static double bound(const struct job *job, size_t needed, int64_t now_ns) {
  if (!needed) return patience_s;
  const struct loan *loan = &job->loan;
  double own = seconds(loan->expected ? (double)loan->expected : (double)needed,
                       pace_rate(&loan->pace, atomic_load(&loan->bytes), now_ns));
  return own > patience_s ? own : patience_s;
}

// Sweeps of streams go before uploads have to give up anything: those of the job's client, if it is over its share.
static bool evict_sweep(struct job *job) {
  return job->lacks == SHARE_BYTES && streams_evict(job->means->streams, job->over_share ? job->client : NULL);
}

// Somebody gives up what the job lacks. False if there is nobody who should.
static bool make_room(struct job *job, size_t needed) {
  struct loans *loans = job->means->loans;
  int64_t now_ns = clock_ns();
  struct loan *loan;
  int lent;
  if (job->lacks == SHARES) return false;  // nobody could give that up
  if (evict_sweep(job)) return true;
  pthread_mutex_lock(&loans->lock);
  double slower_than = bound(job, needed, now_ns);
  do {
    loan = giver(job, slower_than, needed == 0, now_ns);
    lent = LOAN_LENT;
  } while (loan && !atomic_compare_exchange_strong(&loan->state, &lent, LOAN_TAKEN));
  if (loan) take_away(loans, loan);
  pthread_mutex_unlock(&loans->lock);
  if (!loan && is_memory(job->lacks)) atomic_store(&loans->refused, true);
  return loan;
}

// ---- an upload ------------------------------------------------------------------------------------------------------

static void open_loan(struct job *job) {
  struct loans *loans = job->means->loans;
  struct loan *loan = &job->loan;
  loan->job = job;
  loan->before = NULL;
  atomic_store(&loan->bytes, 0);
  atomic_store(&loan->state, LOAN_LENT);
  pace_begin(&loan->pace, 0, clock_ns());
  loan->pace.rate = first_rate;
  pthread_mutex_lock(&loans->lock);
  loan->next = loans->first;
  if (loan->next) loan->next->before = loan;
  loans->first = loan;
  pthread_mutex_unlock(&loans->lock);
}

// The state that it had: LOAN_NONE if there was none.
static int close_loan(struct job *job) {
  struct loans *loans = job->means->loans;
  struct loan *loan = &job->loan;
  if (atomic_load(&loan->state) == LOAN_NONE) return LOAN_NONE;
  pthread_mutex_lock(&loans->lock);
  *(loan->before ? &loan->before->next : &loans->first) = loan->next;
  if (loan->next) loan->next->before = loan->before;
  pthread_mutex_unlock(&loans->lock);
  return atomic_exchange(&loan->state, LOAN_NONE);
}

// Once half of the memory is in use, memory follows the bytes: an upload gets this many times what has come of it. If
// that is more than an eighth of the whole, it gets the whole, since it needs both while it grows.
enum { MEMORY_PER_BYTE = 64, LARGEST_STEP = 8 };

static int64_t whole_body(const struct job *job, int64_t come) {
  return job->loan.expected > come ? job->loan.expected : come;
}

static bool has_decoder(const struct job *job) {
  return job->coding == CODING_NONE || (job->decoder && decoder_bytes(job->decoder) <= job->decoder_bytes);
}

// A place, and memory for all that is known of the body.
static bool has_all(const struct job *job, int64_t come) {
  return job->has_place && job->input && job->input->capacity - job->lead >= (size_t)whole_body(job, come) &&
         has_decoder(job);
}

// Bytes of input to take for an upload of which so much has come; no fewer than that.
static size_t due(const struct job *job, int64_t come) {
  struct buffers_use use = buffers_use(job->means->buffers);
  int64_t expected = whole_body(job, come);
  bool all = use.in_use <= use.budget / 2 || come * MEMORY_PER_BYTE > expected / LARGEST_STEP;
  return (size_t)(all ? expected : come * MEMORY_PER_BYTE);
}

// A place, if it has none, and room for that much input.
static bool take(struct job *job, size_t bytes, struct problem *problem) {
  bool taken = (job->has_place || job_take_place(job, problem)) && (!bytes || job_take_input(job, bytes, problem)) &&
               (!bytes || has_decoder(job) || job_take_decoder(job, problem));
  atomic_store(&job->loan.place, job->has_place);
  atomic_store(&job->loan.memory, job->input ? (int64_t)job->input->capacity : 0);
  atomic_store(&job->loan.coder, (int64_t)job->decoder_bytes);
  return taken;
}

static bool take_from_others(struct job *job, size_t bytes, struct problem *problem) {
  while (!take(job, bytes, problem))
    if (!make_room(job, bytes)) return false;
  problem->kind = PROBLEM_NONE;
  return true;
}

// Whether somebody could give up what the job lacks.
static bool could_make_room(const struct job *job) {
  struct loans *loans = job->means->loans;
  pthread_mutex_lock(&loans->lock);
  bool there = giver(job, patience_s, false, clock_ns());
  pthread_mutex_unlock(&loans->lock);
  return there;
}

// What is known to be due at the headers; the client's shares must allow the rest too.
static bool take_first(struct job *job, size_t bytes, struct problem *problem) {
  return take(job, due(job, 0), problem) && job_may_take_input(job, bytes, problem);
}

bool loan_begin(struct job *job, size_t bytes, struct problem *problem) {
  job->loan.expected = (int64_t)bytes;
  bool good = take_first(job, bytes, problem);
  while (!good && evict_sweep(job)) good = take_first(job, bytes, problem);
  if (!good) {
    give_back(job);
    if (!could_make_room(job)) return false;
  }
  problem->kind = PROBLEM_NONE;
  open_loan(job);
  return true;
}

// False if it was taken away for good.
static bool take_in_hand(struct job *job) {
  struct loans *loans = job->means->loans;
  int state = LOAN_LENT;
  while (!atomic_compare_exchange_strong(&job->loan.state, &state, LOAN_IN_HAND)) {
    pthread_mutex_lock(&loans->lock);  // whoever is taking it away has finished then
    state = atomic_load(&job->loan.state);
    pthread_mutex_unlock(&loans->lock);
    if (state == LOAN_TAKEN) return false;
  }
  return true;
}

static bool refuse_taken(struct problem *problem) { return problem_set(problem, PROBLEM_MEMORY_FULL, NULL, OUTPACED); }

char *loan_pick_up(struct job *job, size_t bytes, struct problem *problem) {
  if (!take_in_hand(job) && !refuse_taken(problem)) return NULL;
  int64_t come = job->input_bytes + (int64_t)bytes;
  atomic_store(&job->loan.bytes, come);
  // Mostly it has all, and no lock is asked.
  if (!has_all(job, come) && !take_from_others(job, due(job, come), problem)) return NULL;
  return job_body(job) + job->input_bytes;
}

void loan_put_down(struct job *job, size_t bytes) {
  job->input_bytes += (int64_t)bytes;
  atomic_store(&job->loan.state, LOAN_LENT);
}

void loan_pause(struct job *job) {
  int lent = LOAN_LENT;
  if (job->input_bytes) (void)!atomic_compare_exchange_strong(&job->loan.state, &lent, LOAN_IN_HAND);
}

void loan_resume(struct job *job) {
  int in_hand = LOAN_IN_HAND;
  if (atomic_load(&job->loan.state) == LOAN_NONE) return;  // a refused request waits at the gate too
  pthread_mutex_lock(&job->means->loans->lock);
  pace_begin(&job->loan.pace, job->input_bytes, clock_ns());
  job->loan.pace.rate = (double)(job->loan.expected + atomic_load(&job->loan.memory));  // fast until it is seen slow
  pthread_mutex_unlock(&job->means->loans->lock);
  (void)!atomic_compare_exchange_strong(&job->loan.state, &in_hand, LOAN_LENT);
}

bool loan_settle(struct job *job, struct problem *problem) {
  if (close_loan(job) == LOAN_TAKEN) return refuse_taken(problem);
  job_give_decoder(job);
  return take_from_others(job, 0, problem);
}

void loan_end(struct job *job) {
  (void)close_loan(job);
  give_back(job);
}

// ---- a job ----------------------------------------------------------------------------------------------------------

typedef bool (*taker)(struct job *job, size_t bytes, struct problem *problem);

static bool take_for_job(taker take_it, struct job *job, size_t bytes, struct problem *problem) {
  while (!take_it(job, bytes, problem))
    if (!make_room(job, 0)) return false;
  problem->kind = PROBLEM_NONE;
  return true;
}

bool loans_take_rows(struct job *job, size_t bytes, struct problem *problem) {
  return take_for_job(job_take_rows, job, bytes, problem);
}

bool loans_take_output(struct job *job, size_t bytes, struct problem *problem) {
  return take_for_job(job_take_output, job, bytes, problem);
}

bool loans_take_scratch(struct job *job, size_t bytes, struct problem *problem) {
  return take_for_job(job_take_scratch, job, bytes, problem);
}
