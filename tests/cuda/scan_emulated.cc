// cuda-scan-emulated: the look-backs of a scan (base/scan.cuh) and of a sort (serialize/sort.cuh) on the emulated GPU,
// for a tile far behind the last tile that knows the sum up to its own end. Jobs on the emulator never reach this case,
// since its blocks run one after the other. One thread. Exit code 1 if a sum is wrong.
#include <cstdio>
#include <vector>

#include "fibres.h"
#include "kernels/cuda/base/scan.cuh"
#include "kernels/cuda/serialize/sort.cuh"

static uint64_t states[1024];  // of the tiles; one is scanned
static uint32_t scanned_tile;
static uint64_t scanned_items[CUDA_TILE], sums_before[CUDA_TILE], totals[SCAN_BLOCK];

static void scan_kernel() {
  __shared__ struct scan_shared shared;
  uint64_t items[SCAN_ITEMS], before[SCAN_ITEMS];
  uint32_t first = threadIdx.x * SCAN_ITEMS;
  std::copy_n(scanned_items + first, SCAN_ITEMS, items);
  totals[threadIdx.x] = scan_items(states, scanned_tile, items, before, &shared);
  std::copy_n(before, SCAN_ITEMS, sums_before + first);
}

static uint64_t next_random() {
  static uint64_t state = 1;
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return state >> 33;
}

// Whether there is a cell, and its points.
static uint64_t random_pair() { return (next_random() % 2) << 32 | next_random() % 1000; }

// Scans one tile. Of the tiles before it, the first and one in `known` of the others know the sum up to their end. From
// tile 255 on, the sums of both halves of the pairs exceed 2^16.
static bool scan_right(uint32_t tile, uint32_t known) {
  uint64_t sum = 0;
  scanned_tile = tile;
  for (uint32_t i = 0; i < tile; i++) {
    uint64_t own = (next_random() % CUDA_TILE) << 32 | next_random() % (1000 * CUDA_TILE);
    sum += own;
    states[i] = i == 0 || next_random() % known == 0 ? TILE_PREFIX | sum : TILE_SUM | own;
  }
  for (uint64_t &item : scanned_items) item = random_pair();
  emulated_launch("scan_kernel", dim3(1), dim3(SCAN_BLOCK), 0, scan_kernel);
  bool right = true;
  for (uint32_t i = 0; i < CUDA_TILE; i++) {
    right = right && sums_before[i] == sum;
    sum += scanned_items[i];
  }
  for (uint64_t total : totals) right = right && total == sum;
  right = right && states[tile] == (TILE_PREFIX | sum);
  if (!right) fprintf(stderr, "tile %u, one of %u known: wrong\n", tile, known);
  return right;
}

static uint32_t sort_states[1024 * SORT_DIGITS], found_before[SORT_BLOCK];

static void look_back_kernel() { found_before[threadIdx.x] = sort_look_back(sort_states + threadIdx.x, scanned_tile); }

// The same for a tile of a sort, which looks back for each digit. A tile may have no key with the digit.
static bool look_back_right(uint32_t tile, uint32_t known) {
  static uint32_t sums[SORT_DIGITS];
  scanned_tile = tile;
  for (uint32_t digit = 0; digit < SORT_DIGITS; digit++) {
    sums[digit] = 0;
    for (uint32_t i = 0; i < tile; i++) {
      uint32_t own = next_random() % 3 == 0 ? 0 : (uint32_t)(next_random() % (SORT_TILE + 1));
      sums[digit] += own;
      bool knows = i == 0 || next_random() % known == 0;
      sort_states[i * SORT_DIGITS + digit] = knows ? SORT_PREFIX | sums[digit] : own + 1;
    }
  }
  emulated_launch("look_back_kernel", dim3(1), dim3(SORT_BLOCK), 0, look_back_kernel);
  bool right = std::equal(sums, sums + SORT_DIGITS, found_before);
  if (!right) fprintf(stderr, "sort: tile %u, one of %u known: wrong\n", tile, known);
  return right;
}

int main() {
  int scans = 0, wrong = 0;
  for (uint32_t tile : {0, 1, 2, 31, 32, 33, 255, 256, 257, 258, 300, 511, 512, 513, 514, 769, 1023}) {
    for (uint32_t known : {1, 2, 40, 300, 1 << 30}) {
      wrong += !scan_right(tile, known) + !look_back_right(tile, known);
      scans += 2;
    }
  }
  printf("%d look-backs, %d wrong\n", scans, wrong);
  return wrong != 0;
}
