#!/usr/bin/env bats
# How the daemon is told what to do, how it starts and how it stops.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup() { config=$BATS_TEST_TMPDIR/voxeld.json; }
teardown() { [[ -z ${daemon:-} ]] || kill -KILL "$daemon"; } # that of a test that failed half-way

# effective NAME [OPTION...]: the value in effect.
effective() {
  "$voxeld" "${@:2}" --print-config |
    "${python[@]}" -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"
}

# rejected PART COMMAND...: ends with the status of bad options or a failed start, and says PART on stderr.
rejected() {
  run "${@:2}"
  is "$status" 2
  has "$output" "$1"
}

@test "--version prints the version of the build" {
  run "$voxeld" --version
  is "$status" 0
  is "$output" "voxeld $(sed -n 's/^project(voxeld VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")"
}

@test "--help names every option" {
  run "$voxeld" --help
  is "$status" 0
  local names='import json, sys; print(*[k for k in json.load(open(sys.argv[1])) if k[0] != "#"])'
  for option in $("${python[@]}" -c "$names" "$root/config/voxeld.json"); do
    has "$output" "--${option//_/-}"
  done
}

@test "--print-config can be read back as a configuration file" {
  "$voxeld" --workers 3 --queue-depth 9 --print-config >"$config"
  is "$(effective workers --config "$config")" 3
  run "$voxeld" --config "$config" --print-config
  is "$output" "$(cat "$config")"
}

@test "file over default, environment over file, command line over environment" {
  is "$(effective queue_depth)" 1024
  echo '{"queue_depth": 11, "workers": 4}' >"$config"
  is "$(effective queue_depth --config "$config")" 11
  is "$(VOXELD_QUEUE_DEPTH=12 effective queue_depth --config "$config")" 12
  is "$(VOXELD_QUEUE_DEPTH=12 effective queue_depth --config "$config" --queue-depth 13)" 13
  is "$(VOXELD_QUEUE_DEPTH=12 effective queue_depth --queue-depth=13 --config="$config")" 13
  is "$(VOXELD_CONFIG=$config effective workers)" 4
}

@test "the shipped config/voxeld.json is good" {
  run "$voxeld" --config "$root/config/voxeld.json" --check-config
  is "$status" 0
}

@test "--check-config says what is wrong and fails" {
  echo '{"queue_depth": 0}' >"$config"
  rejected queue_depth "$voxeld" --config "$config" --check-config
  mkdir "$BATS_TEST_TMPDIR/presets"
  echo '{"description": "x", "parameters": {"voxel_size": [1, 1]}}' >"$BATS_TEST_TMPDIR/presets/mine.json"
  rejected mine "$voxeld" --presets-dir "$BATS_TEST_TMPDIR/presets" --check-config
}

@test "bad option values name the option and what is allowed" {
  rejected queue_depth "$voxeld" --queue-depth 0
  has "$output" '1 to 65536'
  rejected queue_depth "$voxeld" --queue-depth many
  rejected queue_depth env VOXELD_QUEUE_DEPTH=-1 "$voxeld"
  has "$output" VOXELD_QUEUE_DEPTH
  rejected backend "$voxeld" --backend tpu
  rejected log_level "$voxeld" --log-level loud
  rejected --queue-deep "$voxeld" --queue-deep 5
  rejected --queue-depth "$voxeld" --queue-depth
  rejected serve "$voxeld" serve
}

@test "bad listen addresses are refused" {
  for listen in 127.0.0.1 127.0.0.1:http 127.0.0.1:65536 127.0.0.1:-1 unix: '' :: nohost.invalid:80; do
    rejected listen "$voxeld" --listen "$listen"
  done
}

@test "a bad configuration file is refused with its place" {
  echo '{"queue_depth": 5,' >"$config"
  rejected "$config" "$voxeld" --config "$config" --check-config
  has "$output" line
  echo '{"queue_deep": 5}' >"$config"
  rejected queue_deep "$voxeld" --config "$config" --check-config
  echo '{"workers": 1, "workers": 2}' >"$config"
  rejected "$config" "$voxeld" --config "$config" --check-config
  echo '{"workers": "two"}' >"$config"
  rejected workers "$voxeld" --config "$config" --check-config
  echo '[]' >"$config"
  rejected "$config" "$voxeld" --config "$config" --check-config
  rejected nonesuch "$voxeld" --config "$BATS_TEST_TMPDIR/nonesuch" --check-config
}

@test "comments in a configuration file are its keys that begin with #" {
  echo '{"# why": "because", "queue_depth": 21}' >"$config"
  is "$(effective queue_depth --config "$config")" 21
}

@test "--backend cuda without CUDA is refused with the reason" {
  if "$voxeld" --backend cuda --check-config >/dev/null 2>&1; then skip 'this machine has CUDA'; fi
  rejected cuda "$voxeld" --backend cuda --listen 127.0.0.1:0
}

@test "--presets-dir adds presets and replaces built-in ones" {
  mkdir "$BATS_TEST_TMPDIR/presets"
  printf '{"description": "%s", "parameters": {"point_cloud_range": %s, "voxel_size": [1,1,1]}}' \
    Mine '[0,0,0,4,4,4]' >"$BATS_TEST_TMPDIR/presets/mine.json"
  printf '{"description": "%s", "parameters": {"point_cloud_range": %s, "voxel_size": [1,1,1]}}' \
    Other '[0,0,0,8,8,8]' >"$BATS_TEST_TMPDIR/presets/kitti_second.json"
  echo 'not a preset' >"$BATS_TEST_TMPDIR/presets/README.md"
  start_daemon --presets-dir "$BATS_TEST_TMPDIR/presets"
  rows "$BATS_TEST_TMPDIR/one" 1 1 1 1
  post "$BATS_TEST_TMPDIR/one" preset=mine -H 'Accept: application/json'
  is "$code" 200
  is "$(json 'd["grid_size"]')" '[4, 4, 4]'
  post "$BATS_TEST_TMPDIR/one" preset=kitti_second -H 'Accept: application/json'
  is "$(json 'd["grid_size"]')" '[8, 8, 8]'
  post "$BATS_TEST_TMPDIR/one" preset=kitti_pointpillar -H 'Accept: application/json'
  is "$code" 200
  stop_daemon
}

