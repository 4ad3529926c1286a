// A library for LD_PRELOAD. It copies each text of a request that libmicrohttpd hands out into memory that ends with
// the text, so that AddressSanitizer reports a read past the text. In the connection's memory the next text follows.
// Any thread.
//
// The newest copies are kept, since a caller may use a text until the request is over.
#include <dlfcn.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- copies ---------------------------------------------------------------------------------------------------------

enum { KEPT = 1 << 10, KEPT_BYTES = 1 << 20 };
static struct {
  char *block;
  size_t size;
} kept[KEPT];
static size_t oldest, next, kept_bytes;

static void keep(char *block, size_t size) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  while (oldest < next && (next - oldest == KEPT || kept_bytes + size > KEPT_BYTES)) {
    kept_bytes -= kept[oldest % KEPT].size;
    free(kept[oldest++ % KEPT].block);
  }
  kept[next % KEPT].block = block;
  kept[next++ % KEPT].size = size;
  kept_bytes += size;
  pthread_mutex_unlock(&lock);
}

static const char *copy(const char *text, size_t size) {
  char *block = text ? malloc(size + 1) : NULL;
  if (!block) return NULL;
  memcpy(block, text, size);
  block[size] = '\0';
  keep(block, size + 1);
  return block;
}

static const char *copy_text(const char *text) { return copy(text, text ? strlen(text) : 0); }

// libmicrohttpd's own function of this name.
#define OWN(NAME) (*(__typeof__(&(NAME)) *)(void *[]){dlsym(RTLD_NEXT, #NAME)})

// ---- headers and arguments ------------------------------------------------------------------------------------------

struct iteration {
  MHD_KeyValueIteratorN iterator;
  void *cls;
};

static enum MHD_Result on_value(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                const char *value, size_t value_size) {
  const struct iteration *iteration = cls;
  return iteration->iterator(iteration->cls, kind, copy(name, name_size), name_size, copy(value, value_size),
                             value_size);
}

int MHD_get_connection_values_n(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                                MHD_KeyValueIteratorN iterator, void *cls) {
  struct iteration iteration = {iterator, cls};
  return OWN(MHD_get_connection_values_n)(connection, kind, on_value, &iteration);
}

const char *MHD_lookup_connection_value(struct MHD_Connection *connection, enum MHD_ValueKind kind, const char *name) {
  return copy_text(OWN(MHD_lookup_connection_value)(connection, kind, name));
}

// ---- the daemon's callbacks -----------------------------------------------------------------------------------------

typedef void *on_target(void *cls, const char *target, struct MHD_Connection *connection);

struct callbacks {
  MHD_AccessHandlerCallback request;
  void *request_cls;
  on_target *target;
  void *target_cls;
};

static void *exact_target(void *cls, const char *target, struct MHD_Connection *connection) {
  const struct callbacks *callbacks = cls;
  return callbacks->target(callbacks->target_cls, copy_text(target), connection);
}

static enum MHD_Result exact_request(void *cls, struct MHD_Connection *connection, const char *path, const char *method,
                                     const char *version, const char *data, size_t *size, void **request_cls) {
  const struct callbacks *callbacks = cls;
  char *body = *size ? malloc(*size) : NULL;
  if (body) memcpy(body, data, *size);
  enum MHD_Result result = callbacks->request(callbacks->request_cls, connection, copy_text(path), copy_text(method),
                                              copy_text(version), body ? body : data, size, request_cls);
  free(body);
  return result;
}

// ---- start ----------------------------------------------------------------------------------------------------------

// An option with its arguments, as MHD_OPTION_ARRAY takes them. Ends the process at an option that the daemon does not
// use.
static struct MHD_OptionItem take_option(enum MHD_OPTION option, va_list *arguments, struct callbacks *callbacks) {
  struct MHD_OptionItem item = {.option = option};
  switch (option) {
    case MHD_OPTION_CONNECTION_MEMORY_LIMIT: item.value = (intptr_t)va_arg(*arguments, size_t); break;
    case MHD_OPTION_CONNECTION_LIMIT:
    case MHD_OPTION_CONNECTION_TIMEOUT:
    case MHD_OPTION_THREAD_POOL_SIZE:
    case MHD_OPTION_LISTEN_SOCKET:
    case MHD_OPTION_STRICT_FOR_CLIENT: item.value = va_arg(*arguments, int); break;
    case MHD_OPTION_HTTPS_PRIORITIES:
    case MHD_OPTION_HTTPS_CERT_CALLBACK: item.ptr_value = va_arg(*arguments, void *); break;
    case MHD_OPTION_URI_LOG_CALLBACK:
      callbacks->target = va_arg(*arguments, on_target *);
      callbacks->target_cls = va_arg(*arguments, void *);
      item.value = (intptr_t)exact_target;
      item.ptr_value = callbacks;
      break;
    case MHD_OPTION_EXTERNAL_LOGGER:
    case MHD_OPTION_NOTIFY_COMPLETED:
    case MHD_OPTION_NOTIFY_CONNECTION:
      item.value = (intptr_t)va_arg(*arguments, void *);
      item.ptr_value = va_arg(*arguments, void *);
      break;
    default: fprintf(stderr, "exact: option %d is not known here\n", (int)option); abort();
  }
  return item;
}

struct MHD_Daemon *MHD_start_daemon(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback accept, void *accept_cls,
                                    MHD_AccessHandlerCallback request, void *request_cls, ...) {
  struct MHD_OptionItem items[32] = {{.option = MHD_OPTION_END}};
  static struct callbacks all[64];
  static size_t count;  // the daemon starts its listeners one after the other
  struct callbacks *callbacks = &all[count++ % (sizeof all / sizeof *all)];
  *callbacks = (struct callbacks){.request = request, .request_cls = request_cls};
  va_list arguments;
  va_start(arguments, request_cls);
  for (size_t i = 0; i + 1 < sizeof items / sizeof *items; i++) {
    enum MHD_OPTION option = va_arg(arguments, enum MHD_OPTION);
    if (option == MHD_OPTION_END) break;
    items[i] = take_option(option, &arguments, callbacks);
    items[i + 1] = (struct MHD_OptionItem){.option = MHD_OPTION_END};
  }
  va_end(arguments);
  return OWN(MHD_start_daemon)(flags, port, accept, accept_cls, exact_request, callbacks, MHD_OPTION_ARRAY, items,
                               MHD_OPTION_END);
}
