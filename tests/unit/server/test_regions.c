// Regions. No call waits for a GPU.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/json_write.h"
#include "server/base/base.h"
#include "server/jobs/regions.h"

enum { SIZE = 4096 };
static struct clients clients;
static struct options options;
static struct devices devices;
static struct regions regions;
static struct client *ours, *other;
static struct error error;
static char key[64];
static const char *user;  // the user that sends the request
static int memory, files;

static int count_files(void) {
  DIR *directory = opendir("/proc/self/fd");
  int count = 0;
  assert_non_null(directory);
  while (readdir(directory)) count++;
  closedir(directory);
  return count;
}

static int open_all(void **state) {
  (void)state;
  const int64_t limits[SHARES] = {[SHARE_REGIONS] = REGIONS_MAX, [SHARE_PINNED] = 2 * SIZE};
  files = count_files();
  devices.count = 0;
  user = "";
  options.token_file[0] = options.tls_client_ca[0] = '\0';
  options.allow_shared_memory = options.allow_cuda_shared_memory = true;
  options.shared_memory_pinned_bytes = 2 * SIZE;
  snprintf(options.shared_memory_prefix, sizeof options.shared_memory_prefix, "points,voxeld-unit");
  if (!clients_init(&clients, REGIONS_MAX, limits) || !regions_init(&regions, &options, &devices, &clients, &error))
    return -1;
  ours = clients_acquire(&clients, "", "127.0.0.1");
  other = clients_acquire(&clients, "lidar-7", "127.0.0.1");
  snprintf(key, sizeof key, "/voxeld-unit-%d", (int)getpid());
  memory = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
  return memory < 0 ? -1 : ftruncate(memory, SIZE);
}

static int close_all(void **state) {
  (void)state;
  regions_end(&regions);
  clients_release(&clients, ours);
  clients_release(&clients, other);
  int64_t left = clients_use(&clients).present;
  clients_end(&clients);
  (void)shm_unlink(key);
  close(memory);
  return left == 0 && count_files() == files ? 0 : -1;
}

static struct region_terms terms_of(const char *name, const char *its_key, uint64_t offset, uint64_t bytes) {
  struct region_terms terms = {.offset = offset, .bytes = bytes};
  snprintf(terms.name, sizeof terms.name, "%s", name);
  snprintf(terms.key, sizeof terms.key, "%s", its_key);
  return terms;
}

static bool enter(struct client *client, const char *address, const char *its_key, const char *name, uint64_t offset,
                  uint64_t bytes) {
  struct region_terms terms = terms_of(name, its_key, offset, bytes);
  const struct object_asker asker = {user, address};
  return regions_register(&regions, client, &asker, &terms, &error);
}

static bool add(struct client *client, const char *name, uint64_t offset, uint64_t bytes) {
  return enter(client, "127.0.0.1", key, name, offset, bytes);
}

static bool leave(struct client *client, const char *name) {
  return regions_unregister(&regions, client, REGION_SYSTEM, name, &error);
}

static struct region_ref part(const char *name, uint64_t offset, uint64_t bytes) {
  struct region_ref ref = {.offset = offset, .bytes = bytes};
  snprintf(ref.name, sizeof ref.name, "%s", name);
  return ref;
}

// Opens a part and reads it to `out`; NULL: only opens it.
static bool read_by(struct region_user reader, const struct region_ref *ref, char *out) {
  struct region_part opened;
  if (!region_open(&regions, reader, ref, "points_region", &opened, &error)) return false;
  bool good = !out || region_read(&opened, out, &error);
  region_close(&opened);
  return good;
}

static bool write_by(struct region_user writer, const struct region_ref *ref, const char *data) {
  struct region_part opened;
  if (!region_open(&regions, writer, ref, "output_region", &opened, &error)) return false;
  bool good = region_write(&opened, data, strlen(data), &error);
  region_close(&opened);
  return good;
}

static bool get(const struct client *client, const char *name, uint64_t offset, uint64_t bytes, char *out) {
  struct region_ref ref = part(name, offset, bytes);
  return read_by((struct region_user){client, ULLONG_MAX}, &ref, out);
}