@test "a presets directory that is not there is refused" {
  rejected "$BATS_TEST_TMPDIR/nonesuch" "$voxeld" --presets-dir "$BATS_TEST_TMPDIR/nonesuch" --listen 127.0.0.1:0
}

@test "SIGTERM ends an idle daemon with 0" {
  start_daemon
  stop_daemon TERM
}

@test "SIGINT ends an idle daemon with 0" {
  start_daemon
  stop_daemon INT
}

@test "SIGTERM ends a daemon with an idle keep-alive connection" {
  start_daemon
  exec 9<>"/dev/tcp/127.0.0.1/${address##*:}"
  printf 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n' >&9
  read -r -t 60 line <&9
  has "$line" 200
  stop_daemon
  exec 9>&-
}

@test "a Unix socket serves like a port" {
  start_daemon --listen "unix:$BATS_TEST_TMPDIR/voxeld.sock"
  is "$address" "unix:$BATS_TEST_TMPDIR/voxeld.sock"
  url=http://localhost
  ask --unix-socket "$BATS_TEST_TMPDIR/voxeld.sock" /healthz
  is "$code" 200
  rows "$BATS_TEST_TMPDIR/one" 1 1 1 1
  post "$BATS_TEST_TMPDIR/one" "$small" --unix-socket "$BATS_TEST_TMPDIR/voxeld.sock"
  is "$code" 200
  stop_daemon
  [[ ! -e $BATS_TEST_TMPDIR/voxeld.sock ]]
}

@test "a Unix socket left behind by a dead daemon is taken over, a live one is not" {
  sock=$BATS_TEST_TMPDIR/voxeld.sock
  "${python[@]}" -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$sock"
  start_daemon --listen "unix:$sock"
  rejected "$sock" "$voxeld" --listen "unix:$sock"
  stop_daemon
}

@test "a port in use is refused with the address" {
  start_daemon
  rejected "$address" "$voxeld" --listen "$address"
  stop_daemon
}

@test "IPv6 addresses are served" {
  [[ -e /proc/net/if_inet6 ]] && grep -q '^0\{31\}1 ' /proc/net/if_inet6 || skip 'no IPv6 loopback'
  start_daemon --listen '[::1]:0'
  ask /healthz
  is "$code" 200
  stop_daemon
}

@test "the queue's and the body's limits are those given" {
  start_daemon --max-body-bytes 65536
  head -c 65552 /dev/zero >"$BATS_TEST_TMPDIR/large"
  post "$BATS_TEST_TMPDIR/large" preset=kitti_second
  is_problem 413 body-too-large
  head -c 65536 /dev/zero >"$BATS_TEST_TMPDIR/fits"
  post "$BATS_TEST_TMPDIR/fits" preset=kitti_second
  is "$code" 200
  stop_daemon
}

@test "a small job's answer over max_response_bytes is refused, and the next one is answered" {
  start_daemon --max-response-bytes 65536 --small-job-points 1000
  local query='point_cloud_range=0,0,0,1024,4,4&voxel_size=1,1,1&max_points_per_voxel=8&feature=points'
  # shellcheck disable=SC2046 # a word for each number
  rows "$BATS_TEST_TMPDIR/apart" $(seq -f '%g 1 1 1' 0 799)
  post "$BATS_TEST_TMPDIR/apart" "$query"
  is_problem 422 impossible
  head -c 1600 "$BATS_TEST_TMPDIR/apart" >"$BATS_TEST_TMPDIR/few"
  post "$BATS_TEST_TMPDIR/few" "$query"
  is "$code" 200
  ask /v1/status
  is "$(json 'd["small_jobs"]')" "{'points': 1000, 'run': 2}"
  stop_daemon
}

@test "an answer over max_response_bytes is refused before it is computed" {
  start_daemon --max-response-bytes 65536
  "$voxel_scan" --points 20000 --output "$BATS_TEST_TMPDIR/scan"
  post "$BATS_TEST_TMPDIR/scan" preset=kitti_pointpillar
  is_problem 422 impossible
  stop_daemon
}

@test "the log warns of a variable that looks like an option and is none" {
  VOXELD_WORKER=3 VOXELD_WORKERS=2 run "$voxeld" --backend cpu --check-config
  is "$status" 0
  has "$output" 'msg="an environment variable is no option" variable=VOXELD_WORKER'
  fails grep -w VOXELD_WORKERS <<<"$output"
  is "$(VOXELD_WORKER=3 "$voxeld" --print-config 2>&1 >/dev/null)" ''
}

@test "--demo serves and prints where the page is" {
  local said=$BATS_TEST_TMPDIR/said
  daemon_log=$BATS_TEST_TMPDIR/log
  "$voxeld" --demo --backend cpu --listen "unix:$BATS_TEST_TMPDIR/socket,127.0.0.1:0" >"$said" 2>"$daemon_log" 3>&- &
  daemon=$!
  await test -s "$said"
  is "$(wc -l <"$said")" 1
  url=$(sed -n 's#^open \(http://127.0.0.1:[0-9]*\)/ in a browser$#\1#p' "$said")
  ask /
  is "$code" 200
  cmp "$body" "$root/server/pages/web/index.html"
  stop_daemon
}
