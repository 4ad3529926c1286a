// See request_admit in http.h.
#include "server/http/http.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/models.h"
#include "api/query.h"
#include "kernels/ops.h"
#include "server/base/base.h"
#include "server/base/log.h"
#include "server/config/hosts.h"
#include "server/http/heads.h"
#include "server/jobs/body_open.h"
#include "server/jobs/held.h"

// ---- headers --------------------------------------------------------------------------------------------------------

#define TENSORS "application/vnd.safetensors"

// Refuses a request whose end is ambiguous. The library takes the first of several lengths, and prefers chunked coding
// to a length; a proxy in front may choose otherwise (request smuggling).
static bool read_framing(struct request *request, const struct heads *heads) {
  if (heads->odd)
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL,
                        "a header's name is empty or has a character that is not allowed, or its value has a CR");
  if (request->service->library.laid_out && !head_trace_end(&request->head_trace, request->head_end))
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL,
                        "the head has a NUL, a folded header, or a line that does not end in CR LF");
  int hosts = heads->count[HEAD_HOST], lengths = heads->count[HEAD_LENGTH], codings = heads->count[HEAD_TRANSFER];
  if (request->takes_interim && hosts == 0)
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL, "there is no Host header; HTTP/1.1 needs one");
  if (hosts > 1)
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL, "there are %d Host headers; allowed: one", hosts);
  if (lengths + codings > 1)
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL,
                        "the length is given twice; allowed: one Content-Length, or one Transfer-Encoding: chunked");
  if (codings && !request->takes_interim)
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL,
                        "there is a Transfer-Encoding; allowed only in HTTP/1.1");
  if (codings && strcasecmp(heads->value[HEAD_TRANSFER], "chunked") != 0)
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL, "Transfer-Encoding is '%.80s'; allowed: chunked",
                        heads->value[HEAD_TRANSFER]);
  request->body_bytes = codings ? -1 : 0;
  // The library has refused everything but a number of up to 64 bits.
  if (lengths) {
    unsigned long long length = strtoull(heads->value[HEAD_LENGTH], NULL, 10);
    request->body_bytes = length > INT64_MAX ? INT64_MAX : (int64_t)length;
  }
  return true;
}

static bool id_is_sound(const char *id) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";
  size_t length = strspn(id, allowed);
  return length > 0 && length <= 128 && id[length] == '\0';
}

static void take_id(struct request *request, const struct heads *heads) {
  static atomic_uint_fast64_t counter;
  const char *own = heads->value[HEAD_REQUEST_ID];
  if (own && id_is_sound(own)) {
    snprintf(request->id, sizeof request->id, "%s", own);
    return;
  }
  snprintf(request->id, sizeof request->id, "%016llx-%llx", (unsigned long long)request->service->id,
           (unsigned long long)atomic_fetch_add(&counter, 1));
}

static bool is_media_type(const char *value, const char *type) {
  size_t length = strlen(type);
  return strncasecmp(value, type, length) == 0 && (value[length] == '\0' || strchr("; \t", value[length]));
}

static bool read_codings(struct request *request, const struct heads *heads) {
  struct job *job = &request->job;
  int codings = heads->count[HEAD_ENCODING];
  if (heads->count[HEAD_ACCEPT_ENCODING] == 1 && request->service->options.compress_answers)
    job->spec.answer_coding =
        coding_for_answer(heads->value[HEAD_ACCEPT_ENCODING], request->endpoint == ENDPOINT_INFER);
  if (codings) job->spec.coding = codings > 1 ? CODINGS : coding_of_body(heads->value[HEAD_ENCODING]);
  if (job->spec.coding != CODINGS) return true;
  return error_refuse(&request->error, ERROR_UNSUPPORTED_MEDIA, NULL,
                      "Content-Encoding is '%.80s'%s; allowed: one of " CODINGS_OF_BODIES ", or none",
                      heads->value[HEAD_ENCODING], codings > 1 ? " and others" : "");
}

// HTTP libraries choose a media type by themselves: text/plain for a string, or one by a file's name. So a request that
// names its format may have any media type but multipart, which has more in it than the points.
static bool media_is_taken(const struct request *request, const char *type) {
  static const char multipart[] = "multipart/";
  if (job_request_is_given(&request->job.asked, "format"))
    return strncasecmp(type, multipart, sizeof multipart - 1) != 0;
  return request->job.spec.form || is_media_type(type, "application/octet-stream") || is_media_type(type, TENSORS);
}

