#!/usr/bin/env bats
# POST /v1/voxelize with good requests: what may be sent, what comes back.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup_file() {
  start_daemon
  export scan=$BATS_FILE_TMPDIR/scan.bin
  "$voxel_scan" --points 5000 --output "$scan"
}
teardown_file() { stop_daemon; }

@test "a scan and a preset give voxels as a safetensors file" {
  post "$scan" preset=kitti_second
  is "$code" 200
  is "$(header content-type)" application/vnd.safetensors
  is "$(tensor 'sorted(n for n in d if not n.startswith("_"))')" \
    "['voxel_coords', 'voxel_features', 'voxel_num_points']"
  is "$(tensor 'd["voxel_coords"]["dtype"], d["voxel_coords"]["shape"][1]')" "('I32', 4)"
  is "$(tensor 'd["voxel_features"]["dtype"], d["voxel_features"]["shape"][1]')" "('F32', 4)"
  is "$(tensor 'd["voxel_coords"]["shape"][0] == d["voxel_features"]["shape"][0] == meta["voxels"]["kept"]')" True
}

@test "tensors start on 64 bytes, without holes, and end with the file" {
  local all=voxel_coords,voxel_num_points,voxels,voxel_features,pillar_features,point_voxel_ids,voxel_point_mask
  post "$scan" "preset=kitti_pointpillar&feature=points,mean,pillar&outputs=$all"
  is "$code" 200
  is "$(tensor '[n for n, t in d.items() if not n.startswith("_") and (8 + size + t["data_offsets"][0]) % 64]')" '[]'
  is "$(tensor '(lambda o: all(a[1] == b[0] for a, b in zip(o, o[1:])) and
        o[0][0] == 0 and o[-1][1] == len(data) - 8 - size)(
        sorted(t["data_offsets"] for n, t in d.items() if n != "__metadata__"))')" True
}

@test "what stands between tensors is zero, not the bytes of another client" {
  for _ in 1 2 3; do
    post "$scan" preset=voxelize_cuda
    is "$(tensor 'any(any(data[8 + size + t["data_offsets"][0] : 8 + size + t["data_offsets"][1]])
                      for n, t in d.items() if n.startswith("_padding_"))')" False
  done
}

