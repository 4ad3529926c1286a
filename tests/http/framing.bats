#!/usr/bin/env bats
# Requests whose framing is missing, ambiguous or broken: each is refused with a status and closed, and the next client
# is served.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup_file() { start_daemon; }
teardown_file() { stop_daemon; }
teardown() {
  ask /healthz
  is "$code" 200
}

readonly start='POST /v1/voxelize?preset=kitti_second HTTP/1.1\r\nHost: x\r\n'
readonly row='0123456789abcdef'

# answered STATUS ANSWER: one answer only, with this status.
answered() {
  has "$2" "HTTP/1.1 $1 "
  is "$(grep -c '^HTTP/1.1 ' <<<"$2")" 1
}

# unparsed STATUS ANSWER: the library's own answer, whose head some versions write twice.
unparsed() { has "$2" "HTTP/1.1 $1"; }

@test "no length and no transfer coding is 411" {
  answer=$(raw "${start}Connection: close\r\n\r\n")
  answered 411 "$answer"
  has "$answer" urn:voxeld:problem:length-required
}

@test "two Content-Length headers are refused" {
  answered 400 "$(raw "${start}Content-Length: 16\r\nContent-Length: 16\r\n\r\n$row")"
  answered 400 "$(raw "${start}Content-Length: 16\r\nContent-Length: 32\r\n\r\n$row")"
}

@test "Content-Length with Transfer-Encoding is refused" {
  answered 400 "$(raw "${start}Content-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n$row\r\n0\r\n\r\n")"
}

@test "transfer codings other than chunked are refused" {
  answered 400 "$(raw "${start}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")"
  answered 400 "$(raw "${start}Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n")"
  answered 400 "$(raw "${start}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")"
}

@test "chunks before HTTP/1.1 are refused" {
  for keep in close keep-alive; do
    answer=$(raw "${start/1.1/1.0}Connection: $keep\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    answered 400 "$answer"
    has "$answer" 'allowed in HTTP/1.1 alone'
  done
}

@test "blanks around a value are no part of it" {
  answer=$(raw "${start}Content-Length: \t16\r\nContent-Encoding: identity \t\r\nConnection: close \r\n\r\n$row")
  answered 200 "$answer"
  answer=$(raw "${start}Transfer-Encoding: \t chunked\r\nAccept: application/json\t\r\nConnection:close\r\n\r\n\
10\r\n$row\r\n0\r\n\r\n")
  answered 200 "$answer"
  has "$answer" '"received":1'
}

@test "a Content-Length that is not a number is refused" {
  for length in -1 abc 0x10 1e3; do unparsed 400 "$(raw "${start}Content-Length: $length\r\n\r\n")"; done
}

@test "a Content-Length beyond 64 bits is refused" {
  unparsed 4 "$(raw "${start}Content-Length: 99999999999999999999999\r\n\r\n")"
}

@test "a broken chunk size is refused" {
  unparsed 400 "$(raw "${start}Transfer-Encoding: chunked\r\n\r\nzz\r\n")"
}

@test "a chunked body of many small chunks is whole" {
  chunks=$(for _ in {1..64}; do printf '4\\r\\nabcd\\r\\n'; done)
  answer=$(raw "${start}Accept: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
${chunks}0\r\n\r\n")
  answered 200 "$answer"
  has "$answer" '"received":16'
}

@test "a client that half-closes after its request is answered" {
  "${python[@]}" - "$address" <<'PYTHON'
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
s = socket.create_connection((host, int(port)), 60)
s.sendall(b"POST /v1/voxelize?preset=kitti_second HTTP/1.1\r\nHost: x\r\nContent-Length: 16\r\n\r\n" + bytes(16))
s.shutdown(socket.SHUT_WR)
answer = b""
while part := s.recv(65536):
    answer += part
interim = b"HTTP/1.1 100 Continue\r\n\r\n"  # may come while the job waits
assert answer.removeprefix(interim).startswith(b"HTTP/1.1 200 "), answer[:200]
PYTHON
}

@test "a truncated body is let go" {
  "${python[@]}" - "$address" <<'PYTHON'
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
s = socket.create_connection((host, int(port)), 60)
s.sendall(b"POST /v1/voxelize?preset=kitti_second HTTP/1.1\r\nHost: x\r\nContent-Length: 1600\r\n\r\n" + bytes(160))
s.shutdown(socket.SHUT_WR)
s.settimeout(60)
answer = b""
while part := s.recv(65536):
    answer += part
assert not answer.startswith(b"HTTP/1.1 200"), answer[:200]
PYTHON
}

@test "a request line that is no HTTP is closed" {
  raw 'rubbish\r\n\r\n' >"$BATS_TEST_TMPDIR/answer"
  run grep -q '^HTTP/1.1 200' "$BATS_TEST_TMPDIR/answer"
  is "$status" 1
}

@test "a method in lower case is not that method" {
  answer=$(raw 'post /v1/voxelize HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n')
  answered 405 "$answer"
}

@test "a request line that names the whole URL is the same request" {
  answered 200 "$(raw 'GET http://proxied.example:80/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')"
  page=$(raw 'GET http://proxied.example HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  answered 200 "$page"
  has "$page" 'Content-Type: text/html'
}
