#!/usr/bin/env bats
# Pages of the KServe v2 protocol, and those that take a POST with a small body.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets code, body, url and the like, and reads some of them
load helpers

setup_file() { start_daemon; }
teardown_file() { stop_daemon; }

@test "the probes of KServe answer JSON" {
  ask /v2/health/live
  is "$code $(json 'd["live"]')" "200 True"
  is "$(header content-type)" application/json
  ask /v2/health/ready
  is "$code $(json 'd["ready"]')" "200 True"
}

@test "each operation and each preset is a model with one version" {
  ask /v2/models/voxelize/ready
  is "$code $(json 'd["name"], d["ready"]')" "200 ('voxelize', True)"
  ask /v2/models/kitti_second/versions/1/ready
  is "$code $(json 'd["name"]')" "200 kitti_second"
  ask /v2/models/kitti_second/versions/2/ready
  is "$code" 404
  ask /v2/models/nothing/ready
  is "$code" 404
  has "$(json 'd["error"]')" nothing
}

@test "POST /v2/repository/index lists the models, with a body or without" {
  ask -X POST /v2/repository/index
  is "$code" 200
  is "$(json '[m["name"] for m in d][:3], {m["state"] for m in d}')" "(['voxelize', 'fps', 'transform'], {'READY'})"
  is "$(json '"kitti_second" in [m["name"] for m in d]')" True
  ask -d '{"ready":true}' /v2/repository/index
  is "$code" 200
  ask -d '{"ready":true}' -H 'Transfer-Encoding: chunked' /v2/repository/index
  is "$code" 200
}

@test "a POST's body for a page is bounded, and the connection kept" {
  head -c 16385 /dev/zero >"$BATS_TEST_TMPDIR/long"
  ask --data-binary "@$BATS_TEST_TMPDIR/long" /v2/repository/index
  is "$code $(json 'd["type"]')" "413 urn:voxeld:problem:body-too-large"
  ask --data-binary "@$BATS_TEST_TMPDIR/long" -H 'Transfer-Encoding: chunked' /v2/repository/index
  is "$code $(json 'd["type"]')" "413 urn:voxeld:problem:body-too-large"
  head -c 16384 "$BATS_TEST_TMPDIR/long" >"$BATS_TEST_TMPDIR/most"
  ask --data-binary "@$BATS_TEST_TMPDIR/most" /v2/repository/index
  is "$code" 200
}

@test "under /v2 a refusal is application/json with error beside the members of a problem" {
  ask /v2/nowhere
  is "$code $(header content-type)" "404 application/json"
  is "$(json 'd["error"] == d["detail"], d["status"], d["type"]')" "(True, 404, 'urn:voxeld:problem:not-found')"
  ask /v2/repository/index
  is "$code $(header allow)" "405 POST"
  has "$(json 'd["error"]')" POST
  ask /v1/nowhere
  is "$(header content-type)" application/problem+json
  is "$(json '"error" in d')" False
}
