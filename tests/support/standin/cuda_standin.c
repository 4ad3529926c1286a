// A stand-in for the CUDA backend, in sanitizer builds and for machines without a GPU. It has the same name, computes
// on the CPU, and fails on request (inject.h). These variables control it:
//   VOXELD_STANDIN_DEVICES     the number of devices; default 0
//   VOXELD_STANDIN_INTEGRATED  the devices share the host's memory
//   VOXELD_STANDIN_NO_IPC      no handle of another process's memory can be opened
//   VOXELD_STANDIN_LACKS       an operation or a tensor that the devices do not support
//   VOXELD_STANDIN_SLOW        a file with two numbers, read at each sampling of points: the milliseconds by which the
//                              sampling is delayed on a device, and on the CPU
// One checked call is made to open a lane, to pin memory, to open a block, and to copy a block. Each job makes three:
// before its run, in its output callback, and after its run.
//
// Jobs over pinned memory run on copies made by process_vm_readv. If pages vanish meanwhile, the copy fails without a
// signal.
//
// The memory of a device is files in /dev/shm. A handle is the name of such a file, padded with zeros; its last byte is
// the number of the device.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "kernels/backends.h"
#include "kernels/ops.h"
#include "tests/support/standin/inject.h"

enum { MEGABYTE = 1 << 20, PAGE = 4096 };

struct vx_device {
  int index;
  struct vx_device *cpu;
};

struct vx_lane {
  int device;
  struct vx_lane *cpu;
  char pieces[VX_MAX_PIECES_BYTES];
};

static enum vx_status count_devices(int *count, struct error *error) {
  const char *text = getenv("VOXELD_STANDIN_DEVICES");
  *count = text == NULL ? 0 : atoi(text);
  if (*count > 0) return VX_OK;
  return vx_refuse(error, "this build has a stand-in for CUDA; set VOXELD_STANDIN_DEVICES to use it");
}

static enum vx_status open_device(int index, struct vx_device **device, struct error *error) {
  int count;
  enum vx_status status = count_devices(&count, error);
  if (status != VX_OK) return status;
  if (index < 0 || index >= count) return vx_refuse(error, "there is no CUDA device %d: there are %d", index, count);
  *device = malloc(sizeof **device);
  if (*device == NULL) return VX_OUT_OF_MEMORY;
  (*device)->index = index;
  status = vx_cpu_backend.open(0, &(*device)->cpu, error);
  if (status != VX_OK) free(*device);
  return status;
}

static void close_device(struct vx_device *device) {
  vx_cpu_backend.close(device->cpu);
  free(device);
}

static void describe(const struct vx_device *device, struct vx_description *description) {
  bool integrated = getenv("VOXELD_STANDIN_INTEGRATED") != NULL;
  *description = (struct vx_description){
      .memory_bytes = integrated ? 0 : MEGABYTE, .compute_capability = 10, .integrated = integrated};
  snprintf(description->name, sizeof description->name, "stand-in %d", device->index);
}

static enum vx_status checked(const char *call, struct error *error) {
  enum vx_status status = inject_next();
  return status == VX_OK ? VX_OK : vx_fail(error, status, "%s: a fault was asked for", call);
}

static enum vx_status open_lane(struct vx_device *device, enum vx_lane_use use, struct vx_lane **lane,
                                struct error *error) {
  enum vx_status status = checked("lane", error);
  if (status != VX_OK) return status;
  *lane = malloc(sizeof **lane);
  if (*lane == NULL) return VX_OUT_OF_MEMORY;
  (*lane)->device = device->index;
  status = vx_cpu_backend.lane_open(device->cpu, use, &(*lane)->cpu, error);
  if (status != VX_OK) free(*lane);
  return status;
}

static void close_lane(struct vx_lane *lane) {
  vx_cpu_backend.lane_close(lane->cpu);
  free(lane);
}

static void device_stream(const struct vx_lane *lane, struct vx_device_stream *stream) {
  stream->device = lane->device;
  stream->handle = (void *)(uintptr_t)lane;
}

// ---- pinned memory --------------------------------------------------------------------------------------------------

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static enum vx_status pin(struct vx_device *device, void *memory, size_t bytes, struct error *error) {
  (void)device;
  enum vx_status status = checked("pin", error);
  if (status == VX_OK && madvise(memory, bytes, MADV_POPULATE_WRITE) != 0) {
    snprintf(error->text, sizeof error->text, "pin: the memory has fewer bytes");
    status = VX_REFUSED;
  }
  return status;
}

