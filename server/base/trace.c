// See trace.h.
#include "server/base/trace.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/base/base.h"

// ---- random ids -----------------------------------------------------------------------------------------------------

// xoshiro256** (Blackman and Vigna).
static uint64_t next_random(void) {
  static _Thread_local uint64_t state[4];
  if (!(state[0] | state[1] | state[2] | state[3]) && getrandom(state, sizeof state, 0) != sizeof state) {
    state[0] = (uint64_t)clock_ns();  // ids need not be secret, only unique
    state[1] = (uint64_t)(uintptr_t)state | 1;
  }
  uint64_t product = state[1] * 5, result = (product << 7 | product >> 57) * 9, shifted = state[1] << 17;
  state[2] ^= state[0];
  state[3] ^= state[1];
  state[1] ^= state[2];
  state[0] ^= state[3];
  state[2] ^= shifted;
  state[3] = state[3] << 45 | state[3] >> 19;
  return result;
}

// 16 digits, not all 0.
static void put_random(char digits[17]) {
  uint64_t value = next_random();
  snprintf(digits, 17, "%016llx", (unsigned long long)(value ? value : 1));
}

// ---- reading --------------------------------------------------------------------------------------------------------

// Whether the text begins with `count` lower-case hexadecimal digits and the byte `after`.
static bool is_field(const char *text, size_t count, char after) {
  return strspn(text, "0123456789abcdef") == count && text[count] == after;
}

static bool is_zero(const char *digits, size_t count) { return strspn(digits, "0") >= count; }

// Reads 00-TRACE-PARENT-FLAGS. A later version may add a '-' and more after the flags. Version ff is not allowed.
static bool parse(struct trace *trace, const char *text) {
  enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53 };
  if (!is_field(text, 2, '-') || strncmp(text, "ff", 2) == 0 || !is_field(text + TRACE_AT, 32, '-') ||
      !is_field(text + PARENT_AT, 16, '-'))
    return false;
  bool later = strncmp(text, "00", 2) != 0;
  if (!is_field(text + FLAGS_AT, 2, '\0') && !(later && is_field(text + FLAGS_AT, 2, '-'))) return false;
  if (is_zero(text + TRACE_AT, 32) || is_zero(text + PARENT_AT, 16)) return false;
  memcpy(trace->trace_id, text + TRACE_AT, 32);
  memcpy(trace->parent_id, text + PARENT_AT, 16);
  trace->trace_id[32] = trace->parent_id[16] = '\0';
  trace->sampled = strchr("13579bdf", text[FLAGS_AT + 1]) != NULL;  // the one flag that version 00 knows
  return true;
}

void trace_begin(struct trace *trace, const char *traceparent) {
  if (!traceparent || !parse(trace, traceparent)) {
    put_random(trace->trace_id);
    put_random(trace->trace_id + 16);
    trace->parent_id[0] = '\0';
    trace->sampled = false;
  }
  put_random(trace->span_id);
}

void trace_write(const struct trace *trace, char out[TRACEPARENT_LENGTH + 1]) {
  snprintf(out, TRACEPARENT_LENGTH + 1, "00-%s-%s-%02x", trace->trace_id, trace->span_id, trace->sampled);
}
