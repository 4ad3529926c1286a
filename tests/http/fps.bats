#!/usr/bin/env bats
# POST /v1/fps, and fps on /v1/voxelize: what may be sent, what comes back, what is refused, and that sampling does not
# delay other requests.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup_file() {
  start_daemon --workers 1 --sampling-workers 1 --streams 1 --sampling-streams 1 --max-sampling-work 1000000000000 \
    --max-timeout-ms 600000
  export scan=$BATS_FILE_TMPDIR/scan.bin long=$BATS_FILE_TMPDIR/long.bin
  "$voxel_scan" --points 1000 --output "$scan"
  # Sampling these takes a second or more: a million points of 3 columns, all between 1 and 2.
  "${python[@]}" - "$long" <<'PYTHON'
import random, sys
data = bytearray(random.Random(7).randbytes(12_000_000))
data[3::4] = b"\x3f" * 3_000_000
data[2::4] = data[2::4].translate(bytes(b | 0x80 for b in range(256)))
open(sys.argv[1], "wb").write(data)
PYTHON
}
teardown_file() { stop_daemon; }

# Stops the daemon of a test that failed half-way.
teardown() {
  [[ -z ${own:-} ]] || kill -KILL "$own" 2>/dev/null || true
}

# sample FILE QUERY [CURL-ARGUMENT...]: a request for samples.
sample() { ask --data-binary "@$1" "${@:3}" "/v1/fps?$2"; }

# refused STATUS TYPE PARAMETER QUERY...: each query for samples of the scan is refused with these.
refused() {
  local query
  for query in "${@:4}"; do
    sample "$scan" "$query"
    is_problem "$1" "$2" "$3" || { echo "query: $query"; return 1; }
    [[ $1 != 400 ]] || has "$(json 'd["detail"]')" "$3" || { echo "query: $query"; return 1; }
  done
}

# refused_voxelize STATUS TYPE PARAMETER QUERY...: the same for /v1/voxelize.
refused_voxelize() {
  local query
  for query in "${@:4}"; do
    post "$scan" "$query"
    is_problem "$1" "$2" "$3" || { echo "query: $query"; return 1; }
  done
}

# status_of EXPRESSION: its value over d, the answer of /v1/status.
status_of() { (ask /v1/status && json "$1"); }
samples_total() { (ask /metrics && sed -n 's/^voxeld_samples_total //p' "$body"); }
# running SAMPLINGS VOXELIZATIONS, and so do the metrics say.
running() {
  [[ $(status_of 'd["sampling_workers"]["running"], d["workers"]["running"]') == "($1, $2)" ]]
  (ask /metrics && grep -qx "voxeld_jobs_running{lanes=\"sample\"} $1" "$body" &&
    grep -qx "voxeld_jobs_running{lanes=\"voxelize\"} $2" "$body")
}

# begin_long: starts samplings in the background, one after the other; sets long_client to the client of the last.
begin_long() {
  local number
  for number in 1 2 3 4 5 6; do
    curl -sS -o "$BATS_TEST_TMPDIR/long.$number" -w '%{http_code}' --data-binary "@$long" \
      "$url/v1/fps?num_features=3&num_samples=900000&outputs=sampled_indices" \
      >"$BATS_TEST_TMPDIR/long.code.$number" 3>&- &
    long_client=$!
    await queued_or_running "$number"
  done
}

# The last of them is the last in the queue.
queued_or_running() {
  [[ $(status_of 'd["requests"]["active"] >= '"$1"' and d["sampling_workers"]["running"] == 1') == True ]]
}

@test "samples come as a safetensors file" {
  sample "$scan" num_samples=16
  is "$code" 200
  is "$(header content-type)" application/vnd.safetensors
  is "$(tensor 'sorted(n for n in d if not n.startswith("_"))')" "['sampled_indices', 'sampled_points']"
  is "$(tensor 'd["sampled_indices"]["dtype"], d["sampled_indices"]["shape"]')" "('I32', [1, 16])"
  is "$(tensor 'd["sampled_points"]["dtype"], d["sampled_points"]["shape"]')" "('F32', [1, 16, 4])"
  is "$(tensor 'struct.unpack_from("<i", data, 8 + size + d["sampled_indices"]["data_offsets"][0])')" '(0,)'
}

