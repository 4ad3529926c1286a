// Options: the order of their sources, and refusals.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config/options.h"
#include "server/jobs/devices.h"

static char path[] = "/tmp/voxeld-options-XXXXXX";
static char config_argument[64];

static int write_file(const char *json) {
  FILE *file = fopen(path, "w");
  return file && fputs(json, file) >= 0 ? fclose(file) : -1;
}

static int make_file(void **state) {
  (void)state;
  int fd = mkstemp(path);
  snprintf(config_argument, sizeof config_argument, "--config=%s", path);
  return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
  (void)state;
  return unlink(path);
}

static bool read_options(char **arguments, char **environment, struct options *options, struct error *error) {
  enum options_action action;
  char *none[] = {NULL}, *argv[16] = {"voxeld"};
  int argc = 1;
  while (arguments && arguments[argc - 1]) {
    argv[argc] = arguments[argc - 1];
    argc++;
  }
  return options_read(argc, argv, environment ? environment : none, options, &action, error);
}

static void threads_fit_the_processors(void **state) {
  (void)state;
  static const struct {
    int64_t processors, workers, long_workers, network_threads, io_threads;
  } rows[] = {{1, 1, 1, 1, 2}, {2, 2, 1, 2, 2}, {3, 3, 2, 3, 3}, {16, 16, 8, 16, 16}, {96, 96, 48, 96, 16}};
  char *none[] = {NULL};
  char *given[] = {"--workers=5", "--long-workers=6", "--network-threads=7", "--io-threads=64", NULL};
  struct options options;
  struct error error;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!read_options(none, NULL, &options, &error)) fail_msg("%s", error.text);
    options_fit(&options, rows[i].processors);
    assert_int_equal(options.workers, rows[i].workers);
    assert_int_equal(options.long_workers, rows[i].long_workers);
    assert_int_equal(options.network_threads, rows[i].network_threads);
    assert_int_equal(options.io_threads, rows[i].io_threads);
  }
  if (!read_options(given, NULL, &options, &error)) fail_msg("%s", error.text);
  options_fit(&options, 2);
  assert_int_equal(options.workers, 5);
  assert_int_equal(options.long_workers, 6);
  assert_int_equal(options.network_threads, 7);
  assert_int_equal(options.io_threads, 64);
}

static void later_sources_win(void **state) {
  (void)state;
  struct options options;
  struct error error;
  assert_int_equal(
      write_file("{\"# workers\":\"x\",\"workers\":1,\"io_threads\":3,\"queue_depth\":5,\"backend\":\"cpu\"}"), 0);
  char *arguments[] = {config_argument, "--queue-depth", "7", NULL},
       *environment[] = {"VOXELD_IO_THREADS=4", "VOXELD_QUEUE_DEPTH=6", NULL};
  if (!read_options(arguments, environment, &options, &error)) fail_msg("%s", error.text);
  assert_int_equal(options.workers, 1);
  assert_int_equal(options.io_threads, 4);
  assert_int_equal(options.queue_depth, 7);
  assert_int_equal(options.backend, BACKEND_CPU);
  assert_string_equal(options.listen, "127.0.0.1:8080");
}

static void options_of_sampling(void **state) {
  (void)state;
  struct options options;
  struct error error = {0};
  char *arguments[] = {"--gpu-long-streams=3", "--max-sampling-work", "1000000000000000", NULL},
       *environment[] = {"VOXELD_LONG_WORKERS=5", NULL};
  assert_true(read_options(NULL, NULL, &options, &error));
  assert_int_equal(options.long_workers, 0);
  assert_int_equal(options.gpu_long_streams, 2);
  assert_int_equal(options.max_sampling_work, INT64_C(10000000000));
  if (!read_options(arguments, environment, &options, &error)) fail_msg("%s", error.text);
  assert_int_equal(options.long_workers, 5);
  assert_int_equal(options.gpu_long_streams, 3);
  assert_int_equal(options.max_sampling_work, INT64_C(1000000000000000));
}

