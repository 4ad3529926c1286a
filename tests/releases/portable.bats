#!/usr/bin/env bats
# The portable .tar.gz, RELEASE_PACKAGE, unpacked and started on each Debian. Nothing is installed for it, except libc
# if its architecture is not the machine's.

# shellcheck disable=SC2154 # packages.bash sets root, packages, why and the like
load ../deploy/packages
load ../deploy/roots

of_libc='(lib(c|m|dl|rt|pthread)|ld-linux-.*|ld)' # libraries of libc
suites=(bullseye bookworm trixie)
unpacked=$BATS_FILE_TMPDIR/unpacked

setup_file() {
  [[ ${RELEASE_PACKAGE:-} == *-linux-glibc*.tar.gz ]] || lack 'RELEASE_PACKAGE names no portable package'
  for suite in "${suites[@]}"; do need_base "$suite"; done
  [[ ! -e $why ]] || return 0
  make_package
  mkdir "$unpacked"
  tar -xzf "$RELEASE_PACKAGE" -C "$unpacked" --strip-components=1
  openssl req -x509 -newkey ed25519 -nodes -subj /CN=localhost -days 2 -keyout "$unpacked/key" \
    -out "$unpacked/cert" 2>/dev/null
}

setup() { can_package; }

teardown_file() { end_emulation; }

# architecture: prints dpkg's name of the package's architecture.
architecture() {
  case $RELEASE_PACKAGE in
  *-x86_64.tar.gz) echo amd64 ;;
  *-aarch64.tar.gz) echo arm64 ;;
  esac
}

# needed FILE: prints the libraries that FILE needs. libc_versions FILE: prints the versions of libc's symbols in FILE.
needed() { readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }
libc_versions() { readelf -VW "$1" | grep -oE '\bGLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -uV; }

@test "no file needs a libc newer than the package's name says" {
  local file newest libc=${RELEASE_PACKAGE##*-glibc}
  libc=${libc%%-*}
  [[ -n $libc ]]
  for file in "$unpacked"/bin/* "$unpacked"/lib/voxeld/*; do
    newest=$(libc_versions "$file" | tail -n 1)
    echo "$file needs $newest"
    [[ -n $newest ]]
    is "$(printf '%s\n' "$newest" "$libc" | sort -V | tail -n 1)" "$libc"
  done
}

@test "files need only libraries of libc and of the package, and the program needs each of the package's" {
  local file all
  all=$(ls "$unpacked/lib/voxeld")
  for file in "$unpacked"/bin/* "$unpacked"/lib/voxeld/*; do
    is "$(needed "$file" | grep -vE "^$of_libc\.so" | grep -vxF "$all")" ''
  done
  is "$(needed "$unpacked/bin/voxeld" | grep -xF "$all" | sort)" "$(sort <<<"$all")"
  run readelf -d "$unpacked/bin/voxeld"
  # shellcheck disable=SC2016 # the loader expands it
  has "$output" '(RUNPATH)            Library runpath: [$ORIGIN/../lib/voxeld]'
}

@test "the package has each library's licence, and the texts that the licence names" {
  local licences=$unpacked/share/doc/voxeld/libraries library package text
  for library in "$unpacked"/lib/voxeld/*; do
    package=$(sed -n "s/^${library##*/}  \([^ ]*\) .*/\1/p" "$licences/README")
    [[ -s $licences/$package ]]
    while read -r text; do
      echo "$package names $text"
      [[ -s $licences/${text##*/} ]]
    done < <(grep -ohE '/usr/share/common-licenses/[A-Za-z]+(-[0-9.]*[0-9])?' "$licences/$package")
  done
}

# serves_on SUITE: tests that the daemon serves on that Debian, with its own libraries and over TLS, even if the Debian
# has the configuration of a newer GnuTLS.
serves_on() {
  need_base "$1"
  rm -rf "$debian"
  copy_base "$(architecture)"
  mkdir -p "$debian/opt" "$debian/etc/gnutls"
  cp -a "$unpacked" "$debian/opt/vox eld"
  printf '[global]\nnone-of-2020 = true\n[overrides]\ntls-enabled-mac = AEAD\n' >"$debian/etc/gnutls/config"
  local at='/opt/vox eld' loaded
  answers_like_the_build "${in_debian[@]}" "$at/bin/voxeld" --config "$at/etc/voxeld/voxeld.json"
  serve "${in_debian[@]}" "$at/bin/voxeld" --tls-cert "$at/cert" --tls-key "$at/key"
  url=https://${url#http://}
  ask --insecure /readyz
  is "$code" 200
  ask --insecure /v1/status
  is "$(grep -oE '"libmicrohttpd":"[0-9]+\.[0-9]+' "$body")" '"libmicrohttpd":"1.0'
  loaded=$(grep -oE '/[^/]*/[^/]*/[^/]*\.so\.[0-9.]*$' "/proc/$daemon/maps" | sort -u)
  is "$(sed -n 's#^/lib/voxeld/##p' <<<"$loaded")" "$(ls "$unpacked/lib/voxeld")"
  is "$(grep -v '^/lib/voxeld/' <<<"$loaded" | grep -vE "/$of_libc(-2.*)?\.so")" ''
  stop_daemon
}

@test "it serves with the glibc that it was built with" { serves_on bullseye; }

@test "it serves on Debian 12" { serves_on bookworm; }

@test "it serves on Debian 13" { serves_on trixie; }
