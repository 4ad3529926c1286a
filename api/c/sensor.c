// A sensor process: posts scans to voxeld and prints a line for each.
//
//   sensor [-u URL] [-q QUERY] [-a CA_FILE] [-r HZ] [SCAN.bin...]
//
// Scans are the files, or without any the frames of the standard input: each a little-endian uint32 of its bytes, then its rows. The
// token is $VOXELD_TOKEN. Without -r every scan is sent, as soon as the one before is answered, and tried again where that may help.
// With -r there is one every 1/HZ s, as from a live sensor, which has nothing of old scans: one that the service has no room for is
// dropped, and so are those that come before Retry-After is over. SIGTERM and SIGINT end it; the last line counts.
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
}

struct scan {
  unsigned char *rows;  // kept for the next one
  size_t bytes, room;
};

struct counts {
  long sent, dropped;
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
  while (!stop && (left = time - now()) > 0) poll(NULL, 0, (int)(left * 1000) + 1);  // a signal ends it
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

static bool has_no_room(enum voxeld_status status, const struct voxeld_result *result) {
  return status == VOXELD_NO_ANSWER ||
         (status == VOXELD_REFUSED && (result->problem.status == 429 || result->problem.status == 503));
}

// One scan. False where there is no use in going on.
static bool post(struct voxeld_client *client, const char *query, const char *name, const struct scan *scan, bool live,
                 double *not_before, struct voxeld_result *result, struct counts *counts) {
  double begin = now();
  if (live && begin < *not_before) {
    counts->dropped++;
    printf("%s: dropped, before Retry-After is over\n", name);
    return true;
  }
  enum voxeld_status status = voxeld_voxelize(client, query, scan->rows, scan->bytes, result);
  if (status == VOXELD_OK) {
    counts->sent++;
    print_line(name, result, now() - begin);
    return true;
  }
  if (live && has_no_room(status, result)) {
    counts->dropped++;
    *not_before = now() + result->problem.retry_after_s;
    printf("%s: dropped, %s\n", name, result->error);
    return true;
  }
  if (status != VOXELD_STOPPED) fprintf(stderr, "sensor: %s: %s\n", name, result->error);
  return false;
}

// All scans, until there are no more, one cannot be read or sent, or a signal came. The exit status.
static int run(struct voxeld_client *client, const char *query, double rate, char **files, struct counts *counts) {
  struct voxeld_result result = {0};
  struct scan scan = {NULL, 0, 0};
  double next = now(), not_before = 0;
  bool fine = true, from_files = *files != NULL;
  char frame[32];
  for (long number = 1; fine && !stop; number++) {
    const char *name = from_files ? *files++ : frame;
    if (!name) break;
    if (!from_files) snprintf(frame, sizeof frame, "frame %ld", number);
    if (!(from_files ? (fine = read_file(name, &scan)) : read_frame(&scan, &fine))) break;
    if (rate > 0 && !sleep_until(next)) break;
    if (rate > 0) next = next + 1 / rate < now() ? now() : next + 1 / rate;
    fine = post(client, query, name, &scan, rate > 0, &not_before, &result, counts);
    fflush(stdout);
  }
  free(scan.rows);
  voxeld_result_free(&result);
  return fine || stop ? 0 : 1;
}

int main(int argc, char **argv) {
  struct voxeld_options options = voxeld_defaults("http://localhost:8080");
  const char *query = "preset=kitti_second";
  double rate = 0;
  for (int option; (option = getopt(argc, argv, "u:q:a:r:")) != -1;) {
    switch (option) {
      case 'u': options.url = optarg; break;
      case 'q': query = optarg; break;
      case 'a': options.ca_file = optarg; break;
      case 'r': rate = strtod(optarg, NULL); break;
      default: fprintf(stderr, "usage: sensor [-u URL] [-q QUERY] [-a CA_FILE] [-r HZ] [SCAN.bin...]\n"); return 2;
    }
  }
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;  // without SA_RESTART: a read of the standard input ends too
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  signal(SIGPIPE, SIG_IGN);

  options.token = getenv("VOXELD_TOKEN");
  options.stop = &stop;
  if (rate > 0) options.retries = 0;
  struct voxeld_client *client = voxeld_open(&options);
  if (!client) {
    fprintf(stderr, "sensor: there is no memory, or a URL or token that cannot be\n");
    return 2;
  }
  struct counts counts = {0, 0};
  int status = run(client, query, rate, argv + optind, &counts);
  printf("%ld scans sent, %ld dropped\n", counts.sent, counts.dropped);
  voxeld_close(client);
  return status;
}
