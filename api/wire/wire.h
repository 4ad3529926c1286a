// The small modules of the room: a body that is a safetensors file, the headers of files, the files npz and MCAP as
// answers, and the JSON of inference requests.
//
// Everything pointed to is the caller's. Any thread. Nothing here allocates, except tensors_read, which reads JSON.
#ifndef VOXELD_WIRE_H
#define VOXELD_WIRE_H

#include <jansson.h>

#include "api/base/text.h"
#include "api/ops/ops.h"

struct answer;
struct cloud_file;
struct cloud_loss;

// ---- tensors.c ------------------------------------------------------------------------------------------------------

// Reads a body that is a safetensors file. Binds its tensors to the inputs of the request's operation, by name. `bytes`
// are aligned to 64. If the tensors are not aligned as kernels.h requires, the function moves them over the header.
// False with an error.
VX_WARN_UNUSED bool tensors_read(char *bytes, size_t size, struct job_request *request, struct error *error);

// ---- pcd.c, ply.c, pointcloud2.c, cloudini.c ------------------------------------------------------------------------

// Each reads the header of a format, and checks that the body has all points or, if they are compressed, all of their
// bytes. False with an error.
VX_WARN_UNUSED bool pcd_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);
VX_WARN_UNUSED bool ply_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);
VX_WARN_UNUSED bool pointcloud2_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);
VX_WARN_UNUSED bool compressedpointcloud2_read(const char *bytes, size_t size, struct cloud_file *file,
                                               struct error *error);
VX_WARN_UNUSED bool cloudini_read(const char *bytes, size_t size, struct cloud_file *file, struct error *error);

// The hint for a body that begins like a PointCloud2: of ROS 1, which is not read, or of ROS 2, compressed or not. NULL
// if the body begins otherwise, or if `sent_as` is the format that the hint would name.
const char *pointcloud2_hint(enum body_format sent_as, const char *bytes, size_t size);

// ---- npz.c ----------------------------------------------------------------------------------------------------------

#define NPZ_MEDIA_TYPE "application/x-npz"

// Writes an answer as numpy's npz, see answer_kind.write: a zip archive with a member NAME.npy for each tensor, and
// `metadata.json`. Never fails.
//
// numpy.load gives the tensors as arrays by their names, and the metadata as the bytes of "metadata.json". Members are
// stored without compression. The values of each tensor start on a multiple of 64 bytes of the file, so a reader can
// map them in place.
bool npz_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
               struct error *error);

// ---- mcap.c ---------------------------------------------------------------------------------------------------------

#define MCAP_MEDIA_TYPE "application/x-mcap"

// Writes an answer as an MCAP file, see answer_kind.write. Foxglove, Lichtblick, Rerun and rosbag2 open such files
// (mcap.dev/spec). ERROR_IMPOSSIBLE if a cloud has 4 GiB or more.
//
// The points are PointCloud2 messages, one for each cloud of the batch (see pointcloud2_write.h). All messages lie in
// one chunk, since viewers read a file through the index of its chunks. The chunk is not compressed. A metadata record
// `voxeld` has the metadata as JSON.
bool mcap_write(const struct answer *answer, const struct vx_layout *layout, const char *tensors, struct text *out,
                struct error *error);

// ---- infer_json.c ---------------------------------------------------------------------------------------------------

enum { INFER_JSON_MAX = 16 << 20 };  // bytes of JSON in a body; larger tensors must be sent as bytes

// The maximum memory, in bytes, that reading `size` bytes of JSON takes. 0 if the JSON has more than INFER_JSON_MAX
// bytes: the service does not read such JSON.
size_t infer_json_cost(const char *bytes, size_t size);

// The least and the greatest number of each type of integers.
extern const int64_t infer_whole_limits[VX_DTYPES][2];
// Writes a list of numbers as `count` values of the tensor's type. The list is flat, or nested exactly as the tensor's
// shape is. In a list of float32, null is NaN. False if the list has another length or nesting, if the type cannot hold
// a number, if the type is float16, or if the job is stopped.
VX_WARN_UNUSED bool infer_write_numbers(const json_t *list, const struct vx_input *tensor, size_t count,
                                        struct vx_stop *stop, char *out);
// Notes how much rounding to float32 moves the coordinates in such a list. The list has points [N, C].
void infer_note_losses(const json_t *list, const struct vx_input *points, struct vx_stop *stop,
                       struct cloud_loss *loss);

#endif
