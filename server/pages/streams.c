// The pages of streams; see pages.h.
#include "server/pages/pages.h"

#include "api/base/json_write.h"
#include "server/jobs/held.h"
#include "server/jobs/sweeps.h"

const struct page_header streams_headers[] = {
    {"Cache-Control", "no-store"}, {"Connection", "close"}, {"X-Accel-Buffering", "no"}, {NULL, NULL}};

bool streams_write_status(const struct page_asked *asked, struct text *out, struct error *error) {
  return streams_write(&asked->service->jobs.streams, asked->client, asked->name[0] ? asked->name : NULL, out, error);
}

bool streams_act_delete(const struct page_asked *asked, struct error *error) {
  return streams_delete(&asked->service->jobs.streams, asked->client, asked->name, error);
}

bool streams_follow(const struct page_asked *asked, struct subscriber *subscriber, struct error *error) {
  return streams_subscribe(&asked->service->jobs.streams, asked->client, asked->name, subscriber, error);
}

// ---- the last points ------------------------------------------------------------------------------------------------

// The file: 8 bytes for the header's length, the header, then the rows, at a multiple of 64 bytes.
enum { LAST_HEADER = 16384 - 8 };  // bytes: the report of JOINED_SWEEPS_MAX sweeps fits

static void write_header(const struct join_report *report, const struct stream_terms *terms, const struct pose *pose,
                         int64_t rows, int32_t columns, struct text *out) {
  const double *r = pose->rotation, *t = pose->translation;
  json_printf(out, "{__metadata__:{voxeld:");
  json_begin_string(out);
  json_printf(out, "{stream:");
  join_report_write(report, terms, NULL, out);
  json_printf(out, "pose:[%g %g %g %g %g %g %g %g %g %g %g %g 0 0 0 1]}", r[0], r[1], r[2], t[0], r[3], r[4], r[5],
              t[1], r[6], r[7], r[8], t[2]);
  json_end(out);
  json_printf(out, "}points:{dtype:'F32' shape:[%ld %d] data_offsets:[0 %ld]}}", rows, columns,
              rows * columns * (int64_t)sizeof(float));
}

// The length of the file if no point is removed.
static size_t last_bytes(const struct gathered *gathered, const struct stream_terms *terms,
                         const struct sweep_shape *shape) {
  size_t row = (size_t)(shape->columns + terms->time_column) * sizeof(float);
  return 8 + LAST_HEADER + (size_t)sweeps_rows(gathered) * row;
}

// The job's output has room for all rows.
static bool fill(struct job *job, const struct gathered *gathered, const struct stream_terms *terms,
                 const struct sweep_shape *shape) {
  const size_t lead = 8 + LAST_HEADER;
  char *data = job->held.output->data;
  int32_t columns = shape->columns + terms->time_column;
  struct join_report report;
  int64_t rows = 0;
  sweeps_write(gathered, terms, shape, &job->stop, (float *)(void *)(data + lead), &report);
  if (job_is_stopped(job)) return job_refuse_stopped(job, "the deadline passed while the file was made");
  for (int32_t i = 0; i < report.count; i++) rows += report.sweeps[i].points.joined;
  for (int i = 0; i < 8; i++) data[i] = (char)((uint64_t)LAST_HEADER >> 8 * i & 0xff);
  struct text header = text_over(data + 8, LAST_HEADER);
  write_header(&report, terms, &gathered->newest->place, rows, columns, &header);
  if (!text_complete(&header))
    return error_refuse(&job->result.error, ERROR_DEFECT, NULL, "the header of the file has %zu bytes", header.length);
  for (size_t i = header.length; i < LAST_HEADER; i++) data[8 + i] = ' ';
  job->result.length = lead + (size_t)rows * (size_t)columns * sizeof(float);
  return true;
}

bool streams_fill_last(const struct page_asked *asked, struct job *job) {
  struct streams *streams = &asked->service->jobs.streams;
  struct gathered gathered;
  struct stream_terms terms;
  struct sweep_shape shape;
  if (!gather_last(streams, job->client, asked->name, &gathered, &terms, &shape, &job->result.error)) return false;
  bool good = job_acquire_output(job, last_bytes(&gathered, &terms, &shape)) && fill(job, &gathered, &terms, &shape);
  gathered_release(streams, &gathered);
  return good;
}

bool streams_measure_last(const struct page_asked *asked, int64_t *length, struct error *error) {
  struct streams *streams = &asked->service->jobs.streams;
  struct gathered gathered;
  struct stream_terms terms;
  struct sweep_shape shape;
  if (!gather_last(streams, asked->client, asked->name, &gathered, &terms, &shape, error)) return false;
  *length = terms.remove_close > 0 ? -1 : (int64_t)last_bytes(&gathered, &terms, &shape);
  gathered_release(streams, &gathered);
  return true;
}
