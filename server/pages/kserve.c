// The pages of the KServe v2 protocol; see pages.h. Each model has one version.
#include "server/pages/pages.h"

#include "api/base/json_write.h"
#include "api/models.h"
#include "kernels/ops.h"

// ---- the server -----------------------------------------------------------------------------------------------------

bool kserve_write_live(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)asked, (void)error;
  json_printf(out, "{live:true}\n");
  return true;
}

bool kserve_write_ready(const struct page_asked *asked, struct text *out, struct error *error) {
  if (!service_is_ready(asked->service, error)) return false;
  json_printf(out, "{ready:true}\n");
  return true;
}

bool kserve_write_server(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)error;
  json_printf(out, "{name:'voxeld' version:%s extensions:['binary_tensor_data' 'parameters'", VOXELD_VERSION);
  json_printf(out, "'model_configuration' 'model_repository' 'statistics'");
  if (asked->service->options.allow_shared_memory) json_put_string(out, "system_shared_memory");
  if (asked->service->options.allow_cuda_shared_memory) json_put_string(out, "cuda_shared_memory");
  json_printf(out, "]}\n");
  return true;
}

// ---- models ---------------------------------------------------------------------------------------------------------

typedef void (*model_writer)(struct service *service, const struct model *model, struct text *out);

// If `serving`, refuses models that do not serve.
static bool write_one(const struct page_asked *asked, bool serving, model_writer writer, struct text *out,
                      struct error *error) {
  struct job_request memory = {0};
  struct model model;
  bool good =
      model_find(catalog_acquire(&asked->service->catalog), asked->name, asked->version, &memory, &model, error) &&
      (!serving || model_serves(&model, error));
  if (good) writer(asked->service, &model, out);
  catalog_release(&asked->service->catalog);
  pool_release(&memory.pool);
  return good;
}

// Writes all models as elements of a list. If `serving`, leaves out models that do not serve.
static void write_each(struct service *service, bool serving, model_writer writer, struct text *out) {
  struct job_request memory = {0};
  struct model model;
  char name[MODEL_NAME_SIZE];
  const struct named *named = catalog_acquire(&service->catalog);
  for (size_t number = 0; number < model_numbers(named); number++)
    if (model_at(named, number, name, &memory, &model) && !(serving && model.fault)) writer(service, &model, out);
  catalog_release(&service->catalog);
  pool_release(&memory.pool);
}

static void write_name(struct service *service, const struct model *model, struct text *out) {
  (void)service;
  json_put_string(out, model->name);
}

static void write_metadata(struct service *service, const struct model *model, struct text *out) {
  (void)service;
  model_write_metadata(model, out);
}

static void write_config(struct service *service, const struct model *model, struct text *out) {
  (void)service;
  model_write_config(model, out);
}

bool kserve_write_models(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)error;
  json_printf(out, "{models:[");
  write_each(asked->service, false, write_name, out);
  json_printf(out, "]}\n");
  return true;
}

bool kserve_write_model(const struct page_asked *asked, struct text *out, struct error *error) {
  return write_one(asked, true, write_metadata, out, error);
}

bool kserve_write_config(const struct page_asked *asked, struct text *out, struct error *error) {
  return write_one(asked, true, write_config, out, error);
}

bool kserve_write_model_ready(const struct page_asked *asked, struct text *out, struct error *error) {
  json_printf(out, "{name:");
  if (!write_one(asked, true, write_name, out, error) || !service_is_ready(asked->service, error)) return false;
  json_printf(out, "ready:true}\n");
  return true;
}

// ---- the repository -------------------------------------------------------------------------------------------------

// The model still serves from its older files.
static void write_refused(const struct model *model, struct text *out) {
  json_printf(out, "reason:'newer files%s%s are refused: %s'", model->refused_version[0] ? " of version " : "",
              model->refused_version, model->refused);
}

static void write_entry(struct service *service, const struct model *model, struct text *out) {
  struct error error = {0};
  bool ready = service_is_ready(service, &error) && model_serves(model, &error);
  json_printf(out, "{name:%s version:%s state:%s", model->name, model->version, ready ? "READY" : "UNAVAILABLE");
  if (ready && model->refused)
    write_refused(model, out);
  else
    json_printf(out, "reason:%s", error.text);
  json_printf(out, "}");
}

bool kserve_write_index(const struct page_asked *asked, struct text *out, struct error *error) {
  bool only_ready;
  struct error why;
  if (!model_read_index(asked->body, asked->body_size, &only_ready, error)) return false;
  json_printf(out, "[");
  if (!only_ready || service_is_ready(asked->service, &why)) write_each(asked->service, only_ready, write_entry, out);
  json_printf(out, "]\n");
  return true;
}

bool kserve_refuse_load(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)out;
  return error_refuse(error, ERROR_UNSUPPORTED, NULL,
                      "'%.80s' cannot be loaded or unloaded by request; the models are the operations, the presets "
                      "and the networks in models_dir, which the server reads at the start and on SIGHUP",
                      asked->name);
}

// ---- statistics -----------------------------------------------------------------------------------------------------

static void write_duration(const char *name, unsigned long long count, unsigned long long ns, struct text *out) {
  json_printf(out, "%s:{count:%llu ns:%llu}", name, count, ns);
}

// An answered request counts as one inference and one execution, however many clouds it has.
static void write_model_stats(struct service *service, const struct model *model, struct text *out) {
  static const char *const parts[] = {"queue", "compute_input", "compute_infer", "compute_output"};
  static const struct model_counts none;
  const struct model_counts *counts = models_find(&service->counters.models, model->name);
  if (!counts) counts = &none;
  unsigned long long good = counter_value(&counts->succeeded);
  json_printf(out,
              "{name:%s version:%s last_inference:%llu inference_count:%llu execution_count:%llu inference_stats:{",
              model->name, model->version, counter_value(&counts->last_unix_ms), good, good);
  write_duration("success", good, counter_value(&counts->succeeded_ns), out);
  write_duration("fail", counter_value(&counts->failed), counter_value(&counts->failed_ns), out);
  for (int part = 0; part < MODEL_PARTS; part++)
    write_duration(parts[part], good, counter_value(&counts->part_ns[part]), out);
  write_duration("cache_hit", 0, 0, out);
  write_duration("cache_miss", 0, 0, out);
  json_printf(out, "}batch_stats:[]}");
}

bool kserve_write_stats(const struct page_asked *asked, struct text *out, struct error *error) {
  json_printf(out, "{model_stats:[");
  if (!write_one(asked, false, write_model_stats, out, error)) return false;
  json_printf(out, "]}\n");
  return true;
}

bool kserve_write_all_stats(const struct page_asked *asked, struct text *out, struct error *error) {
  (void)error;
  json_printf(out, "{model_stats:[");
  write_each(asked->service, false, write_model_stats, out);
  json_printf(out, "]}\n");
  return true;
}
