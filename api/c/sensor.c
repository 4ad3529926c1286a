// A sensor process: posts scans to voxeld and prints a line for each.
//
//   sensor [-u URL] [-q QUERY] [-a CA_FILE] [-r HZ] [SCAN.bin...]
//
// Scans are the files, or without any the frames of the standard input: each a little-endian uint32 of its bytes, then its rows. The
// token is $VOXELD_TOKEN. Without -r every scan is sent, as soon as the one before is answered, and tried again where that may help.
// With -r there is one every 1/HZ s, as from a live sensor, to which old scans are worth nothing: one that the service has no room
// for or does not answer is dropped, and so are those that come before Retry-After is over, or late by more than that time. SIGTERM
// and SIGINT end it; the last line counts.
// Ends with 0; with 1 where a request was refused for good or a scan cannot be read; 2: usage. One thread.
#define VOXELD_CLIENT_IMPLEMENTATION
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <voxeld_client.h>

static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
  close(STDIN_FILENO);  // so that a read that begins after this does not wait either
}

struct scan {
  unsigned char *rows;  // kept for the next one
  size_t bytes, room;
};

struct counts {
  long sent, dropped;
};

struct sensor {
  struct voxeld_client *client;
  const char *query;
  double rate;        // scans a second of a live sensor; 0: each when the one before is answered
  double begin;       // when its first scan came
  double not_before;  // when the service wants the next one
  struct counts counts;
};

// Reads up to `bytes`, or to the end where that is 0. False at an error, for which errno is set, and where memory is out.
static bool read_rows(FILE *file, size_t bytes, struct scan *scan) {
  scan->bytes = 0;
  for (;;) {
    size_t wanted = bytes ? bytes - scan->bytes : 1 << 20;
    if (wanted > scan->room - scan->bytes) {
      unsigned char *rows = realloc(scan->rows, scan->bytes + wanted);
      if (!rows) return false;
      scan->rows = rows;
      scan->room = scan->bytes + wanted;
    }
    size_t got = fread(scan->rows + scan->bytes, 1, wanted, file);
    scan->bytes += got;
    if (ferror(file)) return false;
    if (got < wanted || (bytes && scan->bytes == bytes)) return true;
  }
}

static bool read_file(const char *path, struct scan *scan) {
  FILE *file = fopen(path, "rb");
  bool whole = file && read_rows(file, 0, scan);
  if (!whole) fprintf(stderr, "sensor: %s: %s\n", path, strerror(errno));
  if (file) fclose(file);
  return whole;
}

// The next frame of the standard input. False at its end, or where it is cut; *whole tells which.
static bool read_frame(struct scan *scan, bool *whole) {
  uint32_t bytes = 0;
  size_t got = fread(&bytes, 1, sizeof bytes, stdin);
  *whole = got == 0 && !ferror(stdin);
  if (got < sizeof bytes) {
    if (!*whole && !stop) fprintf(stderr, "sensor: the last frame is cut\n");
    return false;
  }
  if (bytes == 0) {
    scan->bytes = 0;
    return true;
  }
  if (read_rows(stdin, bytes, scan) && scan->bytes == bytes) return true;
  if (!stop) fprintf(stderr, "sensor: a frame of %lu bytes is cut\n", (unsigned long)bytes);
  return false;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// False once it is time to stop.
static bool sleep_until(double time) {
  double left;
  while (!stop && (left = time - now()) > 0) poll(NULL, 0, left < 0.1 ? (int)(left * 1000) + 1 : 100);
  return !stop;
}

static void print_line(const char *name, const struct voxeld_result *result, double seconds) {
  static const char *const fates[] = {
      "kept", "not_finite", "out_of_range", "over_max_points_per_voxel", "over_max_voxels", "block_filtered"};
  printf("%s: %.0f voxels; %.0f points:", name, voxeld_number(result, "voxels", "kept"),
         voxeld_number(result, "points", "received"));
  for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
    printf(" %s %.0f", fates[i], voxeld_number(result, "points", fates[i]));
  }
  printf("; %.1f ms\n", seconds * 1e3);
}

