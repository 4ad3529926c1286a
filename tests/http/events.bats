#!/usr/bin/env bats
# What happens to streams, as curl sees it. tests/fault/test_events.py has subscribers that are slow, many or vanish.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like
load helpers

setup_file() {
  start_daemon
  rows "$BATS_FILE_TMPDIR/sweep" 1 1 1 1 2 2 2 1
}

teardown_file() { stop_daemon; }

teardown() {
  [[ -z ${curl:-} ]] || kill "$curl"
  [[ -z ${own:-} ]] || kill -KILL "$daemon" # that of a test that failed half-way
}

# subscribe PATH [CURL-ARGUMENT...]: sets told, the file of what comes, and curl.
subscribe() {
  told=$(mktemp "$BATS_TEST_TMPDIR/told.XXXXXX")
  curl -sSN -o "$told" "${@:2}" "$url$1" 3>&- &
  curl=$!
  await told_of open
}

# told_of WORD...: an event with these words has come.
told_of() {
  local text
  text=$(tr '\n' ' ' <"$told")
  [[ $text == *"$*"* ]]
}

# sweep NAME TIME: sends one of two points, with up to two sweeps.
sweep() { post "$BATS_FILE_TMPDIR/sweep" "$small&stream=$1&sweeps=2&time=$2&pose=0,0,0,1,0,0,0&remove_close=1.5"; }

@test "each sweep is told with its points" {
  subscribe /v1/streams/roof/events -D "$BATS_TEST_TMPDIR/head"
  sweep roof 1
  sweep other 7
  sweep roof 2.5
  await told_of '"time":2.5'
  local points='"points":{"received":2,"removed_close":1,"joined":1,"not_finite":0}'
  is "$(cat "$told")" 'event: open
data: {"stream":"roof","sweeps":0}

event: sweep
data: {"stream":"roof","sweeps":1,"time":1,"begun":true,"repeated":false,'"$points"'}

event: sweep
data: {"stream":"roof","sweeps":2,"time":2.5,"begun":false,"repeated":false,'"$points"'}'
  headers=$BATS_TEST_TMPDIR/head
  is "$(header content-type)" text/event-stream
  is "$(header cache-control)" no-store
  ask -X DELETE /v1/streams/roof
  await told_of 'event: deleted data: {"stream":"roof","sweeps":0}'
  ask -X DELETE /v1/streams/other
}

@test "of all streams, with HTTP/1.0 too" {
  subscribe /v1/events --http1.0
  sweep front 1
  sweep rear 1
  await told_of '"stream":"rear"'
  told_of 'data: {"streams":0}'
  told_of '"stream":"front"'
  ask -X DELETE /v1/streams/front
  ask -X DELETE /v1/streams/rear
}

@test "one that subscribes later is told what there is" {
  sweep roof 1
  sweep roof 2
  subscribe /v1/streams/roof/events
  told_of 'event: open data: {"stream":"roof","sweeps":2,"time":2}'
  ask -X DELETE /v1/streams/roof
}

no_subscribers() {
  ask /v1/status
  [[ $(json 'd["streams"]["subscribers"]') == 0 ]]
}

@test "HEAD subscribes to nothing" {
  await no_subscribers
  ask -I /v1/events
  is "$code" 200
  is "$(header content-type)" text/event-stream
  no_subscribers
}

@test "refusals" {
  ask /v1/streams/a%20b/events
  is_problem 404 not-found
  ask -d x /v1/events
  is_problem 405 method-not-allowed
}

@test "a sweep that is too old is told, and the stop is the last word" {
  own=1
  start_daemon --stream-ttl-s 1 --pages-listen 127.0.0.1:0
  subscribe /v1/events
  sweep roof 1
  await told_of 'event: expired data: {"stream":"roof","sweeps":0,"dropped":1}'
  url=http://$(sed -n 's/.*msg=listening .* pages=\([^ ]*\).*/\1/p' "$daemon_log")
  ask /v1/events
  is_problem 404 not-found
  stop_daemon
  own=
  wait "$curl"
  curl=
  is "$(tail -n 3 "$told")" 'event: end
data: {"reason":"stop"}'
  grep -q 'msg=request .* endpoint=/v1/events status=200 ' "$daemon_log"
}