static bool put(const struct client *client, const char *name, uint64_t offset, uint64_t room, const char *data) {
  struct region_ref ref = part(name, offset, room);
  return write_by((struct region_user){client, ULLONG_MAX}, &ref, data);
}

static const char *listed(const struct client *client, const char *name) {
  static char text[512];
  struct text out = text_over(text, sizeof text);
  return regions_write(&regions, client, REGION_SYSTEM, name, &out, &error) ? text : error.text;
}

static void who_may_share(void **state) {
  (void)state;
  assert_true(regions_allow(&regions, REGION_SYSTEM, true, &error));
  assert_false(regions_allow(&regions, REGION_SYSTEM, false, &error));
  assert_int_equal(error.kind, ERROR_NO_SHARED_MEMORY);
  assert_true(regions_allow(&regions, REGION_CUDA, true, &error) &&
              regions_allow(&regions, REGION_KINDS, true, &error));
  options.allow_shared_memory = regions.allowed = false;
  assert_true(regions_allow(&regions, REGION_CUDA, true, &error));
  assert_false(regions_allow(&regions, REGION_KINDS, true, &error));
  assert_false(regions_allow(&regions, REGION_SYSTEM, true, &error));
  assert_non_null(strstr(error.text, "--allow-shared-memory"));
}

static void bytes_are_copied(void **state) {
  (void)state;
  char bytes[8] = "";
  assert_int_equal(pwrite(memory, "0123456789", 10, 100), 10);
  assert_true(add(ours, "a", 100, 64));
  assert_true(get(ours, "a", 2, 3, bytes));
  assert_string_equal(bytes, "234");
  assert_true(put(ours, "a", 1, 63, "xyz"));
  assert_int_equal(pread(memory, bytes, 5, 100), 5);
  assert_string_equal(bytes, "0xyz4");
  assert_true(get(ours, "a", 0, 64, NULL) && get(ours, "a", 64, 0, bytes));
  assert_false(get(ours, "a", 0, 65, NULL) || get(ours, "a", 65, 0, NULL) || get(ours, "a", UINT64_MAX, 2, NULL));
  assert_int_equal(error.kind, ERROR_BAD_PARAMETER);
  assert_string_equal(error.parameter, "points_region");
}

static void a_request_sees_only_earlier_regions(void **state) {
  (void)state;
  char byte;
  assert_true(add(ours, "a", 0, 64));
  struct region_user early = {ours, atomic_load(&regions.registered)};
  struct region_ref ref = part("a", 0, 1);
  assert_true(read_by(early, &ref, &byte));
  assert_true(leave(ours, "a"));
  assert_true(add(ours, "a", 0, 64));
  assert_false(read_by(early, &ref, &byte));
  assert_non_null(strstr(error.text, "no region 'a'"));
  assert_false(write_by(early, &ref, "x"));
  assert_true(get(ours, "a", 0, 1, &byte));
}

static void clients_see_only_their_own_regions(void **state) {
  (void)state;
  char unknown[sizeof error.text], bytes[8];
  assert_true(add(ours, "a", 0, 64));
  assert_false(get(other, "a", 0, 1, bytes));
  snprintf(unknown, sizeof unknown, "%s", error.text);
  assert_true(leave(other, "a"));
  assert_true(leave(other, NULL));
  assert_string_equal(listed(other, NULL), "[]\n");
  assert_string_equal(listed(other, "a"), unknown);
  assert_true(add(other, "a", 64, 64));  // each client has its own namespace
  assert_false(add(other, "a", 64, 64));
  char expected[128];
  snprintf(expected, sizeof expected, "[{\"name\":\"a\",\"key\":\"%s\",\"offset\":0,\"byte_size\":64}]\n", key);
  assert_string_equal(listed(ours, NULL), expected);
  assert_true(leave(ours, "a"));
  assert_false(get(ours, "a", 0, 1, bytes));
  assert_string_equal(error.text, unknown);
  assert_true(get(other, "a", 0, 1, bytes));
}

