// The seats of a network: where it runs beside the host's processors, or why it does not.
//
// There is one for each lane on a GPU that the network was to run on. Seats are added and stay until the end of all;
// the network, and the lanes, end later. Any thread may look, or give seats up; one thread at a time adds.
#ifndef VOXELD_SEATS_H
#define VOXELD_SEATS_H

#include <stdatomic.h>

#include "api/base/text.h"
#include "kernels/kernels.h"

struct seat;

struct seats {
  _Atomic(struct seat *) first;
};

// Opens a seat of the network on the lane that has the place. Without one the error says why, and so does seats_write.
VX_WARN_UNUSED enum vx_status seats_open(struct seats *seats, const struct vx_engine *engine,
                                         struct vx_network *network, const struct vx_lane *lane,
                                         const struct vx_place *place, struct error *error);
// The seat on a lane; NULL if it has none, or none any more.
struct vx_seat *seats_on(const struct seats *seats, const struct vx_lane *lane);
// The network has failed on that lane and runs there no more; `reason` is copied.
void seats_give_up(struct seats *seats, const struct vx_lane *lane, const char *reason);
// The GPU of that number is lost, and with it all seats there.
void seats_lose(struct seats *seats, int device);
// How many are in use, on the GPU of that number.
int seats_count(const struct seats *seats, int device);
// A list of JSON objects, in the order in which the seats were opened.
void seats_write(const struct seats *seats, struct text *out);
// When no job runs with one of them.
void seats_close(struct seats *seats, const struct vx_engine *engine);

#endif
