// Pins: parts of shared memory that a device accesses.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/jobs/pins.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { CHUNKS = 4, SIZE = CHUNKS * PIN_CHUNK, LIMIT = 6 * PIN_CHUNK, SKIPPED = 77 };
static struct clients clients;
static struct client *ours;
static struct pinner pinner;
static struct pins pins;
static int memory;
static int pinned, unpinned;
static bool refuses, stays;  // `pin` fails; `unpin` fails
static char key[64];

static enum vx_status pin(struct vx_device *device, void *pages, size_t bytes, struct error *error) {
  (void)device, (void)error;
  assert_int_equal((uintptr_t)pages % 4096 + bytes % 4096, 0);
  if (refuses || madvise(pages, bytes, MADV_POPULATE_WRITE) != 0) return VX_REFUSED;
  pinned++;
  return VX_OK;
}

static bool unpin(struct vx_device *device, void *pages) {
  (void)device, (void)pages;
  unpinned++;
  return !stays;
}

static const struct vx_backend backend = {.name = "pins", .host_pin = pin, .host_unpin = unpin};
static const struct vx_backend other_backend = {.name = "other", .host_pin = pin, .host_unpin = unpin};
static const struct vx_backend bare = {.name = "bare"};
static const struct device gpu = {.backend = &backend}, cpu = {.backend = &bare}, other = {.backend = &other_backend};

static int open_all(void **state) {
  (void)state;
  const int64_t limits[SHARES] = {[SHARE_PINNED] = LIMIT};
  pinned = unpinned = 0;
  refuses = stays = false;
  if (!clients_init(&clients, 8, limits)) return -1;
  ours = clients_acquire(&clients, "", "127.0.0.1");
  pinner_init(&pinner, &clients, false);
  pins_init(&pins, &pinner, ours, 0, SIZE);
  snprintf(key, sizeof key, "/voxeld-pins-%d", (int)getpid());
  memory = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
  return memory < 0 || pinner.pagemap < 0 ? -1 : ftruncate(memory, SIZE);
}

static int close_all(void **state) {
  (void)state;
  pins_end(&pins);
  long long left = atomic_load(&pinner.bytes) + clients_use(&clients).held[SHARE_PINNED];
  pinner_end(&pinner);
  clients_release(&clients, ours);
  clients_end(&clients);
  (void)shm_unlink(key);
  close(memory);
  return left == 0 && pinned == unpinned ? 0 : -1;
}

static char *reach(uint64_t at, size_t bytes) { return pins_device_ptr(&pins, memory, at, bytes, &gpu); }

static bool attached(const char *bytes, size_t size) { return pins_verify(&pins, bytes, size); }

static void chunks_are_pinned_once(void **state) {
  (void)state;
  char *first = reach(0, 10);
  assert_non_null(first);
  assert_int_equal(pinned, 1);
  assert_ptr_equal(reach(100, PIN_CHUNK - 100), first + 100);
  assert_int_equal(pinned, 1);
  assert_ptr_equal(reach(PIN_CHUNK - 1, 2), first + PIN_CHUNK - 1);
  assert_int_equal(pinned, 2);
  assert_int_equal(atomic_load(&pinner.bytes), 2 * PIN_CHUNK);
  assert_true(attached(first, 2 * (size_t)PIN_CHUNK));
  assert_null(reach(0, 0));
}

static void *reach_first(void *result) {
  *(char **)result = reach(0, 10);
  return NULL;
}

static void threads_wait_for_a_chunk_that_another_pins(void **state) {
  (void)state;
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  char *reached[THREADS] = {NULL};
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, reach_first, &reached[i]), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) assert_true(reached[i] && reached[i] == reached[0]);
  assert_int_equal(pinned, 1);
}

// A region may begin and end anywhere in its memory.
static void parts_of_pages(void **state) {
  (void)state;
  pins.offset = 4096 + 10;
  pins.bytes = PIN_CHUNK;
  assert_int_equal(pwrite(memory, "here", 4, 4096 + 12), 4);
  char *bytes = reach(2, PIN_CHUNK - 2);
  assert_non_null(bytes);
  assert_int_equal(pinned, 2);  // a chunk, and the first page of the next chunk
  assert_int_equal(atomic_load(&pinner.bytes), PIN_CHUNK + 4096);
  assert_memory_equal(bytes, "here", 4);
  assert_true(attached(bytes, PIN_CHUNK - 2));
}

static void what_is_not_pinned(void **state) {
  (void)state;
  assert_null(pins_device_ptr(&pins, memory, 0, 10, &cpu));
  pins.bytes = PINS_MOST + 1;
  assert_null(reach(0, 10));
  pins.bytes = SIZE;
  char *bytes = reach(0, 10);
  assert_non_null(bytes);
  assert_null(pins_device_ptr(&pins, memory, 0, 10, &other));
  assert_int_equal(ftruncate(memory, 0), 0);
  assert_false(attached(bytes, 10));
  assert_int_equal(ftruncate(memory, SIZE), 0);
  assert_null(reach(0, 10));
}

