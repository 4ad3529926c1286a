// Fuzzes regions of shared memory. A part is read or written completely, or refused with a reason, and nothing outside
// of it is written. One thread; one client.
//
// The input is lines of a letter and an argument:
//   r NAME JSON    register a region; the key "k" stands for the memory that exists
//   g NAME JSON    register GPU memory; refused, since there is no GPU
//   u NAME, U      unregister one region, or all
//   s NAME, S      show one region, or all
//   p VALUE        read the part that points_region=VALUE names
//   o VALUE        write the part that output_region=VALUE names
//   i JSON, q JSON like p and o: the JSON has the parameters of a tensor in an inference request
//   t NUMBER       the owner gives the memory this length
#include <assert.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/base/json.h"
#include "api/ops/ops.h"
#include "server/jobs/regions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SIZE = 4096, WRITTEN = 0xee };

static struct clients clients;
static struct options options = {.allow_shared_memory = true, .shared_memory_prefix = "voxeld-fuzz"};
static const struct devices devices;  // no device
static struct regions regions;
static struct client *client;
static char key[64];
static int memory;

// The expected state: the memory's bytes, its length, and the regions.
static unsigned char shadow[SIZE];
static size_t length;
static struct region_terms known[REGIONS_MAX];
static int count;

static void remove_memory(void) { (void)shm_unlink(key); }

static void begin(void) {
  static const int64_t limits[SHARES] = {[SHARE_REGIONS] = REGIONS_MAX};
  bool good = clients_init(&clients, REGIONS_MAX, limits);
  client = clients_acquire(&clients, "", "127.0.0.1");
  snprintf(key, sizeof key, "/voxeld-fuzz-%d", (int)getpid());
  memory = shm_open(key, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert(good && client && memory >= 0 && atexit(remove_memory) == 0);
}

static void check_problem(const struct error *error) {
  assert(error->kind > ERROR_NONE && error->kind < ERROR_COUNT && error->text[0]);
}

static void set_length(size_t wanted) {
  if (wanted > SIZE) wanted = SIZE;
  if (wanted > length) memset(shadow + length, 0, wanted - length);
  length = wanted;
  assert(ftruncate(memory, (off_t)wanted) == 0);
}

static const struct region_terms *find(const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(known[i].name, name) == 0) return &known[i];
  return NULL;
}

// ---- regions --------------------------------------------------------------------------------------------------------

static void check_written(const struct region_terms *terms) {
  char json[2048];
  struct text out = text_over(json, sizeof json);
  struct region_terms again;
  struct error error;
  region_terms_write(terms, &out);
  assert(text_complete(&out));
  assert(region_terms_read(REGION_SYSTEM, terms->name, json, out.length, &again, &error));
  assert(strcmp(again.key, terms->key) == 0 && again.offset == terms->offset && again.bytes == terms->bytes);
}

enum { NAME_SIZE = 128 };

// Splits "NAME JSON": copies the name, and returns the JSON; NULL: there is none.
static const char *split(const char *argument, char name[NAME_SIZE]) {
  const char *space = strchr(argument, ' ');
  if (!space) return NULL;
  snprintf(name, NAME_SIZE, "%.*s", (int)(space - argument), argument);
  return space + 1;
}

static void enter(const char *argument) {
  char name[NAME_SIZE];
  const char *json = split(argument, name);
  struct region_terms terms;
  struct error error = {.kind = ERROR_NONE};
  if (!json) return;
  if (!region_terms_read(REGION_SYSTEM, name, json, strlen(json), &terms, &error)) {
    check_problem(&error);
    return;
  }
  check_written(&terms);
  if (strcmp(terms.key, "k") == 0) memcpy(terms.key, key, sizeof key);
  bool fits = strcmp(terms.key, key) == 0 && region_holds(length, terms.offset, terms.bytes) && !find(name);
  bool good = regions_register(&regions, client, &(struct object_asker){"", "127.0.0.1"}, &terms, &error);
  if (!good) check_problem(&error);
  assert(good ? fits : !fits || count >= REGIONS_MAX / 2);
  if (good) known[count++] = terms;
}

static void enter_block(const char *argument) {
  char name[NAME_SIZE];
  const char *json = split(argument, name);
  struct region_terms terms;
  struct error error = {.kind = ERROR_NONE};
  if (!json) return;
  bool good = region_terms_read(REGION_CUDA, name, json, strlen(json), &terms, &error) &&
              regions_register(&regions, client, &(struct object_asker){"", "127.0.0.1"}, &terms, &error);
  assert(!good);
  check_problem(&error);
}

static void leave(const char *name) {
  struct error error;
  bool good = regions_unregister(&regions, client, REGION_SYSTEM, name, &error);
  assert(good);  // no job writes to the region
  for (int i = count - 1; i >= 0; i--)
    if (!name || strcmp(known[i].name, name) == 0) known[i] = known[--count];
}