static void print_config_reads_back(void **state) {
  (void)state;
  struct options options, again;
  struct error error = {0};
  char memory[16384];
  char *arguments[] = {"--listen=unix:/tmp/a b\"c", "--workers=9", "--upload-min-rate", "0", NULL},
       *reread[] = {config_argument, NULL};
  assert_true(read_options(arguments, NULL, &options, &error));
  struct text text = text_over(memory, sizeof memory);
  options_print_config(&options, &text);
  assert_true(text_complete(&text));
  assert_int_equal(write_file(memory), 0);
  if (!read_options(reread, NULL, &again, &error)) fail_msg("%s", error.text);
  snprintf(options.config, sizeof options.config, "%s", path);
  assert_memory_equal(&options, &again, sizeof options);
}

static void refusals_say_what_is_allowed(void **state) {
  (void)state;
  static const struct {
    char *argument, *value, *reason;
  } cases[] = {{"--workers", "-1", "whole number from 0 to 1024"},
               {"--workers", "1.5", "whole number"},
               {"--io-threads", "1", "allowed: 0, or a whole number from 2 to 64"},
               {"--workers", NULL, "needs a value"},
               {"--worker", "1", "no option '--worker'"},
               {"workers", "1", "no option"},
               {"--", "1", "no option"},
               {"--backend", "gpu", "auto or cpu or cuda"},
               {"--queue-depth", "99999999999999999999", "whole number"},
               {"--queue-depth", "0000000000000000064", "whole number"},  // 19 digits; at most 18 are read
               {"--max-sampling-work", "1000000000000001", "whole number from 1 to 1000000000000000"},
               {"--long-workers", "1025", "whole number from 0 to 1024"},
               {"--gpu-long-streams", "0", "whole number from 1 to 64"},
               {"--max-sampling-work", "0", "whole number from 1 to 1000000000000000"},
               {"--max-sampling-work", "1e10", "whole number"},
               {"--idle-timeout-s", "5", "more than upload_timeout_s"},
               {"--memory-budget-bytes", "1048576", "each rounded up to a power of two"},
               {"--config", "/nowhere/at/all.json", "/nowhere/at/all.json"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct options options;
    struct error error = {0};
    char *arguments[] = {cases[i].argument, cases[i].value, NULL};
    if (read_options(arguments, NULL, &options, &error) || !strstr(error.text, cases[i].reason))
      fail_msg("%s %s: '%s'", cases[i].argument, cases[i].value ? cases[i].value : "", error.text);
  }
}

static void numbers_have_their_ranges(void **state) {
  (void)state;
  static const struct {
    const char *name, *range;
  } rows[] = {{"shared_memory_pinned_bytes", "0 to 1099511627776"},
              {"gpu_streams", "1 to 64"},
              {"gpu_long_streams", "1 to 64"},
              {"gpu_detection_streams", "1 to 64"},
              {"workers", "0 to 1024"},
              {"long_workers", "0 to 1024"},
              {"detection_workers", "1 to 1024"},
              {"network_threads", "0 to 1024"},
              {"network_memory_bytes", "0 to 1099511627776"},
              {"network_host_memory_bytes", "0 to 1099511627776"},
              {"io_threads", "0 to 64"},
              {"small_job_points", "0 to 4096"},
              {"queue_depth", "1 to 65536"},
              {"client_requests", "0 to 65536"},
              {"max_sampling_work", "1 to 1000000000000000"},
              {"max_body_bytes", "65536 to 17179869184"},
              {"max_response_bytes", "65536 to 68719476736"},
              {"memory_budget_bytes", "1048576 to 1099511627776"},
              {"stream_memory_bytes", "0 to 1099511627776"},
              {"stream_ttl_s", "1 to 86400"},
              {"max_connections", "8 to 1000000"},
              {"idle_timeout_s", "1 to 86400"},
              {"upload_timeout_s", "1 to 86400"},
              {"send_timeout_s", "1 to 86400"},
              {"upload_min_rate", "0 to 1073741824"},
              {"drain_delay_s", "0 to 86400"},
              {"drain_timeout_s", "0 to 86400"},
              {"max_timeout_ms", "1 to 3600000"}};
  size_t at = 0;
  for (size_t i = 0; i < options_count; i++) {
    if (options_table[i].type != TYPE_INT) continue;
    char allowed[128], expected[128];
    assert_in_range(at, 0, sizeof rows / sizeof *rows - 1);
    struct text text = text_over(allowed, sizeof allowed);
    option_allowed(&options_table[i], &text);
    snprintf(expected, sizeof expected, "a whole number from %s", rows[at].range);
    assert_string_equal(options_table[i].name, rows[at++].name);
    assert_string_equal(allowed, expected);
  }
  assert_int_equal(at, sizeof rows / sizeof *rows);
}

static void bad_files_say_where(void **state) {
  (void)state;
  static const struct {
    const char *json, *reason;
  } cases[] = {{"{\n\"workers\": }", "line 2"},          {"[1]", "one JSON object"},
               {"{\"worker\":1}", "no option 'worker'"}, {"{\"workers\":1.5}", "whole number"},
               {"{\"workers\":true}", "whole number"},   {"{\"config\":\"x\"}", "no option 'config'"},
               {"{\"workers\":1,\"workers\":2}", "line"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct options options;
    struct error error = {0};
    char *arguments[] = {config_argument, NULL};
    assert_int_equal(write_file(cases[i].json), 0);
    if (read_options(arguments, NULL, &options, &error) || !strstr(error.text, cases[i].reason))
      fail_msg("%s: '%s'", cases[i].json, error.text);
  }
}

static void bad_environment_names_its_variable(void **state) {
  (void)state;
  struct options options;
  struct error error = {0};
  char *environment[] = {"VOXELD_WORKERS=many", NULL};
  assert_false(read_options(NULL, environment, &options, &error));
  assert_non_null(strstr(error.text, "VOXELD_WORKERS"));
}

static void device_lists(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool good, all;
    int count, last;
  } lists[] = {{"all", true, true, 0, 0},          {"0", true, false, 1, 0},    {"3,1,0", true, false, 3, 0},
               {"0,63", true, false, 2, 63},       {"", false, false, 0, 0},    {",", false, false, 0, 0},
               {"0,", false, false, 0, 0},         {"0,0", false, false, 0, 0}, {"64", false, false, 0, 0},
               {"-1", false, false, 0, 0},         {"0 1", false, false, 0, 0}, {"all,0", false, false, 0, 0},
               {"00000000000", false, false, 0, 0}};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
    struct device_list list;
    assert_int_equal(device_list_read(lists[i].text, &list), lists[i].good);
    if (!lists[i].good) continue;
    assert_int_equal(list.all, lists[i].all);
    assert_int_equal(list.count, lists[i].count);
    if (list.count) assert_int_equal(list.index[list.count - 1], lists[i].last);
  }
  struct options options;
  struct error error = {0};
  char *arguments[] = {"--devices", "1,1", NULL};
  assert_false(read_options(arguments, NULL, &options, &error));
  assert_non_null(strstr(error.text, "devices is '1,1'; allowed: all"));
}

