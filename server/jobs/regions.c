// See regions.h.
#include "server/jobs/regions.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/json_write.h"
#include "server/base/base.h"

struct region {
  struct region *next;
  struct regions *regions;
  struct client *client;
  struct region_terms terms;
  struct object object;
  bool listed;                // registered, and found by requests
  int users;                  // open parts, plus 1 while it is listed
  int writers;                // parts that a GPU may write to, or that a copy writes to
  unsigned long long number;  // of its registration, from 1
  int64_t used_ns;            // when it was registered, or when its last part was closed
  struct pins pins;
};

static const int64_t tick_ns = 60 * NS_PER_S, left_ns = 600 * NS_PER_S;

bool regions_allow(const struct regions *regions, enum region_kind kind, bool local, struct error *error) {
  const struct options *options = regions->options;
  const int32_t allowed[] = {options->allow_shared_memory, options->allow_cuda_shared_memory, regions->allowed};
  bool of_gpu = kind == REGION_CUDA;
  if (!allowed[kind])
    return error_refuse(error, ERROR_NO_SHARED_MEMORY, NULL,
                        "this server shares no %smemory; its operator can allow that (--allow-%sshared-memory yes)",
                        of_gpu ? "GPU " : "", of_gpu ? "cuda-" : "");
  return local || error_refuse(error, ERROR_NO_SHARED_MEMORY, NULL,
                               "memory is shared only with clients on loopback or a Unix socket, without a proxy");
}

// ---- the list -------------------------------------------------------------------------------------------------------

// The region has no users and is not in the list.
static void end(struct regions *regions, struct region *region) HOLDS(regions->lock) {
  region->next = regions->ended;
  regions->ended = region;
  pthread_cond_signal(&regions->some_ended);
}

static void release_user(struct regions *regions, struct region *region) HOLDS(regions->lock) {
  if (--region->users) return;
  struct region **link = &regions->first;
  while (*link != region) link = &(*link)->next;
  *link = region->next;
  end(regions, region);
}

static void unlist(struct regions *regions, struct region *region) HOLDS(regions->lock) {
  region->listed = false;
  release_user(regions, region);
}

static bool is_of(const struct region *region, const struct client *client, const char *name) {
  return region->client == client && (!name || strcmp(region->terms.name, name) == 0);
}

static struct region *find(const struct regions *regions, const struct client *client, const char *name)
    HOLDS(regions->lock) {
  struct region *region = regions->first;
  while (region && !(region->listed && is_of(region, client, name))) region = region->next;
  return region;
}

bool regions_unregister(struct regions *regions, const struct client *client, enum region_kind kind, const char *name,
                        struct error *error) {
  char written[REGION_NAME_SIZE] = "";
  lock_acquire(&regions->lock);
  for (struct region *region = regions->first, *next; region; region = next) {
    next = region->next;
    if (region->terms.kind != kind || !is_of(region, client, name)) continue;
    if (region->writers) memcpy(written, region->terms.name, sizeof written);
    if (region->listed) unlist(regions, region);
  }
  lock_release(&regions->lock);
  return !written[0] ||
         error_refuse(error, ERROR_REGION_BUSY, NULL,
                      "a job still writes to the region '%s', and no other job will write to it; unregister it again",
                      written);
}

// Removes regions of the client, or of all clients (NULL), that have no open part and were not used after `since_ns`.
// Keeps shared memory that is not unlinked and, if `since_ns` is INT64_MAX, all GPU memory.
static void remove_left(struct regions *regions, const struct client *client, int64_t since_ns) HOLDS(regions->lock) {
  for (struct region *region = regions->first, *next; region; region = next) {
    next = region->next;
    bool unused = region->listed && (!client || region->client == client) && region->users == 1;
    bool left = region->object.gpu ? since_ns < INT64_MAX : object_is_unlinked(&region->object);
    if (unused && region->used_ns <= since_ns && left) unlist(regions, region);
  }
}