static void a_region_lies_in_its_memory(void **state) {
  (void)state;
  assert_true(add(ours, "all", 0, SIZE) && add(ours, "end", SIZE - 1, 1));
  assert_false(add(ours, "a", 0, SIZE + 1) || add(ours, "a", SIZE, 1) || add(ours, "a", INT64_MAX, INT64_MAX) ||
               add(ours, "a", 1, UINT64_MAX));
}

static void keys_that_are_refused(void **state) {
  (void)state;
  char link[80], with[sizeof error.text];
  static const char *const wrong[] = {"/voxeld-uni", "/", "", "/x", "voxeld_unit", "../voxeld-unit"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_false(enter(ours, "127.0.0.1", wrong[i], "a", 0, 1));
    assert_non_null(strstr(error.text, "points,voxeld-unit"));
  }
  static const char *const absent[] = {"/voxeld-unit-none", "/voxeld-unit/../x", "points"};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
    assert_false(enter(ours, "127.0.0.1", absent[i], "a", 0, 1));
    snprintf(with, sizeof with, "the key '%s' cannot be opened", absent[i]);
    assert_non_null(strstr(error.text, with));
  }
  assert_true(enter(ours, "127.0.0.1", key + 1, "b", 0, 1));  // without the slash
  snprintf(link, sizeof link, "//%s", key);
  assert_true(enter(ours, "127.0.0.1", link, "c", 0, 1));
  snprintf(link, sizeof link, "/dev/shm%s-link", key);
  assert_int_equal(symlink("/etc/hostname", link), 0);
  assert_false(enter(ours, "127.0.0.1", strrchr(link, '/'), "a", 0, 1));
  assert_int_equal(unlink(link), 0);
  assert_int_equal(mkfifo(link, 0600), 0);
  assert_false(enter(ours, "127.0.0.1", strrchr(link, '/'), "a", 0, 1));
  assert_int_equal(unlink(link), 0);
}

static void clients_of_unix_sockets_own_their_memory(void **state) {
  (void)state;
  char own[32], alien[32];
  snprintf(own, sizeof own, "unix:%u", (unsigned)geteuid());
  snprintf(alien, sizeof alien, "unix:%u", (unsigned)geteuid() + 1);
  strcpy(options.token_file, "tokens");  // does not matter for clients of a Unix socket
  assert_true(enter(ours, own, key, "a", 0, 1));
  assert_false(enter(other, alien, key, "a", 0, 1));
  assert_non_null(strstr(error.text, "cannot be opened"));
  if (geteuid() != 0 || fchown(memory, 1, 1) != 0) return;
  assert_true(enter(ours, "unix:1", key, "b", 0, 1));
  assert_false(enter(other, "unix:0", key, "a", 0, 1));  // not even root may use another user's memory
}

// The key has no memory, so the error of an allowed key is "cannot be opened".
static bool may_have(const char *its_user, const char *its_key) {
  user = its_user;
  assert_false(enter(ours, "127.0.0.1", its_key, "a", 0, 1));
  return strstr(error.text, "cannot be opened");
}

static const char *keys_of(const char *its_user, const char *address) {
  static char written[256];
  struct text out = text_over(written, sizeof written);
  json_printf(&out, "[");
  object_keys_write(&options, &(struct object_asker){its_user, address}, &out);
  json_printf(&out, "]");
  return written;
}

