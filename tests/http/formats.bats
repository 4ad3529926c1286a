#!/usr/bin/env bats
# Bodies in other formats than raw rows: what may be sent, and what is said of a body that is not what its query says.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup_file() {
  start_daemon --max-body-bytes 65536
  export files=$BATS_FILE_TMPDIR
  cd "$files" || return
  rows rows.bin 1 2 3 0.5 4 5 6 1
  printf 'FIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nPOINTS 2\nDATA %s\n' ascii >head.txt
  { cat head.txt; printf '1 2 3 0.5\n4 5 6 1\n'; } >text.pcd
  { sed s/ascii/binary/ head.txt; cat rows.bin; } >binary.pcd
  printf 'ply\nformat binary_little_endian 1.0\nelement vertex 2\n' >binary.ply
  printf 'property float %s\n' x y z intensity >>binary.ply
  { echo end_header; cat rows.bin; } >>binary.ply
  "${python[@]}" - message <<'PYTHON'
import struct, sys
out = b"\0\1\0\0" + struct.pack("<2iI", 1, 2, 6) + b"lidar\0\0\0" + struct.pack("<3I", 1, 2, 4)
for place, name in enumerate((b"x", b"y", b"z", b"intensity")):
    out += bytes(-len(out) % 4) + struct.pack("<I", len(name) + 1) + name + b"\0"
    out += bytes(-len(out) % 4) + struct.pack("<IB3xI", 4 * place, 7, 1)
out += struct.pack("<B3x3I", 0, 16, 32, 32) + open("rows.bin", "rb").read() + b"\1"
open(sys.argv[1], "wb").write(out)
PYTHON
}
teardown_file() { stop_daemon; }

# move FILE QUERY [CURL-ARGUMENT...]: a request for the points, as they are.
move() { ask --data-binary "@$files/$1" "${@:3}" "/v1/transform?$2"; }

nothing_in_use() {
  ask /metrics
  grep -qx 'voxeld_buffer_bytes{state="in_use"} 0' "$body"
}

# detail PART: the last answer's detail has it.
detail() { has "$(json 'd["detail"]')" "$1"; }

points='struct.unpack("<8f", data[8 + size :][d["points"]["data_offsets"][0] : d["points"]["data_offsets"][1]])'

@test "every format gives the points of the raw rows" {
  local request
  for request in rows.bin: rows.bin:format=raw text.pcd:format=pcd binary.pcd:format=pcd binary.ply:format=ply \
    message:format=pointcloud2; do
    move "${request%%:*}" "${request#*:}"
    is "$code" 200
    is "$(tensor "$points")" '(1.0, 2.0, 3.0, 0.5, 4.0, 5.0, 6.0, 1.0)'
    move "${request%%:*}" "${request#*:}" -H 'Transfer-Encoding: chunked' -H 'Content-Type: application/octet-stream'
    is "$(tensor "$points")" '(1.0, 2.0, 3.0, 0.5, 4.0, 5.0, 6.0, 1.0)'
    is "$(tensor 'meta["warnings"]')" '[]'
  done
}

@test "the metadata names what was given, and nothing else" {
  move text.pcd 'format=pcd&fields=x,y,intensity&intensity_scale=0.25' -H 'Accept: application/json'
  is "$(json '[d["parameters"][n] for n in ("num_features", "format", "fields", "intensity_scale")]')" \
    "[3, 'pcd', ['x', 'y', 'intensity'], 0.25]"
  move rows.bin '' -H 'Accept: application/json'
  is "$(json 'sorted(d["parameters"])')" \
    "['crop', 'cut', 'dtype', 'num_features', 'outputs', 'timeout_ms']"
}

@test "columns are chosen, and intensity is scaled" {
  move message 'format=pointcloud2&fields=x,y,z,intensity&intensity_scale=0.5'
  is "$(tensor "$points")" '(1.0, 2.0, 3.0, 0.25, 4.0, 5.0, 6.0, 0.5)'
  move rows.bin 'fields=x,y,z,intensity&intensity_scale=-2'
  is "$(tensor "$points")" '(1.0, 2.0, 3.0, -1.0, 4.0, 5.0, 6.0, -2.0)'
}

