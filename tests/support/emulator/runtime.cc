// The emulated device's part of CUDA's runtime interface: one device without clusters, whose memory is the host's.
//
// New memory is filled with a pattern, so that no code relies on zeros, and followed by a page that cannot be accessed.
// With VOXELD_EMULATED_BLIND=1 the device does not see the host's memory, so inputs are copied to it. Each call is
// complete when it returns. A graph is a list of functions. With VOXELD_EMULATED_GRAPHLESS=1 captures fail.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include <vector>

#include "calls.h"
#include "cuda_runtime.h"

#define DONE                                                                                                           \
  { return cudaSuccess; }

uint64_t emulated_now() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct emulated_calls emulated_calls;

static cudaError_t count(int *calls) {
  ++*calls;
  return cudaSuccess;
}

enum { PAGE = 4096 };

// The page before the memory holds the size of the mapping.
static cudaError_t allocate(void **memory, size_t bytes) {
  emulated_calls.allocations++;
  size_t whole = (bytes + PAGE - 1) / PAGE * PAGE, all = whole + 2 * PAGE;
  char *first = (char *)mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED || mprotect(first + PAGE + whole, PAGE, PROT_NONE) != 0) return cudaErrorMemoryAllocation;
  memcpy(first, &all, sizeof all);
  memset(first + PAGE, 0xA5, whole);
  *memory = first + PAGE;
  emulated_note_memory(*memory, whole);
  return cudaSuccess;
}

static cudaError_t give_back(void *memory) {
  if (!memory) return cudaSuccess;
  char *first = (char *)memory - PAGE;
  size_t all;
  emulated_note_memory(memory, 0);
  memcpy(&all, first, sizeof all);
  munmap(first, all);
  return cudaSuccess;
}

typedef std::vector<std::function<void()>> graph;
static graph *captured;  // NULL: no graph is being captured

void emulated_enqueue(const std::function<void()> &work) {
  if (captured)
    captured->push_back(work);
  else
    work();
}

extern "C" {

// ---- the device -----------------------------------------------------------------------------------------------------

cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int) {
  *properties = {};
  snprintf(properties->name, sizeof properties->name, "emulated");
  properties->totalGlobalMem = (size_t)4 << 30;
  properties->major = 7;
  properties->minor = 5;
  properties->multiProcessorCount = 4;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? (int)EMULATED_SHARED_BYTES
           : attribute == cudaDevAttrMultiProcessorCount        ? 4
                                                                : 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return count(&emulated_calls.devices); }
cudaError_t cudaDeviceSynchronize() { return count(&emulated_calls.waits); }
cudaError_t cudaSetDeviceFlags(unsigned) DONE cudaError_t cudaGetLastError() DONE cudaError_t
    cudaPeekAtLastError() DONE const char *cudaGetErrorName(cudaError_t) {
  return "emulated";
}
const char *cudaGetErrorString(cudaError_t) { return "an error of the emulator"; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int) {
  static int one;
  *stream = (cudaStream_t)&one;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return count(&emulated_calls.waits); }
cudaError_t cudaStreamQuery(cudaStream_t) { return count(&emulated_calls.waits); }
cudaError_t cudaStreamDestroy(cudaStream_t) DONE cudaError_t
    cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *) {
  *attributes = {};
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int) DONE cudaError_t
    cudaOccupancyMaxActiveClusters(int *clusters, const void *, const cudaLaunchConfig_t *) {
  *clusters = 0;
  return cudaSuccess;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void **memory, size_t bytes) { return allocate(memory, bytes); }
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned) { return allocate(memory, bytes); }
cudaError_t cudaMallocFromPoolAsync(void **memory, size_t bytes, cudaMemPool_t, cudaStream_t) {
  return allocate(memory, bytes);
}
cudaError_t cudaFree(void *memory) { return give_back(memory); }
cudaError_t cudaFreeAsync(void *memory, cudaStream_t) { return give_back(memory); }
cudaError_t cudaFreeHost(void *memory) { return give_back(memory); }
cudaError_t cudaHostRegister(void *, size_t, unsigned) DONE cudaError_t cudaHostUnregister(void *) DONE cudaError_t
    cudaHostGetDevicePointer(void **seen, void *memory, unsigned) {
  *seen = memory;
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *memory) {
  emulated_calls.lookups++;
  *attributes = {};
  attributes->type = getenv("VOXELD_EMULATED_BLIND") == NULL ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  attributes->hostPointer = attributes->devicePointer = (void *)memory;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t) {
  emulated_calls.copies++;
  emulated_end_all();
  memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t) {
  emulated_calls.copies++;
  emulated_enqueue([=] {
    emulated_end_all();
    memset(memory, value, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *, int) { return cudaErrorNotSupported; }
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *, int) { return cudaErrorNotSupported; }
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) DONE cudaError_t
    cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) {
  return cudaErrorNotSupported;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) DONE cudaError_t
    cudaMemGetInfo(size_t *free_bytes, size_t *all_bytes) {
  *free_bytes = *all_bytes = (size_t)4 << 30;
  return cudaSuccess;
}

// ---- graphs ---------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  captured = new graph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *made) {
  bool fails = getenv("VOXELD_EMULATED_GRAPHLESS") != NULL;
  if (fails) delete captured;
  *made = fails ? NULL : (cudaGraph_t)captured;
  captured = NULL;
  return fails ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *made, cudaGraph_t from, unsigned long long) {
  *made = (cudaGraphExec_t) new graph(*(graph *)from);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t launched, cudaStream_t) {
  for (const std::function<void()> &work : *(graph *)launched) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t dropped) {
  delete (graph *)dropped;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t dropped) {
  delete (graph *)dropped;
  return cudaSuccess;
}
}
