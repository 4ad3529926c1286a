// cuda-calls-emulated: how often a warm request whose points and answer lie in GPU memory calls CUDA, on the emulated
// GPU. On a GPU each call takes microseconds of the request, so the counts must not grow unnoticed.
//
// Does what the server does for such a request (server/jobs/run.c), in the same order. Exit code 1 if a count differs,
// or if what was copied is wrong. One thread.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/presets.h"
#include "kernels/backends.h"
#include "tests/support/emulator/calls.h"
#include "tests/support/jobs.h"

enum { POINTS = 3000, COLUMNS = 4, HEAD = 1792, PIECES = 256, ROOM = 1 << 20, ROUNDS = 3 };
#define ROW (COLUMNS * sizeof(float))

static const struct emulated_calls expected = {
    .launches = 7,  // six kernels of the job, and the sample's
    .copies = 0,
    .waits = 0,
    .lookups = 6,  // of both ends of the points, of the tensors and of the header
    .allocations = 0,
    .devices = 3,
};

static const struct vx_backend *const gpu = &vx_cuda_backend;
static struct vx_device *device;
static struct vx_lane *lane;
static float *points;
static unsigned char *answer;
static char *head;  // of the answer
static struct vx_piece piece[PIECES];
static bool looked, wrong;

static void die(const char *what) {
  fprintf(stderr, "%s\n", what);
  exit(EXIT_FAILURE);
}

static void look(void *ctx) {
  const char *sample;
  struct error error;
  (void)ctx;
  if (looked) return;
  looked = true;
  if (gpu->block_await(lane, &sample, &error) != VX_OK) die(error.text);
  for (int i = 0; i < PIECES; i++)
    wrong |= memcmp(sample + piece[i].to, (const char *)points + piece[i].from, piece[i].bytes) != 0;
}

static enum vx_status give_output(void *ctx, const struct vx_layout *layout, void **block, struct error *error) {
  look(ctx);
  if (layout->bytes > ROOM - HEAD) return vx_refuse(error, "the test has no room");
  *block = answer + HEAD;
  struct vx_job *job = ctx;
  memset(head, *job->row_counts % 128, HEAD);
  job->head = head;
  job->head_bytes = HEAD;
  return VX_OK;
}

static const struct vx_caller caller = {.output = give_output, .waiting = look};

static void request(const struct vx_job *asked) {
  const int32_t count = POINTS;
  int32_t rows;
  struct error error;
  struct vx_job job = job_over(asked, points, 1, &count);
  job.row_counts = &rows;
  job.caller = &caller;
  job.pinned = true;
  job.ctx = &job;
  looked = false;
  if (gpu->block_sample(lane, points, piece, PIECES, &error) != VX_OK) die(error.text);
  if (gpu->run(lane, &job, &error) != VX_OK) die(error.text);
  wrong |= rows == 0 || !looked || head[0] != rows % 128 || memcmp(answer, head, HEAD) != 0;
}

int main(void) {
  struct error error;
  struct presets *presets = presets_load("", &error);
  const struct preset *preset = presets ? presets_find(presets, "kitti_second") : NULL;
  if (!preset || gpu->open(0, &device, &error) != VX_OK ||
      gpu->lane_open(device, VX_LANE_QUICK, &lane, &error) != VX_OK)
    die("there is no preset, or no device");
  points = aligned_alloc(4096, (POINTS * ROW / 4096 + 1) * 4096);
  answer = aligned_alloc(4096, ROOM);
  head = gpu->host_alloc(device, HEAD);
  if (!points || !answer || !head) die("no memory");
  for (int i = 0; i < POINTS * COLUMNS; i++) points[i] = (float)(i * 7919 % 5000) / 100;
  for (uint32_t i = 0; i < PIECES; i++) piece[i] = (struct vx_piece){(uint64_t)i * 11 * ROW, i * ROW, ROW};
  for (int round = 0; round < ROUNDS; round++) {
    emulated_calls = (struct emulated_calls){0};
    request(&presets_request(preset)->job);
  }
  const struct emulated_calls *found = &emulated_calls;
  bool same = memcmp(found, &expected, sizeof expected) == 0;
  printf("a warm request: %d launches, %d copies, %d waits, %d lookups, %d allocations, %d devices%s%s\n",
         found->launches, found->copies, found->waits, found->lookups, found->allocations, found->devices,
         same ? "" : ": not as expected", wrong ? "; what was copied is wrong" : "");
  gpu->lane_close(lane);
  gpu->host_release(device, head, HEAD);
  gpu->close(device);
  presets_close(presets);
  free(points);
  free(answer);
  return same && !wrong ? EXIT_SUCCESS : EXIT_FAILURE;
}