@test "every preset takes a scan of its columns" {
  for preset in "$root"/config/presets/*.json; do
    columns=$("${python[@]}" -c \
      'import json, sys; print(json.load(open(sys.argv[1]))["parameters"]["num_features"])' "$preset")
    "$voxel_scan" --columns "$columns" --points 3000 --output "$BATS_TEST_TMPDIR/scan"
    post "$BATS_TEST_TMPDIR/scan" "preset=$(basename "$preset" .json)"
    is "$code" 200
    is "$(tensor 'meta["points"]["received"], meta["voxels"]["kept"] > 0')" '(3000, True)'
    is "$(tensor 'meta["parameters"]["preset"]')" "$(basename "$preset" .json)"
  done
}

@test "the query overrides the preset" {
  post "$scan" 'preset=kitti_second&max_voxels=7' -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["parameters"]["max_voxels"], d["voxels"]["kept"]')" '(7, 7)'
  post "$scan" 'max_voxels=7&preset=kitti_second' -H 'Accept: application/json'
  is "$(json 'd["parameters"]["max_voxels"]')" 7
}

@test "the Accept type with the highest q is sent" {
  rows "$BATS_TEST_TMPDIR/one" 1 1 1 1
  while read -r type accept; do
    post "$BATS_TEST_TMPDIR/one" "$small" -H "Accept: $accept"
    is "$code $accept $(header content-type)" "200 $accept $type"
  done <<'END'
application/json application/json, */*;q=0.5
application/json application/*;q=0.1, Application/JSON
application/json application/json;q=0.2, application/octet-stream;q=0.1
application/json application/vnd.safetensors;q=0, application/octet-stream;q=0, */*
application/x-npz application/x-npz
application/x-npz application/json;q=0.2, Application/X-NPZ;q=0.3, application/x-mcap;q=0.1
application/x-mcap application/x-mcap, */*;q=0.9
application/vnd.safetensors application/x-mcap, application/x-npz, */*
application/vnd.safetensors application/x-npz;q=0, application/x-mcap;q=0
application/vnd.safetensors application/json, */*
application/vnd.safetensors application/json;q=0
application/vnd.safetensors application/json;q=0.5, application/octet-stream
application/vnd.safetensors application/jsonl
application/vnd.safetensors text/html
END
}

@test "Accept: application/json gives the metadata alone" {
  post "$scan" preset=kitti_second -H 'Accept: application/json'
  is "$code" 200
  is "$(header content-type)" application/json
  is "$(json 'd["grid_size"]')" '[1408, 1600, 40]'
  is "$(json 'd["backend"]')" "$backend"
  is "$(json 'len(d["effective_range"]), d["batch"]["size"], d["batch"]["points"]')" '(6, 1, [5000])'
  is "$(json 'sorted(d["timing_us"])')" \
    "['copy_in', 'copy_out', 'features', 'queue', 'receive', 'sample', 'scatter', 'total', 'voxelize']"
  is "$(json 'd["request_id"]')" "$(header x-request-id)"
}

@test "metadata is the same whether it comes alone or in the file" {
  post "$scan" preset=kitti_second -H 'X-Request-Id: same'
  inside=$(tensor 'json.dumps({k: v for k, v in meta.items() if k != "timing_us"}, sort_keys=True)')
  post "$scan" preset=kitti_second -H 'X-Request-Id: same' -H 'Accept: application/json'
  is "$(json '(d.pop("timing_us"), json.dumps(d, sort_keys=True))[1]')" "$inside"
}

@test "every point is counted once" {
  rows "$BATS_TEST_TMPDIR/fates" 0.5 0.5 0.5 0  0.6 0.5 0.5 0  0.7 0.5 0.5 0  nan 1 1 0  1 inf 1 0  1 1 -inf 0 \
    1e30 1 1 0  -1e30 1 1 0  4 1 1 0  1.5 1 1 0  2.5 1 1 nan
  post "$BATS_TEST_TMPDIR/fates" "$small&max_points_per_voxel=2&max_voxels=2" -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["points"]')" "{'received': 11, 'kept': 3, 'not_finite': 3, 'out_of_range': 3, \
'over_max_points_per_voxel': 1, 'over_max_voxels': 1, 'block_filtered': 0}"
  is "$(json 'd["voxels"]["kept"], d["voxels"]["dropped"]')" '(2, 1)'
}

@test "an empty body is a scan of 0 points" {
  : >"$BATS_TEST_TMPDIR/empty"
  post "$BATS_TEST_TMPDIR/empty" preset=kitti_second
  is "$code" 200
  is "$(tensor 'd["voxel_coords"]["shape"], d["voxel_features"]["shape"]')" '([0, 4], [0, 4])'
  is "$(tensor 'meta["points"]["received"]')" 0
}

@test "an empty chunked body is a scan of 0 points" {
  : >"$BATS_TEST_TMPDIR/empty"
  post "$BATS_TEST_TMPDIR/empty" preset=kitti_second -H 'Transfer-Encoding: chunked'
  is "$code" 200
  is "$(tensor 'meta["points"]["received"]')" 0
}

@test "a body of one point is one voxel" {
  rows "$BATS_TEST_TMPDIR/one" 1.5 2.5 3.5 0.25
  post "$BATS_TEST_TMPDIR/one" "$small"
  is "$code" 200
  is "$(tensor 'struct.unpack_from("<4i", data, 8 + size + d["voxel_coords"]["data_offsets"][0])')" '(0, 3, 2, 1)'
  is "$(tensor 'struct.unpack_from("<4f", data, 8 + size + d["voxel_features"]["data_offsets"][0])')" \
    '(1.5, 2.5, 3.5, 0.25)'
}

@test "point_counts splits the body into a batch" {
  post "$scan" 'preset=kitti_second&point_counts=1000,0,4000' -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["batch"]["size"], d["batch"]["points"]')" '(3, [1000, 0, 4000])'
  is "$(json 'd["batch"]["voxels"][1] == 0 and sum(d["batch"]["voxels"]) == d["voxels"]["kept"]')" True
}

@test "outputs chooses the tensors" {
  post "$scan" 'preset=kitti_second&outputs=point_voxel_ids'
  is "$code" 200
  is "$(tensor 'sorted(n for n in d if not n.startswith("_"))')" "['point_voxel_ids']"
  is "$(tensor 'd["point_voxel_ids"]["shape"]')" '[5000]'
}

@test "half-precision rows are taken" {
  "${python[@]}" -c 'import struct, sys; sys.stdout.buffer.write(struct.pack("<4e", 1.5, 2.5, 3.5, 0.25))' \
    >"$BATS_TEST_TMPDIR/half"
  post "$BATS_TEST_TMPDIR/half" "$small&dtype=float16&feature_dtype=float16"
  is "$code" 200
  is "$(tensor 'struct.unpack_from("<4e", data, 8 + size + d["voxel_features"]["data_offsets"][0])')" \
    '(1.5, 2.5, 3.5, 0.25)'
}

@test "a chunked body gives the same bytes as one with a length" {
  post "$scan" preset=kitti_second -H 'X-Request-Id: same'
  tensor 'data[8 + size:]' >"$BATS_TEST_TMPDIR/plain"
  post "$scan" preset=kitti_second -H 'X-Request-Id: same' -H 'Transfer-Encoding: chunked'
  is "$code" 200
  tensor 'data[8 + size:]' >"$BATS_TEST_TMPDIR/chunked"
  cmp "$BATS_TEST_TMPDIR/plain" "$BATS_TEST_TMPDIR/chunked"
}

@test "the content types of raw bytes are taken" {
  for type in application/octet-stream application/x-www-form-urlencoded \
    'application/octet-stream; charset=binary' Application/Octet-Stream; do
    post "$scan" preset=kitti_second -H "Content-Type: $type"
    is "$code" 200
  done
  post "$scan" preset=kitti_second -H 'Content-Type:' # none
  is "$code" 200
}

@test "curl -d strips bytes, which is warned of or refused" {
  tr -d '\0\r\n' <"$scan" >"$BATS_TEST_TMPDIR/stripped"
  head -c 16000 "$BATS_TEST_TMPDIR/stripped" >"$BATS_TEST_TMPDIR/rows"
  post "$BATS_TEST_TMPDIR/rows" preset=kitti_second -H 'Accept: application/json'
  is "$code" 200
  is "$(json '"stripped_body" in [w["kind"] for w in d["warnings"]]')" True
  post "$BATS_TEST_TMPDIR/rows" preset=kitti_second -H 'Accept: application/json' -H 'Content-Type:'
  is "$(json '"stripped_body" in [w["kind"] for w in d["warnings"]]')" False

  head -c 16001 "$BATS_TEST_TMPDIR/stripped" >"$BATS_TEST_TMPDIR/half-row"
  post "$BATS_TEST_TMPDIR/half-row" preset=kitti_second
  is_problem 400 bad-body
  is "$(json '"--data-binary" in d["detail"]')" True
  post "$BATS_TEST_TMPDIR/half-row" preset=kitti_second -H 'Content-Type:'
  is_problem 400 bad-body
  is "$(json '"--data-binary" in d["detail"]')" False
}

# warnings_of KIND: how often it was warned of.
warnings_of() {
  ask /metrics
  sed -n "s/^voxeld_warnings_total{kind=\"$1\"} //p" "$body"
}

@test "warnings are told and counted" {
  local dropped out none
  dropped=$(warnings_of max_voxels) out=$(warnings_of out_of_range) none=$(warnings_of not_finite)
  post "$scan" preset=kitti_second -H 'Accept: application/json'
  is "$(json 'd["warnings"]')" '[]'
  post "$scan" 'preset=kitti_second&max_voxels=10'
  is "$(tensor '[w["kind"] for w in meta["warnings"]]')" "['max_voxels']"
  is "$(tensor 'meta["warnings"][0]["detail"].startswith("max_voxels=10 was reached: ")')" True
  post "$scan" 'preset=kitti_second&point_cloud_range=1000,1000,0,1010,1010,10' -H 'Accept: application/json'
  is "$(json '[w["kind"] for w in d["warnings"]]')" "['out_of_range']"
  is "$(warnings_of max_voxels) $(warnings_of out_of_range) $(warnings_of not_finite)" \
    "$((dropped + 1)) $((out + 1)) $none"
}

@test "Content-Encoding: identity is taken" {
  post "$scan" preset=kitti_second -H 'Content-Encoding: identity'
  is "$code" 200
}

@test "Expect: 100-continue is answered before the body" {
  post "$scan" preset=kitti_second -H 'Expect: 100-continue'
  is "$code" 200
  grep -q '^HTTP/1.1 100' "$headers"
}

@test "two voxelize requests go over one connection" {
  run curl -sS -o /dev/null -o /dev/null -w '%{http_code} %{num_connects} ' --data-binary "@$scan" \
    "$url/v1/voxelize?preset=kitti_second" "$url/v1/voxelize?preset=kitti_pointpillar"
  is "$status" 0
  is "$output" '200 1 200 0 '
}

@test "HTTP/1.0 is served" {
  post "$scan" preset=kitti_second --http1.0
  is "$code" 200
}

@test "percent-encoded names and values are decoded" {
  post "$scan" 'preset=kitti%5Fsecond&max%5Fvoxels=%37&point_counts=2000%2C3000' -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["parameters"]["max_voxels"], d["batch"]["points"]')" '(7, [2000, 3000])'
}

@test "the client's X-Request-Id is taken over" {
  post "$scan" preset=kitti_second -H 'X-Request-Id: lidar-7.frame_42:a'
  is "$code" 200
  is "$(header x-request-id)" lidar-7.frame_42:a
  is "$(tensor 'meta["request_id"]')" lidar-7.frame_42:a
}

@test "without X-Request-Id each request gets one of its own" {
  post "$scan" preset=kitti_second
  first=$(header x-request-id)
  post "$scan" preset=kitti_second
  second=$(header x-request-id)
  [[ -n $first && -n $second && $first != "$second" ]]
}

@test "an X-Request-Id that is empty, too long or not plain is replaced" {
  ask -H 'X-Request-Id;' /healthz
  [[ -n $(header x-request-id) ]]
  long=$(printf 'a%.0s' {1..129})
  for id in "$long" 'has space' 'quote"' '<script>' 'ü'; do
    ask -H "X-Request-Id: $id" /healthz
    is "$code" 200
    [[ -n $(header x-request-id) && $(header x-request-id) != "$id" ]]
  done
}

@test "Server-Timing gives every stage in milliseconds" {
  post "$scan" preset=kitti_second
  is "$(header server-timing | tr ',' '\n' | sed 's/^ *//; s/;dur=[0-9.]*$//' | xargs)" \
    'receive queue copy_in voxelize features scatter sample copy_out total'
}

@test "a grid of 40000 x 40000 x 4000 cells is no trouble" {
  post "$scan" 'point_cloud_range=-200,-200,-20,200,200,20&voxel_size=0.01,0.01,0.01&feature=mean' \
    -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["grid_size"]')" '[40000, 40000, 4000]'
}

@test "the same request gives the same tensors, from one client and from many" {
  reference=
  for i in {1..8}; do
    curl -sS --max-time 120 --data-binary "@$scan" -H 'X-Request-Id: same' -o "$BATS_TEST_TMPDIR/answer$i" \
      "$url/v1/voxelize?preset=voxelize_cuda" &
    pids[i]=$!
  done
  for i in {1..8}; do
    wait "${pids[i]}"
    body=$BATS_TEST_TMPDIR/answer$i
    sum=$(tensor '__import__("hashlib").sha256(data[8 + size:]).hexdigest()')
    is "$sum" "${reference:=$sum}"
  done
}