static bool check_media(struct request *request, const struct heads *heads) {
  const char *type = heads->value[HEAD_TYPE];
  // curl --data-binary sends this type. curl -d sends it too, but strips bytes from the body.
  request->job.spec.form = type && is_media_type(type, "application/x-www-form-urlencoded");
  if (!type || media_is_taken(request, type)) return true;
  return error_refuse(&request->error, ERROR_UNSUPPORTED_MEDIA, NULL,
                      "Content-Type is '%.80s'; allowed: application/octet-stream, " TENSORS
                      ", or none; with format=, any but multipart",
                      type);
}

// Content-Type may name the format, instead of the parameter `format`.
static bool take_media(struct request *request, const struct heads *heads) {
  struct job_request *asked = &request->job.asked;
  const char *type = heads->value[HEAD_TYPE];
  if (!check_media(request, heads)) return false;
  if (!type || !is_media_type(type, TENSORS) || asked->format == FORMAT_SAFETENSORS) return true;
  if (asked->format != FORMAT_RAW)
    return error_refuse(&request->error, ERROR_BAD_PARAMETER, "format",
                        "format differs from Content-Type, which is " TENSORS);
  return job_request_set_format(asked, FORMAT_SAFETENSORS, &request->error);
}

// ---- query ----------------------------------------------------------------------------------------------------------

static enum MHD_Result collect_query(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                     const char *value, size_t value_size) {
  struct query *query = cls;
  (void)kind;
  if (query->count++ >= QUERY_MAX_ITEMS) return MHD_NO;
  query->items[query->count - 1] = (struct query_item){name, value, name_size, value_size};
  return MHD_YES;
}

static bool collect(struct request *request, struct query *query) {
  query->count = 0;  // its items are written before they are read
  MHD_get_connection_values_n(request->connection, MHD_GET_ARGUMENT_KIND, collect_query, query);
  return query->count <= QUERY_MAX_ITEMS || error_refuse(&request->error, ERROR_BAD_PARAMETER, NULL,
                                                         "the query has more than %d parameters", QUERY_MAX_ITEMS);
}

static bool read_query(struct request *request) {
  struct query query;
  if (!collect(request, &query)) return false;
  struct service *service = request->service;
  struct job_request *asked = &request->job.asked;
  const struct named *named = catalog_acquire(&service->catalog);
  bool good = job_request_from_query(asked, (enum vx_op)routes[request->endpoint].op, &query, named, &request->error);
  if (good) job_acquire_detector(&request->job);
  catalog_release(&service->catalog);
  if (!good) return false;
  asked->max_sampling_work = service->options.max_sampling_work;
  return true;
}

// ---- inference requests ---------------------------------------------------------------------------------------------

// The request starts from its model: an operation with its defaults, a preset, a detector, or a detector's backbone.
// The body has further parameters.
static bool start_from_model(struct request *request) {
  struct job *job = &request->job;
  struct service *service = request->service;
  struct model model;
  const struct route_names *names = &request->names;
  const struct named *named = catalog_acquire(&service->catalog);
  bool found = model_find(named, names->name, names->version, &job->asked, &model, &request->error);
  if (found && model.preset && !job_request_copy(&job->asked, model.request)) found = pool_refuse(&request->error);
  if (found && !model.fault) job_acquire_detector(job);
  bool serves = found && model_serves(&model, &request->error);
  catalog_release(&service->catalog);
  if (!serves) return false;
  job->asked.max_sampling_work = service->options.max_sampling_work;
  job->infer = pool_take(&job->asked.pool, sizeof *job->infer);
  if (!job->infer) return pool_refuse(&request->error);
  *job->infer =
      (struct infer){.model = names->name, .version = model.version, .preset = model.preset, .head_bytes = -1};
  return true;
}

// `lead` aligns the bytes after the body's JSON, which are usually the points.
static bool read_inference_head(struct request *request, const struct heads *heads) {
  struct job *job = &request->job;
  const char *value = heads->value[HEAD_INFERENCE_LENGTH];
  if (!value) return true;
  size_t digits = strspn(value, "0123456789");
  if (heads->count[HEAD_INFERENCE_LENGTH] > 1 || digits == 0 || digits > 18 || value[digits])
    return error_refuse(&request->error, ERROR_BAD_REQUEST, NULL,
                        "Inference-Header-Content-Length is '%.40s'; allowed: one number of bytes", value);
  job->infer->head_bytes = strtoll(value, NULL, 10);
  size_t beyond = (size_t)job->infer->head_bytes % VX_TENSOR_ALIGNMENT;
  job->spec.lead = beyond ? VX_TENSOR_ALIGNMENT - beyond : 0;
  return true;
}

