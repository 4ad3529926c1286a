// What happens to a job when one of its CUDA calls fails: each call in turn, with each class of error.
//
//   cuda-faults
//
// The run must end with that class and a text. The next job on the same lane must give the CPU's bytes. Calls fail on
// request (tests/support/standin/inject.h). Exit code 77 without a GPU.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/backends.h"
#include "tests/cuda/fault_ways.h"
#include "tests/support/standin/inject.h"

struct block {
  unsigned char *memory;  // of the last output; the caller frees it
  struct vx_layout layout;
  struct vx_counts sections[WAY_SECTIONS];
  struct vx_job *job;
  void *places[VX_TENSOR_COUNT];
};

enum { PLACES_BYTES = 8 << 20, PLACES_BETWEEN = 4 };
static unsigned char *places_at;  // pinned for the GPU

static void give_places(struct block *block) {
  unsigned char *end = places_at;
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    if (!(block->layout.tensors & VX_TENSOR_BIT(t)) || block->layout.shape[t].bytes == 0) continue;
    block->places[t] = end += PLACES_BETWEEN;
    end += block->layout.shape[t].bytes;
  }
  block->job->output_ptrs = block->places;
}

static void gather_places(struct block *block) {
  for (int t = 0; t < VX_TENSOR_COUNT; t++)
    if (block->places[t] != NULL)
      memcpy(block->memory + block->layout.offset[t], block->places[t], block->layout.shape[t].bytes);
}

static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **memory, struct error *error) {
  struct block *block = ctx;
  block->layout = *layout;
  block->memory = aligned_alloc(VX_TENSOR_ALIGNMENT, (layout->bytes / VX_TENSOR_ALIGNMENT + 1) * VX_TENSOR_ALIGNMENT);
  *memory = block->memory;
  if (*memory != NULL) {
    memset(block->memory, 0, layout->bytes);  // not every backend writes the gaps
    if (block->job != NULL) give_places(block);
    return VX_OK;
  }
  return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for the test");
}

static const struct vx_caller caller = {.output = give_output};

static enum vx_status run(const struct vx_backend *backend, struct vx_lane *lane, const struct way *way,
                          struct block *block, struct vx_counts *out, struct error *error) {
  static int32_t row_counts[WAY_CLOUDS];
  struct vx_job job = way_job(way);
  job.caller = &caller;
  job.ctx = block;
  job.row_counts = row_counts;
  job.sections.counts = block->sections;
  *block = (struct block){.job = way->with == PLACED && backend->host_pin != NULL ? &job : NULL};
  enum vx_status status = backend->run(lane, &job, error);
  *out = job.counts;
  if (status == VX_OK) gather_places(block);
  return status;
}

static int faults, failures;

static void fail(const struct way *way, long long call, int class, const char *what) {
  printf("%s, call %lld, class %d: %s\n", way->name, call, class, what);
  failures++;
}

static bool is_right(const struct block *block, const struct vx_counts *own, const struct block *right,
                     const struct vx_counts *sum) {
  return memcmp(own, sum, sizeof *own) == 0 && block->layout.bytes == right->layout.bytes &&
         memcmp(block->sections, right->sections, sizeof right->sections) == 0 &&
         (right->memory == NULL || memcmp(block->memory, right->memory, right->layout.bytes) == 0);
}

static bool agrees(struct vx_lane *lane, const struct way *way, const struct block *right,
                   const struct vx_counts *sum) {
  struct error error = {0};
  struct vx_counts own;
  struct block block;
  bool good = run(&vx_cuda_backend, lane, way, &block, &own, &error) == VX_OK && is_right(&block, &own, right, sum);
  free(block.memory);
  return good;
}

// A run may try again after a lack of memory. A backbone whose graph cannot be made runs without it.
static bool survives(const struct way *way, int class) {
  return class == VX_OUT_OF_MEMORY || (class == VX_REFUSED && way->with == SPARSE);
}

