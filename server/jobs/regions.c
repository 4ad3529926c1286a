// Regions of shared memory; see regions.h.
#include "server/jobs/regions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/text.h"
#include "server/base/clock.h"

struct region {
  struct region *next;
  struct client *client;
  struct region_terms terms;
  struct object object;
  bool listed;                // requests find it: it is registered
  int users;                  // the registry while it is listed, copies under way, and GPUs that have it in reach
  int writers;                // of them, GPUs that may write, and copies that do
  unsigned long long number;  // of its registration, from 1
  int64_t used_ns;            // when it was registered, or used last
  struct pins pins;
};

static const int64_t tick_ns = 60 * NS_PER_S, left_ns = 600 * NS_PER_S;

bool regions_allow(const struct regions *regions, bool local, struct problem *problem) {
  if (!regions->allowed)
    return problem_set(problem, PROBLEM_NO_SHARED_MEMORY, NULL,
                       "this server shares no memory; its operator can allow that (--allow-shared-memory yes)");
  return local || problem_set(problem, PROBLEM_NO_SHARED_MEMORY, NULL,
                              "memory is shared only with clients on loopback or a Unix socket, without a proxy");
}

// ---- the list -------------------------------------------------------------------------------------------------------

// With the lock held. Nobody uses the region, and it is in no list.
static void end(struct regions *regions, struct region *region) {
  region->next = regions->ended;
  regions->ended = region;
  pthread_cond_signal(&regions->some_ended);
}

// With the lock held: one user less.
static void let_go(struct regions *regions, struct region *region) {
  if (--region->users) return;
  struct region **link = &regions->first;
  while (*link != region) link = &(*link)->next;
  *link = region->next;
  end(regions, region);
}

// With the lock held: from now on nobody begins to use the region.
static void unlist(struct regions *regions, struct region *region) {
  region->listed = false;
  let_go(regions, region);
}

// With the lock held.
static bool is_of(const struct region *region, const struct client *client, const char *name) {
  return region->client == client && (!name || strcmp(region->terms.name, name) == 0);
}

// With the lock held.
static struct region *find(const struct regions *regions, const struct client *client, const char *name) {
  struct region *region = regions->first;
  while (region && !(region->listed && is_of(region, client, name))) region = region->next;
  return region;
}

bool regions_unregister(struct regions *regions, const struct client *client, const char *name,
                        struct problem *problem) {
  char written[REGION_NAME_SIZE] = "";
  pthread_mutex_lock(&regions->lock);
  for (struct region *region = regions->first, *next; region; region = next) {
    next = region->next;
    if (!is_of(region, client, name)) continue;
    if (region->writers) memcpy(written, region->terms.name, sizeof written);
    if (region->listed) unlist(regions, region);
  }
  pthread_mutex_unlock(&regions->lock);
  return !written[0] ||
         problem_set(problem, PROBLEM_REGION_BUSY, NULL,
                     "a job still writes to the region '%s'; no other begins to: unregister it again", written);
}

// With the lock held: removes the regions of the client, or of all (NULL), whose memory nobody else can open any more,
// if no copy is under way and they were not used since then.
static void remove_left(struct regions *regions, const struct client *client, int64_t since_ns) {
  for (struct region *region = regions->first, *next; region; region = next) {
    struct stat object;
    next = region->next;
    if (region->listed && (!client || region->client == client) && region->users == 1 && region->used_ns <= since_ns &&
        fstat(region->object.fd, &object) == 0 && object.st_nlink == 0)
      unlist(regions, region);
  }
}

void regions_tick(struct regions *regions, int64_t now_ns) {
  pthread_mutex_lock(&regions->lock);
  if (now_ns >= regions->tick_ns) {
    regions->tick_ns = now_ns + tick_ns;
    remove_left(regions, NULL, now_ns - left_ns);
  }
  pthread_mutex_unlock(&regions->lock);
}

// ---- the closer -----------------------------------------------------------------------------------------------------