@test "samples and their distances, of points one can follow" {
  rows "$BATS_TEST_TMPDIR/line" 0 0 0  1 0 0  nan 0 0  9 0 0  4 0 0
  sample "$BATS_TEST_TMPDIR/line" 'num_features=3&num_samples=4&start=2&outputs=sampled_distances,sampled_indices'
  is "$code" 200
  is "$(tensor 'struct.unpack_from("<4i", data, 8 + size + d["sampled_indices"]["data_offsets"][0])')" '(3, 0, 4, 1)'
  is "$(tensor 'struct.unpack_from("<4f", data, 8 + size + d["sampled_distances"]["data_offsets"][0])')" \
    '(inf, 9.0, 4.0, 1.0)'
  is "$(tensor 'meta["points"]')" "{'received': 5, 'kept': 4, 'not_finite': 1}"
  is "$(tensor 'meta["samples"], "voxels" in meta, "grid_size" in meta')" "({'chosen': 4}, False, False)"
}

@test "each output alone and all together" {
  for name in sampled_indices sampled_points sampled_distances; do
    sample "$scan" "num_samples=5&outputs=$name"
    is "$(tensor '[n for n in d if not n.startswith("_")]')" "['$name']"
  done
  sample "$scan" 'num_samples=5&outputs=sampled_distances,sampled_points,sampled_indices'
  is "$(tensor 'sorted(n for n in d if not n.startswith("_"))')" \
    "['sampled_distances', 'sampled_indices', 'sampled_points']"
  is "$(tensor '[n for n, t in d.items() if not n.startswith("_") and (8 + size + t["data_offsets"][0]) % 64]')" '[]'
}

@test "one number for all clouds makes a row of each" {
  sample "$scan" 'num_samples=7&point_counts=500,200,300&outputs=sampled_indices,sampled_points,sampled_distances'
  is "$code" 200
  is "$(tensor '[d["sampled_" + n]["shape"] for n in ("indices", "points", "distances")]')" \
    '[[3, 7], [3, 7, 4], [3, 7]]'
  is "$(tensor 'meta["batch"]')" "{'size': 3, 'points': [500, 200, 300], 'samples': [7, 7, 7]}"
  is "$(tensor 'meta["parameters"]["num_samples"]')" 7
}

@test "a number for each cloud stacks them, equal or not" {
  sample "$scan" 'num_samples=7,0,20&point_counts=500,0,500&outputs=sampled_indices,sampled_points,sampled_distances'
  is "$code" 200
  is "$(tensor '[d["sampled_" + n]["shape"] for n in ("indices", "points", "distances")]')" '[[27], [27, 4], [27]]'
  is "$(tensor 'meta["batch"]["samples"], meta["samples"], meta["parameters"]["num_samples"]')" \
    "([7, 0, 20], {'chosen': 27}, [7, 0, 20])"
  sample "$scan" 'num_samples=5,5&point_counts=500,500'
  is "$(tensor 'd["sampled_indices"]["shape"]')" '[10]'
}

@test "no samples are tensors without rows" {
  sample "$scan" num_samples=0
  is "$code" 200
  is "$(tensor 'd["sampled_indices"]["shape"], d["sampled_points"]["shape"]')" '([1, 0], [1, 0, 4])'
  sample "$scan" 'num_samples=0&start=5000' # of nothing to sample any start will do
  is "$code" 200
  sample "$scan" 'num_samples=0,0&point_counts=999,1'
  is "$(tensor 'd["sampled_indices"]["shape"], d["sampled_points"]["shape"]')" '([0], [0, 4])'
}

