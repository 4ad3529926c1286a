// See ort_lane_session.h.
//
// An ort_session has one stream, so each vx_session has an ort_session of its own. Opening it reads the network's file
// again. Runs only enqueue work: by default the library would wait for the stream at the end of each run.
#include "kernels/engine/ort_lane_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/engine/ort_library.h"

struct vx_session {
  const struct vx_engine_library *library;
  struct ort_session *session;
  struct ort_memory *memory;  // says that data lies on the device
  struct ort_run_options *run_options;
};

// ---- opening --------------------------------------------------------------------------------------------------------

// One update sets all values, because each update resets the others to their defaults. HEURISTIC: cuDNN chooses
// algorithms by rules, since algorithms chosen by measured times could round differently at the next start.
// kSameAsRequested: the arena takes no reserves, which would count against the limit.
static bool fill_cuda(const struct ort_api *api, struct ort_cuda_options *cuda, const struct vx_device_stream *stream,
                      struct error *error) {
  char device[16], limit[32];
  const char *const keys[] = {"device_id", "use_tf32", "cudnn_conv_algo_search", "arena_extend_strategy",
                              "gpu_mem_limit"};
  const char *const values[] = {device, stream->tf32 ? "1" : "0", "HEURISTIC", "kSameAsRequested", limit};
  const size_t count = sizeof keys / sizeof *keys;
  snprintf(device, sizeof device, "%d", stream->device);
  snprintf(limit, sizeof limit, "%zu", stream->memory_bytes);
  return ort_did(api, api->update_cuda_options(cuda, keys, values, stream->memory_bytes == 0 ? count - 1 : count),
                 error) &&
         ort_did(api, api->update_cuda_pointer(cuda, "user_compute_stream", stream->handle), error);
}

static bool use_cuda(const struct ort_api *api, struct ort_session_options *options,
                     const struct vx_device_stream *stream, struct error *error) {
  struct ort_cuda_options *cuda;
  if (!ort_did(api, api->create_cuda_options(&cuda), error)) return false;
  bool good = fill_cuda(api, cuda, stream, error) && ort_did(api, api->append_cuda(options, cuda), error);
  api->release_cuda_options(cuda);
  return good;
}

static bool open_session(struct vx_session *session, const struct vx_network *network,
                         const struct vx_device_stream *stream, struct error *error) {
  const struct ort_api *api = &session->library->api;
  struct ort_session_options *options;
  if (!ort_did(api, api->create_session_options(&options), error)) return false;
  bool good = ort_set_options(api, options, 1, error) && use_cuda(api, options, stream, error) &&
              ort_open_session(network, options, &session->session, error);
  api->release_session_options(options);
  return good;
}

static bool open_parts(struct vx_session *session, const struct vx_network *network,
                       const struct vx_device_stream *stream, struct error *error) {
  const struct ort_api *api = &session->library->api;
  return open_session(session, network, stream, error) &&
         ort_did(api,
                 api->create_memory(ORT_CUDA_MEMORY, ORT_DEVICE_ALLOCATOR, stream->device, ORT_DEFAULT_MEMORY,
                                    &session->memory),
                 error) &&
         ort_did(api, api->create_run_options(&session->run_options), error) &&
         ort_did(api, api->add_run_config(session->run_options, "disable_synchronize_execution_providers", "1"), error);
}

enum vx_status ort_lane_session_open(struct vx_network *network, const struct vx_device_stream *stream,
                                     struct vx_session **session, struct error *error) {
  struct vx_session *made = calloc(1, sizeof *made);
  if (!made) return vx_fail(error, VX_OUT_OF_MEMORY, "no memory for a session of a network");
  made->library = network->library;
  if (open_parts(made, network, stream, error)) {
    *session = made;
    return VX_OK;
  }
  ort_lane_session_close(made);
  return ort_fault(error, VX_REFUSED);
}

void ort_lane_session_close(struct vx_session *session) {
  const struct ort_api *api = &session->library->api;
  if (session->run_options) api->release_run_options(session->run_options);
  if (session->memory) api->release_memory(session->memory);
  if (session->session) api->release_session(session->session);
  free(session);
}

// ---- running --------------------------------------------------------------------------------------------------------

static bool bind(const struct ort_api *api, struct ort_binding *binding, const struct ort_values *in,
                 const struct ort_values *out, struct error *error) {
  bool good = true;
  for (int i = 0; i < in->count && good; i++)
    good = ort_did(api, api->bind_input(binding, in->name[i], in->value[i]), error);
  for (int i = 0; i < out->count && good; i++)
    good = ort_did(api, api->bind_output(binding, out->name[i], out->value[i]), error);
  return good;
}

static bool run_bound(const struct vx_session *session, const struct ort_values *in, const struct ort_values *out,
                      struct error *error) {
  const struct ort_api *api = &session->library->api;
  struct ort_binding *binding;
  if (!ort_did(api, api->create_binding(session->session, &binding), error)) return false;
  bool good = bind(api, binding, in, out, error) &&
              ort_did(api, api->run_bound(session->session, session->run_options, binding), error);
  api->release_binding(binding);
  return good;
}

enum vx_status ort_lane_session_run(struct vx_session *session, const struct vx_network_run *run, struct error *error) {
  const struct ort_api *api = &session->library->api;
  struct ort_values in = {0}, out = {0};
  bool good = ort_wrap(session->library, session->memory, run->input, run->inputs, &in, error) &&
              ort_wrap(session->library, session->memory, run->output, run->outputs, &out, error) &&
              run_bound(session, &in, &out, error);
  ort_unwrap(api, &out);
  ort_unwrap(api, &in);
  return good ? VX_OK : ort_fault(error, VX_FAILED);
}