void regions_tick(struct regions *regions, int64_t now_ns) {
  lock_acquire(&regions->lock);
  if (now_ns >= regions->tick_ns) {
    regions->tick_ns = now_ns + tick_ns;
    remove_left(regions, NULL, now_ns - left_ns);
  }
  lock_release(&regions->lock);
}

void regions_remove_unknown(struct regions *regions, struct access *access) {
  lock_acquire(&regions->lock);
  for (struct region *region = regions->first, *next; region; region = next) {
    next = region->next;
    if (region->listed && !access_knows(access, client_user(region->client))) unlist(regions, region);
  }
  lock_release(&regions->lock);
}

// ---- the closer -----------------------------------------------------------------------------------------------------

static void close_all(struct regions *regions, struct region *ended) {
  while (ended) {
    struct region *next = ended->next;
    pins_end(&ended->pins);
    object_close(&ended->object);
    share_release(regions->clients, ended->client, SHARE_REGIONS, 1);
    free(ended);
    ended = next;
  }
}

static void *closer_main(void *argument) {
  struct regions *regions = argument;
  lock_acquire(&regions->lock);
  while (regions->ended || !regions->over) {
    struct region *ended = regions->ended;
    regions->ended = NULL;
    if (!ended) {
      lock_wait(&regions->lock, &regions->some_ended);
      continue;
    }
    lock_release(&regions->lock);
    close_all(regions, ended);
    lock_acquire(&regions->lock);
  }
  lock_release(&regions->lock);
  return NULL;
}

bool regions_init(struct regions *regions, const struct options *options, const struct devices *devices,
                  struct clients *clients, struct error *error) {
  bool allowed = options->allow_shared_memory || options->allow_cuda_shared_memory;
  *regions = (struct regions){.clients = clients, .options = options, .devices = devices, .allowed = allowed};
  int code = 0;
  lock_init(&regions->lock);
  pthread_cond_init(&regions->some_ended, NULL);
  pinner_init(&regions->pinner, clients, !allowed || options->shared_memory_pinned_bytes == 0);
  if (allowed) code = pthread_create(&regions->closer, NULL, closer_main, regions);
  regions->closes = allowed && code == 0;
  if (code == 0) return true;
  regions_end(regions);
  return error_set(error, "shared memory: pthread_create: %s", strerror(code));
}

void regions_end(struct regions *regions) {
  lock_acquire(&regions->lock);
  while (regions->first) unlist(regions, regions->first);
  regions->over = true;
  pthread_cond_signal(&regions->some_ended);
  lock_release(&regions->lock);
  if (regions->closes) pthread_join(regions->closer, NULL);
  pinner_end(&regions->pinner);
  pthread_cond_destroy(&regions->some_ended);
  lock_end(&regions->lock);
}

// ---- registering ----------------------------------------------------------------------------------------------------

// A region counts towards its client's share until it is closed. If there is no room, removes unused regions of
// unlinked memory: all of them, or those of a client that is over its share. The room is free once the closer has
// closed them.
static bool take_share(struct regions *regions, struct client *client, struct error *error) {
  enum grant grant = share_acquire(regions->clients, client, SHARE_REGIONS, 1, 0);
  if (grant == GRANTED) return true;
  lock_acquire(&regions->lock);
  remove_left(regions, grant == OVER_CLIENT_SHARE ? client : NULL, INT64_MAX);
  lock_release(&regions->lock);
  return error_refuse(
      error, grant_error(grant, ERROR_MEMORY_FULL), NULL,
      "there is no room for another region: all clients together have up to %d, and a client up to half of "
      "what the others leave free; unregister some",
      REGIONS_MAX);
}

// Whether another client has registered the same block. One of the two may have stolen the handle.
static bool is_others(const struct regions *regions, const struct region *own) HOLDS(regions->lock) {
  const struct region *region = own->object.gpu ? regions->first : NULL;
  while (region && (region->client == own->client || !object_is_same(&region->object, &own->object)))
    region = region->next;
  return region;
}