// Whether the next scan may find what this one did not.
static bool may_pass(enum voxeld_status status, const struct voxeld_result *result) {
  return status == VOXELD_NO_ANSWER ||
         (status == VOXELD_REFUSED && (result->problem.status == 429 || result->problem.status == 503));
}

static void drop(const char *name, const char *reason, struct counts *counts) {
  counts->dropped++;
  printf("%s: dropped, %s\n", name, reason);
}

// One scan. False where there is no use in going on.
static bool post(struct sensor *sensor, const char *name, const struct scan *scan, struct voxeld_result *result) {
  double begin = now();
  enum voxeld_status status = voxeld_voxelize(sensor->client, sensor->query, scan->rows, scan->bytes, result);
  if (status == VOXELD_OK) {
    sensor->counts.sent++;
    print_line(name, result, now() - begin);
    return true;
  }
  if (sensor->rate > 0 && may_pass(status, result)) {
    drop(name, result->error, &sensor->counts);
    sensor->not_before = now() + result->problem.retry_after_s;
    return true;
  }
  if (status != VOXELD_STOPPED) fprintf(stderr, "sensor: %s: %s\n", name, result->error);
  return false;
}

// Waits until a live sensor's scan is due. False where it is not to be sent: it was dropped, or a signal came.
static bool await_turn(struct sensor *sensor, const char *name, long number) {
  if (number == 1) sensor->begin = now();
  double due = sensor->begin + (double)(number - 1) / sensor->rate;
  if (!sleep_until(due)) return false;
  if (now() > due + 1 / sensor->rate) {
    drop(name, "late", &sensor->counts);
    return false;
  }
  if (now() < sensor->not_before) {
    drop(name, "before Retry-After is over", &sensor->counts);
    return false;
  }
  return true;
}

// All scans, until there are no more, one cannot be read or sent, or a signal came. The exit status.
static int run(struct sensor *sensor, char **files) {
  struct voxeld_result result = {0};
  struct scan scan = {NULL, 0, 0};
  bool fine = true, from_files = *files != NULL;
  char frame[32];
  for (long number = 1; fine && !stop; number++) {
    const char *name = from_files ? *files++ : frame;
    if (!name) break;
    if (!from_files) snprintf(frame, sizeof frame, "frame %ld", number);
    if (!(from_files ? (fine = read_file(name, &scan)) : read_frame(&scan, &fine))) break;
    if (sensor->rate <= 0 || await_turn(sensor, name, number)) fine = post(sensor, name, &scan, &result);
    fflush(stdout);
  }
  free(scan.rows);
  voxeld_result_free(&result);
  return fine || stop ? 0 : 1;
}

int main(int argc, char **argv) {
  struct voxeld_options options = voxeld_defaults("http://localhost:8080");
  struct sensor sensor = {.query = "preset=kitti_second"};
  for (int option; (option = getopt(argc, argv, "u:q:a:r:")) != -1;) {
    switch (option) {
      case 'u': options.url = optarg; break;
      case 'q': sensor.query = optarg; break;
      case 'a': options.ca_file = optarg; break;
      case 'r': sensor.rate = strtod(optarg, NULL); break;
      default: fprintf(stderr, "usage: sensor [-u URL] [-q QUERY] [-a CA_FILE] [-r HZ] [SCAN.bin...]\n"); return 2;
    }
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;  // without SA_RESTART: a read that waits ends too
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  signal(SIGPIPE, SIG_IGN);

  options.token = getenv("VOXELD_TOKEN");
  options.stop = &stop;
  if (sensor.rate > 0) options.retries = 0;
  sensor.client = voxeld_open(&options);
  if (!sensor.client) {
    fprintf(stderr, "sensor: there is no memory, or a URL or token that cannot be\n");
    return 2;
  }
  int status = run(&sensor, argv + optind);
  printf("%ld scans sent, %ld dropped\n", sensor.counts.sent, sensor.counts.dropped);
  voxeld_close(sensor.client);
  return status;
}