@test "what a file lacks is refused" {
  move text.pcd 'format=pcd&num_features=5'
  is_problem 400 bad-body num_features
  detail 'num_features is 5, but the body has only 4 fields of one value; it has x, y, z, intensity'
  move text.pcd 'format=pcd&fields=x,y,z,ring'
  is_problem 400 bad-body fields
  move text.pcd 'format=pcd&num_features=3&intensity_scale=2'
  is_problem 400 bad-body intensity_scale
  move text.pcd 'format=pcd&point_counts=1,2'
  is_problem 400 bad-body point_counts
  sed 's/4 5 6/4 five 6/' "$files/text.pcd" >"$files/wrong.pcd"
  move wrong.pcd format=pcd
  is_problem 400 bad-body
  detail "line 7, field y: 'five' is not a number"
  sed 's/POINTS 2/POINTS 0/' "$files/text.pcd" >"$files/none.pcd"
  move none.pcd format=pcd
  is_problem 400 bad-body
  detail 'line 6 stands behind the 0 points that were promised'
  ask --data-binary '' '/v1/transform?format=ply'
  is_problem 400 bad-body
  ask -d "@$files/text.pcd" '/v1/transform?format=pcd'
  is_problem 400 bad-body
  detail 'if curl -d sent it, use --data-binary'
}

@test "a body of another format is told" {
  move text.pcd num_features=7
  is_problem 400 bad-body
  detail 'the body looks like a PCD file: add format=pcd'
  move text.pcd num_features=7 -H 'Transfer-Encoding: chunked'
  detail 'the body looks like a PCD file: add format=pcd'
  move binary.ply num_features=64
  detail 'the body looks like a PLY file: add format=ply'
  move message num_features=64
  detail 'the body looks like a serialized PointCloud2: add format=pointcloud2'
  move message format=ply
  is_problem 400 bad-body
  detail 'the body looks like a serialized PointCloud2: add format=pointcloud2'
  gzip -c "$files/text.pcd" >"$files/text.pcd.gz"
  move text.pcd.gz format=pcd
  is_problem 400 bad-body
  detail 'the body looks compressed by gzip: add the header Content-Encoding: gzip'
  move binary.ply num_features=64 -H 'Expect: 100-continue'
  detail '; a PCD or PLY file, or a PointCloud2, needs format=pcd, ply or pointcloud2'
}

@test "a body of another format that could be rows gets a warning" {
  { cat "$files/text.pcd"; printf '%*s' $((160 - $(wc -c <"$files/text.pcd"))) ''; } >"$files/fits.pcd"
  move fits.pcd '' -H 'Accept: application/json'
  is "$code" 200
  is "$(json '[w["detail"] for w in d["warnings"] if w["kind"] == "format"]')" \
    "['the body looks like a PCD file: add format=pcd']"
  ask /metrics
  has "$(cat "$body")" 'voxeld_warnings_total{kind="format"} 1'
}

@test "a file that unpacks or widens to more than a body may have is refused" {
  {
    printf 'FIELDS x y z\nSIZE 1 1 1\nTYPE U U U\nPOINTS 6000\nDATA binary\n'
    head -c 18000 /dev/zero
  } >"$files/bytes.pcd"
  move bytes.pcd 'format=pcd&num_features=3'
  is_problem 413 body-too-large
  detail "the body's points have 72000 bytes; allowed: up to 65536"
}

@test "rows that the budget does not hold beside their body are refused" {
  start_daemon --max-body-bytes 1048576 --max-response-bytes 65536 --memory-budget-bytes 1572864
  {
    printf 'FIELDS x y z\nSIZE 2 2 2\nTYPE U U U\nPOINTS 87381\nDATA binary\n'
    head -c 524286 /dev/zero
  } >"$files/wide.pcd"
  move wide.pcd 'format=pcd&num_features=3'
  is_problem 422 impossible
  detail "the body's points need 1048572 bytes; memory_budget_bytes leaves 524288 beside the body"
  await nothing_in_use
  stop_daemon
}

@test "all memory is given back" {
  await nothing_in_use
}
