// See equal.h: places for tensors, in pinned memory.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/equal.h"

enum { ROOM = 64 << 20, GUARD = 48, POISON = 0xA5, MOST_BETWEEN = GUARD + 64 };

void places_open(struct side *side) {
  struct error error = {0};
  void *memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory != MAP_FAILED && side->backend->host_pin(side->device, memory, ROOM, &error) == VX_OK) {
    side->places_at = memory;
    return;
  }
  printf("no tensor gets a place of its own: %s\n", error.text);
  if (memory != MAP_FAILED) munmap(memory, ROOM);
}

void places_close(struct side *side) {
  if (side->places_at != NULL && side->backend->host_unpin(side->device, side->places_at))
    munmap(side->places_at, ROOM);
}

static bool may_give(const struct side *side, const struct vx_layout *layout) {
  return side->places_at != NULL && side->placing && !vx_operations[side->job.op].needs_detector &&
         side->job.counts.received > 0 && layout->bytes + VX_TENSOR_COUNT * MOST_BETWEEN + GUARD <= ROOM;
}

// The end of the block, which has the tensors without a place of their own. A guard follows.
static unsigned char *behind_block(const struct side *side) {
  struct vx_layout block = side->layout;
  vx_layout_pack(&block, side->places);
  return (unsigned char *)side->output + block.bytes;
}

void places_give(struct side *side, const struct vx_layout *layout) {
  size_t end = 0;
  if (!may_give(side, layout)) return;
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    bool placed = (layout->tensors & BIT(t)) != 0 && layout->shape[t].bytes > 0 && !random_one_in(&side->random, 4);
    side->places[t] = NULL;
    if (!placed) continue;
    end += (size_t)GUARD + (size_t)random_below(&side->random, 16) * (random_one_in(&side->random, 2) ? 4 : 1);
    side->places[t] = side->places_at + end;
    end += layout->shape[t].bytes;
  }
  memset(behind_block(side), POISON, GUARD);
  memset(side->places_at, POISON, end + GUARD);
  side->places_bytes = end + GUARD;
  side->job.output_ptrs = side->places;
}

static bool is_poison(const unsigned char *begin, const unsigned char *end) {
  while (begin < end && *begin == POISON) begin++;
  return begin >= end;
}

static bool guards_are_whole(const struct side *side) {
  const unsigned char *end = side->places_at, *behind = behind_block(side);
  bool whole = is_poison(behind, behind + GUARD);
  for (int t = 0; t < VX_TENSOR_COUNT; t++) {
    if (side->places[t] == NULL) continue;
    whole = whole && is_poison(end, side->places[t]);
    end = (unsigned char *)side->places[t] + side->layout.shape[t].bytes;
  }
  return whole && is_poison(end, side->places_at + side->places_bytes);
}

// Copies the last tensor first. A tensor's offset in the block is at most its offset in the layout, so no copy
// overwrites a tensor that is not yet copied.
bool places_gather(struct side *side) {
  const struct vx_layout *layout = &side->layout;
  struct vx_layout block = *layout;
  unsigned char *output = side->output;
  size_t next = layout->bytes;
  vx_layout_pack(&block, side->places);
  bool whole = guards_are_whole(side);
  for (int t = VX_TENSOR_COUNT - 1; t >= 0; t--) {
    if ((layout->tensors & BIT(t)) == 0) continue;
    size_t bytes = layout->shape[t].bytes, end = layout->offset[t] + bytes;
    const void *from = side->places[t] != NULL ? side->places[t] : output + block.offset[t];
    if (bytes > 0) memmove(output + layout->offset[t], from, bytes);
    memset(output + end, 0, next - end);
    next = layout->offset[t];
  }
  return whole;
}