static void close_all(struct regions *regions, struct region *ended) {
  while (ended) {
    struct region *next = ended->next;
    pins_close(&regions->pinner, &ended->pins);
    if (ended->object.fd >= 0) (void)close(ended->object.fd);
    client_give(regions->clients, ended->client, SHARE_REGIONS, 1);
    free(ended);
    ended = next;
  }
}

static void *closer_main(void *argument) {
  struct regions *regions = argument;
  pthread_mutex_lock(&regions->lock);
  while (regions->ended || !regions->over) {
    struct region *ended = regions->ended;
    regions->ended = NULL;
    if (!ended) {
      pthread_cond_wait(&regions->some_ended, &regions->lock);
      continue;
    }
    pthread_mutex_unlock(&regions->lock);
    close_all(regions, ended);
    pthread_mutex_lock(&regions->lock);
  }
  pthread_mutex_unlock(&regions->lock);
  return NULL;
}

bool regions_init(struct regions *regions, const struct options *options, struct clients *clients, char *error,
                  size_t error_size) {
  bool allowed = options->allow_shared_memory;
  *regions = (struct regions){.clients = clients, .options = options, .allowed = allowed};
  int code = 0;
  pthread_mutex_init(&regions->lock, NULL);
  pthread_cond_init(&regions->some_ended, NULL);
  pinner_init(&regions->pinner, clients, !allowed || options->shared_memory_pinned_bytes == 0);
  if (allowed) code = pthread_create(&regions->closer, NULL, closer_main, regions);
  regions->closes = allowed && code == 0;
  if (code == 0) return true;
  regions_destroy(regions);
  return error_set(error, error_size, "shared memory: pthread_create: %s", strerror(code));
}

void regions_destroy(struct regions *regions) {
  pthread_mutex_lock(&regions->lock);
  while (regions->first) unlist(regions, regions->first);
  regions->over = true;
  pthread_cond_signal(&regions->some_ended);
  pthread_mutex_unlock(&regions->lock);
  if (regions->closes) pthread_join(regions->closer, NULL);
  pinner_destroy(&regions->pinner);
  pthread_cond_destroy(&regions->some_ended);
  pthread_mutex_destroy(&regions->lock);
}

// ---- registering ----------------------------------------------------------------------------------------------------

// A region has its share until it is closed. If there is no room, regions of objects that were unlinked make some, as
// soon as they are closed: for a client that is over its share, only its own.
static bool take_share(struct regions *regions, struct client *client, struct problem *problem) {
  enum grant grant = client_take(regions->clients, client, SHARE_REGIONS, 1, 0);
  if (grant == GRANTED) return true;
  pthread_mutex_lock(&regions->lock);
  remove_left(regions, grant == OVER_CLIENT_SHARE ? client : NULL, INT64_MAX);
  pthread_mutex_unlock(&regions->lock);
  return problem_set(problem, grant_problem(grant, PROBLEM_MEMORY_FULL), NULL,
                     "there is no room for another region: all clients together have up to %d, one up to half of those "
                     "that others leave; unregister some",
                     REGIONS_MAX);
}

// With the lock held: lists the region, if it may be.
static bool list(struct regions *regions, struct region *region, struct problem *problem) {
  if (find(regions, region->client, region->terms.name))
    return problem_set(problem, PROBLEM_BAD_REQUEST, "name", "the region '%s' is registered already",
                       region->terms.name);
  region->listed = true;
  region->users = 1;
  region->used_ns = clock_ns();
  region->number = atomic_fetch_add(&regions->registered, 1) + 1;
  region->next = regions->first;
  regions->first = region;
  return true;
}

static bool open_object(struct region *region, const struct options *options, const struct object_asker *asker,
                        struct problem *problem) {
  const struct region_terms *terms = &region->terms;
  const struct object *object = &region->object;
  if (!object_open(options, asker, terms->key, &region->object, problem)) return false;
  return region_holds(object->bytes, terms->offset, terms->bytes) ||
         problem_set(problem, PROBLEM_BAD_REQUEST, "byte_size",
                     "the region has %llu bytes from byte %llu on; the memory has %llu in all",
                     (unsigned long long)terms->bytes, (unsigned long long)terms->offset,
                     (unsigned long long)object->bytes);
}

