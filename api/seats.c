// See seats.h.
#include "api/seats.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/base/json_write.h"

struct seat {
  _Atomic(struct seat *) next;
  const struct vx_lane *lane;
  struct vx_place place;
  struct vx_seat *seat;  // NULL: it could not be opened
  atomic_int state;      // enum use
  char reason[640];      // why it is vacant
};

// Whoever makes a seat the first to leave writes the reason, which others read once it is vacant.
enum use { IN_USE, LEAVING, VACANT };

static struct seat *next_of(const struct seat *seat) { return atomic_load(&seat->next); }

static struct seat *find(const struct seats *seats, const struct vx_lane *lane) {
  struct seat *seat = atomic_load(&seats->first);
  while (seat && seat->lane != lane) seat = next_of(seat);
  return seat;
}

static void append(struct seats *seats, struct seat *seat) {
  _Atomic(struct seat *) *end = &seats->first;
  for (struct seat *last = atomic_load(end); last; last = atomic_load(end)) end = &last->next;
  atomic_store(end, seat);
}

static void vacate(struct seat *seat, const char *reason) {
  int expected = IN_USE;
  if (!atomic_compare_exchange_strong(&seat->state, &expected, LEAVING)) return;
  snprintf(seat->reason, sizeof seat->reason, "%s", reason);
  atomic_store(&seat->state, VACANT);
}

enum vx_status seats_open(struct seats *seats, const struct vx_engine *engine, struct vx_network *network,
                          const struct vx_lane *lane, const struct vx_place *place, struct error *error) {
  struct seat *made = calloc(1, sizeof *made);
  if (!made) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a seat of a network");
  made->lane = lane;
  made->place = *place;
  enum vx_status status = engine->seat_open(network, place, &made->seat, error);
  if (status != VX_OK) {
    made->seat = NULL;
    vacate(made, error->text);
  }
  append(seats, made);
  return status;
}

struct vx_seat *seats_on(const struct seats *seats, const struct vx_lane *lane) {
  const struct seat *seat = lane ? find(seats, lane) : NULL;
  return seat && atomic_load(&seat->state) == IN_USE ? seat->seat : NULL;
}

void seats_give_up(struct seats *seats, const struct vx_lane *lane, const char *reason) {
  struct seat *seat = find(seats, lane);
  if (seat) vacate(seat, reason);
}

void seats_lose(struct seats *seats, int device) {
  for (struct seat *seat = atomic_load(&seats->first); seat; seat = next_of(seat))
    if (seat->place.device == device) vacate(seat, "the GPU is lost");
}

int seats_count(const struct seats *seats, int device) {
  int count = 0;
  for (const struct seat *seat = atomic_load(&seats->first); seat; seat = next_of(seat))
    count += seat->place.device == device && atomic_load(&seat->state) != VACANT;
  return count;
}

void seats_write(const struct seats *seats, struct text *out) {
  json_printf(out, "[");
  for (const struct seat *seat = atomic_load(&seats->first); seat; seat = next_of(seat)) {
    bool vacant = atomic_load(&seat->state) == VACANT;
    json_printf(out, "{device:'cuda:%d' memory_limit_bytes:%zu tf32:%i in_use:%i", seat->place.device,
                seat->place.memory_bytes, seat->place.tf32, !vacant);
    if (vacant) json_printf(out, "reason:%s", seat->reason);
    json_printf(out, "}");
  }
  json_printf(out, "]");
}

void seats_close(struct seats *seats, const struct vx_engine *engine) {
  for (struct seat *seat = atomic_exchange(&seats->first, NULL), *next; seat; seat = next) {
    next = next_of(seat);
    if (seat->seat) engine->seat_close(seat->seat);
    free(seat);
  }
}
