// A libmicrohttpd daemon on a Unix socket and its clients, to try a trap: a behaviour that the service must cope with.
//
// Without `threads` the library acts only within stage_run, so a try always takes the same course.
#ifndef VOXELD_TESTS_STAGE_H
#define VOXELD_TESTS_STAGE_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct stage;
typedef enum MHD_Result handler(struct stage *stage, struct MHD_Connection *connection, size_t *size);

struct stage {
  // In.
  handler *handle;     // NULL: handle_whole
  unsigned timeout_s;  // 0: none
  unsigned most;       // connections; 0: many
  unsigned threads;    // flags to start the library with threads; 0: no threads
  unsigned pool;       // threads of a pool; 0: no pool
  size_t memory;       // per connection; 0: 32 KiB
  void (*on_target)(struct stage *stage, const char *target);
  void (*on_closed)(struct stage *stage, struct MHD_Connection *connection);
  // The library's side. One letter per call: s started, t target, h head, b body, w another call without a body, d an
  // answer is queued, D an answer is refused, c completed, f the answer's body is freed, e the connection ended.
  char calls[256];
  struct MHD_Daemon *daemon;
  struct MHD_Connection *suspended;
  atomic_int letters, suspensions;
  size_t body, first_part;                // received bytes, in all and in the first call for them
  char method[16], path[64], target[64];  // of the last request, cut to fit
  char name[64], value[64];               // the last header whose name begins with X, or the last argument
  bool target_missing;
  bool value_missing;  // the value was NULL
  size_t value_size;   // as the library says
  enum MHD_RequestTerminationCode code;
  // The client's side.
  struct sockaddr_un address;
  socklen_t address_size;
  int client;          // -1: closed
  char answer[16384];  // received bytes, zero-terminated
  size_t answered;     // bytes in `answer`
  int answers;         // status lines in `answer`
  bool ended, reset;   // ended by an end of file; by an error
};

// The value of MHD_OPTION_STRICT_FOR_CLIENT that the daemon uses with this version. Set it before stage_open.
extern bool stage_strict;

// Starts the library and connects a client. Ends the process with OUTCOME_UNTRIED if this fails.
void stage_open(struct stage *stage);
// Connects another client. Returns its socket.
int stage_connect(const struct stage *stage);
// Sends from the client. A text is sent without its terminating zero.
void stage_send(struct stage *stage, const char *data, size_t size);
#define stage_say(STAGE, TEXT) stage_send((STAGE), (TEXT), sizeof(TEXT) - 1)
// Runs the library's loop for longer than any try takes, then receives the client's answer.
void stage_run(struct stage *stage);
void stage_receive(struct stage *stage);
// Closes the client, and runs.
void stage_leave(struct stage *stage);
// Resumes the suspended connection, and runs.
void stage_resume(struct stage *stage);
// Advances the library's clock.
void stage_age(int seconds);
// Waits until *value is at least `least`. Returns false after some seconds.
bool await(const atomic_int *value, int least);

// The status of the first answer; 0 without one.
int stage_status(const struct stage *stage);
bool stage_called(const struct stage *stage, char letter);

// Answers once the whole body has arrived, as the daemon does.
handler handle_whole;
// Answers at the first call.
handler handle_at_once;
enum MHD_Result stage_answer(struct stage *stage, struct MHD_Connection *connection);
enum MHD_Result stage_suspend(struct stage *stage, struct MHD_Connection *connection);

// Also the exit status of a try's process.
enum outcome { OUTCOME_YES, OUTCOME_NO, OUTCOME_UNTRIED = 77 };
static inline enum outcome outcome(bool seen) { return seen ? OUTCOME_YES : OUTCOME_NO; }

// `dies`: if the trap holds, a signal ends the process that tries it. `race`: the trap does not show in every try.
struct trap {
  const char *name, *what;
  enum outcome (*attempt)(void);
  bool dies, race;
};
#define TRAP(NAME) .name = #NAME, .attempt = NAME
extern const struct trap connection_traps[], thread_traps[];
extern const int connection_trap_count, thread_trap_count;

#define PAGE "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"

// A trap in what a client sends: sends `text` to the library, then asks `seen`.
struct head_trap {
  const char *name, *what;
  bool (*seen)(const struct stage *stage);
  const char *text;
  size_t size;
};
extern const struct head_trap head_traps[];
extern const int head_trap_count;
enum outcome head_trap_attempt(const struct head_trap *trap);

#endif
