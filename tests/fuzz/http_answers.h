// Checks answers by the rules of HTTP. One thread.
#ifndef VOXELD_TESTS_HTTP_ANSWERS_H
#define VOXELD_TESTS_HTTP_ANSWERS_H

#include "tests/fuzz/http_callers.h"

// Asserts that the caller's answers are valid and complete.
void answers_check(const struct caller *caller);

#endif