static void go_through(struct vx_lane *lane, const struct way *way, const struct block *right,
                       const struct vx_counts *sum) {
  long long calls = 0;
  for (int i = 0; i < 2; i++) {  // the second time no block has to grow
    inject_set(VX_OK, 0, INJECT_ONCE);
    if (!agrees(lane, way, right, sum)) fail(way, 0, 0, "differs from the CPU without any fault");
    calls = inject_calls();
  }
  for (int class = VX_REFUSED; class <= VX_DEVICE_LOST; class ++) {
    for (long long call = 1; call <= calls; call++, faults++) {
      struct error error = {0};
      struct vx_counts own;
      struct block block;
      inject_set((enum vx_status) class, call, INJECT_ONCE);
      enum vx_status status = run(&vx_cuda_backend, lane, way, &block, &own, &error);
      // The number of calls varies with the time that the GPU takes, so a run may end before call number `call`.
      bool passed = status == VX_OK && (inject_calls() < call || survives(way, class));
      if ((int)status != class && !passed) fail(way, call, class, error.text);
      if (passed && !is_right(&block, &own, right, sum)) fail(way, call, class, "the job differs from the CPU");
      free(block.memory);
      if (status != VX_OK && strlen(error.text) < 8) fail(way, call, class, "the text does not name the call");
      inject_set(VX_OK, 0, INJECT_ONCE);
      if (!agrees(lane, way, right, sum)) fail(way, call, class, "the next job differs from the CPU");
    }
  }
}

// On a new lane the first job replaces a block by a larger one, and the second run of a backbone makes a graph.
// `before`: jobs before the fault.
static void go_through_new_lanes(struct vx_device *device, const struct way *way, int before, const struct block *right,
                                 const struct vx_counts *sum) {
  for (int class = VX_REFUSED; class <= VX_DEVICE_LOST; class ++) {
    bool reached = true;
    for (long long call = 1; reached; call++, faults++) {
      struct error error = {0};
      struct vx_counts own;
      struct block block;
      struct vx_lane *lane;
      inject_set(VX_OK, 0, INJECT_ONCE);
      if (vx_cuda_backend.lane_open(device, VX_LANE_QUICK, &lane, &error) != VX_OK) {
        fail(way, call, class, error.text);
        return;
      }
      for (int i = 0; i < before; i++)
        if (!agrees(lane, way, right, sum)) fail(way, call, class, "a job before differs from the CPU");
      inject_set((enum vx_status) class, call, INJECT_ONCE);
      enum vx_status status = run(&vx_cuda_backend, lane, way, &block, &own, &error);
      reached = inject_calls() >= call;
      bool passed = status == VX_OK && (!reached || survives(way, class));
      if ((int)status != class && !passed) fail(way, call, class, error.text);
      if (passed && !is_right(&block, &own, right, sum)) fail(way, call, class, "the job differs from the CPU");
      free(block.memory);
      inject_set(VX_OK, 0, INJECT_ONCE);
      if (!agrees(lane, way, right, sum)) fail(way, call, class, "the job in a new lane differs from the CPU");
      vx_cuda_backend.lane_close(lane);
    }
  }
}

// If a CUDA call in lane_open fails, and all CUDA calls after it, lane_open returns the error.
static void go_through_opening(struct vx_device *device) {
  struct error error = {0};
  struct vx_lane *lane = NULL;
  for (long long call = 1;; call++, faults++) {
    inject_set(VX_OUT_OF_MEMORY, call, INJECT_FROM_THERE);
    enum vx_status status = vx_cuda_backend.lane_open(device, VX_LANE_QUICK, &lane, &error);
    bool reached = inject_calls() >= call;
    if (status == VX_OK) vx_cuda_backend.lane_close(lane);
    if (!reached) break;
    if (status != VX_OUT_OF_MEMORY) fail(&ways[0], call, VX_OUT_OF_MEMORY, "lane_open did not return the error");
  }
}

