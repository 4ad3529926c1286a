# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the tests use what is set here; helpers.bash sets code, body, url and the like
# What install.bats, debian.bats and tests/releases share: making a package, or taking RELEASE_PACKAGE, which was made
# elsewhere; and comparing the answers of its daemon with those of the built daemon.
#
# If the host cannot make or try packages, setup_file notes why, and setup skips each test.

load ../deploy/helpers

build=${voxeld%/bin/voxeld}
packages=$BATS_FILE_TMPDIR/packages
scan=$BATS_FILE_TMPDIR/scan
why=$BATS_FILE_TMPDIR/why

# lack REASON: skips all tests of this file.
lack() { echo "$*" >"$why"; }

# need_tools TOOL...: skips the tests if there is no build tree, or if a tool that makes packages is missing.
need_tools() {
  [[ -z ${RELEASE_PACKAGE:-} ]] || return 0
  [[ -e $build/CPackConfig.cmake ]] || lack 'packages are not made here: there is no build tree'
  for tool; do
    command -v "$tool" >/dev/null || lack "packages are not made here: there is no $tool"
  done
}

# make_package GENERATOR: puts the package into $packages: RELEASE_PACKAGE, or else a new one. Makes a scan to post.
make_package() {
  mkdir -p "$packages"
  if [[ -n ${RELEASE_PACKAGE:-} ]]; then
    cp "$RELEASE_PACKAGE" "$packages/"
  else
    cpack --config "$build/CPackConfig.cmake" -G "$1" -B "$packages"
  fi
  "$voxel_scan" --points 20000 --output "$scan"
}

can_package() { [[ ! -e $why ]] || skip "$(<"$why")"; }

teardown() { [[ -z ${daemon:-} ]] || kill -KILL "$daemon"; } # the daemon of a test that failed half-way

# tensors: prints the header without its metadata, which has times, and the hash of everything after the header.
tensors() {
  tensor '({k: v for k, v in d.items() if k != "__metadata__"},
           __import__("hashlib").sha256(data[8 + size:]).hexdigest())'
}

# serve COMMAND...: like start_daemon, for any command that runs a daemon. The daemon chooses a free port.
serve() {
  daemon_log=$BATS_TEST_TMPDIR/log
  : >"$daemon_log" # empties the previous daemon's log, where `await started` would find that daemon's line
  VOXELD_LISTEN=127.0.0.1:0 "$@" >/dev/null 2>"$daemon_log" 3>&- &
  daemon=$!
  await started
  address=$(sed -n 's/.*msg=listening address=\([^ ]*\).*/\1/p' "$daemon_log")
  url=http://$address
  [[ -n $address ]] || { cat "$daemon_log"; return 1; }
}

# answers_like_the_build COMMAND...: the command's daemon answers like the built daemon, and SIGTERM ends it with 0.
answers_like_the_build() {
  local expected
  start_daemon
  post "$scan" preset=kitti_second
  is "$code" 200
  expected=$(tensors)
  stop_daemon
  serve "$@"
  post "$scan" preset=kitti_second
  is "$code" 200
  is "$(tensors)" "$expected"
  stop_daemon
}
