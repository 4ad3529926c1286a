// See options.h.
#include "server/config/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/file.h"
#include "api/base/json.h"
#include "api/base/json_write.h"
#include "api/base/suggest.h"
#include "server/config/buffer_size.h"
#include "server/config/hosts.h"
#include "server/config/proxies.h"

static const char *const backend_words[] = {"auto", "cpu", "cuda", NULL};
static const char *const lost_words[] = {"cpu", "exit", NULL};
static const char *const flag_words[] = {"no", "yes", NULL};  // --name alone means yes
static const char *const log_words[] = {"error", "warning", "info", "debug", NULL};
static const char *const format_words[] = {"logfmt", "json", NULL};
static const char *const access_words[] = {"all", "errors", "none", NULL};

enum { IO_THREADS_MAX = 64, IO_THREADS_FITTED = 16 };  // more than IO_THREADS_FITTED were not faster

#define FIELD(member) offsetof(struct options, member), sizeof(((struct options *)0)->member)
#define TEXT(member) #member, TYPE_TEXT, FIELD(member), 0, 0, NULL
#define INT(member, least, most) #member, TYPE_INT, FIELD(member), least, most, NULL
#define WORD(member, words) #member, TYPE_WORD, FIELD(member), 0, 0, words
#define KB INT64_C(1024)
#define MB (INT64_C(1024) * KB)
#define GB (INT64_C(1024) * MB)
const struct option options_table[] = {
    {TEXT(listen), "127.0.0.1:8080",
     "up to 8 addresses to listen on, separated by commas: ADDRESS:PORT, [IPV6]:PORT (port 0: any free port), "
     "unix:PATH, or systemd (the sockets that systemd passes)"},
    {TEXT(pages_listen), "",
     "up to 8 more addresses, which answer only GET (health, readiness, metrics, status, presets); they have their own "
     "connections and threads, which clients of listen cannot use up"},
    {TEXT(unix_mode), "0660", "permissions of Unix sockets, in octal"},
    {WORD(allow_anonymous, flag_words), "no",
     "serve clients without a token or a certificate; needed to listen beyond loopback without token_file or "
     "tls_client_ca"},
    {TEXT(token_file), "", "a file with a line for each accepted token, as --new-token prints it"},
    {TEXT(tls_cert), "", "a PEM file of this server's certificate and its chain; with it all TCP listeners speak TLS"},
    {TEXT(tls_key), "", "a PEM file of the private key for tls_cert"},
    {TEXT(tls_client_ca), "", "a PEM file of the authorities whose client certificates are accepted"},
    {TEXT(tls_priorities), "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2",
     "TLS versions and ciphers, as a GnuTLS priority string"},
    {WORD(allow_shared_memory, flag_words), "no",
     "let clients on loopback or a Unix socket register POSIX shared memory (/dev/shm) for points and answers"},
    {WORD(allow_cuda_shared_memory, flag_words), "no",
     "let clients on loopback or a Unix socket register GPU memory by CUDA's handles for points and answers"},
    {TEXT(shared_memory_prefix), "voxeld",
     "prefixes, separated by commas, with which the keys of shared memory must begin; over TCP, if clients show tokens "
     "or certificates, keys must begin with PREFIX:NAME:, where NAME is the user"},
    {INT(shared_memory_pinned_bytes, 0, 1024 * GB), "1073741824",
     "with a GPU, bytes of shared memory to pin for the GPU to read and write in place; further memory is copied; 0 = "
     "copy all"},
    {TEXT(trusted_proxies), "",
     "proxies whose X-Forwarded-For header names the client, separated by commas: addresses, networks such as "
     "10.0.0.0/8, or unix for every peer of a Unix socket"},
    {TEXT(allowed_hosts), "",
     "names, separated by commas, that clients may use over TCP besides addresses and localhost; a Host header with "
     "any other name gets 403; empty = any name, but a client that uses a name other than localhost and the "
     "machine's own needs credentials for streams and shared memory"},
    {TEXT(config), "", "a JSON file of options, such as config/voxeld.json"},
    {TEXT(presets_dir), "",
     "a directory of NAME.json presets, which are added to the built-in presets and replace built-in presets of the "
     "same name"},
    {TEXT(models_dir), "",
     "a directory with a folder for each model that detects; the networks of models need ONNX Runtime"},
    {TEXT(onnxruntime), "",
     "the library of ONNX Runtime, such as /usr/lib/libonnxruntime.so.1; without it the system's library"},
    {WORD(backend, backend_words), "auto", "what computes; auto uses the GPUs that work, or the CPU if none does"},
    {TEXT(devices), "all", "the GPUs to use: all, or their numbers, such as 0,1"},
    {INT(gpu_streams, 1, 64), "2",
     "jobs that run at the same time on each GPU, besides detections and long jobs (see gpu_long_streams)"},
    {INT(gpu_long_streams, 1, 64), "2",
     "long jobs that run at the same time on each GPU, with lower priority; a job is long if it samples "
     "(farthest points), has the step statistical_outlier, or may compare more than 4194304 pairs of boxes"},
    {INT(gpu_detection_streams, 1, 64), "1", "detections that run at the same time on each GPU"},
    {WORD(on_device_lost, lost_words), "cpu",
     "what to do once a GPU has failed for good: cpu continues without the GPU; exit answers accepted requests, then "
     "exits with 3"},
    {WORD(log_level, log_words), "info", "the least severe level that is logged, on stderr"},
    {WORD(log_format, format_words), "logfmt", "format of the log; both have the same keys"},
    {WORD(access_log, access_words), "all",
     "requests that get a line in the log: all, errors (requests that were refused, failed or aborted), or none"},
    {INT(workers, 0, 1024), "0",
     "jobs that run at the same time on the CPU, besides detections and long jobs; 0 = one for each processor that the "
     "process may use, by its affinity and the CPU quota of its cgroup"},
    {INT(long_workers, 0, 1024), "0",
     "long jobs (see gpu_long_streams) that run at the same time on the CPU; 0 = one for every two processors "
     "(see workers); with GPUs, each long stream of a GPU replaces one of these workers, and those left sample single "
     "clouds on free processors"},
    {INT(detection_workers, 1, 1024), "2", "detections that run at the same time on the CPU"},
    {INT(network_threads, 0, 1024), "0",
     "threads that together compute the network of a model; 0 = one for each processor (see workers)"},
    {WORD(network_tf32, flag_words), "no",
     "let networks on a GPU multiply float32 with mantissas of 10 bits, which is faster and less exact"},
    {INT(network_memory_bytes, 0, 1024 * GB), "2147483648",
     "memory of a GPU that ONNX Runtime may take for each network on each detection stream; a detection that needs "
     "more runs on the CPU; 0 = any"},
    {INT(network_host_memory_bytes, 0, 1024 * GB), "4294967296",
     "memory of the host that ONNX Runtime may take for each network, for all of its runs at the same time; a "
     "detection that needs more gets 503; 0 = any"},
    {INT(io_threads, 0, IO_THREADS_MAX), "0",
     "threads of each listener that read requests and send answers, at least 2; 0 = one for each processor (see "
     "workers), up to 16"},
    {INT(small_job_points, 0, 4096), "1000",
     "the I/O thread that receives a plain cloud of up to this many points voxelizes it, on the CPU even with a GPU, "
     "since waking a worker takes longer; 0 = none"},
    {INT(queue_depth, 1, 65536), "1024",
     "requests that may upload or wait for a worker, counted apart for quick jobs, long jobs and detections; further "
     "requests get 503, or 429 beyond their client's share"},
    {INT(client_requests, 0, 65536), "4",
     "requests of one client that are processed at the same time while other clients are served; the client's further "
     "requests wait; 0 = any number"},
    {INT(max_sampling_work, 1, INT64_C(1000000000000000)), "10000000000",
     "points (or voxels) times samples, or points times mean_k of a step; a request with more gets 422"},
    {INT(max_body_bytes, 64 * KB, 16 * GB), "67108864", "the largest request body; a larger one gets 413"},
    {INT(max_response_bytes, 64 * KB, 64 * GB), "268435456",
     "the largest answer; a request that needs a larger one gets 422"},
    {WORD(compress_answers, flag_words), "yes",
     "compress answers for clients whose Accept-Encoding prefers zstd or gzip, as many HTTP libraries do; on a fast "
     "network, the value no saves time"},
    {INT(memory_budget_bytes, MB, 1024 * GB), "2147483648",
     "memory for all bodies, all answers and the working memory of large jobs; beyond it requests get 503"},
    {INT(stream_memory_bytes, 0, 1024 * GB), "268435456",
     "part of memory_budget_bytes for sweeps of streams; the oldest sweeps are evicted beyond it, or when requests "
     "need the memory; 0 = no streams"},
    {INT(stream_ttl_s, 1, 86400), "60", "seconds after which a sweep of a stream is dropped"},
    {INT(max_connections, 8, 1000000), "1000",
     "open connections, which take up to 327 KiB of memory each; beyond this number idle connections are closed, or "
     "new connections refused"},
    {INT(idle_timeout_s, 1, 86400), "75",
     "seconds without traffic after which a connection is closed; must be more than upload_timeout_s"},
    {INT(upload_timeout_s, 1, 86400), "60", "seconds in which a body must arrive, or its request gets 408"},
    {INT(send_timeout_s, 1, 86400), "60",
     "seconds in which the client must take an answer, or its connection is closed"},
    {INT(upload_min_rate, 0, GB), "16384",
     "bytes per second that an upload must reach after its first 5 seconds, or its request gets 408; 0 = any"},
    {INT(drain_delay_s, 0, 86400), "0",
     "seconds after SIGTERM in which /readyz is 503 but new requests are accepted, so that load balancers notice"},
    {INT(drain_timeout_s, 0, 86400), "20",
     "seconds after drain_delay_s in which accepted requests can still be answered"},
    {WORD(stop_with_stdin, flag_words), "no",
     "stop, as after SIGTERM, when standard input ends; so the service ends with the process that holds the other end "
     "of a pipe, even if that process is killed"},
    {INT(max_timeout_ms, 1, 3600000), "30000",
     "milliseconds after which a job that still waits or runs gets 504, whatever its timeout_ms"},
};
enum { OPTION_COUNT = sizeof options_table / sizeof *options_table };
const size_t options_count = OPTION_COUNT;