// A failed pin pins nothing: the next try works, and so does unpinning.
static void go_through_pinning(struct vx_device *device) {
  enum { BYTES = 1 << 16 };
  struct error error = {0};
  void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int class = VX_REFUSED; memory != MAP_FAILED && class <= VX_DEVICE_LOST; class ++) {
    bool reached = true;
    for (long long call = 1; reached; call++, faults++) {
      inject_set((enum vx_status) class, call, INJECT_ONCE);
      enum vx_status status = vx_cuda_backend.host_pin(device, memory, BYTES, &error);
      reached = inject_calls() >= call;
      inject_set(VX_OK, 0, INJECT_ONCE);
      if ((int)status != (reached ? class : VX_OK)) fail(&ways[0], call, class, "host_pin did not return the error");
      if (status == VX_OK && !vx_cuda_backend.host_unpin(device, memory)) fail(&ways[0], call, class, "host_unpin");
      if (vx_cuda_backend.host_pin(device, memory, BYTES, &error) != VX_OK) fail(&ways[0], call, class, error.text);
      if (!vx_cuda_backend.host_unpin(device, memory)) fail(&ways[0], call, class, "host_unpin");
    }
  }
  if (memory == MAP_FAILED || munmap(memory, BYTES) != 0) fail(&ways[0], 0, 0, "no memory for the test");
}

static bool pin_places(struct vx_device *device) {
  struct error error = {.text = "no memory for the test"};
  void *memory = mmap(NULL, PLACES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  bool good = memory != MAP_FAILED && vx_cuda_backend.host_pin(device, memory, PLACES_BYTES, &error) == VX_OK;
  if (good) places_at = memory;
  if (!good) printf("%s\n", error.text);
  return good;
}

int main(void) {
  struct error error = {0};
  struct vx_device *cpu, *gpu;
  struct vx_lane *cpu_lane, *gpu_lane;
  if (vx_cuda_backend.open(0, &gpu, &error) != VX_OK) {
    printf("skipped: %s\n", error.text);
    return 77;
  }
  if (vx_cpu_backend.open(0, &cpu, &error) != VX_OK ||
      vx_cpu_backend.lane_open(cpu, VX_LANE_QUICK, &cpu_lane, &error) != VX_OK ||
      vx_cuda_backend.lane_open(gpu, VX_LANE_QUICK, &gpu_lane, &error) != VX_OK) {
    printf("%s\n", error.text);
    return 1;
  }
  struct vx_device_stream stream;
  vx_cuda_backend.device_stream(gpu_lane, &stream);
  ways_init(stream.handle);
  go_through_opening(gpu);
  go_through_pinning(gpu);
  if (!pin_places(gpu)) return 1;
  for (int i = 0; i < num_ways; i++) {
    struct block right;
    struct vx_counts sum;
    if (run(&vx_cpu_backend, cpu_lane, &ways[i], &right, &sum, &error) != VX_OK) fail(&ways[i], 0, 0, error.text);
    go_through(gpu_lane, &ways[i], &right, &sum);
    if (ways[i].op == VX_BACKBONE) go_through_new_lanes(gpu, &ways[i], 1, &right, &sum);
    free(right.memory);
  }
  struct block right;
  struct vx_counts sum;
  if (run(&vx_cpu_backend, cpu_lane, &growing, &right, &sum, &error) != VX_OK) fail(&growing, 0, 0, error.text);
  go_through_new_lanes(gpu, &growing, 0, &right, &sum);
  free(right.memory);
  vx_cuda_backend.lane_close(gpu_lane);
  vx_cuda_backend.close(gpu);
  vx_cpu_backend.lane_close(cpu_lane);
  vx_cpu_backend.close(cpu);
  printf("cuda-faults: %d faults, %d failures\n", faults, failures);
  return failures != 0;
}
