// A sensor process: posts scans to voxeld and prints a line for each.
//
//   sensor [-u URL] [-q QUERY] [-a CA_FILE] [-z METRES] [-r HZ] [-s STREAM -p POSES] [SCAN.bin...]
//
// Scans are files, or frames on the standard input: a little-endian uint32 with the number of bytes, then the rows. The
// token is $VOXELD_TOKEN.
//
// Without -r each scan is sent when the previous scan is answered, and is retried after temporary errors. With -r the
// program is a live sensor with a scan every 1/HZ s: files are sent at that rate, frames when they arrive. It never
// retries. It drops a scan after a temporary error, before Retry-After is over, or if the scan is more than 1/HZ s
// late.
//
// With -z scans are packed, for slow links: numbers are rounded to this resolution; with 0 nothing is lost. -q must
// then have num_features. With -z 0, if the preset or -q has time_field, -q must have time_field and fields.
//
// With -s each scan is a sweep of that stream, which begins anew; -q says how many sweeps are joined, for example
// sweeps=10. The file POSES has a line for each scan, as TUM writes it: time x y z qx qy qz qw. Times must rise. Empty
// lines and lines that begin with # are skipped. Sweeps that the service has lost are sent again.
//
// SIGTERM and SIGINT end the program. The exit status is 0; 1 if a request failed for good, or a scan cannot be read or
// packed; 2 for wrong usage or options. One thread.
#define VOXELD_CLIENT_IMPLEMENTATION
#include <errno.h>
#include <fcntl.h>
#include <math.h>
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

#define BAD_POSE "its pose must have the form: time x y z qx qy qz qw"

static volatile sig_atomic_t stop;

static void on_signal(int number) {
  (void)number;
  stop = 1;
}

struct scan {
  unsigned char *rows;
  size_t bytes, room;
};

enum input { INPUT_SCAN, INPUT_END, INPUT_BAD };  // the result of reading a scan

enum { MOST_SWEEPS = 32 };  // maximum sweeps of one stream that a service joins

// The sweeps to join, the newest first. Their rows lie one after the other.
struct history {
  struct scan rows;
  size_t count, most;
  size_t bytes[MOST_SWEEPS];
  struct voxeld_sent_sweep sweeps[MOST_SWEEPS];
};

struct counts {
  long sent, dropped;
};

struct sensor {
  struct voxeld_client *client;
  const char *query;
  double resolution;  // of packed scans; 0 = without loss, below 0 = scans are not packed
  struct voxeld_packed packed;
  const char *stream;  // NULL if scans do not belong to a stream
  FILE *poses;
  long line;                       // the last line of poses that was read
  char *stream_query;              // QUERY&stream=STREAM
  char *sweep_query;               // the query with the time and the pose of the current scan
  struct voxeld_sent_sweep sweep;  // the current scan
  struct history history;
  size_t sweep_room;
  bool from_files;
  double interval;    // seconds from one scan of a live sensor to the next; 0 = not live
  double due;         // when the last scan was due; 0 = there was none
  double not_before;  // when Retry-After is over
  struct counts counts;
};

// Like read(2), but returns -1 within 0.1 s once the program should stop.
static ssize_t read_some(int file, void *bytes, size_t room) {
  struct pollfd input = {.fd = file, .events = POLLIN};
  while (!stop && poll(&input, 1, 100) <= 0) continue;
  return stop ? -1 : read(file, bytes, room);
}

static bool reserve(struct scan *scan, size_t room) {
  if (room <= scan->room) return true;
  unsigned char *rows = realloc(scan->rows, room);
  if (!rows) return false;
  scan->rows = rows;
  scan->room = room;
  return true;
}

