// The table of operations in --describe; see ops.h.
#include "api/base/json_write.h"
#include "api/ops/rows.h"

// An extent's symbol in shapes, and its meaning. NULL: none is needed, or another extent with the symbol has it.
static const struct extent_row {
  const char *symbol, *doc;
} extents[] = {
    [VX_EXTENT_ROWS] = {"N", "rows of the body, of all clouds"},
    [VX_EXTENT_COLUMNS] = {"C", "columns of a row"},
    [VX_EXTENT_VOXELS] = {"V", "voxels of all clouds"},
    [VX_EXTENT_CAP] = {"P", "max_points_per_voxel"},
    [VX_EXTENT_COORDS] = {"4", NULL},
    [VX_EXTENT_PILLAR] = {"C+6", NULL},
    [VX_EXTENT_BATCH] = {"B", "clouds of the batch"},
    [VX_EXTENT_SAMPLES] =
        {"M", "samples of a cloud; if each cloud has its own number, [samples of all clouds] replaces [B, M]"},
    [VX_EXTENT_KEPT] = {"K", "kept points or boxes of all clouds"},
    [VX_EXTENT_MATRICES] = {"1 or B", NULL},
    [VX_EXTENT_SIDE] = {"4", NULL},
    [VX_EXTENT_BOX] = {"7", NULL},
    [VX_EXTENT_DECODED] = {"7 or 9", NULL},
    [VX_EXTENT_HEIGHT] = {"ny", "cells of a grid or a map along y"},
    [VX_EXTENT_WIDTH] = {"nx", "cells of a grid or a map along x"},
    [VX_EXTENT_LOGITS] = {"L", "classes of all anchors of a cell; for a centre head, the classes"},
    [VX_EXTENT_OFFSETS] = {"O", "box values of all anchors of a cell"},
    [VX_EXTENT_BINS] = {"D", "direction bins of all anchors of a cell"},
    [VX_EXTENT_CLOUDS] = {"B", NULL},
    [VX_EXTENT_DEPTH] = {"nz", "cells of a grid along z"},
    [VX_EXTENT_CHANNELS] = {"C*nz", NULL},
    [VX_EXTENT_PACKED] = {"ceil(nx/8)", NULL},
    [VX_EXTENT_TASKS] = {"T", "tasks of a centre head"},
    [VX_EXTENT_TASKS_2] = {"2*T", NULL},
    [VX_EXTENT_TASKS_3] = {"3*T", NULL},
    [VX_EXTENT_HEAD_HEIGHT] = {"H", "rows of a range image; cells of the network's maps along y"},
    [VX_EXTENT_HEAD_WIDTH] = {"W", "columns of a range image; cells of the network's maps along x"},
    [VX_EXTENT_VALUES] = {"C", NULL},
    [VX_EXTENT_SPARSE] = {"S", "occupied cells of a backbone's last level, of all clouds"},
    [VX_EXTENT_AXES] = {"3", NULL},
    [VX_EXTENT_ROW] = {"C", NULL},
    [VX_EXTENT_ORDERS] = {"Q", "curves of a serialization"},
    [VX_EXTENT_POOLED] = {"G", "the sum over all stages of pooling of the stage's rows"},
    [VX_EXTENT_POOL_INPUTS] = {"E", "the sum over all stages of pooling of the rows before the stage"},
    [VX_EXTENT_POOL_ENDS] = {"F", "the sum over all stages of pooling of the stage's rows plus one"},
    [VX_EXTENT_IMAGE_CHANNELS] = {"Ch", "channels of a range image"},
    [VX_EXTENT_PIXEL] = {"2", NULL},
    [VX_EXTENT_LEFT] = {"R", "points of all clouds that the steps left"},
};

void sizes_describe(struct text *out) {
  json_printf(out, "[");
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
    if (extents[i].doc) json_printf(out, "{name:%s doc:%s}", extents[i].symbol, extents[i].doc);
  json_printf(out, "]");
}

