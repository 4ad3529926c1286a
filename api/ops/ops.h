// Requests for a computation, as a query and its preset describe them, and the table of operations. Each operation has
// its own file here. The tables are immutable. A request belongs to its caller. Any thread.
#ifndef VOXELD_API_OPS_H
#define VOXELD_API_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/pool.h"
#include "api/base/problem.h"
#include "api/base/text.h"
#include "api/params/columns.h"
#include "api/params/deskew.h"
#include "api/params/params.h"
#include "api/params/region.h"
#include "api/params/stream.h"
#include "api/steps/steps.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

enum { REQUEST_NAMES_SIZE = 256 };

// How the body's points are written; api/wire/formats.h reads them.
enum body_format {
  FORMAT_RAW,
  FORMAT_PCD,
  FORMAT_PLY,
  FORMAT_POINTCLOUD2,
  FORMAT_COMPRESSEDPOINTCLOUD2,
  FORMAT_CLOUDINI,
  FORMAT_SAFETENSORS,
  FORMATS
};

// Stable metadata has only what is equal for equal requests.
enum metadata_form { METADATA_FULL, METADATA_STABLE };

// What a model expects of its points. Other points are computed too, with a warning.
struct points_expected {
  int32_t num_columns;               // number of names in `columns`; 0 = not given
  bool has_intensity, has_ground;    // whether the next two members are given
  float intensity_range[2];          // least, most
  double ground_z;                   // metres
  char columns[REQUEST_NAMES_SIZE];  // separated by commas
};

// In the pool; NULL = not given.
struct image_columns {
  const char *channels, *ring;
};

struct job_request {
  struct pool pool;      // of its lists, and of further parts of its job
  struct vx_job job;     // operation, parameters, tensors to return; once split, number of clouds, shapes of inputs
  int32_t num_features;  // C, of the body
  struct column_terms columns;  // of the rows of the body as they are sent
  enum vx_dtype dtype;          // float32 if job_request_widens, else the type of the body's columns
  enum body_format format;
  int32_t num_fields;     // number of names in `fields`; 0 = not given
  float intensity_scale;  // 0 = not given
  uint32_t features;      // one bit per word of `feature`
  enum metadata_form metadata;
  vx_tensor_set outputs;            // named by `outputs`; empty = the operation's default
  int32_t num_clouds;               // entries of point_counts; 0 = not given, so the body is one cloud
  int32_t num_sample_counts;        // as given; 0 = nothing is sampled
  int32_t num_grid_shape;           // as given; 0 = not given
  int32_t num_bottoms;              // of anchors, as given
  int32_t num_class_names;          // as given; 0 = not given
  int32_t timeout_ms;               // 0 = the server's own limit
  int32_t max_age_ms;               // of the points; 0 = any age
  char latest[STREAM_NAME_SIZE];    // requests with this name supersede older ones; "" = none
  struct points_expected expected;  // by the preset or the model
  int64_t max_sampling_work;        // the server's limit, copied to vx_sampling.max_work
  struct stream_terms stream;
  struct time_terms time;
  struct deskew_terms deskew;
  struct region_ref points_region;         // where the body is
  struct region_ref output_region;         // where the answer goes
  char preset[64];                         // "" = none
  char model[64];                          // "" = none
  union {                                  // names, separated by commas; "" = not given
    char fields[REQUEST_NAMES_SIZE];       // of the columns, if the operation takes points
    char class_names[REQUEST_NAMES_SIZE];  // if it takes the maps of a network
  };
  bool given[PARAMS_MAX];  // for each row of the operation's table: whether preset, model or query set it
  struct sent_sweeps sent;
  // Lists in the pool.
  int32_t *point_counts;   // [num_clouds]
  double *scales;          // [columns.num_scales]
  int32_t *sample_counts;  // [num_sample_counts], once split [num_clouds]; if anything is sampled
  double *motion;          // of deskew_poses or deskew_twists
  struct image_columns image;
  struct request_chain chain;  // the steps before the operation
};

_Static_assert(sizeof(struct job_request) <= 4096, "each request clears its memory, so it must be small");

// A stamp is the time of the body's message.
static inline bool job_request_is_stamped(const struct job_request *request) {
  return request->format == FORMAT_POINTCLOUD2 || request->format == FORMAT_COMPRESSEDPOINTCLOUD2;
}

// What --describe says of a tensor that an operation can return.
struct result_row {
  enum vx_tensor tensor;
  const char *doc;   // order of the rows and meaning of the values; NULL: no more rows
  const char *when;  // the requests that get the tensor; NULL = all, unless their `outputs` leaves it out
};
#define WHEN_NAMED "if outputs names it"
#define POINT_ROWS_DOC                                                                                                 \
  "for each row of the body, its row in points; for a merged point, the row of the point that represents it; -1 if "   \
  "dropped"
#define POINT_FATES_DOC                                                                                                \
  "what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if they kept the row"
#define POINT_STEPS_DOC "the number, from 1, of the step that dropped the row; 0 if no step did"
#define CHAIN_RESULTS                                                                                                  \
  {VX_LEFT_POINTS, "the points that the steps left, of all clouds, in the order of the body", WHEN_NAMED},             \
      {VX_POINT_INDICES, "the row of each of these points in the body, counted over all clouds", WHEN_NAMED},          \
      {VX_POINT_ROWS, POINT_ROWS_DOC, WHEN_NAMED}, {VX_POINT_FATES, POINT_FATES_DOC, WHEN_NAMED}, {                    \
    VX_POINT_STEPS, POINT_STEPS_DOC, WHEN_NAMED                                                                        \
  }

