// Reads the files of a detector; see detector.h. Any thread. Everything belongs to the caller.
#ifndef VOXELD_DETECTOR_FILES_H
#define VOXELD_DETECTOR_FILES_H

#include "api/detector_backbone.h"
#include "api/ops/ops.h"

enum { DETECTOR_VERSION_SIZE = 64 };

// The contents of a model's files.
struct detector_files {
  char folder[4096];
  char description[512], class_names[REQUEST_NAMES_SIZE];
  char version[DETECTOR_VERSION_SIZE];
  char weights_file[256], network_file[256];  // weights: of the encoder or the backbone
  char input[VX_NETWORK_NAME_SIZE];
  char outputs[VX_DETECTOR_MAPS][VX_NETWORK_NAME_SIZE];  // for each input of the decoder; "" = not given
  bool channels_first;
  int32_t layers, width;      // of the encoder, as model.json has them
  struct vx_encoder encoder;  // its weights belong to this struct
  struct backbone backbone;   // 0 layers: the model has no backbone
  struct vx_track_terms tracks;
  struct job_request *voxelize, *decode;  // finished requests
};

// Whether paths and lists can contain the text unescaped: it has only letters, digits, dots, _ and -.
VX_WARN_UNUSED bool detector_fits_paths(const char *text);

// Call both, in this order: the first reads model.json, the second the weights. False with a reason that names the file
// and the field at fault.
VX_WARN_UNUSED bool detector_read_json(struct detector_files *files, struct error *error);
VX_WARN_UNUSED bool detector_read_weights(struct detector_files *files, struct error *error);
void detector_files_release(struct detector_files *files);  // frees the weights and the requests

#endif