static bool read_inference(struct request *request, const struct heads *heads) {
  struct query query;
  if (!start_from_model(request) || !read_inference_head(request, heads) || !collect(request, &query)) return false;
  const struct query_item *latest = query_find(&query, "latest");
  if (query.count > (latest != NULL))
    return error_refuse(&request->error, ERROR_BAD_PARAMETER, NULL,
                        "there is a query; allowed: parameters in the body's JSON, only latest in the query");
  return !latest || query_set(&request->job.asked, latest, &request->error);
}

// ---- body -----------------------------------------------------------------------------------------------------------

static bool check_length(struct request *request, bool declared) {
  int64_t limit = request->service->options.max_body_bytes;
  request->answer_early = !declared;  // a body may still follow
  if (!declared)
    return error_refuse(&request->error, ERROR_LENGTH_REQUIRED, NULL,
                        "send Content-Length (0 for an empty scan) or Transfer-Encoding: chunked");
  if (request->body_bytes <= limit) return true;
  return error_refuse(&request->error, ERROR_BODY_TOO_LARGE, NULL, "the body has %lld bytes; allowed: up to %lld",
                      (long long)request->body_bytes, (long long)limit);
}

// Checks that the client may use shared memory. The worker looks up its regions.
static bool check_regions(struct request *request) {
  const struct job *job = &request->job;
  if (!job->asked.points_region.name[0] && !job->asked.output_region.name[0]) return true;
  if (!regions_allow(job->services->regions, REGION_KINDS, job->spec.local, &request->error)) return false;
  if (!job->asked.points_region.name[0] || request->body_bytes == 0) return true;
  return error_refuse(&request->error, ERROR_BAD_BODY, "points_region",
                      "the points are in points_region; allowed: an empty body, with Content-Length: 0");
}

// Rows of a chunked or coded body are checked at its end. A region that is not whole rows passes here: the worker
// refuses it, and reads its bytes to say why.
static bool check_rows(struct request *request) {
  const struct region_ref *points = &request->job.asked.points_region;
  int64_t bytes = (int64_t)points->bytes;
  if (points->name[0]) return !body_is_whole(&request->job, bytes) || body_check(request, bytes);
  return request->body_bytes < 0 || request->job.spec.coding || body_check(request, request->body_bytes);
}

static bool acquire_client(struct request *request) {
  if (!request->own_client)
    request->own_client = clients_acquire(&request->service->clients, request->user, request->address);
  return request->own_client ||
         error_refuse(&request->error, ERROR_CONNECTIONS_FULL, NULL, "there are too many clients now");
}

// Counts the request for its user or the forwarded address. Without either, the request counts for the connection's
// client.
static bool count_for_client(struct request *request) {
  if (!request->user[0] && strcmp(request->address, request->peer->address) == 0) return true;
  if (!acquire_client(request)) return false;
  request->job.client = request->own_client;
  return true;
}

static bool reserve(struct request *request, enum job_kind kind) {
  if (!count_for_client(request)) return false;
  size_t bytes = kind == POINTS_JOB && request->body_bytes > 0 ? (size_t)request->body_bytes : 0;
  bool reserved = upload_begin(request->peer, &request->job, bytes, &request->error);
  if (reserved) request->job_kind = kind;
  return reserved;
}

// ---- the client and its access --------------------------------------------------------------------------------------

// Takes the client's address from X-Forwarded-For if a trusted proxy sends the request. Without an address there, the
// proxy's own stays.
static void name_client(struct request *request, const struct heads *heads) {
  const struct peer *peer = request->peer;
  request->relayed = heads->forwards || heads->count[HEAD_FORWARDED] || heads->count[HEAD_VIA];
  if (peer->proxy && heads->forwards > 0 &&
      !proxies_client(&request->service->proxies, heads->forwarded, heads->forwards, request->address))
    log_event(LOG_DEBUG, "a proxy's X-Forwarded-For has no address", "client", peer->address);
}

