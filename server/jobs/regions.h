// Regions: POSIX shared memory that clients have registered, for points and answers.
//
// A region belongs to the client that registered it; others neither use nor see it. It is never trusted: its owner may
// shorten it, write to it or unlink it at any time. So the CPU copies its bytes by pread and pwrite, which fail if they
// are not there. A GPU reads and writes them itself (pins.h).
//
// Any thread, and no call waits for a job, a GPU or an owner. What waits is to close a region: a GPU unpins memory only
// once its kernels have ended, and the last to close an object frees its pages. The closer, a thread, does that alone.
#ifndef VOXELD_REGIONS_H
#define VOXELD_REGIONS_H

#include <pthread.h>

#include "api/wire/region.h"
#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/clients/clients.h"
#include "server/config/options.h"
#include "server/jobs/objects.h"
#include "server/jobs/pins.h"

enum { REGIONS_MAX = 256 };  // of all clients; each has a share of them

struct region;

struct regions {
  struct lock lock;
  struct region *first;
  struct clients *clients;
  const struct options *options;
  bool allowed;
  int64_t tick_ns;       // the next one looks at the regions then
  struct region *ended;  // used by nobody any more: the closer's
  pthread_cond_t some_ended;
  bool closes, over;  // there is a closer; it is to end
  pthread_t closer;
  struct pinner pinner;
  atomic_ullong reached, copied;  // parts of answered jobs, since the start: by GPUs in place, and by pread and pwrite
  atomic_ullong registered;       // regions, since the start
};

// Who uses regions: a client, whose request means none that was registered after it had begun, not even by a name that
// it knows.
struct region_user {
  const struct client *client;
  unsigned long long registered;  // struct regions had so many then
};

// Starts the closer, if shared memory is allowed. The options must stay. False with a reason, and nothing is held then.
VX_WARN_UNUSED bool regions_init(struct regions *regions, const struct options *options, struct clients *clients,
                                 struct error *error);
// Nobody uses a region any more. Waits until all are closed.
void regions_destroy(struct regions *regions);
// To be called now and then: removes regions of memory that was unlinked, if they were not used for long. Their owners
// have left without a word.
void regions_tick(struct regions *regions, int64_t now_ns);

// Whether a client may use regions: they are on, and it is on this machine (`local`). False with an error.
VX_WARN_UNUSED bool regions_allow(const struct regions *regions, bool local, struct error *error);

// Opens the object of that key as a region of the client, if that may have it (objects.h). False with an error.
VX_WARN_UNUSED bool regions_register(struct regions *regions, struct client *client, const struct object_asker *asker,
                                     const struct region_terms *terms, struct error *error);
// Removes the client's region of that name, or all (NULL): from now on no request finds it. False with an error if a
// job still writes to one of them, even to one that was removed before. Then the client asks again, until none does.
VX_WARN_UNUSED bool regions_unregister(struct regions *regions, const struct client *client, const char *name,
                                       struct error *error);
// Writes the client's region of that name, or all (NULL), as a JSON array. No client (NULL) has none. False with a
// problem if there is none of that name.
VX_WARN_UNUSED bool regions_write(struct regions *regions, const struct client *client, const char *name,
                                  struct text *out, struct error *error);

// A part of a region that a job uses. While it is open, the region is not closed. The CPU copies its bytes; a GPU may
// reach them itself.
struct region_part {
  struct region *region;  // NULL: it is not open
  const char *parameter;  // by which it was given; problems name it
  uint64_t at;            // where it begins in the memory that the region is of
  size_t bytes;
  char *device_ptr;  // where a GPU reaches it; NULL: none does. The CPU does not touch that
  size_t reached;    // bytes that the GPU reaches, from its beginning
  bool writes;       // a GPU may write there, or a copy does
};
// Opens a part of the client's region. False with an error if there is no such region, or it has no such part.
VX_WARN_UNUSED bool region_open(struct regions *regions, struct region_user user, const struct region_ref *ref,
                                const char *parameter, struct region_part *part, struct error *error);
// Does nothing if the part is not open. No kernel uses its bytes any more.
void region_release(struct region_part *part);

// Copies all of it to `out`. False with an error.
VX_WARN_UNUSED bool region_read(const struct region_part *part, char *out, struct error *error);
// Copies `bytes`, which the part has, to its beginning. False with an error.
VX_WARN_UNUSED bool region_write(struct region_part *part, const char *data, size_t bytes, struct error *error);

// Where the device reaches `bytes`, which the part has, from its beginning: to write them or, aligned to
// VX_TENSOR_ALIGNMENT, to read them. NULL: they must be copied.
char *region_device_ptr(struct region_part *part, size_t bytes, const struct device *device, bool writes);
// Whether GPUs reach bytes of memory by both parts, even if these are of regions of different names.
bool region_overlap(const struct region_part *one, const struct region_part *other);
// Whether what a GPU reached of the part is the region's still. If not, its owner has shortened it: what the GPU read
// there may be old, and what it wrote lost. From then on its bytes are copied.
VX_WARN_UNUSED bool region_verify_or_unpin(const struct region_part *part);
// No GPU reaches the part any more, or writes there.
void region_leave_device(struct region_part *part);

struct regions_use {
  int64_t count;                       // regions
  int64_t pinned_bytes;                // of them
  unsigned long long refusals;         // chunks that could not be pinned
  unsigned long long reached, copied;  // parts of answered jobs, since the start
};
struct regions_use regions_use(struct regions *regions);

#endif
