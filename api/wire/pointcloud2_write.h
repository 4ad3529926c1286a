// Writes clouds of points as sensor_msgs/msg/PointCloud2 of ROS 2: CDR, little-endian. `topics` says which tensors of
// an answer become clouds. Any thread; nothing here allocates.
#ifndef VOXELD_POINTCLOUD2_WRITE_H
#define VOXELD_POINTCLOUD2_WRITE_H

#include "api/wire/metadata.h"

// A kind of cloud: rows of x, y, z and other columns, and a whole number for each row.
struct topic {
  const char *name;
  enum vx_tensor points, number;
  const char *number_name;
};
enum { TOPICS = 4 };
extern const struct topic topics[TOPICS];

#define POINTCLOUD2_NAME "sensor_msgs/msg/PointCloud2"
// The definition of the message and of its parts, in ros2msg.
extern const char pointcloud2_definition[];

// The tensors that the clouds need, even if the request does not name them: those of `topics` that the operation
// computes, and voxel_coords for centres if there are no voxel_features.
vx_tensor_set pointcloud2_tensors(const struct job_request *request);

bool pointcloud2_has(const struct vx_layout *layout, const struct topic *topic);

// Writes the message of a cloud; measures it if `tensors` is NULL. `first`: the cloud's first row, advanced to the next
// cloud. False if the message would be too large.
bool pointcloud2_write(const struct answer *answer, const struct vx_layout *layout, const struct topic *topic,
                       const char *tensors, int32_t cloud, int64_t *first, int64_t stamp_ns, struct text *out);

#endif
