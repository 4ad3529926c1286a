// See rows.h.
#include "api/ops/rows.h"

#define REGION_ALLOWED "NAME,offset,bytes of a region that this client has registered"

const char *const format_words[] = {"raw",      "pcd",         "ply", "pointcloud2", "compressedpointcloud2",
                                    "cloudini", "safetensors", NULL};
_Static_assert(sizeof format_words / sizeof *format_words == FORMATS + 1, "each format has a word");
_Static_assert(sizeof(enum body_format) == sizeof(int32_t), "an enum is written as an int32_t");
_Static_assert((int)REQUEST_NAMES_SIZE == (int)VALUE_NAMES_SIZE, "fields is read as a list of names");

const struct param param_preset = {
    .name = "preset",
    .type = &value_text,
    .offset = FIELD(preset),
    .allowed = "a name from GET /v1/presets",
    .doc = "a named parameter set; the query overrides it",
};

const struct param param_num_features = {
    .name = "num_features",
    .type = &value_int,
    .offset = FIELD(num_features),
    .least = VX_MIN_FEATURES,
    .most = VX_MAX_FEATURES,
    .initial = "4",
    .doc = "number of columns of a row (C); x, y and z come first",
};

const struct param param_dtype = {
    .name = "dtype",
    .type = &value_dtypes,
    .offset = FIELD(columns),
    .most = VX_MAX_FEATURES,
    .words = vx_dtype_words,
    .initial = "float32",
    .doc = "type of the body's values, or of each column; a list of several also sets num_features",
};

const struct param param_scale = {
    .name = "scale",
    .type = &value_scales,
    .offset = FIELD(scales),
    .second = FIELD(columns.num_scales),
    .most = VX_MAX_FEATURES,
    .allowed = "1 to 64 finite numbers above 0",
    .doc = "factors of the columns of the body, in order; the others have 1",
};

const struct param param_filter = {
    .name = "filter",
    .type = &value_filters,
    .offset = FIELD(columns.filters),
    .words = filter_words,
    .allowed = "delta or direction or shuffle or delta,shuffle or direction,shuffle",
    .doc = "what the client did with the rows of the body so that they compress better",
};

const struct param param_format = {
    .name = "format",
    .type = &value_word,
    .offset = FIELD(format),
    .words = format_words,
    .doc = "format of the body's points; by default raw: rows of dtype",
};

const struct param param_fields = {
    .name = "fields",
    .type = &value_names,
    .offset = FIELD(fields),
    .second = FIELD(num_fields),
    .least = VX_MIN_FEATURES,
    .most = VX_MAX_FEATURES,
    .allowed = "3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places",
    .doc = "names of the columns of a row, which also set num_features; for a file, the fields to take",
};

const struct param param_intensity_scale = {
    .name = "intensity_scale",
    .type = &value_factor,
    .offset = FIELD(intensity_scale),
    .allowed = "a finite number other than 0",
    .doc = "multiplies the column named intensity",
};

const struct param param_point_counts = {
    .name = "point_counts",
    .type = &value_clouds,
    .offset = FIELD(point_counts),
    .second = FIELD(num_clouds),
    .most = VX_MAX_CLOUDS,
    .allowed = "1 to 1024 whole numbers that add up to the rows of the body",
    .doc = "splits the body into a batch of clouds or, with stream, into sweeps, the newest first",
};

const struct param param_steps = {
    .name = "steps",
    .type = &value_steps,
    .offset = FIELD(chain),
    .doc = "what happens to the points before the operation, in this order; TAG.name sets a parameter of a step",
};

const struct param param_points_region = {
    .name = "points_region",
    .type = &value_region,
    .offset = FIELD(points_region),
    .allowed = REGION_ALLOWED,
    .doc = "the part of a shared-memory region to read in place of the body",
};

const struct param param_output_region = {
    .name = "output_region",
    .type = &value_region,
    .offset = FIELD(output_region),
    .allowed = REGION_ALLOWED,
    .doc = "the part of a shared-memory region to write the answer to",
};

static const char *const metadata_words[] = {[METADATA_FULL] = "full", [METADATA_STABLE] = "stable", NULL};
_Static_assert(sizeof(enum metadata_form) == sizeof(int32_t), "an enum is written as an int32_t");

const struct param param_metadata = {
    .name = "metadata",
    .type = &value_word,
    .offset = FIELD(metadata),
    .words = metadata_words,
    .doc =
        "stable leaves out ids, times, devices and regions, so that equal requests give equal files; by default full",
};

const struct param param_latest = {
    .name = "latest",
    .type = &value_stream,
    .offset = FIELD(latest),
    .allowed = STREAM_ALLOWED,
    .doc = "of the client's requests with this name, at most one waits: the newest",
};

const struct param param_max_age_ms = {
    .name = "max_age_ms",
    .type = &value_int,
    .offset = FIELD(max_age_ms),
    .least = 1,
    .most = 3600000,
    .unit = "milliseconds",
    .doc = "refuses points older than this when their job begins; their age counts from the parameter time or a "
           "PointCloud2's stamp",
};

const struct param param_timeout_ms = {
    .name = "timeout_ms",
    .type = &value_int,
    .offset = FIELD(timeout_ms),
    .least = 0,
    .most = 3600000,
    .initial = "0",
    .unit = "milliseconds",
    .doc = "time after which an unfinished job gets 504; 0 = the server's own limit",
};
