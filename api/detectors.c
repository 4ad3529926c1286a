// See detectors.h.
#include "api/detectors.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/base/json_write.h"
#include "api/base/suggest.h"

enum { MAX_DETECTORS = 64, MAX_ENTRIES = 4096 };  // MAX_ENTRIES counts files too

struct detectors {
  size_t count;
  struct {
    struct detector *detector;
    struct detector_refusal refusal;  // reason "": the detector has the current files of its folder
  } item[MAX_DETECTORS];              // sorted by name
};

static const char *name_at(const struct detectors *detectors, size_t index) {
  return detector_name(detectors->item[index].detector);
}

static size_t index_of(const struct detectors *detectors, const char *name) {
  size_t index = 0, count = detectors_count(detectors);
  while (index < count && strcmp(name_at(detectors, index), name) != 0) index++;
  return index;
}

static void put(struct detectors *detectors, struct detector *detector) {
  size_t at = detectors->count++;
  for (; at > 0 && strcmp(name_at(detectors, at - 1), detector_name(detector)) > 0; at--)
    detectors->item[at] = detectors->item[at - 1];
  detectors->item[at].detector = detector;
  detectors->item[at].refusal = (struct detector_refusal){.reason = {0}};
}

// A link that points to nothing is skipped; another link that cannot be followed becomes a model with a fault.
static bool open_entry(struct detectors *detectors, const char *directory, const char *name,
                       const struct detector_means *means, struct error *error) {
  char path[4096];
  struct stat status;
  int length = snprintf(path, sizeof path, "%s/%s", directory, name);
  if (length < 0 || (size_t)length >= sizeof path) return error_set(error, "model %.80s: its path is too long", name);
  if (stat(path, &status) != 0 ? errno == ENOENT : !S_ISDIR(status.st_mode)) return true;
  if (strlen(name) >= DETECTOR_NAME_SIZE)
    return error_set(error, "model %.80s: its name has more than %d bytes", name, DETECTOR_NAME_SIZE - 1);
  if (detectors->count == MAX_DETECTORS)
    return error_set(error, "models directory %.200s: there are more than %d models", directory, MAX_DETECTORS);
  struct detector *detector = detector_open(path, name, means);
  if (!detector) return error_set(error, "model %s: out of memory", name);
  put(detectors, detector);
  return true;
}

static bool open_each(struct detectors *detectors, const char *directory, const struct detector_means *means,
                      struct error *error) {
  DIR *stream = opendir(directory);
  if (!stream) return error_set(error, "models directory %s: %s", directory, strerror(errno));
  bool good = true;
  int entries = 0;
  const struct dirent *entry = NULL;
  while (good && (errno = 0, entry = readdir(stream)))
    if (++entries > MAX_ENTRIES)
      good = error_set(error, "models directory %s: it has more than %d entries", directory, MAX_ENTRIES);
    else if (entry->d_name[0] != '.')
      good = open_entry(detectors, directory, entry->d_name, means, error);
  if (good && errno) good = error_set(error, "models directory %s: %s", directory, strerror(errno));
  closedir(stream);
  return good;
}

struct detectors *detectors_load(const char *directory, const struct detector_means *means, struct error *error) {
  struct detectors *detectors = calloc(1, sizeof *detectors);
  if (!detectors) {
    error_set(error, "models: out of memory");
    return NULL;
  }
  if (!directory[0] || open_each(detectors, directory, means, error)) return detectors;
  detectors_close(detectors);
  return NULL;
}

void detectors_close(struct detectors *detectors) {
  for (size_t i = 0; detectors && i < detectors->count; i++) detector_release(detectors->item[i].detector);
  free(detectors);
}

// False if no model of the same name in `before` serves.
static bool keep(struct detectors *detectors, const struct detectors *before, size_t index, const char *reason) {
  struct detector *kept = detectors_find(before, name_at(detectors, index));
  if (!kept || detector_fault(kept)) return false;
  struct detector *broken = detectors->item[index].detector;
  struct detector_refusal *refusal = &detectors->item[index].refusal;
  snprintf(refusal->version, sizeof refusal->version, "%s", detector_version(broken));
  error_set(&refusal->reason, "%s", reason);
  detectors->item[index].detector = kept;
  detector_hold(kept);
  detector_release(broken);
  return true;
}

