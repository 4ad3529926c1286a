// Fuzzes the whole daemon: libmicrohttpd, all of server/ and the CPU backend. Two daemons run in this process, one
// without TLS and one with TLS. An input describes what clients do, each on one connection. Afterwards all answers must
// be valid HTTP, and no client may have a connection, a request, a buffer or a share.
//
// The input: the bytes to send, and between them words of the table below, which are other actions of clients. Before
// the first word that opens a connection, a client of the Unix socket sends. At the end, every client finishes sending.
//
// This thread plays all clients; the daemons have their own threads.
#include <string.h>

#include "tests/fuzz/http_answers.h"
#include "tests/fuzz/http_callers.h"
#include "tests/fuzz/http_daemons.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum deed { CUT, FINISH, LEAVE, RAW, OPEN, GO_ON };
struct word {
  const char *text;
  enum deed deed;
  int number;  // OPEN: the client is 127.0.0.NUMBER; GO_ON: the connection's number
  enum place place;
};
static const struct word words[] = {
    {"<cut>", CUT, 0, 0},     // waits until the daemon has read the bytes sent so far
    {"<fin>", FINISH, 0, 0},  // finishes sending
    {"<rst>", LEAVE, 0, 0},   // goes away without reading
    {"<raw>", RAW, 0, 0},     // sends all later bytes outside TLS
    {"<unix>", OPEN, 0, PLACE_UNIX},
    {"<tcp1>", OPEN, 1, PLACE_TCP},
    {"<tcp2>", OPEN, 2, PLACE_TCP},
    {"<tcp3>", OPEN, 3, PLACE_TCP},
    {"<tcp4>", OPEN, 4, PLACE_TCP},  // a trusted proxy
    {"<tls1>", OPEN, 1, PLACE_TLS},
    {"<tls2>", OPEN, 2, PLACE_TLS},  // shows its certificate
    {"<tls3>", OPEN, 3, PLACE_TLS},
    {"<pages>", OPEN, 1, PLACE_PAGES},
    {"<0>", GO_ON, 0, 0},
    {"<1>", GO_ON, 1, 0},
    {"<2>", GO_ON, 2, 0},
    {"<3>", GO_ON, 3, 0},
    {"<4>", GO_ON, 4, 0},
    {"<5>", GO_ON, 5, 0},
};

// Returns where the next word begins; `end` if there is none.
static const char *find_word(const char *cursor, const char *end, const struct word **word) {
  for (*word = NULL; (cursor = memchr(cursor, '<', (size_t)(end - cursor))); cursor++)
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
      size_t length = strlen(words[i].text);
      if (length > (size_t)(end - cursor) || memcmp(cursor, words[i].text, length) != 0) continue;
      *word = &words[i];
      return cursor;
    }
  return end;
}

static void finish(struct callers *callers, struct caller *caller) {
  callers_await_taken(callers, caller);
  caller_finish(caller);
}

// Does what the word says. Returns the client whose turn is next.
static struct caller *act(struct callers *callers, struct caller *caller, const struct word *word) {
  switch (word->deed) {
    case CUT: callers_await_taken(callers, caller); break;
    case FINISH: finish(callers, caller); break;
    case LEAVE: caller_leave(caller); break;
    case RAW: caller->raw = true; break;
    case OPEN: return callers->count < MOST_CALLERS ? callers_open(callers, word->place, word->number) : caller;
    case GO_ON: return word->number < callers->count ? &callers->at[word->number] : caller;
  }
  return caller;
}

static void play(struct callers *callers, const char *cursor, const char *end) {
  const struct word *word;
  struct caller *caller = NULL;
  do {
    const char *stop = find_word(cursor, end, &word);
    bool opens = stop == cursor && word && word->deed == OPEN;
    if (!caller && !opens) caller = callers_open(callers, PLACE_UNIX, 0);
    if (caller) callers_send(callers, caller, cursor, (size_t)(stop - cursor));
    if (word) caller = act(callers, caller, word);
    cursor = stop + (word ? strlen(word->text) : 0);
  } while (word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct callers callers;
  if (size > MOST_REQUESTS) return -1;
  daemons_need();
  play(&callers, (const char *)data, (const char *)data + size);
  for (int i = 0; i < callers.count; i++) finish(&callers, &callers.at[i]);
  callers_take_all(&callers);
  for (int i = 0; i < callers.count; i++)
    if (!callers.at[i].gone && !(callers.at[i].tls && callers.at[i].raw)) answers_check(&callers.at[i]);
  callers_close(&callers);
  daemons_await_quiet();
  return 0;
}
