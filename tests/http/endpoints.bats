#!/usr/bin/env bats
# The endpoints that are read: presets, status, health, metrics, the description.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup_file() { start_daemon; }
teardown_file() { stop_daemon; }

@test "GET /healthz answers 200" {
  ask /healthz
  is "$code" 200
}

@test "GET /readyz answers 200 once a backend works" {
  ask /readyz
  is "$code" 200
}

@test "GET /v1/status tells backend, workers, queue, version and uptime as JSON" {
  ask /v1/status
  is "$code" 200
  is "$(header content-type)" application/json
  has "$(json 'd["version"]')" .
  is "$(json 'd["state"], d["backend"]["name"], d["workers"]["count"], d["queue"]["depth"]')" \
    "('ready', '$backend', 2, 0)"
  is "$(json 'd["uptime_s"] >= 0')" True
}

@test "GET /v1/status names clients only to this machine" {
  ask /v1/status
  is "$(json '[c["name"] for c in d["clients"]["greediest"]]')" "['127.0.0.1']"
  is "$(json 'd["clients"]["limits"]["connections"]')" 1000
  for relay in 'Via: 1.1 nginx' 'Forwarded: for=192.0.2.7' 'X-Forwarded-For: 192.0.2.7'; do
    ask -H "$relay" /v1/status
    is "$(json '"name" in d["clients"]["greediest"][0]')" False
  done
  # A web page that makes its host lead here (DNS rebinding) cannot change the Host that the browser sends.
  for host in rebound.example rebound.example:8080 localhost.example '[::1].rebound.example' localhost:80.example; do
    ask -H "Host: $host" /v1/status
    is "$(json '"name" in d["clients"]["greediest"][0]')" False
  done
  # Nor is a page of another origin told, which the browser shows.
  for page in 'Origin: null' 'Origin: http://127.0.0.1' 'Sec-Fetch-Site: cross-site' 'Sec-Fetch-Site: same-site'; do
    ask -H "$page" /v1/status
    is "$code $(json '"name" in d["clients"]["greediest"][0]')" '200 False'
  done
  ask -H "Origin: $url" -H 'Sec-Fetch-Site: same-origin' /v1/status
  is "$(json '"name" in d["clients"]["greediest"][0]')" True
  for host in 'Host: 127.0.0.1:8080' 'Host: [::1]' 'Host: localhost' 'Host: scan.localhost:8080' 'Host;'; do
    ask -H "$host" /v1/status
    is "$(json '"name" in d["clients"]["greediest"][0]')" True
  done
  start_daemon --trusted-proxies 127.0.0.1
  ask -H 'X-Forwarded-For: 192.0.2.7' /v1/status
  is "$(json '"connections" in d["clients"]["greediest"][0], "name" in d["clients"]["greediest"][0]')" '(True, False)'
  stop_daemon
}

@test "GET /metrics is in the Prometheus text format" {
  ask /metrics
  is "$code" 200
  has "$(header content-type)" text/plain
  grep -q '^# HELP voxeld_' "$body"
  grep -q '^# TYPE voxeld_' "$body"
  is "$(grep -cEv '^(#|[a-z_]+(\{[^}]*\})? [-+0-9.eEInfNa]+$)' "$body")" 0
}

@test "a voxelize request is counted in the metrics" {
  # shellcheck disable=SC2317 # await calls it
  counted() { ask /metrics && grep -qx "voxeld_requests_total{endpoint=\"/v1/voxelize\",code=\"200\"} $1" "$body"; }
  rows "$BATS_TEST_TMPDIR/one" 1 1 1 1
  post "$BATS_TEST_TMPDIR/one" "$small"
  is "$code" 200
  await counted 1
}

@test "GET /v1/presets lists every file of config/presets with its parameters" {
  ask /v1/presets
  is "$code" 200
  is "$(header content-type)" application/json
  is "$(json '" ".join(sorted(p["name"] for p in d["presets"]))')" \
    "$(basename -s .json -a "$root"/config/presets/*.json | sort | xargs)"
  is "$(json 'all(p["description"] and p["parameters"]["voxel_size"] for p in d["presets"])')" True
}

@test "GET /v1/presets/NAME gives one" {
  ask /v1/presets/kitti_second
  is "$code" 200
  is "$(json 'd["name"]')" kitti_second
  is "$(json 'd["parameters"]["max_voxels"]')" 40000
}

@test "an unknown preset's page is 404" {
  ask /v1/presets/nonesuch
  is_problem 404 not-found
}

@test "GET /openapi.yaml is the file of api/" {
  ask /openapi.yaml
  is "$code" 200
  cmp "$body" "$root/api/openapi.yaml"
}