void detectors_refuse(struct detectors *detectors, const struct detectors *before, size_t index, const char *reason) {
  if (!keep(detectors, before, index, reason)) detector_refuse(detectors->item[index].detector, reason);
}

void detectors_keep(struct detectors *detectors, const struct detectors *before) {
  for (size_t i = 0; i < detectors->count; i++) {
    const char *fault = detector_fault(detectors->item[i].detector);
    if (fault) (void)keep(detectors, before, i, fault);
  }
}

size_t detectors_count(const struct detectors *detectors) { return detectors ? detectors->count : 0; }
struct detector *detectors_at(const struct detectors *detectors, size_t index) {
  return detectors->item[index].detector;
}

struct detector *detectors_find(const struct detectors *detectors, const char *name) {
  size_t index = index_of(detectors, name);
  return index < detectors_count(detectors) ? detectors->item[index].detector : NULL;
}

const struct detector_refusal *detectors_refusal(const struct detectors *detectors, size_t index) {
  const struct detector_refusal *refusal = &detectors->item[index].refusal;
  return refusal->reason.text[0] ? refusal : NULL;
}

const struct detector_refusal *detectors_refused(const struct detectors *detectors, const char *name) {
  size_t index = index_of(detectors, name);
  return index < detectors_count(detectors) ? detectors_refusal(detectors, index) : NULL;
}

void detectors_suggest(const struct detectors *detectors, struct suggestion *near) {
  for (size_t i = 0; i < detectors_count(detectors); i++) suggest_try(near, name_at(detectors, i));
}

// `parameter`: the parameter with the model's name; NULL: the path has the name.
static bool refuse_unknown(const struct detectors *detectors, const char *name, const char *parameter,
                           struct error *error) {
  char hint[96];
  struct suggestion near = suggest(name, strlen(name));
  detectors_suggest(detectors, &near);
  return error_refuse(error, parameter ? ERROR_BAD_PARAMETER : ERROR_NOT_FOUND, parameter,
                      "there is no model '%.80s'%s; allowed: a name from GET /v1/models", name,
                      suggest_text(&near, hint, sizeof hint));
}

struct detector *detectors_need(const struct detectors *detectors, const char *name, struct error *error) {
  struct detector *detector = detectors_find(detectors, name);
  const char *fault = detector ? detector_fault(detector) : NULL;
  if (!detector)
    (void)refuse_unknown(detectors, name, "model", error);
  else if (fault)
    error_refuse(error, ERROR_MODEL_FAILED, "model", "the model %s does not serve: %s", name, fault);
  return fault ? NULL : detector;
}

void detectors_vacate(const struct detectors *detectors, int device) {
  for (size_t i = 0; i < detectors_count(detectors); i++)
    sessions_vacate_device(detector_sessions(detectors->item[i].detector), device);
}

long long detectors_sessions(const struct detectors *detectors, int device) {
  long long count = 0;
  for (size_t i = 0; i < detectors_count(detectors); i++)
    count += sessions_count(detector_sessions(detectors->item[i].detector), device);
  return count;
}

static void write_at(const struct detectors *detectors, size_t index, struct text *out) {
  const struct detector_refusal *refusal = detectors_refusal(detectors, index);
  json_printf(out, "{");
  detector_write(detectors->item[index].detector, out);
  if (refusal) json_printf(out, "refused:{version:%s reason:%s}", refusal->version, refusal->reason.text);
  json_printf(out, "}");
}

bool detectors_write_one(const struct detectors *detectors, const char *name, struct text *out, struct error *error) {
  size_t index = index_of(detectors, name);
  if (index == detectors_count(detectors)) return refuse_unknown(detectors, name, NULL, error);
  write_at(detectors, index, out);
  return true;
}

void detectors_write(const struct detectors *detectors, struct text *out) {
  json_printf(out, "{models:[");
  for (size_t i = 0; i < detectors->count; i++) write_at(detectors, i, out);
  json_printf(out, "]}\n");
}