// Reads `wanted` bytes, or fewer at the end of the file. False after an error (errno is set) or once the program should
// stop.
static bool fill(struct scan *scan, int file, size_t wanted) {
  scan->bytes = 0;
  while (scan->bytes < wanted) {
    if (scan->bytes == scan->room && !reserve(scan, scan->room ? scan->room * 2 : 1 << 20)) return false;
    size_t most = scan->room < wanted ? scan->room : wanted;
    ssize_t got = read_some(file, scan->rows + scan->bytes, most - scan->bytes);
    if (got < 0) return false;
    if (got == 0) return true;
    scan->bytes += (size_t)got;
  }
  return true;
}

static enum input complain(const char *name, const char *reason) {
  if (!stop) fprintf(stderr, "sensor: %s: %s\n", name, reason);
  return INPUT_BAD;
}

static enum input read_file(const char *path, struct scan *scan) {
  int file = open(path, O_RDONLY);
  enum input input = file >= 0 && fill(scan, file, SIZE_MAX) ? INPUT_SCAN : complain(path, strerror(errno));
  if (file >= 0) close(file);
  return input;
}

static enum input read_frame(const char *name, struct scan *scan) {
  uint32_t bytes = 0;
  if (!fill(scan, STDIN_FILENO, sizeof bytes)) return complain(name, strerror(errno));
  if (scan->bytes == 0) return INPUT_END;
  bool whole = scan->bytes == sizeof bytes;
  if (whole) {
    memcpy(&bytes, scan->rows, sizeof bytes);
    if (!fill(scan, STDIN_FILENO, bytes)) return complain(name, strerror(errno));
    whole = scan->bytes == bytes;
  }
  return whole ? INPUT_SCAN : complain(name, "the frame is truncated");
}

// The service would replace a sweep that has the same time, and so join one sweep fewer than were sent.
static enum input refuse_time(const struct sensor *sensor, const char *name) {
  char reason[96];
  snprintf(reason, sizeof reason, "line %ld of the poses: its time is not after the previous time", sensor->line);
  return complain(name, reason);
}

