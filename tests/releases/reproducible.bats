#!/usr/bin/env bats
# Two builds of one source tree, in different folders and environments and at different times, give the same packages,
# byte for byte. Only the CPU backend is built: nvcc hashes the folder's path into names.

# shellcheck disable=SC2154 # packages.bash sets root and the like
load ../deploy/packages
two=(/dev/shm/voxeld.$$ "$BATS_FILE_TMPDIR/another folder") # on two file systems, which list files in different orders

setup_file() { need_tools cmake cpack dpkg-shlibdeps file git; }
setup() { can_package; }
teardown() { rm -rf "${two[@]}"; }

# copy_to FOLDER: copies the working tree.
copy_to() {
  mkdir -p "$1"
  git -C "$root" ls-files -z --cached --others --exclude-standard | tar -C "$root" -c --null -T - | tar -C "$1" -x
}

# package_in FOLDER SETTING...: makes the packages in FOLDER, with these variables of the environment.
package_in() {
  local folder=$1
  env CCACHE_DISABLE=1 SOURCE_DATE_EPOCH="$(git -C "$root" log -1 --format=%ct)" "${@:2}" \
    "$folder/dev" package -D VOXELD_CUDA=OFF
}

@test "two builds give the same packages" {
  (umask 022 && copy_to "${two[0]}")
  (umask 077 && copy_to "${two[1]}")
  (umask 022 && package_in "${two[0]}" TZ=UTC LC_ALL=C.UTF-8)
  (umask 077 && package_in "${two[1]}" TZ=Asia/Kathmandu LC_ALL=C)
  is "$(ls "${two[0]}/build/packages")" "$(ls "${two[1]}/build/packages")"
  for package in "${two[0]}"/build/packages/*; do
    echo "# $(sha256sum "$package" | cut -c 1-16) $(stat -c %s "$package") ${package##*/}" >&3
    cmp "$package" "${two[1]}/build/packages/${package##*/}"
  done
}