// Whether the Host is in --allowed-hosts, or no page of another site can have it (host_is_own). Also true on a Unix
// socket, behind a trusted proxy, and without a Host (HTTP/1.0): every browser sends one.
static bool host_is_known(const struct request *request, const struct heads *heads) {
  const struct peer *peer = request->peer;
  const char *list = request->service->options.allowed_hosts;
  bool tcp = strncmp(peer->address, "unix:", 5) != 0;
  return !tcp || peer->proxy || host_is_own(heads->value[HEAD_HOST]) || hosts_have(list, heads->value[HEAD_HOST]);
}

static bool check_host(struct request *request, const struct heads *heads) {
  bool any = !request->service->options.allowed_hosts[0] || route_is_public(request->endpoint);
  if (any || host_is_known(request, heads)) return true;
  return error_refuse(&request->error, ERROR_FORBIDDEN, NULL,
                      "the Host is '%.200s'; allowed: an IP address, localhost, or a name in --allowed-hosts",
                      heads->value[HEAD_HOST]);
}

static bool check_access(struct request *request, const struct heads *heads) {
  if (route_is_public(request->endpoint)) return true;
  struct credential credential = {heads->count[HEAD_AUTHORIZATION], heads->value[HEAD_AUTHORIZATION],
                                  request->peer->tls};
  return access_check(&request->service->access, &credential, request->user, &request->error);
}

// The header's value; "" if it is repeated, which no browser does.
static const char *lone(const struct heads *heads, enum head_name name) {
  return heads->count[name] > 1 ? "" : heads->value[name];
}

// Why the request may come from a web page of another origin (hosts.h); NULL: it does not. With credentials, the Host
// cannot be another site's: a browser adds no token by itself, and a client certificate only if the server's
// certificate is valid for the page's host.
static const char *why_cross_origin(const struct request *request, const struct heads *heads) {
  if (page_is_foreign(lone(heads, HEAD_ORIGIN), lone(heads, HEAD_SITE), heads->value[HEAD_HOST]))
    return "Origin or Sec-Fetch-Site names another site";
  if (request->user[0] || host_is_known(request, heads)) return NULL;
  return "the Host may name another site; allowed: an IP address, localhost, a name in --allowed-hosts, or any with a "
         "token or a client certificate";
}

static bool names_state(const struct request *request) {
  const struct job_request *asked = &request->job.asked;
  if (!route_computes(request->endpoint)) return route_has_state(request->endpoint);
  return asked->stream.name[0] || asked->points_region.name[0] || asked->output_region.name[0];
}

// Whether the client is on this machine, and the request comes from no proxy and no web page of another origin. A proxy
// on this machine that is not in --trusted-proxies and adds no header looks like a client.
static bool is_local(const struct request *request) {
  return address_is_local(request->peer->address) && !request->peer->proxy && !request->relayed &&
         !request->job.spec.cross_origin;
}

// Sets `local` and `cross_origin` for pages, and for requests that may name streams or regions. An inference request
// names these in its body; the worker checks them.
static bool check_state(struct request *request, const struct heads *heads) {
  struct job_spec *spec = &request->job.spec;
  bool named = names_state(request);
  if (!named && route_computes(request->endpoint) && request->endpoint != ENDPOINT_INFER) return true;
  spec->cross_origin = why_cross_origin(request, heads);
  spec->local = is_local(request);
  return !named || job_may_use_state(&request->job, &request->error);
}

// ---- all together ---------------------------------------------------------------------------------------------------

// A proxy may send a whole URL as the target.
static const char *path_of_target(const char *target) {
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    size_t length = strlen(schemes[i]);
    if (strncasecmp(target, schemes[i], length) != 0) continue;
    const char *host = target + length, *path = strchr(host, '/');
    if (path == host || *host == '\0') return target;
    return path ? path : "/";
  }
  return target;
}

// A listener for pages refuses jobs, bodies, changes, and pages whose answer lasts or is made by a worker. So no client
// holds one of its few connections for long.
static bool check_listener(struct request *request, const char *path) {
  if (!request->peer->group->pages) return true;
  const struct page *page = &request->service->pages[request->endpoint];
  if (route_computes(request->endpoint) || page->follow || page->fill || page->act)
    return error_refuse(&request->error, ERROR_NOT_FOUND, NULL,
                        "this listener serves only pages (--pages-listen); ask for %.200s at an address of --listen",
                        path);
  return request->body_bytes == 0 || error_refuse(&request->error, ERROR_BODY_TOO_LARGE, NULL,
                                                  "this listener serves only pages (--pages-listen) and takes no body");
}