static void users_have_keys_of_their_own(void **state) {
  (void)state;
  assert_true(may_have("", "/points") && may_have("ann", "/points"));  // the service has no users
  assert_string_equal(keys_of("ann", "127.0.0.1"), "[\"points\",\"voxeld-unit\"]");
  char *const options_of_users[] = {options.token_file, options.tls_client_ca};
  for (size_t i = 0; i < 2; i++) {
    strcpy(options_of_users[i], "file");
    assert_true(may_have("ann", "/points:ann:x") && may_have("ann", "voxeld-unit:ann:") &&
                may_have("a:b", "points:a%3Ab:"));
    assert_true(may_have("cert:spiffe://field/7", "points:cert%3Aspiffe%3A%2F%2Ffield%2F7:x"));
    static const char *const wrong[] = {
        "points",     "points:",     "points:ann", "points:anna:x", "points::ann:",    "points-ann:x",
        "pointsann:", "points:ANN:", "x:ann:",     ":ann:",         "points:bob:ann:", "points:an%6E:x"};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) assert_false(may_have("ann", wrong[k]));
    assert_non_null(strstr(error.text, "one of points:ann:,voxeld-unit:ann: (--shared-memory-prefix, and the user's"));
    assert_false(may_have("anna", "points:ann:x") || may_have("a", "points:a%3Ab:") || may_have("%61", "points:%61:"));
    assert_true(may_have("%61", "points:%2561:"));
    assert_false(may_have("", "points") || may_have("", "points:x") || may_have("", "points::x"));
    assert_int_equal(error.kind, ERROR_NO_SHARED_MEMORY);
    assert_string_equal(keys_of("cert:7", "127.0.0.1"), "[\"points:cert%3A7:\",\"voxeld-unit:cert%3A7:\"]");
    assert_string_equal(keys_of("", "127.0.0.1"), "[]");
    assert_string_equal(keys_of("ann", "unix:7"), "[\"points\",\"voxeld-unit\"]");
    options_of_users[i][0] = '\0';
  }
}

// Waits until all but `count` regions are closed.
static void await_regions(int64_t count) {
  while (clients_use(&clients).held[SHARE_REGIONS] != count) sched_yield();
}

static void renew_memory(void) {
  assert_int_equal(shm_unlink(key) + close(memory), 0);
  memory = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
  assert_int_equal(ftruncate(memory, SIZE), 0);
}

static void shares(void **state) {
  (void)state;
  char name[16];
  int taken = 0;
  for (bool more = true; more; taken += more) {
    snprintf(name, sizeof name, "%d", taken);
    more = add(ours, name, 0, 1);
  }
  assert_int_equal(taken, REGIONS_MAX / 2);
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  assert_true(add(other, "a", 0, 1));
  renew_memory();  // the memory of our regions is unlinked, so they make room
  assert_false(add(ours, "new", 0, 1));
  await_regions(1);
  assert_true(add(ours, "new", 0, 1));
  assert_false(get(ours, "0", 0, 1, NULL));
  assert_true(get(ours, "new", 0, 1, NULL) && get(other, "a", 0, 1, NULL));
}

// Other clients' unlinked regions are evicted when the table is full.
static void a_full_table_evicts_regions_of_other_clients(void **state) {
  (void)state;
  char name[16];
  error.kind = ERROR_NONE;
  for (int user = 0; error.kind != ERROR_MEMORY_FULL; user++) {
    snprintf(name, sizeof name, "user-%d", user);
    struct client *client = clients_acquire(&clients, name, "127.0.0.1");
    for (int i = 0; snprintf(name, sizeof name, "%d", i), add(client, name, 0, 1); i++) continue;
    clients_release(&clients, client);
  }
  renew_memory();
  assert_false(add(ours, "new", 0, 1));
  await_regions(0);
  assert_true(add(ours, "new", 0, 1));
}

static void owners_shorten_their_memory(void **state) {
  (void)state;
  static char bytes[SIZE];
  assert_true(add(ours, "a", 0, SIZE));
  assert_int_equal(ftruncate(memory, 100), 0);
  assert_true(get(ours, "a", 0, 100, bytes));
  assert_false(get(ours, "a", 0, 101, bytes));
  assert_int_equal(error.kind, ERROR_BAD_BODY);
  assert_non_null(strstr(error.text, "shortened"));
  assert_false(put(ours, "a", 98, 10, "xyz"));
  assert_non_null(strstr(error.text, "shortened"));
  struct stat object;
  assert_true(fstat(memory, &object) == 0 && object.st_size == 100);
  assert_true(put(ours, "a", 97, 10, "xyz"));
  assert_int_equal(shm_unlink(key), 0);
  assert_true(get(ours, "a", 0, 100, bytes));
}

// ---- a slow GPU -----------------------------------------------------------------------------------------------------

static sem_t kernels_end;

