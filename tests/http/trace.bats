#!/usr/bin/env bats
# W3C Trace Context: answer, metadata and log continue a client's trace; otherwise a new one begins.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

trace=4bf92f3577b34da6a3ce929d0e0e4736
parent=00f067aa0ba902b7

setup_file() { start_daemon --max-body-bytes 65536; }
teardown_file() { stop_daemon; }
setup() { rows "$BATS_TEST_TMPDIR/one" 1 1 1 1; }

# logged ID: the line of that request.
logged() { grep -F "msg=request id=$1 " "$daemon_log"; }

# traced FLAGS: the last answer has a span of its own in the client's trace.
traced() { [[ $(header traceparent) =~ ^00-$trace-[0-9a-f]{16}-$1$ && $(header traceparent) != *-$parent-* ]]; }

# untraced: the last answer has a new trace.
untraced() { [[ $(header traceparent) =~ ^00-[0-9a-f]{32}-[0-9a-f]{16}-00$ && $(header traceparent) != *$trace* ]]; }

@test "a client's trace is taken over into answer, metadata and log" {
  post "$BATS_TEST_TMPDIR/one" "$small" -H "traceparent: 00-$trace-$parent-01" -H 'X-Request-Id: taken'
  is "$code" 200
  traced 01
  is "$(tensor 'meta["trace_id"]')" $trace
  await logged taken
  span=$(header traceparent | cut -d- -f3)
  has "$(logged taken)" "trace_id=$trace span_id=$span parent_id=$parent"
}

@test "without one a new trace is begun, and the metadata stay as they are" {
  post "$BATS_TEST_TMPDIR/one" "$small" -H 'X-Request-Id: begun'
  untraced
  is "$(tensor '"trace_id" in meta')" False
  await logged begun
  has "$(logged begun)" "trace_id=$(header traceparent | cut -d- -f2) span_id="
  [[ $(logged begun) != *parent_id* ]]
  first=$(header traceparent)
  ask /healthz
  untraced
  [[ $(header traceparent) != "$first" ]]
}

@test "a later version's trace is taken over; a malformed one, an all-zero one and two are not" {
  ask -H "TraceParent: 42-$trace-$parent-01-what-is-to-come" /healthz
  traced 01
  for malformed in "00-$trace-$parent-01-more" "00-${trace^^}-$parent-01" "ff-$trace-$parent-01" \
    "00-${trace//?/0}-$parent-01" \
    "00-$trace-0000000000000000-01" "00-$trace-$parent" "$trace" ''; do
    ask -H "traceparent: $malformed" /healthz
    untraced
  done
  ask -H "traceparent: 00-$trace-$parent-01" -H "traceparent: 00-$trace-$parent-01" /healthz
  untraced
}

@test "every refusal bears the trace too" {
  for path in /nowhere "/v1/voxelize?$small&max_voxels=0" "/v1/voxelize?$small"; do
    ask -H "traceparent: 00-$trace-$parent-00" -H 'Content-Length: 15' -d 123456789012345 "$path"
    [[ $code == 4* ]]
    traced 00
  done
  head -c 200000 /dev/zero >"$BATS_TEST_TMPDIR/large"
  post "$BATS_TEST_TMPDIR/large" "$small" -H "traceparent: 00-$trace-$parent-00" # early, with a lingering close
  is_problem 413 body-too-large
  traced 00
}

@test "a refusal in the middle of an upload bears the trace too" {
  answer=$(raw "POST /v1/voxelize?$small HTTP/1.1\r\nHost: x\r\ntraceparent: 00-$trace-$parent-01\r\n\
Transfer-Encoding: chunked\r\n\r\n30d40\r\n$(printf %0200000d 0)\r\n")
  has "$answer" 'HTTP/1.1 413'
  has "$answer" "traceparent: 00-$trace-"
}
