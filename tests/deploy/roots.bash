# shellcheck shell=bash
# shellcheck disable=SC2016,SC2034,SC2154 # packages.bash sets root and the like; the tests use what is set here
# What debian.bats and portable.bats share: a root file system of Debian, and programs that run in it, those for arm64
# by qemu.
#
# binfmt_misc tells the kernel how to run foreign programs. It is mounted in a user namespace, and what is registered
# there holds only in that namespace. A sleeping process keeps the namespace.

debian=$BATS_FILE_TMPDIR/debian # a test's copy
keeper=$BATS_FILE_TMPDIR/keeper # has the id of the process that keeps the namespace, if there is one

# need_base SUITE: sets base, the path of a fresh Debian.
need_base() {
  unshare --mount true 2>/dev/null || lack 'this machine lets nobody make mount namespaces'
  local log=$BATS_FILE_TMPDIR/base.log status=0
  base=$("$root/tests/platform/base" "$1" 2>"$log") || status=$?
  ((status != 77)) || lack "$(sed -n 's/^skipped: //p' "$log")"
  ((status == 0 || status == 77)) || { cat "$log" >&2; return 1; }
}

# Sets in_debian: `"${in_debian[@]}" COMMAND` runs the command in the Debian, with a /proc that ends with the command.
enter_debian() {
  local namespace=(unshare --mount)
  [[ ! -e $keeper ]] || namespace=(nsenter --user --mount --target "$(<"$keeper")" "${namespace[@]}")
  in_debian=("${namespace[@]}" sh -c 'mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"' "$debian")
}
enter_debian

apt_get() { "${in_debian[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends "$@"; }

# copy_base ARCHITECTURE: copies the base and gives it access to the network; for another architecture, qemu and libc.
copy_base() {
  cp -a "$base" "$debian"
  cp --remove-destination -L /etc/resolv.conf "$debian/etc/resolv.conf"
  [[ $1 != "$(dpkg --print-architecture)" ]] || return 0
  emulate "$1"
  "${in_debian[@]}" dpkg --add-architecture "$1"
  "${in_debian[@]}" apt-get -q update
  apt_get install "libc6:$1" "libcrypt1:$1" # a purge leaves both
}

# emulate ARCHITECTURE: makes the Debian run programs for it. The package of qemu is only unpacked: installed, it
# would register itself with the host's kernel.
emulate() {
  local qemu=$root/build/platform/qemu
  [[ $1 == arm64 ]] || { lack "nothing here runs programs for $1"; return; }
  if [[ ! -x $qemu/usr/bin/qemu-aarch64-static ]]; then
    mkdir -p "$qemu"
    (cd "$qemu" && apt-get -q download qemu-user-static && dpkg -x qemu-user-static_*.deb .)
  fi
  end_emulation
  unshare --user --mount sleep infinity 3>&- &
  echo $! >"$keeper"
  await in_own_namespace $!
  echo 0 0 4294967295 | tee "/proc/$!/uid_map" >"/proc/$!/gid_map"
  # An ELF file has the number of its machine at offset 18; arm64 is 183.
  nsenter --user --mount --target $! sh -ec 'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf %s ":arm64:M:18:\xb7\x00::$0:F" >/proc/sys/fs/binfmt_misc/register' "$qemu/usr/bin/qemu-aarch64-static"
  enter_debian
}

in_own_namespace() { [[ $(readlink "/proc/$1/ns/user") != "$(readlink /proc/self/ns/user)" ]]; }

# To be called by teardown_file.
end_emulation() { [[ ! -e $keeper ]] || kill "$(<"$keeper")"; }
