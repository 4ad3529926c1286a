#!/usr/bin/env bats
# POST /v1/transform: what may be sent, what comes back, what is refused.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

readonly shift_x='matrix=1,0,0,10,0,1,0,0,0,0,1,0,0,0,0,1'

setup_file() {
  start_daemon
  export scan=$BATS_FILE_TMPDIR/scan.bin few=$BATS_FILE_TMPDIR/few.bin
  "$voxel_scan" --points 1000 --output "$scan"
  "${python[@]}" -c 'import struct, sys
open(sys.argv[1], "wb").write(struct.pack("<16f", 0, 0, 0, 1, 1, 2, 3, 2, float("nan"), 0, 0, 3, 5, 5, 5, 4))' "$few"
}
teardown_file() { stop_daemon; }

# transform FILE QUERY [CURL-ARGUMENT...]: a request for moved points.
transform() { ask --data-binary "@$1" "${@:3}" "/v1/transform?$2"; }

# refused STATUS TYPE PARAMETER QUERY...: each query is refused with these.
refused() {
  local query
  for query in "${@:4}"; do
    transform "$scan" "$query"
    is_problem "$1" "$2" "$3" || { echo "query: $query"; return 1; }
  done
}

@test "points are moved, cropped and cut" {
  transform "$few" "$shift_x&crop=0,0,0,20,20,20&cut=14,4,4,16,6,6"
  is "$code" 200
  is "$(tensor '{n: (t["dtype"], t["shape"]) for n, t in d.items() if n[0] != "_"}')" \
    "{'points': ('F32', [2, 4]), 'point_indices': ('I32', [2])}"
  is "$(tensor 'meta["points"]')" "{'received': 4, 'kept': 2, 'not_finite': 1, 'out_of_crop': 0, 'cut_out': 1}"
  is "$(tensor 'meta["batch"]')" "{'size': 1, 'points': [4], 'kept': [2]}"
  is "$(tensor 'sorted(meta["timing_us"])')" "['copy_in', 'copy_out', 'queue', 'receive', 'total', 'transform']"
  has "$(header Server-Timing)" 'copy_in;dur='
  has "$(header Server-Timing)" 'transform;dur='
  fails grep -i '^server-timing:.*voxelize' "$headers"
}

@test "the metadata alone has the same counts" {
  transform "$few" 'crop=0,0,0,2,4,4&cut=4,4,4,6,6,6;-1,-1,-1,0.5,1,1' -H 'Accept: application/json'
  is "$(json 'd["points"]')" "{'received': 4, 'kept': 1, 'not_finite': 1, 'out_of_crop': 1, 'cut_out': 1}"
  is "$(json 'd["parameters"]["cut"], d["parameters"]["crop"]')" "('4,4,4,6,6,6;-1,-1,-1,0.5,1,1', [0, 0, 0, 2, 4, 4])"
}

@test "what the metadata says of numbers can be sent again as it is" {
  transform "$few" 'crop=-1e20,-1e%2B20,-1e6,1e%2B06,3e7,1e-7&cut=-1e20,0,0,1,1,1e%2B20' -H 'Accept: application/json'
  has "$(cat "$body")" '"crop":[-1e20,-1e20,-1e6,1e6,3e7,1e-07],"cut":"-1e20,0,0,1,1,1e20"'
  transform "$few" "cut=$(json 'd["parameters"]["cut"]')" -H 'Accept: application/json'
  is "$(json 'd["parameters"]["cut"]')" -1e20,0,0,1,1,1e20
}

@test "a plus that became a space is told" {
  for query in 'cut=-1e+20,0,0,1,1,1' 'crop=+1,0,0,2,1,1' 'crop=0,0,0,1,1,+.5' 'matrix=1e+0' 'timeout_ms=+1'; do
    transform "$few" "$query"
    is_problem 400 bad-parameter "${query%%=*}"
    has "$(json 'd["detail"]')" '; in a URL + means a space and must be written %2B'
  done
  for query in 'crop=1,2' 'outputs=points,+points' 'crop=0,0,0,1,1,1+'; do
    transform "$few" "$query"
    is_problem 400 bad-parameter "${query%%=*}"
    fails grep -F %2B "$body"
  done
}