static bool list(struct regions *regions, struct region *region, struct error *error) HOLDS(regions->lock) {
  if (is_others(regions, region))
    return error_refuse(error, ERROR_BAD_REQUEST, "raw_handle", "another client has registered this GPU memory");
  if (find(regions, region->client, region->terms.name))
    return error_refuse(error, ERROR_BAD_REQUEST, "name", "the region '%s' is registered already", region->terms.name);
  region->listed = true;
  region->users = 1;
  region->used_ns = clock_ns();
  region->number = atomic_fetch_add(&regions->registered, 1) + 1;
  region->next = regions->first;
  regions->first = region;
  return true;
}

static bool open_object(struct region *region, const struct options *options, const struct devices *devices,
                        const struct object_asker *asker, struct error *error) {
  const struct region_terms *terms = &region->terms;
  const struct object *object = &region->object;
  if (!object_open(options, devices, asker, terms, &region->object, error)) return false;
  return region_holds(object->bytes, terms->offset, terms->bytes) ||
         error_refuse(error, ERROR_BAD_REQUEST, "byte_size",
                      "the region has %llu bytes from byte %llu on; the memory has %llu in all",
                      (unsigned long long)terms->bytes, (unsigned long long)terms->offset,
                      (unsigned long long)object->bytes);
}

bool regions_register(struct regions *regions, struct client *client, const struct object_asker *asker,
                      const struct region_terms *terms, struct error *error) {
  struct region *region = malloc(sizeof *region);
  if (!region) return error_refuse(error, ERROR_MEMORY_FULL, NULL, "there is no memory for a region");
  if (!take_share(regions, client, error)) {
    free(region);
    return false;
  }
  *region = (struct region){.regions = regions, .client = client, .terms = *terms};
  pins_init(&region->pins, &regions->pinner, client, terms->offset, terms->bytes);
  bool opened = open_object(region, regions->options, regions->devices, asker, error);
  lock_acquire(&regions->lock);
  bool listed = opened && list(regions, region, error);
  if (!listed) end(regions, region);
  lock_release(&regions->lock);
  return listed;
}

// ---- showing --------------------------------------------------------------------------------------------------------

static bool refuse_name(struct error *error, enum error_kind kind, const char *parameter, const char *name) {
  return error_refuse(error, kind, parameter, "this client has no region '%.80s'", name);
}

