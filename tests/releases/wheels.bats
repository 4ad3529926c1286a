#!/usr/bin/env bats
# The wheels of a release, which lie beside the portable .tar.gz that RELEASE_PACKAGE names. On each Debian, pip
# installs them into an empty environment, with their requirements from PyPI. If the daemon's wheel is for another
# architecture, pip only unpacks that wheel, and its daemon runs under qemu.

# shellcheck disable=SC2154 # packages.bash sets root, packages, why and the like
load ../deploy/packages
load ../deploy/roots

authorities=/etc/ssl/certs/ca-certificates.crt

setup_file() {
  [[ ${RELEASE_PACKAGE:-} == *-linux-glibc*.tar.gz ]] || lack 'RELEASE_PACKAGE names no portable package'
  for suite in bullseye bookworm trixie; do need_base "$suite"; done
  [[ -e $why ]] || make_package
}

setup() {
  can_package
  wheels=${RELEASE_PACKAGE%/*}
  machine=${RELEASE_PACKAGE##*-}
  machine=${machine%.tar.gz}
  client=$(echo "$wheels"/voxeld-*-py3-none-any.whl)
  server=$(echo "$wheels"/voxeld_server-*-py3-none-manylinux_2_*_"$machine".whl)
}

teardown_file() { end_emulation; }

# has_python SUITE ARCHITECTURE: makes a Debian with Python, pip and the files of the wheels.
has_python() {
  need_base "$1"
  rm -rf "$debian"
  copy_base "$2"
  "${in_debian[@]}" apt-get -q update
  apt_get install python3-venv python3-pip ca-certificates
  [[ ! -r $authorities ]] || cp -L "$authorities" "$debian$authorities" # the network may have its own authority
  cp "$client" "$server" "$debian/tmp/"
}

# both_on SUITE: tests voxeld --demo and voxeld.Server().
both_on() {
  has_python "$1" "$(dpkg --print-architecture)"
  "${in_debian[@]}" python3 -m venv /opt/fresh
  "${in_debian[@]}" /opt/fresh/bin/pip install --quiet "/tmp/${client##*/}" "/tmp/${server##*/}"
  answers_like_the_build "${in_debian[@]}" /opt/fresh/bin/voxeld --demo
  # Debian 11's libc makes shared memory only on a tmpfs.
  run "${in_debian[@]}" sh -c 'mount -t tmpfs tmpfs /dev/shm && exec "$@"' sh /opt/fresh/bin/python -W error -c '
import numpy, os, voxeld
with voxeld.Server() as server:
    result = server.client().voxelize(numpy.zeros((3, 4), numpy.float32), "kitti_second")
    print(os.readlink(f"/proc/{server.pid}/exe"), "points_region" in result.metadata["parameters"])
'
  echo "$output"
  is "$status" 0
  [[ $output == *site-packages/voxeld_server/bin/voxeld' True' ]]
}

# daemon_on SUITE: tests the daemon of the wheel for arm64.
daemon_on() {
  local tag=${server##*-}
  has_python "$1" arm64
  "${in_debian[@]}" python3 -m pip install --quiet --no-index --no-deps --target /opt/fresh --only-binary=:all: \
    --platform "${tag%.whl}" "/tmp/${server##*/}"
  answers_like_the_build "${in_debian[@]}" /opt/fresh/voxeld_server/bin/voxeld --demo
}

# serves_on SUITE: both_on for this machine's own architecture, else daemon_on.
serves_on() { if [[ $machine == "$(uname -m)" ]]; then both_on "$1"; else daemon_on "$1"; fi; }

@test "the wheels serve with the glibc that they were built with" { serves_on bullseye; }

@test "the wheels serve on Debian 12" { serves_on bookworm; }

@test "the wheels serve on Debian 13" { serves_on trixie; }
