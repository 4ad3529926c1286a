// Copies that take place some time after they are asked for, as a GPU makes them: a thread that is late at random. So a
// sanitizer sees what becomes of memory while it is read.
#ifndef VOXELD_TESTS_COPIER_H
#define VOXELD_TESTS_COPIER_H

#include <stdbool.h>
#include <stddef.h>

struct copier;

// NULL: there is no memory, or no thread.
struct copier *copier_new(void);
// Ends the program if copies are under way.
void copier_free(struct copier *copier);
// False: too many are under way.
bool copier_add(struct copier *copier, void *to, const void *from, size_t bytes);
// Waits for those that were asked for. Any thread.
void copier_drain(struct copier *copier);

#endif
