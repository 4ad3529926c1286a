// The table of the kinds of answer; see answers.h.
#include "api/wire/answers.h"

#include "api/base/accept.h"
#include "api/base/json_write.h"
#include "api/wire/pointcloud2_write.h"
#include "api/wire/safetensors.h"
#include "api/wire/wire.h"

static vx_tensor_set as_asked(const struct job_request *request) { return request->job.tensors; }

static vx_tensor_set none(const struct job_request *request) {
  (void)request;
  return 0;
}

static bool write_json(const struct answer *answer, const struct vx_layout *layout, const char *tensors,
                       struct text *out, struct error *error) {
  (void)layout, (void)tensors, (void)error;
  answer_metadata(answer, false, out);
  text_put(out, "\n");
  return true;
}

// With these places a client of GPU memory need not copy the file's header to the host.
static void write_places(const struct answer *answer, const struct vx_layout *layout, struct text *out) {
  json_printf(out, "tensors:{");
  for (int tensor = 0; tensor < VX_TENSOR_COUNT; tensor++) {
    const struct vx_shape *shape = &layout->shape[tensor];
    if (!(layout->tensors & VX_TENSOR_BIT(tensor))) continue;
    json_printf(out, "%s:{dtype:%s shape:", vx_tensors[tensor].name, vx_dtype_name(shape->dtype));
    json_put_integers(out, shape->dims, shape->rank);
    json_printf(out, "offset:%zu}", answer->region_head + layout->offset[tensor]);
  }
  json_printf(out, "}");
}

static bool write_of_region(const struct answer *answer, const struct vx_layout *layout, const char *tensors,
                            struct text *out, struct error *error) {
  const struct region_ref *ref = &answer->request->output_region;
  (void)tensors, (void)error;
  json_printf(out, "{output_region:{name:%s offset:%lu bytes:%zu", ref->name, ref->offset, answer->region_bytes);
  if (answer->region_head) write_places(answer, layout, out);
  json_printf(out, "}metadata:");
  answer_metadata(answer, false, out);
  json_printf(out, "}\n");
  return true;
}

const struct answer_kind answer_of_region = {
    .media_type = "application/json",
    .tensors = as_asked,
    .write = write_of_region,
};

static const struct answer_kind kinds[] = {
    {
        .media_type = SAFETENSORS_MEDIA_TYPE,
        .doc = "the tensors, with the metadata inside, for programs",
        .also = "application/octet-stream",
        .tensors = as_asked,
        .reserve = answer_header_reserve,
        .frame = answer_frame_write,
    },
    {
        .media_type = "application/json",
        .doc = "the metadata alone; no tensors are made and nothing is sampled",
        .tensors = none,
        .write = write_json,
    },
    {
        .media_type = NPZ_MEDIA_TYPE,
        .doc = "numpy's npz, not compressed: an array for each tensor, and the metadata as metadata.json",
        .tensors = as_asked,
        .write = npz_write,
    },
    {
        .media_type = SHUFFLED_MEDIA_TYPE,
        .doc = "safetensors whose bytes are shuffled, for compressed answers on slow links",
        .tensors = as_asked,
        .write = shuffled_write,
    },
    {
        .media_type = MCAP_MEDIA_TYPE,
        .doc = "an MCAP file with PointCloud2 messages and the metadata, for Foxglove, Lichtblick, Rerun and ROS 2",
        .tensors = pointcloud2_tensors,
        .write = mcap_write,
    },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static int quality_of(const struct answer_kind *kind, const char *accept) {
  int quality = accept_quality(accept, kind->media_type);
  int other = kind->also ? accept_quality(accept, kind->also) : 0;
  return other > quality ? other : quality;
}

const struct answer_kind *answer_kind_of(const char *accept) {
  const struct answer_kind *best = kinds;
  if (!accept) return best;
  for (int i = 1, most = quality_of(best, accept); i < KINDS && most < ACCEPT_MOST; i++) {
    int quality = quality_of(&kinds[i], accept);
    if (quality <= most) continue;
    most = quality;
    best = &kinds[i];
  }
  return best;
}

void answer_kinds_describe(struct text *out) {
  json_printf(out, "[");
  for (int i = 0; i < KINDS; i++) json_printf(out, "{media_type:%s doc:%s}", kinds[i].media_type, kinds[i].doc);
  json_printf(out, "]");
}
