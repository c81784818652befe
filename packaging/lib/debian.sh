# Debian's packages, downloaded and unpacked below target, never installed: a glibc for the image,
# and a Rust compiler with the standard library of another architecture.
# shellcheck shell=bash

# The newest stable glibc runs programs that were linked to an older one.
readonly debian=${PLEG_DIST_DEBIAN:-trixie}
readonly debian_packages=$PWD/target/packaging/debian-$debian

# apt with its own sources, lists and package states: neither this machine's pins nor its installed
# packages influence the choice.
private_apt() {
    local state=$debian_packages/apt
    apt-get -qq \
        -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
        -o Dir::State::Lists="$state/lists" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
        -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o APT::Architectures::=arm64 \
        -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Update::Error-Mode=any \
        -o APT::Sandbox::User=root -o APT::Install-Recommends=false -o Debug::NoLocking=true "$@"
}

# Downloads the lists of packages. On failure, prints the reason on standard output.
fetch_lists() {
    local state=$debian_packages/apt keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    if ! command -v apt-get >/dev/null || [ ! -e "$keyring" ]; then
        echo "it needs apt-get and debian-archive-keyring"
        return 1
    fi
    [ -e "$state/complete" ] && return
    mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
    : >"$state/status"
    cat >"$state/sources.list" <<SOURCES
deb [signed-by=$keyring] http://deb.debian.org/debian $debian main
deb [signed-by=$keyring] http://deb.debian.org/debian $debian-backports main
deb [signed-by=$keyring] http://deb.debian.org/debian-security $debian-security main
SOURCES
    if ! private_apt update >&2; then
        echo "the package lists of Debian's $debian could not be fetched"
        return 1
    fi
    touch "$state/complete"
}

# download FOLDER PACKAGE...
download() {
    mkdir -p "$1" && (cd "$1" && shift && private_apt download "$@" >&2)
}

# --- A glibc for the image

glibc_of() { echo "$debian_packages/glibc-$1"; }

# Downloads the packages of glibc for an architecture. On failure, prints the reason on standard
# output.
fetch_glibc() {
    local folder base
    folder=$(glibc_of "$1")
    [ -e "$folder/complete" ] && return
    fetch_lists || return 1
    # The copyright of libgcc-s1 is in the package gcc-*-base of the same version.
    if ! download "$folder" "libc6:$1" "libgcc-s1:$1" ||
        ! base=$(dpkg-deb -f "$folder"/libgcc-s1_*.deb Depends | grep -o 'gcc-[0-9]*-base') ||
        ! download "$folder" "$base:$1"; then
        echo "libc6 and libgcc-s1 could not be downloaded from Debian's $debian"
        return 1
    fi
    touch "$folder/complete"
}

# --- A Rust compiler

fetched_rustc() { echo "$debian_packages/rust/rustc"; }

# Fetches Debian's compiler for amd64, which runs with the libraries that it was built for; they
# may differ from this machine's. It links with this machine's linkers. On failure, prints the
# reason on standard output.
fetch_rustc() {
    local folder=$debian_packages/rust backports=$debian-backports package
    [ -e "$folder/has-$1" ] && return
    if [ "$(dpkg --print-architecture 2>/dev/null)" != amd64 ]; then
        echo "Debian's compiler is fetched on amd64 alone"
        return 1
    fi
    fetch_lists || return 1
    # All parts of the compiler except the program that calls it, with their dependencies.
    if ! private_apt install -y --download-only -t "$backports" libstd-rust-dev >&2 ||
        ! mkdir -p "$folder/packages" "$folder/tree" ||
        ! mv "$debian_packages"/apt/cache/archives/*.deb "$folder/packages" ||
        ! download "$folder/packages" "rustc/$backports" "libstd-rust-dev:$1/$backports"; then
        echo "rustc and libstd-rust-dev:$1 could not be downloaded from Debian's $backports"
        return 1
    fi
    for package in "$folder"/packages/*.deb; do
        dpkg -x "$package" "$folder/tree"
    done
    rm -rf "$folder/packages"
    cat >"$folder/rustc" <<WRAPPER
#!/bin/sh
libraries=$folder/tree/usr/lib/x86_64-linux-gnu
exec "\$libraries/ld-linux-x86-64.so.2" --library-path "\$libraries" \\
    $folder/tree/usr/bin/rustc --sysroot $folder/tree/usr "\$@"
WRAPPER
    chmod +x "$folder/rustc"
    touch "$folder/has-$1"
}
