#!/usr/bin/env bats
# POST /v1/scatter, and the dense maps of /v1/voxelize: what may be sent, what comes back, what is refused.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

readonly GRID='point_cloud_range=0,0,0,4,2,2&voxel_size=1,1,1'

# Rows of features for two clouds, of which one is outside and one comes second to its cell; and points.
setup_file() {
  start_daemon --max-response-bytes 65536
  export files=$BATS_FILE_TMPDIR
  "${python[@]}" - "$files" <<'PYTHON'
import json, pathlib, struct, sys

folder = pathlib.Path(sys.argv[1])

def write(name, **tensors):
    header, data = {}, b""
    for tensor, (dtype, shape, values) in tensors.items():
        header[tensor] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    (folder / name).write_bytes(struct.pack("<Q", len(text)) + text + data)

features = ("F32", [4, 1], struct.pack("<4f", 1, 2, 3, 4))
coords = ("I32", [4, 4], struct.pack("<16i", 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, -1, 0, 0, 0))
write("rows", features=features, voxel_coords=coords)
write("halves", features=("F16", [4, 1], struct.pack("<4e", 1, 2, 3, 4)), voxel_coords=coords)
write("no_coords", features=features)
write("few_coords", features=features, voxel_coords=("I32", [3, 4], bytes(48)))
write("flat_coords", features=features, voxel_coords=("I32", [4, 3], bytes(48)))
write("float_coords", features=features, voxel_coords=("F32", [4, 4], bytes(64)))
write("wide", features=("F32", [1, 5000], bytes(20000)), voxel_coords=("I32", [1, 4], bytes(16)))
(folder / "points").write_bytes(struct.pack("<12f", 0.5, 0.5, 0.5, 7, 0.5, 0.5, 1.5, 8, 3.5, 1.5, 0, 9))
PYTHON
}
teardown_file() { stop_daemon; }

# total SAMPLE: its value in the last answer, the page of metrics.
total() { sed -n "s#^$1 ##p" "$body"; }

# post PATH FILE [CURL-ARGUMENT...]
post() { ask --data-binary "@$files/$2" "${@:3}" "$1"; }

# values TENSOR FORMAT: those of the last answer, as struct writes its format.
values() { tensor "struct.unpack_from('<$2', data, 8 + size + d['$1']['data_offsets'][0])"; }

@test "features are written at their cells, and each row has one fate" {
  post '/v1/scatter?grid_size=2,2,1&batch_size=2' rows
  is "$code" 200
  is "$(tensor '{n: (t["dtype"], t["shape"]) for n, t in d.items() if n[0] != "_"}')" \
    "{'bev_features': ('F32', [2, 1, 2, 2])}"
  is "$(values bev_features 8f)" '(0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0)'
  is "$(tensor 'meta["voxels"]')" "{'received': 4, 'kept': 2, 'out_of_range': 1, 'duplicate': 1}"
  is "$(tensor 'meta["batch"]')" "{'size': 2, 'kept': [1, 1]}"
  is "$(tensor '[w["kind"] for w in meta["warnings"]]')" "['not_scattered']"
  is "$(tensor 'meta["parameters"]["grid_size"]')" '[2, 2, 1]'
  is "$(tensor 'sorted(meta["timing_us"])')" "['copy_in', 'copy_out', 'queue', 'receive', 'scatter', 'total']"
  has "$(header Server-Timing)" 'scatter;dur='
}

@test "half-precision features stay so" {
  post '/v1/scatter?grid_size=2,2,1&batch_size=2' halves -H 'Content-Type: application/vnd.safetensors'
  is "$code" 200
  is "$(tensor 'd["bev_features"]["dtype"]')" F16
  is "$(values bev_features 8e)" '(0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0)'
}

