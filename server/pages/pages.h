// The pages: one row for each endpoint. A page shows the present state of the rooms below this one.
//
// The I/O threads call the pages; a worker calls streams_fill_last.
#ifndef VOXELD_PAGES_H
#define VOXELD_PAGES_H

#include "api/routes.h"
#include "server/http/http.h"

extern const struct page pages[ENDPOINT_COUNT];

static const struct lane_names {
  const char *label;            // in metrics
  const char *workers, *queue;  // in /v1/status
} lane_names[VX_LANE_USES] = {
    [VX_LANE_QUICK] = {"quick", "workers", "queue"},
    [VX_LANE_LONG] = {"long", "long_workers", "long_queue"},
    [VX_LANE_DETECT] = {"detect", "detection_workers", "detection_queue"},
};

// How many sessions the GPU has: one for each network on each detection stream.
long long service_sessions(struct service *service, const struct device *gpu);
// As /readyz says. False with an error.
VX_WARN_UNUSED bool service_is_ready(struct service *service, struct error *error);

// ---- /v1/status, /metrics and --describe ----------------------------------------------------------------------------

// Writes the member `clients` of /v1/status. `named`: with the clients' names, which are users and addresses.
void shares_write(struct service *service, bool named, struct text *out);
void metrics_write(struct service *service, struct text *out);
void metrics_describe(struct text *out);  // the families as a JSON array
// Writes every table of the service as JSON.
void describe_write(struct text *out);

// ---- the KServe v2 protocol -----------------------------------------------------------------------------------------

bool kserve_write_live(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_ready(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_server(const struct page_asked *asked, struct text *out, struct error *error);

bool kserve_write_model(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_config(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_stats(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_model_ready(const struct page_asked *asked, struct text *out, struct error *error);

bool kserve_write_models(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_all_stats(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_write_index(const struct page_asked *asked, struct text *out, struct error *error);
bool kserve_refuse_load(const struct page_asked *asked, struct text *out, struct error *error);

// ---- regions of shared memory, by Triton's extensions of the KServe v2 protocol -------------------------------------

// The client's region that the path names, or all its regions; of GPU memory if the page is `of_gpu`.
bool regions_write_status(const struct page_asked *asked, struct text *out, struct error *error);
bool regions_act_register(const struct page_asked *asked, struct error *error);
bool regions_act_unregister(const struct page_asked *asked, struct error *error);

// ---- the client's streams -------------------------------------------------------------------------------------------

// A row for a page that sends events. The headers ask proxies to pass on each event at once.
#define STREAMS_EVENTS                                                                                                 \
  { .media_type = "text/event-stream", .headers = streams_headers, .follow = streams_follow }

extern const struct page_header streams_headers[];

// The client's stream that the path names, or all its streams.
bool streams_write_status(const struct page_asked *asked, struct text *out, struct error *error);
bool streams_act_delete(const struct page_asked *asked, struct error *error);
// The points that the last request of the stream joined, as a safetensors file, and its length. -1: it depends on how
// many points near the sensor are removed.
bool streams_fill_last(const struct page_asked *asked, struct job *job);
bool streams_measure_last(const struct page_asked *asked, int64_t *length, struct error *error);
// Subscribes to the stream that the path names, or to all.
bool streams_follow(const struct page_asked *asked, struct subscriber *subscriber, struct error *error);

// ---- the files of web/, which browsers load -------------------------------------------------------------------------

// The files need no token and contain no state. Their scripts ask the API, with the user's token. The headers forbid
// the browser to load anything from other sites.

// A row for a page that is `file`. NULL: the file that the path names.
#define WEB_PAGE(file)                                                                                                 \
  { .name = (file), .media_type_of = web_media_type, .tag_of = web_tag, .headers = web_headers, .write = web_write }

extern const struct page_header web_headers[];

const char *web_media_type(const char *file);  // by the end of its name
const char *web_tag(const char *file);         // NULL: there is no such file
bool web_write(const struct page_asked *asked, struct text *out, struct error *error);

#endif