@test "an empty body is a cloud of no points" {
  sample /dev/null num_samples=0
  is "$code" 200
  is "$(tensor 'meta["points"]["received"], meta["batch"]')" "(0, {'size': 1, 'points': [0], 'samples': [0]})"
  sample /dev/null 'num_samples=0&point_counts=0,0'
  is "$(tensor 'd["sampled_indices"]["shape"]')" '[2, 0]'
  sample /dev/null num_samples=1
  is_problem 422 impossible num_samples
}

@test "a chunked body is the same" {
  all='json.dumps({k: v for k, v in meta.items() if k != "timing_us"}), data[8 + size :].hex()'
  sample "$scan" num_samples=50 -H 'X-Request-Id: same'
  whole=$(tensor "$all")
  sample "$scan" num_samples=50 -H 'X-Request-Id: same' -H 'Transfer-Encoding: chunked'
  is "$code" 200
  is "$(tensor "$all")" "$whole"
  sample "$scan" num_samples=1001 -H 'Transfer-Encoding: chunked'
  is_problem 422 impossible num_samples
  sample "$scan" 'num_samples=1,1,1' -H 'Transfer-Encoding: chunked'
  is_problem 400 bad-parameter num_samples
}

@test "half-precision rows" {
  head -c 8000 "$scan" >"$BATS_TEST_TMPDIR/halves"
  sample "$BATS_TEST_TMPDIR/halves" 'dtype=float16&num_features=5&num_samples=3'
  is "$code" 200
  is "$(tensor 'd["sampled_points"]["dtype"], d["sampled_points"]["shape"], meta["points"]["received"]')" \
    "('F32', [1, 3, 5], 800)"
}

@test "Accept: application/json counts and checks, and samples nothing" {
  sample "$scan" num_samples=100 -H 'X-Request-Id: same'
  inside=$(tensor 'json.dumps({k: v for k, v in meta.items() if k != "timing_us"}, sort_keys=True)')
  sample "$scan" num_samples=100 -H 'X-Request-Id: same' -H 'Accept: application/json'
  is "$code" 200
  is "$(header content-type)" application/json
  is "$(json '(d.pop("timing_us"), json.dumps(d, sort_keys=True))[1]')" "$inside"
  sample "$scan" num_samples=1001 -H 'Accept: application/json'
  is_problem 422 impossible num_samples
  local before
  before=$(samples_total)
  sample "$long" 'num_features=3&num_samples=900000' -H 'Accept: application/json'
  is "$code" 200
  is "$(samples_total)" "$before"
}

@test "voxels are sampled with fps" {
  post "$scan" "preset=kitti_second&fps=32&start=3"
  is "$code" 200
  is "$(tensor 'sorted(n for n in d if not n.startswith("_"))')" \
    "['sampled_indices', 'sampled_points', 'voxel_coords', 'voxel_features', 'voxel_num_points']"
  is "$(tensor 'd["sampled_indices"]["shape"], d["sampled_points"]["shape"], meta["samples"]')" \
    "([1, 32], [1, 32, 4], {'chosen': 32})"
  local parameters='meta["parameters"]["fps"], meta["parameters"]["start"]'
  is "$(tensor "meta[\"batch\"][\"samples\"], len(meta[\"batch\"][\"voxels\"]), $parameters")" '([32], 1, 32, 3)'
  is "$(tensor 'struct.unpack_from("<i", data, 8 + size + d["sampled_indices"]["data_offsets"][0])')" '(3,)'
  post "$scan" "preset=kitti_second&fps=8,4&point_counts=500,500&outputs=sampled_indices"
  is "$(tensor '{n: t["shape"] for n, t in d.items() if n != "__metadata__"}')" "{'sampled_indices': [12]}"
  post "$scan" 'preset=kitti_second&fps=32' -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["samples"], d["batch"]["samples"], d["timing_us"]["sample"]')" "({'chosen': 32}, [32], 0.0)"
}

@test "a voxelize request without fps says nothing of samples" {
  post "$scan" preset=kitti_second -H 'Accept: application/json'
  is "$(json '"samples" in d, "samples" in d["batch"], d["parameters"]["fps"]')" "(False, False, 'off')"
}

