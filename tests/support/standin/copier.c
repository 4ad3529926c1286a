// See copier.h.
#include "tests/support/standin/copier.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 256, LATEST_NS = 3000000 };

struct copy {
  unsigned char *to;
  const unsigned char *from;
  size_t bytes;
};

struct copier {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  struct copy copies[MOST];     // a ring
  unsigned long asked, copied;  // since the start
  bool stopping;
  unsigned random;
};

static void be_late(struct copier *copier) {
  copier->random = copier->random * 1103515245U + 12345U;
  const struct timespec time = {0, (long)(copier->random >> 8) % LATEST_NS};
  nanosleep(&time, NULL);
}

static void make(struct copier *copier, const struct copy *copy) {
  size_t half = copy->bytes / 2;
  be_late(copier);
  memcpy(copy->to, copy->from, half);
  be_late(copier);
  memcpy(copy->to + half, copy->from + half, copy->bytes - half);
}

static void *copier_main(void *cls) {
  struct copier *copier = cls;
  pthread_mutex_lock(&copier->lock);
  while (!copier->stopping) {
    while (copier->copied < copier->asked) {
      struct copy copy = copier->copies[copier->copied % MOST];
      pthread_mutex_unlock(&copier->lock);
      make(copier, &copy);
      pthread_mutex_lock(&copier->lock);
      copier->copied++;
      pthread_cond_broadcast(&copier->changed);
    }
    if (!copier->stopping) pthread_cond_wait(&copier->changed, &copier->lock);
  }
  pthread_mutex_unlock(&copier->lock);
  return NULL;
}

struct copier *copier_new(void) {
  struct copier *copier = calloc(1, sizeof *copier);
  if (copier == NULL) return NULL;
  copier->random = (unsigned)(size_t)copier;
  pthread_mutex_init(&copier->lock, NULL);
  pthread_cond_init(&copier->changed, NULL);
  if (pthread_create(&copier->thread, NULL, copier_main, copier) == 0) return copier;
  free(copier);
  return NULL;
}

void copier_free(struct copier *copier) {
  pthread_mutex_lock(&copier->lock);
  if (copier->copied < copier->asked) {
    fprintf(stderr, "stand-in: a lane was closed while it copied\n");
    abort();
  }
  copier->stopping = true;
  pthread_cond_broadcast(&copier->changed);
  pthread_mutex_unlock(&copier->lock);
  pthread_join(copier->thread, NULL);
  pthread_cond_destroy(&copier->changed);
  pthread_mutex_destroy(&copier->lock);
  free(copier);
}

bool copier_add(struct copier *copier, void *to, const void *from, size_t bytes) {
  pthread_mutex_lock(&copier->lock);
  bool room = copier->asked - copier->copied < MOST;
  if (room) copier->copies[copier->asked++ % MOST] = (struct copy){to, from, bytes};
  pthread_cond_broadcast(&copier->changed);
  pthread_mutex_unlock(&copier->lock);
  return room;
}

void copier_drain(struct copier *copier) {
  pthread_mutex_lock(&copier->lock);
  unsigned long asked = copier->asked;
  while (copier->copied < asked) pthread_cond_wait(&copier->changed, &copier->lock);
  pthread_mutex_unlock(&copier->lock);
}