@test "a body that is not what scatter wants is refused with its reason" {
  local file text
  while read -r file text; do
    post '/v1/scatter?grid_size=2,2,1' "$file"
    is_problem 400 bad-body
    has "$(json 'd["detail"]')" "$text"
  done <<'CASES'
no_coords the input voxel_coords is missing
few_coords the input voxel_coords has the shape [3,4]; allowed: [4,4]
flat_coords the input voxel_coords has the shape [4,3]; allowed: [4,4]
float_coords tensor voxel_coords has the dtype F32; allowed: I32
points the body is no safetensors file
CASES
}

@test "parameters of scatter are checked" {
  local query
  for query in grid_size=2,2 grid_size=2,2,0 grid_size=2,2,1,1 grid_size=2,2,2147483648 \
    'batch_size=0&grid_size=1,1,1' 'batch_size=1025&grid_size=1,1,1'; do
    post "/v1/scatter?$query" rows
    is_problem 400 bad-parameter "${query%%=*}"
  done
  post /v1/scatter rows
  is_problem 400 bad-parameter grid_size
  post '/v1/scatter?grid_size=2147483647,2147483647,2' rows
  is_problem 422 impossible grid_size
}

@test "maps over max_response_bytes are refused before any work" {
  local query=point_cloud_range=0,0,0,4,4,4
  post "/v1/voxelize?$query&voxel_size=0.01,0.01,1&outputs=occupancy" points
  is_problem 422 impossible
  has "$(json 'd["detail"]')" 'the answer would have 640000 bytes or more; allowed: up to 65536'
  post "/v1/voxelize?$query&voxel_size=0.1,0.1,1&outputs=occupancy&point_counts=3,$(printf '0,%.0s' {1..20})0" points
  is_problem 422 impossible
  post "/v1/voxelize?$query&voxel_size=0.1,0.1,1&outputs=occupancy" points
  is "$code" 200
  post '/v1/scatter?grid_size=2,2,1' wide
  is_problem 422 impossible
  has "$(json 'd["detail"]')" 'the answer would have 80000 bytes or more'
  # Without tensors there is nothing that would be too large.
  post '/v1/scatter?grid_size=100000,100000,1&batch_size=2' rows -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["voxels"]["kept"]')" 2
}

@test "voxelize gives maps of its points, whatever the caps keep" {
  post "/v1/voxelize?$GRID&max_voxels=1&outputs=occupancy,occupancy_counts,occupancy_packed,bev_max_height" points
  is "$code" 200
  is "$(tensor '[(t["dtype"], t["shape"]) for n, t in d.items() if n[0] != "_"]')" \
    "[('U8', [1, 2, 2, 4]), ('I32', [1, 2, 2, 4]), ('U8', [1, 2, 2, 1]), ('F32', [1, 2, 4])]"
  is "$(values occupancy 16B)" '(1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0)'
  is "$(values occupancy_packed 4B)" '(1, 8, 1, 0)'
  is "$(values bev_max_height 8f)" '(1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)'
}

@test "the intensity is the column of that name, or the fourth" {
  post "/v1/voxelize?$GRID&outputs=bev_top_intensity" points
  is "$(values bev_top_intensity 8f)" '(8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0)'
  post "/v1/voxelize?$GRID&fields=x,y,z,ring&outputs=bev_top_intensity" points
  is_problem 400 bad-parameter outputs
  post "/v1/voxelize?$GRID&num_features=3&outputs=bev_max_intensity" points
  is_problem 400 bad-parameter outputs
  post "/v1/voxelize?$GRID&num_features=3&outputs=bev_max_height" points
  is "$code" 200
  post "/v1/voxelize?$GRID&feature=points&outputs=bev_features" points
  is_problem 400 bad-parameter outputs
}

@test "scattered voxels are counted apart from points" {
  ask /metrics
  before=$(total 'voxeld_scattered_voxels_total{fate="duplicate"}')
  points=$(total 'voxeld_points_total{fate="out_of_range"}')
  counted() { ask /metrics && (($(total 'voxeld_scattered_voxels_total{fate="duplicate"}') == before + 1)); }
  post '/v1/scatter?grid_size=2,2,1&batch_size=2' rows
  await counted
  is "$(total 'voxeld_points_total{fate="out_of_range"}')" "$points"
}
