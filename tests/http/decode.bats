#!/usr/bin/env bats
# POST /v1/decode with both heads, and presets that know a model's head: what may be sent, what comes back, what is
# refused.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

# Maps of one cell for an anchor head of KITTI and for centre heads of nuScenes and of Waymo; and presets.
setup_file() {
  export files=$BATS_FILE_TMPDIR presets=$BATS_FILE_TMPDIR/presets
  mkdir "$presets"
  cat >"$presets/mine.json" <<'JSON'
{"description": "a model of my own", "parameters": {"point_cloud_range": [0, 0, 0, 8, 8, 8], "voxel_size": [1, 1, 1]},
 "decode_center": {"point_cloud_range": [0, 0, 0, 8, 8, 8], "voxel_size": [1, 1, 1], "feature_map_stride": 8},
 "nms": {"nms_post_max": 1}}
JSON
  start_daemon --presets-dir "$presets"
  "${python[@]}" - "$files" <<'PYTHON'
import json, pathlib, struct, sys

folder = pathlib.Path(sys.argv[1])

def write(name, **maps):
    header, data = {}, b""
    for tensor, values in maps.items():
        values = [float(v) for v in values]
        end = len(data) + 4 * len(values)
        header[tensor] = {"dtype": "F32", "shape": [1, 1, len(values)], "data_offsets": [len(data), end]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)

def center(tasks, logits):
    return dict(heatmap=logits, center=[0.5] * 2 * tasks, height=[0] * tasks, dim=[0] * 3 * tasks, rot=[1, 0] * tasks)

anchor = dict(cls_preds=[-9] * 17 + [2], box_preds=[0] * 42)
write("anchor", **anchor)
write("anchor_wide", **{**anchor, "cls_preds": [0] * 19})
write("nuscenes", **center(6, [5, *[-9] * 8, 4]), vel=[1] * 12)
write("waymo", **center(1, [1, 2, 3]))
write("few_tasks", **center(5, [0] * 10))
write("no_rot", **{name: values for name, values in center(1, [1]).items() if name != "rot"})
text = json.dumps({"boxes": {"dtype": "F32", "shape": [1, 7], "data_offsets": [0, 28]},
                   "scores": {"dtype": "F32", "shape": [1], "data_offsets": [28, 32]}}).encode()
(folder / "boxes").write_bytes(struct.pack("<Q", len(text)) + text + struct.pack("<8f", 0, 0, 0, 1, 1, 1, 0, 1))
PYTHON
  export center='head=center&point_cloud_range=0,0,0,8,8,8&voxel_size=1,1,1&feature_map_stride=8'
}
teardown_file() { stop_daemon; }

# post PATH FILE [CURL-ARGUMENT...]
post() { ask --data-binary "@$files/$2" "${@:3}" "$1"; }

@test "a preset knows its anchor head" {
  post '/v1/decode?preset=kitti_pointpillar' anchor
  is "$code" 200
  is "$(tensor '[(n, t["dtype"], t["shape"]) for n, t in d.items() if n[0] != "_"][:2]')" \
    "[('boxes', 'F32', [1, 7]), ('scores', 'F32', [1])]"
  is "$(tensor 'sorted(n for n in d if n[0] != "_")')" "['box_counts', 'box_indices', 'boxes', 'labels', 'scores']"
  is "$(tensor '{n: c for n, c in meta["anchors"].items() if c}')" "{'received': 6, 'kept': 1, 'below_threshold': 5}"
  is "$(tensor 'meta["parameters"]["head"], meta["parameters"]["class_names"][2]')" "('anchor', 'Cyclist')"
  # The last anchor of the only cell: x and y at the range's lower end, the bottom at -0.6.
  is "$(tensor '[round(v, 3) for v in struct.unpack_from("<7f", data, 8 + size + d["boxes"]["data_offsets"][0])]')" \
    '[0.0, -39.68, 0.265, 1.76, 0.6, 1.73, 1.57]'
}

@test "a preset knows its centre head" {
  post '/v1/decode?preset=nuscenes_centerpoint_voxel0075' nuscenes
  is "$code" 200
  is "$(tensor 'd["boxes"]["shape"], meta["batch"]')" \
    "([2, 9], {'size': 1, 'candidates': [10], 'kept': [2]})"
  is "$(tensor '{n: c for n, c in meta["candidates"].items() if c}')" \
    "{'received': 10, 'kept': 2, 'below_threshold': 8}"
  is "$(tensor 'sorted(meta["candidates"])[1:4]')" "['invalid', 'kept', 'outside']"
  is "$(tensor 'meta["parameters"]["head"], meta["parameters"]["nms_post_max"]')" "('center', 83)"
  is "$(tensor 'sorted(meta["timing_us"])')" "['copy_in', 'copy_out', 'decode', 'nms', 'queue', 'receive', 'total']"
  post '/v1/decode?preset=waymo_centerpoint&nms_threshold=0.5&outputs=labels' waymo
  is "$(tensor 'struct.unpack_from("<i", data, 8 + size + d["labels"]["data_offsets"][0])')" '(2,)'
}