// A hint that names the option that may have been meant, as a file spells it; "": no name is near.
static const char *option_suggested(const char *name, size_t length, char *out, size_t size) {
  struct suggestion near = suggest(name, length);
  for (size_t i = 0; i < OPTION_COUNT; i++) suggest_try(&near, options_table[i].name);
  return suggest_text(&near, out, size);
}

// `name` may have - for _, as on the command line.
static const struct option *find_option(const char *name, size_t length) {
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    const char *own = options_table[i].name;
    size_t k = 0;
    while (k < length && (own[k] == name[k] || (own[k] == '_' && name[k] == '-'))) k++;
    if (k == length && own[k] == '\0') return &options_table[i];
  }
  return NULL;
}

void option_allowed(const struct option *option, struct text *out) {
  if (option->type == TYPE_TEXT) text_printf(out, "text of up to %zu bytes", option->size - 1);
  if (option->type == TYPE_INT) text_printf(out, "a whole number from %ld to %ld", option->least, option->most);
  for (const char *const *word = option->words; option->type == TYPE_WORD && *word; word++)
    text_printf(out, "%s%s", word == option->words ? "" : " or ", *word);
}

static bool read_value(const struct option *option, const char *value, void *field) {
  if (option->type == TYPE_TEXT) {
    if (strlen(value) >= option->size) return false;
    strcpy(field, value);
    return true;
  }
  if (option->type == TYPE_WORD) {
    for (int32_t i = 0; option->words[i]; i++) {
      if (strcmp(option->words[i], value) != 0) continue;
      *(int32_t *)field = i;
      return true;
    }
    return false;
  }
  size_t digits = strspn(value, "0123456789");
  if (digits == 0 || digits > 18 || value[digits]) return false;
  int64_t number = strtoll(value, NULL, 10);
  *(int64_t *)field = number;
  return number >= option->least && number <= option->most;
}

