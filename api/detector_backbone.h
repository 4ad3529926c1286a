// Reads the backbone of a detector: `backbone` of model.json, and its weights; see detector_files.h. Any thread.
#ifndef VOXELD_DETECTOR_BACKBONE_H
#define VOXELD_DETECTOR_BACKBONE_H

#include "api/detector_parts.h"
#include "kernels/sparse.h"

enum { BACKBONE_NAME_SIZE = 64 };

struct backbone {
  struct vx_sparse layers;  // its weights belong to this struct; 0 layers: there is no backbone
  struct vx_sparse_plan plan;
  int64_t max_rows;
  char names[VX_MAX_SPARSE_LAYERS][BACKBONE_NAME_SIZE];
};

// Checks that the layers fit the voxels' grid of `cells` (along x, y, z) and points of `columns` columns. False with a
// reason that names the layer at fault.
VX_WARN_UNUSED bool backbone_read_json(struct backbone *backbone, json_t *object, const int32_t cells[3],
                                       int32_t columns, struct error *error);
// The file must have no other tensors. False with a reason that names the tensor at fault.
VX_WARN_UNUSED bool backbone_read_weights(struct backbone *backbone, const struct tensor_file *tensors,
                                          struct error *error);
void backbone_release(struct backbone *backbone);

// Writes the backbone as the members of a JSON object, without braces.
void backbone_write(const struct backbone *backbone, struct text *out);

#endif