static void nothing_is_pinned_if_it_is_off(void **state) {
  (void)state;
  struct pinner off;
  pinner_init(&off, &clients, true);
  pins.pinner = &off;
  assert_null(reach(0, 10));
  pins.pinner = &pinner;
  pinner_end(&off);
}

static void clients_have_a_share(void **state) {
  (void)state;
  assert_non_null(reach(0, 3 * (size_t)PIN_CHUNK));  // a lone client may have half of the limit
  assert_null(reach(2 * (size_t)PIN_CHUNK, 2 * (size_t)PIN_CHUNK));
  assert_int_equal(pinned, 3);
  assert_int_equal(client_held(&clients, ours, SHARE_PINNED), 3 * PIN_CHUNK);
  assert_non_null(reach(0, 10));
}

static void no_more_is_pinned_than_the_limit(void **state) {
  (void)state;
  clients.limits[SHARE_PINNED] = PIN_CHUNK - 1;
  assert_null(reach(0, 10));
  clients.limits[SHARE_PINNED] = PIN_CHUNK;
  assert_non_null(reach(0, 10));
}

static void refused_chunks_are_not_asked_for_again(void **state) {
  (void)state;
  refuses = true;
  assert_null(reach(0, 10));
  refuses = false;
  assert_null(reach(0, 10));
  assert_null(reach(PIN_CHUNK - 1, 2));
  assert_int_equal(atomic_load(&pinner.refusals), 1);
  assert_int_equal(client_held(&clients, ours, SHARE_PINNED), 0);
  assert_non_null(reach(PIN_CHUNK, 10));
}

static void memory_that_is_too_short(void **state) {
  (void)state;
  assert_int_equal(ftruncate(memory, PIN_CHUNK + 4096), 0);
  assert_non_null(reach(0, PIN_CHUNK));
  assert_null(reach(PIN_CHUNK, 10));  // a chunk is pinned whole or not at all
}

// Memory that was shortened and extended again has new pages. They are not pinned, even once written.
static void owners_shorten_their_memory(void **state) {
  (void)state;
  char *bytes = reach(0, 2 * (size_t)PIN_CHUNK);
  assert_int_equal(ftruncate(memory, PIN_CHUNK + 8192), 0);
  assert_true(attached(bytes, PIN_CHUNK + 8192));
  assert_false(attached(bytes, PIN_CHUNK + 8193));
  assert_int_equal(ftruncate(memory, SIZE), 0);
  assert_int_equal(pwrite(memory, "new", 3, PIN_CHUNK + 8192), 3);
  assert_false(attached(bytes, PIN_CHUNK + 8193));
  assert_true(attached(bytes, PIN_CHUNK + 8192));
}

// The memory is shortened after the first chunk was pinned and before the second is. The first still counts as
// shortened.
static void shortened_between_two_chunks(void **state) {
  (void)state;
  char *bytes = reach(0, PIN_CHUNK);
  assert_int_equal(ftruncate(memory, 0) + ftruncate(memory, SIZE), 0);
  assert_ptr_equal(reach(0, 2 * (size_t)PIN_CHUNK), bytes);
  assert_true(attached(bytes + PIN_CHUNK, PIN_CHUNK));
  assert_false(attached(bytes, 2 * (size_t)PIN_CHUNK));
}

// If unpinning fails, a lost GPU may still access the pages, so their addresses must not be reused.
static void addresses_that_stay(void **state) {
  (void)state;
  char *bytes = reach(0, 10);
  stays = true;
  pins_end(&pins);
  assert_int_equal(msync(bytes, 4096, MS_ASYNC), 0);  // still mapped
  assert_int_equal(munmap(bytes, SIZE), 0);
  pins_init(&pins, &pinner, ours, 0, SIZE);
}

// Whether `pin` can make pages resident.
static bool populates(void) {
  unsigned char resident = 0;
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  bool good = madvise(page, 4096, MADV_POPULATE_WRITE) == 0 && mincore(page, 4096, &resident) == 0;
  (void)munmap(page, 4096);
  return good && (resident & 1) != 0;
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
  const struct CMUnitTest tests[] = {
      TEST(chunks_are_pinned_once),
      TEST(threads_wait_for_a_chunk_that_another_pins),
      TEST(parts_of_pages),
      TEST(what_is_not_pinned),
      TEST(nothing_is_pinned_if_it_is_off),
      TEST(clients_have_a_share),
      TEST(no_more_is_pinned_than_the_limit),
      TEST(refused_chunks_are_not_asked_for_again),
      TEST(memory_that_is_too_short),
      TEST(owners_shorten_their_memory),
      TEST(shortened_between_two_chunks),
      TEST(addresses_that_stay),
  };
  if (!populates())
    return puts("skipped: madvise(MADV_POPULATE_WRITE) makes no pages resident here, as under qemu"), SKIPPED;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
