// See ort_arena.h.
#include "kernels/engine/ort_arena.h"

// ---- the arena while a session is opened ----------------------------------------------------------------------------

// ORT_SAME_AS_REQUESTED: the arena takes no reserves, which would count against the bound.
static bool register_arena(const struct vx_engine_library *library, const struct ort_memory *memory, size_t bytes,
                           struct error *error) {
  static const char *const keys[] = {"max_mem", "arena_extend_strategy"};
  const size_t values[] = {bytes, ORT_SAME_AS_REQUESTED};
  const struct ort_api *api = &library->api;
  struct ort_arena_options *arena;
  if (!ort_did(api, api->create_arena_options(keys, values, sizeof keys / sizeof *keys, &arena), error)) return false;
  bool good = ort_did(api, api->register_arena(library->env, memory, arena), error);
  api->release_arena_options(arena);
  return good;
}

static bool open_with_arena(struct vx_network *network, const struct ort_session_options *options,
                            const struct ort_memory *memory, size_t bytes, struct error *error) {
  const struct vx_engine_library *library = network->library;
  const struct ort_api *api = &library->api;
  struct error second;
  if (!register_arena(library, memory, bytes, error)) return false;
  bool good = ort_open_session(network, options, &network->session, error);
  bool over = ort_did(api, api->unregister_arena(library->env, memory), good ? error : &second);
  return good && over;
}

// If the weights exceed the bound, the library does not enforce it. To detect this, requests more than the bound.
static bool is_bounded(const struct vx_network *network, const struct ort_memory *memory, size_t bytes,
                       struct error *error) {
  const struct ort_api *api = &network->library->api;
  struct ort_allocator *allocator;
  void *taken = NULL;
  if (!ort_did(api, api->create_allocator(network->session, memory, &allocator), error)) return false;
  bool bounded = !ort_did(api, api->allocator_take(allocator, bytes + 1, &taken), error) &&
                 ort_fault(error, VX_FAILED) == VX_OUT_OF_MEMORY;
  bool exceeds = taken && ort_did(api, api->allocator_free(allocator, taken), error);
  api->release_allocator(allocator);
  return bounded || (exceeds && error_set(error, "its weights take more than its limit of %zu bytes", bytes));
}

static bool make_shrink(struct vx_network *network, struct error *error) {
  const struct ort_api *api = &network->library->api;
  return ort_did(api, api->create_run_options(&network->shrink), error) &&
         ort_did(api, api->add_run_config(network->shrink, "memory.enable_memory_arena_shrinkage", "cpu:0"), error) &&
         ort_did(api, api->set_terminate(network->shrink), error);
}

bool ort_open_bounded(struct vx_network *network, struct ort_session_options *options, size_t bytes,
                      struct error *error) {
  const struct ort_api *api = &network->library->api;
  struct ort_memory *memory;
  if (!ort_did(api, api->create_cpu_memory(ORT_ARENA_ALLOCATOR, ORT_DEFAULT_MEMORY, &memory), error)) return false;
  bool good = ort_did(api, api->add_session_config(options, "session.use_env_allocators", "1"), error) &&
              open_with_arena(network, options, memory, bytes, error) && is_bounded(network, memory, bytes, error) &&
              make_shrink(network, error);
  api->release_memory(memory);
  return good;
}

// ---- shrinking ------------------------------------------------------------------------------------------------------

// The run is set to end at once, so it computes nothing. At its end the arena frees what is not in use.
void ort_shrink(const struct vx_network *network, const struct ort_values *in, struct ort_values *out) {
  struct error ended;
  bool computed = ort_run(network, network->shrink, in, out, &ended);
  (void)computed;  // false: the run was ended
}
