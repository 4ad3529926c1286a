// Writes clouds of points as ROS 2 serializes a sensor_msgs/msg/PointCloud2: CDR, little-endian.
//
// One table says which of an answer's tensors become clouds; see `topics` below. Any thread; nothing here allocates.
#ifndef VOXELD_POINTCLOUD2_WRITE_H
#define VOXELD_POINTCLOUD2_WRITE_H

#include "api/wire/metadata.h"

// A kind of cloud: rows of x, y, z and other columns, and one whole number for each row.
struct topic {
  const char *name;
  enum vx_tensor points, number;
  const char *number_name;
};
enum { TOPICS = 4 };
extern const struct topic topics[TOPICS];

#define POINTCLOUD2_NAME "sensor_msgs/msg/PointCloud2"
// The definitions of PointCloud2 and of its parts, as ROS 2 writes them into a file (ros2msg).
extern const char pointcloud2_definition[];

// The tensors that the clouds of an operation are made from, even if the request does not name them: the tensors of
// `topics` that the operation computes, and voxel_coords to compute centres if there are no means.
vx_tensor_set pointcloud2_tensors(const struct job_request *request);

// Whether the answer has the tensors of the topic.
bool pointcloud2_has(const struct vx_layout *layout, const struct topic *topic);

// Writes the message of one cloud, or measures it if `tensors` is NULL. `first` is the number of the cloud's first row;
// the function advances it to the next cloud. False if the cloud is too large for a message.
bool pointcloud2_write(const struct answer *answer, const struct vx_layout *layout, const struct topic *topic,
                       const char *tensors, int32_t cloud, int64_t *first, int64_t stamp_ns, struct text *out);

#endif
