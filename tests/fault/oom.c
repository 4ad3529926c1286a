// A library for LD_PRELOAD: one call that needs memory, a thread or a descriptor fails.
//
// $VOXELD_OOM names a file of one struct control, which the test maps too. The library counts the calls of each kind in
// all threads together. Call number `fail_at` fails, as if the system had run out. Counting begins at main, after the
// start of libraries such as CUDA's.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { MEMORY, THREAD, DESCRIPTOR, KINDS };

// Calls count from 1. With fail_at = 0 no call fails.
struct control {
  struct {
    atomic_uint_fast64_t calls, fail_at;
  } of[KINDS];
};
static struct control *control;

static void share_control(void) {
  const char *path = getenv("VOXELD_OOM");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *memory = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) control = memory;
}

// `begin` runs in place of main, after all constructors.
typedef int main_function(int argc, char **argv, char **environment);
static main_function *daemon_main;

static int begin(int argc, char **argv, char **environment) {
  share_control();
  return daemon_main(argc, argv, environment);
}

// NOLINTNEXTLINE(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*linker_fini)(void), void *stack_end) {
  int (*start)(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
  *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main");
  daemon_main = main;
  return start(begin, argc, argv, init, fini, linker_fini, stack_end);
}

static int fails(enum kind kind, int error) {
  if (!control || atomic_fetch_add(&control->of[kind].calls, 1) + 1 != atomic_load(&control->of[kind].fail_at))
    return 0;
  errno = error;
  return 1;
}

// ---- memory: malloc and similar functions, and anonymous mappings ---------------------------------------------------

// glibc's functions under their internal names, since dlsym would need memory.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

void *malloc(size_t size) { return fails(MEMORY, ENOMEM) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails(MEMORY, ENOMEM) ? NULL : __libc_calloc(count, size); }
void *realloc(void *memory, size_t size) { return fails(MEMORY, ENOMEM) ? NULL : __libc_realloc(memory, size); }
void *aligned_alloc(size_t alignment, size_t size) {
  return fails(MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  void *taken = aligned_alloc(alignment, size);
  if (taken) *memory = taken;
  return taken ? 0 : ENOMEM;
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
  if ((flags & MAP_ANONYMOUS) && fails(MEMORY, ENOMEM)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

void *mremap(void *memory, size_t old_length, size_t length, int flags, ...) {
  if (length > old_length && fails(MEMORY, ENOMEM)) return MAP_FAILED;
  return (void *)syscall(SYS_mremap, memory, old_length, length, flags & ~MREMAP_FIXED);
}

// ---- threads --------------------------------------------------------------------------------------------------------

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
  return fails(THREAD, EAGAIN) ? EAGAIN : create(thread, attributes, run, argument);
}

// ---- descriptors ----------------------------------------------------------------------------------------------------

int socket(int domain, int type, int protocol) {
  return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}
int accept4(int fd, __SOCKADDR_ARG address, socklen_t *restrict length, int flags) {
  return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_accept4, fd, address.__sockaddr__, length, flags);
}
int dup(int fd) { return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_dup, fd); }
int eventfd(unsigned count, int flags) {
  return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_eventfd2, count, flags);
}
int epoll_create1(int flags) { return fails(DESCRIPTOR, EMFILE) ? -1 : (int)syscall(SYS_epoll_create1, flags); }
int epoll_ctl(int fd, int operation, int of, struct epoll_event *event) {
  if (operation == EPOLL_CTL_ADD && fails(DESCRIPTOR, ENOSPC)) return -1;
  return (int)syscall(SYS_epoll_ctl, fd, operation, of, event);
}
