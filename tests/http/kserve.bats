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
  is "$(json '[m["name"] for m in d][:7], {m["state"] for m in d}')" \
    "(['voxelize', 'fps', 'transform', 'nms', 'decode', 'scatter', 'decode_center'], {'READY'})"
  is "$(json '"kitti_second" in [m["name"] for m in d]')" True
  ask -d '{"ready":true}' /v2/repository/index
  is "$code $(json 'len(d) > 3, d[0]["version"], d[0]["reason"]')" "200 (True, '1', '')"
  ask -d '{"ready":true}' -H 'Transfer-Encoding: chunked' /v2/repository/index
  is "$code" 200
}

@test "a POST's body for a page is bounded, and the connection kept" {
  head -c 16385 /dev/zero >"$BATS_TEST_TMPDIR/long"
  ask --data-binary "@$BATS_TEST_TMPDIR/long" /v2/repository/index
  is "$code $(json 'd["type"]')" "413 urn:voxeld:problem:body-too-large"
  ask --data-binary "@$BATS_TEST_TMPDIR/long" -H 'Transfer-Encoding: chunked' /v2/repository/index
  is "$code $(json 'd["type"]')" "413 urn:voxeld:problem:body-too-large"
  printf '%16384s' '{}' >"$BATS_TEST_TMPDIR/most"
  ask --data-binary "@$BATS_TEST_TMPDIR/most" /v2/repository/index
  is "$code" 200
}

@test "a wrong body of POST /v2/repository/index is refused" {
  local body
  for body in x '[]' '{"ready":1}' '{"ready":true,"ready":true}' '{}{}'; do
    ask -d "$body" /v2/repository/index
    is "$code $(json 'd["type"], len(d["error"]) > 0')" "400 ('urn:voxeld:problem:bad-body', True)"
  done
}

@test "GET /v2 tells name, version and extensions" {
  ask /v2
  is "$code $(json 'd["name"], type(d["extensions"]).__name__')" "200 ('voxeld', 'list')"
  is "voxeld $(json 'd["version"]')" "$("$voxeld" --version)"
  is "$(json '"system_shared_memory" in d["extensions"]')" False
}

@test "GET /v2 lists shared memory if it is allowed" {
  local daemon daemon_log address url
  start_daemon --allow-shared-memory yes
  ask /v2
  is "$(json '"system_shared_memory" in d["extensions"]')" True
  stop_daemon
}

@test "the models' list is that of the index, without one twice" {
  mkdir "$BATS_TEST_TMPDIR/presets"
  echo '{"description":"hidden by the operation","operation":"fps","parameters":{"num_samples":7}}' \
    >"$BATS_TEST_TMPDIR/presets/fps.json"
  echo '{"description":"seven","operation":"fps","parameters":{"num_samples":7,"num_features":5,"dtype":"float16"}}' \
    >"$BATS_TEST_TMPDIR/presets/seven.json"
  local daemon daemon_log address url names
  start_daemon --presets-dir "$BATS_TEST_TMPDIR/presets"
  ask /v2/models
  names=$(json 'd["models"]')
  is "$(json 'len(set(d["models"])) == len(d["models"]), "seven" in d["models"]')" "(True, True)"
  ask -X POST /v2/repository/index
  is "$(json '[m["name"] for m in d]')" "$names"
  ask /v2/models/stats
  is "$(json '[m["name"] for m in d["model_stats"]]')" "$names"
  ask /v2/models/seven
  is "$(json '[(i["name"], i["datatype"], i["shape"]) for i in d["inputs"]]')" \
    "[('points', 'FP16', [-1, 5]), ('point_counts', 'INT32', [-1])]"
  ask /v2/models/fps
  is "$(json 'd["inputs"][0]["shape"]')" "[-1, -1]"
  stop_daemon
}

@test "a model's metadata and config have its inputs and default outputs" {
  ask /v2/models/kitti_pointpillar
  is "$code $(json 'd["name"], d["versions"], d["platform"]')" "200 ('kitti_pointpillar', ['1'], 'voxeld')"
  is "$(json '[(i["name"], i["datatype"], i["shape"]) for i in d["inputs"] + d["outputs"]]')" \
    "[('points', 'FP32', [-1, 4]), ('point_counts', 'INT32', [-1]), ('voxel_coords', 'INT32', [-1, 4]), \
('voxel_num_points', 'INT32', [-1]), ('pillar_features', 'FP32', [-1, 32, 10])]"
  ask /v2/models/kitti_pointpillar/versions/1/config
  is "$code $(json 'd["name"], d["max_batch_size"], [i.get("optional") for i in d["input"]]')" \
    "200 ('kitti_pointpillar', 0, [None, True])"
  is "$(json '[(i["name"], i["data_type"], i["dims"]) for i in d["input"][:1] + d["output"][2:]]')" \
    "[('points', 'TYPE_FP32', [-1, 4]), ('pillar_features', 'TYPE_FP32', [-1, 32, 10])]"
  for path in "" /config /stats /ready; do
    ask "/v2/models/nothing$path"
    is "$code $(header content-type) $(json '"nothing" in d["error"]')" "404 application/json True"
  done
}

@test "statistics count what a model answered and refused" {
  rows "$BATS_TEST_TMPDIR/two" 1 2 0 0.5 3 4 0 0.25
  ask /v2/models/waymo_pointpillar/stats
  is "$(json '[d["model_stats"][0][k] for k in ("name", "version", "inference_count", "last_inference")]')" \
    "['waymo_pointpillar', '1', 0, 0]"
  for file in two two two; do
    ask --data-binary "@$BATS_TEST_TMPDIR/$file" -H 'Inference-Header-Content-Length: 0' /v2/models/fps/infer
    is "$code" 400 # num_samples is missing
    ask --data-binary "@$BATS_TEST_TMPDIR/$file" -H 'Inference-Header-Content-Length: 0' \
      /v2/models/kitti_second/versions/1/infer
    is "$code" 200
  done
  ask /v2/models/kitti_second/stats
  is "$(json '[(k, v["count"]) for k, v in d["model_stats"][0]["inference_stats"].items()]')" \
    "[('success', 3), ('fail', 0), ('queue', 3), ('compute_input', 3), ('compute_infer', 3), ('compute_output', 3), \
('cache_hit', 0), ('cache_miss', 0)]"
  is "$(json '[d["model_stats"][0][k] for k in ("inference_count", "execution_count")]')" "[3, 3]"
  is "$(json '(lambda s: s["success"]["ns"] > s["queue"]["ns"] + s["compute_infer"]["ns"] > 0)(
    d["model_stats"][0]["inference_stats"])')" True
  ask /v2/models/stats
  is "$(json '[m["inference_stats"]["fail"]["count"] for m in d["model_stats"] if m["name"] == "fps"]')" "[3]"
  is "$(json '[m["last_inference"] > 0 for m in d["model_stats"] if m["name"] == "kitti_second"]')" "[True]"
}

@test "models are not loaded or unloaded by request" {
  for verb in load unload; do
    ask -X POST "/v2/repository/models/kitti_second/$verb"
    is "$code $(json 'd["type"]')" "501 urn:voxeld:problem:unsupported"
    has "$(json 'd["error"]')" SIGHUP
  done
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
