#!/usr/bin/env bats
# Who may enter: tokens, certificates, Unix sockets, and where the service may listen.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

# Certificates are made once for the file; without openssl the tests that need them are skipped.
setup_file() {
  export certificates=$BATS_FILE_TMPDIR
  command -v openssl >/dev/null || return 0
  authority ca
  authority foreign
  certificate server ca server subjectAltName=IP:127.0.0.1,DNS:localhost
  certificate robot ca lidar-7 extendedKeyUsage=clientAuth
  certificate named ca ignored subjectAltName=URI:spiffe://field/lidar-8
  certificate nameless ca 'has a blank' extendedKeyUsage=clientAuth
  certificate machine ca ignored subjectAltName=DNS:lidar-10.field
  certificate mailed ca ignored subjectAltName=email:lidar-11@field
  certificate numbered ca lidar-12 subjectAltName=IP:65.66.67.68 # whose bytes are printable: ABCD
  certificate lengthy ca ignored "subjectAltName=URI:x:$(printf '%058d' 0),DNS:lidar-13" # 60 bytes, one too many
  certificate longest ca "$(printf '%059d' 0)" extendedKeyUsage=clientAuth
  certificate longer ca "$(printf '%060d' 0)" extendedKeyUsage=clientAuth
  certificate serving ca server-only extendedKeyUsage=serverAuth
  certificate stranger foreign lidar-7 extendedKeyUsage=clientAuth
  certificate expired ca lidar-9 extendedKeyUsage=clientAuth -startdate 20200101000000Z -enddate 20200102000000Z
}

setup() {
  cd "$BATS_TEST_TMPDIR" || return
  rows one 1 1 1 1
}
teardown() { [[ -z ${daemon:-} ]] || kill -KILL "$daemon"; } # that of a test that failed half-way

# authority NAME
authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=$1" \
    -keyout "$certificates/$1.key" -out "$certificates/$1.pem" 2>/dev/null
}

