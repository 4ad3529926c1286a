#!/usr/bin/env bats
# tests/platform/in: a machine has this tree, keeps what is installed, is made anew when broken, and leaves nothing
# behind.

# shellcheck disable=SC2154 # helpers.bash sets root
load ../deploy/helpers
machine=$root/build/platform/bookworm/trial # a machine for these tests alone, because they break it
why=$BATS_FILE_TMPDIR/why

there() { "$root/tests/platform/in" bookworm/trial "$@" 3>&-; }

# Makes a broken machine, without dpkg. Then runs the script, which makes the machine anew.
setup_file() {
  rm -rf "$root/build/platform/bookworm/trial"
  mkdir -p "$root/build/platform/bookworm/trial"
  touch "$root/build/platform/bookworm/trial/broken"
  local status=0
  "$root/tests/platform/in" bookworm/trial true 2>"$BATS_FILE_TMPDIR/why" 3>&- || status=$?
  ((status == 77)) || : >"$BATS_FILE_TMPDIR/why"
  ((status == 77)) || return "$status"
}

teardown_file() { rm -rf "$root/build/platform/bookworm/trial"; }

setup() { [[ ! -s $why ]] || skip "$(sed -n 's/^skipped: //p' "$why")"; }

# sleeping SECONDS: whether a process `sleep SECONDS` runs.
sleeping() { grep -qsPa "^sleep\\x00$1\\x00" /proc/[0-9]*/cmdline; }

@test "the script ends with the command's exit status, and the command reads the script's input" {
  run there sh -c 'cat; exit 5' <<<words
  is "$status $output" '5 words'
}

@test "the tree is there as it is, without what git ignores" {
  local files=(dev tests/platform/in CMakeLists.txt)
  there cat "${files[@]}" | cmp - <(cd "$root" && cat "${files[@]}")
  run there sh -c 'ls build; pwd'
  is "$output" /work/voxeld
}

@test "of the host's environment only TERM and the proxy variables reach the machine" {
  SECRET=x CC=clang run there env
  [[ $output != *SECRET* && $output != *CC=* && $output == *HOME=/root* ]]
}

@test "what is installed there stays, and so does the build folder" {
  there sh -c 'touch /usr/bin/installed && mkdir -p build && touch build/built'
  there test -e /usr/bin/installed -a -e build/built
  rm "$machine/work/voxeld/build/built"
}

@test "a machine that is broken is made anew: no dpkg" {
  [[ ! -e $machine/broken && -x $machine/usr/bin/dpkg ]]
}

@test "a machine that is broken is made anew: a package is half installed" {
  touch "$machine/broken"
  sed -i '/^Package: tar$/,/^Status:/s/ok installed/ok half-installed/' "$machine/var/lib/dpkg/status"
  there test ! -e /broken
}

@test "a machine cannot be made within a machine" {
  run there tests/platform/in bookworm/trial true
  [[ $status == 77 && $output == "skipped: "* ]]
}

@test "without apt ./dev says that it installs nothing, and what it does not find" {
  run there bash -c 'mkdir /tmp/bin; ln -s /usr/bin/* /tmp/bin/; rm /tmp/bin/{apt,dpkg}*; PATH=/tmp/bin ./dev build'
  is "$status" 1
  has "$output" 'dev: there is no apt here, so nothing is installed; not found: cc cmake ninja pkg-config curl'
}

@test "all processes in the machine end with the script, even if the script is killed" {
  local signal pid mark tries
  for signal in KILL TERM; do
    mark=9$RANDOM
    "$root/tests/platform/in" bookworm/trial sh -c "sleep $mark & sleep $mark" 3>&- &
    pid=$!
    until sleeping "$mark"; do sleep 0.1; done
    kill -"$signal" "$pid"
    wait "$pid" || true
    for ((tries = 50; tries; tries--)); do
      sleeping "$mark" || break
      sleep 0.1
    done
    ((tries))
  done
  [[ $(</proc/self/mounts) != *"$machine"* ]]
}

@test "two commands have a machine one after the other" {
  there sh -c 'sleep 1; touch build/mark mark' &
  local first=$!
  sleep 0.5
  # Once the first command has ended, the tree is copied anew, without that command's file.
  run there test -e build/mark -a ! -e mark
  [[ $output == *waiting* && $status == 0 ]]
  wait "$first"
}
