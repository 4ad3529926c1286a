// The options of the daemon: a table with a row for each. Each source overrides those before it: default, file,
// environment, command line.
//
// Main reads the options before any other thread starts. They do not change afterwards.
#ifndef VOXELD_OPTIONS_H
#define VOXELD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/text.h"
#include "kernels/kernels.h"

struct options {
  char listen[1024], pages_listen[1024];  // see listeners_open
  char unix_mode[8];                      // see mode_read
  int32_t allow_anonymous;                // bool
  int32_t compress_answers;               // bool
  char token_file[1024];
  int32_t allow_shared_memory, allow_cuda_shared_memory;  // bool
  char shared_memory_prefix[1024];                        // see objects.h
  int64_t shared_memory_pinned_bytes;
  char trusted_proxies[1024];  // see proxies_read
  char allowed_hosts[1024];    // see hosts_have
  char tls_cert[1024], tls_key[1024], tls_client_ca[1024], tls_priorities[256];
  char config[1024];
  char presets_dir[1024], models_dir[1024], onnxruntime[1024];
  int32_t backend;    // row of backend_words
  char devices[256];  // see device_list_read
  int64_t gpu_streams, gpu_long_streams, gpu_detection_streams;
  int32_t on_device_lost;  // row of lost_words
  int32_t log_level;       // enum log_level
  int32_t log_format;      // enum log_format
  int32_t access_log;      // row of access_words
  int64_t workers, long_workers, detection_workers, network_threads, io_threads, small_job_points;
  int64_t queue_depth, client_requests;
  int32_t network_tf32;                                     // bool
  int64_t network_memory_bytes, network_host_memory_bytes;  // 0: any
  int64_t max_sampling_work;
  int64_t max_body_bytes, max_response_bytes, memory_budget_bytes;
  int64_t stream_memory_bytes, stream_ttl_s;
  int64_t max_connections;
  int64_t idle_timeout_s, upload_timeout_s, send_timeout_s, upload_min_rate, drain_delay_s, drain_timeout_s,
      max_timeout_ms;
  int32_t stop_with_stdin;  // bool
  const char *new_token;    // the NAME of --new-token, in argv
};

enum { BACKEND_AUTO, BACKEND_CPU, BACKEND_CUDA };
enum { LOST_CPU, LOST_EXIT };
enum { ACCESS_LOG_ALL, ACCESS_LOG_ERRORS, ACCESS_LOG_NONE };

enum options_action {
  ACTION_SERVE,
  ACTION_DEMO,  // serves, and prints where the page for browsers is
  ACTION_HELP,
  ACTION_VERSION,
  ACTION_PRINT_CONFIG,
  ACTION_CHECK_CONFIG,
  ACTION_PROBE,
  ACTION_DESCRIBE,
  ACTION_NEW_TOKEN
};

// Reads permissions of up to 4 octal digits, such as 0660. False for any other text or above 0777.
VX_WARN_UNUSED bool mode_read(const char *text, unsigned *mode);

// Sets `action` even if it fails. False with a reason.
VX_WARN_UNUSED bool options_read(int argc, char **argv, char **environment, struct options *options,
                                 enum options_action *action, struct error *error);

// Replaces each number of threads that is 0 by a number for this many processors.
void options_fit(struct options *options, int64_t processors);

// The first variable in `environment` that begins with VOXELD_ but is not an option; NULL: none.
char **options_stray_variable(char **environment);
// Writes the name of the option's variable that is most like the stray variable `entry`; "": none is near.
void options_suggest_variable(const char *entry, char out[64]);

enum { MAX_DEVICES = 64 };

struct device_list {
  bool all;
  int count;
  int index[MAX_DEVICES];
};

// Reads "all", or GPU numbers below MAX_DEVICES, separated by commas, each once. False for any other text.
VX_WARN_UNUSED bool device_list_read(const char *text, struct device_list *list);

enum option_type { TYPE_TEXT, TYPE_INT, TYPE_WORD };

struct option {
  const char *name;  // --name; VOXELD_NAME in the environment; the key in the file
  enum option_type type;
  size_t offset, size;       // of the field in struct options
  int64_t least, most;       // TYPE_INT
  const char *const *words;  // TYPE_WORD
  const char *initial;
  const char *doc;
};

extern const struct option options_table[];  // [options_count]
extern const size_t options_count;

void option_allowed(const struct option *option, struct text *out);

void options_help(struct text *out);
void options_print_config(const struct options *options, struct text *out);  // a configuration file with these values
void options_describe(struct text *out);                                     // the table as a JSON array

#endif