@test "each cloud has its matrix, or all have one" {
  transform "$few" "point_counts=2,2&${shift_x},1,0,0,20,0,1,0,0,0,0,1,0,0,0,0,1&crop=-9,-9,-9,12,9,9" \
    -H 'Accept: application/json'
  is "$(json 'd["batch"]["kept"], d["points"]["out_of_crop"]')" '([2, 0], 1)'
  transform "$few" "point_counts=2,2&$shift_x" -H 'Accept: application/json'
  is "$(json 'd["batch"]["kept"]')" '[2, 1]'
  refused 400 bad-parameter matrix "point_counts=300,300,400&${shift_x},1,0,0,20,0,1,0,0,0,0,1,0,0,0,0,1"
}

@test "what is not a matrix or a box is refused" {
  refused 400 bad-parameter matrix matrix= matrix matrix=1 'matrix=1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1,1' \
    'matrix=1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,2' 'matrix=1,0,0,0,0,1,0,0,0,0,1,0,0,0,1,1' \
    'matrix=1,0,0,inf,0,1,0,0,0,0,1,0,0,0,0,1' 'matrix=1,0,0,nan,0,1,0,0,0,0,1,0,0,0,0,1' \
    'matrix=1,0,0,1e40,0,1,0,0,0,0,1,0,0,0,0,1'
  refused 400 bad-parameter crop crop= crop=on crop=0,0,0,1,1 crop=0,0,0,1,1,1,1 crop=0,0,0,1,0,1 crop=0,0,0,0,1,1 \
    'crop=0,0,0,1,1,1;2,2,2,3,3,3'
  refused 400 bad-parameter cut cut= cut=on 'cut=0,0,0,1,1,1;' 'cut=;0,0,0,1,1,1' 'cut=0,0,0,1,1,1;0,0,0,1,1,-1' \
    'cut=off;off' \
    "cut=$(printf '0,0,0,1,1,1;%.0s' {1..64})0,0,0,1,1,1"
  refused 400 bad-parameter outputs outputs=voxels outputs= outputs=points,points
  refused 400 bad-parameter start start=1
  refused 400 bad-parameter preset preset=kitti_second
  transform "$scan" "cut=$(printf '0,0,0,1,1,1;%.0s' {1..63})0,0,0,1,1,1" -H 'Accept: application/json'
  is "$code" 200
}

@test "a preset may hold a sensor's place" {
  mkdir "$BATS_TEST_TMPDIR/presets"
  cat >"$BATS_TEST_TMPDIR/presets/roof.json" <<'JSON'
{"description": "the lidar on the roof", "operation": "transform", "parameters": {
 "matrix": [1, 0, 0, 10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1], "cut": "9,-1,-1,10.5,1,1;14,4,4,16,6,6"}}
JSON
  shared=$daemon
  (
    start_daemon --presets-dir "$BATS_TEST_TMPDIR/presets"
    transform "$few" preset=roof
    is "$(tensor 'meta["points"]["kept"], meta["points"]["cut_out"]')" '(1, 2)'
    transform "$few" 'preset=roof&cut=off'
    is "$(tensor 'meta["points"]["kept"], meta["points"]["cut_out"]')" '(3, 0)'
    ask /v1/presets/roof
    is "$(json 'd["operation"], d["parameters"]["cut"]')" "('transform', '9,-1,-1,10.5,1,1;14,4,4,16,6,6')"
    stop_daemon
  )
}

@test "its points, its time and its requests are counted" {
  total() { sed -n "s#^$1 ##p" "$body"; }
  counted() { ask /metrics && (($(total 'voxeld_requests_total{endpoint="/v1/transform",code="200"}') > 0)); }
  transform "$few" 'crop=0,0,0,2,4,4'
  await counted
  (($(total 'voxeld_points_total{fate="out_of_crop"}') > 0))
  (($(total 'voxeld_stage_duration_seconds_count{stage="transform"}') > 0))
  is "$(total 'voxeld_stage_duration_seconds_count{stage="voxelize"}')" 0
}
