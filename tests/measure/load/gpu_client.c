// gpu-client: the time of one request by the C client, from points in the memory of a GPU to tensors there.
//
//   gpu-client URL QUERY FILE CALLS cuda|socket
//
// With cuda the service reads and writes the GPU's memory. With socket the program copies the points to pinned memory
// of the host, sends them, and copies the tensors of the answer to the GPU. Prints the median and the 99th percentile
// in microseconds, and the bytes of the tensors. Opens libcuda.so.1 itself, so it is built without CUDA. One thread.
#define VOXELD_CLIENT_IMPLEMENTATION
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <voxeld_client.h>

enum { ROOM = 64 << 20, WARM = 200 };

struct handle {
  unsigned char bytes[64];
};

static struct {
  int (*init)(unsigned);
  int (*retain)(void **, int);
  int (*set)(void *);
  int (*allocate)(uint64_t *, size_t);
  int (*allocate_host)(void **, size_t);
  int (*handle)(struct handle *, uint64_t);
  int (*upload)(uint64_t, const void *, size_t);
  int (*download)(void *, uint64_t, size_t);
} cuda;

static void die(const char *what, const char *why) {
  fprintf(stderr, "gpu-client: %s: %s\n", what, why);
  exit(EXIT_FAILURE);
}

static void check(int code, const char *what) {
  char why[32];
  snprintf(why, sizeof why, "error %d", code);
  if (code) die(what, why);
}

static void open_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
  static const char *const names[] = {"cuInit",          "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent",
                                      "cuMemAlloc_v2",   "cuMemAllocHost_v2",        "cuIpcGetMemHandle",
                                      "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2"};
  if (!library) die("libcuda.so.1", dlerror());
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    void *function = dlsym(library, names[i]);
    if (!function) die(names[i], "is not in libcuda.so.1");
    memcpy((char *)&cuda + i * sizeof function, &function, sizeof function);
  }
  check(cuda.init(0), "cuInit");
  check(cuda.retain(&context, 0), "cuDevicePrimaryCtxRetain");
  check(cuda.set(context), "cuCtxSetCurrent");
}

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// Reads the file into pinned memory.
static void *read_points(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  void *bytes = NULL;
  if (!file || fseek(file, 0, SEEK_END) != 0) die(path, "cannot be read");
  long length = ftell(file);
  if (length <= 0 || length > ROOM / 2) die(path, "is empty or too large");
  *size = (size_t)length;
  check(cuda.allocate_host(&bytes, *size), "cuMemAllocHost");
  rewind(file);
  if (fread(bytes, 1, *size, file) != *size) die(path, "cannot be read");
  fclose(file);
  return bytes;
}

static void upload_tensors(const struct voxeld_result *result, uint64_t to) {
  for (size_t i = 0; i < result->tensor_count; i++) {
    const struct voxeld_tensor *tensor = &result->tensors[i];
    if (tensor->bytes) check(cuda.upload(to, tensor->data, tensor->bytes), "cuMemcpyHtoD");
    to += tensor->bytes;
  }
}

int main(int argc, char **argv) {
  if (argc != 6) die("usage", "gpu-client URL QUERY FILE CALLS cuda|socket");
  const char *query = argv[2];
  bool in_place = strcmp(argv[5], "cuda") == 0;
  int calls = (int)strtol(argv[4], NULL, 10);
  struct voxeld_cuda memory = {.bytes = ROOM, .answers = ROOM / 2};
  struct voxeld_options options = voxeld_defaults(argv[1]);
  struct voxeld_result result = {0};
  struct handle handle;
  uint64_t block = 0;
  size_t size = 0, tensors = 0;
  open_driver();
  void *points = read_points(argv[3], &size);
  check(cuda.allocate(&block, ROOM), "cuMemAlloc");
  check(cuda.handle(&handle, block), "cuIpcGetMemHandle");
  check(cuda.upload(block, points, size), "cuMemcpyHtoD");
  memcpy(memory.handle, handle.bytes, sizeof memory.handle);
  memory.block = (void *)(uintptr_t)block;
  if (in_place) options.cuda = &memory;
  struct voxeld_client *client = voxeld_open(&options);
  double *took = malloc((size_t)(calls > 0 ? calls : 1) * sizeof *took);
  if (!client || !took || calls < 1) die("start", "bad arguments, or no memory");
  for (int i = -WARM; i < calls; i++) {
    double began = now_us();
    if (!in_place) check(cuda.download(points, block, size), "cuMemcpyDtoH");
    const void *rows = in_place ? memory.block : points;
    if (voxeld_voxelize(client, query, rows, size, &result) != VOXELD_OK) die("a call", result.error);
    if (!in_place) upload_tensors(&result, block + ROOM / 2);
    if (i >= 0) took[i] = now_us() - began;
  }
  for (size_t i = 0; i < result.tensor_count; i++) tensors += result.tensors[i].bytes;
  qsort(took, (size_t)calls, sizeof *took, by_size);
  printf("{\"p50\":%.1f,\"p99\":%.1f,\"tensors\":%zu}\n", took[calls / 2], took[calls * 99L / 100], tensors);
  free(took);
  voxeld_result_free(&result);
  voxeld_close(client);
  return EXIT_SUCCESS;
}
