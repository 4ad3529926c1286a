// See subscription_response in http.h.
#include "server/http/http.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "server/base/base.h"

enum { SEND_BUFFER = 32 * 1024 };  // bytes that the kernel keeps for a client, plus as many for itself

struct subscription {
  struct subscriber subscriber;
  struct events *events;
  struct request *request;  // not used once the request has ended, nor is `connection`
  struct MHD_Connection *connection;
  size_t length, sent;  // of the text
  char text[EVENT_TEXT_SIZE];
};

static void sleep_now(struct subscriber *subscriber) {
  MHD_suspend_connection(((struct subscription *)(void *)subscriber)->connection);
}

static void wake_up(struct subscriber *subscriber) {
  MHD_resume_connection(((struct subscription *)(void *)subscriber)->connection);
}

// Writes the next event to own->text. The library asks once it has sent everything, so without an event nothing is left
// to send (peer_reply_rest).
static enum event_step write_next(struct subscription *own) {
  struct event event;
  int64_t now_ns = clock_ns();
  struct peer *peer = own->request->peer;
  enum event_step step = events_take(own->events, &own->subscriber, &event, now_ns);
  if (step == EVENT_ASLEEP) peer_reply_rest(peer);
  if (step != EVENT_TAKEN) return step;
  peer_reply_go_on(peer, now_ns);
  struct text text = text_over(own->text, sizeof own->text);
  event_write(&event, &text);
  own->length = text_complete(&text) ? text.length : 0;
  own->sent = 0;
  return step;
}

static ssize_t read_events(void *cls, uint64_t position, char *block, size_t most) {
  struct subscription *own = cls;
  (void)position;
  while (own->sent == own->length) {
    enum event_step step = write_next(own);
    if (step == EVENT_ASLEEP) return 0;
    if (step == EVENT_OVER) return MHD_CONTENT_READER_END_OF_STREAM;
  }
  size_t rest = own->length - own->sent, bytes = rest < most ? rest : most;
  memcpy(block, own->text + own->sent, bytes);
  own->sent += bytes;
  own->request->sent_bytes += (int64_t)bytes;
  return (ssize_t)bytes;
}

// Limits what the kernel keeps for a client that does not read. Otherwise the client would first get megabytes of old
// events, and learn minutes later what it has lost.
static void keep_little(const struct peer *peer) {
  const int bytes = SEND_BUFFER;
  (void)setsockopt(peer->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);  // failing only delays events
}

static void end_subscription(void *cls) {
  struct subscription *own = cls;
  subscriber_release(own->events, &own->subscriber);
  free(own);
}

struct MHD_Response *subscription_response(struct request *request, const struct page_asked *asked) {
  struct subscription *own = malloc(sizeof *own);
  if (!own) {
    error_refuse(&request->error, ERROR_MEMORY_FULL, NULL, "there is no memory for a subscription now");
    return NULL;
  }
  own->events = &request->service->jobs.streams.events;
  own->request = request;
  own->connection = request->connection;
  own->length = own->sent = 0;
  own->subscriber.half_closed = &request->peer->half_closed;
  own->subscriber.gone = &request->peer->gone;
  own->subscriber.came_ns = request->started_ns;
  own->subscriber.sleep = sleep_now;
  own->subscriber.wake = wake_up;
  if (!asked->page->follow(asked, &own->subscriber, &request->error)) {
    free(own);
    return NULL;
  }
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, EVENT_TEXT_SIZE, read_events, own, end_subscription);
  if (!response) end_subscription(own);
  request->lasting = response;
  if (response) keep_little(request->peer);
  return response;
}
