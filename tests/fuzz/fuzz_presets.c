// Fuzzes preset files. The input is a file. Any bytes give either a preset, or an error with a reason. One thread.
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/presets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Measures the preset's JSON, then writes it into memory of exactly this size.
static void check_rendering(const struct preset *preset) {
  struct text measure = text_over(NULL, 0);
  preset_write(preset, &measure);
  char *json = malloc(measure.length + 1);
  assert(json);
  struct text out = text_over(json, measure.length + 1);
  preset_write(preset, &out);
  assert(text_complete(&out) && out.length == measure.length);
  free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct error error = {.text = ""};
  char *copy = malloc(size ? size : 1);  // of the exact size, so that a sanitizer sees a read past the end
  assert(copy);
  memcpy(copy, data, size);
  struct preset *preset = preset_parse("fuzzed", copy, size, &error);
  free(copy);
  assert(preset ? !error.text[0] : error.text[0] != '\0');
  if (preset) {
    struct error error;
    static struct job_request request;
    assert(job_request_copy(&request, presets_request(preset)));
    assert(strcmp(preset_name(preset), "fuzzed") == 0 && strcmp(request.preset, "fuzzed") == 0);
    assert(job_request_finish(&request, &error));
    check_rendering(preset);
  }
  preset_close(preset);
  return 0;
}
