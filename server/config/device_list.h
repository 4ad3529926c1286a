// The GPUs to use: option devices.
//
// Pure functions; any thread.
#ifndef VOXELD_DEVICE_LIST_H
#define VOXELD_DEVICE_LIST_H

#include <stdbool.h>

#include "kernels/kernels.h"

enum { MAX_DEVICES = 64 };

struct device_list {
  bool all;
  int count;
  int index[MAX_DEVICES];
};

// Reads "all", or GPU numbers below MAX_DEVICES, separated by commas, each once. False if the text is anything else.
VX_WARN_UNUSED bool device_list_read(const char *text, struct device_list *list);

#endif