@test "num_samples is missing, or no list of whole numbers" {
  refused 400 bad-parameter num_samples '' 'num_features=4'
  for value in '' -1 1.5 x '1,' ',1' 1,,1 %201 0x1 1e3 2147483648 99999999999999999999; do
    refused 400 bad-parameter num_samples "num_samples=$value"
    refused_voxelize 400 bad-parameter fps "$small&fps=$value"
  done
}

@test "as many numbers as clouds" {
  refused 400 bad-parameter num_samples num_samples=1,1 'num_samples=1,1&point_counts=1000' \
    'num_samples=1,1,1&point_counts=500,500'
  has "$(json 'd["detail"]')" '3 numbers'
  refused_voxelize 400 bad-parameter fps "$small&fps=1,1" "$small&fps=1,1,1&point_counts=500,500"
}

@test "parameters of the other endpoint are unknown" {
  refused 400 bad-parameter preset 'preset=kitti_second&num_samples=1'
  refused 400 bad-parameter fps 'fps=1&num_samples=1'
  for name in point_cloud_range voxel_size max_points_per_voxel max_voxels feature feature_dtype order fill \
    block_filter; do
    refused 400 bad-parameter "$name" "num_samples=1&$name=1"
  done
  refused_voxelize 400 bad-parameter num_samples "$small&num_samples=1"
}

@test "names are given once" {
  refused 400 bad-parameter num_samples 'num_samples=1&num_samples=1'
  refused 400 bad-parameter start 'num_samples=1&start=1&start=1'
  refused_voxelize 400 bad-parameter fps "$small&fps=1&fps=1"
}

@test "start is a whole number, and needs samples" {
  for value in -1 x 1.5 1,2 '' 2147483648; do
    refused 400 bad-parameter start "num_samples=1&start=$value"
    refused_voxelize 400 bad-parameter start "$small&fps=1&start=$value"
  done
  refused_voxelize 400 bad-parameter start "$small&start=0"
}

@test "outputs are those that there are" {
  refused 400 bad-parameter outputs 'num_samples=1&outputs=' 'num_samples=1&outputs=voxels' \
    'num_samples=1&outputs=samples' \
    'num_samples=1&outputs=sampled_points,sampled_points'
  for name in sampled_indices sampled_points sampled_distances; do
    refused_voxelize 400 bad-parameter outputs "$small&outputs=$name"
    has "$(json 'd["detail"]')" fps
  done
}

@test "more samples than points" {
  refused 422 impossible num_samples num_samples=1001 'num_samples=501&point_counts=500,500' \
    'num_samples=1&point_counts=1000,0' \
    'num_samples=500,501&point_counts=500,500'
  has "$(json 'd["detail"]')" 'cloud 1 has 500 points, fewer than the 501 samples'
}

@test "more samples than finite points" {
  rows "$BATS_TEST_TMPDIR/few" 0 0 0 0  nan 0 0 0  0 0 0 nan  0 inf 0 0
  sample "$BATS_TEST_TMPDIR/few" num_samples=2
  is "$code" 200
  sample "$BATS_TEST_TMPDIR/few" num_samples=3
  is_problem 422 impossible num_samples
  has "$(json 'd["detail"]')" '2 points whose x, y and z are finite'
  sample "$BATS_TEST_TMPDIR/few" num_samples=3 -H 'Accept: application/json'
  is_problem 422 impossible num_samples
}

@test "a start behind the points" {
  for query in 'num_samples=1&start=1000' 'num_samples=1&start=2147483647' \
    'num_samples=1&point_counts=999,1&start=1'; do
    sample "$scan" "$query"
    is_problem 422 impossible start
    has "$(json 'd["detail"]')" 'to start from'
  done
  sample "$scan" 'num_samples=1,0&point_counts=999,1&start=1' # the other is not sampled
  is "$code" 200
}

