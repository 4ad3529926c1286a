// See clients.h.
#include "server/clients/clients.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool clients_init(struct clients *clients, int64_t connections, const int64_t limits[SHARES]) {
  *clients = (struct clients){.count = 2 * (size_t)connections};  // one for each connection, one for its request
  memcpy(clients->limits, limits, sizeof clients->limits);
  clients->client = calloc(clients->count, sizeof *clients->client);  // takes no physical memory until it is used
  lock_init(&clients->lock);
  return clients->client;
}

void clients_end(struct clients *clients) {
  free(clients->client);
  lock_end(&clients->lock);
}

// ---- names ----------------------------------------------------------------------------------------------------------

static const char of_user[] = "user:";

const char *client_user(const struct client *client) {
  size_t length = strlen(of_user);
  return strncmp(client->name, of_user, length) == 0 ? client->name + length : "";
}

static void write_name(char *name, size_t size, const char *user, const char *address) {
  unsigned char bytes[16];
  if (user[0]) {
    snprintf(name, size, "%s%s", of_user, user);
  } else if (inet_pton(AF_INET6, address, bytes) == 1) {
    snprintf(name, size, "%02x%02x:%02x%02x:%02x%02x:%02x%02x::/64", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4],
             bytes[5], bytes[6], bytes[7]);
  } else {
    snprintf(name, size, "%s", address);
  }
}

static size_t hash_of(const char *name) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 1099511628211u;
  return hash % CLIENT_HASHES;
}

// NULL: all are taken.
static struct client *new_client(struct clients *clients) HOLDS(clients->lock) {
  struct client *client = clients->free;
  if (client)
    clients->free = client->next;
  else if (clients->used < clients->count)
    client = &clients->client[clients->used++];
  clients->present += client != NULL;
  return client;
}

// Whether the client has a connection or a request, or holds anything.
static bool exists(const struct client *client) {
  for (int share = 0; share < SHARES; share++)
    if (client->held[share]) return true;
  return client->references > 0;
}

static void end_if_unused(struct clients *clients, struct client *client) HOLDS(clients->lock) {
  if (exists(client)) return;
  struct client **link = &clients->hash[hash_of(client->name)];
  while (*link != client) link = &(*link)->next;
  *link = client->next;
  client->next = clients->free;
  clients->free = client;
  clients->present--;
}

struct client *clients_acquire(struct clients *clients, const char *user, const char *address) {
  char name[CLIENT_NAME_SIZE];
  write_name(name, sizeof name, user, address);
  lock_acquire(&clients->lock);
  struct client **first = &clients->hash[hash_of(name)], *client = *first;
  while (client && strcmp(client->name, name) != 0) client = client->next;
  if (!client && (client = new_client(clients))) {
    *client = (struct client){.next = *first};
    memcpy(client->name, name, sizeof name);
    *first = client;
  }
  if (client) client->references++;
  lock_release(&clients->lock);
  return client;
}

void clients_release(struct clients *clients, struct client *client) {
  lock_acquire(&clients->lock);
  client->references--;
  end_if_unused(clients, client);
  lock_release(&clients->lock);
}

// ---- shares ---------------------------------------------------------------------------------------------------------

void share_hold(struct clients *clients, struct client *client, enum share share, int64_t amount) {
  client->held[share] += amount;
  clients->held[share] += amount;
  if (amount < 0 && !client->references) end_if_unused(clients, client);
}

// Whether the share is a part of SHARE_BYTES. A lone request may exceed the limit of a part, since the limit of
// SHARE_BYTES still holds.
static bool is_part(enum share share) {
  return share >= SHARE_QUICK_BYTES && share < SHARE_QUICK_BYTES + (int)VX_LANE_USES;
}

bool share_is_memory(enum share share) {
  return share == SHARE_BYTES || is_part(share) || share == SHARE_PINNED || share == SHARE_STREAM_BYTES;
}

// While others hold some of a share, a client gets none of the share's last sixteenth if it would then hold
// more than this of the share.
static int64_t few(const struct clients *clients, enum share share) {
  return share_is_memory(share) ? clients->limits[share] / 64 : 1;
}