static enum vx_status pin(struct vx_device *device, void *pages, size_t bytes, struct error *error) {
  (void)device, (void)error, (void)pages, (void)bytes;
  return VX_OK;
}

static bool unpin(struct vx_device *device, void *pages) {
  (void)device, (void)pages;
  return sem_wait(&kernels_end) == 0;
}

static const struct vx_backend backend = {.name = "regions", .host_pin = pin, .host_unpin = unpin};
static const struct device gpu = {.backend = &backend};

// A request that opened a part before its region was unregistered can still read the part, but not write it.
static void a_part_outlives_its_registration(void **state) {
  (void)state;
  char byte;
  struct region_user reader = {ours, ULLONG_MAX};
  struct region_ref ref = part("a", 10, 1);
  struct region_part opened;
  assert_int_equal(pwrite(memory, "x", 1, 10), 1);
  assert_true(add(ours, "a", 0, SIZE));
  assert_true(region_open(&regions, reader, &ref, "output_region", &opened, &error));
  assert_true(leave(ours, "a"));
  assert_true(region_read(&opened, &byte, &error));
  assert_int_equal(byte, 'x');
  assert_false(region_write(&opened, "y", 1, &error) || region_device_ptr(&opened, 1, &gpu, true));
  assert_int_equal(error.kind, ERROR_BAD_PARAMETER);
  assert_non_null(strstr(error.text, "no region 'a'"));
  assert_int_equal(clients_use(&clients).held[SHARE_REGIONS], 1);
  assert_int_equal(sem_init(&kernels_end, 0, 1), 0);
  region_close(&opened);
  await_regions(0);
}

static void nobody_waits_for_a_gpu(void **state) {
  (void)state;
  struct region_user user = {ours, ULLONG_MAX};
  struct region_ref ref = part("a", 0, SIZE);
  struct region_part reached;
  assert_int_equal(sem_init(&kernels_end, 0, 0), 0);
  assert_true(add(ours, "a", 0, SIZE));
  assert_true(region_open(&regions, user, &ref, "output_region", &reached, &error));
  assert_true(region_device_ptr(&reached, SIZE, &gpu, true));
  assert_false(leave(ours, "a"));
  assert_int_equal(error.kind, ERROR_REGION_BUSY);
  assert_non_null(strstr(error.text, "writes to the region 'a'"));
  assert_false(get(ours, "a", 0, 1, NULL));
  assert_string_equal(listed(ours, NULL), "[]\n");
  assert_int_equal(regions_use(&regions).count[REGION_SYSTEM], 0);
  assert_true(leave(other, "a") && leave(ours, "b"));
  assert_true(add(ours, "a", 0, SIZE) && get(ours, "a", 0, 1, NULL));
  assert_false(leave(ours, NULL));
  assert_false(leave(ours, "a"));
  await_regions(1);
  region_close(&reached);
  assert_true(leave(ours, "a"));
  assert_int_equal(clients_use(&clients).held[SHARE_REGIONS], 1);
  assert_int_equal(regions_use(&regions).pinned_bytes, SIZE);  // pinned until the kernels end
  assert_true(add(ours, "a", 0, SIZE) && leave(ours, "a"));
  assert_int_equal(sem_post(&kernels_end), 0);
}

// ---- memory of a GPU ------------------------------------------------------------------------------------------------

// Two blocks of GPU memory. The first byte of a handle is the block's number.
static char block_bytes[2][SIZE];
static atomic_int opened_blocks[2];

static enum vx_status open_block(struct vx_device *device, const void *handle, struct vx_block *block,
                                 struct error *why) {
  (void)device;
  int number = *(const unsigned char *)handle;
  if (number > 1) return vx_refuse(why, "there is no such block");
  opened_blocks[number]++;
  *block = (struct vx_block){block_bytes[number], SIZE};
  return VX_OK;
}

static void close_block(struct vx_device *device, void *block) {
  (void)device;
  opened_blocks[block == block_bytes[1]]--;
}

static enum vx_status copy_block(struct vx_device *device, void *to, const void *from, size_t bytes,
                                 struct error *why) {
  (void)device;
  if (bytes == 13) return vx_fail(why, VX_DEVICE_LOST, "the device is lost");
  memcpy(to, from, bytes);
  return VX_OK;
}

