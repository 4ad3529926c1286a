// Writes an answer as an MCAP file, which Foxglove, Lichtblick, Rerun and rosbag2 open (mcap.dev/spec).
//
// Its points are PointCloud2 messages, one for each cloud of the batch (see pointcloud2_write.h). They lie in one
// chunk, not compressed, since viewers read a file through the index of its chunks. A metadata record `voxeld` has the
// metadata as JSON. Any thread; nothing here allocates.
#ifndef VOXELD_MCAP_H
#define VOXELD_MCAP_H

#include "api/wire/metadata.h"

#define MCAP_MEDIA_TYPE "application/x-mcap"

// As answer_kind.write. ERROR_IMPOSSIBLE if a cloud has 4 GiB or more.
bool mcap_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                struct error *error);

#endif