enum grant share_judge(const struct clients *clients, const struct client *client, enum share share, int64_t amount,
                       int64_t mine) {
  int64_t limit = clients->limits[share], taken = clients->held[share];
  int64_t left = limit - taken - amount, then = client->held[share] + amount;
  bool only_client = taken == client->held[share], only_request = taken <= mine;
  bool scarce = left < limit / 16 && then > few(clients, share) && !only_client;
  bool has_more = client->held[share] > mine;  // the client's other requests hold something
  if (has_more && (then > left || scarce)) return OVER_CLIENT_SHARE;
  return (left >= 0 && !scarce) || (only_request && is_part(share)) ? GRANTED : OVER_SERVER_LIMIT;
}

enum grant share_acquire(struct clients *clients, struct client *client, enum share share, int64_t amount,
                         int64_t mine) {
  lock_acquire(&clients->lock);
  enum grant grant = share_judge(clients, client, share, amount, mine);
  if (grant == GRANTED) share_hold(clients, client, share, amount);
  lock_release(&clients->lock);
  return grant;
}

enum grant share_acquire_for_many(struct clients *clients, struct client *client, enum share share, int64_t amount) {
  lock_acquire(&clients->lock);
  bool granted = clients->limits[share] - clients->held[share] - amount >= clients->limits[share] / 8;
  if (granted) share_hold(clients, client, share, amount);
  lock_release(&clients->lock);
  return granted ? GRANTED : OVER_SERVER_LIMIT;
}

void share_release(struct clients *clients, struct client *client, enum share share, int64_t amount) {
  lock_acquire(&clients->lock);
  share_hold(clients, client, share, -amount);
  lock_release(&clients->lock);
}

int64_t client_held(struct clients *clients, const struct client *client, enum share share) {
  lock_acquire(&clients->lock);
  int64_t held = client->held[share];
  lock_release(&clients->lock);
  return held;
}

struct clients_use clients_use(struct clients *clients) {
  struct clients_use use;
  lock_acquire(&clients->lock);
  use.present = clients->present;
  memcpy(use.held, clients->held, sizeof use.held);
  memcpy(use.limits, clients->limits, sizeof use.limits);
  lock_release(&clients->lock);
  return use;
}

// ---- who holds how much ---------------------------------------------------------------------------------------------

enum { STRETCH = 64 };  // clients to copy under one lock

static double greed(const struct clients *clients, const int64_t held[SHARES]) {
  double most = 0;
  for (int share = 0; share < SHARES; share++) {
    double part = clients->limits[share] > 0 ? (double)held[share] / (double)clients->limits[share] : 0;
    if (part > most) most = part;
  }
  return most;
}

// Copies the existing ones of the next STRETCH clients from `*number` on, and moves `*number` past them. Returns how
// many it has copied.
static size_t copy_stretch(struct clients *clients, size_t *number, struct client_use out[STRETCH]) {
  size_t count = 0;
  lock_acquire(&clients->lock);
  size_t end = clients->used - *number < STRETCH ? clients->used : *number + STRETCH;
  for (; *number < end; ++*number) {
    const struct client *client = &clients->client[*number];
    if (!exists(client)) continue;
    out[count].number = *number;
    memcpy(out[count].name, client->name, sizeof out[count].name);
    memcpy(out[count++].held, client->held, sizeof client->held);
  }
  lock_release(&clients->lock);
  return count;
}

// Puts a client among the `count` greediest, if it is one of them. Returns the new count.
static size_t rank(struct client_use *out, size_t count, size_t room, const struct client_use *use) {
  size_t place = count;
  while (place > 0 && out[place - 1].greed < use->greed) place--;
  if (place == room) return count;
  if (count < room) count++;
  memmove(&out[place + 1], &out[place], (count - place - 1) * sizeof *out);
  out[place] = *use;
  return count;
}

size_t clients_greediest(struct clients *clients, struct client_use *out, size_t room) {
  struct client_use stretch[STRETCH];
  size_t count = 0, number = 0, before;
  do {
    before = number;
    size_t copied = copy_stretch(clients, &number, stretch);
    for (size_t i = 0; i < copied; i++) {
      stretch[i].greed = greed(clients, stretch[i].held);
      count = rank(out, count, room, &stretch[i]);
    }
  } while (number > before);
  return count;
}
