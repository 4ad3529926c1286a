// Regions: POSIX shared memory and GPU memory that clients have registered for points and answers.
//
// A region belongs to the client that registered it; other clients neither use nor see it. Its memory is an object
// (objects.h). The owner may change shared memory at any time. So the CPU copies it by pread and pwrite, which fail if
// the memory was shortened; GPUs access it in place (pins.h). GPU memory is accessed in place by its own GPU; the
// driver copies it for the CPU.
//
// Any thread. Before regions_end, no call waits for a job or an owner; registering GPU memory waits for the driver. One
// thread, the closer, closes all regions, since this may take long: unpinning waits for the GPU's kernels, and the last
// to close an object frees its pages.
#ifndef VOXELD_REGIONS_H
#define VOXELD_REGIONS_H

#include <pthread.h>

#include "api/wire/region.h"
#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/clients/access.h"
#include "server/clients/clients.h"
#include "server/config/options.h"
#include "server/jobs/objects.h"
#include "server/jobs/pins.h"

enum { REGIONS_MAX = 256 };  // of all clients

struct region;

struct regions {
  struct lock lock;
  struct region *first;
  struct clients *clients;
  const struct options *options;
  const struct devices *devices;
  bool allowed;          // at least one kind is allowed
  int64_t tick_ns;       // when to check the regions next
  struct region *ended;  // unused regions, for the closer
  pthread_cond_t some_ended;
  bool closes, over;  // closes: there is a closer; over: the closer should end
  pthread_t closer;
  struct pinner pinner;
  atomic_ullong reached, copied;  // parts of answered jobs, since the start: in place, and copied
  atomic_ullong registered;       // regions, since the start
};

// The request sees only regions that were registered before it began.
struct region_user {
  const struct client *client;
  unsigned long long registered;  // struct regions.registered when the request began
};

// Starts the closer, if shared memory is allowed. Borrows the options and the devices. False with a reason; nothing is
// held then.
VX_WARN_UNUSED bool regions_init(struct regions *regions, const struct options *options, const struct devices *devices,
                                 struct clients *clients, struct error *error);
// Waits until all regions are closed. Nobody may use a region any more.
void regions_end(struct regions *regions);
// Call it regularly: removes regions that were not used for a long time, if their memory was unlinked or is GPU memory.
// Their owners may have left without unregistering.
void regions_tick(struct regions *regions, int64_t now_ns);

// Removes the regions of users who no longer have access. Call it after a reload of the tokens.
void regions_remove_unknown(struct regions *regions, struct access *access);

// Whether this kind is allowed (REGION_KINDS: any kind), and the client is on this machine (`local`). False with an
// error.
VX_WARN_UNUSED bool regions_allow(const struct regions *regions, enum region_kind kind, bool local,
                                  struct error *error);

// Opens the object that the terms name as a region of the client.
VX_WARN_UNUSED bool regions_register(struct regions *regions, struct client *client, const struct object_asker *asker,
                                     const struct region_terms *terms, struct error *error);
// Removes the client's region of this kind and name, or all of this kind (NULL). Later requests do not find them. False
// with an error if a job still writes to a region of that name, even to one that was removed earlier; the client then
// repeats the request.
VX_WARN_UNUSED bool regions_unregister(struct regions *regions, const struct client *client, enum region_kind kind,
                                       const char *name, struct error *error);
// Writes the client's region of this kind and name, or all (NULL), as a JSON array. Without a client (NULL) there are
// none. False with an error if a name is given and there is no such region.
VX_WARN_UNUSED bool regions_write(struct regions *regions, const struct client *client, enum region_kind kind,
                                  const char *name, struct text *out, struct error *error);

// A part of a region that a job uses. An open part keeps its region from being closed.
struct region_part {
  struct region *region;  // NULL: the part is not open
  const char *parameter;  // of the request; errors name it
  uint64_t at;            // where the part begins in the object
  size_t bytes;
  char *device_ptr;  // the address for a GPU, never used by the CPU; NULL: no GPU accesses the part
  size_t reached;    // bytes that the GPU accesses, from the part's beginning
  bool writes;       // a GPU or a copy may write to the part
};
// An error: the region or the part does not exist.
VX_WARN_UNUSED bool region_open(struct regions *regions, struct region_user user, const struct region_ref *ref,
                                const char *parameter, struct region_part *part, struct error *error);
// No kernel may use its bytes any more. Does nothing if the part is not open.
void region_close(struct region_part *part);
// The GPU whose memory the part is; NULL: it is shared memory.
const struct device *region_gpu(const struct region_part *part);

// Copies the whole part to `out`.
VX_WARN_UNUSED bool region_read(const struct region_part *part, char *out, struct error *error);
// Copies `bytes` from byte `at` of the part. False if they cannot be read.
VX_WARN_UNUSED bool region_peek(const struct region_part *part, uint64_t at, size_t bytes, char *out);
// Copies the data to the beginning of the part, which has room for it.
VX_WARN_UNUSED bool region_write(struct region_part *part, const char *data, size_t bytes, struct error *error);

// The device's address of the first `bytes` of the part. An address to read from has VX_TENSOR_ALIGNMENT. NULL: the
// bytes must be copied.
char *region_device_ptr(struct region_part *part, size_t bytes, const struct device *device, bool writes);
// Whether GPUs access the same memory by both parts. The regions may have different names.
bool region_overlap(const struct region_part *one, const struct region_part *other);
// Whether the memory that a GPU accessed still belongs to the region. If not, the GPU may have read old bytes, what it
// wrote is lost, and the region is copied from then on.
VX_WARN_UNUSED bool region_verify(const struct region_part *part);
// Ends the access of GPUs to the part.
void region_device_release(struct region_part *part);

struct regions_use {
  int64_t count[REGION_KINDS];         // regions
  int64_t pinned_bytes;                // of these regions
  unsigned long long refusals;         // chunks that could not be pinned
  unsigned long long reached, copied;  // parts of answered jobs, since the start
};
struct regions_use regions_use(struct regions *regions);

#endif
