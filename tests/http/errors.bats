#!/usr/bin/env bats
# Bad input: each is refused with a status, a reason and, if one is at fault, the parameter.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup_file() {
  start_daemon --max-body-bytes 1048576
  export scan=$BATS_FILE_TMPDIR/scan.bin
  "$voxel_scan" --points 1000 --output "$scan"
}
teardown_file() { stop_daemon; }

# Whatever a test sent, the next client is served.
teardown() {
  post "$scan" preset=kitti_second
  is "$code" 200
}

# refused PARAMETER QUERY...: each query is 400 and names the parameter, which may be one that does not exist.
refused() {
  local query
  for query in "${@:2}"; do
    post "$scan" "$query"
    { is_problem 400 bad-parameter "$1" && has "$(json 'd["detail"]')" "$1"; } || { echo "query: $query"; return 1; }
  done
}

@test "body_not_whole_rows" {
  head -c 15 "$scan" >"$BATS_TEST_TMPDIR/torn"
  post "$BATS_TEST_TMPDIR/torn" preset=kitti_second
  is_problem 400 bad-body
  has "$(json 'd["detail"]')" 16
  post "$BATS_TEST_TMPDIR/torn" preset=kitti_second -H 'Transfer-Encoding: chunked'
  is_problem 400 bad-body
}

@test "unknown_parameter" {
  refused voxelsize 'preset=kitti_second&voxelsize=1,1,1' 'voxelsize'
  refused MAX_VOXELS 'preset=kitti_second&MAX_VOXELS=1'
  refused 'max_voxels ' 'preset=kitti_second&max_voxels%20=1'
  refused '' 'preset=kitti_second&=1'
}

@test "repeated_parameter" {
  refused max_voxels 'preset=kitti_second&max_voxels=5&max_voxels=5'
  refused preset 'preset=kitti_second&preset=kitti_pointpillar'
}

@test "unknown_preset" {
  refused preset preset=nonesuch preset= 'preset=../../etc/passwd' preset=kitti_second.json
}

@test "parameter_without_value" {
  refused max_voxels 'preset=kitti_second&max_voxels' 'preset=kitti_second&max_voxels='
}

@test "missing_range_and_size" {
  refused point_cloud_range '' voxel_size=1,1,1
  refused voxel_size point_cloud_range=0,0,0,1,1,1
}

@test "negative_and_zero_voxel_size" {
  for size in 0,1,1 1,-1,1 1,1,0 1,1,-0.0 1e-60,1,1; do
    refused voxel_size "point_cloud_range=0,0,0,4,4,4&voxel_size=$size"
  done
}

@test "voxel_size_is_three_numbers" {
  for size in 1 1,1 1,1,1,1 1,,1 ,1,1 '1,1,1,' a,b,c nan,1,1 inf,1,1 1e40,1,1 0x1p0,1,1 1,1,1%20 '1;1;1'; do
    refused voxel_size "point_cloud_range=0,0,0,4,4,4&voxel_size=$size"
  done
}

@test "range_is_six_finite_numbers" {
  for range in 0,0,0,4,4 0,0,0,4,4,4,4 0,0,0,4,4,nan -inf,0,0,4,4,4 0,0,0,1e39,4,4 0,0,0,four,4,4; do
    refused point_cloud_range "point_cloud_range=$range&voxel_size=1,1,1"
  done
}

@test "min_above_max" {
  for range in 4,0,0,0,4,4 0,0,0,4,0,4 0,0,4,4,4,-4; do
    refused point_cloud_range "point_cloud_range=$range&voxel_size=1,1,1"
  done
}

@test "grid_overflow" {
  post "$scan" 'point_cloud_range=-1e9,-1e9,-1e9,1e9,1e9,1e9&voxel_size=1e-3,1e-3,1e-3'
  is_problem 422 impossible voxel_size
  post "$scan" 'point_cloud_range=-1e9,-1e9,-1e9,1e9,1e9,1e9&voxel_size=1,1,1'
  is_problem 422 impossible voxel_size
  post "$scan" 'point_cloud_range=-3e38,0,0,3e38,4,4&voxel_size=1,1,1'
  is_problem 422 impossible voxel_size
  post "$scan" 'point_cloud_range=0,0,0,1,1,1&voxel_size=100,1,1' # no cell at all
  is_problem 422 impossible voxel_size
}

@test "integers_out_of_bounds" {
  for value in 2 65 -1 4.0 1e1 %204 0x4 99999999999999999999 four; do
    refused num_features "$small&num_features=$value"
  done
  for value in -1 1025 1.5; do refused max_points_per_voxel "$small&max_points_per_voxel=$value"; done
  for value in 0 16777217 -5; do refused max_voxels "$small&max_voxels=$value"; done
  for value in -1 x; do refused timeout_ms "$small&timeout_ms=$value"; done
}

@test "unknown_words" {
  refused feature "$small&feature=median" "$small&feature=" "$small&feature=mean,mean" "$small&feature=mean,"
  refused feature_dtype "$small&feature_dtype=float64"
  refused dtype "$small&dtype=int8"
  refused order "$small&order=last"
  refused fill "$small&fill=one"
  refused outputs "$small&outputs=voxel" "$small&outputs=voxel_coords,voxel_coords"
  refused block_filter "$small&block_filter=on" "$small&block_filter=1,8,0.1" "$small&block_filter=0,8,0.1,2" \
    "$small&block_filter=1,33,0.1,2"
}

