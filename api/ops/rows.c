// See rows.h.
#include "api/ops/rows.h"

const char *const dtype_words[] = {"float32", "float16", NULL};

const struct param param_preset = {
    .name = "preset",
    .type = &value_text,
    .offset = FIELD(preset),
    .allowed = "a name of GET /v1/presets",
    .doc = "a named parameter set; the query overrides it",
};

const struct param param_num_features = {
    .name = "num_features",
    .type = &value_int,
    .offset = FIELD(num_features),
    .least = VX_MIN_FEATURES,
    .most = VX_MAX_FEATURES,
    .initial = "4",
    .doc = "columns of a row (C): x, y, z first",
};

const struct param param_dtype = {
    .name = "dtype",
    .type = &value_word,
    .offset = FIELD(dtype),
    .words = dtype_words,
    .initial = "float32",
    .doc = "type of the body's values",
};

const struct param param_point_counts = {
    .name = "point_counts",
    .type = &value_counts,
    .offset = FIELD(point_counts),
    .second = FIELD(num_clouds),
    .most = VX_MAX_CLOUDS,
    .allowed = "1 to 1024 whole numbers that add up to the rows of the body",
    .doc = "splits the body into a batch of clouds",
};

const struct param param_timeout_ms = {
    .name = "timeout_ms",
    .type = &value_int,
    .offset = FIELD(timeout_ms),
    .least = 0,
    .most = 3600000,
    .initial = "0",
    .doc = "milliseconds; a job that has not begun by then, or is still sampling, is answered 504; 0 = the server's "
           "own limit",
};
