// What the readers of a detector's files share: members of model.json, tensors with weights. Any thread.
#ifndef VOXELD_DETECTOR_PARTS_H
#define VOXELD_DETECTOR_PARTS_H

#include "api/wire/tensor_file.h"

#define MODEL "model.json: "

// On failure each returns false with a reason. `where` is the text before the member's name in the reason, such as
// "encoder." or "". For part_check_members it is the name of the object, such as "encoder", or "it" for the whole file.
// A member whose name begins with # is a comment.
VX_WARN_UNUSED bool part_check_members(const char *where, json_t *object, const char *const *known,
                                       struct error *error);
VX_WARN_UNUSED bool part_read_text(const json_t *object, const char *where, const char *name, char *out, size_t size,
                                   struct error *error);
// Reads the name of a file in the model's own folder.
VX_WARN_UNUSED bool part_read_file_name(const json_t *object, const char *where, char *out, size_t size,
                                        struct error *error);
VX_WARN_UNUSED bool part_read_number(const json_t *object, const char *where, const char *name, int64_t least,
                                     int64_t most, int64_t *out, struct error *error);

enum { PART_MAX_WIDTH = 4096 };

// Finds a float32 tensor of the shape `dims`; -1 matches any length from 1 to PART_MAX_WIDTH.
VX_WARN_UNUSED bool part_find_tensor(const struct tensor_file *file, const char *name, const int64_t *dims, int rank,
                                     struct vx_input *input, struct error *error);
// Free the values with free. NULL with an error if a value is not finite, or there is no memory.
VX_WARN_UNUSED float *part_copy_values(const struct vx_input *input, const char *name, struct error *error);

#endif
