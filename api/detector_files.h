// Reads the files of a detector; see detector.h. Any thread; all belongs to the caller.
#ifndef VOXELD_DETECTOR_FILES_H
#define VOXELD_DETECTOR_FILES_H

#include "api/ops/ops.h"

enum { DETECTOR_MAX_WIDTH = 4096, DETECTOR_VERSION_SIZE = 64 };

// What the files of a model say.
struct detector_files {
  char folder[4096];
  char description[512], class_names[REQUEST_NAMES_SIZE];
  char version[DETECTOR_VERSION_SIZE];
  char encoder_file[256], network_file[256];
  char input[VX_NETWORK_NAME_SIZE];
  char outputs[VX_DETECTOR_MAPS][VX_NETWORK_NAME_SIZE];  // by the decoder's inputs; "" = not given
  bool channels_first;
  int32_t layers, width;                  // of the encoder, as model.json has them
  struct vx_encoder encoder;              // free frees its weights
  struct job_request *voxelize, *decode;  // finished; free frees them
};

// Whether paths and lists can have a text as it is: it has letters, digits, dots, _ and - alone.
VX_WARN_UNUSED bool detector_fits_paths(const char *text);

// Reads model.json, then the encoder's weights. False with a reason, which names the file and the field at fault.
VX_WARN_UNUSED bool detector_read_json(struct detector_files *files, struct error *error);
VX_WARN_UNUSED bool detector_read_encoder(struct detector_files *files, struct error *error);
void detector_files_free(struct detector_files *files);

#endif
