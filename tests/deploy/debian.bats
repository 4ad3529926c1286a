#!/usr/bin/env bats
# The .deb in a root file system of Debian, from installation to purge. setup_file installs the package; the tests go on
# with the Debian that the test before left. The package is the build's, or RELEASE_PACKAGE. The Debian is of this
# machine's release, or of RELEASE_SUITE. Programs of a package for arm64 run under qemu, beside packages of the
# machine's own architecture.

# shellcheck disable=SC2016,SC2154 # ${...} is dpkg-query's too; packages.bash sets root, packages, why and the like
load packages
load roots

# Lists the files and links in the Debian, except the records of apt, dpkg, the loader and users, which a purge leaves.
debian_files() {
  find "$debian" -path "$debian/var/lib/dpkg" -prune -o -path "$debian/var/lib/apt" -prune -o \
    -path "$debian/var/cache" -prune -o -path "$debian/var/log" -prune -o -path "$debian/tmp" -prune -o \
    ! -type d -printf '%P\n' |
    grep -vE '^etc/((passwd|group|shadow|gshadow|subuid|subgid)-?|ld.so.cache|\.pwd\.lock)$' | sort
}

# Makes the Debian, with a stand-in for systemctl that writes its arguments to a log.
make_debian() {
  copy_base "$(architecture)"
  mkdir -p "$debian/run/systemd/system"
  cat >"$debian/usr/bin/systemctl" <<'STANDIN'
#!/bin/sh
echo "$*" >>/run/systemctl.log
wants=/etc/systemd/system/multi-user.target.wants
case "$*" in
*" preset "*) mkdir -p $wants && ln -s /usr/lib/systemd/system/voxeld.service $wants/ ;;
*is-enabled*) test -L $wants/voxeld.service && echo enabled ;;
esac
STANDIN
  chmod +x "$debian/usr/bin/systemctl"
  "${in_debian[@]}" apt-get -q update
  apt_get install "libidn2-0:$(architecture)" # libc recommends it, so a purge leaves it
}

architecture() { dpkg-deb -f "$packages"/voxeld_*.deb Architecture; }

# Makes newer.deb: a later version, with another configuration.
make_newer() {
  local new=$BATS_FILE_TMPDIR/new
  dpkg-deb -R "$debian/tmp/voxeld.deb" "$new"
  sed -i 's/^Version: .*/&.1/' "$new/DEBIAN/control"
  sed -i 's/"queue_depth": 1024/"queue_depth": 2048/' "$new/etc/voxeld/voxeld.json"
  dpkg-deb -Zgzip -b "$new" "$debian/tmp/newer.deb"
}

setup_file() {
  need_tools cmake cpack dpkg-shlibdeps file
  need_base "${RELEASE_SUITE:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}"
  [[ ! -e $why ]] || return 0
  make_package DEB
  make_debian
  debian_files >"$BATS_FILE_TMPDIR/before"
  cp "$packages"/voxeld_*.deb "$debian/tmp/voxeld.deb"
  make_newer
  apt_get install -o DPkg::Options::=--path-include=/usr/share/man/'*' /tmp/voxeld.deb
}

teardown_file() { end_emulation; }

setup() { can_package; }

# told VERB: prints how often systemctl got this verb for the service.
told() { grep -cE "(^| )$1 .*voxeld\.service" "$debian/run/systemctl.log"; }

@test "apt installs the .deb with dependencies only from Debian" {
  is "$("${in_debian[@]}" dpkg-query -W -f '${Status}' voxeld)" 'install ok installed'
  is "$("${in_debian[@]}" dpkg-query -W -f '${Architecture}' voxeld)" "$(architecture)"
  is "$("${in_debian[@]}" voxeld --version)" "$("$voxeld" --version)"
  is "$("${in_debian[@]}" dpkg-query -W -f '${Homepage}' voxeld)" \
    "$(sed -n 's/^project(voxeld .* HOMEPAGE_URL \([^ ]*\) .*/\1/p' "$root/CMakeLists.txt")"
  [[ $("${in_debian[@]}" dpkg-query -W -f '${Maintainer}' voxeld) == *' <'*@*'>' ]]
  [[ -s $debian/usr/share/man/man8/voxeld.8.gz ]]
  "${in_debian[@]}" getent passwd voxeld
}

@test "lintian, which also looks for a changelog and a copyright, finds no error and no warning" {
  command -v lintian >/dev/null || skip 'there is no lintian here'
  lintian --allow-root --fail-on error,warning "$packages"/voxeld_*.deb
}

@test "the service is enabled and started" {
  [[ -L $debian/etc/systemd/system/multi-user.target.wants/voxeld.service ]]
  is "$(told start)" 1
}

@test "the service's command, as its user, answers as the build does" {
  local unit=$debian/usr/lib/systemd/system/voxeld.service user command
  user=$(sed -n 's/^User=//p' "$unit")
  read -ra command < <(sed -n 's/^ExecStart=//p' "$unit")
  [[ -n $user ]]
  answers_like_the_build "${in_debian[@]}" \
    setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs --bounding-set=-all "${command[@]}"
}

@test "an upgrade keeps the configuration that was edited, and restarts the service" {
  sed -i 's/"workers": 0/"workers": 7/' "$debian/etc/voxeld/voxeld.json"
  "${in_debian[@]}" dpkg --force-confdef --force-confold -i /tmp/newer.deb
  grep -q '"workers": 7' "$debian/etc/voxeld/voxeld.json"
  grep -q '"queue_depth": 2048' "$debian/etc/voxeld/voxeld.json.dpkg-dist"
  is "$(told restart)" 1
}

@test "a service that was disabled stays so when it is upgraded" {
  "${in_debian[@]}" dpkg --force-confold --force-downgrade -i /tmp/voxeld.deb
  rm "$debian/etc/systemd/system/multi-user.target.wants/voxeld.service"
  "${in_debian[@]}" dpkg --force-confold -i /tmp/newer.deb
  [[ ! -e $debian/etc/systemd/system/multi-user.target.wants/voxeld.service ]]
}

@test "removal stops the service and keeps the configuration; purge leaves nothing" {
  apt_get remove "voxeld:$(architecture)"
  is "$(told stop)" 1
  [[ -e $debian/etc/voxeld/voxeld.json ]]
  mkdir -p "$debian/var/cache/voxeld"
  apt_get purge --autoremove "voxeld:$(architecture)"
  [[ ! -e $debian/var/cache/voxeld && ! -e $debian/etc/voxeld ]]
  diff "$BATS_FILE_TMPDIR/before" <(debian_files | grep -v '^run/systemctl.log$')
}
