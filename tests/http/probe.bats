#!/usr/bin/env bats
# --probe: what a container's health check asks.

# shellcheck disable=SC2154 # helpers.bash sets address and the like
load helpers

teardown() { [[ -z ${daemon:-} ]] || kill -KILL "$daemon"; } # that of a test that failed half-way

# A busy machine may need more than the second that a probe waits, so each result is awaited.
# probed RESULT OPTION...: the probe ends with this status, and what it says has the rest of RESULT in it.
probed() {
  run "$voxeld" --probe "${@:2}"
  [[ $status$output == "${1:0:1}"*"${1:1}"* ]] || { echo "$status$output"; return 1; }
}

# healthy OPTION...: the probe succeeds and says nothing.
healthy() {
  await probed 0 "$@"
  is "$output" ''
}

# unwell PART OPTION...: it fails with 1, and says PART.
unwell() { await probed "1$1" "${@:2}"; }

@test "a service that runs is healthy, one that does not is not" {
  start_daemon
  healthy --listen "$address"
  VOXELD_LISTEN=$address healthy
  echo "{\"listen\": \"$address\"}" >"$BATS_TEST_TMPDIR/voxeld.json"
  healthy --config "$BATS_TEST_TMPDIR/voxeld.json"
  stop_daemon
  unwell "cannot connect to $address: connect: Connection refused" --listen "$address"
}

@test "the first listener is asked, and all addresses are this machine's too" {
  start_daemon --listen 0.0.0.0:0 --allow-anonymous
  healthy --listen "$address,127.0.0.1:1"
  unwell 127.0.0.1:1 --listen "127.0.0.1:1,$address"
  stop_daemon
}

@test "the first listener for pages is asked if there is one" {
  start_daemon
  healthy --listen 127.0.0.1:1 --pages-listen "$address,127.0.0.1:1"
  unwell 127.0.0.1:1 --listen "$address" --pages-listen 127.0.0.1:1
  stop_daemon
  start_daemon --pages-listen "unix:$BATS_TEST_TMPDIR/pages.sock"
  healthy --listen 127.0.0.1:1 --pages-listen "unix:$BATS_TEST_TMPDIR/pages.sock"
  stop_daemon
}

@test "all addresses of IPv6" {
  [[ -e /proc/net/if_inet6 ]] && grep -q '^0\{31\}1 ' /proc/net/if_inet6 || skip 'no IPv6 loopback'
  start_daemon --listen '[::]:0' --allow-anonymous
  healthy --listen "$address"
  stop_daemon
}

@test "all addresses of IPv6 where IPv6 is off" {
  command -v ip >/dev/null || skip 'there is no ip here'
  local off='ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6'
  unshare --map-root-user --net sh -c "$off" || skip 'nobody may make namespaces with IPv6 here'
  # shellcheck disable=SC2016 # the shell inside expands it
  run timeout 60 unshare --map-root-user --net sh -c "$off"'
    "$0" --backend cpu --listen "[::]:8080" --allow-anonymous 2>"$1" 3>&- &
    until grep -qs msg=listening "$1"; do kill -0 $! || exit 2; sleep 0.05; done
    "$0" --listen "[::]:8080" --probe && echo healthy
    kill $! && wait $!' "$voxeld" "$BATS_TEST_TMPDIR/log"
  is "$status$output" 0healthy
}

@test "a Unix socket" {
  start_daemon --listen "unix:$BATS_TEST_TMPDIR/voxeld.sock"
  healthy --listen "$address"
  stop_daemon
  unwell 'No such file' --listen "unix:$BATS_TEST_TMPDIR/voxeld.sock"
}

@test "TLS, whoever signed the certificate, and no client certificate is needed" {
  command -v openssl >/dev/null || skip 'there is no openssl here'
  cd "$BATS_TEST_TMPDIR"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=elsewhere \
    -keyout key -out cert 2>/dev/null
  local tls=(--tls-cert cert --tls-key key --tls-client-ca cert)
  start_daemon "${tls[@]}" --pages-listen 127.0.0.1:0
  healthy "${tls[@]}" --pages-listen "$(sed -n 's/.*msg=listening .* pages=\([^ ]*\).*/\1/p' "$daemon_log")"
  for _ in {1..20}; do healthy "${tls[@]}" --listen "$address"; done
  healthy "${tls[@]}" --listen "$address" --tls-priorities NORMAL:-VERS-ALL:+VERS-TLS1.2
  unwell 'not answered' --listen "$address" # without TLS
  stop_daemon
  start_daemon
  unwell 'over TLS' "${tls[@]}" --listen "$address"
  stop_daemon
}

@test "no token is needed" {
  "$voxeld" --new-token probe >/dev/null 2>"$BATS_TEST_TMPDIR/tokens"
  chmod 600 "$BATS_TEST_TMPDIR/tokens"
  start_daemon --token-file "$BATS_TEST_TMPDIR/tokens"
  healthy --listen "$address"
  stop_daemon
}

@test "who does not answer is given up, another answer is not good" {
  "${python[@]}" - >"$BATS_TEST_TMPDIR/ports" 3>&- <<'PYTHON' &
import socket, threading
silent, other, gone = (socket.create_server(("127.0.0.1", 0)) for _ in range(3))
print(*(listener.getsockname()[1] for listener in (silent, other, gone)), flush=True)
def answer(listener, text):
    while True:
        connection, _ = listener.accept()
        connection.recv(4096)
        connection.sendall(text)
        connection.close()
threading.Thread(target=answer, args=(other, b"HTTP/1.1 503 Service Unavailable\r\n\r\n")).start()
answer(gone, b"")
PYTHON
  daemon=$!
  await test -s "$BATS_TEST_TMPDIR/ports"
  read -r silent other gone <"$BATS_TEST_TMPDIR/ports"
  unwell 'not answered within 1 s' --listen "127.0.0.1:$silent"
  unwell "'HTTP/1.1 503'" --listen "127.0.0.1:$other"
  unwell 'not answered' --listen "127.0.0.1:$gone"
}

@test "bad options and listeners without an address of their own are failures, with 1" {
  unwell workers --workers many
  unwell 'cannot connect to systemd: systemd gives the address' --listen systemd
  unwell 'cannot connect to unix:' --listen unix:
  unwell nonesuch --config "$BATS_TEST_TMPDIR/nonesuch"
}