@test "outputs_that_feature_does_not_compute" {
  refused outputs "$small&feature=mean&outputs=pillar_features"
}

@test "padded_tensors_without_a_cap" {
  for query in feature=points feature=pillar 'outputs=voxel_point_mask'; do
    post "$scan" "$small&max_points_per_voxel=0&$query"
    is_problem 422 impossible max_points_per_voxel
  done
}

@test "point_counts_do_not_add_up" {
  for counts in 999 500,501 0 1001; do
    post "$scan" "preset=kitti_second&point_counts=$counts"
    is_problem 400 bad-body point_counts
  done
  refused point_counts 'preset=kitti_second&point_counts=-1,1001' 'preset=kitti_second&point_counts=500,,500' \
    'preset=kitti_second&point_counts=99999999999' "preset=kitti_second&point_counts=$(seq -s, 1025)"
}

# unsound PATH...: each request is answered 400 as a whole, before any parameter is read.
unsound() {
  local path
  for path; do
    ask --data-binary "@$scan" "$path"
    is_problem 400 bad-request || { echo "path: $path"; return 1; }
  done
}

@test "nul_in_the_query" {
  unsound '/v1/voxelize?preset=kitti_second&max_voxels=5%00' '/v1/voxelize?preset=kitti_second%00' \
    '/v1/voxelize?preset=kitti_second&max_voxels%00=5' '/v1/voxelize?preset=kitti_second%00&max_voxels=5' \
    '/v1/voxelize?%00'
}

@test "percent_encoded_rubbish" {
  unsound '/v1/voxelize?preset=kitti_second&max_voxels=%zz' '/v1/voxelize?preset=kitti_second&max_voxels=5%' \
    '/v1/voxelize?preset=kitti_second&max_voxels=%1' '/v1/voxelize?preset=kitti_second&%=%'
}

@test "bytes_that_are_not_text" {
  refused max_voxels 'preset=kitti_second&max_voxels=%ff%fe' 'preset=kitti_second&max_voxels=%0d%0a5'
  refused $'\xef\xbf\xbd\xef\xbf\xbd' 'preset=kitti_second&%ff%fe=1'
  refused '"' 'preset=kitti_second&%22=1'
}

@test "too_many_parameters" {
  post "$scan" "preset=kitti_second$(printf '&p%d=1' {1..200})"
  is "$code" 400
}

@test "content_length_of_3_GB" {
  answer=$(raw 'POST /v1/voxelize?preset=kitti_second HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000000\r\n\r\n')
  has "$answer" 'HTTP/1.1 413 '
  has "$answer" urn:voxeld:problem:body-too-large
}

@test "body_over_the_limit" {
  head -c 2000000 /dev/zero >"$BATS_TEST_TMPDIR/large"
  post "$BATS_TEST_TMPDIR/large" preset=kitti_second
  is_problem 413 body-too-large
  has "$(json 'd["detail"]')" 1048576
}

@test "body_over_the_limit_without_expect" {
  head -c 2000000 /dev/zero >"$BATS_TEST_TMPDIR/large"
  post "$BATS_TEST_TMPDIR/large" preset=kitti_second -H 'Expect:'
  is_problem 413 body-too-large
}

@test "chunked_body_past_the_limit" {
  head -c 2000000 /dev/zero >"$BATS_TEST_TMPDIR/large"
  post "$BATS_TEST_TMPDIR/large" preset=kitti_second -H 'Transfer-Encoding: chunked'
  is_problem 413 body-too-large
}

@test "an error is read even while the body is still being sent" {
  head -c 1000000 /dev/zero >"$BATS_TEST_TMPDIR/body1m"
  for _ in 1 2 3 4 5; do
    post "$BATS_TEST_TMPDIR/body1m" preset=nonesuch -H 'Expect:'
    is_problem 400 bad-parameter preset
  done
}

@test "a request refused by its query leaves the connection open" {
  run curl -sS -o /dev/null -o /dev/null -w '%{http_code} %{num_connects} ' -H Expect: --data-binary "@$scan" \
    "$url/v1/voxelize?preset=nonesuch" "$url/v1/voxelize?preset=kitti_second"
  is "$output" '400 1 200 0 '
}

@test "other content types" {
  for type in application/json text/plain multipart/form-data application/octet; do
    post "$scan" preset=kitti_second -H "Content-Type: $type"
    is_problem 415 unsupported-media-type
  done
}

@test "codings that are not taken" {
  for coding in br compress 'gzip, identity' 'gzip, zstd' 'gzip;q=1'; do
    post "$scan" preset=kitti_second -H "Content-Encoding: $coding"
    is_problem 415 unsupported-media-type
    is "$(header accept-encoding)" 'gzip, deflate, zstd'
  done
  post "$scan" preset=kitti_second -H 'Content-Type: text/plain'
  is "$(header accept-encoding)" ''
}

@test "an error names the request" {
  post "$scan" preset=nonesuch -H 'X-Request-Id: mine-1'
  is_problem 400 bad-parameter preset
  is "$(header x-request-id)" mine-1
}