static bool unpin(struct vx_device *device, void *memory) {
  (void)device, (void)memory;
  return true;
}

static bool is_there(int pagemap, const char *byte) {
  uint64_t entry = 0;
  off_t at = (off_t)((uintptr_t)byte / PAGE * sizeof entry);
  return pread(pagemap, &entry, sizeof entry, at) == (ssize_t)sizeof entry && entry >> 63 != 0;
}

// Copies pinned memory to `own`. Copies nothing if the last page is gone: then the memory was shortened (a GPU would
// still read the old pages). Other pages may be missing for other reasons, since the stand-in does not pin them.
static void read_pinned(void *own, char *pinned, size_t bytes) {
  const struct iovec here = {own, bytes}, there = {pinned, bytes};
  int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  ssize_t copied = 0;
  if (bytes > 0 && is_there(pagemap, pinned + bytes - 1)) copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  (void)copied;
  close(pagemap);
}

static void write_pinned(void *own, void *pinned, size_t bytes) {
  const struct iovec here = {own, bytes}, there = {pinned, bytes};
  ssize_t copied = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
  (void)copied;
}

// ---- memory of the devices ------------------------------------------------------------------------------------------

enum { BLOCKS = 256 };

// A block that is opened twice has one address.
static struct block {
  dev_t device;
  ino_t inode;
  struct vx_block block;
  int opened;
} blocks[BLOCKS];
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static enum vx_status map_block(const char *name, struct block *block, struct error *error) {
  struct stat file = {.st_size = 0};
  int memory = strchr(name, '/') ? -1 : shm_open(name, O_RDWR, 0);
  if (memory < 0 || fstat(memory, &file) != 0 || file.st_size == 0) {
    if (memory >= 0) close(memory);
    return vx_refuse(error, "cudaIpcOpenMemHandle: invalid argument (cudaErrorInvalidValue)");
  }
  size_t bytes = (size_t)file.st_size;
  *block = (struct block){file.st_dev, file.st_ino, {NULL, bytes}, 0};
  for (int i = 0; i < BLOCKS; i++)
    if (blocks[i].opened > 0 && blocks[i].inode == file.st_ino && blocks[i].device == file.st_dev) *block = blocks[i];
  if (block->opened == 0)
    block->block.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memory, 0);
  close(memory);
  return block->block.memory != MAP_FAILED ? VX_OK : vx_fail(error, VX_OUT_OF_MEMORY, "mmap: no memory");
}

static struct block *block_at(const char *memory) {
  for (int i = 0; i < BLOCKS; i++)
    if (memory != NULL ? blocks[i].opened > 0 && blocks[i].block.memory == memory : blocks[i].opened == 0)
      return &blocks[i];
  abort();
}

static enum vx_status open_block(struct vx_device *device, const void *handle, struct vx_block *block,
                                 struct error *error) {
  char name[VX_HANDLE_SIZE];
  struct block mapped;
  enum vx_status status = checked("open", error);
  memcpy(name, handle, sizeof name);
  int its_device = name[VX_HANDLE_SIZE - 1];
  name[VX_HANDLE_SIZE - 1] = '\0';
  if (status != VX_OK) return status;
  if (getenv("VOXELD_STANDIN_NO_IPC") != NULL)
    return vx_refuse(error, "cudaIpcOpenMemHandle: operation not supported (cudaErrorNotSupported)");
  if (its_device != device->index)
    return vx_refuse(error, "the memory is of GPU %d, not of GPU %d", its_device, device->index);
  pthread_mutex_lock(&blocks_lock);
  status = map_block(name, &mapped, error);
  if (status == VX_OK) {
    struct block *entry = block_at(mapped.opened > 0 ? mapped.block.memory : NULL);
    mapped.opened++;
    *entry = mapped;
    *block = mapped.block;
  }
  pthread_mutex_unlock(&blocks_lock);
  return status;
}

static void close_block(struct vx_device *device, void *memory) {
  (void)device;
  pthread_mutex_lock(&blocks_lock);
  struct block *block = block_at(memory);
  if (--block->opened == 0) munmap(memory, block->block.bytes);
  pthread_mutex_unlock(&blocks_lock);
}

