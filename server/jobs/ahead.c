// Points that come ahead of their job; see ahead.h.
#include "server/jobs/ahead.h"

#include "server/base/awake.h"
#include "server/base/clock.h"

// The bus moves a part in some 3 us, and to begin a copy takes as long. A body of less than two is read by its job.
enum { LEAST_PART = 128 << 10, LEAST_BODY = 2 * LEAST_PART };
// A body whose first part takes longer comes over a network to which some 40 us are nothing.
#define FAST_NS (10 * NS_PER_MS)
// A body of which nothing comes for so long makes room for another one.
#define STALLED_NS NS_PER_MS

void ahead_init(struct ahead *ahead, struct devices *devices, void (*rouse)(void *cls), void *cls) {
  *ahead = (struct ahead){.devices = devices, .rouse = rouse, .cls = cls};
  pthread_mutex_init(&ahead->lock, NULL);
}

void ahead_destroy(struct ahead *ahead) { pthread_mutex_destroy(&ahead->lock); }

// ---- with the lock held ---------------------------------------------------------------------------------------------

static bool is_shown(struct ahead *ahead, const struct arrival *arrival) {
  return atomic_load(&ahead->arrival) == arrival;
}

// Nobody knows of the body any more, and nothing of it is being copied.
static void drop(struct ahead *ahead) {
  if (ahead->lane) ahead->gpu->backend->settle(ahead->lane);
  ahead->lane = NULL;
  atomic_store(&ahead->arrival, NULL);
}

// The last of the body is left to the job, which is as quick to read it.
static void copy(struct ahead *ahead, const struct arrival *arrival, struct device *gpu, struct vx_lane *lane) {
  size_t come = atomic_load(&arrival->come);
  struct vx_error error;
  if (come >= arrival->whole || come - ahead->copied < LEAST_PART || (ahead->lane && ahead->lane != lane)) return;
  ahead->gpu = gpu;
  ahead->lane = lane;
  if (gpu->backend->bring(lane, arrival->body, arrival->whole, ahead->copied, come, &error) == VX_OK)
    ahead->copied = come;
  else
    drop(ahead);  // if the GPU is lost, the next job finds out
}

// ---- I/O threads ----------------------------------------------------------------------------------------------------

static bool is_idle(struct devices *devices) {
  bool idle = atomic_load(&devices->working) > 0;
  for (int i = 0; i < devices->count; i++) idle = idle && atomic_load(&devices->gpu[i].load) == 0;
  return idle;
}

static bool has_room(struct ahead *ahead, int64_t now_ns) {
  return is_shown(ahead, NULL) || now_ns - atomic_load(&ahead->noted_ns) > STALLED_NS;
}

static void show(struct ahead *ahead, struct arrival *arrival, int64_t now_ns) {
  if (!has_room(ahead, now_ns) || !is_idle(ahead->devices)) return;
  awake_lock(&ahead->lock);
  bool shown = has_room(ahead, now_ns);
  if (shown) {
    drop(ahead);
    ahead->copied = 0;
    atomic_store(&ahead->noted_ns, now_ns);
    atomic_store(&ahead->arrival, arrival);
    atomic_fetch_add(&ahead->news, 1);
  }
  pthread_mutex_unlock(&ahead->lock);
  if (shown) ahead->rouse(ahead->cls);
}

void ahead_note(struct ahead *ahead, struct arrival *arrival, size_t come) {
  size_t before = atomic_exchange(&arrival->come, come);
  int64_t now_ns = clock_ns();
  bool enough = before < LEAST_PART && come >= LEAST_PART && arrival->whole >= LEAST_BODY;
  if (is_shown(ahead, arrival)) {
    atomic_store(&ahead->noted_ns, now_ns);
    atomic_fetch_add(&ahead->news, 1);
  } else if (enough && ahead->possible && now_ns - arrival->began_ns < FAST_NS) {
    show(ahead, arrival, now_ns);
  }
}

void ahead_hide(struct ahead *ahead, struct arrival *arrival) {
  if (!is_shown(ahead, arrival)) return;
  awake_lock(&ahead->lock);
  if (is_shown(ahead, arrival)) drop(ahead);
  pthread_mutex_unlock(&ahead->lock);
}

// ---- workers --------------------------------------------------------------------------------------------------------

void ahead_copy(struct ahead *ahead, struct device *gpu, struct vx_lane *lane) {
  if (pthread_mutex_trylock(&ahead->lock) != 0) return;
  ahead->heard = atomic_load(&ahead->news);
  const struct arrival *arrival = atomic_load(&ahead->arrival);
  if (arrival) copy(ahead, arrival, gpu, lane);
  pthread_mutex_unlock(&ahead->lock);
}

size_t ahead_take(struct ahead *ahead, struct arrival *arrival, const struct vx_lane *lane) {
  size_t found = 0;
  if (!is_shown(ahead, arrival)) return 0;
  awake_lock(&ahead->lock);
  if (is_shown(ahead, arrival)) {
    found = ahead->lane == lane ? ahead->copied : 0;
    if (found > 0) ahead->lane = NULL;  // the run comes to its end only after the copies
    drop(ahead);
  }
  pthread_mutex_unlock(&ahead->lock);
  atomic_fetch_add(&ahead->found, found);
  return found;
}

void ahead_leave(struct ahead *ahead, const struct vx_lane *lane) {
  awake_lock(&ahead->lock);
  if (ahead->lane == lane) drop(ahead);
  pthread_mutex_unlock(&ahead->lock);
}
