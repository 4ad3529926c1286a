// What uploads hold is lent to them: a place in the queue and memory for the body.
//
// If places or memory run short, the slowest upload gives up what it holds to whoever has bytes to put there: the one
// whose body will take longest at its present rate. If that takes 2 s at most, it gives up nothing, unless its client
// is greedy (clients.h). Nor does it, once bytes of it have come, to another upload of its own client in its first half
// second (and as long after a pause): its rate is not known yet. If nothing has come of it, it gives up without a word
// and takes anew with its first bytes; else it is refused. A job whose body is whole owns what it holds. Once half of
// the memory is in use, an upload gets memory only as its bytes come, in a few steps.
//
// The job's IO thread calls all functions but loans_take_*, which its worker calls. Any thread may take a loan away,
// under the lock, unless its IO thread has it in hand.
#ifndef VOXELD_LOANS_H
#define VOXELD_LOANS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/jobs/job.h"

struct loans {
  pthread_mutex_t lock;
  struct loan *first;
  atomic_bool refused;         // for want of memory, since that was last asked
  atomic_uint_fast64_t ended;  // uploads that were refused in favour of others
};

void loans_init(struct loans *loans);
void loans_destroy(struct loans *loans);
// To be called several times in each half second.
void loans_tick(struct loans *loans, int64_t now_ns);
// Whether a request was refused for want of memory since the last call.
bool loans_were_refused(struct loans *loans);

// The headers are here and `bytes` of body are due (0: none, or unknown). False with a problem if there is no room, nor
// would be if others gave up theirs.
VX_WARN_UNUSED bool loan_begin(struct job *job, size_t bytes, struct problem *problem);
// `bytes` more have come, which go to the address that is returned. A coded body has its decoder then; from there to
// loan_put_down it may be used. NULL with a problem.
VX_WARN_UNUSED char *loan_pick_up(struct job *job, size_t bytes, struct problem *problem);
void loan_put_down(struct job *job, size_t bytes);
// The upload is not read for a while, which is no slowness of its own; on with it. Both do nothing if there is no loan.
void loan_pause(struct job *job);
void loan_resume(struct job *job);
// The body is whole: what the job holds is its own. Its decoder goes back. False with a problem.
VX_WARN_UNUSED bool loan_settle(struct job *job, struct problem *problem);
// The upload is over in any other way: place and input go back. Does nothing if there is no loan.
void loan_end(struct job *job);

// The same as job_take_rows, job_take_output and job_take_scratch, if need be with what slow uploads give up.
VX_WARN_UNUSED bool loans_take_rows(struct job *job, size_t bytes, struct problem *problem);
VX_WARN_UNUSED bool loans_take_output(struct job *job, size_t bytes, struct problem *problem);
VX_WARN_UNUSED bool loans_take_scratch(struct job *job, size_t bytes, struct problem *problem);

#endif