# certificate NAME AUTHORITY COMMON-NAME EXTENSION [OPENSSL-ARGUMENT...]: valid for two days, unless the arguments name
# dates. `openssl ca` takes dates of the past in every version; `openssl x509` does not.
certificate() {
  local path=$certificates/$1 dates=(-days 2) folder=$certificates/$2.issued
  ((${#@} == 4)) || dates=("${@:5}")
  mkdir -p "$folder"
  touch "$folder/index"
  printf '%s\n' '[ca]' default_ca=own '[own]' "database=$folder/index" "new_certs_dir=$folder" \
    "serial=$folder/serial" unique_subject=no \
    default_md=sha256 policy=any '[any]' commonName=supplied >"$folder/config"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$3" \
    -keyout "$path.key" -out "$path.csr" 2>/dev/null
  openssl ca -batch -config "$folder/config" -cert "$certificates/$2.pem" -keyfile "$certificates/$2.key" \
    -create_serial -notext "${dates[@]}" -extfile <(echo "$4") -in "$path.csr" -out "$path.pem" 2>"$path.log" ||
    { cat "$path.log"; return 1; }
}

# start_tls [OPTION...]: url is https. The paths have one letter, since the shortest must do.
start_tls() {
  command -v openssl >/dev/null || skip 'there is no openssl here'
  ln -sf "$certificates/server.pem" c
  ln -sf "$certificates/server.key" k
  ln -sf "$certificates/ca.pem" a
  start_daemon --tls-cert c --tls-key k "$@"
  url=https://$address
}

# show NAME [CURL-ARGUMENT...] PATH: a request with this client certificate; "" for none.
show() {
  local own=()
  [[ -z $1 ]] || own=(--cert "$certificates/$1.pem" --key "$certificates/$1.key")
  ask --cacert "$certificates/ca.pem" "${own[@]}" "${@:2}"
}

# new_token NAME: appends to tokens, sets token.
new_token() { token=$("$voxeld" --new-token "$1" 2>>tokens) && chmod 600 tokens; }

bearer() { ask -H "Authorization: Bearer $1" "${@:2}"; }
# Sorted: connections end in any order, and a line is written after its answer is sent.
users() { sed -n 's/.*msg=request.* user=\([^ ]*\).*/\1/p' "$daemon_log" | LC_ALL=C sort | paste -sd ' '; }

# refused_to_start PART OPTION...: ends with status 2 and this in its reason.
refused_to_start() {
  run timeout 60 "$voxeld" --backend cpu "${@:2}"
  is "$status" 2
  has "$output" "$1"
}

# --- tokens ---

@test "--new-token prints a token and its line, which let in" {
  fresh=$("$voxeld" --new-token lidar-7 2>tokens)
  [[ $fresh =~ ^vxt_[A-Za-z0-9_-]{43}$ ]]
  [[ $(<tokens) =~ ^'lidar-7 sha256:'[0-9a-f]{64}$ ]]
  start_daemon --token-file tokens
  bearer "$fresh" /v1/status
  is "$code" 200
  stop_daemon
  is "$(users)" lidar-7
}

@test "what --new-token complains of is a comment in the token file" {
  new_token lidar-7
  fails new_token 'bad name'
  has "$(tail -n 1 tokens)" '# voxeld: '
  run "$voxeld" --token-file tokens --check-config
  is "$status" 0
}

@test "--new-token wants a sound name" {
  for name in 'two words' '' a:b "$(printf 'x%.0s' {1..65})"; do
    run "$voxeld" --new-token "$name"
    is "$status" 2
    has "$output" 'letters, digits'
  done
  run "$voxeld" --new-token
  is "$status" 2
}

@test "everything but health and the page needs a token" {
  new_token alice
  start_daemon --token-file tokens
  for path in /healthz /readyz /v2/health/live /v2/health/ready / /status /ui/style.css; do
    ask "$path"
    is "$code" 200
    bearer wrong "$path"
    is "$code" 200
  done
  for path in /v1/status /v1/describe /metrics /openapi.yaml /v1/presets /v1/presets/kitti_second /nowhere \
    /v1/voxelize '/v1/voxelize?x=1' /healthz/x; do
    ask "$path"
    is_problem 401 unauthorized
    is "$(header WWW-Authenticate)" 'Bearer realm="voxeld"'
  done
  post one "$small"
  is_problem 401 unauthorized
  post one "$small" -H "Authorization: Bearer $token"
  is "$code" 200
  bearer "$token" /nowhere
  is_problem 404 not-found
  bearer "$token" -X DELETE /metrics
  is_problem 405 method-not-allowed
  stop_daemon
}

@test "a wrong token is not answered like none" {
  new_token alice
  start_daemon --token-file tokens
  for wrong in "Bearer ${token}x" "Bearer ${token%?}" 'Bearer ' 'Bearer' 'Basic YTpi' "$token" \
    "Bearer $token $token" "Bearer $(printf 'x%.0s' {1..2000})"; do
    ask -H "Authorization: $wrong" /v1/status
    is_problem 401 invalid-token
    is "$(header WWW-Authenticate)" 'Bearer realm="voxeld", error="invalid_token"'
  done
  for right in "bearer $token" "BEARER   $token"; do
    ask -H "Authorization: $right" /v1/status
    is "$code" 200
  done
  bearer "$token" /metrics
  has "$(cat "$body")" 'voxeld_refusals_total{reason="invalid-token"} 8'
  stop_daemon
}

@test "two Authorization headers are refused" {
  new_token alice
  start_daemon --token-file tokens
  bearer "$token" -H "Authorization: Bearer $token" /v1/status
  is_problem 400 bad-request
  stop_daemon
}

@test "a connection is kept after 401, the body of the refused request swallowed" {
  new_token alice
  start_daemon --token-file tokens
  both=$(curl -sS -o /dev/null -w '%{http_code} %{num_connects} ' --data-binary @one "$url/v1/voxelize?$small" \
    --next -sS -o /dev/null -w '%{http_code} %{num_connects}' -H "Authorization: Bearer $token" --data-binary @one \
    "$url/v1/voxelize?$small")
  is "$both" '401 1 200 0'
  stop_daemon
}

@test "--allow-anonymous lets in clients without a token, not those with a wrong one" {
  new_token alice
  start_daemon --token-file tokens --allow-anonymous
  ask /v1/status
  is "$code" 200
  bearer "$token" /v1/status
  is "$code" 200
  bearer wrong /v1/status
  is_problem 401 invalid-token
  stop_daemon
  is "$(users)" alice
}

@test "without a token file an Authorization header is ignored" {
  start_daemon
  bearer anything /v1/status
  is "$code" 200
  stop_daemon
}

@test "no secret is logged or printed" {
  new_token alice
  start_daemon --token-file tokens --log-level debug
  bearer "$token" /v1/status
  bearer "${token}x" /v1/status
  ask -H "Authorization: $token" "/v1/voxelize?x=1"
  kill -HUP "$daemon"
  await grep -q 'msg=reloaded what=tokens' "$daemon_log"
  echo "mallory $token" >>tokens
  kill -HUP "$daemon"
  await grep -q 'msg="not reloaded" what=tokens' "$daemon_log"
  stop_daemon
  fails grep -F "${token#vxt_}" "$daemon_log"
  fails grep -F "$(sed -n 's/.*sha256://p' tokens)" "$daemon_log"
  run "$voxeld" --token-file tokens --print-config
  [[ $output != *"${token#vxt_}"* && $output != *"$(sed -n 's/.*sha256://p' tokens)"* ]]
  refused_to_start 'line 2' --token-file tokens --check-config
  [[ $output != *"${token#vxt_}"* ]]
}

@test "a token file that others may read is warned of" {
  new_token alice
  chmod 644 tokens
  start_daemon --token-file tokens
  stop_daemon
  has "$(cat "$daemon_log")" 'readable by everybody'
}

@test "a bad or missing token file keeps the service from starting" {
  echo alice >tokens
  refused_to_start 'tokens: line 1' --token-file tokens --listen 127.0.0.1:0
  refused_to_start 'No such file' --token-file nonesuch --listen 127.0.0.1:0
  refused_to_start 'No such file' --token-file nonesuch --check-config
}

# --- where to listen ---

@test "--allowed-hosts are the names by which clients may ask" {
  start_daemon --allowed-hosts voxeld.example,Lidar-7 --listen "127.0.0.1:0,unix:$PWD/sock" --allow-shared-memory yes
  url=http://${address%%,*}
  for host in voxeld.example LIDAR-7:8080 127.0.0.1 localhost:8080 '[::1]:8080'; do
    ask -H "Host: $host" /v1/streams
    is "$code" 200
    ask -H "Host: $host" /v1/status
    is "$code $(json '"name" in d["clients"]["greediest"][0]')" '200 True'
  done
  ask -H 'Host: rebound.example:8080' /v1/status
  is_problem 403 forbidden
  has "$(json 'd["detail"]')" "the Host is 'rebound.example:8080'"
  ask -H 'Host: rebound.example' --data-binary abc "/v1/voxelize?preset=kitti_second"
  is_problem 403 forbidden
  ask -H 'Host: rebound.example' /healthz # a probe tells nothing
  is "$code" 200
  ask --http1.0 -H 'Host:' /v1/status # no browser is without one
  is "$code" 200
  url=http://rebound.example
  ask --unix-socket sock /v1/status
  is "$code $(json '"name" in d["clients"]["greediest"][0]')" '200 True'
  stop_daemon
  start_daemon --allowed-hosts voxeld.example --trusted-proxies 127.0.0.1 # which decides what it passes on
  ask -H 'Host: upstream' /v1/status
  is "$code" 200
  stop_daemon
  refused_to_start "allowed_hosts is 'a:80'" --allowed-hosts a:80
}

@test "who asks by a strange name is not local, unless with a token" {
  new_token alice
  start_daemon --token-file tokens --allow-anonymous yes
  ask -H 'Host: rebound.example' /v1/status
  is "$code $(json '"name" in d["clients"]["greediest"][0]')" '200 False'
  ask -H 'Host: rebound.example' /v1/streams
  is_problem 403 forbidden
  has "$(json 'd["detail"]')" 'a name of --allowed-hosts, or any with a token'
  bearer "$token" -H 'Host: rebound.example' /v1/streams
  is "$code" 200
  bearer "$token" -H 'Host: rebound.example' /v1/status
  is "$code $(json '"name" in d["clients"]["greediest"][0]')" '200 True'
  stop_daemon
}

@test "beyond loopback credentials are needed, or --allow-anonymous" {
  new_token alice
  for where in 0.0.0.0:0 127.0.0.1:0,0.0.0.0:0; do
    refused_to_start --allow-anonymous --listen "$where"
    refused_to_start --allow-anonymous --listen "$where" --check-config
  done
  for allowed in '--allow-anonymous' '--allow-anonymous yes' '--allow-anonymous=yes' '--token-file tokens'; do
    # shellcheck disable=SC2086 # several words
    start_daemon $allowed --listen 0.0.0.0:0
    url=http://127.0.0.1:${address##*:}
    ask /healthz
    is "$code" 200
    stop_daemon
  done
  refused_to_start --allow-anonymous --listen 0.0.0.0:0 --allow-anonymous no
  refused_to_start 'no or yes' --allow-anonymous=maybe
}

@test "a Unix socket is nowhere else: it needs no credentials" {
  start_daemon --listen "unix:$PWD/sock"
  url=http://localhost
  ask --unix-socket sock /v1/status
  is "$code" 200
  stop_daemon
}

@test "several listeners serve side by side" {
  start_daemon --listen "127.0.0.1:0,unix:$PWD/a,127.0.0.1:0,unix:$PWD/b"
  IFS=, read -ra where <<<"$address"
  is "${#where[@]}" 4
  for i in 0 2; do
    url=http://${where[i]}
    post one "$small"
    is "$code" 200
  done
  url=http://localhost
  for socket in a b; do
    post one "$small" --unix-socket "$socket"
    is "$code" 200
  done
  ask --unix-socket a /v1/status
  is "$(json 'd["address"]')" "$address"
  stop_daemon
  [[ ! -e a && ! -e b ]]
}

@test "if one listener fails none is left" {
  start_daemon
  refused_to_start "$address" --listen "unix:$PWD/sock,$address"
  [[ ! -e sock ]]
  stop_daemon
  refused_to_start 'up to 8 listeners' --listen "$(printf '127.0.0.1:0,%.0s' {1..8})127.0.0.1:0"
  refused_to_start 'up to 8 listeners' --listen "$(printf '127.0.0.1:0,%.0s' {1..8})127.0.0.1:0" --check-config
  refused_to_start expected --listen 127.0.0.1:0,
}

@test "--unix-mode is the mode of Unix sockets from their beginning" {
  for mode in 0600 660 0777; do
    (umask 077 && start_daemon --listen "unix:$PWD/sock" --unix-mode "$mode" &&
      is "$(stat -c %a sock)" "${mode#0}" && stop_daemon)
  done
  start_daemon --listen "unix:$PWD/sock"
  is "$(stat -c %a sock)" 660
  stop_daemon
  refused_to_start unix_mode --unix-mode 0888
  refused_to_start unix_mode --unix-mode 1777
}

@test "a Unix socket's path that now is another file is left alone" {
  start_daemon --listen "unix:$PWD/sock"
  rm sock
  echo mine >sock
  stop_daemon
  is "$(cat sock)" mine
}

@test "a Unix socket's file that a killed process left is replaced" {
  start_daemon --listen "unix:$PWD/sock"
  kill -KILL "$daemon"
  wait "$daemon" || true
  [[ -S sock ]]
  start_daemon --listen "unix:$PWD/sock"
  stop_daemon
}

@test "localhost is an address to listen on" {
  start_daemon --listen localhost:0
  ask /healthz
  is "$code" 200
  stop_daemon
}

# --- TLS ---

@test "TLS serves, plain HTTP on its port does not, Unix sockets stay plain" {
  start_tls --listen "127.0.0.1:0,unix:$PWD/sock"
  url=https://${address%%,*}
  post one "$small" --cacert "$certificates/ca.pem"
  is "$code" 200
  run curl -sS "http://${address%%,*}/healthz"
  ((status != 0))
  url=http://localhost
  post one "$small" --unix-socket sock
  is "$code" 200
  stop_daemon
}

@test "a scan of megabytes and its answer are whole over TLS" {
  start_tls
  "$voxel_scan" --output scan
  post scan 'preset=kitti_second' --cacert "$certificates/ca.pem"
  is "$code" 200
  mv "$body" over_tls
  stop_daemon
  start_daemon
  post scan 'preset=kitti_second'
  is "$(tensor 'data[8+size:]' | sha256sum)" "$(body=over_tls; tensor 'data[8+size:]' | sha256sum)"
  stop_daemon
}

@test "only TLS 1.2 and 1.3 are spoken" {
  start_tls
  for version in 1.2 1.3; do
    show '' "--tlsv$version" --tls-max "$version" /healthz
    is "$code" 200
  done
  run openssl s_client -connect "$address" -tls1_1 -cipher 'ALL:@SECLEVEL=0' </dev/null
  ((status != 0))
  stop_daemon
}

@test "a token lets in over TLS" {
  new_token alice
  start_tls --token-file tokens
  show '' /v1/status
  is_problem 401 unauthorized
  show '' -H "Authorization: Bearer $token" /v1/status
  is "$code" 200
  show '' /healthz
  is "$code" 200
  stop_daemon
}

@test "a client certificate of the authority lets in, under its name" {
  start_tls --tls-client-ca a --listen "127.0.0.1:0,unix:$PWD/sock"
  url=https://${address%%,*}
  for name in robot named nameless; do
    show "$name" /v1/status
    is "$code" 200
  done
  show '' /v1/status
  is_problem 401 unauthorized
  has "$(json 'd["detail"]')" certificate
  show '' /readyz
  is "$code" 200
  url=http://localhost
  ask --unix-socket sock /v1/status
  is "$code" 200
  stop_daemon
  [[ $(users) =~ ^'cert:'[0-9a-f]{32}' cert:lidar-7 cert:spiffe://field/lidar-8'$ ]]
}

@test "a certificate names its client by the first name that is a text of 1 to 59 bytes without blanks" {
  start_tls --tls-client-ca "$certificates/ca.pem"
  for name in machine mailed numbered lengthy longest longer; do
    show "$name" /v1/status
    is "$code" 200
  done
  stop_daemon
  [[ $(users) =~ ^"cert:$(printf '%059d' 0) cert:"[0-9a-f]{32}' cert:lidar-10.field cert:lidar-11@field '\
'cert:lidar-12 cert:lidar-13'$ ]] || { users && false; }
}

@test "a certificate that does not verify is refused with the reason" {
  start_tls --tls-client-ca "$certificates/ca.pem"
  for name in stranger expired serving; do
    show "$name" /v1/status
    is_problem 403 forbidden
    show "$name" /healthz
    is "$code" 200
  done
  show expired /v1/status
  has "$(json 'd["detail"]')" expired
  stop_daemon
}

@test "a token or a certificate suffices; a wrong token is not made good" {
  new_token alice
  start_tls --tls-client-ca "$certificates/ca.pem" --token-file tokens
  show robot /v1/status
  is "$code" 200
  show '' -H "Authorization: Bearer $token" /v1/status
  is "$code" 200
  show stranger -H "Authorization: Bearer $token" /v1/status
  is "$code" 200
  show robot -H "Authorization: Bearer wrong" /v1/status
  is_problem 401 invalid-token
  stop_daemon
  is "$(users)" 'alice alice cert:lidar-7'
}

@test "client certificates are credentials enough to listen elsewhere, a server certificate is not" {
  start_tls --listen 0.0.0.0:0 --tls-client-ca "$certificates/ca.pem"
  stop_daemon
  refused_to_start --allow-anonymous --listen 0.0.0.0:0 \
    --tls-cert "$certificates/server.pem" --tls-key "$certificates/server.key"
}

@test "bad certificates keep the service from starting" {
  command -v openssl >/dev/null || skip 'there is no openssl here'
  pair=(--tls-cert "$certificates/server.pem" --tls-key "$certificates/server.key")
  refused_to_start tls_key --tls-cert "$certificates/server.pem" --check-config
  refused_to_start tls_client_ca --tls-client-ca "$certificates/ca.pem" --check-config
  refused_to_start tls_cert --tls-cert "$certificates/server.pem" --tls-key "$certificates/robot.key" --check-config
  refused_to_start 'No such file' --tls-cert nonesuch --tls-key "$certificates/server.key" --check-config
  refused_to_start tls_client_ca "${pair[@]}" --tls-client-ca "$certificates/server.key" --check-config
  refused_to_start tls_priorities "${pair[@]}" --tls-priorities LOUD --check-config
  run "$voxeld" --backend cpu "${pair[@]}" --tls-client-ca "$certificates/ca.pem" --check-config
  is "$status" 0
}