struct operation {
  const char *head;       // the value of `head` that chooses this operation at its endpoint; or NULL
  enum body_format body;  // the default: `format` may name another
  param_rows rows;        // in the Python client, the first may be a positional argument
  const struct result_row *results;
  const struct step_kind *step;  // the operation is this one step; NULL: it is not
  // The tensors to return if `outputs` is not given.
  vx_tensor_set (*tensors)(const struct job_request *request);
  // Checks the parameters against each other. False with an error.
  bool (*finish)(struct job_request *request, struct error *error);
  // Fills num_clouds and point_counts from the inputs. NULL if the query gives them.
  bool (*count)(struct job_request *request, struct error *error);
  // Fills the lists of [num_clouds], once point_counts is filled. False with an error. May be NULL.
  bool (*split)(struct job_request *request, struct error *error);
  // Points the job to arrays of the request. May be NULL.
  void (*bind)(const struct job_request *request, struct vx_job *job);
  // Writes the operation's own members of the metadata. May be NULL.
  void (*write)(const struct vx_job *job, struct text *out);
  const char *samples;  // the parameter with the number of samples, or NULL
};

extern const struct operation operation_voxelize, operation_fps, operation_points, operation_transform, operation_nms,
    operation_decode, operation_scatter, operation_decode_center, operation_detect, operation_backbone,
    operation_serialize, operation_range_image;
extern const struct operation *const operations[VX_OPS];
enum vx_op operation_with_head(const char *head, size_t length);  // VX_OPS if there is none

// The memory of a new request must be zeros.
void job_request_init(struct job_request *request, enum vx_op op);
// Copies a request that is not split yet. False if there is no memory for its lists; pool_refuse then gives the error.
VX_WARN_UNUSED bool job_request_copy(struct job_request *to, const struct job_request *from);
// NULL if there is no memory.
struct job_request *job_request_new(enum vx_op op);
void job_request_release(struct job_request *request);

// False with an error that names the parameter, the given value and the allowed values.
VX_WARN_UNUSED bool job_request_set(struct job_request *request, const char *name, size_t name_length,
                                    const char *value, size_t value_length, struct error *error);

// Whether preset, model or query set the parameter.
bool job_request_is_given(const struct job_request *request, const char *name);

// The parameter that splits the rows of the first input into clouds; NULL if the inputs themselves do.
const char *job_request_counts(const struct job_request *request);

// Checks the parameters against each other once all are set. Sets the job's parameters and tensors. False with an
// error.
VX_WARN_UNUSED bool job_request_finish(struct job_request *request, struct error *error);

// Forgets that the parameter was given: `fields` in a query replaces the num_features of a preset.
void job_request_unset(struct job_request *request, const char *name);
// Forgets `outputs`; the tensors then follow from the other parameters.
void job_request_unset_outputs(struct job_request *request);

// Returns false with an error that has the given value and the allowed values.
bool job_request_refuse(const struct job_request *request, const char *name, const char *value, size_t value_length,
                        struct error *error);

// Splits `rows` points into clouds. Fills point_counts, if the query gave none, and the other lists of [num_clouds].
// False with an error.
VX_WARN_UNUSED bool job_request_split(struct job_request *request, int64_t rows, struct error *error);

// Like job_request_split, once the sweeps of the stream are joined into `rows` rows of job_request_columns float32
// values. For a request with a stream, only this function runs the `split` of the steps and of the operation.
VX_WARN_UNUSED bool job_request_join(struct job_request *request, int64_t rows, struct error *error);

// The job of a split request over these points; it points into the request. The caller fills the other members.
struct vx_job job_request_job(const struct job_request *request, const void *points);

// Bytes of a row of the body as it is sent.
size_t job_request_row_bytes(const struct job_request *request);

// Columns of the points that the job reads: the body's columns and, with time_column, the time of a sweep.
int32_t job_request_columns(const struct job_request *request);

static inline bool job_request_deskews(const struct job_request *request) { return request->deskew.mode != DESKEW_OFF; }
// Sets the format of a finished request to that of the body's media type. False with an error if another parameter does
// not fit.
VX_WARN_UNUSED bool job_request_set_format(struct job_request *request, enum body_format format, struct error *error);
// Sets the type of all columns to the type of the tensor in the body.
void job_request_set_dtype(struct job_request *request, enum vx_dtype dtype);
// Whether types, scale or filters require that the body's points become float32. False for operations without points.
bool job_request_widens(const struct job_request *request);
// The type of the rows that the body becomes: `dtype`, or float32 if the points have times.
static inline enum vx_dtype job_request_rows_dtype(const struct job_request *request) {
  return request->time.field[0] ? VX_FLOAT32 : request->dtype;
}

// Writes the effective parameters as a JSON object; for stable metadata, without the regions.
void job_request_write(const struct job_request *request, struct text *out);

// Write JSON arrays for --describe: the operations, the types of steps, the sizes that shapes name.
void operations_describe(struct text *out);
void steps_describe(struct text *out);
void sizes_describe(struct text *out);

// For an operation that is nothing but its chain: its default tensors, and the table of all its tensors.
vx_tensor_set points_tensors(const struct job_request *request);
extern const struct result_row points_results[];

// Writes members of a JSON object. `fates`: VX_FATE_BITs.
void fates_write(uint32_t fates, const struct vx_counts *counts, struct text *out);

#endif
