#!/usr/bin/env bats
# Which files cmake --install puts where, and the .tar.gz: its daemon must answer with the build's bytes.

# shellcheck disable=SC2154 # packages.bash sets root, build, packages, why and the like
load packages

setup_file() {
  need_tools cmake cpack
  [[ -e $why ]] || make_package TGZ
}

setup() { can_package; }

# install_at PREFIX [OPTION...]: installs into the folder `destination`, which it sets.
install_at() {
  destination=$BATS_TEST_TMPDIR/destination
  DESTDIR=$destination cmake --install "$build" --strip --prefix "$@" >"$BATS_TEST_TMPDIR/install.log"
}

# Lists the files that belong below a prefix.
shared_files() {
  printf '%s\n' bin/voxeld lib/systemd/system/voxeld.service lib/sysusers.d/voxeld.conf share/voxeld/openapi.yaml \
    include/voxeld_client.h share/man/man8/voxeld.8 share/doc/voxeld/{README,CHANGELOG,CONTRIBUTING}.md \
    share/doc/voxeld/copyright share/doc/voxeld/examples/{haproxy.cfg,detect.c,sensor.c}
  (cd "$root" && printf 'share/voxeld/%s\n' config/presets/*.json | sed 's#/config/#/#')
  (cd "$root" && find models -type f ! -name README.md -printf 'share/voxeld/%p\n')
  (cd "$root" && find docs -type f -printf 'share/doc/voxeld/%p\n')
  (cd "$root/docker" && find kubernetes -type f -printf 'share/doc/voxeld/examples/%p\n')
}

@test "cmake --install below /usr puts each file where it belongs, and no other" {
  install_at /usr
  is "$(cd "$destination" && find . -type f | sort)" "$(
    { shared_files | sed 's#^#./usr/#'; echo ./etc/voxeld/voxeld.json; } | sort
  )"
  is "$("$destination/usr/bin/voxeld" --version)" "$("$voxeld" --version)"
}

@test "the component daemon is the program, its configuration and what it serves" {
  install_at /usr --component daemon
  is "$(cd "$destination" && find . -type f | sort)" "$(
    { shared_files | grep -E '^(bin|share/voxeld)/' | sed 's#^#./usr/#'; echo ./etc/voxeld/voxeld.json; } | sort
  )"
}

@test "below another prefix the configuration is there too, and the service names it" {
  install_at /opt/voxeld
  is "$(cd "$destination/opt/voxeld" && find . -type f | sort)" "$(
    { shared_files | sed 's#^#./#'; echo ./etc/voxeld/voxeld.json; } | sort
  )"
  is "$(sed -n 's/^ExecStart=//p' "$destination/opt/voxeld/lib/systemd/system/voxeld.service")" \
    '/opt/voxeld/bin/voxeld --config /opt/voxeld/etc/voxeld/voxeld.json'
}

@test "the installed daemon loads the system's libraries, and names no folder of the build" {
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

@test "systemd-analyze finds no fault in the service, and rates its exposure at 2.5 or less" {
  local version prefix=$BATS_TEST_TMPDIR/prefix # without DESTDIR: systemd looks for the program
  cmake --install "$build" --prefix "$prefix" >"$BATS_TEST_TMPDIR/install.log"
  # --drain-timeout-s limits the stop.
  is "$(sed -n 's/^TimeoutStopSec=//p' "$prefix/lib/systemd/system/voxeld.service")" infinity
  command -v systemd-analyze >/dev/null || skip 'there is no systemd-analyze here'
  version=$(systemd-analyze --version | sed -n 's/^systemd \([0-9]*\).*/\1/p')
  ((version >= 250)) || skip "systemd before version 250 cannot check a unit offline"
  run systemd-analyze verify --man=no "$prefix/lib/systemd/system/voxeld.service"
  is "$output" ''
  is "$status" 0
  systemd-analyze security --offline=yes --threshold=25 "$prefix/lib/systemd/system/voxeld.service"
}

@test "apt takes a later Debian's package for newer, one with CUDA for newer still, the next version for newest" {
  command -v dpkg >/dev/null || skip 'there is no dpkg here'
  local n order=(0.1.0~deb12 0.1.0~deb13 0.1.0+cuda12~deb13 0.1.0+cuda13~deb12 0.1.0+cuda13~deb13 0.1.1~deb12)
  for ((n = 1; n < ${#order[@]}; n++)); do dpkg --compare-versions "${order[n - 1]}" lt "${order[n]}"; done
  local version platform
  version=$("$voxeld" --version | sed 's/^voxeld //')
  platform=$(. /etc/os-release && echo "${ID/debian/deb}${VERSION_ID:-$VERSION_CODENAME}")
  is "$(sed -n 's/^set(CPACK_DEBIAN_PACKAGE_VERSION "\(.*\)")/\1/p' "$build/CPackConfig.cmake" |
    sed 's/+cuda[0-9]*//')" "$version~$platform"
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
