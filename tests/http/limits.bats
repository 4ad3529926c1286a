#!/usr/bin/env bats
# What the daemon makes of a container's limits: the CPU quota and memory.

# shellcheck disable=SC2034,SC2154 # helpers.bash sets daemon_log and the like, and reads some of them
load helpers

# Has start_daemon run the daemon with a directory of ours as /sys/fs/cgroup, as in a container.
setup() {
  groups=$BATS_TEST_TMPDIR/cgroup
  mkdir "$groups"
  unshare --map-root-user --mount mount --bind "$groups" /sys/fs/cgroup || skip 'namespaces are not allowed here'
  printf '#!/bin/sh\nmount --bind %s /sys/fs/cgroup && exec %s "$@"\n' "$groups" "$voxeld" >"$BATS_TEST_TMPDIR/inside"
  printf '#!/bin/sh\nexec unshare --map-root-user --mount sh %s "$@"\n' "$BATS_TEST_TMPDIR/inside" \
    >"$BATS_TEST_TMPDIR/contained"
  chmod +x "$BATS_TEST_TMPDIR/contained"
  voxeld=$BATS_TEST_TMPDIR/contained
}
teardown() { [[ -z ${daemon:-} ]] || kill -KILL "$daemon"; } # that of a test that failed half-way

@test "the quota sets the number of workers by default" {
  (($(nproc) >= 2)) || skip 'there is one processor'
  echo 100000 100000 >"$groups/cpu.max"
  start_daemon --backend cpu --workers 0
  has "$(grep msg=listening "$daemon_log")" ' workers=1 sampling_workers=1'
  stop_daemon
  start_daemon --backend cpu --workers 3
  has "$(grep msg=listening "$daemon_log")" ' workers=3 '
  stop_daemon
}

@test "memory that may not suffice is warned of" {
  echo 1073741824 >"$groups/memory.max"
  start_daemon --backend cpu --workers 2 --sampling-workers 1 --max-connections 100 --io-threads 3 \
    --small-job-points 1000
  warning=$(grep 'memory limit' "$daemon_log")
  has "$warning" 'level=warning'
  has "$warning" 'memory_limit_bytes=1073741824 '
  has "$warning" 'memory_budget_bytes=2147483648'
  # The budget, connections, workers, the lanes of small jobs, and about 50 KiB for each request.
  without_requests=$((2147483648 + 100 * 262144 + 3 * 67108864 + 3 * 1000 * 2048))
  may_need=$(sed -E 's/.*may_need_bytes=([0-9]+).*/\1/' <<<"$warning")
  ((may_need > without_requests + 100 * 50000 && may_need < without_requests + 100 * 51400))
  stop_daemon
}

@test "memory that suffices is not mentioned" {
  echo 1073741824 >"$groups/memory.max"
  start_daemon --backend cpu --sampling-workers 1 --max-connections 100 --memory-budget-bytes 536870912
  fails grep memory "$daemon_log"
  stop_daemon
}
