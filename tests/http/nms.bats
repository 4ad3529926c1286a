#!/usr/bin/env bats
# POST /v1/nms, and bodies of tensors: what may be sent, what comes back, what is refused.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

# Two boxes that overlap, and one apart; then files with something wrong, and points.
setup_file() {
  start_daemon
  export files=$BATS_FILE_TMPDIR
  "${python[@]}" - "$files" <<'PYTHON'
import json, pathlib, struct, sys

folder = pathlib.Path(sys.argv[1])

def write(name, shift=0, **tensors):
    header, data = {}, bytes(shift)
    for tensor, (dtype, shape, values) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)

floats = lambda *values: struct.pack(f"<{len(values)}f", *values)
boxes = ("F32", [3, 7], floats(0, 0, 0, 4, 2, 1, 0, 1, 0, 0, 4, 2, 1, 0, 20, 0, 0, 2, 2, 1, 0))
scores = ("F32", [3], floats(0.5, 0.9, 0.1))
labels = ("I32", [3], struct.pack("<3i", 0, 1, 0))
write("boxes", boxes=boxes, scores=scores)
write("labels", boxes=boxes, scores=scores, labels=labels)
write("no_scores", boxes=boxes)
write("few_scores", boxes=boxes, scores=("F32", [2], floats(1, 2)))
write("half_scores", boxes=boxes, scores=("F16", [3], bytes(6)))
write("untyped", boxes=boxes, scores=(None, [3], floats(1, 2, 3)))
write("stranger", boxes=boxes, scores=scores, weights=scores)
write("odd", shift=1, boxes=boxes, scores=scores)
write("points", points=("F32", [2, 4], floats(1, 2, 3, 4, 5, 6, 7, 8)), matrix=("F32", [1, 4, 4], floats(
    1, 0, 0, 10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)))
write("bad_matrix", points=("F32", [0, 4], b""), matrix=("F32", [1, 4, 4], bytes(64)))
write("wide", points=("F32", [1, 65], bytes(4 * 65)))
(folder / "none").write_bytes(b"")
(folder / "long").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
(folder / "large").write_bytes(struct.pack("<Q", 70000) + b" " * 70000)
(folder / "text").write_bytes(struct.pack("<Q", 4) + b"[1,]")
PYTHON
}
teardown_file() { stop_daemon; }

# total SAMPLE: its value in the last answer, the page of metrics.
total() { sed -n "s#^$1 ##p" "$body"; }

# post PATH FILE [CURL-ARGUMENT...]
post() { ask --data-binary "@$files/$2" "${@:3}" "$1"; }

@test "the best of overlapping boxes is kept" {
  post /v1/nms boxes
  is "$code" 200
  is "$(tensor '{n: (t["dtype"], t["shape"]) for n, t in d.items() if n[0] != "_"}')" "{'kept_indices': ('I32', [2])}"
  is "$(tensor 'meta["boxes"]')" \
    "{'received': 3, 'kept': 2, 'invalid': 0, 'over_pre_max': 0, 'suppressed': 1, 'over_post_max': 0}"
  is "$(tensor 'meta["batch"]')" "{'size': 1, 'boxes': [3], 'kept': [2]}"
  is "$(tensor 'sorted(meta["timing_us"])')" "['copy_in', 'copy_out', 'nms', 'queue', 'receive', 'total']"
  has "$(header Server-Timing)" 'nms;dur='
}

@test "classes and clouds do not meet, if asked so" {
  post '/v1/nms?class_agnostic=no' labels -H 'Accept: application/json'
  is "$(json 'd["boxes"]["kept"]')" 3
  post '/v1/nms?box_counts=1,2' boxes -H 'Accept: application/json'
  is "$(json 'd["batch"]')" "{'size': 2, 'boxes': [1, 2], 'kept': [1, 2]}"
}