@test "the page for browsers and its files come from the binary, and may load nothing from elsewhere" {
  local file
  for file in index.html:text/html style.css:text/css icon.svg:image/svg+xml; do
    ask "/ui/${file%%:*}"
    is "$code" 200
    cmp "$body" "$root/server/pages/web/${file%%:*}"
    has "$(header content-type)" "${file##*:}"
    has "$(header content-security-policy)" "default-src 'none'; script-src 'self'"
    is "$(header x-content-type-options)" nosniff
    is "$(header referrer-policy)" no-referrer
    is "$(header cache-control)" no-cache
  done
  ask /
  cmp "$body" "$root/server/pages/web/index.html"
  ask /status
  cmp "$body" "$root/server/pages/web/status.html"
  has "$(header content-security-policy)" "default-src 'none'"
  ask /ui/nothing.js
  is_problem 404 not-found
  is "$(header content-security-policy)" ''
}

@test "a page that the client has is not sent again" {
  local path tag size had
  for path in / /status /ui/style.css; do
    ask "$path"
    size=$(stat -c %s "$body")
    tag=$(header etag)
    is "$tag" "\"$(sha256sum "$body" | cut -d' ' -f1)\""
    for had in "$tag" "W/$tag" "\"other\", $tag" '*'; do
      ask -H "If-None-Match: $had" "$path"
      is "$code $(header etag) $(stat -c %s "$body")" "304 $tag 0"
      is "$(header content-length) $(header content-type)" "$size "
      has "$(header content-security-policy)" "default-src 'none'"
      ask -I -H "If-None-Match: $had" "$path"
      is "$code" 304
    done
    for had in "$tag" "W/$tag, \"third\"" '*'; do # several headers are one list
      ask -H 'If-None-Match: "other"' -H "If-None-Match: $had" "$path"
      is "$code $(stat -c %s "$body")" '304 0'
    done
    for had in '"other"' "${tag//\"/}"; do
      ask -H "If-None-Match: $had" "$path"
      is "$code $(stat -c %s "$body")" "200 $size"
    done
  done
  ask -H 'If-None-Match: *' /ui/nothing.js
  is_problem 404 not-found
  is "$(header etag)" ''
  ask -H 'If-None-Match: *' /v1/status # a page without a tag
  is "$code $(header etag)" '200 '
  ask -X DELETE /
  is_problem 405 method-not-allowed
  counted() { (ask /metrics && grep -qx 'voxeld_requests_total{endpoint="/",code="304"} 11' "$body"); }
  await counted
}

@test "GET /v1/describe is what --describe prints" {
  ask /v1/describe
  is "$code" 200
  cmp "$body" <("$voxeld" --describe)
}

@test "an unknown path is 404" {
  for path in // /ui /v1 /v1/voxelize/ /v1/Voxelize /favicon.ico /healthz/x /v1/presets/ \
    '/..%2f..%2fetc/passwd' /%ff%fe; do
    ask "$path"
    is_problem 404 not-found
    has "$(json 'd["detail"]')" '/v1/voxelize, /v1/fps, /v1/transform'
  done
  ask /v1/sort
  has "$(json 'd["detail"]')" 'nothing at /v1/sort;'
}

@test "a NUL in the path is not taken for the path before it" {
  ask '/healthz%00x'
  [[ $code == 404 || $code == 400 ]]
}

@test "a wrong method is 405 and says what is allowed" {
  ask /v1/voxelize
  is_problem 405 method-not-allowed
  is "$(header allow)" POST
  for path in /healthz /readyz /metrics /v1/status /v1/presets /v1/presets/kitti_second /openapi.yaml; do
    ask -X DELETE "$path"
    is_problem 405 method-not-allowed
    is "$(header allow)" 'GET, HEAD'
    ask --data-binary hello "$path"
    is_problem 405 method-not-allowed
  done
  for method in PUT DELETE PATCH OPTIONS NONSENSE; do
    ask -X "$method" /v1/voxelize
    is_problem 405 method-not-allowed
  done
}

@test "HEAD answers the headers of GET without a body" {
  for path in /healthz /v1/presets /openapi.yaml / /status /ui/style.css; do
    ask "$path"
    size=$(stat -c %s "$body")
    ask -I "$path"
    is "$code" 200
    is "$(header content-length)" "$size"
  done
}

@test "two requests go over one connection" {
  run curl -sS -o /dev/null -o /dev/null -w '%{num_connects} ' "$url/healthz" "$url/v1/status"
  is "$status" 0
  is "$output" '1 0 '
}

@test "pipelined requests are answered in order" {
  answer=$(raw "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Request-Id: first\r\n\r\n\
GET /nowhere HTTP/1.1\r\nHost: x\r\nX-Request-Id: second\r\nConnection: close\r\n\r\n")
  is "$(grep -io 'x-request-id: [a-z]*' <<<"$answer" | tr -d '\r' | cut -d' ' -f2 | xargs)" 'first second'
}