bool regions_write(struct regions *regions, const struct client *client, enum region_kind kind, const char *name,
                   struct text *out, struct error *error) {
  bool found = false;
  json_printf(out, "[");
  lock_acquire(&regions->lock);
  for (const struct region *region = regions->first; region; region = region->next) {
    if (!region->listed || region->terms.kind != kind || !is_of(region, client, name)) continue;
    region_terms_write(&region->terms, out);
    found = true;
  }
  lock_release(&regions->lock);
  json_printf(out, "]\n");
  return !name || found || refuse_name(error, ERROR_NOT_FOUND, NULL, name);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

bool region_open(struct regions *regions, struct region_user user, const struct region_ref *ref, const char *parameter,
                 struct region_part *part, struct error *error) {
  lock_acquire(&regions->lock);
  struct region *region = find(regions, user.client, ref->name);
  if (region && region->number > user.registered) region = NULL;
  uint64_t size = region ? region->terms.bytes : 0;
  bool good = region && region_holds(size, ref->offset, ref->bytes);
  if (good) region->users++;
  lock_release(&regions->lock);
  *part = (struct region_part){.region = good ? region : NULL, .parameter = parameter, .bytes = (size_t)ref->bytes};
  if (good) part->at = region->terms.offset + ref->offset;
  if (good) return true;
  if (!region) return refuse_name(error, ERROR_BAD_PARAMETER, parameter, ref->name);
  return error_refuse(
      error, ERROR_BAD_PARAMETER, parameter, "%s has %llu bytes from byte %llu on; the region '%s' has %llu in all",
      parameter, (unsigned long long)ref->bytes, (unsigned long long)ref->offset, ref->name, (unsigned long long)size);
}

// Counts a writer. False: the region was unregistered, and nobody may write to it.
static bool begin_writing(struct region_part *part) {
  struct region *region = part->region;
  lock_acquire(&region->regions->lock);
  part->writes = region->listed;
  region->writers += part->writes;
  lock_release(&region->regions->lock);
  return part->writes;
}

static void end_writing(struct region_part *part) {
  struct region *region = part->region;
  lock_acquire(&region->regions->lock);
  region->writers -= part->writes;
  lock_release(&region->regions->lock);
  part->writes = false;
}

void region_close(struct region_part *part) {
  struct region *region = part->region;
  if (!region) return;
  struct regions *regions = region->regions;
  int64_t now_ns = clock_ns();
  region_device_release(part);
  lock_acquire(&regions->lock);
  region->used_ns = now_ns;
  release_user(regions, region);
  lock_release(&regions->lock);
  part->region = NULL;
}

// ---- their bytes ----------------------------------------------------------------------------------------------------

static bool refuse_copy(const struct region_part *part, struct error *error) {
  (void)error_prefix(error, "the region '%s': ", part->region->terms.name);
  return error_blame(error, part->parameter);
}

bool region_read(const struct region_part *part, char *out, struct error *error) {
  return object_read(&part->region->object, part->at, part->bytes, out, error) || refuse_copy(part, error);
}

bool region_peek(const struct region_part *part, uint64_t at, size_t bytes, char *out) {
  struct error unread;
  return object_read(&part->region->object, part->at + at, bytes, out, &unread);
}

bool region_write(struct region_part *part, const char *data, size_t bytes, struct error *error) {
  if (!begin_writing(part)) return refuse_name(error, ERROR_BAD_PARAMETER, part->parameter, part->region->terms.name);
  bool good = object_write(&part->region->object, part->at, data, bytes, error) || refuse_copy(part, error);
  end_writing(part);
  return good;
}

// The address of the part for the GPU. NULL: the part is not in the GPU's memory, and is not pinned for the GPU.
static char *reach(const struct region_part *part, size_t bytes, const struct device *device) {
  struct region *region = part->region;
  const struct object *object = &region->object;
  if (object->gpu) return object->gpu == device && bytes > 0 ? object->block + part->at : NULL;
  return pins_device_ptr(&region->pins, object->fd, part->at - region->terms.offset, bytes, device);
}

char *region_device_ptr(struct region_part *part, size_t bytes, const struct device *device, bool writes) {
  char *memory = reach(part, bytes, device);
  bool aligned = memory && (writes || (uintptr_t)memory % VX_TENSOR_ALIGNMENT == 0);
  if (!aligned || (writes && !begin_writing(part))) return NULL;
  part->reached = bytes;
  return part->device_ptr = memory;
}

bool region_verify(const struct region_part *part) {
  return !part->device_ptr || part->region->object.gpu ||
         pins_verify(&part->region->pins, part->device_ptr, part->reached);
}

void region_device_release(struct region_part *part) {
  if (part->writes) end_writing(part);
  part->device_ptr = NULL;
}

const struct device *region_gpu(const struct region_part *part) { return part->region->object.gpu; }

bool region_overlap(const struct region_part *one, const struct region_part *other) {
  return one->device_ptr && other->device_ptr && object_is_same(&one->region->object, &other->region->object) &&
         one->at < other->at + other->reached && other->at < one->at + one->reached;
}

struct regions_use regions_use(struct regions *regions) {
  struct regions_use use = {.pinned_bytes = atomic_load(&regions->pinner.bytes),
                            .refusals = atomic_load(&regions->pinner.refusals),
                            .reached = atomic_load(&regions->reached),
                            .copied = atomic_load(&regions->copied)};
  lock_acquire(&regions->lock);
  for (const struct region *region = regions->first; region; region = region->next)
    use.count[region->terms.kind] += region->listed;
  lock_release(&regions->lock);
  return use;
}
