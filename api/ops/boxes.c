// See boxes.h.
#include "api/ops/boxes.h"

const char *const no_yes_words[] = {"no", "yes", NULL};
