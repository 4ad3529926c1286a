# shellcheck shell=bash disable=SC2034 # the tests use what is set here
# What the bats files share: a daemon on a free port, and requests to it.
#
# stop_daemon stops the daemon of start_daemon and fails unless it exits with 0; under a sanitizer that is also the
# check for leaks, races and bad memory. VOXELD_BIN and VOXEL_SCAN name the programs, by default those of build/bin.

export LC_ALL=C.UTF-8
# bats sets these folders since 1.4. Ubuntu 22.04 has 1.2, which removes BATS_RUN_TMPDIR, and so these too.
export BATS_FILE_TMPDIR=${BATS_FILE_TMPDIR:-$(mktemp -d "$BATS_RUN_TMPDIR/file.XXXXXX")}
[[ -n ${BATS_TEST_TMPDIR:-} ]] || BATS_TEST_TMPDIR=$(mktemp -d "$BATS_RUN_TMPDIR/test.XXXXXX")
root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
voxeld=${VOXELD_BIN:-$root/build/bin/voxeld}
voxel_scan=${VOXEL_SCAN:-$root/build/bin/voxel-scan}
backend=${VOXELD_TEST_BACKEND:-cpu}
# The daemon reads options from VOXELD_..., so it must inherit none. Two variables stay, because bats reads this file
# again for each test, in a child process.
for variable in "${!VOXELD_@}"; do
  [[ $variable == VOXELD_BIN || $variable == VOXELD_TEST_BACKEND ]] || unset "$variable"
done

# Requests with few points must run on the GPU too.
[[ $backend != cuda ]] || export VOXELD_SMALL_JOB_POINTS=0

# await COMMAND...: repeats the command until it succeeds; fails after a minute.
await() {
  local deadline=$((SECONDS + 60))
  until "$@"; do
    ((SECONDS < deadline)) || { echo "waited in vain for: $*" >&2; return 1; }
    sleep 0.05
  done
}

# start_daemon [OPTION...]: sets daemon (its pid), daemon_log, address (HOST:PORT, or unix:PATH) and url.
start_daemon() {
  daemon_log=$(mktemp "$BATS_RUN_TMPDIR/voxeld.XXXXXX")
  local arguments=(--backend "$backend" --devices 0 --workers 2 --gpu-streams 2 "$@")
  [[ " $* " == *' --listen '* ]] || arguments+=(--listen 127.0.0.1:0)
  "$voxeld" "${arguments[@]}" >/dev/null 2>"$daemon_log" 3>&- &
  daemon=$!
  await started || { cat "$daemon_log" >&2; return 1; }
  address=$(sed -n 's/.*msg=listening address=\([^ ]*\).*/\1/p' "$daemon_log")
  [[ -n $address ]] || { cat "$daemon_log" >&2; return 1; }
  url=http://$address
  export daemon daemon_log address url
}

# True once the daemon listens or has ended.
started() { grep -q 'msg=listening' "$daemon_log" || ! kill -0 "$daemon" 2>/dev/null; }

# stop_daemon [SIGNAL]: TERM by default.
stop_daemon() {
  local status=0 pid=$daemon
  daemon=
  kill -"${1:-TERM}" "$pid"
  wait "$pid" || status=$?
  ((status == 0)) || { cat "$daemon_log" >&2; echo "voxeld exited $status" >&2; return 1; }
}

# ask CURL-ARGUMENT... PATH: one request; sets code, and the files body and headers.
ask() {
  body=$BATS_TEST_TMPDIR/body
  headers=$BATS_TEST_TMPDIR/headers
  : >"$body"
  code=$(curl -sS -g --path-as-is --max-time 120 -o "$body" -D "$headers" -w '%{http_code}' \
    "${@:1:$#-1}" "$url${*: -1}")
}

# post FILE QUERY [CURL-ARGUMENT...]: a voxelize request.
post() { ask --data-binary "@$1" "${@:3}" "/v1/voxelize?$2"; }

# tensor EXPRESSION: prints the value of a Python expression. Its variables: data (the body, a safetensors file), size
# (the bytes of the header), d (the header) and meta (the metadata in the header).
tensor() {
  /usr/bin/python3 -I -S - "$body" "$1" <<'PYTHON'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
(size,) = struct.unpack_from("<Q", data)
d = json.loads(data[8 : 8 + size])
meta = json.loads(d["__metadata__"]["voxeld"])
print(eval(sys.argv[2]))
PYTHON
}

# is ACTUAL EXPECTED
is() { [[ $1 == "$2" ]] || { echo "expected: $2"; echo "got:      $1"; return 1; }; }

# has TEXT PART
has() { [[ $1 == *"$2"* ]] || { echo "expected: ...$2..."; echo "got:      $1"; return 1; }; }
