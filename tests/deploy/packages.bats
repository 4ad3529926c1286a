#!/usr/bin/env bats
# What cmake --install and the packages put where; the .deb in a root file system of Debian 12, from its installation to its purge; the
# .tar.gz somewhere else. The daemon that was built serves beside each of them, and must answer with the same bytes.

# shellcheck disable=SC2016,SC2034,SC2154 # ${...} is dpkg-query's too; helpers.bash sets code, body, url and the like, and reads some of them
load ../http/helpers

build=${voxeld%/bin/voxeld}
debian=$BATS_FILE_TMPDIR/debian # the root file system
packages=$BATS_FILE_TMPDIR/packages
scan=$BATS_FILE_TMPDIR/scan

# What is missing here to make packages, if anything.
missing() {
  [[ -e $build/CPackConfig.cmake ]] || { echo 'build tree'; return; }
  for tool in cmake cpack dpkg-shlibdeps file; do
    command -v $tool >/dev/null || { echo $tool; return; }
  done
}

setup_file() {
  [[ -z $(missing) ]] || return 0
  cpack --config "$build/CPackConfig.cmake" -B "$packages"
  "$voxel_scan" --points 20000 --output "$scan"
}

setup() { [[ -z $(missing) ]] || skip "packages are not made here: there is no $(missing)"; }

teardown() { [[ -z ${daemon:-} ]] || kill -KILL "$daemon"; } # that of a test that failed half-way

# --- files ---

# install_at PREFIX: into a folder of the test's own, which it sets as destination.
install_at() {
  destination=$BATS_TEST_TMPDIR/destination
  DESTDIR=$destination cmake --install "$build" --strip --prefix "$1" >"$BATS_TEST_TMPDIR/install.log"
}

