// The small modules of api/wire: safetensors bodies, headers of files, answers as npz and MCAP, the JSON of inference
// requests. All pointers are the caller's. Any thread. Nothing here allocates, except tensors_read, which reads JSON.
#ifndef VOXELD_WIRE_H
#define VOXELD_WIRE_H

#include <jansson.h>

#include "api/base/text.h"
#include "api/ops/ops.h"

struct answer;
struct cloud_file;
struct cloud_loss;

// ---- tensors.c ------------------------------------------------------------------------------------------------------

// Reads a safetensors body: binds its tensors by name to the inputs of the request's operation. `bytes` are aligned to
// 64. If the tensors are not aligned as kernels.h requires, they are moved over the header.
VX_WARN_UNUSED bool tensors_read(char *bytes, size_t size, struct job_request *request, struct error *error);

// ---- pcd.c, ply.c, pointcloud2.c, cloudini.c ------------------------------------------------------------------------

// Reads the header of a format. Checks that the body has all points or, if they are compressed, all their bytes.
VX_WARN_UNUSED bool pcd_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);
VX_WARN_UNUSED bool ply_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);
VX_WARN_UNUSED bool pointcloud2_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);
VX_WARN_UNUSED bool compressedpointcloud2_read(const char *bytes, size_t size, struct cloud_file *file,
                                               struct error *error);
VX_WARN_UNUSED bool cloudini_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);

// The hint for a body that begins like a PointCloud2 of ROS 1 (not read) or ROS 2, compressed or not. NULL for other
// bodies, and for the format `sent_as`.
const char *pointcloud2_hint(enum body_format sent_as, const char *bytes, size_t size);

// ---- npz.c ----------------------------------------------------------------------------------------------------------

#define NPZ_MEDIA_TYPE "application/x-npz"

// Writes numpy's npz: a zip archive with NAME.npy for each tensor and metadata.json, not compressed. See
// answer_kind.write. Never fails.
//
// The values of a tensor start on a multiple of 64 bytes of the file, so a reader can map them.
bool npz_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
               struct error *error);

// ---- mcap.c ---------------------------------------------------------------------------------------------------------

#define MCAP_MEDIA_TYPE "application/x-mcap"

// Writes an MCAP file (mcap.dev/spec) for Foxglove, Lichtblick, Rerun and rosbag2. See answer_kind.write.
// ERROR_IMPOSSIBLE if a cloud has 4 GiB or more.
//
// Each cloud is a PointCloud2 message (pointcloud2_write.h). All messages are in one chunk, since viewers read files by
// the index of chunks. The metadata record `voxeld` has the metadata as JSON.
bool mcap_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                struct error *error);

// ---- infer_json.c ---------------------------------------------------------------------------------------------------

enum { INFER_JSON_MAX = 16 << 20 };  // bytes of JSON in a body

// Most bytes of memory that reading `size` bytes of JSON takes. 0 if `size` is over INFER_JSON_MAX: such JSON is not
// read.
size_t infer_json_cost(const char *bytes, size_t size);

// [least, greatest] of each type of integers.
extern const int64_t infer_whole_limits[VX_DTYPES][2];
// Writes a list of numbers, flat or nested exactly as the tensor's shape, as `count` values of its type. Null is a
// float32's NaN. False if length or nesting differ, the type cannot hold a number, the type is float16, or the job is
// stopped.
VX_WARN_UNUSED bool infer_write_numbers(const json_t *list, const struct vx_input *tensor, size_t count,
                                        struct vx_stop *stop, char *out);
// Notes how far rounding to float32 moves coordinates in such a list of points [N,C].
void infer_note_losses(const json_t *list, const struct vx_input *points, struct vx_stop *stop,
                       struct cloud_loss *loss);

#endif
