// Hands: workers without a job help with those of others, piece by piece.
//
// A job that runs on the CPU may come to pieces that can be done apart (kernels/spread.h). Its worker then shows them
// to all and calls workers that sleep, of any queue. Each takes a piece, does it on its own CPU lane, takes the next,
// and goes back to its queue once there is none. A job never waits for help: its own worker does all that no helper has
// taken. The pieces stay on the stack of that worker, which leaves them last.
//
// Help is for what nobody else wants done. A worker helps only while no job waits in its queue, and gives up a piece
// that asks `stopped` once one comes; the piece is then done again. No helper takes a piece while jobs and helpers
// together are `workers` or more; jobs that come meanwhile wait for none of them. While a GPU works, its workers wait
// for the GPU's jobs, so nobody helps.
//
// A job may come to pieces several times, soon after each other, and to wake a processor takes about as long as to do a
// piece. So who has helped waits awake for a moment before it goes back to its queue, and so does a job's worker for
// the last pieces.
//
// Any worker. The lock is held to take a piece and to give it back, never while one is done.
#ifndef VOXELD_HANDS_H
#define VOXELD_HANDS_H

#include <stdatomic.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "server/base/lock.h"
#include "server/jobs/devices.h"
#include "server/jobs/queue.h"

struct spread;

struct hands_use {
  int64_t at_work;  // helpers, now
  // Since the start: pieces that were done of jobs with several, those of them that helpers did, and those that helpers
  // gave up.
  uint64_t pieces, helped, given_up;
};

struct hands {
  struct lock lock;
  struct spread *first;  // jobs whose pieces are shown, the oldest first
  struct hands_use use;
  int64_t awake;         // those who have helped and wait awake
  atomic_uint showings;  // how often pieces were shown
  const struct devices *devices;
  struct queue *queues;         // [VX_LANE_USES]: where workers can be called
  const atomic_llong *running;  // [VX_LANE_USES]: jobs
  int64_t most;                 // jobs and helpers at work, up to which a worker takes a piece to help
};

void hands_init(struct hands *hands, const struct devices *devices, struct queue queues[VX_LANE_USES],
                const atomic_llong running[VX_LANE_USES], int64_t most);
void hands_destroy(struct hands *hands);

// Has the pieces done, as vx_caller.spread says.
VX_WARN_UNUSED enum vx_status hands_spread(struct hands *hands, const struct vx_hand *own,
                                           const struct vx_pieces *pieces, struct error *error);

// Helps on the lane while there are pieces and no job waits in the queue.
void hands_help(struct hands *hands, struct vx_lane *lane, struct queue *queue);

// How many hands could be at work on a job's pieces now, as vx_caller.hands says.
int32_t hands_count(struct hands *hands);

struct hands_use hands_use(struct hands *hands);

#endif