static void modes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool good;
    unsigned mode;
  } modes[] = {{"0660", true, 0660}, {"660", true, 0660}, {"0", true, 0},     {"0777", true, 0777}, {"", false, 0},
               {"1777", false, 0},   {"0o660", false, 0}, {"0680", false, 0}, {"00660", false, 0},  {"-1", false, 0}};
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    unsigned mode;
    assert_int_equal(mode_read(modes[i].text, &mode), modes[i].good);
    if (modes[i].good) assert_int_equal(mode, modes[i].mode);
  }
  struct options options;
  struct error error = {0};
  char *arguments[] = {"--unix-mode", "rw", NULL};
  assert_false(read_options(arguments, NULL, &options, &error));
  assert_non_null(strstr(error.text, "unix_mode is 'rw'; allowed: octal"));
}

static void actions_read_options_or_not(void **state) {
  (void)state;
  static const struct {
    const char *flag;
    enum options_action action;
    bool reads;
  } rows[] = {{"--workers=1", ACTION_SERVE, true},
              {"--demo", ACTION_DEMO, true},
              {"--print-config", ACTION_PRINT_CONFIG, true},
              {"--check-config", ACTION_CHECK_CONFIG, true},
              {"--probe", ACTION_PROBE, true},
              {"--help", ACTION_HELP, false},
              {"-h", ACTION_HELP, false},
              {"--version", ACTION_VERSION, false},
              {"--describe", ACTION_DESCRIBE, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct options options;
    enum options_action action;
    struct error error = {0};
    char flag[32], *bad[] = {"VOXELD_WORKERS=none", NULL}, *good[] = {"VOXELD_GPU_STREAMS=7", NULL};
    snprintf(flag, sizeof flag, "%s", rows[i].flag);
    char *argv[] = {"voxeld", flag, NULL};
    assert_true(options_read(2, argv, good, &options, &action, &error));
    assert_int_equal(action, rows[i].action);
    assert_int_equal(options.gpu_streams == 7, rows[i].reads);
    assert_int_equal(options_read(2, argv, bad, &options, &action, &error), !rows[i].reads);
  }
}

static void prefixes_of_shared_memory(void **state) {
  (void)state;
  static const struct {
    char *list;
    bool good;
  } rows[] = {{"a", true},   {"a,b", true},   {"a,b,c", true}, {"", false},     {",", false}, {",a", false},
              {"a,", false}, {"a,,b", false}, {"a/b", false},  {"a,/b", false}, {"a:", false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int allowed = 0; allowed < 2; allowed++) {
      struct options options;
      struct error error = {0};
      char *allow = allowed ? "yes" : "no";
      char *arguments[] = {"--allow-shared-memory", allow, "--shared-memory-prefix", rows[i].list, NULL};
      if (read_options(arguments, NULL, &options, &error) != (rows[i].good || !allowed))
        fail_msg("'%s', allowed: %s: '%s'", rows[i].list, allow, error.text);
    }
  }
}

// A flag takes the next argument if it is a value of the flag.
static void flags(void **state) {
  (void)state;
  static const struct {
    char *arguments[4];
    bool good, anonymous;
  } cases[] = {{{"--workers", "1"}, true, false},
               {{"--allow-anonymous"}, true, true},
               {{"--allow-anonymous", "yes"}, true, true},
               {{"--allow-anonymous", "no"}, true, false},
               {{"--allow-anonymous=no"}, true, false},
               {{"--allow-anonymous", "--workers", "3"}, true, true},
               {{"--workers", "3", "--allow-anonymous"}, true, true},
               {{"--allow-anonymous="}, false, false},
               {{"--allow-anonymous", "maybe"}, false, false},
               {{"--token-file"}, false, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct options options;
    struct error error = {0};
    char *arguments[5] = {NULL};
    memcpy(arguments, cases[i].arguments, sizeof cases[i].arguments);
    assert_int_equal(read_options(arguments, NULL, &options, &error), cases[i].good);
    if (cases[i].good) assert_int_equal(options.allow_anonymous, cases[i].anonymous);
  }
}

static void parts_of_tls_need_each_other(void **state) {
  (void)state;
  struct options options;
  struct error error = {0};
  char *alone[] = {"--tls-key=k", NULL}, *authority[] = {"--tls-client-ca=c", NULL},
       *both[] = {"--tls-key=k", "--tls-cert=c", "--tls-client-ca=a", NULL};
  assert_false(read_options(alone, NULL, &options, &error));
  assert_non_null(strstr(error.text, "tls_cert and tls_key"));
  assert_false(read_options(authority, NULL, &options, &error));
  assert_non_null(strstr(error.text, "tls_client_ca needs"));
  assert_true(read_options(both, NULL, &options, &error));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_fit_the_processors),
      cmocka_unit_test(later_sources_win),
      cmocka_unit_test(options_of_sampling),
      cmocka_unit_test(print_config_reads_back),
      cmocka_unit_test(refusals_say_what_is_allowed),
      cmocka_unit_test(numbers_have_their_ranges),
      cmocka_unit_test(bad_files_say_where),
      cmocka_unit_test(bad_environment_names_its_variable),
      cmocka_unit_test(device_lists),
      cmocka_unit_test(modes),
      cmocka_unit_test(actions_read_options_or_not),
      cmocka_unit_test(prefixes_of_shared_memory),
      cmocka_unit_test(flags),
      cmocka_unit_test(parts_of_tls_need_each_other),
  };
  return cmocka_run_group_tests(tests, make_file, remove_file);
}
