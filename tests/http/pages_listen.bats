#!/usr/bin/env bats
# Listeners for pages alone. tests/fault/test_page_listener.py has the clients that would like to be in the way.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

teardown() { [[ -z ${daemon:-} ]] || kill -KILL "$daemon"; } # that of a test that failed half-way

# start_pages OPTION...: start_daemon, and pages, the address of the listener for pages.
start_pages() {
  start_daemon "$@"
  pages=$(sed -n 's/.*msg=listening .* pages=\([^ ]*\).*/\1/p' "$daemon_log")
  [[ -n $pages ]] || { cat "$daemon_log" >&2; return 1; }
}

# rejected PART OPTION...: the daemon does not start, a check of its options fails, and both say PART.
rejected() {
  run "$voxeld" --backend cpu "${@:2}"
  is "$status" 2
  has "$output" "$1"
  run "$voxeld" --backend cpu "${@:2}" --check-config
  is "$status" 2
  has "$output" "$1"
}

@test "every page is served there, and no operation" {
  start_pages --pages-listen 127.0.0.1:0
  rows "$BATS_TEST_TMPDIR/one" 1 1 1 1
  post "$BATS_TEST_TMPDIR/one" "$small"
  is "$code" 200
  url=http://$pages
  for page in /healthz /readyz /metrics /v1/status /v1/presets /v1/presets/kitti_second /openapi.yaml \
    / /status /ui/style.css; do
    ask "$page"
    is "$code" 200
  done
  for method in --get --head; do
    ask "$method" /v1/streams/s/last
    is "$code" 404
  done
  post "$BATS_TEST_TMPDIR/one" "$small"
  is_problem 404 not-found
  has "$(cat "$body")" 'this listener serves only pages (--pages-listen); ask for /v1/voxelize at one of --listen'
  ask -X DELETE /healthz
  is_problem 405 method-not-allowed
  stop_daemon
}

@test "the log names all of them, and none if there is none" {
  start_pages --pages-listen "127.0.0.1:0,unix:$BATS_TEST_TMPDIR/pages.sock"
  has "$pages" "127.0.0.1:"
  has "$pages" ",unix:$BATS_TEST_TMPDIR/pages.sock"
  [[ $address != *,* ]]
  url=http://localhost
  ask --unix-socket "$BATS_TEST_TMPDIR/pages.sock" /healthz
  is "$code" 200
  stop_daemon
  [[ ! -e $BATS_TEST_TMPDIR/pages.sock ]]
  start_daemon
  fails grep -q pages= "$daemon_log"
  stop_daemon
}

@test "each list may have eight" {
  local eight=127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0,127.0.0.1:0
  start_pages --listen "$eight" --pages-listen "$eight"
  url=http://${pages##*,}
  ask /healthz
  is "$code" 200
  stop_daemon
  rejected 'up to 8 listeners' --listen 127.0.0.1:0 --pages-listen "$eight,127.0.0.1:0"
}

@test "beyond loopback it needs what --listen needs" {
  rejected 'cannot listen on 0.0.0.0:0: clients on other machines' --listen 127.0.0.1:0 --pages-listen 0.0.0.0:0
  start_pages --pages-listen 0.0.0.0:0 --allow-anonymous
  stop_daemon
}

@test "bad addresses are refused" {
  rejected 'cannot listen on 127.0.0.1: expected' --listen 127.0.0.1:0 --pages-listen 127.0.0.1
  start_daemon
  run "$voxeld" --backend cpu --listen 127.0.0.1:0 --pages-listen "$address"
  is "$status" 2
  has "$output" "cannot listen on $address: bind"
  stop_daemon
}

@test "--check-config refuses two listeners of which one cannot be bound" {
  local check=(--check-config --allow-anonymous --listen) sock=unix:$BATS_TEST_TMPDIR/sock
  clash() { rejected "cannot listen on $2: $1 is listed too" "${check[@]}" "$1" --pages-listen "$2"; }
  clash 127.0.0.1:8080 127.0.0.1:8080
  clash 127.0.0.1:8080 0.0.0.0:8080
  clash 0.0.0.0:8080 127.0.0.1:8080
  clash '[::]:8080' '[::1]:8080'
  clash "$sock" "$sock"
  clash systemd systemd
  if [[ $(cat /proc/sys/net/ipv6/bindv6only 2>/dev/null) == 0 ]]; then clash '[::]:8080' 127.0.0.1:8080; fi
  rejected 'is listed too' "${check[@]}" 127.0.0.1:8080,127.0.0.1:08080
  local good
  for good in 127.0.0.1:0,127.0.0.1:0 127.0.0.1:8080,127.0.0.1:8081 127.0.0.1:8080,127.0.0.2:8080 \
    '[::1]:8080,0.0.0.0:8080' "$sock,$sock.2" systemd,127.0.0.1:8080; do
    run "$voxeld" --backend cpu "${check[@]}" "$good"
    is "$status" 0
  done
}

@test "health and readiness need no token, the other pages do" {
  "$voxeld" --new-token prometheus >"$BATS_TEST_TMPDIR/token" 2>"$BATS_TEST_TMPDIR/tokens"
  chmod 600 "$BATS_TEST_TMPDIR/tokens"
  start_pages --pages-listen 127.0.0.1:0 --token-file "$BATS_TEST_TMPDIR/tokens"
  url=http://$pages
  for page in /healthz /readyz; do
    ask "$page"
    is "$code" 200
  done
  for page in /metrics /v1/status /v1/presets /nowhere; do
    ask "$page"
    is_problem 401 unauthorized
  done
  ask -H "Authorization: Bearer $(cat "$BATS_TEST_TMPDIR/token")" /metrics
  is "$code" 200
  stop_daemon
}