static bool set_option(struct options *options, const struct option *option, const char *value, const char *source,
                       struct error *error) {
  if (read_value(option, value, (char *)options + option->offset)) return true;
  char allowed[128];
  struct text text = text_over(allowed, sizeof allowed);
  option_allowed(option, &text);
  return error_set(error, "%s: %s is '%.80s'; allowed: %s", source, option->name, value, allowed);
}

// ---- sources --------------------------------------------------------------------------------------------------------

// Keys that begin with # are comments.
static bool read_object(struct options *options, const char *path, json_t *root, struct error *error) {
  const char *key;
  json_t *value;
  json_object_foreach(root, key, value) {
    if (key[0] == '#') continue;
    const struct option *option = find_option(key, strlen(key));
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    const char *text = json_is_string(value) ? json_string_value(value) : json_is_integer(value) ? number : NULL;
    char hint[96];
    if (!option || strcmp(key, "config") == 0)
      return error_set(error, "%s: there is no option '%.80s'%s", path, key,
                       option_suggested(key, strlen(key), hint, sizeof hint));
    if (!text) return error_set(error, "%s: %s must be a string or a whole number", path, key);
    if (!set_option(options, option, text, path, error)) return false;
  }
  return true;
}

static bool read_file(struct options *options, struct error *error) {
  const char *path = options->config;
  struct file file;
  struct json_document document;
  json_error_t where;
  if (!file_read("config", path, MB, &file, error)) return false;
  bool opened = json_open(&document, file.bytes, file.size, &where);
  file_release(&file);
  if (!opened && where.line < 0) return error_set(error, "%s: %s", path, where.text);
  if (!opened) return error_set(error, "%s: line %d: %s", path, where.line, where.text);
  bool good = json_is_object(document.root) ? read_object(options, path, document.root, error)
                                            : error_set(error, "%s: expected one JSON object", path);
  json_close(&document);
  return good;
}