bool regions_register(struct regions *regions, struct client *client, const struct object_asker *asker,
                      const struct region_terms *terms, struct problem *problem) {
  struct region *region = malloc(sizeof *region);
  if (!region) return problem_set(problem, PROBLEM_MEMORY_FULL, NULL, "there is no memory for a region");
  if (!take_share(regions, client, problem)) {
    free(region);
    return false;
  }
  *region = (struct region){.client = client, .terms = *terms, .pins.client = client};
  bool opened = open_object(region, regions->options, asker, problem);
  pthread_mutex_lock(&regions->lock);
  bool listed = opened && list(regions, region, problem);
  if (!listed) end(regions, region);
  pthread_mutex_unlock(&regions->lock);
  return listed;
}

// ---- showing --------------------------------------------------------------------------------------------------------

static bool refuse_name(struct problem *problem, enum problem_kind kind, const char *parameter, const char *name) {
  return problem_set(problem, kind, parameter, "this client has no region '%.80s'", name);
}

bool regions_write(struct regions *regions, const struct client *client, const char *name, struct text *out,
                   struct problem *problem) {
  const char *comma = "";
  text_put(out, "[");
  pthread_mutex_lock(&regions->lock);
  for (const struct region *region = regions->first; region; region = region->next) {
    if (!region->listed || !is_of(region, client, name)) continue;
    text_put(out, comma);
    region_terms_write(&region->terms, out);
    comma = ",\n ";
  }
  pthread_mutex_unlock(&regions->lock);
  text_put(out, "]\n");
  return !name || comma[0] || refuse_name(problem, PROBLEM_NOT_FOUND, NULL, name);
}

// ---- copying --------------------------------------------------------------------------------------------------------

// The client's region, with one more user, if it has such a part. NULL with a problem.
static struct region *take(struct regions *regions, struct region_user user, const struct region_ref *ref,
                           const char *parameter, struct problem *problem) {
  pthread_mutex_lock(&regions->lock);
  struct region *region = find(regions, user.client, ref->name);
  if (region && region->number > user.registered) region = NULL;
  uint64_t size = region ? region->terms.bytes : 0;
  bool good = region && region_holds(size, ref->offset, ref->bytes);
  if (good) {
    region->users++;
    region->used_ns = clock_ns();
  }
  pthread_mutex_unlock(&regions->lock);
  if (good) return region;
  if (!region)
    (void)refuse_name(problem, PROBLEM_BAD_PARAMETER, parameter, ref->name);
  else
    problem_set(problem, PROBLEM_BAD_PARAMETER, parameter,
                "%s has %llu bytes from byte %llu on; the region '%s' has %llu in all", parameter,
                (unsigned long long)ref->bytes, (unsigned long long)ref->offset, ref->name, (unsigned long long)size);
  return NULL;
}

// Counts a writer, if the region is listed still: an unregistered one is written to no more.
static bool begin_writing(struct regions *regions, struct region *region) {
  pthread_mutex_lock(&regions->lock);
  bool listed = region->listed;
  region->writers += listed;
  pthread_mutex_unlock(&regions->lock);
  return listed;
}

static void give(struct regions *regions, struct region *region, bool writes) {
  pthread_mutex_lock(&regions->lock);
  region->writers -= writes;
  let_go(regions, region);
  pthread_mutex_unlock(&regions->lock);
}

static bool has_bytes(const struct region *region, uint64_t end) {
  struct stat object;
  return fstat(region->object.fd, &object) == 0 && (uint64_t)object.st_size >= end;
}

static bool refuse_copy(const struct region *region, const char *parameter, const char *reason,
                        struct problem *problem) {
  return problem_set(problem, PROBLEM_BAD_BODY, parameter, "the region '%s': %s", region->terms.name, reason);
}

static const char shortened[] = "its owner has shortened the memory since it was registered";