// Reads the next line of the poses into the query. The file has w of the quaternion last, the service takes w first.
static enum input read_pose(struct sensor *sensor, const char *name) {
  char line[512], *at, *end;
  do {
    if (!fgets(line, sizeof line, sensor->poses)) return complain(name, "there is no pose for it");
    sensor->line++;
    at = line + strspn(line, " \t\r\n");
  } while (!*at || *at == '#');
  double numbers[8];
  for (int i = 0; i < 8; i++, at = end) {
    numbers[i] = strtod(at, &end);
    if (end == at) return complain(name, BAD_POSE);
  }
  if (at[strspn(at, " \t\r\n")]) return complain(name, BAD_POSE);
  const double *n = numbers;
  bool rises = !(n[0] <= sensor->sweep.time);  // the service refuses numbers that are not finite
  sensor->sweep = (struct voxeld_sent_sweep){0, n[0], {n[1], n[2], n[3], n[7], n[4], n[5], n[6]}};
  bool fits =
      voxeld_sweep_query(sensor->stream_query, n[0], sensor->sweep.pose, sensor->sweep_query, sensor->sweep_room);
  if (!fits) return complain(name, BAD_POSE);
  return rises ? INPUT_SCAN : refuse_time(sensor, name);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

// Sleeps until `time`. False once the program should stop.
static bool sleep_until(double time) {
  double left;
  while (!stop && (left = time - now()) > 0) poll(NULL, 0, left < 0.1 ? (int)(left * 1000) + 1 : 100);
  return !stop;
}

static size_t joined_sweeps(const struct voxeld_result *result) {
  struct voxeld_sweep sweep;
  size_t count = 0;
  while (voxeld_joined(result, count, &sweep)) count++;
  return count;
}

static void print_line(const char *name, const struct voxeld_result *result, double seconds) {
  static const char *const fates[] = {
      "kept", "not_finite", "out_of_range", "over_max_points_per_voxel", "over_max_voxels", "block_filtered"};
  printf("%s: %.0f voxels; %.0f points:", name, voxeld_number(result, "voxels", "kept"),
         voxeld_number(result, "points", "received"));
  for (size_t i = 0; i < sizeof fates / sizeof *fates; i++)
    printf(" %s %.0f", fates[i], voxeld_number(result, "points", fates[i]));
  if (joined_sweeps(result)) printf("; %zu sweeps", joined_sweeps(result));
  printf("; %.1f ms\n", seconds * 1e3);
  const char *kind, *detail;
  for (size_t i = 0; (detail = voxeld_warning(result, i, &kind)); i++)
    fprintf(stderr, "sensor: %s: warning: %s: %s\n", name, kind, detail);
}

static void drop(const char *name, const char *reason, struct counts *counts) {
  counts->dropped++;
  printf("%s: dropped, %s\n", name, reason);
}

static enum voxeld_status send_rows(struct sensor *sensor, const char *query, const struct scan *rows,
                                    struct voxeld_result *result) {
  struct voxeld_packed *packed = &sensor->packed;
  if (sensor->resolution < 0) return voxeld_voxelize(sensor->client, query, rows->rows, rows->bytes, result);
  if (voxeld_pack_points(query, rows->rows, rows->bytes, sensor->resolution, packed))
    return voxeld_voxelize(sensor->client, packed->query, packed->body, packed->bytes, result);
  snprintf(result->error, sizeof result->error, "%s", packed->error);
  result->temporary = false;
  return VOXELD_FAILED;
}

// ---- sweeps that the service has lost -------------------------------------------------------------------------------

// Puts the answered scan before the earlier sweeps. False if there is no memory.
static bool remember(struct sensor *sensor, const struct scan *scan, size_t points) {
  struct history *history = &sensor->history;
  struct scan *rows = &history->rows;
  if (history->count == history->most) rows->bytes -= history->bytes[--history->count];
  if (!reserve(rows, rows->bytes + scan->bytes)) return false;
  if (rows->bytes) memmove(rows->rows + scan->bytes, rows->rows, rows->bytes);
  if (scan->bytes) memcpy(rows->rows, scan->rows, scan->bytes);
  rows->bytes += scan->bytes;
  memmove(history->bytes + 1, history->bytes, history->count * sizeof *history->bytes);
  memmove(history->sweeps + 1, history->sweeps, history->count * sizeof *history->sweeps);
  history->bytes[0] = scan->bytes;
  history->sweeps[0] = sensor->sweep;
  history->sweeps[0].points = points;
  history->count++;
  return true;
}

// Counts the joined sweeps of this sensor, and gets the points of the newest. -q may name other streams too.
static size_t own_sweeps(const struct sensor *sensor, const struct voxeld_result *result, size_t *points) {
  struct voxeld_sweep sweep;
  size_t own = 0;
  for (size_t i = 0; voxeld_joined(result, i, &sweep); i++)
    if (strcmp(sweep.stream, sensor->stream) == 0 && own++ == 0) *points = (size_t)sweep.received;
  return own;
}

// Sends all kept sweeps in one body. If the service takes them, its answer becomes the result.
static void send_again(struct sensor *sensor, const char *name, struct voxeld_result *result) {
  const struct history *history = &sensor->history;
  struct voxeld_result again = {0}, before;
  fprintf(stderr, "sensor: %s: the service has lost sweeps; they are sent again\n", name);
  bool fits = voxeld_sweeps_query(sensor->stream_query, history->sweeps, history->count, sensor->sweep_query,
                                  sensor->sweep_room);
  if (fits && send_rows(sensor, sensor->sweep_query, &history->rows, &again) == VOXELD_OK) {
    before = *result;
    *result = again;
    again = before;
  } else if (!stop) {
    fprintf(stderr, "sensor: %s: %s\n", name, again.error);
  }
  voxeld_result_free(&again);
}

// Keeps an answered scan, and sends the sweeps again if the service has lost some. False if the program should end.
static bool keep_sweep(struct sensor *sensor, const char *name, const struct scan *scan, struct voxeld_result *result) {
  size_t points = 0, own = own_sweeps(sensor, result, &points);
  if (!remember(sensor, scan, points)) {
    complain(name, "out of memory");
    return false;
  }
  // Evicted sweeps would find no room again, and expired sweeps are too old.
  bool had_room = voxeld_number(result, "stream", "evicted") <= 0 && voxeld_number(result, "stream", "expired") <= 0;
  if (own < sensor->history.count && had_room) send_again(sensor, name, result);
  return true;
}

static bool post(struct sensor *sensor, const char *name, const struct scan *scan, struct voxeld_result *result) {
  double begin = now();
  const char *query = sensor->stream ? sensor->sweep_query : sensor->query;
  enum voxeld_status status = send_rows(sensor, query, scan, result);
  if (status == VOXELD_OK) {
    sensor->counts.sent++;
    if (sensor->stream && !keep_sweep(sensor, name, scan, result)) return false;
    print_line(name, result, now() - begin);
    if (sensor->resolution >= 0 && scan->bytes)
      printf("%s: packed into %.1f %%, largest error %g\n", name,
             100.0 * (double)sensor->packed.bytes / (double)scan->bytes, sensor->packed.largest_error);
    return true;
  }
  if (sensor->interval > 0 && result->temporary) {
    drop(name, result->error, &sensor->counts);
    sensor->not_before = now() + result->problem.retry_after_s;
    return true;
  }
  if (status != VOXELD_STOPPED) fprintf(stderr, "sensor: %s: %s\n", name, result->error);
  return false;
}

// Waits until a live sensor's scan is due. Reading it began at `asked`. False if it is dropped or a signal came.
static bool await_turn(struct sensor *sensor, const char *name, double asked) {
  double came = now();
  // A frame that the program had to wait for is due now. A frame that came without waiting may have been in a pipe, so
  // it was due one interval after the previous frame.
  bool waited_for = !sensor->from_files && came - asked > sensor->interval / 10;
  sensor->due = sensor->due <= 0 || waited_for ? came : sensor->due + sensor->interval;
  if (sensor->from_files && !sleep_until(sensor->due)) return false;
  if (now() > sensor->due + sensor->interval) {
    drop(name, "late", &sensor->counts);
    return false;
  }
  if (now() < sensor->not_before) {
    drop(name, "before Retry-After is over", &sensor->counts);
    return false;
  }
  return true;
}

// The service would refuse a sweep with a time before those of an earlier run. False if the program should end.
static bool begin_stream(struct sensor *sensor, struct voxeld_result *result) {
  enum voxeld_status status = voxeld_delete_stream(sensor->client, sensor->stream, result);
  bool fine = status == VOXELD_OK || result->problem.status == 404 || (sensor->interval > 0 && result->temporary);
  if (!fine && status != VOXELD_STOPPED) fprintf(stderr, "sensor: stream %s: %s\n", sensor->stream, result->error);
  return fine;
}

// False with errno.
static bool open_stream(struct sensor *sensor, const char *poses) {
  size_t length = strlen(sensor->query) + strlen(sensor->stream) + sizeof "&stream=";
  const char *sweeps = strstr(sensor->query, "sweeps=");
  long joined = sweeps ? strtol(sweeps + strlen("sweeps="), NULL, 10) : 1;
  sensor->history.most = joined > 1 && joined <= MOST_SWEEPS ? (size_t)joined : 1;
  sensor->sweep_room = length + sensor->history.most * VOXELD_SWEEP_ROOM;
  sensor->stream_query = malloc(length);
  sensor->sweep_query = malloc(sensor->sweep_room);
  if (!sensor->stream_query || !sensor->sweep_query) return false;
  snprintf(sensor->stream_query, length, "%s&stream=%s", sensor->query, sensor->stream);
  sensor->poses = fopen(poses, "r");
  return sensor->poses != NULL;
}

static void close_stream(struct sensor *sensor) {
  if (sensor->poses) fclose(sensor->poses);
  free(sensor->stream_query);
  free(sensor->sweep_query);
  free(sensor->history.rows.rows);
}

// Returns the exit status.
static int run(struct sensor *sensor, char **files) {
  struct voxeld_result result = {0};
  struct scan scan = {NULL, 0, 0};
  enum input input = INPUT_SCAN;
  bool fine = !sensor->stream || begin_stream(sensor, &result);
  char frame[32];
  for (long number = 1; fine && !stop; number++) {
    double asked = now();
    const char *name = sensor->from_files ? *files++ : frame;
    if (!name) break;
    snprintf(frame, sizeof frame, "frame %ld", number);
    input = sensor->from_files ? read_file(name, &scan) : read_frame(name, &scan);
    if (input == INPUT_SCAN && sensor->stream) input = read_pose(sensor, name);
    if (input != INPUT_SCAN) break;
    if (sensor->interval <= 0 || await_turn(sensor, name, asked)) fine = post(sensor, name, &scan, &result);
    fflush(stdout);
  }
  free(scan.rows);
  voxeld_result_free(&result);
  return (fine && input != INPUT_BAD) || stop ? 0 : 1;
}

// Sets the seconds between scans. False if the text is not a rate in scans per second.
static bool parse_rate(const char *text, double *interval) {
  char *end;
  double rate = strtod(text, &end);
  *interval = 1 / rate;
  return end != text && *end == 0 && rate > 0 && isfinite(rate) && isfinite(*interval);
}

static bool parse_resolution(const char *text, double *resolution) {
  char *end;
  *resolution = strtod(text, &end);
  return end != text && *end == 0 && *resolution >= 0 && isfinite(*resolution);
}

static const char usage[] =
    "usage: sensor [-u URL] [-q QUERY] [-a CA_FILE] [-z METRES] [-r HZ] [-s STREAM -p POSES] [SCAN.bin...]\n"
    "HZ is above 0; METRES is 0 or more\n"
    "POSES has a line for each scan: time x y z qx qy qz qw\n";

int main(int argc, char **argv) {
  struct voxeld_options options = voxeld_defaults("http://localhost:8080");
  struct sensor sensor = {.query = "preset=kitti_second", .resolution = -1, .sweep = {.time = -INFINITY}};
  const char *poses = NULL;
  bool fine = true;
  for (int option; (option = getopt(argc, argv, "u:q:a:z:r:s:p:")) != -1;) {
    switch (option) {
      case 'u': options.url = optarg; break;
      case 'q': sensor.query = optarg; break;
      case 'a': options.ca_file = optarg; break;
      case 'z': fine = parse_resolution(optarg, &sensor.resolution) && fine; break;
      case 'r': fine = parse_rate(optarg, &sensor.interval) && fine; break;
      case 's': sensor.stream = optarg; break;
      case 'p': poses = optarg; break;
      default: fine = false;
    }
  }
  if (!fine || !sensor.stream != !poses) {
    fputs(usage, stderr);
    return 2;
  }
  if (sensor.stream && !open_stream(&sensor, poses)) {
    fprintf(stderr, "sensor: %s: %s\n", poses, strerror(errno));
    close_stream(&sensor);
    return 2;
  }
  sensor.from_files = optind < argc;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;  // without SA_RESTART, so that waiting calls end
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  signal(SIGPIPE, SIG_IGN);

  options.token = getenv("VOXELD_TOKEN");
  options.stop = &stop;
  if (sensor.resolution >= 0) options.encoding = "deflate";
  if (sensor.interval > 0) options.retries = 0;
  sensor.client = voxeld_open(&options);
  if (!sensor.client) {
    fprintf(stderr, "sensor: out of memory, or the URL or the token cannot be used\n");
    close_stream(&sensor);
    return 2;
  }
  int status = run(&sensor, argv + optind);
  printf("%ld scans sent, %ld dropped\n", sensor.counts.sent, sensor.counts.dropped);
  voxeld_close(sensor.client);
  voxeld_packed_free(&sensor.packed);
  close_stream(&sensor);
  return status;
}