// process_vm_readv, since memcpy would get a signal if the owner shortens the file.
static enum vx_status copy_block(struct vx_device *device, void *to, const void *from, size_t bytes,
                                 struct error *error) {
  (void)device;
  const struct iovec there = {(void *)(uintptr_t)from, bytes}, here = {to, bytes};
  enum vx_status status = checked("copy", error);
  if (status != VX_OK) return status;
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes
             ? VX_OK
             : vx_fail(error, VX_DEVICE_LOST, "copy: the memory is gone");
}

static enum vx_status sample_block(struct vx_lane *lane, const void *memory, const struct vx_piece *piece,
                                   int32_t count, struct error *error) {
  enum vx_status status = VX_OK;
  for (int32_t i = 0; i < count && status == VX_OK; i++)
    status = copy_block(NULL, lane->pieces + piece[i].to, (const char *)memory + piece[i].from, piece[i].bytes, error);
  return status;
}

static enum vx_status await_block(struct vx_lane *lane, const char **out, struct error *error) {
  (void)error;
  *out = lane->pieces;
  return VX_OK;
}

// ---- jobs over memory that the CPU does not touch -------------------------------------------------------------------

// The caller of the job, which checked_caller calls, and the copies that the job runs on.
struct behind {
  const struct vx_job *job;
  const struct vx_caller *caller;
  void *ctx;
  void *points;           // a copy
  unsigned char *output;  // a copy of the block, with all tensors; NULL: the job writes into the block
  unsigned char *block;   // where the output goes, except tensors with an output_ptr
  struct vx_layout layout;
};

static size_t points_bytes(const struct vx_job *job) {
  const struct vx_input *points = &job->inputs[VX_POINTS];
  size_t bytes = vx_dtype_size(points->dtype);
  for (int d = 0; d < points->rank; d++) bytes *= (size_t)points->dims[d];
  return bytes;
}

static void *take_copy(size_t bytes) {
  void *copy = aligned_alloc(VX_TENSOR_ALIGNMENT, (bytes / VX_TENSOR_ALIGNMENT + 1) * VX_TENSOR_ALIGNMENT);
  if (copy != NULL) memset(copy, 0, bytes);
  return copy;
}

static enum vx_status copy_points(struct vx_job *job, struct behind *behind, struct error *error) {
  size_t bytes = points_bytes(job);
  behind->points = take_copy(bytes);
  if (behind->points == NULL) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a copy of pinned points");
  read_pinned(behind->points, (char *)(uintptr_t)job->inputs[VX_POINTS].data, bytes);
  job->inputs[VX_POINTS].data = behind->points;
  return VX_OK;
}

static enum vx_status checked_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  struct behind *behind = ctx;
  enum vx_status status = behind->caller->output(behind->ctx, layout, block, error);
  if (status == VX_OK) status = checked("output", error);
  if (status == VX_OK && (behind->job->pinned || behind->job->output_ptrs != NULL)) {
    behind->block = *block;
    behind->layout = *layout;
    behind->output = *block = take_copy(layout->bytes);
    status = *block == NULL ? VX_OUT_OF_MEMORY : VX_OK;
  }
  return status;
}

static void write_tensors(const struct behind *behind) {
  const struct vx_layout *layout = &behind->layout;
  void *const *places = behind->job->output_ptrs;
  struct vx_layout block = *layout;
  vx_layout_pack(&block, places);
  for (enum vx_tensor tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    if ((layout->tensors & VX_TENSOR_BIT(tensor)) != 0) {
      write_pinned(behind->output + layout->offset[tensor],
                   places[tensor] != NULL ? places[tensor] : behind->block + block.offset[tensor],
                   layout->shape[tensor].bytes);
    }
  }
}

static void write_output(const struct behind *behind) {
  if (behind->job->output_ptrs != NULL)
    write_tensors(behind);
  else
    write_pinned(behind->output, behind->block, behind->layout.bytes);
  if (behind->job->head != NULL)
    write_pinned((void *)(uintptr_t)behind->job->head, behind->block - behind->job->head_bytes,
                 behind->job->head_bytes);
}

static bool ask_scratch(void *ctx, size_t bytes) {
  const struct behind *behind = ctx;
  return behind->caller->scratch == NULL || behind->caller->scratch(behind->ctx, bytes);
}

