// See equal.h: a table of times. Frames of the same kind take turns, each in pinned memory of its own.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/presets.h"
#include "tests/cuda/equal.h"

enum { WARM = 20, ROUNDS = 200, COLUMNS = VX_STAGE_COUNT + 1, MAX_FRAMES = 16 };

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double median_us(int64_t *values) {
  qsort(values, ROUNDS, sizeof *values, by_value);
  return (double)values[ROUNDS / 2] / 1e3;
}

static void print_row(const char *name, const struct scan *scan, const struct side *side,
                      int64_t times[COLUMNS][ROUNDS]) {
  static int64_t device[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    device[i] = times[VX_STAGE_VOXELIZE][i] + times[VX_STAGE_FEATURES][i];
  }
  printf("%-28s %-18s %7lld %7lld %8.1f %8.1f", name, scan->name, (long long)scan->num_points,
         (long long)side->job.counts.voxels_kept, median_us(times[VX_STAGE_COPY_IN]), median_us(device));
  printf(" %8.1f %8.1f %8.1f %8.1f\n", median_us(times[VX_STAGE_VOXELIZE]), median_us(times[VX_STAGE_FEATURES]),
         median_us(times[VX_STAGE_COPY_OUT]), median_us(times[VX_STAGE_COUNT]));
}

// `frames`: of one kind.
static void time_preset(struct side *side, const struct preset *preset, const struct scan *frames, int num_frames) {
  static int64_t times[COLUMNS][ROUNDS];
  const struct vx_voxelize_params *params = &presets_request(preset)->job;
  struct scan pinned[MAX_FRAMES];
  size_t row_bytes = (size_t)params->num_features * sizeof(float);
  for (int i = 0; i < num_frames; i++) {
    pinned[i] = frames[i];
    pinned[i].points = side->backend->host_alloc(side->device, (size_t)frames[i].num_points * row_bytes);
    memcpy(pinned[i].points, frames[i].points, (size_t)frames[i].num_points * row_bytes);
  }
  for (int round = -WARM; round < ROUNDS; round++) {
    struct vx_error error = {""};
    side_set_job(side, params, &pinned[(round + WARM) % num_frames]);
    int64_t began = now_ns();
    if (side->backend->voxelize(side->lane, &side->job, &error) != VX_OK) {
      printf("%s: %s\n", preset_name(preset), error.text);
      exit(1);
    }
    for (int stage = 0; round >= 0 && stage < VX_STAGE_COUNT; stage++) {
      times[stage][round] = side->job.stage_ns[stage];
    }
    if (round >= 0) {
      times[VX_STAGE_COUNT][round] = now_ns() - began;
    }
  }
  print_row(preset_name(preset), &frames[0], side, times);
  for (int i = 0; i < num_frames; i++) {
    side->backend->host_free(side->device, pinned[i].points, (size_t)frames[i].num_points * row_bytes);
  }
}

// Scans whose names differ in their number alone.
static bool same_kind(const struct scan *a, const struct scan *b) {
  size_t a_length = strcspn(a->name, "0123456789"), b_length = strcspn(b->name, "0123456789");
  return a_length == b_length && strncmp(a->name, b->name, a_length) == 0 && strstr(a->name, "sweep") == NULL;
}

void time_presets(struct side *side, const struct presets *presets, const struct scan *scans, int num_scans) {
  printf("%-28s %-18s %7s %7s %8s %8s %8s %8s %8s %8s\n", "preset (median us)", "scan", "points", "voxels", "in",
         "device", "voxelize", "features", "out", "whole");
  for (size_t k = 0; k < presets_count(presets); k++) {
    const struct preset *preset = presets_at(presets, k);
    for (int i = 0, next; i < num_scans; i = next) {
      for (next = i + 1; next < num_scans && next - i < MAX_FRAMES && same_kind(&scans[i], &scans[next]);) next++;
      if (scans[i].columns == presets_request(preset)->job.num_features) {
        time_preset(side, preset, &scans[i], next - i);
      }
    }
  }
}
