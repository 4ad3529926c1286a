// Clusters of thread blocks, which can write into each other's shared memory. Without compute capability 9.0 and CUDA
// 12.1, a cluster is one block, cluster_sync does nothing, and no message is sent.
//
// A message is a few words, whose bytes are counted at a barrier (mbarrier) of the receiving block, which waits there
// for the bytes of all blocks. A barrier serves one exchange at a time.
#ifndef VOXELD_CUDA_CLUSTER_CUH
#define VOXELD_CUDA_CLUSTER_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#define CUDA_CLUSTERS (CUDART_VERSION >= 12010)  // whether the assembler supports messages
#if CUDA_CLUSTERS && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define CUDA_CLUSTER_CODE 1
#else
#define CUDA_CLUSTER_CODE 0
#endif

__device__ static inline uint32_t cluster_rank() {
  uint32_t rank = 0;
#if CUDA_CLUSTER_CODE
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
  return rank;
}

__device__ static inline uint32_t cluster_size() {
  uint32_t size = 1;
#if CUDA_CLUSTER_CODE
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
#endif
  return size;
}

// Waits for all threads of the cluster.
__device__ static inline void cluster_sync() {
#if CUDA_CLUSTER_CODE
  asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

__device__ static inline uint32_t shared_address(const void *shared) {
  uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
  asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(address));  // kept in a register
  return address;
}

// Called by one thread per block, before any message can come. All blocks must synchronize after it.
__device__ static inline void barrier_init(uint32_t barrier) {
#if CUDA_CLUSTER_CODE
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier)
               : "memory");
#endif
}

// Called by one thread per block, once per exchange: announces `bytes` bytes.
__device__ static inline void barrier_expect(uint32_t barrier, uint32_t bytes) {
#if CUDA_CLUSTER_CODE
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}

// Waits for all bytes of an exchange. `phase` alternates: 0 in a barrier's first exchange, 1 in its second.
__device__ static inline void barrier_wait(uint32_t barrier, uint32_t phase) {
#if CUDA_CLUSTER_CODE
  uint32_t done = 0;
  while (done == 0) {
    asm volatile("{\n\t.reg .pred complete;\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, complete;\n\t}"
                 : "=r"(done)
                 : "r"(barrier), "r"(phase)
                 : "memory");
  }
#endif
}

// The cluster address, in block `rank`, of an address in shared memory.
__device__ static inline uint32_t address_in(uint32_t shared, uint32_t rank) {
  uint32_t address = 0;
#if CUDA_CLUSTER_CODE
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared), "r"(rank));
#endif
  return address;
}

// Send to addresses of any block of the cluster, as address_in gives them.
__device__ static inline void send_row(uint32_t address, uint32_t barrier, const float4 &row) {
#if CUDA_CLUSTER_CODE
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
      "f"(row.x), "f"(row.y), "f"(row.z), "f"(row.w), "r"(barrier)
      : "memory");
#endif
}

__device__ static inline void send_words(uint32_t address, uint32_t barrier, uint32_t a, uint32_t b) {
#if CUDA_CLUSTER_CODE
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(address),
               "r"(a), "r"(b), "r"(barrier)
               : "memory");
#endif
}

#endif
