// Checks the bytes that came back on a connection by the rules of HTTP.
#ifndef VOXELD_TESTS_HTTP_ANSWERS_H
#define VOXELD_TESTS_HTTP_ANSWERS_H

#include "tests/fuzz/http_callers.h"

// Asserts that the answers are valid: one after the other, each complete.
void answers_check(const struct caller *caller);

#endif
