// Reading the list of GPUs; see device_list.h.
#include "server/config/device_list.h"

#include <stdlib.h>
#include <string.h>

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