static void show(const char *name) {
  static char page[REGIONS_MAX * 512];
  struct text out = text_over(page, sizeof page);
  struct error error = {.kind = ERROR_NONE};
  struct json_document document;
  json_error_t where;
  bool good = regions_write(&regions, client, REGION_SYSTEM, name, &out, &error);
  assert(good == (!name || find(name)));
  if (!good) check_problem(&error);
  if (!good || !text_complete(&out)) return;  // replaced bytes that are not UTF-8 may not fit
  bool opened = json_open(&document, page, out.length, &where);
  assert(opened && (int)json_array_size(document.root) == (name ? 1 : count));
  json_close(&document);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

// Whether the part is inside a registered region and inside the memory's current length.
static bool is_there(const struct region_ref *ref) {
  const struct region_terms *terms = find(ref->name);
  return terms && region_holds(terms->bytes, ref->offset, ref->bytes) &&
         region_holds(length, terms->offset + ref->offset, ref->bytes);
}

static bool open_part(const struct region_ref *ref, struct region_part *part) {
  struct error error = {.kind = ERROR_NONE};
  if (region_open(&regions, (struct region_user){client, ULLONG_MAX}, ref, "p", part, &error)) return true;
  check_problem(&error);
  assert(!is_there(ref));
  return false;
}

static void read_part(const struct region_ref *ref) {
  struct error error = {.kind = ERROR_NONE};
  struct region_part part;
  if (!open_part(ref, &part)) return;
  assert(ref->bytes <= SIZE);
  char *out = malloc(ref->bytes + 1);
  assert(out);
  bool good = region_read(&part, out, &error);
  region_close(&part);
  assert(good == is_there(ref) || (good && ref->bytes == 0));
  if (!good) check_problem(&error);
  if (good && ref->bytes) assert(memcmp(out, shadow + find(ref->name)->offset + ref->offset, ref->bytes) == 0);
  free(out);
}

static void write_part(const struct region_ref *ref) {
  static char data[SIZE];
  struct error error = {.kind = ERROR_NONE};
  struct region_part part;
  size_t bytes = ref->bytes < SIZE ? (size_t)ref->bytes : SIZE;
  memset(data, WRITTEN, sizeof data);
  if (!open_part(ref, &part)) return;
  bool good = region_write(&part, data, bytes, &error);
  region_close(&part);
  assert(good == is_there(ref));
  if (!good) check_problem(&error);
  if (good) memset(shadow + find(ref->name)->offset + ref->offset, WRITTEN, bytes);
}

static void by_parameter(const char *name, const char *value, void (*use)(const struct region_ref *ref)) {
  static struct job_request request;
  struct error error = {.kind = ERROR_NONE};
  job_request_init(&request, VX_TRANSFORM);
  if (!job_request_set(&request, name, strlen(name), value, strlen(value), &error)) {
    check_problem(&error);
    return;
  }
  const struct region_ref *ref = *name == 'p' ? &request.points_region : &request.output_region;
  assert(ref->name[0] && memchr(ref->name, '\0', sizeof ref->name));
  use(ref);
}

static void by_json(const char *value, void (*use)(const struct region_ref *ref)) {
  struct error error = {.kind = ERROR_NONE};
  struct region_ref ref;
  struct json_document document;
  if (!json_open_sent(&document, "the line", value, strlen(value), NULL, &error)) return;
  bool good = region_ref_read(document.root, &ref, &error);
  if (good)
    use(&ref);
  else
    check_problem(&error);
  json_close(&document);
}

// ---- lines ----------------------------------------------------------------------------------------------------------

static void obey(const char *line) {
  const char *argument = line[0] && line[1] == ' ' ? line + 2 : "";
  switch (line[0]) {
    case 'r': enter(argument); break;
    case 'g': enter_block(argument); break;
    case 'u': leave(argument); break;
    case 'U': leave(NULL); break;
    case 's': show(argument); break;
    case 'S': show(NULL); break;
    case 'p': by_parameter("points_region", argument, read_part); break;
    case 'o': by_parameter("output_region", argument, write_part); break;
    case 'i': by_json(argument, read_part); break;
    case 'q': by_json(argument, write_part); break;
    case 't': set_length(strtoul(argument, NULL, 10)); break;
    default: break;
  }
}

static void check_memory(void) {
  static unsigned char found[SIZE];
  assert(pread(memory, found, SIZE, 0) == (ssize_t)length);
  assert(memcmp(found, shadow, length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1), *rest;
  if (!client) begin();
  assert(text);
  memcpy(text, data, size);
  text[size] = '\0';
  bool started = regions_init(&regions, &options, &devices, &clients, NULL);
  assert(started);
  set_length(SIZE);
  for (size_t i = 0; i < SIZE; i++) shadow[i] = (unsigned char)(i % 251);
  assert(pwrite(memory, shadow, SIZE, 0) == SIZE);
  for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) obey(line);
  check_memory();
  leave(NULL);
  regions_end(&regions);
  free(text);
  return 0;
}