# What belongs below a prefix, without bin/ and the like for those that live in /etc.
shared_files() {
  printf '%s\n' bin/voxeld lib/systemd/system/voxeld.service lib/sysusers.d/voxeld.conf share/voxeld/openapi.yaml \
    share/doc/voxeld/README.md share/man/man8/voxeld.8
  (cd "$root" && printf 'share/voxeld/%s\n' config/presets/*.json | sed 's#/config/#/#')
  (cd "$root" && find docs -name '*.md' -printf 'share/doc/voxeld/%P\n')
  [[ ! -e $root/api/c/voxeld_client.h ]] || echo include/voxeld_client.h
}

@test "cmake --install below /usr puts each file where it belongs, and no other" {
  install_at /usr
  is "$(cd "$destination" && find . -type f | sort)" "$(
    { shared_files | sed 's#^#./usr/#'; echo ./etc/voxeld/voxeld.json; } | sort
  )"
  is "$("$destination/usr/bin/voxeld" --version)" "$("$voxeld" --version)"
}

@test "below another prefix the configuration is there too, and the service names it" {
  install_at /opt/voxeld
  is "$(cd "$destination/opt/voxeld" && find . -type f | sort)" "$(
    { shared_files | sed 's#^#./#'; echo ./etc/voxeld/voxeld.json; } | sort
  )"
  is "$(sed -n 's/^ExecStart=//p' "$destination/opt/voxeld/lib/systemd/system/voxeld.service")" \
    '/opt/voxeld/bin/voxeld --config /opt/voxeld/etc/voxeld/voxeld.json'
}

@test "the installed daemon looks for its libraries nowhere but where the system has them, and names no folder of the build" {
  install_at /usr/local
  run readelf -d "$destination/usr/local/bin/voxeld"
  has "$output" '[libmicrohttpd.so'
  [[ $output != *RPATH* && $output != *RUNPATH* ]]
  is "$(grep -cF "$root" "$destination/usr/local/bin/voxeld")" 0
}

@test "a configuration that its operator changed survives another installation" {
  install_at /usr/local
  echo '{"workers": 3}' >"$destination/usr/local/etc/voxeld/voxeld.json"
  install_at /usr/local
  is "$(cat "$destination/usr/local/etc/voxeld/voxeld.json")" '{"workers": 3}'
}

@test "systemd finds nothing wrong with the service, and little that it might do" {
  command -v systemd-analyze >/dev/null || skip 'there is no systemd-analyze here'
  local prefix=$BATS_TEST_TMPDIR/prefix # where the program is, for systemd looks for it
  cmake --install "$build" --prefix "$prefix" >"$BATS_TEST_TMPDIR/install.log"
  run systemd-analyze verify --man=no "$prefix/lib/systemd/system/voxeld.service"
  is "$output" ''
  is "$status" 0
  systemd-analyze security --offline=yes --threshold=25 "$prefix/lib/systemd/system/voxeld.service"
}

# --- answers ---

# tensors: the header without its metadata, which has times in it, and the hash of all that follows.
tensors() { tensor '{k: v for k, v in d.items() if k != "__metadata__"}, __import__("hashlib").sha256(data[8 + size:]).hexdigest()'; }

# answers_like_the_build COMMAND...: it serves on the port of its choice, answers as the build's own daemon does, and SIGTERM ends it with 0.
answers_like_the_build() {
  local program expected
  start_daemon
  post "$scan" preset=kitti_second
  is "$code" 200
  expected=$(tensors)
  stop_daemon
  daemon_log=$BATS_TEST_TMPDIR/log
  VOXELD_LISTEN=127.0.0.1:0 "$@" >/dev/null 2>"$daemon_log" 3>&- &
  daemon=$!
  await started
  address=$(sed -n 's/.*msg=listening address=\([^ ]*\).*/\1/p' "$daemon_log")
  url=http://$address
  [[ -n $address ]] || { cat "$daemon_log"; return 1; }
  post "$scan" preset=kitti_second
  is "$code" 200
  is "$(tensors)" "$expected"
  stop_daemon
}

@test "the .tar.gz serves from where it was unpacked" {
  mkdir "$BATS_TEST_TMPDIR/else where"
  tar -xzf "$packages"/voxeld-*.tar.gz -C "$BATS_TEST_TMPDIR/else where" --strip-components=1
  cd "$BATS_TEST_TMPDIR/else where"
  is "$(find . -type f | sort)" "$({ shared_files | sed 's#^#./#'; echo ./etc/voxeld/voxeld.json; } | sort)"
  is "$(sed -n 's/^ExecStart=//p' lib/systemd/system/voxeld.service)" \
    '/usr/local/bin/voxeld --config /usr/local/etc/voxeld/voxeld.json'
  answers_like_the_build bin/voxeld --config etc/voxeld/voxeld.json
}

# --- Debian ---

# Runs the command that follows there, with a /proc that is gone when the command is.
in_debian=(unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$debian")

# Files and links there, but for what apt, dpkg and the loader keep for themselves and the records of users, which stay.
debian_files() {
  find "$debian" -path "$debian/var/lib/dpkg" -prune -o -path "$debian/var/lib/apt" -prune -o -path "$debian/var/cache" -prune -o \
    -path "$debian/var/log" -prune -o -path "$debian/tmp" -prune -o ! -type d -printf '%P\n' |
    grep -vE '^etc/((passwd|group|shadow|gshadow|subuid|subgid)-?|ld.so.cache|\.pwd\.lock)$' | sort
}

# need_debian: a root file system of Debian; where systemd would be is a stand-in that notes what it is told.
need_debian() {
  local base
  [[ ! -d $debian ]] || return 0
  base=$("$root/tests/deploy/base" 2>"$BATS_TEST_TMPDIR/why") || {
    cat "$BATS_TEST_TMPDIR/why" >&2
    if grep -q '^skipped: ' "$BATS_TEST_TMPDIR/why"; then skip "$(sed -n 's/^skipped: //p' "$BATS_TEST_TMPDIR/why")"; fi
    return 1
  }
  unshare --mount true 2>/dev/null || skip 'this machine lets nobody make mount namespaces'
  cp -a "$base" "$debian.new"
  cp --remove-destination /etc/resolv.conf "$debian.new/etc/resolv.conf"
  mkdir -p "$debian.new/run/systemd/system"
  cat >"$debian.new/usr/bin/systemctl" <<'STANDIN'
#!/bin/sh
echo "$*" >>/run/systemctl.log
wants=/etc/systemd/system/multi-user.target.wants
case "$*" in
*" preset "*) mkdir -p $wants && ln -s /usr/lib/systemd/system/voxeld.service $wants/ ;;
*is-enabled*) test -L $wants/voxeld.service && echo enabled ;;
esac
STANDIN
  chmod +x "$debian.new/usr/bin/systemctl"
  mv "$debian.new" "$debian"
  "${in_debian[@]}" apt-get -q update
}