static const struct vx_backend block_backend = {
    .name = "blocks", .block_open = open_block, .block_close = close_block, .block_copy = copy_block};

static bool add_block(struct client *client, const char *name, int gpu_number, char block, uint64_t offset,
                      uint64_t bytes) {
  struct region_terms terms = terms_of(name, "", offset, bytes);
  const struct object_asker asker = {user, "127.0.0.1"};
  terms.kind = REGION_CUDA;
  terms.gpu = (uint64_t)gpu_number;
  terms.handle[0] = (unsigned char)block;
  return regions_register(&regions, client, &asker, &terms, &error);
}

static void use_gpus(int count) {
  devices.count = count;
  for (int i = 0; i < count; i++) devices.gpu[i] = (struct device){.backend = &block_backend, .index = 4 + i};
}

static void blocks_are_regions(void **state) {
  (void)state;
  char bytes[8] = "";
  assert_false(add_block(ours, "a", 0, 0, 0, 1));
  assert_non_null(strstr(error.text, "it has no GPU"));
  use_gpus(2);
  assert_false(add_block(ours, "a", 0, 0, 0, 1));
  assert_non_null(strstr(error.text, "does not use the GPU 0"));
  assert_string_equal(error.parameter, "device_id");
  assert_false(add_block(ours, "a", 4, 2, 0, 1));
  assert_string_equal(error.text, "the handle of GPU memory cannot be opened: there is no such block");
  assert_true(error.kind == ERROR_BAD_REQUEST && strcmp(error.parameter, "raw_handle") == 0);
  assert_false(add_block(ours, "a", 4, 0, 1, SIZE) || add_block(ours, "a", 4, 0, UINT64_MAX, 1));
  assert_true(add_block(ours, "a", 4, 0, 100, 200));
  assert_false(add(ours, "a", 0, 1) || add_block(ours, "a", 5, 1, 0, 1));  // both kinds of region share their names
  assert_false(add_block(other, "b", 4, 0, 0, 1));
  assert_string_equal(error.text, "another client has registered this GPU memory");
  assert_true(add_block(ours, "b", 4, 0, 0, SIZE) && add_block(other, "b", 5, 1, 0, SIZE) && add(ours, "s", 0, 1));
  assert_true(put(ours, "a", 3, 4, "four") && get(ours, "b", 103, 4, bytes));
  assert_memory_equal(bytes, "four", 4);
  assert_false(get(ours, "b", 0, 13, bytes));
  assert_string_equal(error.text, "the region 'b': the device is lost");
  assert_int_equal(error.kind, ERROR_DEFECT);
  assert_null(strstr(listed(ours, NULL), "device_id"));
  assert_string_equal(listed(ours, "a"), "this client has no region 'a'");
  struct regions_use use = regions_use(&regions);
  assert_true(use.count[REGION_SYSTEM] == 1 && use.count[REGION_CUDA] == 3);
  assert_true(leave(ours, NULL) && get(ours, "a", 0, 1, bytes));  // unregisters only POSIX shared memory
  assert_true(regions_unregister(&regions, ours, REGION_CUDA, NULL, &error));
  await_regions(1);
  assert_true(opened_blocks[0] == 0 && opened_blocks[1] == 1);
  assert_true(add_block(other, "a", 4, 0, 0, 1));
}