@test "the head of the query counts more than that of the preset" {
  post '/v1/decode?preset=waymo_centerpoint&head=center' waymo
  is "$code" 200
  post '/v1/decode?preset=waymo_centerpoint&head=anchor' waymo
  is_problem 400 bad-parameter preset
  has "$(json 'd["detail"]')" "a preset of voxelize, nms, decode_center; allowed: a preset of decode"
  post '/v1/decode?head=corner' waymo
  is_problem 400 bad-parameter head
  has "$(json 'd["detail"]')" "allowed: anchor or center"
  post "/v1/decode?$center" waymo
  is "$code" 200
  post "/v1/decode?$center&head=anchor" waymo
  is_problem 400 bad-parameter head
}

@test "a preset of several operations serves each, and no other" {
  ask /v1/presets/mine
  is "$(json 'sorted(d), d["decode_center"]["feature_map_stride"], d["nms"]["nms_post_max"]')" \
    "(['decode_center', 'description', 'name', 'nms', 'parameters'], 8, 1)"
  post '/v1/voxelize?preset=mine' boxes
  is "$code" 400 # as points; the preset is taken
  has "$(json 'd["type"]')" bad-body
  post '/v1/nms?preset=mine' boxes
  is "$(tensor 'meta["parameters"]["nms_post_max"], meta["parameters"]["preset"]')" "(1, 'mine')"
  post '/v1/decode?preset=mine' waymo
  is "$code" 200
  post '/v1/fps?preset=mine&num_samples=1' boxes
  is_problem 400 bad-parameter preset
  post '/v1/decode?preset=voxelize_cuda' anchor
  is_problem 400 bad-parameter preset
  has "$(json 'd["detail"]')" "'voxelize_cuda', a preset of voxelize; allowed: a preset of decode"
}

@test "each head has its own parameters" {
  post "/v1/decode?$center&anchor_sizes=1,1,1" waymo
  is_problem 400 bad-parameter anchor_sizes
  post '/v1/decode?preset=kitti_pointpillar&rot_order=sin_cos' anchor
  is_problem 400 bad-parameter rot_order
  local query
  for query in feature_map_stride=0 task_classes=0,3 task_classes=65 rot_order=sin max_objects=0 \
    post_center_range=0,0,0,0,1,1 nms=square min_radius=-1 'min_radius=1,2' voxel_size=0,1,1; do
    post "/v1/decode?preset=waymo_centerpoint&$query" waymo
    is_problem 400 bad-parameter "${query%%=*}"
  done
  post "/v1/decode?$center&nms=circle" waymo
  is_problem 400 bad-parameter min_radius
  for query in point_cloud_range voxel_size feature_map_stride; do
    post "/v1/decode?$(tr '&' '\n' <<<"$center" | grep -v "^$query" | paste -sd '&')" waymo
    is_problem 400 bad-parameter "$query"
    has "$(json 'd["detail"]')" 'is missing'
  done
}

@test "circles suppress by the distance of centres" {
  post "/v1/decode?$center&nms=circle&min_radius=0" waymo -H 'Accept: application/json'
  is "$(json 'd["candidates"]["kept"], d["candidates"]["suppressed"]')" '(1, 2)'
  post "/v1/decode?$center&nms=circle&min_radius=0&task_classes=3&class_agnostic=no" waymo \
    -H 'Accept: application/json'
  is "$(json 'd["candidates"]["kept"]')" 3
}

@test "maps that do not fit are refused with their reason" {
  local query file text
  while read -r query file text; do
    post "/v1/decode?$query" "$file"
    is "$code" 400
    has "$(json 'd["detail"]')" "$text"
  done <<'CASES'
preset=kitti_pointpillar anchor_wide the input cls_preds has 19 channels; allowed: 1 to 64 classes for each of 6 anchors
preset=kitti_pointpillar waymo there is no input 'heatmap'; allowed: cls_preds, box_preds, dir_cls_preds
preset=waymo_centerpoint anchor there is no input 'cls_preds'; allowed: heatmap, center, height, dim, rot, vel
preset=waymo_centerpoint no_rot the input rot is missing
preset=waymo_centerpoint nuscenes the input heatmap has 10 channels; task_classes add up to 3
preset=nuscenes_centerpoint_voxel01 few_tasks the input center has the shape [1,1,1,10]; allowed: [1,1,1,12]
preset=waymo_centerpoint&class_names=a,b waymo the input heatmap has 3 classes; class_names has 2 names
CASES
}
