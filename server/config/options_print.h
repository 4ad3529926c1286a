// The option table as texts. Any thread.
#ifndef VOXELD_OPTIONS_PRINT_H
#define VOXELD_OPTIONS_PRINT_H

#include "api/base/text.h"
#include "server/config/options.h"

void options_help(struct text *out);
void options_print_config(const struct options *options, struct text *out);  // a configuration file with these values
void options_describe(struct text *out);                                     // the table as a JSON array

#endif