static void option_variable(const struct option *option, char out[64]) {
  snprintf(out, 64, "VOXELD_%s", option->name);
  for (char *c = out; *c; c++) *c = (char)toupper((unsigned char)*c);
}

// The value if NAME=VALUE sets this option, else NULL.
static const char *variable_value(const struct option *option, const char *entry) {
  char name[64];
  option_variable(option, name);
  size_t length = strlen(name);
  return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

// `only_config`: reads only the path of the file. The file is read next, then all other variables, which override it.
static bool read_environment(struct options *options, char **environment, bool only_config, struct error *error) {
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    const struct option *option = &options_table[i];
    char name[64];
    option_variable(option, name);
    if (only_config != (strcmp(option->name, "config") == 0)) continue;
    for (char **entry = environment; *entry; entry++) {
      const char *value = variable_value(option, *entry);
      if (value && !set_option(options, option, value, name, error)) return false;
    }
  }
  return true;
}

static bool is_option_variable(const char *entry) {
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (variable_value(&options_table[i], entry)) return true;
  return false;
}

char **options_stray_variable(char **environment) {
  static const char prefix[] = "VOXELD_";
  for (char **entry = environment; *entry; entry++)
    if (strncmp(*entry, prefix, strlen(prefix)) == 0 && !is_option_variable(*entry)) return entry;
  return NULL;
}

void options_suggest_variable(const char *entry, char out[64]) {
  const char *name = entry + strlen("VOXELD_");
  struct suggestion near = suggest(name, strcspn(name, "="));
  out[0] = '\0';
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    suggest_try(&near, options_table[i].name);
    if (near.name == options_table[i].name) option_variable(&options_table[i], out);
  }
}

// The actions that do not read the options print even with a bad environment or file.
struct action {
  const char *flag;
  enum options_action action;
  bool reads_options;
};

// NULL if the argument is not an action.
static const struct action *action_of(const char *argument) {
  static const struct action actions[] = {{"--help", ACTION_HELP, false},
                                          {"-h", ACTION_HELP, false},
                                          {"--version", ACTION_VERSION, false},
                                          {"--describe", ACTION_DESCRIBE, false},
                                          {"--print-config", ACTION_PRINT_CONFIG, true},
                                          {"--check-config", ACTION_CHECK_CONFIG, true},
                                          {"--probe", ACTION_PROBE, true},
                                          {"--demo", ACTION_DEMO, true}};
  for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
    if (strcmp(actions[i].flag, argument) == 0) return &actions[i];
  return NULL;
}

// The value of the option at argv[*i]; NULL: there is none. If the next argument is the value, moves *i to it.
static const char *value_of(const struct option *option, int argc, char **argv, int *i) {
  const char *equals = strchr(argv[*i], '='), *next = *i + 1 < argc ? argv[*i + 1] : NULL;
  int32_t flag;
  if (equals) return equals + 1;
  if (option->words == flag_words && !(next && read_value(option, next, &flag))) return "yes";
  if (next) ++*i;
  return next;
}

static bool read_arguments(struct options *options, int argc, char **argv, bool only_config, struct error *error) {
  for (int i = 1; i < argc; i++) {
    const char *argument = argv[i];
    if (action_of(argument)) continue;
    const char *equals = strchr(argument, '=');
    size_t length = strncmp(argument, "--", 2) != 0 ? 0 : (equals ? (size_t)(equals - argument) : strlen(argument)) - 2;
    const struct option *option = length ? find_option(argument + 2, length) : NULL;
    char hint[96];
    if (!option)
      return error_set(error, "there is no option '%.80s'%s; see --help", argument,
                       length ? option_suggested(argument + 2, length, hint, sizeof hint) : "");
    const char *value = value_of(option, argc, argv, &i);
    if (!value) return error_set(error, "%s needs a value", argument);
    if (only_config != (strcmp(option->name, "config") == 0)) continue;
    if (!set_option(options, option, value, "command line", error)) return false;
  }
  return true;
}