static bool ask_stopped(void *ctx) {
  const struct behind *behind = ctx;
  return behind->caller->stopped != NULL && behind->caller->stopped(behind->ctx);
}

static const struct vx_caller checked_caller = {
    .output = checked_output, .scratch = ask_scratch, .stopped = ask_stopped};

static bool runs(const struct vx_job *job) {
  const char *lacking = getenv("VOXELD_STANDIN_LACKS");
  bool lacks = lacking != NULL && strcmp(lacking, vx_operations[job->op].name) == 0;
  for (enum vx_tensor tensor = 0; lacking != NULL && tensor < VX_TENSOR_COUNT; tensor++)
    lacks |= (job->tensors & VX_TENSOR_BIT(tensor)) != 0 && strcmp(lacking, vx_tensors[tensor].name) == 0;
  return !lacks && (job->op != VX_DETECT || job->params.detect.session != NULL);
}

// ---- slow sampling --------------------------------------------------------------------------------------------------

static _Thread_local bool on_standin;

static int slowness_ms(void) {
  const char *path = getenv("VOXELD_STANDIN_SLOW");
  FILE *file = path == NULL ? NULL : fopen(path, "re");
  int gpu_ms = 0, cpu_ms = 0;
  if (file != NULL) {
    if (fscanf(file, "%d %d", &gpu_ms, &cpu_ms) != 2) gpu_ms = cpu_ms = 0;
    (void)fclose(file);
  }
  return on_standin ? gpu_ms : cpu_ms;
}

// The linker redirects calls of cpu_sample_points to __wrap_cpu_sample_points (cmake/flavours.cmake).
enum vx_status __real_cpu_sample_points(struct vx_lane *lane, struct vx_job *job, struct error *error);
enum vx_status __wrap_cpu_sample_points(struct vx_lane *lane, struct vx_job *job, struct error *error);

enum vx_status __wrap_cpu_sample_points(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  const struct timespec millisecond = {0, 1000000};
  for (int ms = slowness_ms(); ms > 0; ms--) {
    if (job->caller->stopped != NULL && job->caller->stopped(job->ctx))
      return vx_fail(error, VX_STOPPED, "the sampling was stopped");
    nanosleep(&millisecond, NULL);
  }
  return __real_cpu_sample_points(lane, job, error);
}

static enum vx_status run_over(struct vx_lane *lane, struct vx_job *job, struct behind *behind, struct error *error) {
  const void *points = job->inputs[VX_POINTS].data;
  enum vx_status status = job->pinned ? copy_points(job, behind, error) : VX_OK;
  if (status == VX_OK) {
    job->caller = &checked_caller;
    job->ctx = behind;
    if (behind->caller->waiting != NULL) behind->caller->waiting(behind->ctx);
    on_standin = true;
    status = vx_cpu_backend.run(lane->cpu, job, error);
    on_standin = false;
    job->caller = behind->caller;
    job->ctx = behind->ctx;
  }
  if (status == VX_OK && behind->output != NULL) write_output(behind);
  job->inputs[VX_POINTS].data = points;
  free(behind->points);
  free(behind->output);
  return status;
}

static enum vx_status run(struct vx_lane *lane, struct vx_job *job, struct error *error) {
  struct behind behind = {.job = job, .caller = job->caller, .ctx = job->ctx};
  enum vx_status status = checked("begin", error);
  if (status == VX_OK) status = run_over(lane, job, &behind, error);
  return status == VX_OK ? checked("end", error) : status;
}

static void *alloc_host(struct vx_device *device, size_t bytes) {
  return vx_cpu_backend.host_alloc(device->cpu, bytes);
}

static void free_host(struct vx_device *device, void *memory, size_t bytes) {
  vx_cpu_backend.host_release(device->cpu, memory, bytes);
}

const struct vx_backend vx_cuda_backend = {
    .name = "cuda",
    .count = count_devices,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .lane_open = open_lane,
    .lane_close = close_lane,
    .device_stream = device_stream,
    .runs = runs,
    .run = run,
    .host_alloc = alloc_host,
    .host_release = free_host,
    .host_pin = pin,
    .host_unpin = unpin,
    .block_open = open_block,
    .block_close = close_block,
    .block_copy = copy_block,
    .block_sample = sample_block,
    .block_await = await_block,
};
