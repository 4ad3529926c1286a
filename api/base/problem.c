// See problem.h.
#include "api/base/problem.h"

#include <stdarg.h>
#include <stdio.h>

#include "api/base/json_write.h"

static const struct problem_info problems[ERROR_COUNT] = {{200, "none", 0, "OK"},
#define X(kind, status, name, retry, title) {status, name, retry, title},
                                                          PROBLEMS(X)
#undef X
};

const struct problem_info *problem_info(enum error_kind kind) { return &problems[kind]; }

int problem_status(enum error_kind kind, enum problem_style style) {
  int status = problem_info(kind)->status;
  if (style != PROBLEM_STYLE_KSERVE) return status;
  return status == 422 ? 400 : status == 415 ? 501 : status;
}

const char *problem_media_type(enum problem_style style) {
  return style == PROBLEM_STYLE_KSERVE ? "application/json" : "application/problem+json";
}

const char *problem_phrase(int status) {
  static const struct {
    int status;
    const char *words;
  } phrases[] = {{200, "OK"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {411, "Length Required"},
                 {413, "Content Too Large"},
                 {415, "Unsupported Media Type"},
                 {422, "Unprocessable Content"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"}};
  for (size_t i = 0; i < sizeof phrases / sizeof *phrases; i++)
    if (phrases[i].status == status) return phrases[i].words;
  return "";
}

bool error_refuse(struct error *error, enum error_kind kind, const char *parameter, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  error_write(error, kind, parameter, format, arguments);
  va_end(arguments);
  return false;
}

void problem_render(const struct error *error, enum problem_style style, const char *request_id, struct text *out) {
  const struct problem_info *info = problem_info(error->kind);
  json_printf(out, "{type:'urn:voxeld:problem:%s' status:%d title:%s detail:%s", info->name,
              problem_status(error->kind, style), info->title, error->text);
  if (style == PROBLEM_STYLE_KSERVE) json_printf(out, "error:%s", error->text);
  if (error->parameter[0]) json_printf(out, "parameter:%s", error->parameter);
  if (request_id[0]) json_printf(out, "request_id:%s", request_id);
  json_printf(out, "}\n");
}