apt_get() { "${in_debian[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends "$@"; }

# told VERB: how often the stand-in for systemd was told to do this with the service.
told() { grep -cE "(^| )$1 .*voxeld\.service" "$debian/run/systemctl.log"; }

@test "apt installs the .deb with dependencies of Debian alone" {
  need_debian
  debian_files >"$BATS_FILE_TMPDIR/before"
  cp "$packages"/voxeld_*.deb "$debian/tmp/voxeld.deb"
  apt_get install -o DPkg::Options::=--path-include=/usr/share/man/'*' /tmp/voxeld.deb
  is "$("${in_debian[@]}" dpkg-query -W -f '${Status}' voxeld)" 'install ok installed'
  is "$("${in_debian[@]}" dpkg-query -W -f '${Architecture}' voxeld)" "$("${in_debian[@]}" dpkg --print-architecture)"
  is "$("${in_debian[@]}" voxeld --version)" "$("$voxeld" --version)"
  [[ -s $debian/usr/share/man/man8/voxeld.8.gz ]]
  "${in_debian[@]}" getent passwd voxeld
}

@test "the service is enabled and started" {
  need_debian
  [[ -L $debian/etc/systemd/system/multi-user.target.wants/voxeld.service ]]
  is "$(told start)" 1
}

@test "the service's command, as its user, answers as the build does" {
  need_debian
  local unit=$debian/usr/lib/systemd/system/voxeld.service user command
  user=$(sed -n 's/^User=//p' "$unit")
  read -ra command < <(sed -n 's/^ExecStart=//p' "$unit")
  [[ -n $user ]]
  answers_like_the_build "${in_debian[@]}" setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all "${command[@]}"
}

@test "an upgrade keeps the configuration that was edited, and restarts the service" {
  need_debian
  local new=$BATS_TEST_TMPDIR/new
  dpkg-deb -R "$packages"/voxeld_*.deb "$new"
  sed -i 's/^Version: .*/&.1/' "$new/DEBIAN/control"
  sed -i 's/"queue_depth": 1024/"queue_depth": 2048/' "$new/etc/voxeld/voxeld.json"
  dpkg-deb -Zgzip -b "$new" "$debian/tmp/newer.deb"
  sed -i 's/"workers": 0/"workers": 7/' "$debian/etc/voxeld/voxeld.json"
  "${in_debian[@]}" dpkg --force-confdef --force-confold -i /tmp/newer.deb
  grep -q '"workers": 7' "$debian/etc/voxeld/voxeld.json"
  grep -q '"queue_depth": 2048' "$debian/etc/voxeld/voxeld.json.dpkg-dist"
  is "$(told restart)" 1
}

@test "a service that was disabled stays so when it is upgraded" {
  need_debian
  rm "$debian/etc/systemd/system/multi-user.target.wants/voxeld.service"
  "${in_debian[@]}" dpkg --force-confold -i /tmp/newer.deb
  [[ ! -e $debian/etc/systemd/system/multi-user.target.wants/voxeld.service ]]
}

@test "removal stops the service and keeps the configuration; purge leaves nothing" {
  need_debian
  apt_get remove voxeld
  is "$(told stop)" 1
  [[ -e $debian/etc/voxeld/voxeld.json ]]
  mkdir -p "$debian/var/cache/voxeld"
  apt_get purge --autoremove voxeld
  [[ ! -e $debian/var/cache/voxeld && ! -e $debian/etc/voxeld ]]
  diff "$BATS_FILE_TMPDIR/before" <(debian_files | grep -v '^run/systemctl.log$')
}
