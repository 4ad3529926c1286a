// The renderings of the option table; see options_print.h.
#include "server/config/options_print.h"

#include <stdio.h>
#include <string.h>

#include "api/base/json_write.h"

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
      "  --demo\n      serve, and print where the page is that shows a sample scan and scans of yours\n"
      "  --probe\n      request /healthz from the service that runs with these options, at its first listener of "
      "pages_listen or, without one, of listen; exit with 0 if it answers 200, else 1\n"
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