static bool check_page_body(struct request *request) {
  if (strcmp(request->method, "POST") != 0 || request->body_bytes <= PAGE_BODY_MAX) return true;
  return error_refuse(&request->error, ERROR_BODY_TOO_LARGE, NULL, PAGE_BODY_TOO_LARGE, PAGE_BODY_MAX);
}

static bool takes_jobs(struct request *request) {
  return atomic_load(&request->service->phase) != PHASE_DRAINING ||
         error_refuse(&request->error, ERROR_DRAINING, NULL, "the server is stopping; try another one");
}

// A page that a worker makes has a job, unless the request is HEAD: `measure` gives the length (page.h).
static bool admit_page(struct request *request) {
  struct job *job = &request->job;
  if (!request->service->pages[request->endpoint].fill || strcmp(request->method, "HEAD") == 0) return true;
  job_request_init(&job->asked, VX_VOXELIZE);  // so that a worker of quick jobs takes the job
  job->spec.make = request_make_page;
  return takes_jobs(request) && reserve(request, PAGE_JOB);
}

static bool decide(struct request *request, const struct heads *heads, const char *method, const char *path) {
  request->answer_early = !read_framing(request, heads);  // without framing, the request's end is unknown
  if (request->answer_early) return false;
  const struct line_fault *fault = request->line_fault;
  if (fault->kind) {
    request->answer_early = fault->kind == ERROR_HEAD_TOO_LARGE;
    return error_refuse(&request->error, fault->kind, NULL, "%s", fault->detail);
  }
  if (heads->too_long)
    return error_refuse(&request->error, ERROR_HEAD_TOO_LARGE, NULL, "the header %.40s has more than %d bytes",
                        heads->too_long, LONGEST_HEADER);
  request->endpoint = route_find(path, method, &request->names);
  if (!check_host(request, heads) || !check_access(request, heads)) return false;
  if (request->endpoint == ENDPOINT_UNKNOWN) return route_missing(path, &request->error);
  if (!check_listener(request, path)) return false;
  if (!route_takes(request->endpoint, method, &request->error)) return false;
  if (!route_computes(request->endpoint))
    return check_state(request, heads) && (!route_has_state(request->endpoint) || acquire_client(request)) &&
           check_page_body(request) && admit_page(request);
  if (!takes_jobs(request)) return false;
  request->job.spec.kind = answer_kind_of(heads->value[HEAD_ACCEPT]);
  bool inference = request->endpoint == ENDPOINT_INFER;
  bool declared = heads->count[HEAD_LENGTH] || heads->count[HEAD_TRANSFER];
  return check_length(request, declared) && read_codings(request, heads) &&
         (inference ? read_inference(request, heads) : read_query(request) && take_media(request, heads)) &&
         check_state(request, heads) && check_regions(request) && check_rows(request) &&
         (inference || job_may_fit(&request->job, &request->error)) && reserve(request, POINTS_JOB);
}

void request_admit(struct request *request, const char *method, const char *path) {
  struct heads heads;
  if (request->service->library.laid_out) request->head_end = library_head_end(request->connection, method);
  heads_collect(&heads, request->connection, &request->head_trace);
  take_id(request, &heads);
  trace_begin(&request->trace, heads.count[HEAD_TRACEPARENT] == 1 ? heads.value[HEAD_TRACEPARENT] : NULL);
  name_client(request, &heads);
  snprintf(request->method, sizeof request->method, "%s", method);
  path = path_of_target(path);
  request->style = route_style(path);
  if (path[0] == '/') snprintf(request->path, sizeof request->path, "%s", path);
  if (decide(request, &heads, method, path)) return;
  // The body of a refused request is discarded and the connection kept, unless `decide` has set answer_early, the
  // client holds the body back until 100 Continue, the body is over the limit, or the listener is for pages.
  const char *expect = heads.value[HEAD_EXPECT];
  bool held_back = expect && strcasecmp(expect, "100-continue") == 0;
  if (held_back) body_guess(request);
  request->answer_early |=
      held_back || request->body_bytes > request->service->options.max_body_bytes || request->peer->group->pages;
}