@test "an MCAP of boxes has no clouds, whatever was asked before" {
  head -c 16000 /dev/zero >"$files/zeros"
  for _ in 1 2 3; do
    post '/v1/voxelize?preset=kitti_second' zeros -H 'Accept: application/x-mcap'
    is "$(grep -aoF /voxels "$body" | sort -u)" /voxels
    post /v1/nms boxes -H 'Accept: application/x-mcap'
    is "$code $(header content-type)" "200 application/x-mcap"
    is "$(grep -aoF /voxels "$body" | sort -u)" ""
  done
}

@test "the media type of tensors is taken as well as curl's" {
  for type in application/vnd.safetensors application/octet-stream application/x-www-form-urlencoded; do
    post /v1/nms boxes -H "Content-Type: $type"
    is "$code" 200
  done
}

@test "a body that is not what the operation wants is refused with its reason" {
  local file text
  while read -r file text; do
    post /v1/nms "$file" -H 'Content-Type: application/vnd.safetensors'
    is_problem 400 bad-body
    has "$(json 'd["detail"]')" "$text"
  done <<'CASES'
no_scores the input scores is missing
few_scores the input scores has the shape [2]; allowed: [3]
half_scores tensor scores has the dtype F16; allowed: F32
untyped tensor scores has the dtype that is no string; allowed: F32
stranger there is no input 'weights'; allowed: boxes, scores, labels
odd tensor boxes begins at byte 1 of the data; allowed: a multiple of 4
none the body is no safetensors file: it has less than 8 bytes
long the body is no safetensors file: its header would be longer than the body
large the header of the safetensors file has 70000 bytes; allowed: 65536
text the header of the safetensors file, line 1, column 4: unexpected token near
CASES
  post '/v1/nms?class_agnostic=no' boxes
  is_problem 400 bad-body
  has "$(json 'd["detail"]')" 'the input labels is missing, which class_agnostic=no needs'
  post '/v1/nms?box_counts=1,1' boxes
  is_problem 400 bad-body box_counts
  has "$(json 'd["detail"]')" 'box_counts add up to 2 boxes but the body has 3'
}

@test "parameters of another kind are refused" {
  local query
  for query in iou_threshold=1.5 iou_threshold=-1 iou_threshold=nan nms_pre_max=0 nms_post_max=1048577 \
    class_agnostic=true outputs=voxels; do
    post "/v1/nms?$query" boxes
    is_problem 400 bad-parameter "${query%%=*}"
  done
  post '/v1/nms?num_features=4' boxes
  is_problem 400 bad-parameter num_features
}

@test "points and matrices come as tensors too" {
  post '/v1/transform?format=safetensors' points
  is "$code" 200
  is "$(tensor 'struct.unpack_from("<8f", data, 8 + size + d["points"]["data_offsets"][0])')" \
    '(11.0, 2.0, 3.0, 4.0, 15.0, 6.0, 7.0, 8.0)'
  post /v1/transform points -H 'Content-Type: application/vnd.safetensors'
  is "$code" 200
  post '/v1/transform?format=pcd' points -H 'Content-Type: application/vnd.safetensors'
  is_problem 400 bad-parameter format
  post '/v1/transform?format=safetensors&num_features=5' points
  is_problem 400 bad-body num_features
  has "$(json 'd["detail"]')" 'points has 4 columns; num_features is 5'
  post '/v1/transform?format=safetensors' bad_matrix
  is_problem 400 bad-parameter matrix
  has "$(json 'd["detail"]')" 'the last row of matrix number 0 is 0,0,0,0'
  post '/v1/transform?format=safetensors&matrix=1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1' points
  is_problem 400 bad-parameter matrix
  post '/v1/fps?format=safetensors&num_samples=1' wide
  is_problem 400 bad-body
}

@test "boxes are counted apart from points" {
  ask /metrics
  before=$(total 'voxeld_boxes_total{fate="suppressed"}')
  points=$(total 'voxeld_points_total{fate="kept"}')
  counted() { ask /metrics && (($(total 'voxeld_boxes_total{fate="suppressed"}') == before + 1)); }
  post /v1/nms boxes
  await counted
  is "$(total 'voxeld_points_total{fate="kept"}')" "$points"
}