@test "fewer voxels than samples" {
  rows "$BATS_TEST_TMPDIR/three" 1 1 1 0  1 1 1 0  2 2 2 0  3 3 3 0
  for query in fps=4 'fps=2&point_counts=2,2' 'fps=1,3&point_counts=2,2' 'fps=1&start=3'; do
    post "$BATS_TEST_TMPDIR/three" "$small&$query"
    is_problem 422 impossible fps
    has "$(json 'd["detail"]')" voxels
    post "$BATS_TEST_TMPDIR/three" "$small&$query" -H 'Accept: application/json'
    is_problem 422 impossible fps
  done
  post "$BATS_TEST_TMPDIR/three" "$small&fps=3"
  is "$code" 200
}

@test "bodies and headers are refused as for voxelize" {
  head -c 15 "$scan" >"$BATS_TEST_TMPDIR/torn"
  sample "$BATS_TEST_TMPDIR/torn" num_samples=0
  is_problem 400 bad-body
  refused 400 bad-body point_counts 'num_samples=1&point_counts=1,2'
  sample "$scan" num_samples=1 -H 'Content-Type: text/plain'
  is_problem 415 unsupported-media-type
  ask '/v1/fps?num_samples=1'
  is_problem 405 method-not-allowed
  is "$(header allow)" POST
  ask --data-binary "@$scan" '/v1/fps/?num_samples=1'
  is_problem 404 not-found
}

@test "more work than --max-sampling-work" {
  start_daemon --max-sampling-work 100000
  own=$daemon
  for query in num_samples=100 'num_samples=100&point_counts=600,400' 'num_samples=180,20&point_counts=500,500'; do
    sample "$scan" "$query"
    is "$code" 200
  done
  for query in num_samples=101 'num_samples=101&point_counts=600,400' 'num_samples=180,21&point_counts=500,500'; do
    sample "$scan" "$query"
    is_problem 422 impossible num_samples
    has "$(json 'd["detail"]')" 'allowed: up to 100000'
  done
  sample "$scan" num_samples=101 -H 'Transfer-Encoding: chunked'
  is_problem 422 impossible num_samples
  post "$scan" 'point_cloud_range=-100,-100,-100,100,100,100&voxel_size=0.01,0.01,0.01&fps=500'
  is_problem 422 impossible fps
  has "$(json 'd["detail"]')" 'voxels times samples'
  ask /v1/status
  is "$(json 'd["limits"]["max_sampling_work"]')" 100000
  stop_daemon
  own=
}

@test "an answer over --max-response-bytes is refused before anything is sampled" {
  start_daemon --max-response-bytes 65536 --max-sampling-work 1000000000000
  own=$daemon
  sample "$long" 'num_features=3&num_samples=900000'
  is_problem 422 impossible
  has "$(json 'd["detail"]')" 'the answer would have'
  stop_daemon
  own=
}

@test "status and metrics tell of samples" {
  chosen() { ask /metrics; sed -n 's/^voxeld_samples_total //p' "$body"; }
  before=$(chosen)
  sample "$scan" 'num_samples=30&point_counts=500,500'
  post "$scan" 'preset=kitti_second&fps=7'
  is "$(chosen)" "$((before + 67))"
  grep -q '^voxeld_requests_total{endpoint="/v1/fps",code="200"} ' "$body"
  grep -q '^voxeld_queue_depth{lanes="voxelize"} 0$' "$body"
  grep -q '^voxeld_queue_depth{lanes="sample"} 0$' "$body"
  grep -q '^voxeld_jobs_running{lanes="voxelize"} ' "$body"
  grep -q '^voxeld_jobs_running{lanes="sample"} ' "$body"
  ask /v1/status
  is "$(json 'd["workers"]["count"], d["sampling_workers"]["count"], d["sampling_queue"]["limit"]')" '(1, 1, 1024)'
}