static void write_tensor(const char *name, uint32_t dtypes, const enum vx_extent *shape, struct text *out) {
  json_printf(out, "name:%s dtypes:[", name);
  for (int dtype = 0; dtype < VX_DTYPES; dtype++)
    if (dtypes & VX_DTYPE_BIT(dtype)) json_put_string(out, vx_numbers[dtype].word);
  json_printf(out, "]shape:[");
  for (int d = 0; d < VX_MAX_RANK && shape[d] != VX_EXTENT_NONE; d++) json_put_string(out, extents[shape[d]].symbol);
  json_printf(out, "]");
}

static void write_rows(param_rows rows, struct text *out) {
  for (; *rows; rows++) {
    const struct param *row = *rows;
    json_printf(out, "{name:%s type:%s required:%i default:%s unit:%s values:", row->name, row->type->name,
                row->required, row->initial, row->unit);
    value_write_words(row, out);
    json_member(out, "allowed");
    json_begin_string(out);
    param_allowed(row, out);
    json_end(out);
    json_printf(out, "doc:%s}", row->doc);
  }
}

static void write_parameters(const struct operation *operation, struct text *out) {
  json_printf(out, "parameters:[");
  write_rows(operation->rows, out);
  if (operation->step) write_rows(operation->step->rows, out);
  json_printf(out, "]");
}

static void write_inputs(const struct vx_input_row *rows, struct text *out) {
  json_printf(out, "inputs:[");
  for (int i = 0; i < VX_MAX_INPUTS && rows[i].name; i++) {
    json_printf(out, "{");
    write_tensor(rows[i].name, rows[i].dtypes, rows[i].extents, out);
    json_printf(out, "optional:%i}", rows[i].optional);
  }
  json_printf(out, "]");
}

// Features and the maps of a network may have any floating-point type.
static uint32_t dtypes_of(enum vx_tensor tensor) {
  const struct vx_sizes none = {.clouds = 0};
  bool any = (VX_FEATURE_TENSORS | VX_HEAD_TENSORS) & VX_TENSOR_BIT(tensor);
  return any ? VX_FLOATS : VX_DTYPE_BIT(vx_tensor_dtype(tensor, &none));
}

static void write_results(const struct result_row *row, struct text *out) {
  json_printf(out, "tensors:[");
  for (; row->doc; row++) {
    json_printf(out, "{");
    write_tensor(vx_tensors[row->tensor].name, dtypes_of(row->tensor), vx_tensors[row->tensor].extents, out);
    json_printf(out, "doc:%s when:%s}", row->doc, row->when);
  }
  json_printf(out, "]");
}

// The operations with a `head` share the endpoint of the first of them.
static enum vx_op first_of(enum vx_op op) {
  enum vx_op first = 0;
  if (!operations[op]->head) return op;
  while (!operations[first]->head) first++;
  return first;
}

void operations_describe(struct text *out) {
  json_printf(out, "[");
  for (enum vx_op op = 0; op < VX_OPS; op++) {
    const struct operation *operation = operations[op];
    json_printf(out, "{name:%s path:'/v1/%s' head:%s body:%s", vx_operations[op].name, vx_operations[first_of(op)].name,
                operation->head, format_words[operation->body]);
    write_inputs(vx_operations[op].inputs, out);
    write_parameters(operation, out);
    write_results(operation->results, out);
    json_printf(out, "}");
  }
  json_printf(out, "]");
}

void steps_describe(struct text *out) {
  json_printf(out, "[");
  for (int type = 0; type < VX_STEP_TYPES; type++) {
    const struct step_kind *kind = step_kind_of((enum vx_step_type)type);
    json_printf(out, "{name:%s doc:%s parameters:[", vx_step_row_of(kind->type)->name, kind->doc);
    write_rows(kind->rows, out);
    json_printf(out, "]}");
  }
  json_printf(out, "]");
}
