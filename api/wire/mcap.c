// Writes MCAP files (mcap.dev); see wire.h.
#include "api/wire/wire.h"

#include <string.h>

#include "api/base/bytes.h"
#include "api/wire/pointcloud2_write.h"

enum record {
  HEADER = 1,
  FOOTER = 2,
  SCHEMA = 3,
  CHANNEL = 4,
  MESSAGE = 5,
  CHUNK = 6,
  MESSAGE_INDEX = 7,
  CHUNK_INDEX = 8,
  STATISTICS = 11,
  METADATA = 12,
  METADATA_INDEX = 13,
  DATA_END = 15,
};
enum { SCHEMA_ID = 1, LENGTH_BYTES = 8 };
static const char magic[] = {(char)0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n'};

// Between the clouds of a batch: viewers play them one after another.
static const int64_t cloud_ns = 100000000;

// A file that is being written. Offsets count from its beginning.
struct file {
  const struct answer *answer;
  const struct vx_layout *layout;
  const char *tensors;
  struct text *out;
  size_t chunk, chunk_end, records;  // offsets of the chunk's record, its end, its first record
  size_t indexes[TOPICS], indexes_end;
  size_t messages[TOPICS][VX_MAX_CLOUDS];  // offsets from `records`
  size_t metadata, metadata_end;
};

// ---- records --------------------------------------------------------------------------------------------------------

// Begins a part that starts with its own length, for length_end to fill in.
static size_t length_begin(struct text *out, int bytes) {
  bytes_put(out, 0, bytes);
  return out->length;
}

static void length_end(struct text *out, size_t begin, int bytes) {
  bytes_patch(out, begin - (size_t)bytes, out->length - begin, bytes);
}

static size_t record_begin(struct text *out, enum record record) {
  bytes_put(out, record, 1);
  return length_begin(out, LENGTH_BYTES);
}

static void record_end(struct text *out, size_t begin) { length_end(out, begin, LENGTH_BYTES); }

static void put_string(struct text *out, const char *string) {
  bytes_put(out, strlen(string), 4);
  text_put(out, string);
}

static bool has(const struct file *file, int topic) { return pointcloud2_has(file->layout, &topics[topic]); }

// From 1: some readers take channel 0 for no channel.
static uint64_t channel_of(int topic) { return (uint64_t)topic + 1; }

static uint64_t number_of_topics(const struct file *file) {
  uint64_t number = 0;
  for (int i = 0; i < TOPICS; i++) number += has(file, i);
  return number;
}

static void put_schema(struct text *out) {
  size_t begin = record_begin(out, SCHEMA);
  bytes_put(out, SCHEMA_ID, 2);
  put_string(out, POINTCLOUD2_NAME);
  put_string(out, "ros2msg");
  put_string(out, pointcloud2_definition);
  record_end(out, begin);
}

static void put_channels(const struct file *file) {
  struct text *out = file->out;
  for (int i = 0; i < TOPICS; i++) {
    if (!has(file, i)) continue;
    size_t begin = record_begin(out, CHANNEL);
    bytes_put(out, channel_of(i), 2);
    bytes_put(out, SCHEMA_ID, 2);
    put_string(out, topics[i].name);
    put_string(out, "cdr");
    bytes_put(out, 0, 4);  // bytes of metadata
    record_end(out, begin);
  }
}

// ---- the data -------------------------------------------------------------------------------------------------------

static int64_t time_of(const struct file *file, int32_t cloud) { return file->answer->began_ns + cloud * cloud_ns; }
static int32_t last_cloud(const struct file *file) { return file->answer->job->num_clouds - 1; }

static void put_times(const struct file *file) {
  bytes_put(file->out, (uint64_t)time_of(file, 0), 8);
  bytes_put(file->out, (uint64_t)time_of(file, last_cloud(file)), 8);
}

static bool put_messages(struct file *file, int topic) {
  struct text *out = file->out;
  int64_t first = 0;
  for (int32_t cloud = 0; cloud <= last_cloud(file); cloud++) {
    int64_t time = time_of(file, cloud);
    file->messages[topic][cloud] = out->length - file->records;
    size_t begin = record_begin(out, MESSAGE);
    bytes_put(out, channel_of(topic), 2);
    bytes_put(out, (uint64_t)cloud, 4);
    bytes_put(out, (uint64_t)time, 8);
    bytes_put(out, (uint64_t)time, 8);
    if (!pointcloud2_write(file->answer, file->layout, &topics[topic], file->tensors, cloud, &first, time, out))
      return false;
    record_end(out, begin);
  }
  return true;
}

static bool put_chunk(struct file *file) {
  struct text *out = file->out;
  bool good = true;
  file->chunk = out->length;
  size_t begin = record_begin(out, CHUNK);
  put_times(file);
  size_t uncompressed = length_begin(out, 8);
  bytes_put(out, 0, 4);  // no checksum
  put_string(out, "");   // no compression
  file->records = length_begin(out, 8);
  put_schema(out);
  put_channels(file);
  for (int i = 0; i < TOPICS; i++) good = good && (!has(file, i) || put_messages(file, i));
  length_end(out, file->records, 8);
  bytes_patch(out, uncompressed - 8, out->length - file->records, 8);
  record_end(out, begin);
  file->chunk_end = out->length;
  return good;
}

static void put_message_indexes(struct file *file) {
  struct text *out = file->out;
  for (int i = 0; i < TOPICS; i++) {
    if (!has(file, i)) continue;
    file->indexes[i] = out->length;
    size_t begin = record_begin(out, MESSAGE_INDEX);
    bytes_put(out, channel_of(i), 2);
    size_t entries = length_begin(out, 4);
    for (int32_t cloud = 0; cloud <= last_cloud(file); cloud++) {
      bytes_put(out, (uint64_t)time_of(file, cloud), 8);
      bytes_put(out, file->messages[i][cloud], 8);
    }
    length_end(out, entries, 4);
    record_end(out, begin);
  }
  file->indexes_end = out->length;
}

static void put_metadata(struct file *file) {
  struct text *out = file->out;
  file->metadata = out->length;
  size_t begin = record_begin(out, METADATA);
  put_string(out, "voxeld");
  size_t map = length_begin(out, 4);
  put_string(out, "metadata");
  size_t json = length_begin(out, 4);
  answer_metadata(file->answer, false, out);
  length_end(out, json, 4);
  length_end(out, map, 4);
  record_end(out, begin);
  file->metadata_end = out->length;
}

// ---- the summary ----------------------------------------------------------------------------------------------------

static void put_statistics(const struct file *file) {
  struct text *out = file->out;
  uint64_t clouds = (uint64_t)last_cloud(file) + 1, channels = number_of_topics(file);
  size_t begin = record_begin(out, STATISTICS);
  bytes_put(out, channels * clouds, 8);  // messages
  bytes_put(out, 1, 2);                  // schemas
  bytes_put(out, channels, 4);
  bytes_put(out, 0, 4);  // attachments
  bytes_put(out, 1, 4);  // metadata records
  bytes_put(out, 1, 4);  // chunks
  put_times(file);
  size_t counts = length_begin(out, 4);
  for (int i = 0; i < TOPICS; i++) {
    if (!has(file, i)) continue;
    bytes_put(out, channel_of(i), 2);
    bytes_put(out, clouds, 8);
  }
  length_end(out, counts, 4);
  record_end(out, begin);
}

static void put_chunk_index(const struct file *file) {
  struct text *out = file->out;
  size_t begin = record_begin(out, CHUNK_INDEX);
  put_times(file);
  bytes_put(out, file->chunk, 8);
  bytes_put(out, file->chunk_end - file->chunk, 8);
  size_t indexes = length_begin(out, 4);
  for (int i = 0; i < TOPICS; i++) {
    if (!has(file, i)) continue;
    bytes_put(out, channel_of(i), 2);
    bytes_put(out, file->indexes[i], 8);
  }
  length_end(out, indexes, 4);
  bytes_put(out, file->indexes_end - file->chunk_end, 8);
  put_string(out, "");  // no compression, so the sizes are equal
  bytes_put(out, file->chunk_end - file->records, 8);
  bytes_put(out, file->chunk_end - file->records, 8);
  record_end(out, begin);
}

static void put_metadata_index(const struct file *file) {
  struct text *out = file->out;
  size_t begin = record_begin(out, METADATA_INDEX);
  bytes_put(out, file->metadata, 8);
  bytes_put(out, file->metadata_end - file->metadata, 8);
  put_string(out, "voxeld");
  record_end(out, begin);
}

static void put_summary(const struct file *file) {
  put_schema(file->out);
  put_channels(file);
  put_statistics(file);
  put_chunk_index(file);
  put_metadata_index(file);
}

// ---- all together ---------------------------------------------------------------------------------------------------

static void put_header(struct text *out) {
  size_t begin = record_begin(out, HEADER);
  put_string(out, "ros2");
  put_string(out, "voxeld " VOXELD_VERSION);
  record_end(out, begin);
}

static void put_data_end(struct text *out) {
  size_t begin = record_begin(out, DATA_END);
  bytes_put(out, 0, 4);  // no checksum
  record_end(out, begin);
}

static void put_footer(struct text *out, size_t summary) {
  size_t begin = record_begin(out, FOOTER);
  bytes_put(out, summary, 8);
  bytes_put(out, 0, 8);  // no offsets of the summary's parts
  bytes_put(out, 0, 4);  // no checksum
  record_end(out, begin);
}

bool mcap_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                struct error *error) {
  struct file file = {.answer = answer, .layout = layout, .tensors = tensors, .out = out};
  text_append(out, magic, sizeof magic);
  put_header(out);
  if (!put_chunk(&file))
    return error_refuse(error, ERROR_IMPOSSIBLE, NULL, "a PointCloud2 has room for less than 4 GiB of points");
  put_message_indexes(&file);
  put_metadata(&file);
  put_data_end(out);
  size_t summary = out->length;
  put_summary(&file);
  put_footer(out, summary);
  text_append(out, magic, sizeof magic);
  return true;
}
