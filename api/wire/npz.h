// Writes an answer as numpy's npz: a zip archive with a member NAME.npy for each tensor, and `metadata.json`.
//
// numpy.load gives the tensors as arrays by their names, and the metadata as the bytes of "metadata.json". Members are
// stored, and each tensor's values start on a multiple of 64 bytes of the file, so they can be mapped where they lie.
// Any thread; nothing here allocates.
#ifndef VOXELD_NPZ_H
#define VOXELD_NPZ_H

#include "api/wire/metadata.h"

#define NPZ_MEDIA_TYPE "application/x-npz"

// As answer_kind.write; never fails.
bool npz_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
               struct error *error);

#endif