bool mode_read(const char *text, unsigned *mode) {
  size_t digits = strspn(text, "01234567");
  *mode = (unsigned)strtoul(text, NULL, 8);
  return digits >= 1 && digits <= 4 && !text[digits] && *mode <= 0777;
}

// An empty prefix would allow all keys. Prefixes are compared after a key's leading slashes; no other slash may be in a
// key. In a key a colon precedes a user's name (objects.h).
static bool prefixes_are_sound(const char *prefixes) {
  size_t length = strlen(prefixes);
  return length > 0 && prefixes[0] != ',' && prefixes[length - 1] != ',' && !strstr(prefixes, ",,") &&
         !strpbrk(prefixes, "/:");
}

bool device_list_read(const char *text, struct device_list *list) {
  *list = (struct device_list){.all = strcmp(text, "all") == 0};
  if (list->all) return true;
  for (const char *next = text;; next++) {
    size_t digits = strspn(next, "0123456789");
    long index = digits > 0 && digits <= 3 ? strtol(next, NULL, 10) : MAX_DEVICES;
    if (index >= MAX_DEVICES || list->count == MAX_DEVICES) return false;
    for (int i = 0; i < list->count; i++)
      if (list->index[i] == index) return false;
    list->index[list->count++] = (int)index;
    next += digits;
    if (*next != ',') return *next == '\0';
  }
}

static bool check_access(const struct options *options, struct error *error) {
  unsigned mode;
  if (!mode_read(options->unix_mode, &mode))
    return error_set(error, "unix_mode is '%.80s'; allowed: octal permissions from 0 to 0777", options->unix_mode);
  if (options->allow_shared_memory && !prefixes_are_sound(options->shared_memory_prefix))
    return error_set(
        error, "shared_memory_prefix is '%.80s'; allowed: beginnings of keys, separated by commas, without / and :",
        options->shared_memory_prefix);
  struct proxies proxies;
  if (!proxies_read(options->trusted_proxies, &proxies))
    return error_set(error,
                     "trusted_proxies is '%.80s'; allowed: up to %d addresses, networks such as 10.0.0.0/8, or unix",
                     options->trusted_proxies, PROXIES_MAX);
  if (!hosts_are_sound(options->allowed_hosts))
    return error_set(error, "allowed_hosts is '%.80s'; allowed: host names without port, separated by commas",
                     options->allowed_hosts);
  if (!options->tls_cert[0] != !options->tls_key[0]) return error_set(error, "tls_cert and tls_key need each other");
  if (options->tls_client_ca[0] && !options->tls_cert[0])
    return error_set(error, "tls_client_ca needs tls_cert and tls_key");
  return true;
}

static bool check(const struct options *options, struct error *error) {
  struct device_list devices;
  if (!device_list_read(options->devices, &devices))
    return error_set(error, "devices is '%.80s'; allowed: all, or numbers below %d, separated by commas, each once",
                     options->devices, MAX_DEVICES);
  if (options->io_threads == 1)
    return error_set(error, "io_threads is 1; allowed: 0, or a whole number from 2 to %d", IO_THREADS_MAX);
  if (options->idle_timeout_s <= options->upload_timeout_s)
    return error_set(error, "idle_timeout_s (%lld) must be more than upload_timeout_s (%lld)",
                     (long long)options->idle_timeout_s, (long long)options->upload_timeout_s);
  // An idle server must have room for the body and the answer of any request, or for a chunked body that moves from a
  // smaller buffer to a larger one.
  int64_t body = (int64_t)buffer_capacity((size_t)options->max_body_bytes);
  int64_t answer = (int64_t)buffer_capacity((size_t)options->max_response_bytes);
  int64_t needed = body + (answer > body / 2 ? answer : body / 2);
  if (options->memory_budget_bytes < needed)
    return error_set(
        error,
        "memory_budget_bytes is %lld; max_body_bytes and max_response_bytes, each rounded up to a power of two, "
        "need %lld",
        (long long)options->memory_budget_bytes, (long long)needed);
  return check_access(options, error);
}