static bool read_all(const struct region *region, uint64_t at, char *out, size_t bytes, const char *parameter,
                     struct problem *problem) {
  while (bytes > 0) {
    ssize_t got = pread(region->object.fd, out, bytes, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return refuse_copy(region, parameter, got < 0 ? strerror(errno) : shortened, problem);
    out += got;
    at += (uint64_t)got;
    bytes -= (size_t)got;
  }
  return true;
}

// Writing beyond the end would lengthen the memory again.
static bool write_all(const struct region *region, uint64_t at, const char *data, size_t bytes, const char *parameter,
                      struct problem *problem) {
  if (!has_bytes(region, at + bytes)) return refuse_copy(region, parameter, shortened, problem);
  while (bytes > 0) {
    ssize_t put = pwrite(region->object.fd, data, bytes, (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return refuse_copy(region, parameter, put < 0 ? strerror(errno) : "it takes no more", problem);
    data += put;
    at += (uint64_t)put;
    bytes -= (size_t)put;
  }
  return true;
}

bool regions_read(struct regions *regions, struct region_user user, const struct region_ref *ref, char *out,
                  const char *parameter, struct problem *problem) {
  struct region *region = take(regions, user, ref, parameter, problem);
  if (!region) return false;
  uint64_t at = region->terms.offset + ref->offset;
  bool good = !out || read_all(region, at, out, (size_t)ref->bytes, parameter, problem);
  give(regions, region, false);
  return good;
}

bool regions_fill(struct regions *regions, struct region_user user, const struct region_ref *ref, const char *data,
                  size_t bytes, const char *parameter, struct problem *problem) {
  struct region *region = take(regions, user, ref, parameter, problem);
  if (!region) return false;
  if (!begin_writing(regions, region)) {
    give(regions, region, false);
    return refuse_name(problem, PROBLEM_BAD_PARAMETER, parameter, ref->name);
  }
  bool good = write_all(region, region->terms.offset + ref->offset, data, bytes, parameter, problem);
  give(regions, region, true);
  return good;
}

// ---- in reach of GPUs -----------------------------------------------------------------------------------------------

bool regions_reach(struct regions *regions, struct region_user user, const struct region_ref *ref, size_t bytes,
                   const struct device *device, bool writes, struct reach *reach) {
  struct problem unread;
  struct region *region = take(regions, user, ref, "", &unread);
  *reach = (struct reach){.region = region, .bytes = bytes, .writes = writes};
  if (!region) return false;
  const struct pins_file file = {region->object.fd, region->terms.offset, region->terms.bytes};
  reach->at = region->terms.offset + ref->offset;
  reach->memory = pins_reach(&regions->pinner, &region->pins, &file, ref->offset, bytes, device);
  bool aligned = reach->memory && (writes || (uintptr_t)reach->memory % VX_TENSOR_ALIGNMENT == 0);
  if (aligned && (!writes || begin_writing(regions, region))) return true;
  reach->region = NULL;
  give(regions, region, false);
  return false;
}

bool regions_overlap(const struct reach *one, const struct reach *other) {
  const struct region *region = one->region, *second = other->region;
  return region && second && region->object.device == second->object.device &&
         region->object.inode == second->object.inode && one->at < other->at + other->bytes &&
         other->at < one->at + one->bytes;
}

bool regions_copy(const struct reach *reach, char *out, const char *parameter, struct problem *problem) {
  return read_all(reach->region, reach->at, out, reach->bytes, parameter, problem);
}

bool regions_hold(struct regions *regions, const struct reach *reach) {
  struct region *region = reach->region;
  if (!region || pins_attached(&regions->pinner, &region->pins, reach->memory, reach->bytes)) return true;
  pins_fail(&regions->pinner, &region->pins);
  return false;
}

void regions_leave(struct regions *regions, struct reach *reach) {
  struct region *region = reach->region;
  if (!region) return;
  reach->region = NULL;
  give(regions, region, reach->writes);
}

struct regions_use regions_use(struct regions *regions) {
  struct regions_use use = {.pinned_bytes = atomic_load(&regions->pinner.bytes),
                            .refusals = atomic_load(&regions->pinner.refusals),
                            .reached = atomic_load(&regions->reached),
                            .copied = atomic_load(&regions->copied)};
  pthread_mutex_lock(&regions->lock);
  for (const struct region *region = regions->first; region; region = region->next) use.count += region->listed;
  pthread_mutex_unlock(&regions->lock);
  return use;
}
