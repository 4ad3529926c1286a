// A page: the answer to a GET, HEAD or DELETE, or to a POST with a small body, if the endpoint computes nothing.
// pages/ has the table. The functions run on the I/O thread of the request, `fill` on a worker's.
#ifndef VOXELD_PAGE_H
#define VOXELD_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/problem.h"
#include "api/base/text.h"

struct client;
struct job;
struct page;
struct service;
struct subscriber;

enum { PAGE_BODY_MAX = 16384 };  // bytes of a POST's body
#define PAGE_BODY_TOO_LARGE "the body is longer than %d bytes, the maximum that this path takes"

struct page_asked {
  struct service *service;
  const struct page *page;
  const char *name;       // the part of the path that matches the route's *, or ""
  const char *version;    // of a model, if the path names one, or ""
  const char *user;       // by token or certificate; "": known by address
  const char *address;    // of the client
  struct client *client;  // NULL unless the endpoint has a client's state (route_has_state)
  bool local;             // is_local in admit.c
  const char *body;       // [body_size], then a NUL
  size_t body_size;
};

struct page_header {
  const char *name, *value;
};

struct page {
  const char *name;        // for page_asked; NULL: the name comes from the path
  const char *text;        // the whole page, if its text is fixed
  bool of_gpu;             // the page is about regions of GPU memory, not of shared memory
  const char *media_type;  // NULL: `media_type_of` has it
  const char *(*media_type_of)(const char *name);
  const char *(*tag_of)(const char *name);  // ETag; none if this or its result is NULL
  const struct page_header *headers;  // more headers of an answer without a problem, up to a NULL name; NULL: none
  // Writes the page to `out`, which may be too small; called twice or more for one answer. False with an error. NULL:
  // `fill` or `follow` answers, or the endpoint has no page.
  bool (*write)(const struct page_asked *asked, struct text *out, struct error *error);
  // Makes a file that may take long, as the output of a job, on a worker's thread. False with the job's problem. NULL:
  // `write` makes the page.
  bool (*fill)(const struct page_asked *asked, struct job *job);
  // The length of the file that `fill` makes, for HEAD. -1: unknown until the file is made.
  bool (*measure)(const struct page_asked *asked, int64_t *length, struct error *error);
  // Subscribes to events.
  bool (*follow)(const struct page_asked *asked, struct subscriber *subscriber, struct error *error);
  // Does what a POST or DELETE asks for, once, before the page is written. False with an error. NULL: nothing to do.
  bool (*act)(const struct page_asked *asked, struct error *error);
};

#endif