bool options_read(int argc, char **argv, char **environment, struct options *options, enum options_action *action,
                  struct error *error) {
  memset(options, 0, sizeof *options);
  *action = ACTION_SERVE;
  if (argc > 1 && strcmp(argv[1], "--new-token") == 0) {
    *action = ACTION_NEW_TOKEN;
    options->new_token = argv[2];
    return argc == 3 || error_set(error, "expected voxeld --new-token NAME");
  }
  for (int i = 1; i < argc; i++) {
    const struct action *asked = action_of(argv[i]);
    if (asked) *action = asked->action;
    if (asked && !asked->reads_options) return true;
  }
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (!set_option(options, &options_table[i], options_table[i].initial, "default", error)) return false;
  return read_environment(options, environment, true, error) && read_arguments(options, argc, argv, true, error) &&
         (!options->config[0] || read_file(options, error)) && read_environment(options, environment, false, error) &&
         read_arguments(options, argc, argv, false, error) && check(options, error);
}

void options_fit(struct options *options, int64_t processors) {
  int64_t io_threads = processors < 2 ? 2 : processors > IO_THREADS_FITTED ? IO_THREADS_FITTED : processors;
  if (options->workers == 0) options->workers = processors;
  if (options->long_workers == 0) options->long_workers = (processors + 1) / 2;
  if (options->network_threads == 0) options->network_threads = processors;
  if (options->io_threads == 0) options->io_threads = io_threads;
}

// ---- the table as text ----------------------------------------------------------------------------------------------

static void flag_name(const struct option *option, char out[64]) {
  snprintf(out, 64, "--%s", option->name);
  for (char *c = out; *c; c++)
    if (*c == '_') *c = '-';
}

void options_help(struct text *out) {
  text_put(out, "voxeld: transforms, voxelizes and samples point clouds over HTTP.\n\n"
                "usage: voxeld [--option VALUE | --option=VALUE]...\n\n"
                "Each option can also be set in a configuration file or in the environment (listen: VOXELD_LISTEN).\n"
                "Each source overrides those before it: default, file, environment, command line.\n\n");
  for (size_t i = 0; i < options_count; i++) {
    const struct option *option = &options_table[i];
    char flag[64];
    flag_name(option, flag);
    text_printf(out, "  %s\n      %s\n      ", flag, option->doc);
    option_allowed(option, out);
    text_printf(out, "; default: %s\n", option->initial[0] ? option->initial : "none");
  }
  text_put(
      out,
      "  --help, --version\n      print this text, or the version\n"
      "  --print-config\n      print the options in effect as a configuration file\n"
      "  --check-config\n      check options, listeners, presets, tokens, certificates and devices; exit with 0 if all "
      "are good, else 2\n"
      "  --demo\n      serve, and print the address of the page that shows a sample scan and your own scans\n"
      "  --probe\n      request /healthz from the service that runs with these options, at the first listener of "
      "pages_listen or, if it is empty, of listen; exit with 0 if it answers 200, else 1\n"
      "  --new-token NAME\n      print a new token to stdout, and its line for token_file to stderr\n"
      "  --describe\n      print every table of the service as JSON: parameters, options, endpoints, problems, "
      "metrics\n");
}

static void write_value(const struct option *option, const struct options *options, struct text *out) {
  const void *field = (const char *)options + option->offset;
  if (option->type == TYPE_INT)
    json_put_integer(out, *(const int64_t *)field);
  else
    json_put_string(out, option->type == TYPE_WORD ? option->words[*(const int32_t *)field] : field);
}

void options_print_config(const struct options *options, struct text *out) {
  out->json.lines = 1;
  json_printf(out, "{");
  for (size_t i = 0; i < options_count; i++) {
    const struct option *option = &options_table[i];
    if (strcmp(option->name, "config") == 0) continue;
    json_printf(out, "'# %s':%s %s:", option->name, option->doc, option->name);
    write_value(option, options, out);
  }
  json_printf(out, "}\n");
}

void options_describe(struct text *out) {
  static const char *const types[] = {"string", "int", "string"};
  json_printf(out, "[");
  for (size_t i = 0; i < options_count; i++) {
    const struct option *option = &options_table[i];
    char environment[64], flag[64];
    option_variable(option, environment);
    flag_name(option, flag);
    json_printf(out, "{name:%s flag:%s env:%s type:%s default:%s allowed:", option->name, flag, environment,
                types[option->type], option->initial);
    json_begin_string(out);
    option_allowed(option, out);
    json_end(out);
    json_printf(out, "doc:%s}", option->doc);
  }
  json_printf(out, "]");
}