// Only the GPU that has a block accesses it in place.
static void blocks_are_reached_by_their_gpu(void **state) {
  (void)state;
  struct region_user us = {ours, ULLONG_MAX};
  struct region_ref ref = part("a", 64, 128), after = part("a", 192, 1), over = part("b", 191, 1);
  struct region_part opened, next, same;
  use_gpus(2);
  assert_true(add_block(ours, "a", 5, 1, 0, SIZE) && add_block(ours, "b", 5, 1, 0, SIZE));
  assert_true(region_open(&regions, us, &ref, "points_region", &opened, &error));
  assert_true(region_open(&regions, us, &after, "output_region", &next, &error));
  assert_true(region_open(&regions, us, &over, "output_region", &same, &error));
  assert_ptr_equal(region_gpu(&opened), &devices.gpu[1]);
  assert_null(region_device_ptr(&opened, 128, &devices.gpu[0], false));
  assert_null(region_device_ptr(&opened, 0, &devices.gpu[1], false));
  char *memory_there = region_device_ptr(&opened, 128, &devices.gpu[1], true);
  assert_ptr_equal(memory_there, block_bytes[1] + 64);
  assert_true(region_device_ptr(&next, 1, &devices.gpu[1], true) && region_device_ptr(&same, 1, &devices.gpu[1], true));
  assert_true(region_overlap(&opened, &same) && !region_overlap(&opened, &next));
  assert_true(region_verify(&opened));
  assert_false(regions_unregister(&regions, ours, REGION_CUDA, "a", &error));
  assert_int_equal(error.kind, ERROR_REGION_BUSY);
  region_close(&opened);
  region_close(&next);
  region_close(&same);
  assert_true(regions_unregister(&regions, ours, REGION_CUDA, "a", &error));
}

// The service cannot see whether a block's owner has left, so it closes blocks unused for ten minutes.
static void unused_blocks_are_closed(void **state) {
  (void)state;
  int64_t later_ns = clock_ns() + 601 * NS_PER_S;
  use_gpus(1);
  assert_true(add_block(ours, "a", 4, 0, 0, 1) && add(ours, "s", 0, 1));
  regions_tick(&regions, later_ns - 100 * NS_PER_S);
  assert_true(get(ours, "a", 0, 1, NULL));
  regions_tick(&regions, later_ns + NS_PER_S);
  assert_false(get(ours, "a", 0, 1, NULL));
  assert_true(get(ours, "s", 0, 1, NULL));
  await_regions(1);
  assert_int_equal(opened_blocks[0], 0);
}

// Blocks make no room, even if no request uses them.
static void blocks_have_shares(void **state) {
  (void)state;
  char name[16];
  int taken = 0;
  use_gpus(1);
  for (bool more = true; more; taken += more) {
    snprintf(name, sizeof name, "%d", taken);
    more = add_block(ours, name, 4, 0, 0, 1);
  }
  assert_int_equal(taken, REGIONS_MAX / 2);
  assert_int_equal(error.kind, ERROR_CLIENT_OVER_SHARE);
  assert_false(add_block(ours, "new", 4, 0, 0, 1));
  assert_true(get(ours, "0", 0, 1, NULL));
}

// ---- owners that leave ----------------------------------------------------------------------------------------------

static void owners_leave(void **state) {
  (void)state;
  int64_t later_ns = clock_ns() + 601 * NS_PER_S;
  assert_true(add(ours, "a", 0, SIZE));
  regions_tick(&regions, later_ns);  // the region stays: its memory still has a name
  assert_true(get(ours, "a", 0, 1, NULL));
  assert_int_equal(shm_unlink(key), 0);
  regions_tick(&regions, later_ns + NS_PER_S);  // the next check is not due yet
  assert_true(get(ours, "a", 0, 1, NULL));
  regions_tick(&regions, later_ns + 62 * NS_PER_S);
  assert_false(get(ours, "a", 0, 1, NULL));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)
  const struct CMUnitTest tests[] = {
      TEST(who_may_share),
      TEST(bytes_are_copied),
      TEST(a_request_sees_only_earlier_regions),
      TEST(clients_see_only_their_own_regions),
      TEST(a_region_lies_in_its_memory),
      TEST(keys_that_are_refused),
      TEST(clients_of_unix_sockets_own_their_memory),
      TEST(users_have_keys_of_their_own),
      TEST(shares),
      TEST(a_full_table_evicts_regions_of_other_clients),
      TEST(owners_shorten_their_memory),
      TEST(a_part_outlives_its_registration),
      TEST(nobody_waits_for_a_gpu),
      TEST(blocks_are_regions),
      TEST(blocks_are_reached_by_their_gpu),
      TEST(unused_blocks_are_closed),
      TEST(blocks_have_shares),
      TEST(owners_leave),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