@test "a preset of fps serves fps alone" {
  mkdir "$BATS_TEST_TMPDIR/presets"
  cat >"$BATS_TEST_TMPDIR/presets/keypoints.json" <<'JSON'
{"description": "keypoints", "operation": "fps",
 "parameters": {"num_samples": 10, "start": 1, "outputs": ["sampled_points"]}}
JSON
  start_daemon --presets-dir "$BATS_TEST_TMPDIR/presets"
  own=$daemon
  sample "$scan" preset=keypoints
  is "$(tensor '{n: t["shape"][:2] for n, t in d.items() if n[0] != "_"}')" "{'sampled_points': [1, 10]}"
  sample "$scan" 'preset=keypoints&num_samples=3&outputs=sampled_indices' -H 'Accept: application/json'
  is "$(json 'd["parameters"]["preset"], d["parameters"]["num_samples"], d["parameters"]["start"]')" \
    "('keypoints', 3, 1)"
  post "$scan" preset=keypoints
  is_problem 400 bad-parameter preset
  has "$(json 'd["detail"]')" 'a preset of fps; allowed: a preset of voxelize'
  sample "$scan" 'preset=kitti_second&num_samples=1'
  is_problem 400 bad-parameter preset
  has "$(json 'd["detail"]')" 'a preset of voxelize, nms, decode; allowed: a preset of fps'
  ask /v1/presets/keypoints
  is "$(json 'd["operation"]')" fps
  stop_daemon
  own=
}

@test "a preset may sample, and its sampling be turned off" {
  mkdir "$BATS_TEST_TMPDIR/presets"
  cat >"$BATS_TEST_TMPDIR/presets/keypoints.json" <<'JSON'
{"description": "samples", "parameters": {"point_cloud_range": [-100, -100, -10, 100, 100, 10], "voxel_size": [1, 1, 1],
 "fps": 10, "start": 1, "outputs": ["sampled_points"]}}
JSON
  start_daemon --presets-dir "$BATS_TEST_TMPDIR/presets"
  own=$daemon
  shapes='{n: t["shape"][:2] for n, t in d.items() if n[0] != "_"}'
  post "$scan" preset=keypoints
  is "$(tensor "$shapes")" "{'sampled_points': [1, 10]}"
  post "$scan" 'preset=keypoints&fps=3'
  is "$(tensor "$shapes")" "{'sampled_points': [1, 3]}"
  post "$scan" 'preset=keypoints&fps=off'
  is "$code" 200
  is "$(tensor 'sorted(n for n in d if n[0] != "_")')" "['voxel_coords', 'voxel_features', 'voxel_num_points']"
  stop_daemon
  own=
}

@test "voxels are made while samples are chosen, and the end of the drain ends those" {
  start_daemon --workers 1 --sampling-workers 1 --streams 1 --sampling-streams 1 --max-sampling-work 1000000000000 \
    --max-timeout-ms 600000 --drain-timeout-s 0
  own=$daemon
  begin_long
  await running 1 0
  for _ in 1 2 3 4 5; do
    post "$scan" preset=kitti_second
    is "$code" 200
  done
  # Others that are to be sampled wait for the first, up to their own deadlines.
  sample "$scan" 'num_samples=5&timeout_ms=300'
  is_problem 504 deadline
  post "$scan" 'preset=kitti_second&fps=5&timeout_ms=300'
  is_problem 504 deadline
  await running 1 0
  stop_daemon
  own=
  wait "$long_client"
  is "$(cat "$BATS_TEST_TMPDIR/long.code.6")" 503
  grep -q urn:voxeld:problem:draining "$BATS_TEST_TMPDIR/long.6"
}

@test "a sampling ends at its deadline" {
  sample "$long" 'num_features=3&num_samples=900000&outputs=sampled_indices&timeout_ms=400'
  is_problem 504 deadline
  has "$(json 'd["detail"]')" 'before all '
  await running 0 0
  sample "$scan" num_samples=5
  is "$code" 200
}

@test "a sampling ends at the server's own limit" {
  start_daemon --max-timeout-ms 400 --max-sampling-work 1000000000000
  own=$daemon
  for query in '' '&timeout_ms=3600000'; do
    sample "$long" "num_features=3&num_samples=900000&outputs=sampled_indices$query"
    is_problem 504 deadline
  done
  stop_daemon
  own=
}
